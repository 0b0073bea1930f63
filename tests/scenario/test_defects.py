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
    "older-epoch-accepted": Proof(
        "kip-232-rolling-bounce/seed", r"accepted the answer of broker-\d with metadata epoch \d+ when its own had \d+"
    ),
    "wait-ends-with-any-metadata": Proof(
        "kip-232-external-offsets/seed", r"waited for metadata epoch \d+ and was told that it is there, when its"
    ),
    "seeks-without-waiting": Proof(
        "kip-232-external-offsets/seed", r"seeks to \d+ of orders-0, kept with metadata epoch \d+"
    ),
    "double-vote": Proof("quorum", r"granted its vote in epoch \d+ to \d+ after it had granted it to \d+"),
    "pre-vote-is-stored": Proof("divided", r"stored a vote for \d+ in epoch \d+, and granted nobody a vote"),
    "standing-forgets-vote": Proof("no-winner", r"forgot on its disk that it had voted for \d+ in epoch \d+, which"),
    "removed-leader-stays": Proof("voter-changes", r"after its own removal from the voters was committed"),
    "check-quorum-counts-observers": Proof(
        "heard-by-brokers", r"still led epoch 1 \d+ s after the last time that a majority"
    ),
    "leader-counts-unflushed": Proof(
        "slow-leader-disk", r"high watermark to \d+, which \S+ had on disk, out of 3 voters"
    ),
    "flush-end-inclusive": Proof("quorum", r"has the metadata log on its disk up to \d+, and it ends at \d+"),
    "leader-counts-sent": Proof("quorum", r"high watermark to \d+ counting \S+, which had fetched up to \d+ in its"),
    "vote-before-sync": Proof("quorum", r"granted its vote in epoch \d+ to \d+ before the vote was on its disk"),
    "same-epoch-leader": Proof("quorum", r"knows \d+ as the leader of quorum epoch \d+, of which \S+ knew \d+"),
    "vote-for-any": Proof("stale-voter", r"granted \d+ its vote in epoch \d+, whose log ends at"),
    "pre-vote-while-followed": Proof("divided", r"granted controller-\d a vote beforehand .* and has served it"),
    "prospective-refuses": Proof("divided", r"refused controller-\d a vote beforehand in epoch \d+, whose log ends at"),
    "epoch-reset": Proof("quorum", r"stored epoch 0 while its disk had epoch \d+"),
    "fetch-in-leader-epoch": Proof("quorum", r"hold offset \d+ of __cluster_metadata-0 in leader epoch \d+, and"),
    "divergence-unseen": Proof("own-tail", r"hold offset \d+ of __cluster_metadata-0 in leader epoch 2"),
    "commit-old-epoch": Proof("old-epoch", r"moved its high watermark to \d+, past an entry of epoch \d+ and none"),
    "quorum-hw-regress": Proof("quorum", r"high watermark .*below \d+, to which epoch \d+ had committed it", (1, 3)),
    "half-elects": Proof("four-voters", r"leads epoch \d+ with the votes of \S+, \S+, out of the 4 voters"),
    "vote-by-epoch": Proof("rejoins", r"controller-2 leads .* and lacks what controller-1 committed up to \d+"),
    "apply-uncommitted": Proof("divided", r"handed its state machine .* up to \d+, with a high watermark of \d+"),
    "leader-resumes": Proof("divided", r"leads epoch \d+ after it had led epoch \d+ before its restart"),
    "snapshot-of-log-end": Proof(
        "snapshots", r"made a snapshot up to \d+ while the metadata log was committed up to \d+"
    ),
    "snapshot-id-inclusive": Proof(
        "snapshots", r"made a snapshot up to \d+ that differs from the committed entries up to"
    ),
    "voter-changes-overlap": Proof("voter-changes", r"wrote a voter set at \d+ while the last one, at \d+, was not"),
    "removed-leader-counts": Proof("voter-changes", r"(controller-\d), leader .* counting .*\1.*, with the voters"),
    "observer-stands": Proof("divided", r"broker-\d became prospective in epoch \d+ and is none of the voters"),
    "append-in-resignation": Proof("divided", r"appended to the metadata log as leader of epoch 1, and does not lead"),
    "quorum-fetch-unfenced": Proof("own-tail", r"counted a fetch that controller-\d made in epoch \d+"),
    "no-check-quorum": Proof("divided", r"controller-\d still led epoch 1 5 s after the last time that a majority"),
    "any-cluster-served": Proof("stranger", r"counted a fetch by controller-3, which belongs to another cluster"),
    "diverging-epoch-start": Proof("divided", r"epoch 1 up to 0; the right answer is epoch 1 up to \d+"),
    "reply-before-commit": Proof(
        "comes-back", r"its ISR \[1, 2, 3\] of orders-0 was accepted, at offset \d+ of .* no", (2,)
    ),
    "voters-before-commit": Proof(
        "undone-change", r"add-voter of controller-4 was done, at offset \d+ of .* which no leader had committed"
    ),
    "pre-vote-for-all": Proof("rejoins", r"became \S+ in epoch 2 while controller-1, leader of epoch 1, was followed"),
    "voters-of-old": Proof(
        "undone-change", r"were not in force everywhere within .*: .*controller-3 has \S+, \S+, \S+$"
    ),
    "voters-outlive-their-record": Proof(
        "undone-change", r"controller-\d copied a voter set .* differs .* by controller-4 \(.*\), controller-5"
    ),
    "stale-leader-epoch": Proof(
        "out-of-sync", r"gave leader epoch 0 of orders-0 to broker-\d after it had given it to"
    ),
    "partition-epoch-stands": Proof("out-of-sync", r"changed orders-0 \(alter-isr\): partition epoch \d+ after \d+"),
    "follower-reorders-batch": Proof("out-of-sync", r"hold offset \d+ of orders-0 in leader epoch 0, and differ"),
    "elect-any-replica": Proof("out-of-sync", r"broker-2 leads orders-0 .* and lacks what broker-1 committed up to"),
    "isr-without-epoch-start": Proof("late-follower", r"proposed broker-2 for the ISR .*below .*the epoch's start \d+"),
    "isr-with-the-fenced": Proof("stale-broker", r"proposed broker-3 .* says that it is fenced or shuts down"),
    "isr-below-hw": Proof(
        "fell-behind", r"broker-2 may be elected for orders-0 .* the committed records up to \d+, not"
    ),
    "hw-of-the-caught-up": Proof("out-of-sync", r"counting \[1.*\], without broker-\d, which may be elected"),
    "isr-without-version": Proof("isr-race", r"though broker-1 had proposed it on partition epoch 0 of leader"),
    "fenced-at-half-time": Proof("comes-back", r"fenced it, broker-\d, \d+ ms after it had heard of it; the session"),
    "id-of-the-living": Proof("acks-1", r"registered broker-\d/\d in place of broker-\d/\d, broker-\d, \d+ ms after"),
    "fence-keeps-isr": Proof("out-of-sync", r"broker-1 leads orders-0 in leader epoch 0, and is fenced at offset \d+"),
    "isr-of-former-lives": Proof("two-lives", r"has broker-3 by what it was under broker epoch \d+, and it is reg"),
    "hw-ignores-isr": Proof("out-of-sync", r"moved the high watermark .* of its ISR had fetched up to \d+ only"),
    "truncate-to-hw": Proof("tail", r"truncated orders-0 .*\(high-watermark, .*although it held committed records"),
    "truncate-whole-epoch": Proof(
        "tail", r"truncated orders-0 from [\d,]+ to -1 .* although it shared everything up to"
    ),
    "answer-of-former-leader": Proof(
        "former-leader", r"broker-3 acted under leader epoch 1 of orders-0 on what broker-1 answered to its fetch of"
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
    "retention-past-watermark": Proof(
        "retention", r"moved the log start of \w+-\d to \d+, above its high watermark \d+"
    ),
    "retention-within-segment": Proof("retention", r"moved the log start of \w+-\d to \d+, which is inside a segment"),
    "anew-keeps-watermark": Proof("retention", r"which it had restarted at \d+, with a high watermark of \d+"),
    "deletes-to-log-end": Proof("deletions", r"moved the log start of \w+-\d to \d+, above its high watermark \d+"),
    "deletes-whole-batches": Proof("deletions", r"deleted the records of orders-0 up to \d+, but was asked for 33"),
    "deletion-awaits-nobody": Proof("deletions", r"but the log of broker-\d, which is alive, starts at \d+"),
    "follower-tells-end-for-start": Proof("deletions", r"but the log of broker-\d, which is alive, starts at \d+"),
    "follower-keeps-log-start": Proof(
        "deletions", r"broker-\d has log start 0 of \w+-\d, but its leader's answers had log start 33"
    ),
    "log-starts-uncheckpointed": Proof(
        "deletions", r"after a restart broker-2 has log start 0 of orders-0, but \d+ had to be in its checkpoint"
    ),
    "below-start-served": Proof("deletions", r"from broker-\d, whose log starts at \d+"),
    "start-out-of-range": Proof("retention", r"called (\d+) out of range, but its log starts at \1 and ends at"),
    "copies-uncommitted": Proof("tiers", r"copies offsets \d+ to \d+ of orders-0, but its high watermark is \d+"),
    "copies-newest-first": Proof("tiers", r"copies offsets \d+ to \d+ of \w+-0, but no copy has offsets \d+ to"),
    "copies-again-from-start": Proof("tiers", r"copies offsets \d+ to \d+ of \w+-0, although it knows a copy of them"),
    "expired-start-untold": Proof(
        "tiers", r"deletes the copy of offsets \d+ to \d+ of bills-0, but its log starts at \d+"
    ),
    "copy-errors-ignored": Proof("tiers", r"reported its copy of \w+-0 as finished without"),
    "half-copies-stay": Proof("tiers", r"broker-\d gave up its copy of \w+-0, and left LOG in the store"),
    "copies-untold": Proof("tiers", r"\w+ of a copy of \w+-0 was stored, but no metadata record named that copy"),
    "expiry-answers-some": Proof(
        "remote-reads", r"answered the ListOffsets of list-offsets-\d with 0 results for orders-\d"
    ),
    "rejected-unanswered": Proof(
        "remote-reads", r"answered the ListOffsets of list-offsets-\d with 0 results for orders-\d"
    ),
    "lookup-ignores-timeout": Proof(
        "remote-reads", r"with REQUEST_TIMED_OUT after 1,\d+ ms, but its timeout was 3,000 ms"
    ),
    "lookup-timeout-of-start": Proof("remote-reads", r"2,000 ms after its timeout of 1,500 ms"),
    "expiry-drops-finished": Proof(
        "remote-reads", r"with REQUEST_TIMED_OUT for orders-\d, although that look-up had ended", (6,)
    ),
    "expiry-leaves-reads": Proof(
        "remote-reads", r"answered the ListOffsets of .*, but did not cancel its read \d+ of orders-\d"
    ),
    "loss-leaves-reads": Proof(
        "remote-reads", r"answered the ListOffsets of .*, but did not cancel its read \d+ of orders-[23]"
    ),
    "reader-uninterrupted": Proof("remote-reads", r"still carries out read \d+ of orders-\d, whose request expired"),
    "reader-queue-unbounded": Proof("remote-reads", r"accepted a read of orders-\d while 1 reads ran and 2 waited"),
    "full-queue-waits": Proof("remote-reads", r"with REQUEST_TIMED_OUT for orders-\d, whose read it had rejected"),
    "lookup-holds-handler": Proof(
        "remote-reads", r"one ListOffsets occupied a request handler of broker-\d for [\d,]+ ms"
    ),
    "reader-last-come-first": Proof("remote-reads", r"took read \d+ although read \d+ had waited longer"),
    "remote-skipped": Proof("remote-reads", r"without asking remote storage, which Kafka always asks"),
    "unknown-maximum-is-local": Proof("draft-reads", r"without asking remote storage, of which it knew no copies"),
    "lookup-outlives-leadership": Proof("remote-reads", r"with offset \d+ for orders-[23], which it no longer led"),
    "late-answer-unlimited": Proof(
        "remote-reads", r"with offset \d+ of orders-\d, but the limit was \d+ when the request arrived"
    ),
    "late-answer-unrefused": Proof(
        "late-refusal",
        r"that orders-0 has no such record, but its high watermark was 0, below the start of its leader epoch",
    ),
    "lookup-first-record": Proof("remote-reads", r"answered ListOffsets for timestamp \d+ of orders-\d with \d+ \("),
    "deletes-metadata-alone": Proof("tiers", r"reported a copy of \w+-0 as deleted, but the store still has"),
    "local-retention-uncopied": Proof(
        "behind",
        r"deleted its segments of orders-0 below \d+, but offsets from \d+ on were never copied, and its log starts "
        r"at 0",
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
    ),
    "log-start-unfound": Proof(
        "forgets", r"the log of broker-1, leader of epoch \d of orders-0, starts at 0, but locally at"
    ),
    "diverging-unsaid": Proof("two-tails", r"with last epoch 0: no divergence; the right answer is epoch 0 up to"),
    "epoch-ends-at-log-end": Proof(
        "out-of-sync", r"answered a client, which asked for the end of epoch 0: epoch 0 up to [\d,]+; the right"
    ),
    "diverging-epoch-ignored": Proof(
        "by-turns", r"broker-2 truncated .* and kept leader epoch 1, although its leader has epoch 0"
    ),
    "truncate-fully": Proof("by-turns", r"truncated orders-0 from [\d,]+ to 0 \(diverge\) .* although it shared"),
    "epochs-outlive-truncation": Proof("by-turns", r"continues with leader epoch 1, but its last record has epoch 0"),
    "recovery-drops-last": Proof("by-turns", r"recovered orders-0 up to [\d,]+, although its disk had it up to [\d,]+"),
    "leader-skips-offset": Proof("out-of-sync", r"appended a batch to orders-0 at \d+, while its log ended at \d+"),
    "follower-takes-produce": Proof("there-and-back", r"as leader of epoch 1, which broker-2 took up"),
    "consumers-unfenced": Proof(
        "moved-leaders", r"gave consumer-1 records of \S+ in leader epoch 0, although one is of"
    ),
    "list-unfenced": Proof(
        "late-follower", r"answered the ListOffsets of \S+ for orders-0 in leader epoch 2, although"
    ),
    "epoch-ends-unfenced": Proof(
        "group", r"answered the OffsetForLeaderEpoch of a client for orders-0 in leader epoch 1, although asked in"
    ),
    "fetch-unfenced": Proof("there-and-back", r"counted a fetch of broker-3 .* in leader epoch 0"),
    "ack-before-hw": Proof("out-of-sync", r"acknowledged offset \d+ of orders-0 .* while its high watermark was \d+"),
    "eligible-for-good": Proof("refused", r"the ISR \[1, 2\], the eligible leader replicas \[2\]: \[2\] are in both"),
    "unclean-anyway": Proof("late-follower", r"elected broker-2 .*\(unclean\), uncleanly, from outside the ISR \[1\]"),
    "list-log-end": Proof(
        "tail", r"reported [\d,]+ as the latest offset .* to (\S+) after broker-1 .* had reported [\d,]+ to \1"
    ),
    "refuse-too-long": Proof("late-follower", r"refused ListOffsets .* although it had caught up"),
    "list-behind": Proof("tail", r"reported [\d,]+ as the latest offset .* had acknowledged producer-2"),
    "refusal-is-fatal": Proof("late-follower", r"-1 returned OFFSET_NOT_AVAILABLE for orders-0 to .* before"),
    "refusal-refreshes": Proof("late-follower", r"-1 refreshed its metadata after broker-1 had refused"),
    "lookup-by-batch": Proof(
        "by-timestamp", r"answered ListOffsets for timestamp (1500|-3) of orders-0 with \d+ .*, it is"
    ),
    "position-not-validated": Proof(
        "reads-on", r"consumer-1 came after .* of leader epoch 0 .* and read on at [\d,]+ in"
    ),
    "later-changes-dropped": Proof(
        "out-of-sync", r"told \S+ of .* orders-0, and its image, up to \d+, has broker-\d in"
    ),
    "lost-lookups-kept": Proof(
        "comes-back", r"list-offsets-1 still held at the end: ListOffsets of call \d+, which has"
    ),
    "refusal-is-offset-0": Proof(
        "no-position", r"consumer-1 took 0 for its first position in orders-0, where broker-1"
    ),
    "epochs-outlive-topic": Proof(
        "topic-of-high-epoch", r"did not take over leader epoch 0 of orders-\d\S* from broker-\d"
    ),
    "older-metadata-taken": Proof("stale-broker", r"took over leader epoch \d+ of orders-0 from broker-3 when it"),
    "refused-leader-taken": Proof("stale-broker", r"asked broker-1 for offsets of orders-0 in leader epoch 1, when"),
    "no-metadata-backoff": Proof("comes-back", r"asked for metadata again \d+ ms after it had an answer, before the"),
    "oldest-duplicate": Proof(
        "lost-answers", r"acknowledged producer-1:\d+, sent later by producer-1, at offset [\d,]+ of"
    ),
    "hide-reason": Proof("refused", r"answered Produce with UNKNOWN_SERVER_ERROR, which that API does not document"),
    "refuse-replicas": Proof("late-follower", r"answered ListOffsets of list-offsets-2 .* with OFFSET_NOT_AVAILABLE"),
    "lose-acked": Proof("out-of-sync", r"was informed that producer-1:\d+ is at offset [\d,]+ of orders-0; the log of"),
    "lose-acks-1": Proof("acks-1", r"was informed that producer-1:\d+ is at offset [\d,]+ of orders-0; the log of"),
    "consumer-mislabel": Proof("out-of-sync", r"offset \d+ of orders-0 holds producer-1:\d+ for consumer-1, and"),
    "refuse-after-append": Proof("refused", r"was informed that producer-1:\d+ had failed for good; .*committed it at"),
    "unmuted-partition": Proof("one-in-flight", r"committed at offset .*, which was sent later"),
    "position-past-rest": Proof("two-readers", r"consumer-1 had read orders-0 up to \d+ .*: it left out offset \d+"),
    "fetch-drops-batch": Proof("two-readers", r"got no record there, where consumer-\d had got producer-1:\d+"),
    "fetch-past-hw": Proof("two-readers", r"got producer-1:\d+ at offset .*, which no leader had committed"),
    "reused-buffer": Proof("one-in-flight", r"with another payload .* than producer-1 sent"),
    "hw-needs-own-epoch": Proof("without-records", r"did not reach [\d,]+, its leader epoch's start, within"),
    "hw-on-append-only": Proof(
        "rare-records", r"leader of orders-0 .*, stayed at [\d,]+ .*its ISR broker-1, broker-2 has"
    ),
    "never-stand": Proof("comes-back", r"no quorum leader was acknowledged by most of the 3 voters within"),
    "no-new-leader": Proof("comes-back", r"no leader took up orders-0 within .* broker-3 could lead"),
    "isr-never-expands": Proof("comes-back", r"broker-\d did not get into the ISR of orders-0 within"),
    "isr-never-shrinks": Proof(
        "cut-from-leader", r"broker-1, leader of orders-0 .*, has not asked broker-3 out of its"
    ),
    "isr-shrinks-at-once": Proof("cut-from-leader", r"without broker-\d, which had all of its log \d+ ms before: repl"),
    "former-lives-fetch": Proof("late-fetch", r"counted a fetch of broker-3 .* had heard of its broker epoch \d+"),
    "wake-one-consumer": Proof(
        "two-readers", r"let the Fetch of a consumer at \S+ of orders-0 wait until its time was ov"
    ),
    "range-ends-before-end": Proof(
        "above-watermark", r"answered the Fetch of a consumer at \d+ .* OFFSET_OUT_OF_RANGE, although"
    ),
    "append-below-min-isr": Proof(
        "refused", r"appended what \S+ sent for orders-0 with acks=all while its ISR had 1 mem"
    ),
    "min-isr-of-its-own": Proof(
        "refused", r"acknowledged offset \d+ of orders-0 to producer-1 .* while its ISR had 1 members, below .* 2$"
    ),
    "epoch-starts-at-watermark": Proof(
        "late-follower", r"proposed broker-2 for the ISR .*below .*the epoch's start [1-9][\d,]+"
    ),
    "epoch-starts-with-the-last": Proof(
        "late-follower", r"from log end [1-9][\d,]+, high watermark 0\) answered ListOffsets .* before it had caught up"
    ),
    "snapshot-without-configs": Proof(
        "snapshots", r"made a snapshot up to \d+, in which there are other records than in that of \S+ up to there"
    ),
    "outdated-proposal-again": Proof("told-late", r"broker-1 proposed .* had been told INVALID_UPDATE_VERSION", (8,)),
    "isr-swaps-members": Proof("one-back", r"the cluster did not converge: .* its whole ISR: orders-0, 20 s after"),
    "retry-forgotten": Proof("comes-back", r"the send \S+ of producer-1 to orders-0 did not return within"),
    "consumer-gives-up": Proof("slow-leader", r"consumer-1 did not read orders-0 up to [\d,]+ within"),
    "no-delivery-timeout": Proof("slow-leader", r"of producer-1 did not return within 1.5 s, its timeout"),
    "busy-metadata-log": Proof("comes-back", r"broker-\d was not unfenced within .*: it is fenced by controller-\d"),
    "old-leader-for-ever": Proof("comes-back", r"list-offsets-1 sent \d+ requests without progress within"),
    "image-stops-when-fenced": Proof("deposed", r"the image of broker-1 did not get to \d+ of the metadata log within"),
    "one-produce-for-all": Proof(
        "two-leaders", r"producer-1 sent records of orders-1 to broker-1, when it took broker-2"
    ),
    "hint-of-former-epoch": Proof("deposed", r"told producer-1 of broker-1 in leader epoch 1 of orders-0, and no"),
    "truncation-one-short": Proof("reads-on", r"consumer-1 went back to \d+ of orders-0, .* leader epoch \d+ ends at"),
    "produce-keeps-leader": Proof("deposed", r"producer-1 did not learn the leader of orders-0 within .*broker-1 in"),
    "fetcher-gives-up": Proof(
        "slow-leader",
        r"broker-\d did not (get|learn of the commit of) the acknowledged records of orders-0 below [\d,]+",
    ),
    "no-request-timeout": Proof("slow-leader", r"to broker-1 ended after [\d,]+ ms \(answered\), its timeout is 1,000"),
    "leaky-partition": Proof("out-of-sync", r"broker-\d acted on \S+, which broker-\d sent when everything from it"),
    "wake-one-produce": Proof("muted", r"answered the Produce of producer-1 with acks=all .* the high watermark had"),
    "unseeded-timers": Proof("comes-back", r"the run gave trace [0-9a-f]+, and [0-9a-f]+ when it was repeated"),
    "wake-in-hash-order": Proof("comes-back", r"the run gave trace [0-9a-f]+, and [0-9a-f]+ when it was repeated"),
    "no-reconnect-backoff": Proof("comes-back", r"sent [\d,]+ requests in one second, and \d+ useful events"),
    "fetch-without-wait": Proof("comes-back", r"consumer-\d sent [\d,]+ requests in one second, and \d+ useful events"),
    "skip-sequence-check": Proof("expired", r"appended sequence \d+ of producer id \d+.* where \d+ was next"),
    "raise": Proof("out-of-sync", r"broker-\d raised an exception: RuntimeError: the defect raise"),
    "lose-trace": Proof("out-of-sync", r"lacks its event \d*99|which does not come before in the trace"),
    "clean-start-after-crash": Proof("lost-tail", r"broker-2 came back to orders-0 and may be elected, but of"),
    "fetch-before-sync": Proof("slow-voters", r"high watermark to \d+, which controller-1 had on disk, out of 3"),
    "watermark-before-truncation": Proof(
        "two-tails", r"broker-1 set its high watermark .*, but its log is as committed only"
    ),
    "checkpoint-of-log-ends": Proof(
        "tail", r"broker-1 took up orders-0 .* with high watermark [\d,]+, but up to there its log"
    ),
    "watermarks-lost-at-shutdown": Proof(
        "two-lives", r"broker-3 took up orders-0 with high watermark 0 after it had shut itself down in good order with"
    ),
    "isr-answer-awaited": Proof("open-proposal", r"broker-2 did not get into the ISR of orders-0 within"),
    "isr-in-new-epochs-only": Proof("open-proposal", r"broker-2 did not get into the ISR of orders-0 within"),
    "watermark-waits-for-fenced": Proof(
        "gone-at-once", r"broker-1, leader of orders-0 .*, stayed at \d+ .*its ISR broker-1, broker-2 has everything"
    ),
    "last-known-before-eligible": Proof(
        "last-known", r"elected broker-1 .*\(unclean\), the last known leader, though \[2\] is eligible"
    ),
    "elect-fenced-last-known": Proof("nobody-left", r"broker-1 leads orders-0 in leader epoch \d+, and is fenced"),
    "retry-keeps-epoch": Proof("comes-back", r"list-offsets-1 sent \d+ requests without progress within"),
    "producers-of-leaders-only": Proof(
        "other-leader", r"appended sequence \d+ of producer id \d+.* where \d+ was next"
    ),
    "remembers-last-batch": Proof("lost-answers", r"with OUT_OF_ORDER_SEQUENCE_NUMBER although sequences .* last 5"),
    "needs-one-replica-more": Proof("expired", r"NOT_ENOUGH_REPLICAS although 2 replicas were in sync, and 2 are eno"),
    "producers-forgotten-in-office": Proof(
        "other-leader", r"producer-1:\d+ is committed at offset \d+ and at offset \d+"
    ),
    "bump-at-any-error": Proof("lost-answers", r"epoch 0 and producer id 0, epoch 2, with no reason to renumber it"),
    "producers-forgotten-at-start": Proof("restarted", r"appended sequence \d+ of producer id 0.* where \d+ was next"),
    "sequence-from-one": Proof("out-of-sync", r"appended sequence 1 of .* where 0 records had been sent before"),
    "old-producer-epoch-taken": Proof("muted", r"appended a batch of producer id 0, epoch 0, .* after one of epoch 1"),
    "stray-log-taken-up": Proof("topic-made-anew", r"took up orders-0@\S+ in .* with log end \d+, while .* ended at 0"),
    "replicas-outlive-topic": Proof("topic-made-anew", r"no leader took up orders-0@\S+ within"),
    "topic-id-reused": Proof("topic-made-anew", r"gave leader epoch 0 of orders-0 to broker-\d after it had given it"),
    "version-too-new": Proof("kip-207/kafka", r"answered ListOffsets of version 4 with OFFSET_NOT_AVAILABLE", (7,)),
    "strangers-commit": Proof("group", r"took a commit of orders-\d by \S+ in generation \d+ of group g, ", (3,)),
    "commit-before-hw": Proof("group-cut", r"loaded that \d+ of orders-\d is committed .*, after \d+ was ack", (3,)),
    "commit-epoch-unstored": Proof(
        "group", r"informed that \d+ of orders-\d is committed .* no coordinator has app", (3,)
    ),
    "commit-epoch-untold": Proof("group", r"that (\d+) of .* \(leader epoch none,.*after \1 \(leader epoch \d", (3,)),
    "commit-of-more": Proof("group", r"took [\d,]+ of orders-\d as committed .*, of which \d+ is the highest", (3,)),
    "commit-unwritten": Proof(
        "group", r"informed that nothing of orders-\d is committed for group g, after \d+ was", (3,)
    ),
    "former-controller-obeyed": Proof("late-push", r"gave consumer-\d metadata epoch \d+ (after|before) it"),
    "removed-topics-remembered": Proof("group-topic-removed", r"removed at \d+, and keeps \d+ of it for group g in"),
    "load-ends-early": Proof("group", r"loaded .* of orders-\d for group g, where the log of __consumer_off", (3,)),
    "coordinates-as-follower": Proof("group-cut", r"orders-\d|for group g in leader epoch \d+ of __consumer", (3,)),
    "generations-begin-anew": Proof("group", r"in generation 0, in leader epoch \d+ of .*, though generation", (3,)),
    "generation-reused": Proof(
        "group", r"to CompletingRebalance in generation 2, in leader .*, after generation 2", (3,)
    ),
    "equal-metadata-refused": Proof("group-epochs", r"refused a commit .* and none with a higher one is there", (3,)),
    "joins-without-revoking": Proof("group", r"generation \d+ of group g gives orders-\d to .* while consumer", (3,)),
    "partition-given-twice": Proof("group", r"gave orders-\d to \S+ and to \S+ in generation \d+ of group g", (3,)),
    "partition-left-out": Proof("group-quiet", r"did not become stable within .*: nobody owns orders-\d", (3,)),
    "rebalance-unheard": Proof("group-quiet", r"did not become stable within .*: it is PreparingRebalance", (3,)),
    "silent-member-stays": Proof("group-quiet", r"did not become stable within .*: it is PreparingRebalance", (3,)),
    "loaded-members-unwatched": Proof(
        "group-waits", r"has had group g Stable in generation \d+ for .* s, with \S+ among its members, which", (3,)
    ),
    "absent-members-stay": Proof("group-waits", r"formed generation \d+ of group g with .* did not join for it", (3,)),
    "leave-unheard": Proof("group-waits", r"has had group g Stable .* among its members, which is gone", (3,)),
    "resigns-silently": Proof("group-waits", r"gave up __consumer_offsets-0, and left \S+.* without an answer", (3,)),
    "commits-ahead": Proof("group", r"consumer-\d commits \d+ of orders-\d for group g, given up to \d+", (3,)),
    "begins-with-old-metadata": Proof("group-epochs", r"with metadata epoch \d+, while its own metadata had", (3,)),
    "marker-of-other-kind": Proof(
        "transactions", r"broker-\d appended a marker \(\w+\) of producer id \d+, .*; the decision was (commit|abort)"
    ),
    "markers-counted-unanswered": Proof(
        "transactions", r"counts the marker \(\w+\) of .* in orders-\d as written; no such marker is committed there"
    ),
    "first-partition-told-alone": Proof("transactions", r"complete, and orders-\d has no marker of it"),
    "aborted-records-delivered": Proof(
        "transactions", r"got producer-\d:\d+ at .*, which is in an aborted transaction"
    ),
    "open-transactions-fetched": Proof("transactions", r"got offset \d+ of orders-\d at read_committed from broker-\d"),
    "isolation-not-asked": Proof(
        "transactions", r"at read_committed, got \d+ as the latest offset of orders-\d from broker-\d"
    ),
    "everything-fetched": Proof(
        "round", r"transaction \d+ of consumer-\d has read from transaction \d+ of consumer-\d"
    ),
    "failed-sends-forgotten": Proof(
        "transfers", r"got [-+]\d in all of transaction \d+ of producer-1, a transfer, without"
    ),
    "timeouts-forgotten-at-load": Proof("taken-over", r"the last stable offset of orders-\d did not reach \d+ within"),
    "list-past-open": Proof("transactions", r"returned \d+ as the last stable offset of orders-\d; of its log"),
    "transactions-unverified": Proof("late-batch", r"appended a batch .* in a transaction of producer id \d+, epoch"),
    "transactions-never-time-out": Proof(
        "left-open", r"the transaction that producer id \d+ has open in orders-\d did not end"
    ),
    "markers-not-resumed": Proof("left-open", r"the decided transaction of producer id \d+ was not completed"),
    "offsets-at-once": Proof(
        "copies", r"returned \d+ of orders-\d for group copier with RequireStable, while a transaction was open", (2,)
    ),
    "unclean-leader-cuts-nothing": Proof(
        "kafka-7408/undecided", r"has the transaction of producer id \d+, epoch \d+, open"
    ),
    "markers-cut-with-the-rest": Proof(
        "kafka-7408/undecided", r"has not appended again the truncated marker of producer id \d+"
    ),
    "markers-of-their-own-epoch": Proof("kafka-7408/undecided", r"in leader epoch \d+, while it leads in \d+"),
    "unstable-offsets-told": Proof("copies", r"returned \d+ of .* with RequireStable, while a transaction was open"),
    "decision-changed-at-load": Proof("decided", r"has producer-\d in PrepareAbort .* after PrepareCommit"),
    "abort-ends-in-commit": Proof("transactions", r"decided to commit .*, which its application had asked to abort"),
    "transaction-before-hw": Proof(
        "transactions", r"by offset \d+ of __transaction_state-\d, which no leader had committed"
    ),
    "late-marker-taken": Proof("late-requests", r"of a former transaction, which ended the one that was open"),
    "former-coordinators-marker-taken": Proof("former-coordinator", r"of coordinator epoch \d+ after one of \d+"),
    "refused-markers-given-up": Proof("moved-leaders", r"sends no marker of .* to orders-\d, which exists"),
    "aborted-work-not-redone": Proof("copies", r"has no committed output for group copier, and later ones have"),
    "positions-left-out": Proof("copies", r"has two committed outputs for group copier: consumer-"),
    "complete-after-first-answer": Proof("transactions", r"complete, and orders-\d has no marker of it"),
    "aborted-index-of-leaders-only": Proof("rewound", r"got producer-\d:\d+ at .*, which is in an aborted transaction"),
    "aborted-index-lost-at-truncation": Proof(
        "rewound", r"got producer-\d:\d+ at .*, which is in an aborted transaction"
    ),
    "any-marker-ends-abort": Proof("transactions", r"got producer-\d:\d+ at .*, which is in an aborted transaction"),
    "stable-offset-before-replication": Proof(
        "transactions",
        r"(got offset|returned) \d+ .*whose log has the last stable|as the last stable offset of orders-\d; of its",
    ),
    "partitions-added-before-commit": Proof("transactions", r"which no coordinator had open with it"),
    "verification-outlives-marker": Proof(
        "late-verification", r"appended a batch .* in a transaction of producer id 0"
    ),
    "markers-lost-at-disconnect": Proof(
        "lost-markers", r"the transaction that producer id \d+ has open in orders-\d did not end"
    ),
    "unclean-leader-cuts-to-hw": Proof(
        "kafka-7408/undecided", r"has the transaction of producer id \d+, epoch \d+, open"
    ),
    "markers-again-of-no-coordinator": Proof("kafka-7408/undecided", r"that it had truncated was due"),
    "loaded-up-to-high-watermark": Proof("slow-commit", r"has producer-\d in .* after .*: that state does not follow"),
    "transactions-share-epoch": Proof("transactions", r"each transaction has an epoch of its own"),
    "end-answered-before-commit": Proof("transactions", r"was informed that its .*; no coordinator had decided that"),
    "older-end-taken": Proof("late-requests", r"decided to commit .*, epoch \d+, without a request of its application"),
    "timed-out-without-fence": Proof("late-verification", r"which had been aborted since its application began it"),
    "offsets-taken-at-abort": Proof("copies", r"returned \d+ of .*, which is .* in a transaction that is aborted"),
    "open-offsets-loaded-as-committed": Proof(
        "open-positions", r"returned \d+ of .* with RequireStable, while a transaction was open"
    ),
    "timestamp-past-open": Proof("rewound", r"answered ListOffsets for timestamp \d+ of orders-\d with \d+"),
    "begins-after-committed": Proof("group", r"begins at \d+ of orders-\d, of which group g had been given", (3,)),
    "begins-where-reset-says": Proof("group", r"begins at 0 of orders-\d as auto.offset.reset says, though", (3,)),
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
    again = [repeat(plan, hash_seed=str(number)).digest for number in (11, 12, 13)]
    return repeat_result(digest, next((each for each in again if each != digest), again[0]))


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


BY_SCENARIO = sorted(DEFECTS, key=lambda name: PROOFS[name].scenario)
"""So that one process has the tests of a scenario, most of the time, and carries it out once without defects."""


@pytest.mark.parametrize(("defect", "seed"), [(name, seed) for name in BY_SCENARIO for seed in PROOFS[name].seeds])
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


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_a_change_in_one_place(name: str) -> None:
    """Shows that a defect is asked for in one module, where the catalogue says it is."""
    places = [path for path in sorted((ROOT / "actors").rglob("*.py")) if f'"{name}"' in path.read_text("utf-8")]
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in places]
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
    assert lines[0].endswith("did you mean list-log-end?")
