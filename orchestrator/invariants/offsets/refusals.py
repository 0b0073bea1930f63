"""H9: what a refused ListOffsets does to the clients that get it, KIP-207's refusal above all."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError, error_name, traits
from actors.node.list_timestamps import EARLIEST, LATEST
from actors.node.messages import API_NAMES, Api
from actors.node.spec import Role, partition_name
from actors.trace.events import (
    ConsPos,
    CtlFault,
    ErrorSeen,
    ListInvoke,
    ListReturn,
    MetaView,
    NodeUp,
    PollReturn,
    Rpc,
    RpcReply,
    Stamped,
)
from chaos.faults.clock import ClockFault
from chaos.faults.kinds import kinds_of
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import CLIENT

REFUSED = KafkaError.OFFSET_NOT_AVAILABLE
CONSUMERS: frozenset[Role] = frozenset({"consumer", "group-consumer", "mirror", "processor"})
"""Roles that look offsets up as Kafka's consumer does."""

API_TIMEOUT = "default.api.timeout.ms"
MAX_AGE = "metadata.max.age.ms"

RESET = "auto.offset.reset"
RESETS = {"earliest": EARLIEST, "latest": LATEST}
"""Where a consumer begins that has no position -> the timestamp that it asks for."""

REPLIES_REMEMBERED = 256
"""Answers that are on their way to a client."""

TICK_US = 1_000
"""A client counts its time in whole milliseconds, and may find it over by less than one too early."""

_REASONED = 2
"""Refreshes that one reason allows: one may be under way when it appears."""


class Refusal(msgspec.Struct):
    """A refusal that was not followed up so far. ``call``: that was refused, ``at_us``: when. ``refreshed``: metadata
    that were asked for since, for no other reason."""

    by: Witness
    broker: str
    call: int
    at_us: int
    refreshed: Witness | None = None


class Asking(msgspec.Struct, frozen=True):
    """An open operation on a partition."""

    tp: str
    wall_us: int


class Answer(msgspec.Struct, frozen=True):
    """What a broker told about one partition. ``timestamp``: that it was asked for."""

    error: int
    offset: int
    timestamp: int
    broker: str
    by: Witness


class Client(State):
    """One client. ``allowed``: refreshes of metadata that have another reason than a refusal; ``answers``: id of a
    broker's answer -> what it told by partition: the answer is the cause of what the client makes of it;
    ``refetching``: partition -> error of its last Fetch, and that error's event; ``clock``: a fault changed its
    clock; ``as_consumer``: it asks as a consumer's call does; ``policy``: its auto.offset.reset. ``call``: its number
    of the call that ended last, ``asked_us``: when that was sent."""

    role: str = ""
    api_timeout_us: int = 0
    max_age_us: int = 0
    open: dict[str, Asking] = {}
    refused: dict[str, Refusal] = {}
    answers: dict[str, dict[str, Answer]] = {}
    refetching: dict[str, tuple[int, Witness]] = {}
    allowed: int = _REASONED
    viewed_us: int = -1
    epochs: dict[str, int] = {}
    clock: bool = False
    as_consumer: bool = False
    policy: str = ""
    call: int = -1
    asked_us: int = 0


