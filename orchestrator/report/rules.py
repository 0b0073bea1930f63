"""Rules that excuse a break of a promise, as a reader meets them who does not know their names."""

from __future__ import annotations

from orchestrator.invariants.registry import INVARIANTS

BECAUSE = {
    "acks<=1": "the record was sent with acks=0 or acks=1",
    "away": "the replica's process had ended",
    "began-behind": "the former leader's log began behind the transaction",
    "below-min-isr": "the ISR is smaller than min.insync.replicas",
    "clock": "a fault changed the node's clock, or stopped the node",
    "consumer-refreshes": "the consumer asked for metadata first",
    "copy-gone": "the copy with that record was deleted, and the log start had not moved",
    "crash": "the process ended between the write and its record in the trace",
    "deleted": "the leader had deleted the records that the consumer had read",
    "deleted-by-another": "the next leader had deleted the copy",
    "deleted-meanwhile": "the position was deleted while the consumer waited",
    "deleted-by-former": "a former leader had deleted the copy",
    "deletion-begun": "the deletion of its copy had begun and not ended",
    "disk-lost": "a voter's disk lost the record",
    "dropped-since": "the copy was deleted before, and local retention dropped the record",
    "epoch-bump": "the producer raised its epoch",
    "epoch-shared": "an earlier transaction had the same epoch",
    "fenced": "the former owner was removed from the group",
    "fenced-static-member": "a static member had rejoined under another id",
    "few-in-sync": "the ISR is smaller than min.insync.replicas",
    "given-up": "the send had failed",
    "isr-away": "replicas that were needed were away",
    "kafka-7408": "the feature kafka-7408 lets a new leader truncate",
    "kafka-7408-off": "the feature kafka-7408 is off",
    "last-member": "the last member stays in the ISR",
    "late-heartbeat": "an earlier heartbeat that requested it arrived late",
    "late-object": "a former leader's object came after the deletion had begun",
    "late-push": "a delayed UpdateMetadata replaced a newer one",
    "leader-away": "the leader was away",
    "log-start-moved": "the log start moved while remote storage was searched",
    "log-start-unheard": "the new leader had not heard of the log start",
    "log-start-went-back": "a restart lost the log start",
    "lost-decisions": "the transaction log lost the end of a transaction",
    "loss-budget": "disks lost more than replication can replace",
    "marker-of-former": "an earlier transaction had the same epoch",
    "metadata-lost": "the metadata of copies had lost records",
    "never-copied": "a restart lost the log start, and the record had been deleted uncopied",
    "new-leader": "the new leader's high watermark was still behind",
    "no-broker-epoch": "the fetches have no broker epoch",
    "no-epoch": "the client is older than the epochs",
    "no-idempotence": "the producer is not idempotent",
    "no-leader-epoch": "the fetches have no leader epoch",
    "no-producer-state": "the log has no record of the producer",
    "not-validated": "the position could not be validated",
    "offsets-of-removed-topic": "the producer asked again and again to commit offsets of a removed topic",
    "old-checkpoint": "the checkpoint was from before the disk lost the log",
    "old-peer": "a voter does not support PreVote",
    "older-epoch-reaches": "the leader has no record of the consumer's epoch",
    "orphaned": "its copier went down or was replaced, or the topic was deleted",
    "outdated-list": "the store's list of its objects was out of date",
    "remote-store-away": "the remote store was out of reach",
    "removed-topic": "an operator removed the topic",
    "renumbered": "the producer gave numbers of failed batches to others",
    "restarted": "the replica was restarted before its log start was in the checkpoint",
    "silent-brokers": "several brokers did not answer",
    "silent-nodes": "several nodes did not answer",
    "stale-leader": "a former leader answered",
    "static": "a static member did not rejoin in time",
    "taken-back": "the write of the earlier step had timed out",
    "topic-forgotten": "an answer lacked the topic",
    "turned-away": "its group had no place for it",
    "unclean-election": "an unclean election gave up records",
    "unclean-enabled": "unclean elections are on",
    "untold": "its copier could not report in time that the copy was complete",
    "unverified": "the verification of transactions is off",
    "wiped": "a disk was wiped",
    "zombie": "a replaced coordinator answered",
}
"""Name of a rule -> why it excuses a break, in a few words."""


def because(rule: str) -> str:
    """Why a rule excuses a break, in a few words."""
    return BECAUSE.get(rule, rule)


def in_full(invariant: str, rule: str) -> str:
    """A rule by its name in docs/invariants.md, and when it excuses a break of this promise, without a full stop."""
    known = INVARIANTS.get(invariant)
    meaning = known.exemptions.get(rule, "") if known is not None else ""
    return f"rule {rule}: {meaning.rstrip('.') or because(rule)}"


def in_short(rule: str) -> str:
    """The same where it was told in full before."""
    return f"rule {rule}: {because(rule)}"
