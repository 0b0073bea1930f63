"""X11: the pauses before something is tried again."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.config import CONFIG
from actors.node.errors import KafkaError, error_name, traits
from actors.node.messages import Api
from actors.node.spec import partition_name
from actors.trace.events import (
    ClockSet,
    CtlFault,
    ErrorSeen,
    ListReturn,
    MetaView,
    NodeDown,
    NodeUp,
    Rpc,
    SendReturn,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.pauses import EARLY_US, TICK_US, StoppedProcess, late_us, longest_us, shortest_us
from orchestrator.invariants.folds.routes import NODE
from orchestrator.invariants.hygiene.new_leaders import NewLeaders

RENEWED = ("coordinator", "remote-read-")
"""Beginnings of the names of connections that their owner may give up for new ones, which begin without a pause."""
REMEMBERED = 4096
PROBER = "list-offsets"
"""Role of nodes that look up offsets, most of them as the admin client does."""


class Link(msgspec.Struct):
    """A connection. failures: how often in a row it failed, or could not be made. down_us: since when it is not there,
    -1 it is, or that is not known; by: the event that shows it."""

    failures: int = 0
    down_us: int = -1
    by: Witness | None = None


class Tried(msgspec.Struct, frozen=True):
    """A batch was refused so that it is sent again: how often; when last, and when it was sent for that; by which
    event."""

    count: int
    at_us: int
    sent_us: int
    by: Witness


class Call(msgspec.Struct, frozen=True):
    """A Produce that ended."""

    number: int
    ended_us: int
    by: Witness


class Pauses(State):
    """Of a node. links: "peer connection" -> its state. tried: first record of a batch -> how it fared. moved:
    partition -> when the node last learned of its leader. sent_us: when the last Produce that ended was sent, at the
    earliest. looked: partition -> how a look-up of an offset has fared so far, of a client that asks as the admin
    client (``admin``). calls: "peer connection" -> Produces that ended after the last of them was sent. most: how many
    may be under way there, 0 any number. grows: whether a pause is told by the failures before it. clock: some fault
    set the node's clock. elsewhere: of batches that other leaders are to take, by which they may be late_us late;
    process: when it was stopped."""

    reconnect_ms: tuple[int, int] = (0, 0)
    retry_ms: tuple[int, int] = (0, 0)
    retries: int = 0
    links: dict[str, Link] = {}
    tried: dict[str, Tried] = {}
    moved: dict[str, int] = {}
    sent_us: int = 0
    looked: dict[str, Tried] = {}
    admin: bool = False
    calls: dict[str, list[Call]] = {}
    most: int = 0
    grows: bool = True
    clock: bool = False
    elsewhere: NewLeaders = msgspec.field(default_factory=NewLeaders)
    process: StoppedProcess = msgspec.field(default_factory=StoppedProcess)
    late_us: int = 0


class RetriesPause(KeyedInvariant[Pauses]):
    """A node that tries again at once, or after the same short pause each time, loads a broker that has failed when it
    comes back. A producer that tries more often than retries keeps an application waiting that wanted to be told.

    Example: reconnect.backoff.ms is 50 and reconnect.backoff.max.ms 1000. Broker-1 is away, and producer-1 has failed
    to connect four times: it waits for 320 to 480 ms. Or retry.backoff.ms is 100, and a batch of producer-1 is refused
    with NOT_ENOUGH_REPLICAS for the third time: it is sent again after 320 to 480 ms, unless another leader is known.
    If one is, in a newer leader epoch than the batch was sent in, it is sent to that one at once: as soon as there is a
    connection, with fewer than max.in.flight.requests.per.connection requests under way, and no other batch before it.
    The admin client pauses likewise before it asks a leader again for an offset that it was refused. And a producer has
    no more requests under way on a connection than max.in.flight.requests.per.connection, but for acks=0, which is not
    answered.
    """

    id = "X11"
    title = (
        "What failed is tried again after the back-off, which grows with each failure, and not too often; and no more "
        "is under way than is allowed"
    )
    source = (
        "KIP-580; KIP-144; KIP-601; KIP-951; Kafka's ExponentialBackoff, RecordAccumulator.java, Sender.canRetry, "
        "AdminApiDriver, InFlightRequests.canSendMore"
    )
    tested_when = (
        "a node makes a connection again, a batch or a look-up of an offset that was refused is answered again, or a "
        "Produce was sent while another one was under way"
    )
    route = NODE
    types = (Rpc, ErrorSeen, SendReturn, ListReturn, MetaView, NodeUp, NodeDown, ClockSet)
    unseen = (
        "a pause that is too long while the leader stays: L3 to L16 judge what comes of it",
        "batches for another leader that wait for a connection, for answers, or for batches before them",
        "batches of transactions for another leader",
        "pauses of other requests than Produce and an admin client's ListOffsets; M2 judges those of metadata",
        "look-ups after an error that says that the metadata is outdated: another leader may be asked at once",
        "requests other than Produce that are under way",
        "attempts that were not answered: they count for no limit, and no pause is told by them",
        "nodes on a wrong clock, and batches whose partition has had another leader since",
        "the growth of pauses of clients with transactions, which may be closed and created again",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlFault,)

    def initial(self, key: str, profile: Profile) -> Pauses:
        def own(name: str) -> int:
            return profile.number(name, key)

        unanswered = str(profile.setting("acks", key, CONFIG["acks"].default)) == "0"
        most = 0 if unanswered else own("max.in.flight.requests.per.connection")
        return Pauses(
            key,
            reconnect_ms=(own("reconnect.backoff.ms"), own("reconnect.backoff.max.ms")),
            retry_ms=(own("retry.backoff.ms"), own("retry.backoff.max.ms")),
            retries=own("retries"),
            admin=key not in profile.consumer_calls,
            most=most,
            grows=key not in profile.transactional,
            elsewhere=NewLeaders(most),
            late_us=late_us(profile),
        )

    def hear(self, state: Pauses, event: Stamped) -> Emissions:
        assert type(event.body) is CtlFault
        state.process.take(state.key, event, event.body)
        return NOTHING

    def step(self, state: Pauses, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is Rpc:
            return self._called(state, event, body)
        if kind is ErrorSeen:
            if body.api == Api.ListOffsets.name:
                return self._not_told(state, event, body) if state.admin and body.tp else NOTHING
            return self._refused(state, event, body) if body.uid else NOTHING
        if kind is ListReturn:
            looked = state.looked.pop(partition_name(body.tp), None)
            answered = body.outcome == "ok" and body.version >= 0
            return self._told(state, event, body.tp, looked) if looked is not None and answered else NOTHING
        if kind is SendReturn:
            return self._returned(state, event, body)
        if kind is MetaView:
            state.elsewhere.view(event, body)
            for tp in body.accepted:
                state.moved[partition_name(tp)] = event.wall
        elif kind is ClockSet:
            state.clock = True
        else:
            state.links, state.tried, state.moved, state.looked, state.calls = {}, {}, {}, {}, {}
            state.elsewhere = state.elsewhere.anew()
            if kind is NodeUp:
                state.admin = state.admin and body.role == PROBER
        return NOTHING

    # ---- connections ------------------------------------------------------------------------------------------

    def _called(self, state: Pauses, event: Stamped, body: Rpc) -> Emissions:
        found = self._connected(state, event, body)
        if body.api == Api.Produce.name:
            state.sent_us = event.wall - 1000 * body.took_ms - EARLY_US
            if state.most and not state.clock:
                return [*found, *self._under_way(state, event, body)]
        return found

    def _connected(self, state: Pauses, event: Stamped, body: Rpc) -> Emissions:
        if body.connection.startswith(RENEWED):
            return NOTHING
        link = state.links.setdefault(f"{body.dst} {body.connection}", Link())
        pause_us = longest_us(*state.reconnect_ms, link.failures - 1) if link.down_us >= 0 else 0
        state.elsewhere.called(event, body, link.down_us + pause_us)
        makes = body.api == Api.ApiVersions.name
        found = self._made_again(state, event, body, link) if makes and link.down_us >= 0 else NOTHING
        if body.outcome != "answered":
            if makes or link.down_us < 0:
                link.failures, link.down_us, link.by = link.failures + 1, event.wall, witness(event)
        elif makes:
            link.down_us, link.by = -1, None
            link.failures = 0 if not body.errors else link.failures
        return found

    def _made_again(self, state: Pauses, event: Stamped, body: Rpc, link: Link) -> Emissions:
        waited_us = event.wall - 1000 * body.took_ms - link.down_us
        least_us = shortest_us(*state.reconnect_ms, link.failures - 1 if state.grows else 0)
        if state.clock:
            return NOTHING
        if not self._is_early(state, waited_us, least_us):
            return NOTHING
        sentence = (
            f"{state.key} connected to {body.dst} again {max(waited_us, 0) // 1000:,} ms after failure {link.failures} "
            f"in a row, before the back-off of {least_us // 1000:,} ms was over"
        )
        return self.violated(state.key, sentence, link.by, event)

    @staticmethod
    def _is_early(state: Pauses, waited_us: int, least_us: int) -> bool:
        state.tested += 1
        return waited_us < least_us - EARLY_US

    # ---- batches ----------------------------------------------------------------------------------------------

    def _returned(self, state: Pauses, event: Stamped, body: SendReturn) -> Emissions:
        tried, answered = state.tried.pop(body.uid, None), body.outcome == "ok" and body.correlation_id >= 0
        late = self._late(state, event, body.uid, body.tp) if answered else NOTHING
        state.elsewhere.ended(event, body.tp, body.uid)
        if tried is None or not answered:
            return late
        return [*late, *self._soon(state, event, body.tp, body.uid, tried)]

    def _refused(self, state: Pauses, event: Stamped, body: ErrorSeen) -> Emissions:
        late = self._late(state, event, body.uid, body.tp)
        if body.error == KafkaError.MESSAGE_TOO_LARGE:
            state.tried.pop(body.uid, None)  # its parts are new batches
            state.elsewhere.ended(event, body.tp, body.uid)
            return late
        state.elsewhere.refused(event, body.tp, body.uid)
        tried = state.tried.get(body.uid)
        count = 1 if tried is None else tried.count + 1
        state.tried[body.uid] = Tried(count, event.wall, state.sent_us, witness(event))
        if len(state.tried) > REMEMBERED:
            del state.tried[next(iter(state.tried))]
        if count > state.retries:
            sentence = (
                f"{state.key} sends the batch of {body.uid} to {body.tp} again after {count:,} refusals, with "
                f"retries = {state.retries:,}"
            )
            return [*late, *self.violated(state.key, sentence, event)]
        return [*late, *self._soon(state, event, body.tp, body.uid, tried)] if tried is not None else late

    def _late(self, state: Pauses, event: Stamped, uid: str, tp: str) -> Emissions:
        """A batch has an answer, and may have had one before: whatever its pause was, it does not wait for that when
        there is another leader. Those of transactions wait for coordinators, too."""
        sent = state.elsewhere.redirected(uid, state.process) if state.grows and not state.clock else None
        if sent is None:
            return NOTHING
        state.tested += 1
        if sent.waited_us <= state.late_us:
            return NOTHING
        sentence = (
            f"{state.key} sent the batch of {uid} to {tp} again {sent.waited_us // 1000:,} ms after nothing but its "
            f"pause stood in the way: it was refused in leader epoch {sent.refused.epoch}, and {state.key} knew who "
            f"leads in leader epoch {sent.leader.epoch}"
        )
        return self.violated(state.key, sentence, sent.refused.by, sent.leader.by, event)

    def _soon(self, state: Pauses, event: Stamped, tp: str, uid: str, tried: Tried) -> Emissions:
        """A batch that was refused has an answer: it was sent after its pause, or to another leader."""
        if state.clock or state.moved.get(partition_name(tp), -1) >= tried.sent_us:
            return NOTHING
        state.tested += 1
        least_us = shortest_us(*state.retry_ms, tried.count - 1 if state.grows else 0)
        waited_us = event.wall - tried.at_us
        if waited_us >= least_us - EARLY_US:
            return NOTHING
        sentence = (
            f"{state.key} had an answer to the batch of {uid} to {tp} {waited_us // 1000:,} ms after refusal "
            f"{tried.count} of it, before the back-off of {least_us // 1000:,} ms was over"
        )
        return self.violated(state.key, sentence, tried.by, event)

    def _under_way(self, state: Pauses, event: Stamped, body: Rpc) -> Emissions:
        """A Produce ended. Those that were under way when it was sent have ended before, as their connection keeps
        their order."""
        name = f"{body.dst} {body.connection}"
        sent_us = event.wall - 1000 * body.took_ms
        others = [each for each in state.calls.get(name, ()) if each.ended_us > sent_us + TICK_US]
        before = [each for each in others if each.number < body.correlation_id]
        state.calls[name] = [*others, Call(body.correlation_id, event.wall, witness(event))]
        state.tested += bool(before)
        if len(before) < state.most:
            return NOTHING
        sentence = (
            f"{state.key} sent Produce {body.correlation_id} to {body.dst} while {len(before):,} others were under way "
            f"on its connection, with max.in.flight.requests.per.connection = {state.most:,}"
        )
        return self.violated(state.key, sentence, before[0].by, event)

    # ---- look-ups of offsets ------------------------------------------------------------------------------------

    def _not_told(self, state: Pauses, event: Stamped, body: ErrorSeen) -> Emissions:
        """A leader refused to tell an offset. It is asked again, unless another one is to be found first."""
        name = partition_name(body.tp)
        looked = state.looked.pop(name, None)
        if not (traits(body.error).invalid_metadata or body.error == KafkaError.UNKNOWN_LEADER_EPOCH):
            count = 1 if looked is None else looked.count + 1
            state.looked[name] = Tried(count, event.wall, -1, witness(event))
        return self._told(state, event, body.tp, looked, body.error) if looked is not None else NOTHING

    def _told(self, state: Pauses, event: Stamped, tp: str, looked: Tried, error: int = 0) -> Emissions:
        """A leader has answered a look-up that was refused before."""
        least_us = shortest_us(*state.retry_ms, looked.count - 1)
        waited_us = event.wall - looked.at_us
        if state.clock or not self._is_early(state, waited_us, least_us):
            return NOTHING
        sentence = (
            f"{state.key} was answered again ({error_name(error)}) when it asked for an offset of {tp}, "
            f"{waited_us // 1000:,} ms after refusal {looked.count} in a row, before the back-off of "
            f"{least_us // 1000:,} ms was over"
        )
        return self.violated(state.key, sentence, looked.by, event)