class ClientsAbsorbTheRefusal(KeyedInvariant[Client]):
    """KIP-207 gives the refusal an error of its own so that clients wait and ask the same leader again: metadata is not
    stale, the position is not wrong, and the application need not learn of it. No other transient error is an answer
    either. Every offset that a client reports to its application, and every position that a consumer takes from a
    look-up, its first one too, comes from a leader's answer without an error, to the question that was to be asked: for
    the timestamp that the application named, or for the end of the log that auto.offset.reset names.

    Example: broker-2 answers list-offsets-1 with OFFSET_NOT_AVAILABLE. The next answer to list-offsets-1 is to the same
    question, 100 ms later and without a Metadata request in between. The client must not return the error to its
    application before default.api.timeout.ms is over, and no consumer may begin at offset 0 because of it.
    """

    id = "H9"
    title = (
        "A client retries a refused ListOffsets without new metadata, and takes it neither for an error nor for a "
        "position"
    )
    source = "KIP-207; Kafka's ListOffsetsHandler, OffsetFetcherUtils"
    tested_when = (
        "a refused client gets its next answer about the partition, or its operation ends; a lookup returns an "
        "offset, or a consumer takes a position from a lookup"
    )
    route = CLIENT
    types = (NodeUp, ListInvoke, ListReturn, PollReturn, ErrorSeen, MetaView, ConsPos, Rpc, RpcReply)
    cases = {RpcReply: ("ListOffsets",)}
    unseen = (
        "A refused lookup that is never repeated: L7 judges operations, and L6 judges consumers in long windows.",
        "Whether a consumer's Metadata request after a refusal was needed: Kafka's consumer always sends one.",
    )
    exemptions = {
        "consumer-refreshes": "Kafka's consumer refreshes its metadata after every failed lookup of an offset.",
        "clock": "A fault changed the clock by which the client measures its operation's timeout.",
    }

    @property
    def news(self) -> tuple[type[CtlFault], ...]:
        return (CtlFault,)

    def initial(self, key: str, profile: Profile) -> Client:
        return Client(
            key,
            api_timeout_us=int(profile.setting(API_TIMEOUT, key, 60_000)) * 1000,
            max_age_us=int(profile.setting(MAX_AGE, key, 300_000)) * 1000,
            as_consumer=key in profile.consumer_calls,
            policy=str(profile.setting(RESET, key, "earliest")),
        )

    def hear(self, state: Client, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is CtlFault
        state.clock = state.clock or (body.kind in kinds_of(ClockFault) and state.key in body.targets)
        return NOTHING

    def step(self, state: Client, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is Rpc:
            state.call, state.asked_us = body.correlation_id, event.wall - 1000 * body.took_ms
            # Metadata with an error in it (a partition without a leader) has to be asked for again.
            if body.outcome != "answered" or (body.errors and body.api == Api.Metadata.name):
                state.allowed = _REASONED
            elif body.api == API_NAMES[Api.OffsetForLeaderEpoch]:
                state.refetching.clear()  # what it says is a reason of its own
        elif type(body) is RpcReply:
            self._answered(state, event, body)
        elif type(body) is ErrorSeen:
            return self._error(state, event, body)
        elif type(body) is PollReturn:
            state.refetching.pop(body.tp, None)
        elif type(body) is ListReturn:
            return self._returned(state, event, body)
        elif type(body) is ListInvoke:
            state.open[body.op] = Asking(body.tp, event.wall)
        elif type(body) is MetaView:
            self._viewed(state, event, body)
        elif type(body) is ConsPos:
            return self._moved(state, event, body)
        else:
            assert type(body) is NodeUp
            own = Client(state.key, state.tested, body.role, state.api_timeout_us, state.max_age_us, clock=state.clock)
            own.as_consumer, own.policy = state.as_consumer, state.policy
            for name in Client.__struct_fields__:
                setattr(state, name, getattr(own, name))
        return NOTHING

    # ---- answers ------------------------------------------------------------------------------------------

    def _answered(self, state: Client, event: Stamped, body: RpcReply) -> None:
        if body.api != Api.ListOffsets.name:
            return
        by = witness(event)
        state.answers[event.id] = {
            partition_name(told.tp): Answer(told.error, told.offset, told.timestamp, event.node, by)
            for told in body.partitions
        }
        if len(state.answers) > REPLIES_REMEMBERED:  # the older ones have arrived, or never will
            del state.answers[next(iter(state.answers))]

    def _error(self, state: Client, event: Stamped, body: ErrorSeen) -> Emissions:
        found: Emissions = NOTHING
        if body.api == Api.Fetch.name and body.tp:
            state.refetching[body.tp] = (body.error, witness(event))
        if body.api == Api.ListOffsets.name and body.tp:
            found = self._followed_up(state, body.tp, event)
            if body.error == REFUSED:
                state.refused[body.tp] = Refusal(witness(event), body.broker, state.call, event.wall)
        if not body.tp or traits(body.error).invalid_metadata:
            state.allowed = _REASONED
        return found

    def _returned(self, state: Client, event: Stamped, body: ListReturn) -> Emissions:
        asking = state.open.pop(body.op, None)
        found = self._followed_up(state, body.tp, event)
        if body.leader_epoch > state.epochs.get(body.tp, -1):
            state.epochs[body.tp] = body.leader_epoch
            state.allowed = _REASONED
        if body.outcome == "ok":
            sentence = f"{event.node} returned offset {body.offset:,} of {body.tp} to its application"
            return [*found, *self._believed(state, event, body.tp, body.offset, body.timestamp, sentence)]
        if not traits(body.error).retriable or asking is None:
            return found
        lasted_us = event.wall - asking.wall_us
        if lasted_us > state.api_timeout_us - TICK_US:
            return found
        sentence = (
            f"{event.node} returned {error_name(body.error)} for {body.tp} to its application after "
            f"{lasted_us // 1000:,} ms, before {API_TIMEOUT}={state.api_timeout_us // 1000:,} was over"
        )
        if state.clock:
            return [*found, *self.excused("clock", state.key, sentence, event)]
        state.tested += 1
        return [*found, *self.violated(state.key, sentence, event)]

    def _followed_up(self, state: Client, tp: str, event: Stamped) -> Emissions:
        refusal = state.refused.pop(tp, None)
        if refusal is None:
            return NOTHING
        state.tested += 1
        if refusal.refreshed is None:
            return NOTHING
        sentence = f"{event.node} refreshed its metadata after {refusal.broker} had refused ListOffsets for {tp}"
        proof = (refusal.by, refusal.refreshed)
        if state.role in CONSUMERS or state.as_consumer:
            return self.excused("consumer-refreshes", state.key, sentence, *proof)
        return self.violated(state.key, sentence, *proof)

    # ---- metadata and positions ---------------------------------------------------------------------------

    def _viewed(self, state: Client, event: Stamped, body: MetaView) -> None:
        if body.source == "heard":
            state.allowed = _REASONED
            return
        aged = state.viewed_us < 0 or event.wall - state.viewed_us >= state.max_age_us or state.clock
        state.viewed_us = event.wall
        if state.allowed or aged or body.epochs:
            # New epochs may leave a partition without a leader, which is another reason to ask again.
            state.allowed = _REASONED if body.epochs else max(state.allowed - 1, 0)
            return
        waiting = {asking.tp for asking in state.open.values()} - set(state.refused)
        for refusal in state.refused.values():
            asked_since = state.call > refusal.call and state.asked_us >= refusal.at_us
            if asked_since and not waiting and refusal.refreshed is None:
                refusal.refreshed = witness(event)

    def _moved(self, state: Client, event: Stamped, body: ConsPos) -> Emissions:
        error, by = state.refetching.pop(body.tp, (0, None))
        if body.reason not in ("assign", "reset"):
            return NOTHING
        if error == REFUSED:
            sentence = f"{event.node} gave up its position {body.old:,} in {body.tp} after a refusal"
            return self.violated(state.key, sentence, by, event)
        whence = "its first position" if body.old < 0 else "its position"
        was = "" if body.old < 0 else f" (before: {body.old:,})"
        sentence = f"{event.node} set {whence} in {body.tp} to {body.new:,}{was}"
        asked = RESETS.get(state.policy)
        if asked is None:
            return self.violated(state.key, f"{sentence}, although it has {RESET}={state.policy}", event)
        return self._believed(state, event, body.tp, body.new, asked, sentence)

    def _believed(self, state: Client, event: Stamped, tp: str, offset: int, asked: int, sentence: str) -> Emissions:
        """A client acts on an offset: the answer that it handles must have told it, for the timestamp ``asked``."""
        state.tested += 1
        answer = state.answers.get(event.cause, {}).get(partition_name(tp))
        if answer is None:
            return self.violated(state.key, f"{sentence}, but no answer contained that offset", event)
        if answer.error:
            told = f"{answer.broker} had refused with {error_name(answer.error)}"
        elif answer.offset != offset:
            told = f"{answer.broker} had answered {answer.offset:,}"
        elif answer.timestamp != asked:
            told = f"{answer.broker} had been asked for timestamp {answer.timestamp:,}, and not for {asked:,}"
        else:
            return NOTHING
        return self.violated(state.key, f"{sentence}, but {told}", answer.by, event)
