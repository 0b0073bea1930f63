"""What must hold for the other verdicts to mean anything: no bug, a whole trace, versions honoured."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.errors import KafkaError, error_name
from actors.trace.events import DRIVER, EVENT_TYPES, CtlFault, NodeDown, NodeUp, Rpc, RpcReply, RunEnd, Stamped
from chaos.faults.disk import DiskWipe
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Emissions,
    Finding,
    KeyedInvariant,
    Profile,
    State,
)
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED
from orchestrator.invariants.folds.routes import NODE, TRACE
from orchestrator.invariants.mirrors.voter_sets import by_directory


class Wiped(State):
    """whom: controllers whose disks were wiped so far. by_directory: the one that comes back is another voter, which
    excuses nothing of the others."""

    whom: list[str] = []
    by_directory: bool = False


class NoBug(KeyedInvariant[Wiped]):
    """A node that raises an exception found itself in a state that it considered impossible. Whatever else the run
    shows, look at that first. The same holds for a node that its fault handler ends, as Kafka's does when it learns of
    two leaders of one quorum epoch, or would have to truncate committed records.

    Example: broker-2 ends with mode bug: "orders-0: batch at 41, log ends at 44".
    """

    id = "X3"
    standalone = True
    title = "No node ends in an internal error"
    source = "a rule of the emulator: no node believes its own state impossible"
    tested_when = "an incarnation of a node begins"
    route = NODE
    types = (NodeUp, NodeDown)
    exemptions = {
        "wiped": "A voter's disk was wiped before: its votes are lost, and the quorum may lose committed entries. "
        "Nodes that notice this stop. With directories it is another voter, and this rule excuses only that "
        "node."
    }
    unseen = ("A wrong state that no assertion of the node checks.",)

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlFault,)

    def initial(self, key: str, profile: Profile) -> Wiped:
        return Wiped(key, by_directory=by_directory(profile))

    def hear(self, state: Wiped, event: Stamped) -> Emissions:
        body: Any = event.body
        if body.kind == DiskWipe.kind and body.phase == "start":
            state.whom += [name for name in body.targets if name.startswith("controller-")]
        return NOTHING

    def step(self, state: Wiped, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is NodeUp:
            state.tested += 1
        elif type(body) is NodeDown and body.mode == "bug":
            return self.violated(state.key, f"{event.node} raised an exception: {body.detail}", event)
        elif type(body) is NodeDown and body.mode == "fatal":
            sentence = f"{event.node} stopped itself: {body.detail}"
            # A leader is named by its id alone: one that comes back with another directory may be told that it leads.
            wiped = next((name for name in state.whom if name == event.node or not state.by_directory), "")
            if wiped:
                return self.excused("wiped", state.key, f"{sentence}, after {wiped} was wiped", event)
            return self.violated(state.key, sentence, event)
        return NOTHING


_EVERYWHERE = (
    "node.up",
    "node.down",
    "node.stall",
    "disk.rule",
    "tick",
    "rpc",
    "rpc.quiet",
    "link.rule",
    "link.hit",
    "clock.set",
)
_CLIENT = (
    *(*_EVERYWHERE, "meta.view", "cons.pos", "client.error"),
    *("send.invoke", "poll.invoke", "list.invoke", "admin.invoke"),
    *("send.return", "poll.return", "list.return", "admin.return"),
)
_CONSUMER = (
    *(*_CLIENT, "cons.own", "cons.stall", "cons.close", "meta.wait", "fetch.misfit"),
    *("commit.invoke", "commit.return", "committed.invoke", "committed.return"),
)
_TRANSACTIONAL = (
    *(*_CLIENT, "init.invoke", "init.return", "begin.invoke", "begin.return", "end.invoke", "end.return"),
)
_QUORUM = (
    *(*_EVERYWHERE, "q.persist", "q.vote", "q.role", "q.voters", "q.snap", "q.freeze", "q.apply", "q.clean"),
    *("log.append", "log.flush", "log.trunc", "log.start", "log.hw"),
)
_DRIVER = ("run.meta", "run.end", "ctl.fault", "ctl.window", "ctl.phase", "link.rule", "link.hit")
RECORDED_BY: dict[str, tuple[str, ...]] = {
    "controller": (
        *_QUORUM,
        "rep.fetch",
        "q.snap.fetch",
        "q.waited",
        "q.refuse",
        "q.end",
        "q.heard",
        "part.change",
        "part.remove",
        "config.change",
        "broker.reg",
        "meta.mint",
        "meta.state",
    ),
    "broker": (
        *(
            *_QUORUM,
            "rpc.reply",
            "rpc.park",
            "req.handled",
            "tier.task",
            "part.assume",
            "part.stop",
            "isr.propose",
            "isr.late",
        ),
        *("meta.image", "meta.state", "tier.seg", "log.roll", "log.drop", "log.local-start", "rep.fetch"),
        *("rep.truncate", "fetch.told", "fetch.refused", "fetch.remote", "fetch.misfit", "epoch.told"),
        "records.delete",
        *("grp.gen", "grp.out", "grp.commit", "grp.load", "grp.fetch"),
        *("txn.state", "txn.taken-back", "txn.load", "txn.markers", "txn.guard", "txn.verify", "txn.added"),
        "coord.refuse",
    ),
    "remote-store": (*_EVERYWHERE, "store.rule", "store.object"),
    "producer": _CLIENT,
    "consumer": _CONSUMER,
    "group-consumer": _CONSUMER,
    "mirror": _CONSUMER,
    "transactional-producer": _TRANSACTIONAL,
    "processor": (*_CONSUMER, *_TRANSACTIONAL, "offsets.invoke", "offsets.return"),
    "list-offsets": _CLIENT,
    "admin": _CLIENT,
    "driver": _DRIVER,
}
"""Role of a node -> types of the events that it may record: what a gap in its trace can hide."""


def _recorded_by(role: str) -> tuple[str, ...]:
    return RECORDED_BY.get(role, tuple(EVENT_TYPES))


def unseen(node: str, role: str, sentence: str, rule: str = "not-seen") -> Finding:
    """Nobody can say whether a node's trace is all there: in doubt is whatever is judged by events of such a node."""
    return Finding(TraceIsWhole.id, node, "inconclusive", sentence, [], rule=rule, clouds=list(_recorded_by(role)))


