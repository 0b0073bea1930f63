"""The checks bite: each defect makes the invariant that is meant for it fail, in a run that holds it without."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from actors.defects.catalogue import DEFECTS
from actors.sim.world import World
from actors.trace.events import RunMeta
from chaos.conductor import ScenarioConductor
from chaos.incidents import library
from chaos.must_happen import happened
from chaos.plan import Plan
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from orchestrator.cli.main import main
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.folds.fold import Finding
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.repeats import repeat
from orchestrator.runner import REPEAT, repeat_result
from orchestrator.sim_run import run_in_sim
from orchestrator.verdict import InvariantVerdict, Violation

ROOT = Path(__file__).parents[2]
SCENARIOS = Path(__file__).parent / "defects"
LIMIT_US = 600_000_000


class Proof(msgspec.Struct, frozen=True):
    """Where a defect shows. scenario: of tests/scenario/defects, or "incident/variant" of the library. says: what the
    evidence must say."""

    scenario: str
    says: str
    seeds: tuple[int, ...] = (1,)


PROOFS: dict[str, Proof] = {
    "epoch-not-durable": Proof(
        "metadata-epochs", r"minted metadata epoch 1 in controller epoch \d+, which controller-"
    ),
    "every-answer-renames": Proof("stale-broker", r"took over leader epoch \d+ of orders-0 from broker-3 although it"),
    "older-epoch-accepted": Proof(
        "kip-232-rolling-bounce/seed",
        r"accepted metadata epoch \d+ from broker-\d although its own metadata had epoch \d+",
    ),
    "wait-ends-with-any-metadata": Proof(
        "kip-232-external-offsets/seed", r"for metadata epoch \d+ ended as reached, but its metadata"
    ),
    "seeks-without-waiting": Proof(
        "kip-232-external-offsets/seed", r"seeks to the external offset \d+ of orders-0, stored with metadata epoch \d+"
    ),
    "vote-before-sync": Proof("quorum", r"granted its vote in epoch \d+ to \S+ before the vote was on its disk"),
    "double-vote": Proof("quorum", r"granted its vote in epoch \d+ to \S+ after it had granted it to \S+"),
    "pre-vote-is-stored": Proof("divided", r"stored a vote for \S+ in epoch \d+, but it granted no vote"),
    "standing-forgets-vote": Proof("no-winner", r"lost its vote for \S+ in epoch \d+ although it knows"),
    "removed-leader-stays": Proof("voter-changes", r"after its own removal from the voters was committed"),
    "no-check-quorum": Proof("divided", r"controller-\d still led epoch 1 5 s after the last time that a majority"),
    "check-quorum-counts-observers": Proof(
        "heard-by-brokers", r"still led epoch 1 \d+ s after the last time that a majority"
    ),
    "leader-counts-unflushed": Proof(
        "slow-leader-disk", r"high watermark to \d+; of the 3 voters, \S+ had the log on disk"
    ),
    "flush-end-inclusive": Proof("quorum", r"has the metadata log on its disk up to \d+, but its log ends at \d+"),
    "leader-counts-sent": Proof("quorum", r"high watermark to \d+ counting \S+, which had fetched only up to \d+ in"),
    "same-epoch-leader": Proof("quorum", r"leader of quorum epoch \d+ is \S+ according to \S+, and \S+ according"),
    "vote-for-any": Proof("stale-voter", r"granted \S+ its vote in epoch \d+, whose log ends at"),
    "pre-vote-while-followed": Proof("divided", r"granted controller-\d a pre-vote .*, which has answered it", (3,)),
    "prospective-refuses": Proof(
        "divided", r"refused controller-\d a pre-vote in epoch \d+; the candidate's log ends at"
    ),
    "epoch-reset": Proof("quorum", r"stored epoch 0 while its disk had epoch \d+"),
    "fetch-in-leader-epoch": Proof("quorum", r"hold offset \d+ of __cluster_metadata-0 in leader epoch \d+, but"),
    "divergence-unseen": Proof("own-tail", r"hold offset \d+ of __cluster_metadata-0 in leader epoch 2"),
    "commit-old-epoch": Proof("old-epoch", r"moved its high watermark to \d+, past an entry of epoch \d+ but past no"),
    "quorum-hw-regress": Proof(
        "quorum", r"high watermark of the metadata log .*below \d+, the high watermark of", (1, 3)
    ),
    "half-elects": Proof(
        "four-voters", r"leads epoch \d+ with the votes of \S+, \S+; that is no majority of the 4 voters"
    ),
    "vote-by-epoch": Proof(
        "rejoins", r"controller-2 leads .* but lacks records that controller-1 committed, up to \d+"
    ),
    "apply-uncommitted": Proof("divided", r"applied the metadata log up to \d+ .* its high watermark was \d+"),
    "leader-resumes": Proof("divided", r"leads epoch \d+ after a restart, although it had led epoch \d+"),
    "snapshot-id-inclusive": Proof(
        "snapshots", r"made a snapshot up to \d+ that differs from the committed entries up to"
    ),
    "snapshot-of-log-end": Proof(
        "snapshots", r"made a snapshot up to \d+ while the metadata log was committed only up to \d+"
    ),
    "snapshots-not-made": Proof(
        "snapshots-by-size", r"had applied \d+ bytes of the metadata log up to \d+ without a snapshot, and made none"
    ),
    "snapshots-of-any-size": Proof(
        "snapshots-go", r"kept its snapshot up to \d+, although log and snapshots had [1-9][\d,]+ bytes"
    ),
    "snapshots-of-any-age": Proof(
        "snapshots-go", r"deleted its snapshot up to \d+, although .* that one was [\d,]+ ms old \(\S+ is 604,800,000\)"
    ),
    "voter-changes-overlap": Proof(
        "voter-changes", r"wrote a voter set at \d+ while the previous one, at \d+, was not"
    ),
    "logged-voters-unread": Proof(
        "voter-restarts", r"controller-\d has a voter set in its log at \d+, but goes by that of its format"
    ),
    "formatted-voters-unwritten": Proof(
        "voter-restarts", r"controller-\d began epoch 1 at 0 without writing down the voter set that it was formatted"
    ),
    "voters-unread": Proof("unread", r"adds controller-\d, whose log has never had a record of leader epoch \d+"),
    "removed-leader-counts": Proof("voter-changes", r"(controller-\d), leader .* counting .*\1.*; the voters are"),
    "observer-stands": Proof("divided", r"broker-\d became prospective in epoch \d+, but is none of the voters"),
    "no-op-records-unwritten": Proof(
        "quiet", r"the active controller, appended nothing to the metadata log for [\d,]+ ms, not even a no-op record"
    ),
    "append-in-resignation": Proof(
        "divided", r"appended to the metadata log as leader of epoch 1, but it does not lead"
    ),
    "quorum-fetch-unfenced": Proof("own-tail", r"counted a fetch that controller-\d made in epoch \d+"),
    "any-cluster-served": Proof("stranger", r"counted a fetch by controller-3, which belongs to another cluster"),
    "diverging-epoch-start": Proof("divided", r"epoch 1 up to 0; the right answer is epoch 1 up to \d+"),
    "voters-before-commit": Proof(
        "undone-change", r"add-voter of controller-4 is done, at offset \d+ of .* but no leader had committed"
    ),
    "reply-before-commit": Proof(
        "comes-back", r"the ISR \[1, 2, 3\] that broker-\d proposed for orders-0, at offset \d+ of .* no", (2,)
    ),
    "any-leader-will-do": Proof(
        "asks-for-preferred", r"was told that orders-0 needs no election, although no controller"
    ),
    "unheld-election-confirmed": Proof(
        "waits-for-preferred", r"that elect-leaders of orders-0 is done, but no leader had written such a record"
    ),
    "pre-vote-for-all": Proof(
        "rejoins", r"became \S+ in epoch 2 while controller-1, leader of epoch 1, had a majority"
    ),
    "voters-of-old": Proof(
        "undone-change", r"was not adopted by every voter within .*: .*controller-3 still has \S+, \S+, \S+$"
    ),
    "asks-to-join-once": Proof(
        "joins-again", r"controller-4 is to become a voter by itself, and has not within .*controller-\d led in epoch 1"
    ),
    "voters-outlive-their-record": Proof(
        "undone-change", r"\w+-\d goes by the voter set at \d+, although its log ends at \d+"
    ),
    "stale-leader-epoch": Proof(
        "out-of-sync", r"gave leader epoch 0 of orders-0 to broker-\d, but broker-\d already had it"
    ),
    "partition-epoch-stands": Proof(
        "out-of-sync", r"changed orders-0 \(alter-isr\): partition epoch \d+ follows partition epoch \d+"
    ),
    "leader-epoch-with-isr": Proof(
        "out-of-sync",
        r"changed orders-0 \(alter-isr\): leader epoch 1 follows leader epoch 0, although broker-\d stays",
    ),
    "follower-reorders-batch": Proof(
        "out-of-sync", r"hold offset \d+ of orders-0 in leader epoch 0, but their logs differ"
    ),
    "elect-any-replica": Proof(
        "out-of-sync", r"broker-2 leads orders-0 .* but lacks records that broker-1 committed, up to"
    ),
    "epoch-starts-at-watermark": Proof(
        "late-follower", r"proposed broker-2 for the ISR .*it had to reach .*the epoch's start [1-9][\d,]+"
    ),
    "isr-without-epoch-start": Proof(
        "late-follower", r"proposed broker-2 for the ISR .*it had to reach .*the epoch's start \d+"
    ),
    "isr-with-the-fenced": Proof("stale-broker", r"proposed broker-3 .* fences that broker or begins its shutdown"),
    "clean-start-after-crash": Proof("lost-tail", r"broker-2 came back to orders-0 and may be elected, but it has"),
    "isr-below-hw": Proof(
        "fell-behind", r"broker-2 may be elected for orders-0 .* the committed records only up to \d+, not"
    ),
    "hw-of-the-caught-up": Proof("out-of-sync", r"counting \[1.*\], but not broker-\d, which may be elected"),
    "isr-without-version": Proof("isr-race", r"but broker-1 had proposed that for partition epoch 0 of leader"),
    "fenced-at-half-time": Proof("comes-back", r"fenced broker-\d \d+ ms after the last heartbeat; the session"),
    "id-of-the-living": Proof("acks-1", r"registered broker-\d/\d in place of broker-\d/\d \d+ ms after"),
    "change-made-and-refused": Proof(
        "isr-race", r"was told NEW_LEADER_ELECTED .* but no controller made a newer leader"
    ),
    "ineligible-while-others-are": Proof(
        "stale-broker", r"was told INELIGIBLE_REPLICA .* but no controller had fenced a"
    ),
    "shutdown-unregistered": Proof(
        "lost-tail", r"took broker-1 out of orders-0 for its controlled shutdown, but had not registered it as shutting"
    ),
    "shutdown-unasked": Proof(
        "two-lives", r"broker-3/0, which knew that it was unfenced, stopped in good order before any controller"
    ),
    "stale-looked-for-once": Proof(
        "silent-broker", r"controller-1 has not fenced broker-2/0 \d+ ms after the last sign of it; the session timeout"
    ),
    "broker-beats-rarely": Proof(
        "silent-broker", r"fenced broker-\d/\d, which sent no heartbeat in the \d+ ms after one was answered, though"
    ),
    "session-outlives-shutdown": Proof(
        "two-lives", r"refused broker-3/1 as a second process, although it had let the one before it go"
    ),
    "let-go-while-leading": Proof(
        "shutdown-told-late", r"fenced broker-1/0, which asked to stop, although it still led orders-0"
    ),
    "let-go-unheard": Proof(
        "shutdown-told-late",
        r"fenced broker-1/0, which asked to stop, although broker-3 had not applied the metadata log",
    ),
    "shutdown-offset-moves": Proof(
        "shutdown-told-late", r"did not let broker-1/0 stop, although it leads nothing, and all active brokers had said"
    ),
    "elr-cleared-by-any-key": Proof(
        "another-key", r"gave orders-0 in partition epoch \d+ \(config\) .*: no change of min.insync.replicas of orders"
    ),
    "alterations-unwritten": Proof(
        "another-key", r"alter-config of broker/ is done, but no leader had written num.io.threads=4"
    ),
    "clean-shutdown-untold": Proof(
        "two-lives", r"registered broker-3/1 as started after an unclean shutdown, but broker-3/0 had shut down cleanly"
    ),
    "fence-keeps-isr": Proof("out-of-sync", r"broker-1 leads orders-0 in leader epoch 0, but is fenced at offset \d+"),
    "isr-of-former-lives": Proof("two-lives", r"took in broker-3 under broker epoch \d+, but that broker is reg"),
    "broker-epoch-reused": Proof("two-lives", r"gave broker-3/1 broker epoch \d+, which broker-3/0 had"),
    "hw-ignores-isr": Proof("out-of-sync", r"moved the high watermark .* of its ISR had fetched only up to \d+"),
    "truncate-to-hw": Proof("tail", r"truncated orders-0 .*\(high-watermark, .*although it held committed records"),
    "truncate-fully": Proof("by-turns", r"truncated orders-0 from [\d,]+ to 0 \(diverge\) .* although its log agreed"),
    "truncate-whole-epoch": Proof(
        "tail", r"truncated orders-0 from [\d,]+ to -1 .* although its log agreed with that of"
    ),
    "answer-of-former-leader": Proof(
        "former-leader", r"broker-3 acted under leader epoch 1 of orders-0 on the answer of broker-1 to its fetch of"
    ),
    "epoch-ends-at-log-end": Proof(
        "out-of-sync", r"answered a client, which asked for the end of epoch 0: epoch 0 up to [\d,]+; the right"
    ),
    "epoch-start-unnoted": Proof(
        "by-turns", r"with last epoch 1: out of range; the right answer is epoch 0 up to [\d,]+"
    ),
    "diverging-at-epoch-start": Proof(
        "two-tails", r"with last epoch 0: epoch 0 up to 0; the right answer is epoch 0 up to"
    ),
    "diverging-out-of-range": Proof(
        "two-tails", r"with last epoch 0: out of range; the right answer is epoch 0 up to [\d,]+"
    ),
    "deletes-to-log-end": Proof("deletions", r"moved the log start of \w+-\d to \d+, above its high watermark \d+"),
    "retention-past-watermark": Proof(
        "retention", r"moved the log start of \w+-\d to \d+, above its high watermark \d+"
    ),
    "retention-within-segment": Proof("retention", r"moved the log start of \w+-\d to \d+, which is inside a segment"),
    "no-limit-is-none-kept": Proof("retention", r"deleted segments of orders-\d up to \d+ by retention.bytes = -1, by"),
    "excess-stays": Proof("retention", r"did not delete the segment of bills-0 up to \d+ within 3 s, although there"),
    "old-segments-stay": Proof(
        "retention", r"did not delete the segment of orders-\d up to \d+ within 3 s, although it"
    ),
    "active-segment-stays": Proof(
        "quiet-topic",
        r"did not delete the active segment of orders-\d up to \d+ within [\d.]+ s, although it is too old",
    ),
    "first-record-is-too-old": Proof(
        "retention", r"up to \d+ by retention.ms = 2,000, although the newest record in them was [\d,]+ ms old"
    ),
    "excess-rounded-up": Proof(
        "retention", r"up to [\d,]+ by retention.bytes = 3,000, although what is left has 2,\d+ bytes at most"
    ),
    "segments-always-full": Proof(
        "retention", r"began a new segment of \w+-\d for the batch from \d+ on, although the one before would have \d+"
    ),
    "full-segments-unsynced": Proof(
        "retention", r"lost the records of \w+-\d from \d+ on with its machine's power, although a new segment"
    ),
    "segments-never-full": Proof(
        "retention", r"appended \d+ of \w+-\d to a segment of \d+ bytes at least, with segment.bytes = 600"
    ),
    "segments-below-start-stay": Proof(
        "below-start", r"did not remove the segments of orders-0 up to \d+ within [\d.]+ s, although its log begins at"
    ),
    "active-before-caught-up": Proof(
        "old-epoch", r"began in epoch \d+ with a state up to \d+, but the log ended at \d+ when its node was elected"
    ),
    "log-end-overstated": Proof(
        "quorum", r"asked [\w-]+ for .* in epoch \d+ with a log up to \d+, but its log ended at \d+"
    ),
    "restart-at-leaders-end": Proof(
        "retention", r"began its log of [\w-]+-\d anew at [\d,]+, as its leader's log start, but no replica ever had"
    ),
    "dropped-segments-stay": Proof(
        "retention", r"started with [\w-]+-\d from \d+ on, but an earlier process had dropped its segments below \d+"
    ),
    "limits-not-taken-up": Proof(
        "changed-limits", r"appended \d+ of bills-0 to a segment of [\d,]+ bytes at least, with segment.bytes = 600"
    ),
    "limits-of-brokers-first": Proof(
        "changed-limits", r"did not delete the segment of bills-0 up to \d+ within .* by retention.bytes = 3,000"
    ),
    "copy-is-as-old-as-first-record": Proof(
        "tiers", r"of \w+-0 with [\d,]+ as their greatest timestamp, but a record in them has [\d,]+"
    ),
    "retention-of-file": Proof(
        "changed-limits", r"did not move the log start of orders-0 to \d+, past a copy, .* by retention.ms = 2,500"
    ),
    "anew-keeps-watermark": Proof("retention", r"which it had begun anew at \d+, while its high watermark was \d+"),
    "deletes-whole-batches": Proof(
        "deletions", r"deleted the records of orders-0 up to \d+, but the request was up to 33"
    ),
    "deletes-below-watermark-only": Proof(
        "deletions", r"refused DeleteRecords of orders-\d up to -1 with OFFSET_OUT_OF_RANGE, but it leads with high"
    ),
    "deletion-awaits-one-more": Proof(
        "deletions", r"waits with the answer to DeleteRecords of orders-\d up to \d+, although all who are alive have"
    ),
    "deletion-awaits-nobody": Proof("deletions", r"but the log of broker-\d, which is alive, starts at \d+"),
    "follower-tells-end-for-start": Proof("deletions", r"but the log of broker-\d, which is alive, starts at \d+"),
    "follower-keeps-log-start": Proof(
        "deletions", r"broker-\d has log start 0 of \w+-\d, but its leader had answered with log start 33"
    ),
    "start-checkpoint-ahead": Proof(
        "deletions", r"started with orders-0 from \d+ on, but neither its log nor its own part of it had ever"
    ),
    "log-starts-uncheckpointed": Proof(
        "deletions", r"after a restart broker-2 has log start 0 of orders-0, but its checkpoint had \d+"
    ),
    "fetch-past-hw": Proof("two-readers", r"got producer-1:\d+ at offset .*, but leaders had committed only"),
    "below-start-served": Proof("deletions", r"from broker-\d, whose log starts at \d+"),
    "start-out-of-range": Proof("retention", r"offset (\d+) is out of range, but its log starts at \1 and ends at"),
    "copies-again-from-start": Proof(
        "tiers", r"copies offsets \d+ to \d+ of \w+-0, although it knows a copy of these offsets"
    ),
    "copies-uncommitted": Proof("tiers", r"copies offsets \d+ to \d+ of orders-0, but its high watermark is \d+"),
    "copies-newest-first": Proof("tiers", r"copies offsets \d+ to \d+ of \w+-0, but no copy has offsets \d+ to"),
    "expired-start-untold": Proof(
        "tiers", r"deletes the copy of offsets \d+ to \d+ of bills-0, but its log starts at \d+"
    ),
    "copy-end-untold": Proof(
        "tiers", r"reported its copy of \w+-0 as finished, but it has consumed no metadata record that says so"
    ),
    "copy-errors-ignored": Proof("tiers", r"reported its copy of \w+-0 as finished without"),
    "half-copies-stay": Proof("tiers", r"broker-\d gave up its copy of \w+-0, but left LOG in the store"),
    "copies-untold": Proof("tiers", r"\w+ of a copy of \w+-0 was stored, but no metadata record named that copy"),
    "rejected-unanswered": Proof(
        "remote-reads", r"answered the ListOffsets of list-offsets-\d with 0 results for orders-\d", (2,)
    ),
    "expiry-answers-some": Proof(
        "remote-reads", r"answered the ListOffsets of list-offsets-\d with 0 results for orders-\d", (2,)
    ),
    "time-limit-untold": Proof("remote-reads", r"with TimeoutMs 0, but it has default.api.timeout.ms=\d+", (2,)),
    "lookup-ignores-timeout": Proof(
        "remote-reads", r"with REQUEST_TIMED_OUT after 1,\d+ ms, but its timeout was 3,000 ms", (2,)
    ),
    "lookup-timeout-of-start": Proof("remote-reads", r"2,000 ms after its timeout of 1,500 ms", (2,)),
    "expiry-drops-finished": Proof(
        "remote-reads", r"with REQUEST_TIMED_OUT for orders-\d, although the look-up there had ended", (5,)
    ),
    "expiry-leaves-reads": Proof(
        "remote-reads", r"answered the ListOffsets of .*, but did not cancel its read \d+ of orders-\d", (2,)
    ),
    "loss-leaves-reads": Proof(
        "remote-reads", r"answered the ListOffsets of .*, but did not cancel its read \d+ of orders-[23]", (2,)
    ),
    "reader-uninterrupted": Proof(
        "remote-reads", r"still carries out read \d+ of orders-\d, whose request expired", (2,)
    ),
    "reader-queue-unbounded": Proof(
        "remote-reads", r"accepted a read of orders-\d while 1 reads ran and 2 waited", (2,)
    ),
    "reader-threads-of-start": Proof("remote-reads", r"has 1 threads, with remote.log.reader.threads = 2", (2,)),
    "full-queue-waits": Proof(
        "remote-reads", r"with REQUEST_TIMED_OUT for orders-\d, whose read it had rejected", (2,)
    ),
    "lookup-holds-handler": Proof(
        "remote-reads", r"one ListOffsets occupied a request handler of broker-\d for [\d,]+ ms", (2,)
    ),
    "reader-last-come-first": Proof("remote-reads", r"took read \d+ although read \d+ had waited longer", (2,)),
    "remote-skipped": Proof("remote-reads", r"without asking remote storage, which Kafka asks every time", (2,)),
    "unknown-maximum-is-local": Proof(
        "draft-reads", r"without asking remote storage, although it knew no copies there"
    ),
    "lookup-outlives-leadership": Proof(
        "remote-reads", r"with (offset \d+|[A-Z_]+) for orders-[23], which it no longer led", (2,)
    ),
    "late-answer-unlimited": Proof(
        "remote-reads", r"with offset \d+ of orders-\d, but clients might see only offsets below \d+ when the", (2,)
    ),
    "late-answer-unrefused": Proof(
        "late-refusal",
        r"that orders-0 has no such record, but its high watermark was 0, below the start of its leader epoch",
    ),
    "first-read-answers": Proof(
        "remote-fetches", r"answered the remote Fetch of consumer-\d before its read \d+ of orders-[01] had ended"
    ),
    "remote-fetch-waits-as-asked": Proof(
        "remote-fetches", r"had not answered the remote Fetch of consumer-\d 2 ms after remote.fetch.max.wait.ms = 300"
    ),
    "remote-fetch-wait-of-start": Proof(
        "remote-fetches", r"the remote Fetch of consumer-\d after 300 ms, with remote.fetch.max.wait.ms = 700"
    ),
    "expired-fetch-keeps-reads": Proof(
        "remote-fetches", r"as its time was over, but did not give up its read \d+ of orders-\d"
    ),
    "reads-wake-no-fetch": Proof("remote-fetches", r"only when its time was over, although all its reads had ended"),
    "needs-one-replica-more": Proof("expired", r"NOT_ENOUGH_REPLICAS although 2 replicas were in sync, and 2 are eno"),
    "rejected-fetch-untold": Proof(
        "remote-fetches", r"without UNKNOWN_SERVER_ERROR for orders-\d, whose read from remote storage had failed"
    ),
    "lookup-first-record": Proof(
        "remote-reads", r"answered ListOffsets for timestamp \d+ of orders-\d with \d+ \(", (2,)
    ),
    "copies-told-one-short": Proof(
        "copied-ends", r"for timestamp -[56] of bills-0 with [\d,]+; the right answer is [\d,]+: its log ends"
    ),
    "deletion-end-untold": Proof(
        "tiers", r"reported a copy of \w+-0 as deleted, but it has consumed no metadata record that says so"
    ),
    "deletes-metadata-alone": Proof("tiers", r"reported a copy of \w+-0 as deleted, but the store still has"),
    "expired-copies-kept": Proof("tiers", r"did not move the log start of bills-0 to \d+, past a copy, within"),
    "copies-go-by-local-limit": Proof(
        "forgets", r"past a copy, by retention.ms = 604,800,000, although the newest record in it was [\d,]+ ms old"
    ),
    "expired-copies-rounded-up": Proof(
        "tiers", r"past a copy, by retention.bytes = 12,000, although what is left has 11,\d+ bytes at most"
    ),
    "deletion-answer-untaken": Proof(
        "left-copies", r"broker-\d deletes a copy of bills-0, and did not come to an end of that within"
    ),
    "failed-copy-ends-task": Proof(
        "left-copies", r"did not begin to copy the segment of bills-0 up to [\d,]+ within 3\.1 s"
    ),
    "copy-lag-unheeded": Proof(
        "late-copies", r"began to copy the segment of bills-0 .*, although its newest record was \d+ ms old: remote"
    ),
    "copy-lag-of-any-size": Proof(
        "late-copies",
        r"segment of orders-0 .* what is behind it has [\d,]+ bytes at most: remote.copy.lag.bytes stands",
    ),
    "begun-deletions-stay": Proof(
        "left-copies", r"did not begin to delete what is left of a copy of bills-0 below its log start, [\d,]+,"
    ),
    "unfinished-copies-stay": Proof(
        "left-copies", r"did not begin to delete what is left of a copy of bills-0 below its log start, [\d,]+,"
    ),
    "copies-below-start-stay": Proof(
        "tiers", r"did not begin to delete a copy of bills-0 below its log start, [\d,]+,"
    ),
    "local-retention-uncopied": Proof(
        "behind",
        r"deleted its segments of orders-0 below \d+, but the offsets from \d+ on were never copied, and "
        r"its log starts at 0",
    ),
    "moved-unsaid": Proof("behind", r"with last epoch 0: out of range; the right answer is moved to remote storage"),
    "follower-forgets-epochs": Proof(
        "behind", r"moved the local log start of orders-0 to \d+, but it does not know leader epoch 0"
    ),
    "follower-forgets-log-start": Proof(
        "behind", r"moved the local log start of orders-0 to \d+, and the log start to"
    ),
    "log-start-at-last-copy": Proof(
        "remote-reads",
        r"broker-\d moved the log start of orders-\d to \d+, where it found the first copy, but no replica",
        (2,),
    ),
    "log-start-unfound": Proof(
        "forgets", r"the log of broker-1, leader of epoch \d of orders-0, starts at 0 and its local log at"
    ),
    "diverging-unsaid": Proof("two-tails", r"with last epoch 0: no divergence; the right answer is epoch 0 up to"),
    "diverging-epoch-ignored": Proof(
        "by-turns", r"broker-2 truncated .* and kept leader epoch 1, although its leader has epoch 0"
    ),
    "epochs-outlive-truncation": Proof("by-turns", r"continues with leader epoch 1, but its last record has epoch 0"),
    "recovery-drops-last": Proof(
        "by-turns", r"recovered orders-0 only up to [\d,]+, although its disk had the log up to [\d,]+"
    ),
    "clean-load-drops-last": Proof(
        "two-lives", r"broker-3 took up orders-0 .*, while its log ended at \d+ at its clean shutdown"
    ),
    "leader-skips-offset": Proof("out-of-sync", r"appended a batch to orders-0 at \d+, while its log ended at \d+"),
    "follower-takes-produce": Proof("there-and-back", r"as leader of epoch 1, which broker-2 took up"),
    "list-unfenced": Proof(
        "late-follower", r"answered the ListOffsets of \S+ for orders-0 in leader epoch 2, although"
    ),
    "consumers-unfenced": Proof(
        "moved-leaders", r"gave consumer-1 records of \S+ in leader epoch 0, although one of them is of"
    ),
    "epoch-ends-unfenced": Proof(
        "group",
        r"answered the OffsetForLeaderEpoch of a client for orders-0 in leader epoch 1, although the request named",
    ),
    "fetch-unfenced": Proof("there-and-back", r"counted a fetch of broker-3 .* in leader epoch 0"),
    "ack-before-hw": Proof("out-of-sync", r"acknowledged offset \d+ of orders-0 .* while its high watermark was \d+"),
    "eligible-for-good": Proof("refused", r"the ISR \[1, 2\], the eligible leader replicas \[2\]: \[2\] are in both"),
    "controllers-own-min-isr": Proof("refused", r"\(create\) the least ISR 1, but the log says 2$"),
    "last-known-before-eligible": Proof(
        "last-known", r"elected broker-1 .*\(unclean\), the last known leader, although \[2\] is eligible"
    ),
    "unclean-unmarked": Proof(
        "reads-on", r"elected broker-\d for orders-0 in leader epoch \d+ \(unclean\), without marking it as recovering"
    ),
    "unclean-anyway": Proof("late-follower", r"elected broker-2 .*\(unclean\), uncleanly, from outside the ISR \[1\]"),
    "list-log-end": Proof(
        "tail", r"reported [\d,]+ as the latest offset .* to (\S+) after broker-1 .* had reported [\d,]+ to \1"
    ),
    "refuse-too-long": Proof("late-follower", r"refused ListOffsets .* although it had caught up"),
    "list-behind": Proof("tail", r"reported [\d,]+ as the latest offset .* had acknowledged producer-2"),
    "refusal-is-fatal": Proof("late-follower", r"-1 returned OFFSET_NOT_AVAILABLE for orders-0 to .* before"),
    "refusal-refreshes": Proof("late-follower", r"-1 refreshed its metadata after broker-1 had refused"),
    "lookup-by-batch": Proof(
        "by-timestamp", r"answered ListOffsets for timestamp (1500|-3) of orders-0 with \d+ .*; the right answer is"
    ),
    "truncation-one-short": Proof("reads-on", r"consumer-1 went back to \d+ of orders-0, .* leader epoch \d+ ends at"),
    "position-not-validated": Proof(
        "reads-on", r"consumer-1 read .* of leader epoch 0 .* and then read on at [\d,]+ in"
    ),
    "position-keeps-epoch": Proof(
        "goes-back-behind",
        r"consumer-1 asked broker-\d where leader epoch \d+ of orders-0 ends, but its position \d+ came without",
    ),
    "position-loses-epoch": Proof(
        "group", r"consumer-\d read on at \d+ of orders-\d in leader epoch \d+, but its position \d+ came with leader"
    ),
    "later-changes-dropped": Proof(
        "out-of-sync", r"answered \S+ with .* orders-0, but its image, up to \d+, has broker-\d in"
    ),
    "takes-one-too-many": Proof(
        "group-full", r"formed generation 1 of group g with 3 members, though group.max.size is 2"
    ),
    "takes-one-too-few": Proof(
        "group-full", r"answered JoinGroup of g .*with GROUP_MAX_SIZE_REACHED although \d of 2 members were there"
    ),
    "resigns-silently": Proof("group-waits", r"gave up __consumer_offsets-0, and did not answer \S+", (3,)),
    "lost-lookups-kept": Proof(
        "comes-back", r"requests still waited in list-offsets-1 at the end: ListOffsets of call \d+, which has"
    ),
    "refusal-is-offset-0": Proof("no-position", r"consumer-1 set its first position in orders-0 to 0, but broker-1"),
    "reset-to-the-other-end": Proof(
        "two-readers", r"consumer-1 set its first position .* had been asked for timestamp -1, and not for -2"
    ),
    "epochs-outlive-topic": Proof(
        "topic-of-high-epoch", r"did not take over leader epoch 0 of orders-\d\S* from broker-\d"
    ),
    "older-metadata-taken": Proof("stale-broker", r"took over leader epoch \d+ of orders-0 from broker-3 although it"),
    "refused-leader-taken": Proof(
        "stale-broker", r"asked broker-1 for offsets of orders-0 in leader epoch 1, although"
    ),
    "equivalent-answers-uncounted": Proof(
        "last-known",
        r"asked for metadata again \d+ ms after .*, with \d answers in a row that brought no news",
    ),
    "fetch-without-epoch": Proof("reads-on", r"consumer-1 named no leader epoch in Fetch of orders-0 to broker-\d"),
    "offsets-without-epoch": Proof("reads-on", r"consumer-1 named no leader epoch in ListOffsets of orders-0 to"),
    "epoch-end-without-epoch": Proof(
        "reads-on", r"consumer-1 named no leader epoch in OffsetForLeaderEpoch of orders-0 to"
    ),
    "asks-outdated-leader": Proof(
        "goes-back-behind", r"asked broker-1 for offsets of orders-0 in leader epoch 0 although it had heard of leader"
    ),
    "metadata-failures-stay": Proof("answers-again", r"asked for it \d+ ms too late for a back-off of at most 120 ms"),
    "newer-hints-left": Proof("deposed", r"producer-1 did not take the hint that broker-\d leads orders-0 in leader"),
    "newer-epochs-unheeded": Proof(
        "group", r"took up a position in orders-\d with leader epoch \d+, and did not heed that it knew only"
    ),
    "no-metadata-backoff": Proof("comes-back", r"asked for metadata again \d+ ms after the last answer, before the"),
    "oldest-duplicate": Proof(
        "lost-answers", r"acknowledged producer-1:\d+, which producer-1 had sent later, at offset [\d,]+ of"
    ),
    "hide-reason": Proof("refused", r"answered Produce with UNKNOWN_SERVER_ERROR, which that API does not document"),
    "refuse-replicas": Proof(
        "late-follower", r"the ListOffsets that list-offsets-2 sent as .* with OFFSET_NOT_AVAILABLE"
    ),
    "lose-acked": Proof(
        "out-of-sync", r"record producer-1:\d+ was acknowledged .* at offset [\d,]+ of orders-0; the log of"
    ),
    "acks-0-left-open": Proof(
        "unheard", r"broker-\d kept the connection of a Produce of producer-1 with acks=0, and appended nothing of it"
    ),
    "lose-acks-1": Proof(
        "acks-1", r"record producer-1:\d+ was acknowledged .* at offset [\d,]+ of orders-0; the log of"
    ),
    "consumer-mislabel": Proof(
        "out-of-sync", r"offset \d+ of orders-0 holds record producer-1:\d+ according to consumer-1, and"
    ),
    "refuse-after-append": Proof(
        "refused", r"the send of producer-1:\d+ failed for good at producer-1; .*committed it at"
    ),
    "unmuted-partition": Proof("one-in-flight", r"committed at offset .*, which was sent later"),
    "position-past-rest": Proof("two-readers", r"consumer-1 had read orders-0 up to \d+ .*: it left out offset \d+"),
    "fetch-drops-batch": Proof("two-readers", r"got no record there, where consumer-\d had got producer-1:\d+"),
    "reused-buffer": Proof("one-in-flight", r"with payload digest .* but producer-1 had sent"),
    "commit-sync-tried-once": Proof(
        "gives-up", r"consumer-\d gave up its commit in group g with \S+ after \d+ ms, with 30,000 ms to try again"
    ),
    "first-refusal-is-final": Proof(
        "gives-up", r"producer-1 gave the send of \S+ to orders-0 up with \S+ after .* and retries = 2,147,483,647"
    ),
    "batches-expire-with-requests": Proof(
        "gives-up", r"gave the send of \S+ to orders-0 up with REQUEST_TIMED_OUT .* delivery.timeout.ms = 3,000"
    ),
    "positions-looked-up-once": Proof(
        "gives-up", r"consumer-\d gave up its look-up of what group g has committed with [A-Z_]+"
    ),
    "deletion-tried-once": Proof(
        "gives-up", r"did not delete records of orders-0, and gave up with NOT_LEADER_OR_FOLLOWER"
    ),
    "hw-needs-own-epoch": Proof("without-records", r"did not reach [\d,]+, its leader epoch's start, within"),
    "forgotten-partitions-stay": Proof(
        "forgotten",
        r"broker-1 answered the Fetch of \S+ of epoch \d+ in its fetch session about orders-1, which it does not ask",
    ),
    "session-tells-of-records-only": Proof(
        "rare-records", r"broker-2 did not learn within 3 s .* the high watermark of broker-1, from which it fetches"
    ),
    "hw-on-append-only": Proof("rare-records", r"leader of orders-0 .*, stayed at [\d,]+ .*ISR broker-1, broker-2 has"),
    "refusal-is-sign-of-life": Proof("comes-back", r"controller-\d still followed controller-\d in epoch \d+ [\d.]+ s"),
    "resignation-is-ignored": Proof("resigns", r"controller-\d still followed .* 0\.1 s after it heard that it may"),
    "all-successors-at-once": Proof(
        "resigns", r"controller-\d stood for election in epoch \d+ .*, and its turn is 0\.5 s"
    ),
    "shortest-log-succeeds": Proof(
        "resigns-ahead", r"named controller-\d before controller-\d as its successor, though \S+ had fetched up to \d+"
    ),
    "candidate-waits-on": Proof("stale-voter", r"controller-\d still was candidate in epoch \d+ [\d.]+ s after its"),
    "passing-errors-end-producers": Proof("transactions", r"gave .* up with [A-Z_]+"),
    "answers-taken-for-damaged": Proof("remote-reads", r"from remote storage up with UNKNOWN_SERVER_ERROR, although"),
    "metadata-topic-given-up": Proof(
        "untold-copies", r"has begun to copy the segment of \w+-0 up to .* not finished any"
    ),
    "never-stand": Proof("comes-back", r"no quorum leader was acknowledged by most of the 3 voters within"),
    "leader-always-preferred": Proof(
        "other-leader", r"elected broker-1 for orders-0 .*\(alter-isr\), although broker-\d leads and could go on"
    ),
    "last-of-the-assignment-elected": Proof(
        "other-leader", r"elected broker-3 for orders-0 .*, although broker-\d comes first of those that could lead"
    ),
    "no-election-at-return": Proof(
        "restarted", r"unfenced broker-1 and elected nobody for orders-0, although broker-1 led it last"
    ),
    "preferred-elected-uncleanly": Proof(
        "waits-for-preferred", r"elected broker-2 .*\(unclean\), uncleanly, .*, although no operator had asked for that"
    ),
    "preferred-unheeded": Proof(
        "leads-again",
        r"broker-1, the preferred replica of orders-0, was not elected within .*: broker-2 leads it, although",
    ),
    "preferred-elected-too-often": Proof(
        "two-come-back", r"gave orders-\d back to broker-\d [\d,]+ ms after it gave partitions back, and leader.imbal"
    ),
    "placed-on-anybody": Proof(
        "new-partitions", r"the controller placed orders-\d on \[.*\], but broker-3 is fenced, and \[.*\] of the unf"
    ),
    "placed-without-turns": Proof(
        "new-partitions", r"placed orders-2 on \[.*\], but broker-\d comes first in orders-1, too, and another broker"
    ),
    "replicas-outlive-topic": Proof("topic-made-anew", r"no broker took up the leadership of orders-0@\S+ within"),
    "no-new-leader": Proof("comes-back", r"no broker took up the leadership of orders-0 within .* broker-3 could lead"),
    "isr-in-new-epochs-only": Proof("open-proposal", r"broker-2 did not get into the ISR of orders-0 within"),
    "isr-never-expands": Proof("comes-back", r"broker-\d did not get into the ISR of orders-0 within"),
    "isr-never-shrinks": Proof(
        "cut-from-leader", r"broker-1, leader of orders-0 .*, did not propose its ISR .* without broker-3"
    ),
    "isr-shrinks-at-once": Proof(
        "cut-from-leader", r"without broker-\d, which had the whole log [\d,]+ ms before: repl"
    ),
    "isr-under-unheard-epoch": Proof(
        "late-metadata", r"proposed broker-3 for the ISR of orders-0 under broker epoch \d+, although the metadata log"
    ),
    "former-lives-fetch": Proof("late-fetch", r"counted a fetch of broker-3 .* but knew its broker epoch \d+"),
    "wake-one-consumer": Proof("two-readers", r"let the Fetch of a consumer at \S+ of orders-0 wait for its whole max"),
    "range-ends-before-end": Proof(
        "above-watermark", r"answered the Fetch of a consumer at \d+ .* OFFSET_OUT_OF_RANGE, although"
    ),
    "append-below-min-isr": Proof(
        "refused", r"appended a batch that \S+ sent for orders-0 with acks=all while the ISR had 1 mem"
    ),
    "commits-below-min-isr": Proof("refused", r"although it knew that the ISR was \[1\], smaller than .* \(2\)$"),
    "min-isr-of-its-own": Proof(
        "refused", r"acknowledged offset \d+ of orders-0 to producer-1 .* while its ISR had 1 members, below .* 2$"
    ),
    "epoch-starts-with-the-last": Proof(
        "late-follower", r"from log end [1-9][\d,]+, high watermark 0\) answered ListOffsets .* before it had caught up"
    ),
    "snapshot-without-configs": Proof(
        "snapshots", r"made a snapshot up to \d+, whose records differ from those in the snapshot of \S+ up to the same"
    ),
    "snapshot-without-elr": Proof(
        "snapshot-with-elr", r"has made something else of the metadata log up to \d+ than \S+, of the same records"
    ),
    "load-keeps-registrations": Proof(
        "loads-while-up",
        r"broker-2 has made something else of the metadata log up to \d+ than \S+, of the same",
    ),
    "outdated-proposal-again": Proof(
        "told-late", r"broker-1 proposed .* had been refused with INVALID_UPDATE_VERSION", (8,)
    ),
    "isr-without-epochs": Proof(
        "told-before", r"the ISR of orders-0 to \[1\] by broker epochs -1 of broker-1; broker-1 had proposed it with \d"
    ),
    "fetch-names-log-end": Proof(
        "waiting-fetches",
        r"of controller-\d at (\d+) wait .*, which named \1 as its high watermark, but that had come to",
    ),
    "epoch-errors-swapped": Proof(
        "divided",
        r"controller-\d refused \w+ in quorum epoch \d+ with \w+_LEADER_EPOCH, although it was in quorum epoch",
    ),
    "append-wakes-nobody": Proof(
        "waiting-fetches", r"let the Fetch of \S+ at \d+ wait in quorum epoch \d+ after it had appended records up to"
    ),
    "commit-wakes-nobody": Proof(
        "waiting-fetches",
        r"let the Fetch of \S+ at \d+ wait in quorum epoch \d+ after its high watermark had moved",
    ),
    "fetch-waits-anyway": Proof(
        "waiting-fetches", r"let the Fetch of \S+ at \d+ wait in quorum epoch \d+, although it had records for it up to"
    ),
    "described-by-log-end": Proof("described", r"in epoch 1 with the high watermark \d+; it had \d+"),
    "described-as-caught-up": Proof("described", r"in epoch 1, and that \S+ has its log up to \d+; it had fetched up"),
    "takes-up-before-it-knows": Proof(
        "two-lives",
        r"broker-3/2 took up orders-0 as it is in the metadata log before offset \d+, but its registration is at",
    ),
    "isr-swaps-members": Proof("one-back", r"the cluster did not converge: .* its whole ISR: orders-0, 20 s after"),
    "batches-retried-at-once": Proof("refused", r"had an answer to the batch of \S+ to orders-0 \d+ ms after refusal"),
    "pause-outlasts-leader": Proof(
        "deposed", r"sent the batch of \S+ to orders-0 again \d+ ms after nothing but its pause stood in the way"
    ),
    "refused-look-up-at-once": Proof(
        "late-follower",
        r"-1 was answered again \(\S+\) when it asked for .* orders-0, \d+ ms after refusal 1 in",
    ),
    "in-flight-unlimited": Proof("slow-leader", r"sent Produce \d+ to broker-\d while 5 others were under way on its"),
    "retries-unlimited": Proof(
        "refused", r"sends the batch of \S+ to orders-0 again after 3 refusals, with retries = 2"
    ),
    "reconnect-backoff-stays": Proof(
        "comes-back", r"connected to \S+ again 4\d ms after failure 2 in a row, before the"
    ),
    "retry-forgotten": Proof("comes-back", r"the send \S+ of producer-1 to orders-0 did not return within"),
    "unresolved-forgotten": Proof(
        "gap", r"gave up record \S+, which the leader of orders-0 refused as out of sequence, though it was sent after"
    ),
    "consumer-gives-up": Proof("slow-leader", r"consumer-1 did not read orders-0 up to [\d,]+ within"),
    "no-delivery-timeout": Proof("slow-leader", r"of producer-1 did not return within 1.5 s, its timeout"),
    "busy-metadata-log": Proof("comes-back", r"broker-\d was not unfenced within .*: it is fenced by controller-\d"),
    "old-leader-for-ever": Proof("comes-back", r"list-offsets-1 sent \d+ requests without progress within"),
    "image-stops-when-fenced": Proof(
        "deposed", r"the metadata image of broker-1 did not reach offset \d+ of the metadata log"
    ),
    "one-produce-for-all": Proof(
        "two-leaders", r"producer-1 sent records of orders-1 to broker-1, although its metadata had the leader broker-2"
    ),
    "hint-of-former-epoch": Proof(
        "deposed", r"answered producer-1 with broker-1 in leader epoch 1 of orders-0, but no"
    ),
    "truncation-forward": Proof(
        "no-position", r"consumer-1 took the log of orders-0 for truncated at \d+, but its position was \d+: nothing"
    ),
    "produce-keeps-leader": Proof("deposed", r"producer-1 did not learn the leader of orders-0 within .*broker-1 in"),
    "fetcher-gives-up": Proof(
        "slow-leader",
        r"broker-\d did not (get|learn of the commit of) the acknowledged records of orders-0 below [\d,]+",
    ),
    "no-request-timeout": Proof("slow-leader", r"to broker-1 ended after [\d,]+ ms \(answered\); its timeout is 1,000"),
    "leaky-partition": Proof("out-of-sync", r"broker-\d acted on message \S+ of broker-\d, sent while a fault"),
    "wake-one-produce": Proof("muted", r"answered the Produce of producer-1 with acks=all .* the high watermark had"),
    "produces-outlive-leadership": Proof(
        "stale-broker", r"answered the Produce of producer-1 with acks=all .* ms after it had lost the leadership"
    ),
    "removal-leaves-waiting": Proof(
        "topic-of-waiting-requests",
        r"answered the Produce of producer-1 with acks=all .* ms after it had lost the part",
    ),
    "unseeded-timers": Proof(
        "comes-back", r"the run gave the trace [0-9a-f]+; its repetition gave the trace [0-9a-f]+"
    ),
    "wake-in-hash-order": Proof(
        "comes-back", r"the run gave the trace [0-9a-f]+; its repetition gave the trace [0-9a-f]+"
    ),
    "no-reconnect-backoff": Proof("comes-back", r"sent [\d,]+ requests in one second, and they led to \d+ useful"),
    "fetch-without-wait": Proof(
        "comes-back", r"consumer-\d sent [\d,]+ requests in one second, and they led to \d+ useful"
    ),
    "skip-sequence-check": Proof("expired", r"appended sequence \d+ of producer id \d+.*; the next sequence was \d+"),
    "raise": Proof("out-of-sync", r"broker-\d raised an exception: RuntimeError: the defect raise"),
    "lose-trace": Proof("out-of-sync", r"lacks its event \d*99|which does not come before in the trace"),
    "fetch-before-sync": Proof("slow-voters", r"high watermark to \d+; of the 3 voters, controller-1 had"),
    "watermark-before-truncation": Proof(
        "two-tails", r"broker-1 set its high watermark .*, but its log agrees with the committed one only"
    ),
    "checkpoint-of-log-ends": Proof(
        "tail", r"broker-1 took up orders-0 .* with high watermark [\d,]+, but up to there its log"
    ),
    "watermarks-checkpointed-at-shutdown-only": Proof(
        "late-crash", r"broker-2 took up orders-0 with high watermark 0, but its checkpoint had \d+ at least when it"
    ),
    "watermarks-lost-at-shutdown": Proof(
        "two-lives", r"broker-3 took up orders-0 with high watermark 0, but it had \d+ at its clean shutdown"
    ),
    "isr-answer-awaited": Proof("open-proposal", r"broker-2 did not get into the ISR of orders-0 within"),
    "metadata-never-too-old": Proof("ages", r"has had its metadata for \d,\d+ ms, .* its metadata.max.age.ms is 500"),
    "isr-looked-at-seldom": Proof("cut-follower", r"without broker-2, which has not caught up for \d,\d+ ms"),
    "epoch-start-moves-with-isr": Proof(
        "fell-behind", r"takes [\d,]+ for the start of its leader epoch 0 of orders-0, which it began at 0"
    ),
    "new-leader-looks-at-no-watermark": Proof(
        "begins-alone", r"broker-2, leader of orders-0 in leader epoch \d+, left its high watermark at \d+ in a step"
    ),
    "waits-after-ineligible": Proof(
        "unfenced-again", r"broker-1 did not propose broker-3 for the ISR of orders-0 in a step in which that fetched"
    ),
    "watermark-waits-for-laggards": Proof(
        "fell-behind", r"left its high watermark at \d+ in a step after .* up to \d+; broker-2 had less, and does not"
    ),
    "outsiders-begin-caught-up": Proof(
        "still-outside", r"left its high watermark at \d+ in a step after .* up to \d+; broker-2 had less, and does not"
    ),
    "caught-up-by-progress": Proof(
        "fell-behind", r"left its high watermark at \d+ in a step after .* up to \d+; broker-2 had less, and does not"
    ),
    "watermark-waits-for-fenced": Proof(
        "gone-at-once", r"broker-1, leader of orders-0 .*, stayed at \d+ .*ISR broker-1, broker-2 has the log"
    ),
    "elect-fenced-last-known": Proof("nobody-left", r"broker-1 leads orders-0 in leader epoch \d+, but is fenced"),
    "retry-keeps-epoch": Proof("comes-back", r"list-offsets-1 sent \d+ requests without progress within"),
    "producers-of-leaders-only": Proof(
        "other-leader", r"appended sequence \d+ of producer id \d+.*; the next sequence was \d+"
    ),
    "remembers-last-batch": Proof("lost-answers", r"with OUT_OF_ORDER_SEQUENCE_NUMBER although sequences .* last 5"),
    "producers-forgotten-in-office": Proof("other-leader", r"producer-1:\d+ is committed twice in \S+: at offset \d+"),
    "bump-at-any-error": Proof("lost-answers", r"epoch 0, and .* producer id 0, epoch 2; the producer had no reason"),
    "producers-forgotten-at-start": Proof(
        "restarted", r"appended sequence \d+ of producer id 0.*; the next sequence was \d+"
    ),
    "sequence-from-one": Proof(
        "out-of-sync", r"appended sequence 1 of .*; 0 records of this epoch had been sent before"
    ),
    "expiry-raises-epoch": Proof(
        "unanswered", r"record \S+ is committed twice in orders-0: .*; the producer had no reason to number it anew"
    ),
    "batches-unnumbered": Proof("out-of-sync", r"of producer-\d, an idempotent producer, .* without a sequence number"),
    "old-producer-epoch-taken": Proof(
        "muted", r"appended a batch of producer id 0, epoch 0, .* after a batch of epoch 1"
    ),
    "stray-log-taken-up": Proof("topic-made-anew", r"took up orders-0@\S+ in .* with log end \d+, while .* ended at 0"),
    "topic-id-reused": Proof("topic-made-anew", r"gave leader epoch 0 of orders-0 to broker-\d, but broker-\d already"),
    "version-too-new": Proof("kip-207/kafka", r"answered ListOffsets of version 4 with OFFSET_NOT_AVAILABLE", (7,)),
    "commits-refused-in-rebalance": Proof(
        "group", r"refused a commit for orders-\d by .* with REBALANCE_IN_PROGRESS, .* was PreparingRebalance"
    ),
    "strangers-commit": Proof("group", r"accepted a commit for orders-\d by \S+ in generation \d+ of group g, "),
    "commit-epoch-unstored": Proof(
        "group", r"answered that .* has committed \d+ for orders-\d, but no coordinator has"
    ),
    "commit-before-hw": Proof(
        "group-cut", r"loaded that .* has committed \d+ for orders-\d, after the commit of \d+", (3,)
    ),
    "commit-epoch-untold": Proof("group", r"has committed (\d+) .* \(leader epoch none,.*of \1 \(leader epoch \d"),
    "commit-of-more": Proof("group", r"accepted the commit of [\d,]+ for orders-\d .*, but no leader had"),
    "commit-unwritten": Proof("group", r"group g has committed nothing for orders-\d, after the commit of \d+"),
    "former-controller-obeyed": Proof("late-push", r"gave consumer-\d metadata epoch \d+ (after|before) it"),
    "removed-topics-remembered": Proof(
        "group-topic-removed", r"removes \S+, but it still stores the committed offset \d+ of group g"
    ),
    "load-ends-early": Proof("group", r"loaded .* of group g for orders-\d, but the log of __consumer_off"),
    "coordinates-as-follower": Proof("group-cut", r"orders-\d|for group g in leader epoch \d+ of __consumer", (3,)),
    "generations-begin-anew": Proof("group", r"in generation 0, in leader epoch \d+ of .*, although generation"),
    "generation-reused": Proof("group", r"to CompletingRebalance in generation 2, in leader .*, after generation 2"),
    "equal-metadata-refused": Proof("group-epochs", r"refused a commit .* although no commit with a higher one", (3,)),
    "partition-given-twice": Proof("group", r"assigned orders-\d both to \S+ and to \S+ in generation \d+ of group g"),
    "keeps-what-is-lost": Proof("put-out", r"as member \S+, still owns it, though it has joined anew as consumer-2"),
    "joins-without-revoking": Proof("group", r"generation \d+ of group g assigns orders-\d to .* while consumer"),
    "rebalance-unheard": Proof("group-quiet", r"did not become stable within .*: it is PreparingRebalance"),
    "partition-left-out": Proof("group-quiet", r"did not become stable within .*: nobody owns orders-\d"),
    "silent-member-stays": Proof("group-quiet", r"did not become stable within .*: it is PreparingRebalance"),
    "heartbeats-once-a-session": Proof(
        "group-quiet", r"consumer-\d sent a heartbeat \d,\d+ ms after its coordinator had answered the call before"
    ),
    "heartbeats-unheeded": Proof(
        "static-members", r"put \S+ out of group g for its silence \d+ ms after consumer-\d sent a heartbeat"
    ),
    "rebalance-told-as-over": Proof(
        "group",
        r"answered Heartbeat of g by \S+ in generation (\d+) with ILLEGAL_GENERATION although the group was in ",
    ),
    "session-at-half": Proof(
        "put-out", r"put \S+ out of group g for its silence \d,\d+ ms after consumer-\d sent a heartbeat"
    ),
    "instances-lost-at-load": Proof(
        "static-members", r"of consumer-\d with UNKNOWN_MEMBER_ID \d+ ms after it had read the member \S+ from its log"
    ),
    "closes-without-leaving": Proof(
        "group-stalls",
        r"consumer-\d was closed, and sent no LeaveGroup for its member \S+ of group g, although it",
    ),
    "commits-by-itself-once": Proof(
        "group",
        r"consumer-\d has committed nothing by itself for \d,\d+ ms, .* its auto.commit.interval.ms is 300",
    ),
    "revokes-without-commit": Proof(
        "group", r"as member \S+ of group g, revoked orders-\d.* without a commit after the last records"
    ),
    "positions-expire-in-use": Proof(
        "kept-positions",
        r"dropped the committed offset \d+ of group g for orders-\d, although members of its generation \d+ read the",
    ),
    "pending-positions-expire": Proof(
        "kept-pending",
        r"dropped the committed offset \d+ of group copier for orders-0, although an open transaction has \d+, at \d+",
    ),
    "timeout-unheeded": Proof("transactions", r"with a timeout of 900,000 ms, but its producer asks for [\d,]+ ms"),
    "former-raises-epoch": Proof(
        "late-raise",
        r"gave app producer id \d+, epoch \d, after .*, for producer id \d+, epoch 0: that is fenced",
    ),
    "repeated-init-fenced": Proof(
        "repeated-init",
        r"answered InitProducerId of app for producer id \d+, epoch 0 with PRODUCER_FENCED although it had given it "
        r"epoch 1 for that, which nobody has used since",
    ),
    "closes-without-commit": Proof(
        "group", r"as member \S+ of group g, was closed, and gave up orders-\d.* without a commit after the last"
    ),
    "static-return-unwritten": Proof(
        "static-members", r"loaded group g with the members \S+, \S+, but generation 1 of it was stable with"
    ),
    "leftovers-to-one": Proof(
        "shares", r"group g is assigned by roundrobin, and \S+ has 3 instead of 1 or 2 of the 5 partitions"
    ),
    "syncs-answered-at-rebalance": Proof(
        "late-sync", r"as \S+, took nothing in generation \d+ of group g, which was never stable", (3,)
    ),
    "txn-epoch-unstored": Proof(
        "open-positions",
        r"of orders-\d \(leader epoch \d+, metadata epoch none\) for group \S+ is in its transaction, but",
    ),
    "positions-without-epoch": Proof(
        "open-positions", r"for group \S+ is in its transaction, but broker-\d appended it as \d+ \(leader epoch none"
    ),
    "offsets-added-before-commit": Proof(
        "copied-positions",
        r"answered that __consumer_offsets-0 is in the transaction of \S+ \(producer id \d+, epoch \d+\), but had not",
    ),
    "commits-outlive-generations": Proof(
        "waiting-commits", r"in generation 2 of group g, though it was asked for in generation 1"
    ),
    "assignments-unwritten": Proof(
        "group", r"loaded group g in generation \d+ with nothing as the assignment of member \S+, but generation"
    ),
    "subscriptions-unwritten": Proof(
        "group", r"loaded group g in generation \d+ with nothing as the topics of member \S+, but generation"
    ),
    "empty-generation-unwritten": Proof(
        "group-stalls",
        r"formed generation \d+ of group g, which has no members, and did not write that to __",
    ),
    "one-member-a-client": Proof(
        "group-stalls", r"moved group g to .* without the member \S+, which it had before and did not put out"
    ),
    "loaded-members-unwatched": Proof(
        "group-waits", r"group g has been Stable at \S+ in generation \d+ for .* s, although its member \S+ is", (3,)
    ),
    "loaded-session-short": Proof(
        "group-waits", r"put \S+, a member of consumer-\d, out of group g for its silence \d.* is 6,000 ms", (3,)
    ),
    "waiting-members-expire": Proof(
        "group-stalls", r"for its silence, though it waited for the answer to its JoinGroup"
    ),
    "stalls-unheeded": Proof("unpolled", r"although its application had not polled for \d,\d+ ms, and its max.poll"),
    "silent-statics-stay": Proof("static-cut-off", r"group g has been Stable .* its member \S+ is cut off from it"),
    "absent-statics-go": Proof("static-absent", r"a rebalance which it did not join, though it is a static member"),
    "rebalance-timeout-short": Proof(
        "group-stalls", r"out of group g 300 ms after its rebalance began, .* a member may take 5,000 ms"
    ),
    "fenced-told-as-unknown": Proof(
        "late-heartbeat", r"answered Heartbeat of g by \S+ in .* with UNKNOWN_MEMBER_ID although one belonged to one-"
    ),
    "first-rebalance-goes-on": Proof(
        "group-stalls",
        r"ended the first rebalance of group g 5,\d+ ms after it began, with \d new members since, though",
    ),
    "last-member-not-awaited": Proof(
        "group-stalls", r"out of group g \d+ ms after its rebalance began, for it had not joined, though a member may"
    ),
    "sync-timeout-short": Proof(
        "group-stalls", r"out of group g 300 ms after its generation was formed, for it had not synced"
    ),
    "absent-members-stay": Proof(
        "group-waits", r"formed generation \d+ of group g with .* had sent no JoinGroup", (3,)
    ),
    "leave-unheard": Proof("group-waits", r"group g has been Stable .* although its member \S+ is gone", (3,)),
    "commits-ahead": Proof(
        "group", r"consumer-\d commits \d+ for orders-\d in group g, but it has read only up to \d+"
    ),
    "commits-behind": Proof("group", r"commits \d+ for orders-\d in group g, but it has read up to \d+"),
    "commits-no-epoch": Proof(
        "group", r"with no leader epoch, but what it has read up to there ends with leader epoch \d+"
    ),
    "commits-without-metadata-epoch": Proof(
        "group-epochs", r"commits orders-\d with metadata epoch -1 while its own metadata has epoch \d+", (3,)
    ),
    "begins-with-old-metadata": Proof("group-epochs", r"with metadata epoch \d+ while its own metadata had", (3,)),
    "markers-of-no-coordinator": Proof(
        "transactions", r"appended a marker .*, of coordinator epoch 0, but its coordinator had epoch [1-9]"
    ),
    "marker-of-other-kind": Proof(
        "transactions",
        r"broker-\d appended a marker \(\w+\) of producer id \d+, .*; the coordinator's decision was (commit|abort)",
    ),
    "markers-counted-unanswered": Proof(
        "transactions", r"counts the marker \(\w+\) of .* in orders-\d as written, but no such marker is committed"
    ),
    "complete-after-first-answer": Proof("transactions", r"as complete, but orders-\d has no marker of it"),
    "first-partition-told-alone": Proof("transactions", r"as complete, but orders-\d has no marker of it"),
    "aborted-records-delivered": Proof(
        "transactions", r"got producer-\d:\d+ at .*, but the record is in an aborted transaction"
    ),
    "open-transactions-fetched": Proof("transactions", r"got offset \d+ of orders-\d at read_committed from broker-\d"),
    "isolation-not-asked": Proof(
        "transactions", r"at read_committed, got \d+ as the latest offset of orders-\d from broker-\d"
    ),
    "everything-fetched": Proof(
        "round", r"transaction \d+ of consumer-\d read records of transaction \d+ of consumer-\d"
    ),
    "failed-sends-forgotten": Proof(
        "transfers", r"of transaction \d+ of producer-1 with the sum [-+]\d, .*: it did not get"
    ),
    "end-overtakes-sends": Proof(
        "transfers", r"that its transaction \d+ is committed, but its send of \S+ to orders-\d had not returned"
    ),
    "timeouts-forgotten-at-load": Proof("taken-over", r"the last stable offset of orders-\d did not reach \d+ within"),
    "list-past-open": Proof("transactions", r"returned \d+ as the last stable offset of orders-\d; the right one"),
    "first-partition-verified-alone": Proof(
        "late-batch", r"denied broker-\d with TRANSACTION_ABORTABLE that orders-\d is in the transaction of producer id"
    ),
    "transactions-unverified": Proof("late-batch", r"appended a batch .* in a transaction of producer id \d+, epoch"),
    "markers-not-resumed": Proof("left-open", r"the decided transaction of producer id \d+ was not completed"),
    "transactions-never-time-out": Proof(
        "left-open", r"the open transaction of producer id \d+ in orders-\d did not end"
    ),
    "stable-positions-not-asked": Proof(
        "copies", r"a consumer asked broker-\d for .*, by OffsetFetch version \d+, without RequireStable"
    ),
    "offsets-at-once": Proof(
        "copies", r"returned \d+ as the committed offset of group copier .* RequireStable, although an open"
    ),
    "markers-cut-with-the-rest": Proof(
        "kafka-7408/undecided", r"did not append again the truncated marker of producer id \d+"
    ),
    "unclean-leader-cuts-nothing": Proof(
        "kafka-7408/undecided", r"has the transaction of producer id \d+, epoch \d+, open"
    ),
    "markers-of-their-own-epoch": Proof("kafka-7408/undecided", r"in leader epoch \d+, although it leads in"),
    "offsets-stay-pending": Proof(
        "left-pending",
        r"did not find the committed positions .* transaction to end: it was told UNSTABLE_OFFSET_COMMIT",
    ),
    "unstable-offsets-told": Proof("copies", r"returned \d+ as .* with RequireStable, although an open transaction"),
    "decision-changed-at-load": Proof("decided", r"has producer-\d in PrepareAbort .* after PrepareCommit"),
    "timeout-from-last-partition": Proof(
        "transactions", r"the beginning of the transaction was [\d,]+ ms, and now is [\d,]+ ms"
    ),
    "beginning-of-former": Proof(
        "transactions", r"from Complete\w+ to Ongoing at [\d,]+ ms, but has it that the transaction began at [\d,]+ ms"
    ),
    "timed-out-at-half": Proof(
        "transactions", r"aborts the transaction of .* as its timeout of [\d,]+ ms is over, but it began at [\d,]+ ms"
    ),
    "timed-out-at-twice": Proof("stays-open", r"with a timeout of 3,000 ms, at [\d,]+ ms: [\d,]+ ms too late"),
    "abort-ends-in-commit": Proof("transactions", r"decided to commit .*, but its application had asked to abort"),
    "transaction-before-hw": Proof(
        "transactions", r"by offset \d+ of __transaction_state-\d, but leaders had committed"
    ),
    "late-marker-taken": Proof(
        "late-requests", r"belongs to an earlier transaction, but it ended the one that was open"
    ),
    "epochs-of-markers-unheeded": Proof(
        "timed-out", r"appended a batch of producer id \d+, epoch \d+, to orders-0 at .* after a marker of epoch \d+"
    ),
    "former-coordinators-marker-taken": Proof("former-coordinator", r"of coordinator epoch \d+ after one of \d+"),
    "refused-markers-given-up": Proof("moved-leaders", r"sends no marker of .* to orders-\d, although that partition"),
    "aborted-work-not-redone": Proof("copies", r"has no committed output for group copier, but later records"),
    "positions-left-out": Proof("copies", r"has two committed outputs for group copier: consumer-"),
    "failed-markers-kept": Proof(
        "moved-leaders",
        r"sends a marker \(\w+\) of producer-\d \(.*\) to orders-\d, but it has that id in (Complete|Ongoing|Prepare)",
    ),
    "aborted-index-of-leaders-only": Proof(
        "rewound", r"got producer-\d:\d+ at .*, but the record is in an aborted transaction"
    ),
    "aborted-index-lost-at-truncation": Proof(
        "rewound", r"got producer-\d:\d+ at .*, but the record is in an aborted transaction"
    ),
    "any-marker-ends-abort": Proof(
        "transactions", r"got producer-\d:\d+ at .*, but the record is in an aborted transaction"
    ),
    "stable-offset-before-replication": Proof(
        "transactions",
        r"(got offset|returned) \d+ .*but the last stable|as the last stable offset of orders-\d; the",
    ),
    "partitions-added-before-commit": Proof(
        "transactions", r"answered that orders-\d is in the transaction of .*, but had not committed that"
    ),
    "verification-outlives-marker": Proof(
        "late-verification", r"appended a batch .* in a transaction of producer id 0"
    ),
    "markers-lost-at-disconnect": Proof(
        "lost-markers", r"the open transaction of producer id \d+ in orders-\d did not end"
    ),
    "unclean-leader-cuts-to-hw": Proof(
        "kafka-7408/undecided", r"has the transaction of producer id \d+, epoch \d+, open"
    ),
    "markers-again-of-no-coordinator": Proof("kafka-7408/undecided", r"but first it had to append again"),
    "loaded-up-to-high-watermark": Proof("slow-commit", r"has producer-\d in .* after .*: there is no such transition"),
    "one-partition-read": Proof("decided", r"has producer-\d in .*: its partitions were .*, and now are orders-\d$"),
    "client-version-not-logged": Proof(
        "decided", r"has producer-\d in .*: its transaction.version was 2, and now is 0"
    ),
    "ids-expire-at-once": Proof("resting", r"has producer-\d in Dead .*: it was used [\d,]+ ms before, and"),
    "fence-raises-again": Proof(
        "fences-refused", r"has producer-\d in PrepareAbort .*: the epoch rises by \d in one step"
    ),
    "transactions-share-epoch": Proof("transactions", r"each transaction must have its own epoch"),
    "init-keeps-epoch": Proof(
        "namesakes", r"gave app producer id \d+, epoch (\d+), after producer id \d+, epoch \1: it is not the next epoch"
    ),
    "init-told-before-commit": Proof(
        "transactions", r"is told that .* has producer id \d+, epoch \d+, but no coordinator has committed that"
    ),
    "timeout-of-first-producer": Proof(
        "namesakes", r"is told that app has .*, with a timeout of [\d,]+ ms, but it asked for [\d,]+ ms"
    ),
    "older-add-taken": Proof("late-adds", r"from Ongoing to Ongoing for producer id \d+, epoch \d+, although it had"),
    "end-answered-before-commit": Proof("transactions", r"says that its .*; no coordinator had decided so"),
    "end-refused-as-unknown": Proof(
        "transactions",
        r"answered EndTxn of \S+ for producer id \d+, epoch \d+ with INVALID_PRODUCER_ID_MAPPING although it does not",
    ),
    "older-end-taken": Proof("late-requests", r"decided to commit .*, epoch \d+, but its application had not asked"),
    "timed-out-without-fence": Proof("late-verification", r"but it had already been aborted"),
    "end-told-former-epoch": Proof("transfers", r"(producer id \d+, epoch \d+), and goes on with \1$"),
    "epoch-not-raised": Proof(
        "finding-endless-aborts/mended", r"committed no transaction .* in a row failed, the last with OUT_OF_ORDER"
    ),
    "next-epoch-not-taken": Proof("transfers", r"(producer id \d+, epoch \d+), and goes on with \1$"),
    "end-again-fenced": Proof(
        "slow-commit", r"refused with PRODUCER_FENCED to .*, but it had the transactional id in state Complete"
    ),
    "end-again-refused": Proof(
        "slow-commit", r"refused with INVALID_TXN_STATE to .*, but it had the transactional id in state Prepare"
    ),
    "offsets-taken-at-abort": Proof("copies", r"returned \d+ as .*, but .*, belongs to a transaction that is aborted"),
    "open-offsets-loaded-as-committed": Proof(
        "open-positions", r"returned \d+ as .* with RequireStable, although an open transaction"
    ),
    "timestamp-past-open": Proof("rewound", r"answered ListOffsets for timestamp \d+ of orders-\d with \d+"),
    "begins-after-committed": Proof("group", r"begins to read orders-\d at offset \d+, but group g had got"),
    "begins-where-reset-says": Proof("group", r"begins orders-\d at 0 by auto.offset.reset, although"),
}
"""Defect -> where it shows."""


def plan_of(scenario: str, seed: int, defects: tuple[str, ...] = ()) -> Plan:
    incident, _, variant = scenario.partition("/")
    loaded = library.load(incident) if variant else load_file(SCENARIOS / f"{scenario}.yaml")
    return resolve(loaded, variant or None, seed, (), defects)


def judge(plan: Plan) -> dict[str, InvariantResult]:
    """A run in the sim, judged whole, in which everything is seen that must happen."""
    conductor = ScenarioConductor(plan)
    meta = RunMeta(plan.scenario, plan.variant, "sim", plan.seed, plan.names, plan.profile())
    result = World(plan.nodes, conductor, plan.seed, "run", record=True, meta=meta).run(LIMIT_US)
    assert not result.failures, result.failures[0].traceback
    assert conductor.status == "completed", conductor.detail
    assert all(happened(plan, result.trace).values())
    engine = InProcessEngine()
    engine.feed_all(sorted(result.trace, key=lambda event: event.order))
    results = {each.id: each for each in engine.results()}
    if REPEAT in plan.expect.held:
        results[REPEAT] = repeated(plan, result.digest)
    return results


def repeated(plan: Plan, digest: str) -> InvariantResult:
    """What doing the run again shows, in processes with other hashes."""
    again = (repeat(plan, hash_seed=str(number)).digest for number in (11, 12, 13))
    return repeat_result(digest, next((each for each in again if each != digest), digest))


def caught_by(plan: Plan, meant: str) -> InvariantResult | InvariantVerdict:
    """What the invariant that is meant for a plan's defect says of its run, which ends at the first violation."""
    run = run_in_sim(plan, stop_at=meant, only=[meant])
    if meant == REPEAT:
        return repeated(plan, run.verdict.digest)
    return next(each for each in run.verdict.invariants if each.id == meant)


