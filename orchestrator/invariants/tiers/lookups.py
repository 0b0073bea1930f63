"""R1, R2 and R8: the answer to a ListOffsets that waits for remote storage (KIP-1075)."""

from __future__ import annotations

from collections import Counter

import msgspec

from actors.node.errors import KafkaError, error_name
from actors.trace.events import (
    CtlFault,
    MetaImage,
    NodeDown,
    NodeUp,
    PartAssume,
    PartRemove,
    RpcPark,
    RpcReply,
    Stamped,
    TierTask,
    TraceEvent,
)
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fold import NOTHING, Deadline, Emissions, Profile, witness
from orchestrator.invariants.mirrors.config_records import HEARD_OF_OTHERS, BrokerSettings, broker_settings
from orchestrator.invariants.tiers.parked import FEATURE, LIST_OFFSETS, Parked, ParkedInvariant, Waits

TIMEOUT = "remote.list.offsets.request.timeout.ms"
TIMEOUT_SINCE = 10
"""Version of ListOffsets that brought TimeoutMs."""
API_TIMEOUT = "default.api.timeout.ms"
REQUEST_TIMEOUT = "request.timeout.ms"
BROKER = "broker-"
PROBER = "list-offsets-"
"""How the names of clients begin that ask as the admin client does, or as a consumer's call."""
NOT_SUPPLIED = {"draft": -1}
"""TimeoutMs of a request without one, by variant of the KIP; 0 in Kafka."""

TICK_US = 2_000
"""A broker and its clients count in whole milliseconds."""


class Answers(Waits):
    """``answered``: connection -> the last request on it that had waited and was answered. ``removed``: partitions
    whose topic was removed."""

    answered: dict[str, int] = {}
    removed: set[str] = set()