NO_END = "no-end"
"""Rule of what a trace leaves open that does not come to its end."""
KILLED = -1
"""In ``RunEnd``: nobody can say what the last event was."""

_LIFE = (NodeUp, NodeDown, RunEnd)


class Incarnation(msgspec.Struct):
    """How far the trace of one incarnation has come."""

    last_seq: int = -1
    wall: int = -1
    logical: int = -1
    ended: bool = False
    final_seq: int | None = None


class NodeTrace(State):
    """Of one node: its incarnations, its role as far as it said so, how ids of its events begin, and the cause that was
    looked at last (the events of one step share theirs). whole: incarnations up to it have ended, with nothing missing,
    and are not remembered one by one."""

    role: str = ""
    prefix: str = ""
    last_cause: str = ""
    whole: int = -1
    incarnations: dict[int, Incarnation] = {}

    def forget(self) -> None:
        """Of what is over and was whole nothing more need be known: who acts on it late cannot be judged."""
        for number in sorted(self.incarnations)[:-CHANGES_REMEMBERED]:
            if number != self.whole + 1 or not self.incarnations[number].ended:
                break
            self.whole = number
            del self.incarnations[number]


class TraceIsWhole(KeyedInvariant[NodeTrace]):
    """Every other verdict relies on the trace. If events are missing, or precede their causes, the judgements that need
    them are inconclusive.

    Example: the trace of broker-1 goes from its event 98 to its event 100; or broker-2 acts on a message that broker-1
    sent after an event that does not occur earlier in the trace.
    """

    id = "X4"
    standalone = True
    title = "The trace is whole: no event of a node is missing, clocks rise, and causes precede effects"
    source = "a rule of the emulator: verdicts are drawn from the trace"
    tested_when = "an event is recorded"
    unseen = (
        "the last events of a killed process: only its written log is known",
        "the content of an event: only its presence and order are checked",
        f"who acts on a message of a process that has had {CHANGES_REMEMBERED} successors",
    )
    route = TRACE
    types = tuple(EVENT_TYPES.values())

    def initial(self, key: str, profile: Profile) -> NodeTrace:
        return NodeTrace(key, role=DRIVER if key == DRIVER else "", prefix=f"{key}/")

    def step(self, state: NodeTrace, event: Stamped) -> Emissions:
        cause = event.cause
        found: Emissions = NOTHING
        if cause != state.last_cause:
            state.last_cause = cause
            if cause.startswith(state.prefix):
                found = self._caused(state, event, cause)
        if event.node == state.key:
            own = state.incarnations.get(event.incarnation)
            if own is None:
                own = state.incarnations[event.incarnation] = Incarnation()
                state.forget()
            state.tested += 1
            rose = event.wall > own.wall or (event.wall == own.wall and event.logical > own.logical)
            if event.seq != own.last_seq + 1 or not rose or own.ended:
                found = [*found, *self._misplaced(state, own, event)]
            own.last_seq, own.wall, own.logical = event.seq, event.wall, event.logical
        kind = type(event.body)
        if kind in _LIFE:
            self._life(state, event)
        return found

    def _caused(self, state: NodeTrace, event: Stamped, cause: str) -> Emissions:
        """A node acts on a message: the event after which this node sent it must have come."""
        _, number, seq = cause.rsplit("/", 2)
        before = state.incarnations.get(int(number))
        if int(number) <= state.whole:
            return NOTHING
        if before is not None and before.last_seq >= int(seq):
            return NOTHING
        return self._cloud(state, f"{event.node} acted on {cause}, which does not come before in the trace", event)

    def _life(self, state: NodeTrace, event: Stamped) -> None:
        body = event.body
        if type(body) is RunEnd:
            self._final(state, body)
        elif event.node == state.key:
            if type(body) is NodeUp:
                state.role = body.role
            else:
                state.incarnations[event.incarnation].ended = True

    def _final(self, state: NodeTrace, body: RunEnd) -> None:
        for name, final_seq in body.final_seq.items():
            node, _, incarnation = name.rpartition("/")
            if node == state.key and int(incarnation) > state.whole:
                state.incarnations.setdefault(int(incarnation), Incarnation()).final_seq = final_seq
        if state.key == DRIVER:
            for own in state.incarnations.values():
                own.ended = True

    def _misplaced(self, state: NodeTrace, own: Incarnation, event: Stamped) -> Emissions:
        if event.seq > own.last_seq + 1:
            missing = f"{own.last_seq + 1}" if event.seq == own.last_seq + 2 else f"{own.last_seq + 1}-{event.seq - 1}"
            sentence = f"the trace of {state.key}/{event.incarnation} lacks its event {missing}"
        elif event.seq <= own.last_seq:
            sentence = f"the clock of {state.key} went back between its events {own.last_seq} and {event.seq}"
        elif own.ended:
            sentence = f"{state.key}/{event.incarnation} recorded an event after its end"
        else:
            sentence = f"the clock of {state.key} stood still at its event {event.seq}"
        # What the driver says first, run.meta, every fold is made with.
        everything = state.key == DRIVER and own.last_seq < 0
        return self._cloud(state, sentence, event, tuple(EVENT_TYPES) if everything else None)

    def _cloud(
        self, state: NodeTrace, sentence: str, event: Stamped | None, clouds: tuple[str, ...] | None = None
    ) -> Emissions:
        """A violation that casts doubt on everything judged by events that this node may have recorded."""
        clouds = _recorded_by(state.role) if clouds is None else clouds
        events = [] if event is None else [event.id]
        causes = [] if event is None or not event.cause else [event.cause]
        return (Finding(self.id, state.key, "violated", sentence, events, causes, clouds=list(clouds)),)

    def finish(self, state: NodeTrace, horizon_us: int) -> Emissions:
        found: list[Any] = []
        for number, own in sorted(state.incarnations.items()):
            name = f"{state.key}/{number}"
            if own.final_seq is not None and own.final_seq > own.last_seq:
                sentence = f"the trace of {name} ends with its event {own.last_seq}, though it wrote {own.final_seq}"
                found.extend(self._cloud(state, sentence, None))
            elif own.ended:
                continue
            elif own.final_seq == KILLED and own.last_seq < 0:
                found.append(unseen(state.key, state.role, f"{name} was killed, and nothing that it wrote is there"))
            elif own.final_seq == KILLED:
                # Collection ends the trace of whoever could not do so itself.
                found.extend(self._cloud(state, f"the trace of {name} ends with its event {own.last_seq}, alive", None))
            elif own.final_seq is None:
                sentence = f"nothing says with which event the trace of {name} ends"
                if state.key == DRIVER:
                    found.append(unseen(DRIVER, state.role, sentence, NO_END))
                else:
                    found.extend(self.inconclusive(NO_END, state.key, sentence))
        return found


