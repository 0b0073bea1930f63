"""How long the controller holds the place of a broker of which it hears no more."""

from __future__ import annotations

import msgspec

from actors.broker.lifecycle import SHUTDOWN_TIMEOUT_MS
from actors.node.spec import node_name
from actors.trace.events import (
    BrokerReg,
    ClockSet,
    CtlFault,
    DiskRuleChange,
    MetaImage,
    NodeDown,
    NodeUp,
    PartChange,
    PartRemove,
    QRole,
    Rpc,
    Stamped,
    Tick,
)
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodeBounce, NodeShutdown
from orchestrator.invariants.folds.bounds import by_node_us
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.metadata_view import MetadataView
from orchestrator.invariants.partitions.controlled_shutdowns import ControlledShutdowns
from orchestrator.invariants.partitions.controller import ControllerInvariant
from orchestrator.invariants.partitions.gone_brokers import LOOKS, GoneBrokers
from orchestrator.invariants.partitions.heartbeats import HEARTBEAT_INTERVAL, SESSION_TIMEOUT, Heartbeats
from orchestrator.invariants.partitions.left_brokers import REGISTRATION, LeftBrokers

SLACK_US = 100_000
"""By so much an event may be told later than it was."""
SHUTDOWNS = kinds_of(NodeShutdown, NodeBounce)
"""What an operator does that has brokers ask to be fenced."""
CONTROLLED_SHUTDOWN = "controlled.shutdown.enable"
LONGEST_US = SHUTDOWN_TIMEOUT_MS * 1000 - SLACK_US
"""A broker that waits longer for the controller's leave stops without it."""


class Shutdown(msgspec.Struct):
    """What an operator stops. nodes: whose process may have been asked to; at_us: since when; renewed: those that have
    registered another one since; lasts: it is not over."""

    nodes: set[str]
    at_us: int
    renewed: set[str] = set()
    lasts: bool = True


class Heard(msgspec.Struct, frozen=True):
    """When a controller heard of an incarnation of a broker, at the earliest."""

    incarnation: str
    at_us: int
    by: Witness


class Unanswered(msgspec.Struct):
    """How many heartbeats of an incarnation got no answer before it was unfenced: each may ask, late, to be fenced."""

    incarnation: str
    times: int = 0


class Place(msgspec.Struct):
    """What controllers wrote of an incarnation of a broker. fenced: what the last one wrote; at_us: when that began;
    controller: who wrote it. fenced_us: when it was fenced last, -1 never. runs: a heartbeat by which it knows that
    it was unfenced."""

    incarnation: str
    fenced: bool
    at_us: int
    controller: str
    fenced_us: int = -1
    runs: Witness | None = None

    def written(self, event: Stamped, fenced: bool) -> None:
        """A controller wrote something of it."""
        if (fenced, event.node) != (self.fenced, self.controller):
            self.fenced, self.controller, self.at_us = fenced, event.node, event.wall
        if fenced:
            self.fenced_us = event.wall


