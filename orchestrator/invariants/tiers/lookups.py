"""R1, R2 and R8: what becomes of a ListOffsets that waits for remote storage (KIP-1075)."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from typing import Any

from actors.config import CONFIG
from actors.node.errors import KafkaError, error_name
from actors.node.spec import node_id
from actors.trace.events import (
    ConfigChange,
    CtlFault,
    MetaImage,
    NodeDown,
    NodeUp,
    PartAssume,
    RpcPark,
    RpcReply,
    Stamped,
    TierTask,
    TraceEvent,
)
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fold import NOTHING, Deadline, Emissions, Profile, witness
from orchestrator.invariants.tiers.parked import FEATURE, LIST_OFFSETS, Parked, ParkedInvariant, Waits

TIMEOUT = "remote.list.offsets.request.timeout.ms"
TIMEOUT_SINCE = 10
"""Version of ListOffsets that brought TimeoutMs."""
NOT_SUPPLIED = {"draft": -1}
"""TimeoutMs of a request that has none; 0 in Kafka."""

TICK_US = 2_000
"""A broker counts its time in whole milliseconds, and so does who tells it how long to wait."""


class Answers(Waits):
    """``answered``: connection -> the last request of it that had waited, and was answered."""

    answered: dict[str, int] = {}


class OneAnswerPerQuestion(ParkedInvariant[Answers]):
    """A request that waits for remote storage ends in one of many ways: its look-ups end in any order, its time is
    over, the broker loses a partition. A way that is forgotten, or that is taken twice, leaves the client without an
    answer, or with half of one.

    Example: list-offsets-1 asks broker-1 for a time in orders-0 and orders-1. Orders-0 is found, remote storage does
    not answer for orders-1, and after 30 s broker-1 answers with the offset of orders-0 and not a word about orders-1.
    """

    id = "R1"
    title = "A ListOffsets that waits for remote storage gets one answer, with one result for each partition"
    source = "KIP-1075; Kafka's DelayedRemoteListOffsets.onComplete"
    tested_when = "a broker answers a ListOffsets that waited for remote storage"
    unseen = ("Requests without an answer on a connection that ends: R2 judges when they were due.",)
    types = (RpcPark, RpcReply, NodeUp)
    cases = {RpcReply: (LIST_OFFSETS,)}

    def initial(self, key: str, profile: Profile) -> Answers:
        return Answers(key)

    def step(self, state: Answers, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is NodeUp:
            state.parked, state.answered = {}, {}
            return NOTHING
        if type(body) is RpcPark:
            former = self.park(state, event, body)
            if former is None:
                return NOTHING
            sentence = f"{event.node} let another request of {former.src} wait, and never answered the one before"
            return self.violated(state.key, sentence, former.by, event)
        assert type(body) is RpcReply
        if body.api != LIST_OFFSETS:
            return NOTHING
        if state.answered.get(body.connection) == body.correlation_id:
            return self.violated(state.key, f"{event.node} answered the ListOffsets of {body.src} twice", event)
        waited = self.answered(state, body)
        if waited is None:
            return NOTHING
        state.answered[body.connection] = body.correlation_id
        if len(state.answered) > 1024:
            del state.answered[next(iter(state.answered))]
        state.tested += 1
        # One that was asked for by an id that nobody knows has no name here.
        told, asked = Counter(each.tp for each in body.partitions), Counter([*waited.tps, *waited.decided])
        wrong = [
            f"{told[tp]} results for {tp or 'what has no name'}" for tp in {**asked, **told} if told[tp] != asked[tp]
        ]
        if not wrong:
            return NOTHING
        sentence = f"{event.node} answered the ListOffsets of {body.src} with {', '.join(wrong)}"
        return self.violated(state.key, sentence, waited.by, event)


class Deadlines(Waits):
    """``settings``: (offset in the metadata log, scope, value) of each change of the broker's setting, in order;
    ``image``: how much of that log it has; ``static_ms``: what it started with. due_us: connection -> when its request
    must be answered, and ``least_us``: before when it must not be given up."""

    settings: list[tuple[int, int, str | None]] = []
    image: int = 0
    static_ms: int = 30_000
    kip_1075: str = "kafka"
    wait_ms: dict[str, int] = {}

    def setting_ms(self) -> int:
        """The broker's setting now: its own, that of all brokers, or what it started with."""
        values = {scope: value for offset, scope, value in self.settings if offset < self.image}
        found = next((values[scope] for scope in (0, 1) if values.get(scope) is not None), None)
        return self.static_ms if found is None else int(found)