def is_known(found: Finding | Violation) -> bool:
    """Whether a violation says that it is a finding about Kafka itself or about a proposal."""
    return bool(found.rule if isinstance(found, Finding) else found.known)


@cache
def without_defects(scenario: str, seed: int) -> dict[str, InvariantResult]:
    return judge(plan_of(scenario, seed))


FIRST = {DEFECTS[name].caught_by: name for name in reversed(PROOFS)}
"""Invariant -> its first defect in the table, which ``make test`` proves; ``make test-all`` proves them all."""


def marks(name: str, seed: int) -> list[pytest.MarkDecorator]:
    """One process has the tests of a scenario, and carries it out once without defects (``--dist loadgroup``)."""
    together = pytest.mark.xdist_group(f"{PROOFS[name].scenario}/{seed}")
    return [together] if name in FIRST.values() else [together, pytest.mark.further]


BY_SCENARIO = [pytest.param(name, seed, marks=marks(name, seed)) for name in DEFECTS for seed in PROOFS[name].seeds]


@pytest.mark.parametrize(("defect", "seed"), BY_SCENARIO)
def test_a_defect_is_caught_by_its_invariant(defect: str, seed: int) -> None:
    """Shows that the invariant was tested and not violated, and that the defect alone makes it fail and the evidence
    tell. It may have given way elsewhere in the run, where a rule allows that, or because of a known finding, which
    is not taken for the defect."""
    proof, meant = PROOFS[defect], DEFECTS[defect].caught_by
    clean = without_defects(proof.scenario, seed)
    violated = {name for name, each in clean.items() if any(not is_known(finding) for finding in each.violations)}
    assert violated <= set(plan_of(proof.scenario, seed).expect.may)
    assert not [name for name, each in clean.items() if each.status == "inconclusive"]
    assert meant not in violated
    assert clean[meant].status in ("held", "excused", "violated")
    assert clean[meant].tested > 0
    caught = caught_by(plan_of(proof.scenario, seed, (defect,)), meant)
    assert (caught.status, caught.violated > 0) == ("violated", True), caught
    sentences = [finding.sentence for finding in caught.violations if not is_known(finding)]
    assert any(re.search(proof.says, sentence) for sentence in sentences), sentences
    assert all(finding.events for finding in caught.violations)