class Sessions(State):
    """profile: of the run. timeouts_us: node -> the session timeout; the longest under "". active: controller -> since
    when it leads. heard: "controller/broker" -> Heard. unanswered: broker -> its early heartbeats. unfenced: broker ->
    its last incarnation that was. wrong: nodes whose clocks were set. shutdowns: fault -> what an operator stops by it.
    places: broker -> what was written of its last incarnation. asks: whether brokers ask before they stop, as far as is
    known of what they are started with. timed: so are the session timeout and the interval of heartbeats. gone: brokers
    that have ended. beats: what is known of heartbeats. leaves: brokers that shut down. left: those that have."""

    profile: Profile = Profile()
    timeouts_us: dict[str, int] = {}
    active: dict[str, tuple[int, Witness]] = {}
    heard: dict[str, Heard] = {}
    unanswered: dict[str, Unanswered] = {}
    unfenced: dict[str, str] = {}
    wrong: set[str] = set()
    shutdowns: dict[str, Shutdown] = {}
    places: dict[str, Place] = {}
    asks: bool = True
    timed: bool = True
    gone: GoneBrokers = msgspec.field(default_factory=GoneBrokers)
    beats: Heartbeats = msgspec.field(default_factory=Heartbeats)
    leaves: ControlledShutdowns = msgspec.field(default_factory=ControlledShutdowns)
    left: LeftBrokers = msgspec.field(default_factory=LeftBrokers)

    def stops(self, node: str) -> bool:
        """Whether an operator may have asked this process of a node to stop."""
        return any(node in each.nodes for each in self.shutdowns.values())

    def told(self, event: Stamped, body: CtlFault) -> None:
        """A fault begins, or ends: nodes that it stops may still be on their way out."""
        if body.kind in SHUTDOWNS and body.phase == "start":
            self.shutdowns[body.fault] = Shutdown(set(body.targets), event.wall)
            config = body.parameters.get("config", {})
            self.asks = self.asks and CONTROLLED_SHUTDOWN not in config
            self.timed = self.timed and config.keys().isdisjoint((SESSION_TIMEOUT, HEARTBEAT_INTERVAL))
        elif body.fault in self.shutdowns:
            ended = self.shutdowns[body.fault]
            ended.lasts = False
            ended.nodes -= ended.renewed

    def renews(self, node: str) -> None:
        """Another process of a node registers."""
        for fault, each in list(self.shutdowns.items()):
            each.renewed.add(node)
            if not each.lasts:
                each.nodes.discard(node)
                if not each.nodes:
                    del self.shutdowns[fault]


