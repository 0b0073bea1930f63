"""What clients know of a partition's end, and that nobody is told less afterwards: H6 and C6.

*Afterwards* is meant in real time: only what had returned before an operation was invoked binds it, whoever the
clients are.
"""

from __future__ import annotations

import struct
from typing import Literal

import msgspec

from actors.node.isolation import READ_COMMITTED
from actors.node.list_timestamps import LATEST
from actors.node.spec import is_recreated
from actors.trace.events import (
    ACKS_ALL,
    ListInvoke,
    ListReturn,
    LogHw,
    PollReturn,
    RpcReply,
    SendInvoke,
    SendReturn,
    Stamped,
)
from orchestrator.invariants.clients.renumbered import RENUMBERED, RULE, Renumbered
from orchestrator.invariants.folds.fold import NOTHING, UNCLEAN_ENABLE, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, DELETED_UNSEEN, OPEN_REMEMBERED, remember
from orchestrator.invariants.folds.rows import Rows
from orchestrator.invariants.folds.uids import place_of
from orchestrator.invariants.folds.window import OffsetWindow, uids_of
from orchestrator.invariants.mirrors.hidden_transactions import HIDDEN, Stand, stand_of, why_lower
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOSS, read_in, way_of_loss
from orchestrator.invariants.mirrors.loss_budget import LossBudget, loss_budget
from orchestrator.invariants.offsets.list_offsets import FEATURE

_EPOCH = struct.Struct("<?i")

STALE = "The second answer came from a leader of an older leader epoch than the first."


class Known(msgspec.Struct, frozen=True, gc=False):
    """What somebody knew: everything below ``end`` (exclusive) is there. ``weak``: told to a producer with acks<=1.
    ``wall_us``: since when. ``broker`` told it, by acknowledging or delivering the record ``uid``, or by answering.
    ``stand``: of the log of the broker that told it somebody who reads committed records."""

    leader_epoch: int
    end: int
    weak: bool
    kind: Literal["send", "poll", "list"]
    broker: str
    uid: str
    wall_us: int
    by: Witness
    stand: Stand | None = None

    @property
    def how(self) -> str:
        """In words: made when something is wrong, as nearly all that is known is never spoken of."""
        who = _who(self.broker, self.leader_epoch)
        if self.kind == "send":
            return f"{who} had acknowledged {self.uid} at {self.end - 1:,}"
        if self.kind == "poll":
            return f"{self.by.node} had read {self.uid} at {self.end - 1:,} from {who}"
        return f"{who} had reported {self.end:,} to {self.by.node}"


Floor = tuple[Known, ...]
"""The highest end that was known, one per leader epoch and strength."""


class Knowledge(msgspec.Struct):
    """``fresh``: what returned too recently to come before anything (clock uncertainty, or the same moment)."""

    epsilon_us: int = 0
    floor: Floor = ()
    fresh: list[Known] = []

    def add(self, known: Known) -> None:
        """Somebody learned something."""
        for each in self.floor:
            if each.leader_epoch == known.leader_epoch and each.weak == known.weak and each.end >= known.end:
                return
        fresh = self.fresh
        if fresh and _same_moment(fresh[-1], known):
            if known.end > fresh[-1].end:
                fresh[-1] = known
            return
        fresh.append(known)
        if len(fresh) > OPEN_REMEMBERED:
            self.before(known.wall_us)  # nobody has asked for long: whoever does comes later

    def before(self, now_us: int) -> Floor:
        """What was known strictly before ``now_us``, by more than the clocks' uncertainty."""
        fresh = self.fresh
        if fresh and fresh[0].wall_us + self.epsilon_us < now_us:
            settled = 0
            for known in fresh:
                if known.wall_us + self.epsilon_us >= now_us:
                    break
                self.floor = _raised(self.floor, known)
                settled += 1
            del fresh[:settled]
        return self.floor


