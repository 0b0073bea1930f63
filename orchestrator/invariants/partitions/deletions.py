"""P28: the records that DeleteRecords deletes, and its answers and refusals."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.coordinator_common.partitions import INTERNAL_TOPICS
from actors.client.admin import DELETE_RECORDS
from actors.features import KAFKA_7408
from actors.node.errors import KafkaError
from actors.node.spec import node_name, partition_name, split_topic_partition
from actors.trace.events import (
    DELETE_UP_TO_HIGH_WATERMARK,
    AdminInvoke,
    AdminReturn,
    CtlFault,
    IsrPropose,
    LogHw,
    LogLocalStart,
    LogStart,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    PartRemove,
    RecordsDelete,
    RepFetch,
    Stamped,
)
from chaos.faults.clock import ClockFault
from chaos.faults.disk import DiskSlowness
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodePause
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, OPEN_REMEMBERED, forget_first, forget_least
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.mirrors.known_brokers import FOLLOWED, KnownBrokers

FETCH = "Fetch"
TELLS_LOG_START = 5
"""Version of Fetch from which on leaders say in their answers where their logs start."""
CHECKPOINT = "log.flush.start.offset.checkpoint.interval.ms"
FIRST_CHECKPOINT = "log.initial.task.delay.ms"
HINDERING = kinds_of(NodePause, ClockFault, DiskSlowness)
"""Faults that keep a node from its timers, or a file from the disk; a busy machine is told as a pause."""


class Ask(msgspec.Struct, frozen=True):
    """An operator asked for it: up to ``offset``, -1 the high watermark."""

    offset: int
    by: Witness


class Start(msgspec.Struct):
    """Where the log of one broker starts. starts, at_us: since when, in this life. reached: the highest in a life
    before. up_us: when this one began. kept: what the next one must know; ``kept_by``: the event since when.
    moved: where a request has just moved it, -1 nowhere; untold: no high watermark of this leader is newer than that.
    due: where it must start since its leader has said so, -1 nowhere. hindered_us: when its clock, or its disk, was
    right again, as far as faults tell; hindered: faults in force that see to the opposite."""

    starts: list[int] = msgspec.field(default_factory=lambda: [0])
    at_us: list[int] = msgspec.field(default_factory=lambda: [0])
    by: list[Witness | None] = msgspec.field(default_factory=lambda: [None])
    reached: int = 0
    up_us: int = 0
    kept: int = 0
    kept_by: Witness | None = None
    moved: int = -1
    untold: bool = False
    due: int = -1
    hindered_us: int = -1
    hindered: set[str] = set()

    @property
    def now(self) -> int:
        """Where it begins."""
        return self.starts[-1]

    def begin(self, start: int, event: Stamped) -> None:
        """It begins there from now on."""
        self.starts.append(start)
        self.at_us.append(event.wall)
        self.by.append(witness(event))
        if len(self.starts) > CHANGES_REMEMBERED:
            del self.starts[1], self.at_us[1], self.by[1]

    def cut(self, end: int) -> None:
        """It ends there, and begins there if it began later."""
        self.due = -1
        self.starts = [min(each, end) for each in self.starts]

    def correct(self, start: int) -> None:
        """It was read, and starts there: not where it was taken to start until its topic was known to be tiered."""
        self.starts = [min(each, start) for each in self.starts]

    def restart(self, event: Stamped) -> None:
        """Another life begins, with what the disk has."""
        self.reached = max(self.reached, *self.starts)
        self.starts, self.at_us, self.by, self.up_us = [0], [event.wall], [None], event.wall
        self.moved, self.untold, self.due = -1, False, -1

    def at(self, incarnation: int, seq: int) -> int:
        """Where it began when its process recorded an event, -1 not known."""
        for start, by in zip(reversed(self.starts), reversed(self.by), strict=True):
            if by is not None and by.incarnation == incarnation and by.seq <= seq:
                return start
        return -1

    def keep(self, before_us: int) -> None:
        """Its process ends: what was so before that is on its disk."""
        self.kept, self.kept_by = 0, None
        for start, at_us, by in zip(self.starts, self.at_us, self.by, strict=True):
            if at_us <= before_us and start >= self.kept:
                self.kept, self.kept_by = start, by


class Role(msgspec.Struct):
    """What a broker does for the partition in this life, and its high watermark."""

    leads: bool
    leader_epoch: int
    high_watermark: int
    by: Witness


class Waiting(msgspec.Struct):
    """A leader waits until the logs of replicas begin at ``offset``: of those who are ``alive``, as far as it knows.
    lives: of all replicas, where the metadata log says what it knows of their brokers. told: who has said in a Fetch
    that its log begins there; due: the step in which the last of them has, "" not yet."""

    node: str
    offset: int
    alive: list[int]
    lives: dict[int, int]
    by: Witness
    told: set[int] = set()
    due: str = ""


class Deletions(State):
    """asks: the newest ones; open: operation -> what was asked. logs, roles: by broker. removed: the topic was, if only
    by a controller that was replaced. recovers: an unclean leader serves nobody until it has told the controller that
    its log is in order; unclean: those that have not, and their leader epochs. waiting: "broker/connection/correlation
    id" -> a request of which the broker waits for others. replicas: ids. tells: whether leaders and followers tell one
    another of log starts; told: leader epoch -> the first high watermark after its leader moved the log start,
    and that. interval_us, first_us: node -> how often it checkpoints log starts, and how long after its start, "" all
    others."""

    asks: list[Ask] = []
    open: dict[str, Ask] = {}
    logs: dict[str, Start] = {}
    roles: dict[str, Role] = {}
    removed: bool = False
    recovers: bool = False
    unclean: dict[str, int] = {}
    waiting: dict[str, Waiting] = {}
    replicas: list[int] = []
    tells: bool = True
    told: dict[int, tuple[int, int]] = {}
    known: KnownBrokers = msgspec.field(default_factory=KnownBrokers)
    interval_us: dict[str, int] = {}
    first_us: dict[str, int] = {}

    def log(self, node: str) -> Start:
        """Of a broker."""
        return self.logs.setdefault(node, Start())

    def forget(self, node: str) -> None:
        """A process ends or begins, or has another role: nobody knows what is due that it waits for, or that waits for
        it; nor whether a controller has told of all that it appended."""
        if node == self.known.controller[1]:
            self.waiting = {}
        for request, each in list(self.waiting.items()):
            if node in (each.node, *map(node_name, each.alive)):
                del self.waiting[request]

    def fenced(self, node: str) -> set[int]:
        """The other replicas whose brokers are not alive, as far as a broker knows by the trace."""
        known = {replica: self.known.known_to(node, replica) for replica in self.replicas if node_name(replica) != node}
        return {replica for replica, life in known.items() if life is None or life.fenced}

    def lives(self, node: str) -> dict[int, int]:
        """Of all replicas: where the metadata log says what a broker knows of their brokers, -1 nowhere."""
        known = {replica: self.known.known_to(node, replica) for replica in self.replicas}
        return {replica: -1 if life is None else life.offset for replica, life in known.items()}


class RecordsAreDeletedAsAsked(KeyedInvariant[Deletions]):
    """An operator deletes records to save space, or because nobody may read them any more. The operator relies on the
    answer: all records below the low watermark are deleted on all replicas, and all records from the requested offset
    on are kept.

    Example: an operator asks broker-1 to delete orders-0 up to 40. Broker-1 answers with a low watermark of 40, while
    the log of broker-2, which is alive, starts at 0; broker-1 dies, broker-2 leads, and the records are back. Or
    broker-1 leads with high watermark 40, and refuses the request with OFFSET_OUT_OF_RANGE. Or broker-2 has said in a
    Fetch that its log starts at 40, and broker-1 goes on waiting for it until the time of the request is over.

    The check takes log starts, roles and high watermarks from the trace of each broker, not from the leader's answer.
    A leader refuses an offset above its high watermark, and a negative one other than -1. Below its log start nothing
    is left to delete, and it does not refuse that. With `kafka-7408` a leader that was elected uncleanly serves nobody
    until it has told the controller that its log is in order.
    """

    id = "P28"
    title = (
        "DeleteRecords deletes the requested records and no others, its low watermark holds for all live replicas, and "
        "no request is refused, or waits, without a reason"
    )
    source = (
        "KIP-107; Kafka's Partition.deleteRecordsOnLeader, Partition.lowWatermarkIfLeader, "
        "LogManager.checkpointLogStartOffsets; DelayedDeleteRecords"
    )
    tested_when = (
        "a leader moves its log start for a request, answers a request, or has heard from all whom one waits for; a "
        "broker with a role refuses a request; a broker restarts whose log start had to be in its checkpoint; or a "
        "follower learns of two newer high watermarks of a leader that moved its log start"
    )
    route = PARTITION
    types = (
        LogStart,
        LogLocalStart,
        LogTrunc,
        LogHw,
        PartAssume,
        PartChange,
        PartRemove,
        IsrPropose,
        RepFetch,
        RecordsDelete,
    )
    exemptions = {
        "restarted": "The replica had that log start before its restart, but not yet in its checkpoint, which is "
        "written every log.flush.start.offset.checkpoint.interval.ms."
    }
    unseen = (
        "a request for offset -1 that deletes less than up to the high watermark: P22 judges that it deletes no more",
        "replicas that were fenced, as far as the leader knew: they learn the log start when they fetch again",
        (
            "REQUEST_TIMED_OUT while the trace does not show that the request need not wait, and the time that an "
            "answer takes otherwise: X2 and L7 judge that there is an answer"
        ),
        "a wait during which a broker is fenced, unfenced or restarted, or a controller ends",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (*FOLLOWED, AdminInvoke, AdminReturn, NodeDown, CtlFault)

    def initial(self, key: str, profile: Profile) -> Deletions:
        def own_us(name: str) -> dict[str, int]:
            default_ms = profile.number(name)
            own = {node: int(profile.setting(name, node, default_ms)) for node in profile.nodes}
            return {node: 1000 * ms for node, ms in {"": default_ms, **own}.items()}

        tells = not profile.is_older(FETCH, TELLS_LOG_START, "", *profile.nodes)
        recovers = profile.feature(KAFKA_7408) not in ("", "off") or KAFKA_7408 in profile.bounced
        intervals_us, firsts_us = own_us(CHECKPOINT), own_us(FIRST_CHECKPOINT)
        return Deletions(key, recovers=recovers, tells=tells, interval_us=intervals_us, first_us=firsts_us)

    # ---- what concerns every partition -------------------------------------------------------------------

    def hear(self, state: Deletions, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is AdminInvoke:
            if body.call == DELETE_RECORDS and partition_name(state.key) in body.arguments.get("offsets", {}):
                ask = state.open[body.op] = Ask(body.arguments["offsets"][partition_name(state.key)], witness(event))
                state.asks = [*state.asks, ask][-CHANGES_REMEMBERED:]
                forget_first(state.open, OPEN_REMEMBERED)
            return NOTHING
        if kind is AdminReturn:
            return self._returned(state, event, body)
        if kind is CtlFault:
            self._hinder(state, event, body)
            return NOTHING
        if state.waiting and (kind is NodeUp or kind is NodeDown):
            state.forget(event.node)
        if kind is NodeDown:
            self._end(state, event, body)
            return NOTHING
        state.known.apply(event)
        if kind is NodeUp:
            state.roles.pop(event.node, None)
            if event.node in state.logs:
                state.log(event.node).restart(event)
        return NOTHING

    @staticmethod
    def _hinder(state: Deletions, event: Stamped, body: CtlFault) -> None:
        for node in body.targets if body.kind in HINDERING else ():
            log = state.log(node)
            log.hindered_us = event.wall
            if body.phase == "start":
                log.hindered.add(body.fault)
            else:
                log.hindered.discard(body.fault)

    @staticmethod
    def _end(state: Deletions, event: Stamped, body: NodeDown) -> None:
        """A process ends: a log start is on its disk once it was due in the checkpoint, or in any case if it ended in
        good order. With a log that has lost records nobody knows."""
        log = state.logs.get(event.node)
        if log is None:
            return
        node = event.node if event.node in state.interval_us else ""
        due_us = event.wall - state.interval_us[node] - SLACK_US
        if state.key in body.lost or (body.mode == "lossy" and not body.lost):
            due_us = -1
        elif body.mode == "clean":
            due_us = event.wall
        elif log.up_us + state.first_us[node] > due_us or log.hindered or log.hindered_us >= log.up_us:
            due_us = -1
        log.keep(due_us)

    def _returned(self, state: Deletions, event: Stamped, body: AdminReturn) -> Emissions:
        ask, begins = state.open.pop(body.op, None), body.low_watermarks.get(partition_name(state.key))
        if ask is None or begins is None:
            return NOTHING
        state.tested += 1
        sentence = f"{event.node} got low watermark {begins:,} of {state.key}"
        if begins < ask.offset:
            return self.violated(
                state.key, f"{sentence}, but its request was to delete up to {ask.offset:,}", ask.by, event
            )
        return NOTHING

    # ---- of this partition -------------------------------------------------------------------------------

    def step(self, state: Deletions, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind in (PartChange, PartRemove, IsrPropose):
            self._governed(state, event, body)
            return NOTHING
        found = self._waits_on(state, event) if state.waiting else NOTHING
        if kind is RepFetch:
            if state.waiting and state.tells:
                self._told(state, event, body)
            return found
        return [*found, *self._judge(state, event, body)]

    def _judge(self, state: Deletions, event: Stamped, body: Any) -> Emissions:
        kind, role = type(body), state.roles.get(event.node)
        if kind is LogHw:
            if role is not None:
                role.high_watermark = body.new
            if not state.asks:
                return NOTHING
        log = state.log(event.node)
        if kind is LogHw:
            return self._committed(state, event, body, log)
        if kind is LogStart:
            if body.reason == "load":
                log.correct(body.new)
            log.moved = body.new if body.reason == DELETE_RECORDS else -1
            log.begin(body.new, event)
            log.untold = log.untold or log.moved >= 0
        elif kind is LogLocalStart:
            log.begin(body.log_start, event)
        elif kind is LogTrunc:
            log.cut(body.to)
            if role is not None:
                role.high_watermark = min(role.high_watermark, body.to)
        elif kind is PartAssume:
            leads = body.role == "leader"
            state.roles[event.node] = Role(leads, body.leader_epoch, body.high_watermark, witness(event))
            state.forget(event.node)
            return self._back(state, event, log)
        elif kind is RecordsDelete:
            return self._deletes(state, event, body, log)
        return NOTHING

    def _deletes(self, state: Deletions, event: Stamped, body: RecordsDelete, log: Start) -> Emissions:
        """A broker begins a deletion, or decides what it answers."""
        request, role = f"{event.node}/{body.connection}/{body.correlation_id}", state.roles.get(event.node)
        if body.phase == "begin":
            lives, fenced = state.lives(event.node), state.fenced(event.node)
            if not fenced.intersection(body.alive) and len(fenced) + len(body.alive) + 1 == len(state.replicas):
                alive = list(body.alive)  # else the trace lacks what the leader knows
                state.waiting[request] = Waiting(event.node, body.offset, alive, lives, witness(event))
                forget_first(state.waiting, OPEN_REMEMBERED)
            return self._begun(state, event, body, log)
        state.waiting.pop(request, None)
        if not body.error:
            return self._answered(state, event, body)
        return self._refused(state, event, body, role) if role is not None else NOTHING

    # ---- who has told ------------------------------------------------------------------------------------

    @staticmethod
    def _told(state: Deletions, event: Stamped, body: RepFetch) -> None:
        """A leader takes note of a fetch, and with it of where the log of the follower began when it was sent. That may
        be the last one that a request waits for; unless another broker was fenced or unfenced meanwhile: what only that
        makes due, nobody looks at."""
        node, _, number = event.cause.partition("/")
        if body.error or body.diverging_epoch >= 0 or node != node_name(body.follower):
            return
        incarnation, seq = map(int, number.split("/"))
        start = state.log(node).at(incarnation, seq)
        for each in state.waiting.values():
            if each.node != event.node or body.follower not in each.alive:
                continue
            (each.told.add if start >= each.offset else each.told.discard)(body.follower)
            ready = len(each.told) == len(each.alive) and state.log(event.node).now >= each.offset
            if ready and not each.due and each.lives == state.lives(event.node):
                each.due = event.req
                state.tested += 1

    def _waits_on(self, state: Deletions, event: Stamped) -> Emissions:
        """A leader begins another step: in an earlier one it was to answer."""
        found: list[Any] = []
        for request, each in list(state.waiting.items()):
            if each.node != event.node or each.due in ("", event.req):
                continue
            del state.waiting[request]
            if each.by.incarnation == event.incarnation:
                sentence = (
                    f"{event.node} waits with the answer to DeleteRecords of {state.key} up to {each.offset:,}, "
                    "although all who are alive have told it that their logs begin there"
                )
                found += self.violated(state.key, sentence, each.by, event)
        return found

    @staticmethod
    def _governed(state: Deletions, event: Stamped, body: PartChange | PartRemove | IsrPropose) -> None:
        """A controller changes or removes the partition, or a leader learns what became of its proposal."""
        if type(body) is PartRemove:
            state.removed = True
        elif type(body) is PartChange:
            state.replicas = body.replicas
            if body.cause == "unclean" and state.recovers:
                state.unclean[node_name(body.leader)] = body.leader_epoch
        elif type(body) is IsrPropose and body.outcome == "accepted":
            if body.leader_epoch >= state.unclean.get(event.node, -1):
                state.unclean.pop(event.node, None)

    def _refused(self, state: Deletions, event: Stamped, body: RecordsDelete, role: Role) -> Emissions:
        """An error must say what keeps the broker from it. That followers did not say in time that they have done it is
        one as well."""
        error = KafkaError(body.error)
        state.tested += 1
        if error is KafkaError.REQUEST_TIMED_OUT:
            return NOTHING
        wrong = "that is no reason"
        if error is KafkaError.OFFSET_OUT_OF_RANGE:
            possible = body.asked == DELETE_UP_TO_HIGH_WATERMARK or 0 <= body.asked <= role.high_watermark
            wrong = f"it leads with high watermark {role.high_watermark:,}" if role.leads and possible else ""
        elif error is KafkaError.NOT_LEADER_OR_FOLLOWER:
            serves = role.leads and role.leader_epoch == body.leader_epoch and event.node not in state.unclean
            wrong = f"it leads in leader epoch {role.leader_epoch}" if serves else ""
        elif error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
            wrong = "" if state.removed else f"it has a replica of it in leader epoch {role.leader_epoch}"
        elif error is KafkaError.INVALID_TOPIC_EXCEPTION:
            topic = split_topic_partition(state.key)[0]
            wrong = "" if topic in INTERNAL_TOPICS else "the topic is not internal"
        if not wrong:
            return NOTHING
        sentence = f"{event.node} refused DeleteRecords of {state.key} up to {body.asked:,} with {error.name}, but"
        return self.violated(state.key, f"{sentence} {wrong}", role.by, event)

    def _committed(self, state: Deletions, event: Stamped, body: LogHw, log: Start) -> Emissions:
        """A high watermark moves. A follower hears of it in the answer that tells it where its leader's log starts: of
        one that is newer than a deletion, in an answer that is newer, too."""
        if body.role == "leader":
            if log.untold:
                log.untold = False
                state.told[body.leader_epoch] = (body.new, log.now)
                forget_least(state.told, CHANGES_REMEMBERED)
            return NOTHING
        due, log.due = log.due, -1
        newer, start = state.told.get(body.leader_epoch, (-1, -1))
        if state.tells and 0 <= newer <= body.new:
            log.due = start
        if due < 0:
            return NOTHING
        state.tested += 1
        if log.now >= due:
            return NOTHING
        sentence = f"{event.node} has log start {log.now:,} of {state.key}, but its leader had answered with log start"
        return self.violated(state.key, f"{sentence} {due:,}", log.by[-1], event)

    def _back(self, state: Deletions, event: Stamped, log: Start) -> Emissions:
        """A broker takes up the partition, perhaps for the first time in this life."""
        kept, log.kept = log.kept, 0
        if not kept:
            return NOTHING
        state.tested += 1
        if log.now >= kept:
            return NOTHING
        sentence = f"after a restart {event.node} has log start {log.now:,} of {state.key}, but its checkpoint had"
        return self.violated(state.key, f"{sentence} {kept:,}", log.kept_by, event)

    def _begun(self, state: Deletions, event: Stamped, body: RecordsDelete, log: Start) -> Emissions:
        state.tested += 1
        moved, log.moved = log.moved, -1
        sentence = f"{event.node} deleted the records of {state.key} up to {body.offset:,}"
        asked = [ask for ask in state.asks if ask.offset == body.asked]
        if not asked:
            return self.violated(state.key, f"{sentence}, but no operator had requested that", event)
        if body.asked not in (DELETE_UP_TO_HIGH_WATERMARK, body.offset):
            return self.violated(
                state.key, f"{sentence}, but the request was up to {body.asked:,}", asked[-1].by, event
            )
        if moved > body.offset or log.now < body.offset:
            return self.violated(state.key, f"{sentence}, but its log starts at {log.now:,}", asked[-1].by, event)
        return NOTHING

    def _answered(self, state: Deletions, event: Stamped, body: RecordsDelete) -> Emissions:
        """No error: the low watermark is as high as was asked, and that of all who are alive."""
        state.tested += 1
        begins = body.low_watermark
        sentence = (
            f"{event.node} answered DeleteRecords of {state.key} up to {body.offset:,} with low watermark {begins:,}"
        )
        if begins < body.offset:
            return self.violated(state.key, sentence, event)
        found: list[Any] = []
        for replica in state.replicas:
            node = node_name(replica)
            log, life = state.log(node), state.known.known_to(event.node, replica)
            if log.now >= begins or (node != event.node and (life is None or life.fenced)):
                continue
            why = f"{sentence}, but the log of {node}, which is alive, starts at {log.now:,}"
            if log.reached >= begins and node != event.node:
                found += self.excused("restarted", state.key, why, log.by[-1], event)
            else:
                found += self.violated(state.key, why, log.by[-1], event)
        return found