class SessionsAreHonoured(ControllerInvariant[Sessions]):
    """A broker that sends heartbeats keeps its place. If it is fenced all the same, it loses its leaderships without a
    reason; if another process gets its id, two processes act for one broker. A new active controller has not yet heard
    from any broker, and gives every unfenced broker the whole session timeout. A broker that is stopped in good order
    gives its place back first: it waits until the controller has moved its leaderships, all brokers know that, and it
    is fenced. It does not wait for more than that.

    Example: controller-2 takes over and fences all brokers, because none has sent it a heartbeat; every partition is
    without a leader until they have. Or broker-1 is restarted at once, and registers while its former incarnation still
    counts as alive. Or broker-1 stops without asking, and its partitions have no leader for a session timeout. Or it is
    killed, and the controller holds its place for a minute. Or it is healthy, but sends a heartbeat once a minute. Or
    it stops in good order and starts anew, and the controller that has let it go refuses it for a session timeout. Or
    it asks to stop, and the controller moves its leaderships, but waits until all brokers have the newest record, of
    which there is another one each time that it asks.
    """

    id = "P27"
    title = (
        "A broker heard from within the session timeout is not fenced, and no other broker gets its id; who is gone is "
        "fenced soon, and who is healthy is heard from"
    )
    source = "KIP-631; Kafka's BrokerHeartbeatManager, ClusterControlManager.registerBroker"
    tested_when = (
        "a controller fences a broker that was unfenced, or registers another incarnation of one, or holds the place "
        "of one that is gone for too long; or a broker that knows that it was unfenced is stopped in good order, or "
        "starts anew and asks the controller that has let it go; or a controller that has moved a broker's leaderships "
        "lets it go, or holds it back although all know of that"
    )
    unseen = (
        "Brokers that are fenced too late, but run, paused or cut off: which heartbeats arrived is not in the trace.",
        "The places of brokers of which a controller wrote that ended abruptly, maybe without telling of all.",
        (
            "Heartbeats that are sent too late after one that failed; and all, if half of the session timeout is "
            "shorter than their interval and half a second."
        ),
        "The fencing of brokers that an operator shuts down, until they register again: they request it.",
        (
            "What a controlled shutdown waits for after another controller became active, after the broker was fenced "
            "in between, or while a heartbeat may come late that asks to be fenced."
        ),
        (
            "Controlled shutdowns that wait too long: after a controller ended abruptly, where heartbeats may be "
            "copied, and while one of another broker may come late, and say that it knows less."
        ),
        "Controllers and brokers whose clocks were set.",
    )
    exemptions = {
        "late-heartbeat": "A broker asks to be fenced until it has caught up with the metadata. Such a heartbeat that "
        "got no answer comes after the broker was unfenced, and the controller fences it again."
    }
    types = (BrokerReg, Rpc, QRole, NodeUp, NodeDown, ClockSet, CtlFault, DiskRuleChange, Tick, PartChange, MetaImage)
    before_types = (BrokerReg, PartChange, PartRemove)
    cases = {Rpc: ("BrokerHeartbeat", REGISTRATION)}

    def initial(self, key: str, profile: Profile) -> Sessions:
        return Sessions(key, profile=profile, timeouts_us=by_node_us(profile, SESSION_TIMEOUT))

    def before(self, state: Sessions, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if type(body) is PartChange:
            state.leaves.change(event, body, mirror)
            return NOTHING
        if type(body) is PartRemove:
            state.leaves.removed(event, body, mirror)
            return NOTHING
        assert type(body) is BrokerReg
        return self._let_go(state, event, body, mirror) or self._kept(state, event, body, mirror)

    def _let_go(self, state: Sessions, event: Stamped, body: BrokerReg, mirror: MetadataView) -> Emissions:
        """A broker that asks to stop is fenced when its leaderships have moved, and all brokers know that."""
        state.tested += state.leaves.is_let_go(event, body)
        let_go = state.leaves.written(event, body, mirror, state.gone.abrupt)
        known = mirror.view_of(event).broker(body.broker)
        if let_go is None or known is None:
            return NOTHING
        late = state.unanswered.get(node_name(body.broker))
        asked = late is not None and late.incarnation == body.incarnation and late.times > 0
        if asked or not (known.shutting_down or state.stops(node_name(body.broker))):
            return NOTHING
        state.tested += 1
        sentence = f"{event.node} fenced {body.incarnation}, which asked to stop, although {let_go.why}"
        return self.violated(state.key, sentence, let_go.by, event)

    def _kept(self, state: Sessions, event: Stamped, body: BrokerReg, mirror: MetadataView) -> Emissions:
        """The place of a broker that is heard from is kept."""
        known = mirror.view_of(event).broker(body.broker)
        active = state.active.get(event.node)
        if known is not None and known.incarnation != body.incarnation:
            state.renews(node_name(body.broker))
        if known is None or known.fenced or active is None or event.node in state.wrong:
            return NOTHING
        replaced = body.incarnation != known.incarnation
        stops = known.shutting_down or body.shutting_down or state.stops(node_name(body.broker))
        if not replaced and (not body.fenced or stops):
            return NOTHING
        state.tested += 1
        at_us, by = active
        heard = state.heard.get(f"{event.node}/{body.broker}")
        contacted = heard is not None and heard.incarnation == known.incarnation and heard.at_us > at_us
        if heard is not None and contacted:
            at_us, by = heard.at_us, heard.by
        timeout_us = state.timeouts_us.get(event.node, state.timeouts_us[""])
        if event.wall >= at_us + timeout_us - SLACK_US:
            return NOTHING if replaced else self._silent(state, event, known.incarnation)
        did = (
            f"registered {body.incarnation} in place of {known.incarnation}"
            if replaced
            else f"fenced {node_name(body.broker)}"
        )
        since = "the last heartbeat" if contacted else "it became active"
        sentence = (
            f"{event.node} {did} {(event.wall - at_us) // 1000} ms after {since}; the "
            f"session timeout is {timeout_us // 1000} ms"
        )
        late = state.unanswered.get(node_name(body.broker))
        if not replaced and late is not None and late.incarnation == known.incarnation and late.times:
            late.times -= 1
            return self.excused("late-heartbeat", state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)

    def step(self, state: Sessions, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if type(body) is Tick:
            return self._late(state, event, mirror)
        if type(body) is MetaImage:
            state.leaves.applied(event, body)
            return NOTHING
        if type(body) is Rpc and body.api == REGISTRATION:
            return self._refused(state, event, body)
        state.gone.take(event, mirror)
        state.beats.take(event)
        if type(body) is Rpc:
            state.left.beat(event, body)
            incarnation = f"{event.node}/{event.incarnation}"
            if body.outcome == "answered" and not body.errors and event.node not in state.wrong:
                self._heard(state, body.dst, event, event.node, incarnation, body.took_ms)
                self._answered(state, event, body, incarnation)
                return self._held_back(state, event, body, mirror)
            if body.outcome != "answered" and state.unfenced.get(event.node) != incarnation:
                late = state.unanswered.get(event.node)
                if late is None or late.incarnation != incarnation:
                    late = state.unanswered[event.node] = Unanswered(incarnation)
                late.times += 1
        elif type(body) is BrokerReg:
            self._written(state, event, body)
            if body.incarnation != _last_of(state, body):
                state.left.registers(node_name(body.broker))
            if not body.fenced:
                state.unfenced[node_name(body.broker)] = body.incarnation
                self._heard(state, event.node, event, node_name(body.broker), body.incarnation, 0)
        elif type(body) is QRole:
            if body.role == "leader":
                state.active[event.node] = (event.wall, witness(event))
            else:
                state.active.pop(event.node, None)
        elif type(body) is NodeDown:
            state.active.pop(event.node, None)
            self._lets_go(state, event, body)
            return self._stopped(state, event) if body.mode == "clean" else NOTHING
        elif type(body) is ClockSet:
            state.wrong.add(event.node)
        elif type(body) is CtlFault:
            state.told(event, body)
            state.left.begins(body)
        return NOTHING

    def _held_back(self, state: Sessions, event: Stamped, body: Rpc, mirror: MetadataView) -> Emissions:
        """A heartbeat was answered, and its sender goes on: no broker that asks to stop waits for more than that all
        know of the moves of its leaderships. A controller that ended abruptly may have told too little of what others
        wait for; a copy of a heartbeat may come late, and say less than the one that was answered."""
        state.leaves.beat(event, body, state.left.beats[event.node].late, SLACK_US)
        if state.left.copied or state.gone.abrupt >= 0 or body.dst in state.wrong:
            return NOTHING
        waits = state.leaves.held_back(event, body, mirror, state.gone.written_us, SLACK_US)
        if waits is None:
            return NOTHING
        state.tested += 1
        sentence = (
            f"{body.dst} did not let {waits.incarnation} stop, although it leads nothing, and all active brokers had "
            f"said that they know the metadata log up to offset {waits.offset}, where the last of its leaderships was "
            "moved"
        )
        return self.violated(state.key, sentence, waits.by, event)

    def _refused(self, state: Sessions, event: Stamped, body: Rpc) -> Emissions:
        """The first process after one that has left in good order asks to be registered."""
        if body.outcome != "answered" or event.node not in state.left.left:
            return NOTHING
        state.tested += 1
        left, active = state.left.wrongly_refused(event, body), state.active.get(body.dst)
        if left is None or active is None or active[0] != left.active_us:
            return NOTHING
        incarnation = f"{event.node}/{event.incarnation}"
        sentence = f"{body.dst} refused {incarnation} as a second process, although it had let the one before it go"
        return self.violated(state.key, sentence, left.by, event)

    @staticmethod
    def _lets_go(state: Sessions, event: Stamped, body: NodeDown) -> None:
        """A process ends. In good order it does so only when a controller has let it go, as it was fenced at its own
        wish: that was the answer to its last heartbeat."""
        controller, place = state.left.answered_last(event), state.places.get(event.node)
        state.left.registers(event.node)
        if body.mode != "clean" or place is None or place.runs is None:
            return  # who does not know that it was unfenced stops without asking
        asked_us = min((each.at_us for each in state.shutdowns.values() if event.node in each.nodes), default=-1)
        enabled = state.asks and state.profile.setting(CONTROLLED_SHUTDOWN, event.node, True) is True
        in_time = 0 <= asked_us <= place.fenced_us and event.wall < asked_us + LONGEST_US
        active = state.active.get(controller)
        if not place.fenced or place.controller != controller or active is None or active[0] >= place.at_us:
            return
        is_it = enabled and in_time and place.incarnation == f"{event.node}/{event.incarnation}"
        if is_it and not state.wrong & {event.node, controller}:
            state.left.leaves(event, controller, active[0])

    def _late(self, state: Sessions, event: Stamped, mirror: MetadataView) -> Emissions:
        """A controller that goes on has fenced who is gone."""
        if not state.timed or event.node in state.wrong:
            return NOTHING
        session_us = state.timeouts_us.get(event.node, state.timeouts_us[""])
        found: list[Emissions] = []
        for late in state.gone.late(event, mirror, session_us):
            state.tested += 1
            sentence = (
                f"{event.node} has not fenced {late.gone.incarnation} {late.silent_us // 1000} ms after the last sign "
                f"of it; the session timeout is {session_us // 1000} ms, and it looks {LOOKS} times in that"
            )
            found.append(self.violated(state.key, sentence, late.gone.by, event))
        return [each for emissions in found for each in emissions]

    def _silent(self, state: Sessions, event: Stamped, incarnation: str) -> Emissions:
        """A broker is fenced, as its session is over: something had kept it from sending heartbeats."""
        broker = incarnation.partition("/")[0]
        late = state.unanswered.get(broker)
        asked = late is not None and late.incarnation == incarnation and late.times > 0
        if asked or not state.timed or broker in state.wrong:
            return NOTHING
        last = state.beats.missing(event, broker, incarnation, state.profile)
        if last is None:
            return NOTHING
        interval_ms = state.profile.number(HEARTBEAT_INTERVAL, broker)
        sentence = (
            f"{event.node} fenced {incarnation}, which sent no heartbeat in the {(event.wall - last.ended_us) // 1000} "
            f"ms after one was answered, though nothing befell the two; broker.heartbeat.interval.ms is {interval_ms}"
        )
        return self.violated(state.key, sentence, last.by, event)

    @staticmethod
    def _written(state: Sessions, event: Stamped, body: BrokerReg) -> None:
        """A controller wrote what has become of a broker."""
        node = node_name(body.broker)
        place = state.places.get(node)
        if place is None or place.incarnation != body.incarnation:
            place = state.places[node] = Place(body.incarnation, body.fenced, event.wall, event.node)
        place.written(event, body.fenced)

    @staticmethod
    def _answered(state: Sessions, event: Stamped, body: Rpc, incarnation: str) -> None:
        """A heartbeat was answered: who sent it while the controller had it as unfenced knows that now. A controller
        that has been elected again since may have lost the record."""
        place, active = state.places.get(event.node), state.active.get(body.dst)
        if place is None or active is None or place.fenced or place.incarnation != incarnation:
            return
        sent_us = event.wall - body.took_ms * 1000
        if place.controller == body.dst and active[0] <= place.at_us < sent_us - SLACK_US and place.runs is None:
            place.runs = witness(event)

    def _stopped(self, state: Sessions, event: Stamped) -> Emissions:
        """A broker has stopped in good order: it was fenced since it was asked to, or was already."""
        place = state.places.get(event.node)
        asked_us = min((each.at_us for each in state.shutdowns.values() if event.node in each.nodes), default=-1)
        if place is None or place.runs is None or place.incarnation != f"{event.node}/{event.incarnation}":
            return NOTHING
        enabled = state.asks and state.profile.setting(CONTROLLED_SHUTDOWN, event.node, True) is True
        if asked_us < 0 or not enabled or event.node in state.wrong or event.wall >= asked_us + LONGEST_US:
            return NOTHING
        state.tested += 1
        if place.fenced or place.fenced_us >= asked_us:
            return NOTHING
        return self.violated(
            state.key,
            f"{place.incarnation}, which knew that it was unfenced, stopped in good order before any controller fenced "
            "it",
            place.runs,
            event,
        )

    @staticmethod
    def _heard(state: Sessions, controller: str, event: Stamped, broker: str, incarnation: str, took_ms: int) -> None:
        number = broker.rpartition("-")[2]
        known = state.heard.get(f"{controller}/{number}")
        at_us = event.wall - took_ms * 1000
        if known is None or known.at_us < at_us or known.incarnation != incarnation:
            state.heard[f"{controller}/{number}"] = Heard(incarnation, at_us, witness(event))


def _last_of(state: Sessions, body: BrokerReg) -> str:
    """Name of the last process of a broker that has left, "" if none has."""
    node = node_name(body.broker)
    left = state.left.left.get(node)
    return f"{node}/{left.incarnation}" if left is not None else ""