def _same_moment(first: Known, second: Known) -> bool:
    return (first.wall_us, first.leader_epoch, first.weak) == (second.wall_us, second.leader_epoch, second.weak)


def _raised(floor: Floor, known: Known) -> Floor:
    for index, each in enumerate(floor):
        if each.leader_epoch == known.leader_epoch and each.weak == known.weak:
            return floor if each.end >= known.end else (*floor[:index], known, *floor[index + 1 :])
    return (*floor[-CHANGES_REMEMBERED:], known)


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer that must not fall below what was known. ``offset``: an end (exclusive), as it is compared. reopened:
    of a last stable offset, the newest leader epoch in which a transaction may be open again that was over; ``stand``:
    of the log of the leader that told it."""

    leader_epoch: int
    end: int
    weak: bool
    sentence: str
    event: Stamped
    reopened: int = -1
    stand: Stand | None = None


def _who(broker: str, leader_epoch: int) -> str:
    return f"{broker or 'a broker'} (leader epoch {leader_epoch if leader_epoch >= 0 else 'unknown'})"


def _acknowledged(event: Stamped, body: SendReturn, mirror: LogMirror) -> Known:
    served = mirror.served(event, body)
    epoch = served.leader_epoch if served is not None else body.leader_epoch
    weak = body.acks != ACKS_ALL
    return Known(epoch, body.offset + 1, weak, "send", body.broker, body.uid, event.wall, witness(event))


def _list_epoch(event: Stamped, body: ListReturn, mirror: LogMirror) -> tuple[int, bool]:
    """Leader epoch of an answer to ListOffsets, and whether the leader lagged behind the start of its epoch."""
    served = mirror.served(event, body)
    if body.leader_epoch >= 0:
        return (body.leader_epoch, served is not None and served.leader_epoch == body.leader_epoch and served.lagging)
    return (-1, False) if served is None else (served.leader_epoch, served.lagging)


class Judged(State):
    """What both invariants keep. ``open``: operation -> what was known when it was invoked. ``acknowledged_in``: offset
    -> epoch of the leader that acknowledged it. ``renumbered``: of the sends."""

    known: dict[int, Knowledge] = {}
    open: dict[str, Floor] = {}
    acknowledged: OffsetWindow = msgspec.field(default_factory=OffsetWindow)
    acknowledged_in: Rows = msgspec.field(default_factory=lambda: Rows(_EPOCH.size))
    budget: LossBudget = LossBudget()
    epsilon_us: int = 0
    unclean_allowed: bool = False
    renumbered: Renumbered = msgspec.field(default_factory=Renumbered)

    def knowledge(self, isolation: int) -> Knowledge:
        """Of clients of an isolation level."""
        found = self.known.get(isolation)
        if found is None:
            found = self.known[isolation] = Knowledge(self.epsilon_us)
        return found


def _begin(state: Judged, op: str, floor: Floor) -> None:
    remember(state.open, op, floor, OPEN_REMEMBERED)  # their clients are gone


class _Ends(LogInvariant[Judged]):
    """What H6 and C6 share: how an answer is held against what was known."""

    def initial(self, key: str, profile: Profile) -> Judged:
        unclean = profile.topic_setting(key, UNCLEAN_ENABLE, default=False) is True
        return Judged(
            key,
            budget=loss_budget(profile, key),
            epsilon_us=profile.epsilon_us,
            unclean_allowed=unclean and profile.feature(FEATURE) == "seed",
        )

    def forget(self, state: Judged, offset: int) -> None:
        state.acknowledged.forget(offset)
        state.acknowledged_in.forget(offset)

    def _judge(self, state: Judged, floor: Floor, answer: Answer, rule: str, mirror: LogMirror) -> Emissions:
        """The worst that can be said: of all that was known above the answer, something that nothing excuses, if there
        is one. ``rule``: what excuses the answer whatever was known, "" nothing."""
        excuse: tuple[str, Known] | None = None
        doubt: Known | None = None
        for known in sorted(floor, key=_by_end, reverse=True):
            if known.end <= answer.end:
                break
            why = rule or self._excuse(state, known, answer, mirror)
            if why == "?":
                doubt = doubt or known
            elif why:
                excuse = excuse or (why, known)
            else:
                sentence = f"{answer.sentence} after {known.how}"
                return self.violated(state.key, sentence, known.by, answer.event)
        if doubt is not None:
            sentence = f"{answer.sentence} after {doubt.how}"
            return self.inconclusive("leader-epoch-unknown", state.key, sentence, doubt.by, answer.event)
        if excuse is None:
            return NOTHING
        why, known = excuse
        return self.excused(why, state.key, f"{answer.sentence} after {known.how}", known.by, answer.event)

    def _excuse(self, state: Judged, known: Known, answer: Answer, mirror: LogMirror) -> str:
        """The rule that excuses an answer below something known; "" none, "?" if that cannot be said."""
        if known.weak or answer.weak:
            return "acks<=1"
        if known.leader_epoch < 0 or answer.leader_epoch < 0:
            return "?"
        if answer.leader_epoch < known.leader_epoch:
            return "stale-leader"
        taint = mirror.taint_between(known.leader_epoch, answer.leader_epoch, known.end)
        if taint is not None:
            return taint.rule
        if known.leader_epoch < answer.reopened:
            return "unclean-election"
        if mirror.loss_excuses(known.end - 1, state.budget):
            return "loss-budget"
        if state.unclean_allowed:
            return "unclean-enabled"
        return "" if known.stand is None else why_lower(known.end, known.stand, answer.end, answer.stand)


def _is_above(floor: Floor, end: int) -> bool:
    """Whether more was known than an answer says: the rule; only then is anything to be judged, and put into words."""
    for known in floor:  # noqa: SIM110 asked for every answer: a generator takes longer than the loop
        if known.end > end:
            return True
    return False


def _by_end(known: Known) -> int:
    return known.end


class LatestCoversWhatIsKnown(_Ends):
    """An application that has read a record, or whose record was acknowledged, computes a lag with the latest offset.
    If the latest offset is below that record, the lag is negative, or the application believes that its record is
    missing.

    Example: broker-1 (leader epoch 4) acknowledged a record of producer-1 at offset 1,309. Broker-2 takes over and
    reports the latest offset 1,204 to list-offsets-1 (leader epoch 5). Without KIP-207 this happens: broker-2 does not
    know yet how far the high watermark of broker-1 had advanced.
    """

    id = "H6"
    title = "The latest offset covers every record acknowledged or read earlier, and every earlier answer"
    source = "KIP-207; redpanda-data/chaos list_offsets workload"
    unseen = (
        DELETED_UNSEEN,
        "Records that were acknowledged with less than acks=all: they may be lost.",
    )
    tested_when = "a client gets a latest offset, and some record or answer was known before it asked"
    types = (ListInvoke, SendReturn, PollReturn, ListReturn, RpcReply)
    cases = {RpcReply: ()}
    exemptions = {
        "stale-leader": STALE,
        **LOSS,
        "unclean-enabled": "As the KIP is written, it does not apply where unclean election is enabled.",
        **HIDDEN,
    }

    def step(self, state: Judged, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is ListInvoke:
            if body.timestamp == LATEST and body.replica_id < 0:
                _begin(state, body.op, state.knowledge(body.isolation).before(event.wall))
        elif type(body) is SendReturn:
            if body.outcome == "ok" and body.acks == ACKS_ALL and body.offset >= 0:
                state.knowledge(0).add(_acknowledged(event, body, mirror))
        elif type(body) is PollReturn:
            if body.outcome == "ok" and body.records:
                self._read(state, event, body, mirror)
        elif type(body) is ListReturn:
            return self._told(state, event, body, mirror)
        return NOTHING

    def _learn(self, state: Judged, isolation: int, known: Known) -> None:
        """What a reader of committed records knows, every reader may know."""
        state.knowledge(0).add(known)
        if isolation:
            state.knowledge(isolation).add(known)

    def _read(self, state: Judged, event: Stamped, body: PollReturn, mirror: LogMirror) -> None:
        # A Fetch that names no leader epoch is answered in one that the broker had taken up by then, or by a follower:
        # then in that of the records, or a newer one.
        epoch, last = read_in(body, mirror), body.records[-1]
        replica = mirror.replicas.get(body.broker) if body.isolation == READ_COMMITTED else None
        stand = None if replica is None else stand_of(replica)
        known = Known(epoch, last.offset + 1, False, "poll", body.broker, last.uid, event.wall, witness(event), stand)
        self._learn(state, body.isolation, known)

    def _told(self, state: Judged, event: Stamped, body: ListReturn, mirror: LogMirror) -> Emissions:
        floor = state.open.pop(body.op, None)
        if floor is None or body.outcome != "ok" or body.offset < 0:
            return NOTHING
        if is_recreated(state.key) and mirror.served(event, body) is None:
            return NOTHING  # a broker answered that has not heard of this topic, and has the former one
        epoch, _ = _list_epoch(event, body, mirror)
        served = mirror.served(event, body)
        stand = None if served is None else served.stand
        known = Known(epoch, body.offset, False, "list", body.broker, "", event.wall, witness(event), stand)
        self._learn(state, body.isolation, known)
        if not floor:
            return NOTHING
        state.tested += 1
        if not _is_above(floor, body.offset):
            return NOTHING
        sentence = (
            f"{_who(body.broker, epoch)} reported {body.offset:,} as the latest offset of {state.key} to {event.node}"
        )
        reopened = -1
        if body.isolation == READ_COMMITTED:
            unclean = [taint.epoch for taint in mirror.taints if taint.rule == "unclean-election"]
            reopened = max((each for each in unclean if each <= epoch), default=-1)
        answer = Answer(epoch, body.offset, False, sentence, event, reopened, stand)
        return self._judge(state, floor, answer, "", mirror)


class RealTimeOrder(_Ends):
    """Kafka's log is shared by all clients: a record that was acknowledged before an operation began comes before the
    records that the operation writes, and is visible to its reads.

    Example: producer-1 gets the acknowledgement that its record is at offset 1,309 of orders-0; then an application
    sends through producer-2 and gets offset 1,250. Or list-offsets-1 asks and gets 1,204 from a leader whose high
    watermark is long past that; or consumer-1 gets another record at 1,309. L6 judges how soon a consumer gets there.
    """

    id = "C6"
    title = "A record acknowledged before an operation begins precedes its writes and shows in its reads"
    unseen = (
        DELETED_UNSEEN,
        "polls that begin after an acknowledgement and do not return the record: L6 judges how soon they must",
        "lookups of other timestamps than LATEST, and LATEST of read_committed",
    )
    source = "kafka-tlaplus, 6_replication_correctness.md; redpanda's reads_writes consistency check"
    tested_when = (
        "a send returns, or a client gets a latest offset, and some send had returned before that operation began; or "
        "a record is read at an offset that was acknowledged before"
    )
    types = (SendInvoke, ListInvoke, SendReturn, PollReturn, ListReturn, LogHw, RpcReply)
    cases = {LogHw: ("leader",), RpcReply: ()}
    exemptions = {
        RULE: RENUMBERED,
        "stale-leader": STALE,
        "acks<=1": "One of the two was sent with less than acks=all.",
        **LOSS,
        "new-leader": (
            "The answer came from a leader whose high watermark had not reached the start of its leader epoch: KIP-207 "
            "refuses it."
        ),
        "unclean-enabled": "As the KIP is written, it does not apply where unclean election is enabled.",
    }
    not_promised = ("acks<=1",)

    def step(self, state: Judged, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is SendInvoke:
            if body.acks != 0:
                _begin(state, body.op, state.knowledge(0).before(event.wall))
        elif type(body) is ListInvoke:
            if body.timestamp == LATEST and body.replica_id < 0 and body.isolation == 0:
                _begin(state, body.op, state.knowledge(0).before(event.wall))
        elif type(body) is PollReturn:
            return self._read(state, event, body, mirror) if body.records else NOTHING
        elif type(body) is SendReturn:
            floor = state.open.pop(body.op, ())
            if body.outcome == "ok" and body.offset >= 0:
                return self._sent(state, floor, event, body, mirror)
            state.renumbered.note(body)
        elif type(body) is LogHw:
            return state.renumbered.judge(self, state.key, mirror) if state.renumbered.failing else NOTHING
        elif type(body) is ListReturn:
            floor = state.open.pop(body.op, ())
            if body.outcome == "ok" and body.offset >= 0 and floor:
                return self._listed(state, floor, event, body, mirror)
        return NOTHING

    def _sent(self, state: Judged, floor: Floor, event: Stamped, body: SendReturn, mirror: LogMirror) -> Emissions:
        known = _acknowledged(event, body, mirror)
        state.knowledge(0).add(known)
        if body.acks == ACKS_ALL:
            state.acknowledged.put(body.offset, mirror.records.names.own(body.offset, [body.uid]))
            state.acknowledged_in.put(body.offset, _EPOCH.pack(True, known.leader_epoch))
        if not floor:
            return NOTHING
        state.tested += 1
        if not _is_above(floor, body.offset):
            return NOTHING
        sentence = (
            f"{_who(body.broker, known.leader_epoch)} acknowledged {body.uid}, which {event.node} had sent later, at "
            f"offset {body.offset:,} of {state.key}"
        )
        return self._judge(
            state, floor, Answer(known.leader_epoch, body.offset, known.weak, sentence, event), "", mirror
        )

    def _listed(self, state: Judged, floor: Floor, event: Stamped, body: ListReturn, mirror: LogMirror) -> Emissions:
        strong = tuple(known for known in floor if not known.weak)
        if not strong:
            return NOTHING
        epoch, lagging = _list_epoch(event, body, mirror)
        state.tested += 1
        if not _is_above(strong, body.offset):
            return NOTHING
        sentence = (
            f"{_who(body.broker, epoch)} reported {body.offset:,} as the latest offset of {state.key} to {event.node}"
        )
        answer = Answer(epoch, body.offset, False, sentence, event)
        return self._judge(state, strong, answer, "new-leader" if lagging else "", mirror)

    def _read(self, state: Judged, event: Stamped, body: PollReturn, mirror: LogMirror) -> Emissions:
        first = body.records[0].offset
        known = state.acknowledged.between(first, body.records[-1].offset + 1)
        if not any(known):
            return NOTHING
        state.tested += 1
        if known == uids_of(body.records):
            return NOTHING
        for record in body.records:
            uid = known[record.offset - first] if 0 <= record.offset - first < len(known) else ""
            if uid and uid != record.uid:
                sentence = (
                    f"{event.node} got {record.uid or 'no record'} at offset {record.offset:,} of {state.key} after "
                    f"{uid} had been acknowledged there"
                )
                place = state.acknowledged_in.place(record.offset)
                known_in = -1 if place < 0 else _EPOCH.unpack_from(state.acknowledged_in.data, place)[1]
                if rule := way_of_loss(mirror, record.offset, state.budget, known_in, read_in(body, mirror)):
                    return self.excused(rule, state.key, sentence, event)
                session = place_of(uid)[0]
                if session == place_of(record.uid)[0] and state.renumbered.doubted(
                    mirror, session, [record.offset], sentence, witness(event)
                ):
                    continue
                return self.violated(state.key, sentence, event)
        return NOTHING

    def finish(self, state: Judged, mirror: LogMirror) -> Emissions:
        return state.renumbered.judge(self, state.key, mirror, at_end=True)
