"""H9: what KIP-207's refusal does to the clients that get it."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError, traits
from actors.node.messages import API_NAMES, Api
from actors.trace.events import ConsPos, CtlFault, ErrorSeen, MetaView, NodeUp, OpInvoke, OpReturn, Rpc, Stamped
from orchestrator.invariants.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.list_offsets import FEATURE
from orchestrator.invariants.routes import NODE

REFUSED = KafkaError.OFFSET_NOT_AVAILABLE
API_TIMEOUT = "default.api.timeout.ms"
MAX_AGE = "metadata.max.age.ms"

_REASONED = 2
"""Refreshes that one reason allows: one may be under way when it appears."""


class Refusal(msgspec.Struct):
    """A refusal that was not followed up so far. ``refreshed``: metadata that came since, for no other reason."""

    by: Witness
    broker: str
    refreshed: Witness | None = None


class Asking(msgspec.Struct, frozen=True):
    """An open operation on a partition."""

    tp: str
    wall_us: int


class Client(State):
    """One client. ``allowed``: refreshes of metadata that have another reason than a refusal; ``moved_by``: partition
    -> last error of a Fetch or a lookup since its position was known, and that error's event; ``clock``: a fault
    changed its clock."""

    role: str = ""
    api_timeout_us: int = 0
    max_age_us: int = 0
    open: dict[str, Asking] = {}
    refused: dict[str, Refusal] = {}
    moved_by: dict[str, tuple[int, Witness]] = {}
    allowed: int = _REASONED
    viewed_us: int = -1
    epochs: dict[str, int] = {}
    clock: bool = False


class ClientsAbsorbTheRefusal(KeyedInvariant[Client]):
    """KIP-207 gives the refusal an error of its own so that clients wait and ask the same leader again: metadata is not
    stale, the position is not wrong, and the application need not hear of it.

    Example: broker-2 answers list-offsets-1 OFFSET_NOT_AVAILABLE. The next answer that list-offsets-1 gets is one to
    the same question, 100 ms later and without a Metadata request in between; it must not return the error to its
    application before default.api.timeout.ms is over, and no consumer may reset its position.
    """

    id = "H9"
    title = "A client that is refused with OFFSET_NOT_AVAILABLE asks again, without new metadata, reset or error"
    source = "KIP-207; Kafka's ListOffsetsHandler"
    tested_when = "a client that was refused gets its next answer about the partition, or its operation ends"
    route = NODE
    types = (NodeUp, OpInvoke, OpReturn, ErrorSeen, MetaView, ConsPos, Rpc)
    cases = {OpInvoke: ("list",), OpReturn: ("poll", "list")}
    requires = (FEATURE,)
    exemptions = {
        "consumer-refreshes": "Kafka's consumer refreshes its metadata after every failed lookup of an offset.",
        "clock": "A fault changed the clock by which the client measures the end of its operation.",
    }

    @property
    def news(self) -> tuple[type[CtlFault], ...]:
        return (CtlFault,)

    def initial(self, key: str, profile: Profile) -> Client:
        return Client(
            key,
            api_timeout_us=int(profile.setting(API_TIMEOUT, key, 60_000)) * 1000,
            max_age_us=int(profile.setting(MAX_AGE, key, 300_000)) * 1000,
        )

    def hear(self, state: Client, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is CtlFault
        state.clock = state.clock or ("clock" in body.kind and state.key in body.targets)
        return NOTHING

    def step(self, state: Client, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is Rpc:
            # Metadata with an error in it (a partition without a leader) has to be asked for again.
            if body.outcome != "answered" or (body.errors and body.api == Api.Metadata.name):
                state.allowed = _REASONED
            elif body.api == API_NAMES[Api.OffsetForLeaderEpoch]:
                state.moved_by.clear()
        elif type(body) is ErrorSeen:
            return self._error(state, event, body)
        elif type(body) is OpReturn:
            return self._returned(state, event, body)
        elif type(body) is OpInvoke:
            if body.kind == "list":
                state.open[body.op] = Asking(body.tp, event.wall)
        elif type(body) is MetaView:
            self._viewed(state, event, body)
        elif type(body) is ConsPos:
            return self._moved(state, event, body)
        else:
            assert type(body) is NodeUp
            own = Client(state.key, state.tested, body.role, state.api_timeout_us, state.max_age_us, clock=state.clock)
            for name in Client.__struct_fields__:
                setattr(state, name, getattr(own, name))
        return NOTHING

    # ---- answers ------------------------------------------------------------------------------------------

    def _error(self, state: Client, event: Stamped, body: ErrorSeen) -> Emissions:
        if body.tp and body.api in (Api.Fetch.name, Api.ListOffsets.name):
            state.moved_by[body.tp] = (body.error, witness(event))
        found: Emissions = NOTHING
        if body.api == Api.ListOffsets.name and body.tp:
            found = self._followed_up(state, body.tp, event)
            if body.error == REFUSED:
                state.refused[body.tp] = Refusal(witness(event), body.broker)
        if not body.tp or traits(body.error).invalid_metadata:
            state.allowed = _REASONED
        return found

    def _returned(self, state: Client, event: Stamped, body: OpReturn) -> Emissions:
        if body.kind == "poll":
            state.moved_by.pop(body.tp, None)
        if body.kind != "list":
            return NOTHING
        asking = state.open.pop(body.op, None)
        found = self._followed_up(state, body.tp, event)
        if body.leader_epoch > state.epochs.get(body.tp, -1):
            state.epochs[body.tp] = body.leader_epoch
            state.allowed = _REASONED
        if body.outcome == "ok" or body.error != REFUSED or asking is None:
            return found
        lasted_us = event.wall - asking.wall_us
        if lasted_us >= state.api_timeout_us:
            return found
        sentence = (
            f"{event.node} returned OFFSET_NOT_AVAILABLE for {body.tp} to its application after {lasted_us // 1000:,} "
            f"ms, before {API_TIMEOUT}={state.api_timeout_us // 1000:,} was over"
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
        if state.role == "consumer":
            return self.excused("consumer-refreshes", state.key, sentence, *proof)
        return self.violated(state.key, sentence, *proof)

    # ---- metadata and positions ---------------------------------------------------------------------------

    def _viewed(self, state: Client, event: Stamped, body: MetaView) -> None:
        aged = state.viewed_us < 0 or event.wall - state.viewed_us >= state.max_age_us or state.clock
        state.viewed_us = event.wall
        if state.allowed or aged or body.epochs:
            # New epochs may leave a partition without a leader, which is another reason to ask again.
            state.allowed = _REASONED if body.epochs else max(state.allowed - 1, 0)
            return
        waiting = {asking.tp for asking in state.open.values()} - set(state.refused)
        for refusal in state.refused.values():
            if not waiting and refusal.refreshed is None:
                refusal.refreshed = witness(event)

    def _moved(self, state: Client, event: Stamped, body: ConsPos) -> Emissions:
        error, by = state.moved_by.pop(body.tp, (0, None))
        if body.reason != "reset" or error != REFUSED:
            return NOTHING
        state.tested += 1
        sentence = (
            f"{event.node} reset its position in {body.tp} from {body.old:,} to {body.new:,} after it was refused"
        )
        return self.violated(state.key, sentence, by, event)
