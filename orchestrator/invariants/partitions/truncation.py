"""Where the logs of a leader and its followers part, who says so, and what a follower makes of it."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Any

import msgspec

from actors.node.errors import KafkaError
from actors.node.spec import node_name
from actors.trace.events import EpochTold, LogAppend, LogTrunc, RepFetch, RepTruncate, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.leader_epochs import Lineage
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.log_prefix import Prefix
from orchestrator.invariants.mirrors.replica import Replica

UNTOLD = (-1, -1)
"""Neither an epoch nor its end."""

_EPOCH = attrgetter("epoch")


class Asked(msgspec.Struct, frozen=True, gc=False):
    """The last request about the partition that a leader has told the trace of, on a connection: its number there, the
    leader epoch in which it was asked, and where the leader said that the logs part."""

    number: str
    leader_epoch: int
    by: Witness
    told: tuple[int, int] = UNTOLD


class Truncations(State):
    """asked: connection -> Asked, the most recent ones. out_of_range: follower -> the last time that a leader told it
    so. cuts: node -> a cut of its log of which it has not said yet what it was told."""

    asked: dict[str, Asked] = {}
    out_of_range: dict[str, Asked] = {}
    cuts: dict[str, Witness] = {}


CONNECTIONS_KEPT = 256


class TruncationEndsOnTheLineage(LogInvariant[Truncations]):
    """A follower truncates to match its leader's log: to the last boundary that both have, and no further. Truncating
    less leaves records that the leader never had; truncating more drops copies of committed records, which may be the
    last ones. A leader's answer in one leader epoch says nothing about the log in the next.

    Example: broker-3 holds orders-0 up to 1,310, the leader of epoch 5 has the same records up to 1,250, and broker-3
    truncates to 1,204; or it appends the leader's 1,250 on top of an end at which the two logs differ (KAFKA-7164).
    Each reason for a truncation has its limit: a position out of range truncates to the end of the leader's log, a log
    that cannot be compared to the high watermark, and after a crash the unreadable part is truncated.
    """

    id = "P12"
    title = "A follower truncates to where its log leaves its leader's, as the leader's answers in this epoch say"
    source = "KIP-279; KAFKA-7164; KAFKA-7415; Kafka's AbstractFetcherThread, getOffsetTruncationState"
    tested_when = (
        "a replica truncates its log for any reason, acts on its leader's answer about divergence, appends its first "
        "batch under a leader epoch, or does any of these by the answer to a request in the trace"
    )
    types = (LogTrunc, LogAppend, RepFetch, RepTruncate, EpochTold)
    before_types = (LogTrunc, LogAppend)
    cases = {LogAppend: ("follower",)}
    unseen = (
        ("A log that a follower empties and restarts at its leader's log start: P22 judges its high watermark alone."),
        "A truncation under a leader epoch whose leader has not taken over yet is compared with no log.",
        "The truncation of an uncleanly elected leader to its last stable offset: T10 judges it.",
    )

    def initial(self, key: str, profile: Profile) -> Truncations:
        return Truncations(key)

    def before(self, state: Truncations, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogAppend:
            if body.role != "follower":
                return NOTHING
            return (
                self._unsaid(state, event)
                or self._late(state, event, body.leader_epoch)
                or self._appended(state, event, body, mirror)
            )
        assert type(body) is LogTrunc
        if body.reason == "recovery":
            return self._recovered(state, event, body, mirror)
        if body.reason == "last-stable-offset":
            return NOTHING
        found = self._unsaid(state, event)
        state.cuts[event.node] = witness(event)
        return found or self._late(state, event, body.leader_epoch) or self._truncated(state, event, body, mirror)

    def step(self, state: Truncations, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is RepFetch and body.follower_epoch >= 0:
            asked = self._note(state, event, body.follower_epoch, (body.diverging_epoch, body.diverging_end))
            if body.error == KafkaError.OFFSET_OUT_OF_RANGE:
                state.out_of_range[node_name(body.follower)] = asked
        elif type(body) is EpochTold and body.replica_id >= 0:
            self._note(state, event, body.leader_epoch, (body.epoch, body.end))
        elif type(body) is RepTruncate:
            state.cuts.pop(event.node, None)
            return self._acted(state, event, body, mirror)
        return NOTHING

    def _note(self, state: Truncations, event: Stamped, leader_epoch: int, told: tuple[int, int]) -> Asked:
        connection, _, number = event.req.rpartition("#")
        asked = Asked(number, leader_epoch, witness(event), told)
        if event.req:
            state.asked[connection] = asked
            if len(state.asked) > CONNECTIONS_KEPT:
                del state.asked[next(iter(state.asked))]
        return asked

    def _request(self, state: Truncations, event: Stamped) -> Asked | None:
        """The request whose answer a follower acts on, where the trace tells of both."""
        connection, _, number = event.req.rpartition("#")
        asked = state.asked.get(connection)
        return asked if asked is not None and asked.number == number else None

    def _late(self, state: Truncations, event: Stamped, leader_epoch: int) -> Emissions:
        asked = self._request(state, event)
        if asked is None:
            return NOTHING
        state.tested += 1
        if asked.leader_epoch == leader_epoch:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} acted under leader epoch {leader_epoch} of {state.key} on the answer of {asked.by.node} to "
            f"its fetch of leader epoch {asked.leader_epoch}",
            asked.by,
            event,
        )

    def _unsaid(self, state: Truncations, event: Stamped) -> Emissions:
        """A follower that truncates its log records the reason in the same step."""
        cut = state.cuts.pop(event.node, None)
        if cut is None or cut.incarnation != event.incarnation:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} truncated its log of {state.key}, although no answer of its leader required it",
            cut,
            event,
        )

    def _truncated(self, state: Truncations, event: Stamped, body: LogTrunc, mirror: LogMirror) -> Emissions:
        leader = mirror.lineage_log(body.leader_epoch)
        if leader is None:
            return NOTHING
        state.tested += 1
        log = mirror.replica(event.node).log
        # A leader that began behind copies has nothing below them: what was committed there is known all the same.
        shared = log.shared_with(leader if leader.floor <= body.to else mirror.committed, log.end)
        if body.to >= shared:
            return NOTHING
        lineage = mirror.lineages[body.leader_epoch]
        return self.violated(
            state.key,
            f"{event.node} truncated {state.key} from {body.was:,} to {body.to:,} ({body.reason}) under leader epoch "
            f"{body.leader_epoch}, although its log agreed with that of {lineage.leader} up to {shared:,}",
            lineage.assumed,
            event,
        )

    def _recovered(self, state: Truncations, event: Stamped, body: LogTrunc, mirror: LogMirror) -> Emissions:
        """The log in the trace lacks everything that the disk lost, a torn tail too: the rest can be read."""
        state.tested += 1
        log = mirror.replica(event.node).log
        if log.end <= body.to:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} recovered {state.key} only up to {body.to:,}, although its disk had the log up to "
            f"{log.end:,}",
            event,
        )

    def _appended(self, state: Truncations, event: Stamped, body: LogAppend, mirror: LogMirror) -> Emissions:
        replica = mirror.replica(event.node)
        if replica.follows == body.leader_epoch:
            return NOTHING  # where its first append under this epoch was right, P3 keeps watch over the next ones
        leader = mirror.lineage_log(body.leader_epoch)
        if leader is None:
            return NOTHING
        state.tested += 1
        log = replica.log
        if leader.matches(log.end, log.ph_at(log.end)) is not False:
            return NOTHING
        lineage = mirror.lineages[body.leader_epoch]
        return self.violated(
            state.key,
            f"{event.node} appended offset {body.base:,} of {state.key} under leader epoch {body.leader_epoch} to a "
            f"log that ends at {log.end:,} with epoch {log.last_epoch} and differs there from the log of "
            f"{lineage.leader}",
            lineage.assumed,
            event,
        )

    # ---- the answer that a follower got, and its action on it ------------------------------------------------

    def _acted(self, state: Truncations, event: Stamped, body: RepTruncate, mirror: LogMirror) -> Emissions:
        state.tested += 1
        asked = self._request(state, event)
        log = mirror.replica(event.node).log
        nothing_left = body.epoch < 0 and mirror.replica(event.node).start >= body.to
        if log.end == body.to and log.last_epoch not in (body.epoch, -1) and not nothing_left:
            wrong = f"and continues with leader epoch {body.epoch}, but its last record has epoch {log.last_epoch}"
            by: Witness | None = None
        else:
            wrong, by = _wrongly(state, event.node, body, asked)
        if not wrong:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} truncated {state.key} from {body.was:,} to {body.to:,} ({body.reason}), {wrong}",
            by if asked is None else asked.by,
            event,
        )


def _wrongly(state: Truncations, node: str, body: RepTruncate, asked: Asked | None) -> tuple[str, Witness | None]:
    """What is wrong about how far a follower went, "" nothing; and what shows that."""
    told = (body.told_epoch, body.told_end)
    if body.reason == "diverge":
        if asked is not None and asked.told != told:
            return f"as if its leader had answered {_in_words(told)}; the answer was {_in_words(asked.told)}", None
        if body.epoch > body.told_epoch or (body.epoch == body.told_epoch and body.to > body.told_end):
            return f"and kept leader epoch {body.epoch}, although its leader has {_in_words(told)}", None
    elif body.reason == "high-watermark":
        # Its leader cannot tell, or it has no leader epochs to ask about; every batch has one.
        if (asked is None or asked.told != UNTOLD) and body.to < body.was:
            return "which is right only after the leader has answered that it knows none of its leader epochs", None
    else:
        refused = state.out_of_range.get(node)
        if refused is None or refused.leader_epoch != body.leader_epoch:
            return "which is right only after the leader has answered that its position is out of range", None
        if body.to > body.told_end:
            return f"although its leader's log ends at {body.told_end:,}", refused.by
    return "", None


NONE, OUT_OF_RANGE = KafkaError.NONE, KafkaError.OFFSET_OUT_OF_RANGE
OFFSET_MOVED = KafkaError.OFFSET_MOVED_TO_TIERED_STORAGE
MOVED = "moved to remote storage"


class LeadersSayWhereLogsPart(LogInvariant[State]):
    """A follower truncates its log by its leader's answer, and a consumer learns by it that records it has read are
    gone. If the answer reaches too far, the follower keeps records that the leader never had; if it does not reach far
    enough, the follower drops records that may be committed; without an answer it continues in another log; and if its
    position is called out of range, it truncates blindly. A follower whose next record the leader has in remote storage
    alone must restart its log after the copies. If the leader does not say so, the follower can never continue; if the
    leader says so without need, the follower gives up its log.

    Example: the leader of epoch 14 has 16 records: epoch 3 up to 8, epoch 4 up to 13, epoch 9 up to 14. The answer to a
    fetch from 9 with last epoch 5 is epoch 4 up to 13; the answer to a fetch from 17 with last epoch 14 is that epoch
    14 ends at 16. A leader that has not recorded the start of its own epoch knows no epoch after its last record, and
    answers OFFSET_OUT_OF_RANGE to a follower that led one of them.
    """

    id = "P23"
    title = "A leader reports divergence exactly where logs diverge; only a position beyond the log is out of range"
    source = "KIP-595, Fetch; KIP-101; KIP-279; Kafka's Partition.readRecords and LeaderEpochFileCache.endOffsetFor"
    tested_when = (
        "a leader answers, or has to answer, that a follower's log diverges or that its position is out of range; or "
        "it answers OffsetForLeaderEpoch"
    )
    types = (RepFetch, EpochTold)
    unseen = (
        "Fetches of consumers: the trace has only the consumer's reaction, not the answer.",
        "Leader epochs whose end is below every replica's high watermark.",
    )

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def step(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
        body: Any = event.body
        lineage = mirror.lineages.get(body.leader_epoch)
        if lineage is None or lineage.leader != event.node:
            return NOTHING  # P1, P16 and X1 look at who answers
        log = mirror.lineage_log(body.leader_epoch)
        assert log is not None
        if type(body) is EpochTold:
            return self._told(state, event, body, log, lineage, mirror.replica(event.node).start)
        if body.error not in (NONE, OUT_OF_RANGE, OFFSET_MOVED):
            return NOTHING
        right = _answer(log, lineage, body, mirror.replica(event.node))
        given = _in_words((body.diverging_epoch, body.diverging_end))
        if body.error:
            given = "out of range" if body.error == OUT_OF_RANGE else MOVED
        if right is None or (given == right == _in_words(UNTOLD)):
            return NOTHING
        state.tested += 1
        if given == right:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node}, leader of epoch {body.leader_epoch} of {state.key}, answered the fetch of "
            f"{node_name(body.follower)} from {body.offset:,} with last epoch {body.last_fetched_epoch}: {given}; "
            f"the right answer is {right}",
            lineage.assumed,
            event,
        )

    def _told(
        self, state: State, event: Stamped, body: EpochTold, log: Prefix, lineage: Lineage, start: int
    ) -> Emissions:
        state.tested += 1
        who = node_name(body.replica_id) if body.replica_id >= 0 else "a client"
        sentence = f"{event.node}, leader of epoch {body.leader_epoch} of {state.key}, answered {who}"
        if body.current_leader_epoch not in (-1, body.leader_epoch):
            said = f"about the end of an epoch, although the request named leader epoch {body.current_leader_epoch}"
            return self.violated(state.key, f"{sentence} {said}", event)
        right = end_of_epoch(log, lineage, body.asked_epoch, start)
        given = (body.epoch, body.end)
        if right is None or right == given:
            return NOTHING
        return self.violated(
            state.key,
            f"{sentence}, which asked for the end of epoch {body.asked_epoch}: {_in_words(given)}; the right answer is "
            f"{_in_words(right)}",
            lineage.assumed,
            event,
        )


def _answer(log: Prefix, lineage: Lineage, fetch: RepFetch, replica: Replica) -> str | None:
    """What a leader with this ``replica`` is to say of a follower's position, in words; None: what that rests on was
    forgotten."""
    start = replica.start
    if fetch.offset < start:
        return "out of range"
    moved = MOVED if fetch.offset < replica.local_start else ""
    if fetch.last_fetched_epoch >= 0:
        told = end_of_epoch(log, lineage, fetch.last_fetched_epoch, start)
        if told is None:
            return None
        if told == UNTOLD:
            return moved or "out of range"
        epoch, end = told
        if epoch < fetch.last_fetched_epoch or end < fetch.offset:
            return _in_words(told)
        return moved or _in_words(UNTOLD)
    return "out of range" if fetch.offset > log.end else moved or _in_words(UNTOLD)


def end_of_epoch(log: Prefix, lineage: Lineage, epoch: int, start: int = 0) -> tuple[int, int] | None:
    """The largest epoch of a leader's log that is not above ``epoch``, and its exclusive end; (-1, -1) if Kafka's
    LeaderEpochFileCache.endOffsetFor cannot say, None if what that rests on was forgotten."""
    if epoch < 0 or epoch > lineage.epoch:
        return UNTOLD
    if epoch == lineage.epoch:
        return epoch, log.end
    if start:
        return _end_above_start(log, lineage, epoch, start)
    if (log.floor and log.floor_epoch < 0) or epoch < log.floor_epoch:
        return None
    above = bisect_right(log.batches, epoch, key=_EPOCH)
    end = log.batches[above].base if above < len(log.batches) else lineage.start
    found = log.batches[above - 1].epoch if above else log.floor_epoch
    # What lies below the first epoch is said to end where that begins.
    return (epoch, end) if found < 0 else (found, end)


def _end_above_start(log: Prefix, lineage: Lineage, epoch: int, start: int) -> tuple[int, int] | None:
    """The same in a log that begins at ``start``: its first epoch begins there, and those that ended before are not
    known any more (``LeaderEpochFileCache.truncateFromStart``)."""
    if start < log.floor and log.floor_epoch < 0:
        return None
    begins = dict[int, int]()
    for each, offset in (*log.floor_epochs, *((batch.epoch, batch.base) for batch in log.batches)):
        begins.setdefault(each, offset)
    begins.setdefault(lineage.epoch, lineage.start)
    below = [each for each, offset in begins.items() if offset <= start]
    known = [each for each, offset in begins.items() if offset > start]
    if below:
        known, begins[below[-1]] = [below[-1], *known], start
    above = bisect_right(known, epoch)
    return (known[above - 1] if above else epoch), begins[known[above]]


def _in_words(answer: tuple[int, int]) -> str:
    return "no divergence" if answer == UNTOLD else f"epoch {answer[0]} up to {answer[1]:,}"