def test_every_defect_has_its_proof_and_every_invariant_its_defect() -> None:
    """Shows that the table is complete: no defect without a run, no invariant that nothing was seen to break."""
    assert set(PROOFS) == set(DEFECTS)
    assert {defect.caught_by for defect in DEFECTS.values()} == set(INVARIANTS)
    assert {proof.scenario for proof in PROOFS.values() if "/" not in proof.scenario} == {
        path.stem for path in SCENARIOS.glob("*.yaml")
    }


@cache
def modules_of_actors() -> dict[str, str]:
    """Name of each module below ``actors``, with its text."""
    paths = sorted((ROOT / "actors").rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text("utf-8") for path in paths}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_a_change_in_one_place(name: str) -> None:
    """Shows that a defect is asked for in one module, where the catalogue says it is."""
    modules = [module for module, text in modules_of_actors().items() if f'"{name}"' in text]
    assert len([module for module in modules if not module.startswith("actors.defects.")]) == 1, modules
    assert any(module.startswith(f"{DEFECTS[name].where}.") for module in modules), modules


def krift(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit code of the command."""
    monkeypatch.setattr("sys.argv", ["krift", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_command_line_switches_defects_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shows the same scenario end with 0, and with a defect with 1 and the invariant that caught it."""
    command = ["run", str(SCENARIOS / "expired.yaml"), "--runtime", "sim", "--quiet", "--full", "--out", str(tmp_path)]
    assert krift(monkeypatch, *command) == 0
    assert re.search(r"^T2 +held", capsys.readouterr().out, re.MULTILINE)
    assert krift(monkeypatch, *command, "--defect", "skip-sequence-check") == 1
    assert re.search(r"^T2 +violated", capsys.readouterr().out, re.MULTILINE)


def test_the_command_line_names_every_unknown_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shows one line for each unknown name, with the nearest known one, and exit code 2."""
    names = ["--defect", "list-log-en", "--defect", "raise", "--defect", "nonsense"]
    assert krift(monkeypatch, "run", "kip-207", "--runtime", "sim", *names) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": no such defect")[0] for line in lines] == [
        "krift: --defect list-log-en",
        "--defect nonsense",
    ]
    assert lines[0].endswith("did you mean list-log-end? Expected a name that krift exam --list prints")