class OneAnswerPerQuestion(ParkedInvariant[Answers]):
    """A request that waits for remote storage can end in many ways: its look-ups end in any order, its timeout is over,
    or the broker stops leading a partition. A broker that forgets one of these ways, or takes two, gives the client no
    answer, an incomplete one, or two.

    Example: list-offsets-1 looks a timestamp up in orders-0 and orders-1 at broker-1. The look-up in orders-0 succeeds,
    and remote storage does not answer for orders-1. After 30 s broker-1 answers with the offset of orders-0, and the
    answer has no result for orders-1.
    """

    id = "R1"
    title = "A ListOffsets that waits for remote storage gets one answer, with one result for each partition"
    source = "KIP-1075; Kafka's DelayedRemoteListOffsets.onComplete"
    tested_when = "a broker answers a ListOffsets that waited for remote storage"
    unseen = ("Requests that are not answered before their connection ends: R2 judges whether the answer was due.",)
    types = (RpcPark, RpcReply, NodeUp)
    cases = {RpcReply: (LIST_OFFSETS,)}

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (PartRemove,)

    def initial(self, key: str, profile: Profile) -> Answers:
        return Answers(key)

    def hear(self, state: Answers, event: Stamped) -> Emissions:
        if type(event.body) is PartRemove:
            state.removed.add(event.body.tp)
        return NOTHING

    def step(self, state: Answers, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is NodeUp:
            state.parked, state.answered = {}, {}
            return NOTHING
        if type(body) is RpcPark:
            former = self.park(state, event, body)
            if former is None:
                return NOTHING
            sentence = (
                f"{event.node} let another ListOffsets of {former.src} wait before it had answered the previous one"
            )
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
        # A topic that the broker does not know, or no longer, has no name here.
        told, asked = Counter(each.tp for each in body.partitions), Counter([*waited.tps, *waited.decided])
        gone = sum(count for tp, count in (asked - told).items() if tp in state.removed)
        if gone and gone == told[""] - asked[""]:
            told = Counter(asked)
        wrong = [
            f"{told[tp]} results for {tp or 'unknown topics'}" for tp in {**asked, **told} if told[tp] != asked[tp]
        ]
        if not wrong:
            return NOTHING
        sentence = f"{event.node} answered the ListOffsets of {body.src} with {', '.join(wrong)}"
        return self.violated(state.key, sentence, waited.by, event)


class Deadlines(Waits):
    """``settings``: the broker's. ``wait_ms``: connection -> the timeout of its waiting request. ``profile``: with the
    settings of the clients."""

    profile: Profile = Profile()
    settings: BrokerSettings = msgspec.field(default_factory=BrokerSettings)
    kip_1075: str = "kafka"
    wait_ms: dict[str, int] = {}


class DeadlinesBind(ParkedInvariant[Deadlines]):
    """The client sets the time that its request may wait, or the operator does. When a broker answers later, the client
    has given up. A broker that gives up earlier, or discards finished look-ups, makes the client repeat them.

    Example: list-offsets-1 looks a timestamp up in orders-0 and orders-1 at broker-1, with a TimeoutMs of 30,000. The
    look-up in orders-0 ends at once. After 30 s broker-1 answers with the offset of orders-0, and with
    REQUEST_TIMED_OUT for orders-1. The timeout of a request without TimeoutMs is the value that
    remote.list.offsets.request.timeout.ms has when the request arrives.

    A client tells for how long it waits itself: the admin client for default.api.timeout.ms, a consumer for
    request.timeout.ms.
    """

    id = "R2"
    title = (
        "A waiting ListOffsets is answered at its timeout, with the finished look-ups and REQUEST_TIMED_OUT for the "
        "rest"
    )
    source = "KIP-1075; Kafka's DelayedRemoteListOffsets.onExpiration"
    tested_when = "a broker answers a ListOffsets that waited for remote storage"
    requires = (FEATURE,)
    types = (RpcPark, RpcReply, TierTask, MetaImage, NodeUp, NodeDown)
    cases = {RpcReply: (LIST_OFFSETS,)}
    unseen = (
        (
            "The time in the broker's request queue: the timeout counts from the moment at which the request begins to "
            "wait."
        ),
    )
    exemptions = {"clock": "A fault stopped the broker or changed its clock while the request waited."}

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (CtlFault, *HEARD_OF_OTHERS)

    def initial(self, key: str, profile: Profile) -> Deadlines:
        settings = broker_settings(profile, key, TIMEOUT)
        return Deadlines(key, settings=settings, kip_1075=profile.feature(FEATURE, key), profile=profile)

    def hear(self, state: Deadlines, event: Stamped) -> Emissions:
        if type(event.body) not in HEARD_OF_OTHERS:
            return super().hear(state, event)
        state.settings.hear(event)
        return NOTHING

    def step(self, state: Deadlines, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is RpcPark:
            self.park(state, event, body)
            wait_ms = self._wait_ms(state, body)
            state.wait_ms[body.connection] = wait_ms
            return (*self._told(state, event, body), Deadline(event.wall + 1000 * wait_ms + SLACK_US))
        if type(body) is TierTask:
            self.finish_read(state, event, body)
        elif type(body) is MetaImage:
            state.settings.hear(event)
        elif type(body) is RpcReply:
            waited = self.answered(state, body)
            return NOTHING if waited is None else self._judge(state, event, body, waited)
        else:
            state.settings.hear(event)
            state.parked, state.wait_ms = {}, {}
        return NOTHING

    def _told(self, state: Deadlines, event: Stamped, body: RpcPark) -> Emissions:
        """A request says for how long its client waits. The run tells the settings of its own clients."""
        admin = body.src.startswith(PROBER) and body.src not in state.profile.consumer_calls
        key = API_TIMEOUT if admin else REQUEST_TIMEOUT
        own = state.profile.nodes.get(body.src, {}).get("config", {}).get(key)
        server = body.src.startswith(BROKER)
        if body.version < TIMEOUT_SINCE or own is None or server or body.timeout_ms == own:
            return NOTHING
        sentence = (
            f"{body.src} asked {event.node} for offsets with TimeoutMs {body.timeout_ms:,}, but it has {key}={own:,}"
        )
        return self.violated(state.key, sentence, event)

    def _wait_ms(self, state: Deadlines, body: RpcPark) -> int:
        if body.version >= TIMEOUT_SINCE and body.timeout_ms > NOT_SUPPLIED.get(state.kip_1075, 0):
            return body.timeout_ms
        return state.settings.at(TIMEOUT)

    def _judge(self, state: Deadlines, event: Stamped, body: RpcReply, waited: Parked) -> Emissions:
        wait_ms = state.wait_ms.pop(body.connection)
        took_us = event.wall - waited.since_us
        late = [told.tp for told in body.partitions if told.error == KafkaError.REQUEST_TIMED_OUT]
        thrown_away = [tp for tp in late if tp in waited.done]
        wrong, proof = "", waited.by
        if took_us > 1000 * wait_ms + SLACK_US:
            wrong = f"after {took_us // 1000:,} ms, but its timeout was {wait_ms:,} ms"
        elif thrown_away:
            wrong = f"with REQUEST_TIMED_OUT for {thrown_away[0]}, although the look-up there had ended"
            proof = waited.done[thrown_away[0]]
        elif late and took_us < 1000 * wait_ms - TICK_US:
            wrong = f"with REQUEST_TIMED_OUT after {took_us // 1000:,} ms, but its timeout was {wait_ms:,} ms"
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
                f"{state.key} had not answered the ListOffsets of {waiting.src} {SLACK_US // 1000:,} ms after its "
                f"timeout of {wait_ms:,} ms"
            )
            found.append(self.violated(state.key, sentence, waiting.by))
        return [each for emissions in found for each in emissions]


class LeavingTheLeaderEndsTheWait(ParkedInvariant[Waits]):
    """Another broker leads the log by the time at which the look-up of a former leader ends. The client must learn soon
    that it asked the wrong broker, so that it can ask the right one.

    Example: list-offsets-1 waits at broker-1 for a look-up in orders-0, and remote storage is slow. Broker-2 is elected
    leader of orders-0. Broker-1 must answer NOT_LEADER_OR_FOLLOWER at once. Instead it waits for remote storage, and
    answers with an offset.
    """

    id = "R8"
    title = "A broker that stops leading a partition at once answers the look-ups in it with an error"
    source = "KAFKA-15859; Kafka's ReplicaManager.completeDelayedOperationsWhenNotPartitionLeader"
    tested_when = "a broker answers a ListOffsets after it stopped leading a partition in which a look-up was under way"
    unseen = (
        "Look-ups in a removed topic: no event says when a broker removes its replicas.",
        "Look-ups of a broker that stays leader in a new leader epoch: they are of its own log.",
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
            sentence = f"{event.node} answered {body.src} with {answer} for {told.tp}, which it no longer led"
            return self.violated(state.key, sentence, by, event)
        return NOTHING

    def expire(self, state: Waits, at_us: int) -> Emissions:
        found: list[Emissions] = []
        for connection, waiting in list(state.parked.items()):
            if waiting.over_us < 0 or waiting.over_us + SLACK_US > at_us:
                continue
            del state.parked[connection]
            tp, by = next(reversed(waiting.lost.items()))
            sentence = f"{state.key} still makes {waiting.src} wait for a look-up in {tp}, which it no longer leads"
            if state.frozen_since(waiting.over_us):
                found.append(self.excused("clock", state.key, sentence, waiting.by, by))
            else:
                found.append(self.violated(state.key, sentence, waiting.by, by))
        return [each for emissions in found for each in emissions]