E = KafkaError
ERRORS_SINCE: dict[tuple[str, int], int] = {
    ("Produce", E.UNKNOWN_TOPIC_ID): 13,
    ("Produce", E.INCONSISTENT_TOPIC_ID): 13,
    ("Fetch", E.KAFKA_STORAGE_ERROR): 6,
    ("Fetch", E.FETCH_SESSION_ID_NOT_FOUND): 7,
    ("Fetch", E.INVALID_FETCH_SESSION_EPOCH): 7,
    ("Fetch", E.FENCED_LEADER_EPOCH): 9,
    ("Fetch", E.UNKNOWN_LEADER_EPOCH): 9,
    ("Fetch", E.INCONSISTENT_CLUSTER_ID): 12,
    ("Fetch", E.UNKNOWN_TOPIC_ID): 13,
    ("Fetch", E.INCONSISTENT_TOPIC_ID): 13,
    # Told to whoever goes on in a session of topic ids without them, which is a request of an older version.
    ("Fetch", E.FETCH_SESSION_TOPIC_ID_ERROR): 7,
    ("ListOffsets", E.FENCED_LEADER_EPOCH): 4,
    ("ListOffsets", E.UNKNOWN_LEADER_EPOCH): 4,
    ("ListOffsets", E.OFFSET_NOT_AVAILABLE): 5,
    ("Metadata", E.LISTENER_NOT_FOUND): 6,
    ("Metadata", E.UNKNOWN_TOPIC_ID): 10,
    ("Metadata", E.INCONSISTENT_TOPIC_ID): 12,
    ("Metadata", E.REBOOTSTRAP_REQUIRED): 13,
    ("InitProducerId", E.UNKNOWN_PRODUCER_ID): 3,
    ("AlterPartition", E.INELIGIBLE_REPLICA): 2,
    ("AlterPartition", E.NEW_LEADER_ELECTED): 2,
    ("AlterPartition", E.UNKNOWN_TOPIC_ID): 2,
    ("Vote", E.INVALID_VOTER_KEY): 1,
    ("BeginQuorumEpoch", E.INVALID_VOTER_KEY): 1,
}
"""(API, error) -> first version whose clients know the error; an error that is not listed is as old as the API."""