class DeadlinesBind(ParkedInvariant[Deadlines]):
    """The client has said how long it can wait, or the operator for it. A broker that answers later answers nobody; one
    that gives up earlier, or throws away what was found, makes the client ask for all of it again.

    Example: list-offsets-1 asks broker-1 for a time in orders-0 and orders-1, with a TimeoutMs of 30,000. Orders-0 is
    found at once. After 30 s broker-1 answers with its offset, and with REQUEST_TIMED_OUT for orders-1. Without a
    TimeoutMs it goes by remote.list.offsets.request.timeout.ms, as it is when the request arrives.
    """

    id = "R2"
    title = "It is answered when its time is over, with what was found by then, and REQUEST_TIMED_OUT for the rest"
    source = "KIP-1075; Kafka's DelayedRemoteListOffsets.onExpiration"
    tested_when = "a broker answers a ListOffsets that waited for remote storage"
    requires = (FEATURE,)
    types = (RpcPark, RpcReply, TierTask, MetaImage, NodeUp, NodeDown)
    cases = {RpcReply: (LIST_OFFSETS,)}
    unseen = ("How long a request was in the broker's queue before it began to wait: its time counts from then on.",)
    exemptions = {"clock": "A fault stopped the broker or changed its clock while the request waited."}

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (CtlFault, ConfigChange)

    def initial(self, key: str, profile: Profile) -> Deadlines:
        static_ms = int(profile.setting(TIMEOUT, key, CONFIG[TIMEOUT].default))
        return Deadlines(key, static_ms=static_ms, kip_1075=profile.feature(FEATURE, key))

    def hear(self, state: Deadlines, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is not ConfigChange:
            return super().hear(state, event)
        own = f"broker/{node_id(state.key)}" if state.key.startswith("broker-") else ""
        if body.key == TIMEOUT and body.resource in (own, "broker/"):
            # Two controllers may both have written at an offset; what the newer one wrote is in the log.
            change = (body.offset, 0 if body.resource == own else 1, body.value)
            state.settings = [each for each in state.settings if each[0] < body.offset]
            insort(state.settings, change, key=lambda each: each[0])
        return NOTHING

    def step(self, state: Deadlines, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is RpcPark:
            self.park(state, event, body)
            wait_ms = self._wait_ms(state, body)
            state.wait_ms[body.connection] = wait_ms
            return (Deadline(event.wall + 1000 * wait_ms + SLACK_US),)
        if type(body) is TierTask:
            self.finish_read(state, event, body)
        elif type(body) is MetaImage:
            state.image = body.offset
        elif type(body) is RpcReply:
            waited = self.answered(state, body)
            return NOTHING if waited is None else self._judge(state, event, body, waited)
        else:
            state.parked, state.wait_ms = {}, {}
        return NOTHING

    def _wait_ms(self, state: Deadlines, body: RpcPark) -> int:
        if body.version >= TIMEOUT_SINCE and body.timeout_ms > NOT_SUPPLIED.get(state.kip_1075, 0):
            return body.timeout_ms
        return state.setting_ms()

    def _judge(self, state: Deadlines, event: Stamped, body: RpcReply, waited: Parked) -> Emissions:
        wait_ms = state.wait_ms.pop(body.connection)
        took_us = event.wall - waited.since_us
        late = [told.tp for told in body.partitions if told.error == KafkaError.REQUEST_TIMED_OUT]
        thrown_away = [tp for tp in late if tp in waited.done]
        wrong, proof = "", waited.by
        if took_us > 1000 * wait_ms + SLACK_US:
            wrong = f"after {took_us // 1000:,} ms, where {wait_ms:,} were allowed"
        elif thrown_away:
            wrong = f"with {error_name(KafkaError.REQUEST_TIMED_OUT)} for {thrown_away[0]}, which it had looked up"
            proof = waited.done[thrown_away[0]]
        elif late and took_us < 1000 * wait_ms - TICK_US:
            wrong = f"that its time was over after {took_us // 1000:,} ms, where {wait_ms:,} were allowed"
        if not wrong:
            state.tested += 1
            return NOTHING
        sentence = f"{event.node} answered the ListOffsets of {body.src} {wrong}"
        if state.frozen_since(waited.since_us) and not thrown_away:
            return self.excused("clock", state.key, sentence, proof, event)
        state.tested += 1
        return self.violated(state.key, sentence, proof, event)

    def expire(self, state: Deadlines, at_us: int) -> Emissions:
        found: list[Emissions] = []
        for connection, waiting in list(state.parked.items()):
            wait_ms = state.wait_ms[connection]
            if waiting.since_us + 1000 * wait_ms + SLACK_US > at_us:
                continue
            if state.frozen_since(waiting.since_us):
                continue  # judged by its answer, if one comes
            del state.parked[connection], state.wait_ms[connection]
            sentence = (
                f"{state.key} has not answered the ListOffsets of {waiting.src} {SLACK_US // 1000:,} ms after the "
                f"{wait_ms:,} ms for which it may wait"
            )
            found.append(self.violated(state.key, sentence, waiting.by))
        return [each for emissions in found for each in emissions]


class LeavingTheLeaderEndsTheWait(ParkedInvariant[Waits]):
    """What a former leader finds out is about a log that is another's by then: the client must hear that it asks the
    wrong broker, and soon, so that it can ask the right one.

    Example: list-offsets-1 waits at broker-1 for a time in orders-0, which remote storage takes long to find. Broker-2
    is elected. Broker-1 answers NOT_LEADER_OR_FOLLOWER at once, and does not wait for remote storage to answer it with
    an offset.
    """

    id = "R8"
    title = "A broker that stops leading a partition answers so at once whoever waits for a look-up in it"
    source = "KAFKA-15859; Kafka's ReplicaManager.completeDelayedOperationsWhenNotPartitionLeader"
    tested_when = "a broker answers a ListOffsets after it stopped leading a partition that it was looking up"
    unseen = (
        "The removal of a topic: no event says when a broker removes its replicas.",
        "Leaders that are elected again: what they find is of their own log.",
    )
    requires = (FEATURE,)
    types = (RpcPark, RpcReply, TierTask, PartAssume, NodeUp, NodeDown)
    cases = {RpcReply: (LIST_OFFSETS,)}
    exemptions = {"clock": "A fault stopped the broker, or changed its clock, when it had to answer."}

    def initial(self, key: str, profile: Profile) -> Waits:
        return Waits(key)

    def step(self, state: Waits, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is RpcPark:
            self.park(state, event, body)
        elif type(body) is TierTask:
            self.finish_read(state, event, body)
        elif type(body) is PartAssume:
            return self._moved(state, event, body)
        elif type(body) is RpcReply:
            waited = self.answered(state, body)
            return NOTHING if waited is None else self._judge(state, event, body, waited)
        else:
            state.parked = {}
        return NOTHING

    def _moved(self, state: Waits, event: Stamped, body: PartAssume) -> Emissions:
        if body.role == "leader":
            return NOTHING
        over = False
        for waiting in state.parked.values():
            if body.tp in waiting.waiting:
                waiting.lost[body.tp] = witness(event)
                if not waiting.waiting:
                    waiting.over_us, over = event.wall, True
        return (Deadline(event.wall + SLACK_US),) if over else NOTHING

    def _judge(self, state: Waits, event: Stamped, body: RpcReply, waited: Parked) -> Emissions:
        for told in body.partitions:
            by = waited.lost.get(told.tp)
            if by is None:
                continue
            state.tested += 1
            if told.error and told.error != KafkaError.REQUEST_TIMED_OUT:
                continue
            answer = error_name(told.error) if told.error else f"offset {told.offset:,}"
            sentence = f"{event.node} answered {body.src} with {answer} of {told.tp}, which it had stopped leading"
            return self.violated(state.key, sentence, by, event)
        return NOTHING

    def expire(self, state: Waits, at_us: int) -> Emissions:
        found: list[Emissions] = []
        for connection, waiting in list(state.parked.items()):
            if waiting.over_us < 0 or waiting.over_us + SLACK_US > at_us:
                continue
            del state.parked[connection]
            tp, by = next(reversed(waiting.lost.items()))
            sentence = f"{state.key} lets {waiting.src} wait for a look-up in {tp}, which it has stopped leading"
            if state.frozen_since(waiting.over_us):
                found.append(self.excused("clock", state.key, sentence, waiting.by, by))
            else:
                found.append(self.violated(state.key, sentence, waiting.by, by))
        return [each for emissions in found for each in emissions]
