"""M4: positions that are given up for no reason."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.spec import is_recreated
from actors.trace.events import (
    NO_ENTRY,
    CommitReturn,
    CommittedReturn,
    ConsOwn,
    ConsPos,
    ErrorSeen,
    GrpCommit,
    PollReturn,
    Stamped,
    TierSegment,
    TraceEvent,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOSS, way_of_loss
from orchestrator.invariants.mirrors.loss_budget import LossBudget, loss_budget
from orchestrator.invariants.tiers.known_copies import HOLES, METADATA_NEWS, UNSEEN_HOLE, Holes

EPOCHS_SINCE = {Api.Metadata.name: 9, Api.Fetch.name: 9}
"""Versions from which a consumer relies on leader epochs, and names one when it fetches (``Metadata.java``)."""


COMMITTED_EPOCHS_SINCE = {Api.OffsetCommit.name: 6, Api.TxnOffsetCommit.name: 2, Api.OffsetFetch.name: 5}
"""Versions from which a committed position has a leader epoch, by which its reader knows that its metadata is old
(``OffsetCommitRequest.json``, ``TxnOffsetCommitRequest.json``, ``OffsetFetchResponse.json``)."""


class OutOfRange(msgspec.Struct, frozen=True, gc=False):
    """That a broker told a consumer that its position is out of range. start, end: of the broker's log then; deposed:
    whether it did not lead in the newest leader epoch."""

    broker: str
    start: int
    end: int
    deposed: bool
    by: Witness


class Committed(msgspec.Struct, frozen=True):
    """A position that a group was told to be committed."""

    offset: int
    by: Witness


class Resets(State):
    """groups: consumer -> the group that it owns the partition in. committed: group -> what it was told last. placed:
    of a topic that came after another one of its name, consumers that have had a position in it. refused: consumer ->
    what it was told last of a position out of range. epochs: consumer -> leader epoch of its position, -1 it has none.
    bare: group -> the last position that was committed without a leader epoch, as its request had none, or the position
    of the member had none; vague: consumers that begin where their group has committed, and that no leader epoch came
    with, as a request on its way was too old for one.
    profile: says which versions consumers speak."""

    placed: list[str] = []
    refused: dict[str, OutOfRange] = {}
    nothing: list[str] = []
    groups: dict[str, str] = {}
    committed: dict[str, Committed] = {}
    epochs: dict[str, int] = {}
    bare: dict[str, int] = {}
    vague: list[str] = []
    holes: Holes = msgspec.field(default_factory=Holes)
    budget: LossBudget = LossBudget()
    profile: Profile = Profile()


class NoSpuriousReset(LogInvariant[Resets]):
    """A consumer whose position is out of range begins again, or goes to the end, as auto.offset.reset says: it reads
    every record twice, or skips the records in between. That is right if the log does not have that position, and wrong
    if the answer came from a replaced leader, or from a replica that is behind.

    Example: consumer-1 is at 40 of orders-0, which is committed up to 52. With old metadata it asks broker-1, which was
    replaced and has 30 records: out of range. It begins at 0. A member of a group is reset as well if it begins where
    auto.offset.reset says although its group has a committed position.
    """

    id = "M4"
    title = "A position is reset only if the log does not have it"
    source = "KAFKA-6262; KIP-232, Motivation; KIP-320"
    tested_when = (
        "a consumer with a position begins where auto.offset.reset says, or a consumer whose group has a position "
        "begins anywhere"
    )
    types = (ConsPos, PollReturn, ConsOwn, CommitReturn, CommittedReturn, ErrorSeen, GrpCommit, TierSegment)
    exemptions = {
        "no-epoch": "The consumer is older than the use of leader epochs (Metadata and Fetch of version 9, KIP-320). "
        "A broker that did not lead any more, and lacked the position, answered that it is out of range: "
        "the consumer could not know. Or it begins where its group has committed, and a request by which that position "
        "came to it was too old to carry its leader epoch (OffsetCommit of version 6, TxnOffsetCommit of version 2, "
        "OffsetFetch of version 5).",
        **HOLES,
        **LOSS,
    }
    unseen = (
        "a position that an application seeks, and a reset without a policy: they are the application's responsibility",
        "whether the answer is right that no position is committed: O1 judges that",
        "partitions of removed topics, and the first position in a later topic of that name: it may belong to either",
        UNSEEN_HOLE,
    )

    def initial(self, key: str, profile: Profile) -> Resets:
        return Resets(key, budget=loss_budget(profile, key), profile=profile)

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return METADATA_NEWS

    def hear(self, state: Resets, event: Stamped) -> Emissions:
        state.holes.hear(event)
        return NOTHING

    def step(self, state: Resets, event: Stamped, mirror: LogMirror) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is ConsPos:
            placed = not is_recreated(state.key) or event.node in state.placed
            if not placed:
                state.placed.append(event.node)
            found = self._moved(state, event, body, mirror) if placed and not mirror.removed else NOTHING
            state.epochs[event.node] = body.epoch
            self._settles(state, event.node, _has_lost_its_epoch(state, event, body))
            return found
        if kind is PollReturn:
            if body.outcome == "ok" and body.records:
                state.epochs[event.node] = max(body.leader_epoch, body.records[-1].leader_epoch)
                self._settles(state, event.node, False)
        elif kind is ConsOwn:
            state.groups.pop(event.node, None)
            if state.key in body.owned:
                state.groups[event.node] = body.group
        elif kind is CommitReturn:
            if body.errors.get(state.key, -1) == 0:
                state.committed[body.group] = Committed(body.offsets[state.key][0], witness(event))
        elif kind is CommittedReturn:
            state.nothing = [node for node in state.nothing if node != event.node]
            if body.offsets.get(state.key) == NO_ENTRY:
                state.nothing.append(event.node)
        elif kind is ErrorSeen:
            if (body.api, body.error) == (Api.Fetch.name, KafkaError.OFFSET_OUT_OF_RANGE):
                replica = mirror.replica(body.broker)
                deposed = replica.leads < max(mirror.lineages, default=-1)
                state.refused[event.node] = OutOfRange(
                    body.broker, replica.start, replica.log.end, deposed, witness(event)
                )
        elif kind is TierSegment:
            state.holes.consume(event, body)
        elif kind is GrpCommit:
            if body.tp == state.key and not body.error:
                self._stored(state, body)
        return NOTHING

    @staticmethod
    def _settles(state: Resets, node: str, vague: bool) -> None:
        """A consumer has come to another position, without or with what tells how old its metadata is."""
        state.vague = [each for each in state.vague if each != node]
        if vague:
            state.vague.append(node)

    @staticmethod
    def _stored(state: Resets, body: GrpCommit) -> None:
        """A coordinator has appended a commit of the partition, or a tombstone."""
        if body.offset < 0:
            state.committed.pop(body.group, None)
        api = Api.OffsetCommit.name if body.producer_id < 0 else Api.TxnOffsetCommit.name
        handed_on = any(state.groups.get(node) == body.group for node in state.vague)
        if body.leader_epoch < 0 <= body.offset and (0 <= body.version < COMMITTED_EPOCHS_SINCE[api] or handed_on):
            state.bare[body.group] = body.offset
        elif state.bare.get(body.group) == body.offset:
            del state.bare[body.group]

    def _moved(self, state: Resets, event: Stamped, body: ConsPos, mirror: LogMirror) -> Emissions:
        if body.reason == "reset" and body.old >= 0:
            return self._reset(state, event, body.old, mirror)
        known = state.committed.get(state.groups.get(event.node, ""))
        if body.reason not in ("assign", "reset", "committed") or known is None:
            return NOTHING
        state.tested += 1
        if body.reason == "committed":
            return NOTHING
        sentence = (
            f"{event.node} begins {state.key} at {body.new:,} by auto.offset.reset, although its group had committed "
            f"{known.offset:,}"
        )
        return NOTHING if event.node in state.nothing else self.violated(state.key, sentence, known.by, event)

    def _reset(self, state: Resets, event: Stamped, position: int, mirror: LogMirror) -> Emissions:
        state.tested += 1
        sentence = f"{event.node} gave up its position {position:,} in {state.key}, which"
        if position > mirror.committed.end:
            sentence += f" is committed up to {mirror.committed.end:,}"
            rule = way_of_loss(mirror, position - 1, state.budget, 0)
            return self.excused(rule, state.key, sentence, event) if rule else NOTHING  # nobody has it
        sentence += f" is committed up to {mirror.committed.end:,}"
        if rule := _rule_of_loss(mirror, position, state.epochs.get(event.node, -1), state.budget):
            return self.excused(rule, state.key, sentence, event)
        told = state.refused.pop(event.node, None)
        if told is not None and position < told.start:
            return NOTHING  # deleted: P22 judges whether it might be
        by = None if told is None else told.by
        if told is not None:
            rule, election = state.holes.why(told.broker, mirror.replica(told.broker), position)
            if rule:
                return self.excused(rule, state.key, sentence, election, by, event)
        knew_no_epoch = event.node in state.vague or _knows_no_epochs(state.profile, event.node)
        if told is not None and told.deposed and position > told.end and knew_no_epoch:
            return self.excused("no-epoch", state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)


def _knows_no_epochs(profile: Profile, node: str) -> bool:
    return any(profile.is_older(api, since, node) for api, since in EPOCHS_SINCE.items())


def _has_lost_its_epoch(state: Resets, event: Stamped, body: ConsPos) -> bool:
    """Whether a consumer begins at a committed position whose leader epoch no request could carry to it. It does so
    when the coordinator answers."""
    if body.reason != "committed" or body.epoch >= 0:
        return False
    api, coordinator = Api.OffsetFetch.name, event.cause.partition("/")[0]
    spoke = [event.node, coordinator] if coordinator else [event.node]
    told_none = state.profile.is_older(api, COMMITTED_EPOCHS_SINCE[api], *spoke)
    return told_none or state.bare.get(state.groups.get(event.node, "")) == body.new


def _rule_of_loss(mirror: LogMirror, position: int, epoch: int, budget: LossBudget) -> str:
    """The rule by which what was below a position may be gone, or have been gone in between, since a consumer came to
    it in a leader epoch; "" if there is none."""
    if taint := mirror.taint_below(max(position, 1), epoch):
        return taint.rule
    return "loss-budget" if position and mirror.loss_excuses(position - 1, budget) else ""