_NEWEST: dict[str, int] = {}
for (_api, _error), _since in ERRORS_SINCE.items():
    _NEWEST[_api] = max(_NEWEST.get(_api, 0), _since)


class VersionsAreHonoured(KeyedInvariant[State]):
    """A client that gets an error that its version does not have cannot tell whether to retry: most give up.

    Example: broker-2 answers a ListOffsets of version 4 with OFFSET_NOT_AVAILABLE, which came with version 5; the
    client reports an unknown error to its application. (Fields that a version lacks never leave the sender, which
    checks them; a violation shows as X3.)
    """

    id = "X7"
    standalone = True
    title = "No answer has an error that is newer than the version of its request"
    source = "KIP-35; Kafka's message definitions"
    unseen = (
        "Fields that a version lacks: their sender raises an exception, which violates X3.",
        "The version of an answer: nodes decode it by the version of their request.",
    )
    tested_when = (
        "the server or the caller records an answer with an error, in a version that lacks an error of its API"
    )
    route = NODE
    types = (Rpc, RpcReply)

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def step(self, state: State, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is Rpc:
            if body.outcome != "answered" or not body.errors:
                return NOTHING
            return self._judge(state, event, body.api, body.version, body.dst, body.errors)
        assert type(body) is RpcReply
        errors = [told.error for told in body.partitions if told.error]
        return self._judge(state, event, body.api, body.version, event.node, errors) if errors else NOTHING

    def _judge(self, state: State, event: Stamped, api: str, version: int, server: str, errors: list[int]) -> Emissions:
        """An exchange tests the promise if it failed at a version that lacks one of the API's errors."""
        if version >= _NEWEST.get(api, 0):
            return NOTHING
        state.tested += 1
        for error in errors:
            since = ERRORS_SINCE.get((api, error), 0)
            if version < since:
                return self.violated(
                    state.key,
                    f"{server} answered {api} of version {version} with {error_name(error)}, "
                    f"which clients know from version {since} on",
                    event,
                )
        return NOTHING
