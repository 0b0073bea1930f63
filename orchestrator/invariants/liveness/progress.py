"""That nodes get somewhere: requests end, retries lead to something, and nobody storms."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.errors import TURNED_AWAY, KafkaError, error_name
from actors.node.messages import Api
from actors.node.spec import REMOTE_STORE, node_name
from actors.trace.events import (
    OP_RETURNS,
    BrokerReg,
    CommitInvoke,
    CommitReturn,
    ConsPos,
    CtlFault,
    CtlWindow,
    LogAppend,
    MetaImage,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    QVote,
    Rpc,
    RpcQuiet,
    Stamped,
    TierSegment,
)
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fault_kinds import LINK_FAULTS
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Deadline,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.known_findings import known_as
from orchestrator.invariants.folds.leftovers import Leftovers
from orchestrator.invariants.folds.routes import CALLER, NODE
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.groups.losses import OFFSETS_TOPIC
from orchestrator.invariants.liveness.acks_0 import REMOTE_STORAGE, WithoutAnswer
from orchestrator.invariants.liveness.former_controllers import FormerControllers
from orchestrator.invariants.liveness.lost_decisions import (
    LOST_DECISIONS,
    LOST_DECISIONS_RULE,
    TELL_OF_LOST_DECISIONS,
    LostDecisions,
)
from orchestrator.invariants.liveness.removed_names import REMOVALS, RemovedNames
from orchestrator.invariants.mirrors.late_pushes import LATE_PUSH, LATE_PUSH_RULE, LatePushes
from orchestrator.invariants.mirrors.producer_state import NO_PRODUCER_STATE

SECOND_US = 1_000_000


class Unanswered(msgspec.Struct, frozen=True):
    """A call that a coordinator did not answer, unless the node had sent it something before it that was open still: a
    broker serves one request of a connection at a time. That ends with it, and is told of by ``due_us``."""

    dst: str
    number: int
    due_us: int
    sentence: str
    by: Witness


class Calls(State):
    """since_us, core: of the window, -1 while there is none. frozen: faults that stop the node's clock; thawed_us:
    when the last one ended. left: what slow links and disks still hold up. quorum_us, replicas_us: how long, from the
    window's beginning, the quorum may take until it commits, and replicas until they are in the ISR. hosts: offsets
    partition -> its replicas. ended_us: coordinator -> when the last call to it ended. unanswered: by whom. group: the
    node's own, "" none; asked_us: commit of a member of it -> when it was asked for; commits: coordinator -> the last
    ones that it took and acknowledged, when each was asked for and when its member was told. former: controllers that
    lead no more."""

    since_us: int = -1
    core: set[str] = set()
    frozen: set[str] = set()
    thawed_us: int = 0
    left: Leftovers = msgspec.field(default_factory=Leftovers)
    quorum_us: int = 0
    replicas_us: int = 0
    hosts: dict[str, list[str]] = {}
    ended_us: dict[str, int] = {}
    unanswered: list[Unanswered] = []
    group: str = ""
    asked_us: dict[str, int] = {}
    commits: dict[str, list[tuple[int, int]]] = {}
    former: FormerControllers = msgspec.field(default_factory=FormerControllers)
    acks_0: WithoutAnswer = msgspec.field(default_factory=WithoutAnswer)
    profile: Profile = Profile()


COMMITTED_FIRST = frozenset(
    {
        "BrokerRegistration",
        "BrokerHeartbeat",
        "AlterPartition",
        "AllocateProducerIds",
        "ElectLeaders",
        "IncrementalAlterConfigs",
        "AddRaftVoter",
        "RemoveRaftVoter",
    }
)
"""APIs that a controller answers when the quorum has committed what came of them, or, where nothing did, what the
answer rests on (``QuorumController.java``, ControllerWriteEvent)."""


REPLICATED_FIRST = frozenset(
    {"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "WriteTxnMarkers"}
)
"""APIs of transactions that a broker answers when all of an ISR has what came of them: while a replica that is silent
is still in it, for as long as the time-out of the transaction (``TransactionStateManager.scala``)."""

COORDINATOR = "coordinator"
"""Connection of a member to the coordinator of its group."""

FOR_OTHERS = frozenset({"JoinGroup", "SyncGroup"})
"""APIs that a coordinator answers when other members have asked, too."""

COMMIT_TIMEOUT = "offsets.commit.timeout.ms"

ON_ITS_WAY_US = 250_000
"""How long a request or an answer may be, between nodes in reach of each other, at the most."""

REMEMBERED = 64
"""Commits of a group that are remembered: more than come while a call waits."""


class CallsEnd(KeyedInvariant[Calls]):
    """A call that never ends blocks everything that waits for it: a slot of the connection, a fetcher, an application.

    Example: broker-2 fetches from broker-1, which is stopped; replica.socket.timeout.ms passes, and the fetch is still
    open when broker-1 continues. Or both are healthy and in reach, and broker-1 never answers.

    Some answers take longer. A Produce may wait at the server as long as its client waits. A controller's answer waits
    for the quorum, and an answer about a transaction waits for the ISR. Messages that slow links and disks delayed come
    first. A node that a fault stopped measures its time again. A coordinator answers a member when its earlier writes
    are committed, within offsets.commit.timeout.ms, and before it acknowledges later requests; if all replicas of
    offsets partitions must be in their ISRs, it answers at once. Only then does it read the next request on that
    connection. A ListOffsets may need the remote store, for as long as its client waits. A controller that is active no
    longer tells all who wait for a commit that it is not, at once, be a window open or not.

    A Produce with acks=0 has no answer. A broker that appends nothing of it must end the connection: otherwise the
    producer goes on sending its records to a broker that leads no more, and drops them.
    """

    id = "X2"
    title = "Every call ends by its timeout, and a server within reach answers it"
    source = "KAFKA-17190; KAFKA-6768; NetworkClient.java; GroupCoordinatorService.java, CoordinatorRuntime.java"
    tested_when = "a call ends"
    unseen = (
        "whether a Produce is answered in time: a server may wait as long as its client does, and L5 judges sends",
        "whether a JoinGroup or a SyncGroup is answered in time: it waits for other members, and L11 judges groups",
        "whether a ListOffsets is answered while the remote store is out of reach: R2 judges for how long it may wait",
        (
            "whether a coordinator answers within offsets.commit.timeout.ms, if no event shows that its writes are "
            "committed"
        ),
        "whether it answers the last request of a member before its end: earlier requests may have delayed it",
        "unanswered calls outside of windows, beyond their timeout, except by controllers that are active no longer",
        "the time of a server within the timeout of the call, and answers to disconnected callers",
        (
            "a Produce with acks=0 of which a part was appended, or whose broker has a remote store or "
            "`krift.request.service.us`: the trace does not tell what was appended for it"
        ),
    )
    route = CALLER
    types = (Rpc, NodeDown, LogAppend)
    cases = {LogAppend: ("leader",)}

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlWindow, CtlFault, PartChange, CommitInvoke, CommitReturn, QRole, NodeUp, NodeDown)

    def initial(self, key: str, profile: Profile) -> Calls:
        group = next((name for name, told in profile.groups.items() if key in told.get("members", ())), "")
        quorum_us, replicas_us = beta(profile, "L1"), beta(profile, "L4")
        acks_0 = WithoutAnswer.of(profile, key)
        return Calls(key, quorum_us=quorum_us, replicas_us=replicas_us, group=group, acks_0=acks_0, profile=profile)

    def hear(self, state: Calls, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) in (CtlFault, QRole, NodeUp, NodeDown):
            state.former.take(event)
            if type(body) is not CtlFault:
                return NOTHING
        if type(body) is CtlWindow:
            state.since_us = event.wall if body.phase == "open" else -1
            state.core = set(body.core) if body.phase == "open" else set()
            return NOTHING
        if type(body) is PartChange:
            if body.tp.startswith(OFFSETS_TOPIC):
                state.hosts[body.tp] = [node_name(each) for each in body.replicas]
            return NOTHING
        if type(body) is CommitInvoke or type(body) is CommitReturn:
            if body.group == state.group:
                self._committed(state, event)
            return NOTHING
        state.left.take(body, event.wall)
        if state.key in body.targets and body.kind not in LINK_FAULTS:
            state.thawed_us = event.wall
            if body.phase == "start":
                state.frozen.add(body.fault)
            else:
                state.frozen.discard(body.fault)
        return NOTHING

    def _committed(self, state: Calls, event: Stamped) -> None:
        """What a coordinator acknowledges is committed, and so is all that it had written before."""
        body: Any = event.body
        if type(body) is CommitInvoke:
            state.asked_us[body.op] = event.wall
            if len(state.asked_us) > REMEMBERED:  # of members that died
                del state.asked_us[next(iter(state.asked_us))]
            return
        asked_us = state.asked_us.pop(body.op, -1)
        if asked_us >= 0 and not all(body.errors.get(tp, -1) for tp in body.offsets):
            known = state.commits.setdefault(event.cause.partition("/")[0], [])
            known.append((asked_us, event.wall))
            del known[:-REMEMBERED]

    def step(self, state: Calls, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is NodeDown:
            state.unanswered.clear()
            if not body.overdue or state.frozen or event.wall - state.thawed_us < SLACK_US:
                return NOTHING
            calls = ", ".join(body.overdue)
            return self.violated(
                state.key, f"calls of {event.node} were still open at its end, past their timeout: {calls}", event
            )
        if type(body) is LogAppend:
            state.acks_0.append(event, body)
            return NOTHING
        state.tested += 1
        found: Emissions = NOTHING
        if state.acks_0.ended(state.profile, event, body):
            sentence = (
                f"{body.dst} kept the connection of a Produce of {event.node} with acks=0, and appended nothing of it"
            )
            return self.violated(state.key, sentence, event)
        if body.outcome == "timeout" or body.took_ms > body.timeout_ms:
            found = self._late(state, event, body)
        if body.connection == COORDINATOR:
            before = body.correlation_id
            state.unanswered = [each for each in state.unanswered if each.dst != body.dst or each.number <= before]
            state.ended_us[body.dst] = event.wall
        return found

    def expire(self, state: Calls, at_us: int) -> Emissions:
        over = [each for each in state.unanswered if each.due_us <= at_us]
        state.unanswered = [each for each in state.unanswered if each.due_us > at_us]
        return [finding for each in over for finding in self.violated(state.key, each.sentence, each.by)]

    def _late(self, state: Calls, event: Stamped, body: Rpc) -> Emissions:
        began_us = event.wall - 1000 * body.took_ms
        if state.frozen or began_us <= state.thawed_us:
            return NOTHING
        if 1000 * (body.took_ms - body.timeout_ms) > SLACK_US:
            return self.violated(
                state.key,
                f"the {body.api} of {event.node} to {body.dst} ended after {body.took_ms:,} ms ({body.outcome}); its "
                f"timeout is {body.timeout_ms:,} ms",
                event,
            )
        settled_us = max(state.since_us, state.left.disk_us(body.dst), state.left.between_us(state.key, body.dst))
        if body.api in COMMITTED_FIRST:
            settled_us = max(settled_us, state.left.all_us) + state.quorum_us
        elif body.api in REPLICATED_FIRST:
            settled_us = max(settled_us, state.left.all_us) + state.replicas_us
        elif body.api == Api.ListOffsets.name and state.profile.setting(REMOTE_STORAGE):
            if REMOTE_STORE not in state.core:
                return NOTHING
            read_us = max(state.left.disk_us(REMOTE_STORE), state.left.between_us(body.dst, REMOTE_STORE))
            settled_us = max(settled_us, read_us)
        if state.former.owes(event, body):
            return self.violated(
                state.key,
                f"{body.dst} did not answer the {body.api} of {event.node} for {body.took_ms:,} ms, though it was no "
                "active controller any more, and in reach",
                event,
            )
        in_reach = state.since_us >= 0 and body.dst in state.core and state.key in state.core
        if body.outcome != "timeout" or not in_reach or body.api == "Produce" or body.api in FOR_OTHERS:
            return NOTHING
        of_coordinator = body.connection == COORDINATOR and body.api != Api.ApiVersions.name
        head_us = max(began_us, state.ended_us.get(body.dst, 0)) if of_coordinator else began_us
        waited_us = event.wall - head_us
        if settled_us > began_us or (of_coordinator and waited_us < self._commit_us(state, body.dst, head_us)):
            return NOTHING
        sentence = (
            f"{body.dst} did not answer the {body.api} of {event.node} for {waited_us // 1000:,} ms, while both were "
            "up and in reach"
        )
        if not of_coordinator:
            return self.violated(state.key, sentence, event)
        due_us = event.wall + SECOND_US
        state.unanswered.append(Unanswered(body.dst, body.correlation_id, due_us, sentence, witness(event)))
        return (Deadline(due_us),)

    def _commit_us(self, state: Calls, coordinator: str, since_us: int) -> int:
        """How long a coordinator may take to answer a request that is first in its connection since then. It answers
        in the order in which it writes: when it has acknowledged what it was asked for later, at the latest."""
        timeout_ms = state.profile.number(COMMIT_TIMEOUT, coordinator)
        allowed_us = 1000 * timeout_ms + SECOND_US
        later = [told for asked, told in state.commits.get(coordinator, ()) if asked >= since_us + ON_ITS_WAY_US]
        if later:
            allowed_us = min(allowed_us, min(later) + ON_ITS_WAY_US - since_us)
        hosts = {host for replicas in state.hosts.values() for host in replicas}
        steady_us = max(state.since_us, state.left.all_us) + state.replicas_us
        if hosts and hosts <= state.core and steady_us <= since_us:
            allowed_us = min(allowed_us, SECOND_US)  # the least that any call is given
        return allowed_us


ROUTINE = frozenset({"Metadata", "ApiVersions", "FindCoordinator"})
"""APIs whose success by itself leads nowhere."""

USEFUL = (LogAppend, *OP_RETURNS, PartAssume, PartChange, BrokerReg, QRole, QVote, MetaImage, ConsPos, TierSegment)
"""Events that show that a node got somewhere (an operation only when it succeeds)."""


def is_useful(body: Any) -> bool:
    """Whether one of ``USEFUL`` is."""
    return type(body) not in OP_RETURNS or body.outcome == "ok"


NO_SUCH_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PARTITION, KafkaError.UNKNOWN_TOPIC_ID})
"""What is said of a topic that was removed."""
UNREAD = frozenset({KafkaError.UNKNOWN_SERVER_ERROR, KafkaError.REQUEST_TIMED_OUT})
"""What is said of a look-up that the remote store does not answer."""

OF_THE_CLUSTER = tuple(dict.fromkeys((*REMOVALS, *TELL_OF_LOST_DECISIONS)))
"""What may explain why some requests lead nowhere."""


class Retries(WindowState):
    """count: requests in a row that led nowhere; last: the newest of them, which ended at last_us, and
    out_of_order: it was a Produce whose batches were refused as out of order. silent: who was asked and is not in the
    core. stored: whether brokers need a remote store for some answers; unread: it was away when such a request failed.
    removed: topics that are gone; missed_one: some of the requests was told so. pushes: of UpdateMetadata. lost: by the
    transaction log; concurrent: the last request was refused because of another transaction. unwelcome: a member that a
    coordinator may turn away for good; turned_away: the last request was told so."""

    count: int = 0
    pushes: LatePushes = msgspec.field(default_factory=LatePushes)
    silent: set[str] = set()
    removed: RemovedNames = msgspec.field(default_factory=RemovedNames)
    missed_one: bool = False
    last: Witness | None = None
    last_us: int = -1
    told: str = ""
    out_of_order: bool = False
    stored: bool = False
    unread: bool = False
    lost: LostDecisions = msgspec.field(default_factory=LostDecisions)
    concurrent: bool = False
    unwelcome: bool = False
    turned_away: bool = False


class RetriesGetSomewhere(WindowInvariant[Retries]):
    """A node that repeats a hopeless request is busy and useless, and no timeout ends it, since every request is
    answered.

    Example: list-offsets-1 asks broker-1 again and again, gets NOT_LEADER_OR_FOLLOWER each time, and does not look for
    the new leader. Useful is an event that changes something: an appended record, a successful operation, a new role;
    or an answer without an error, unless it only names a broker to ask (Metadata, FindCoordinator).
    """

    id = "L13"
    title = "Retries succeed in the end: no node gets only failures for long"
    source = "KAFKA-17190"
    tested_when = "a useful event follows a failed request, in a window"
    route = NODE
    types = (Rpc, *USEFUL)
    exemptions = {
        LATE_PUSH_RULE: LATE_PUSH,
        "no-producer-state": NO_PRODUCER_STATE,
        LOST_DECISIONS: LOST_DECISIONS_RULE,
        "silent-nodes": "It asked several nodes outside the core, and waits for each; the bound is for one.",
        "remote-store-away": "Its requests looked offsets up. A broker may need the remote store for that, which was "
        "not in the core.",
        "turned-away": "Its group had no place for it: it has group.max.size members, or another one with the same "
        "group.instance.id. Its application closed the consumer, and opened a new one.",
        "removed-topic": "The answer was that there is no such topic or partition, and an operator had indeed removed "
        "it: until it is created again there is no record to get, and then the bound restarts.",
    }

    LEAST = 10
    """Fewer requests than that are no livelock."""
    unseen = (
        "whether a leader's repeated refusals of a batch as out of order are right: X1 judges each of them",
        "livelocks of fewer than ten requests, and of a node with an occasional useful event",
        "a node that stops asking in the first half of the bound: L5 to L7 and L11 judge what it then does not get",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, *OF_THE_CLUSTER)

    def initial(self, key: str, profile: Profile) -> Retries:
        stored = bool(profile.setting(REMOTE_STORAGE))
        pushes, unwelcome = LatePushes.of(profile), key in profile.unwelcome
        return Retries(key, beta_us=beta(profile, self.id), pushes=pushes, stored=stored, unwelcome=unwelcome)

    def hear(self, state: Retries, event: Stamped) -> Emissions:
        body = event.body
        if isinstance(body, TELL_OF_LOST_DECISIONS):
            state.lost.take(event)
        if isinstance(body, REMOVALS) and state.removed.take(event) and state.missed_one:
            self.void(state, "useful")
        if type(body) is CtlFault:
            state.pushes.take(body)
        return NOTHING if isinstance(body, OF_THE_CLUSTER) else super().hear(state, event)

    def look(self, state: Retries, event: Stamped) -> None:
        if state.key not in state.core:
            self.void(state, "useful")

    def step(self, state: Retries, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is not Rpc:
            if state.due and is_useful(body):
                self.kept(state, "useful")
            return NOTHING
        if body.outcome == "answered" and not body.errors:
            if body.api not in ROUTINE:
                if state.due:
                    self.kept(state, "useful")
                return NOTHING
            if not state.due:
                return NOTHING
        if state.key not in state.core:
            return NOTHING
        if not state.due:
            state.count, state.missed_one, state.unread = 0, False, False
            state.silent.clear()
            self.oblige(state, "useful", event)
        state.count += 1
        if body.dst not in state.core:
            state.silent.add(body.dst)
        if state.removed.gone and not NO_SUCH_TOPIC.isdisjoint(body.errors):
            state.missed_one = True
        if state.stored and REMOTE_STORE not in state.core and body.api == Api.ListOffsets.name:
            state.unread |= body.outcome == "timeout" or not UNREAD.isdisjoint(body.errors)
        errors = "".join(f", {error_name(error)}" for error in body.errors)
        state.last, state.last_us = witness(event), event.wall
        state.out_of_order = body.api == "Produce" and list(body.errors) == [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER]
        state.concurrent = KafkaError.CONCURRENT_TRANSACTIONS in body.errors
        state.turned_away = not TURNED_AWAY.isdisjoint(body.errors)
        state.told = f"{body.api} to {body.dst} ({body.outcome}{errors})"
        return NOTHING if state.armed_us >= 0 else self.arm(state)

    def missed(self, state: Retries, name: str, obligation: Obligation) -> Emissions:
        if state.count < self.LEAST:
            return NOTHING
        since_us = max(obligation.since_us, state.since_us)
        if state.last_us < since_us + state.beta_us // 2:
            return NOTHING  # it has given up: what it does not do at all, others judge
        sentence = (
            f"{state.key} sent {state.count:,} requests without progress {self.within(state)}; "
            f"the last was {state.told}"
        )
        if state.pushes.possible and not state.key.startswith(("broker-", "controller-")):
            return self.excused(LATE_PUSH_RULE, state.key, sentence, obligation.by, state.last)
        if state.out_of_order:
            return self.excused("no-producer-state", state.key, sentence, obligation.by, state.last)
        if state.concurrent and state.lost.any:
            return self.excused(LOST_DECISIONS, state.key, sentence, obligation.by, state.last)
        if len(state.silent) > 1:
            return self.excused("silent-nodes", state.key, sentence, obligation.by, state.last)
        if state.unread:
            return self.excused("remote-store-away", state.key, sentence, obligation.by, state.last)
        if state.unwelcome and state.turned_away:
            return self.excused("turned-away", state.key, sentence, obligation.by, state.last)
        if state.missed_one:
            return self.excused("removed-topic", state.key, sentence, obligation.by, state.last)
        return self.violated(state.key, sentence, obligation.by, state.last)


class Bucket(msgspec.Struct):
    """One second of a node. requests: that ended in it; beyond: of them, Fetches beyond a high watermark; useful:
    events of ``USEFUL``; first: of the requests."""

    second: int = -1
    requests: int = 0
    beyond: int = 0
    useful: int = 0
    first: Stamped | None = None


class Load(State):
    """since_us, core: of the window. known: the finding about Fetches beyond a high watermark, if it is one here."""

    since_us: int = -1
    core: set[str] = set()
    known: str = ""
    bucket: Bucket = msgspec.field(default_factory=Bucket)


class NoStorms(KeyedInvariant[Load]):
    """Retries without a pause turn the failure of one node into load on all others, and the load into more failures.

    Example: broker-1 is crashed, and producer-1 reconnects as fast as it is refused: 1,200 requests in a second without
    any result.
    """

    id = "X10"
    title = "No storms: requests are in proportion to their results"
    source = "KAFKA-17190; KIP-144 (reconnect.backoff.max.ms); KIP-580"
    tested_when = "a node in the core of a window sends requests in a whole second of it"
    route = NODE
    types = (Rpc, RpcQuiet, *USEFUL)

    FREE = 100
    """Requests a second that need no reason."""
    FACTOR = 4
    """Requests for each useful event beyond those."""
    unseen = (
        "storms outside stability windows, and of requests that took longer than a second",
        "storms below 100 requests a second, or below 50 empty Fetches a second more",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlWindow,)

    def initial(self, key: str, profile: Profile) -> Load:
        return Load(key, known=known_as(profile, "finding-spinning-consumer"))

    def hear(self, state: Load, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is CtlWindow
        found = self._close(state, event.wall)
        is_open = body.phase == "open" and state.key in body.core
        state.since_us = event.wall if is_open else -1
        state.bucket = Bucket(event.wall // SECOND_US)
        return found

    def step(self, state: Load, event: Stamped) -> Emissions:
        if state.since_us < 0:
            return NOTHING
        body = event.body
        second = event.wall // SECOND_US
        found: Emissions = NOTHING
        if second != state.bucket.second:
            found = self._close(state, event.wall)
            state.bucket = Bucket(second)
        bucket = state.bucket
        if type(body) is RpcQuiet and body.beyond:
            bucket.beyond += body.count
        elif type(body) is RpcQuiet:
            bucket.requests += body.count
            if bucket.first is None:
                bucket.first = event
        elif type(body) is Rpc:
            if body.took_ms > 1000:
                return found  # Sent long ago: many that end together, as a broker hung, are no storm.
            bucket.requests += 1
            if bucket.first is None:
                bucket.first = event
        elif is_useful(body):
            bucket.useful += 1
        return found

    def _close(self, state: Load, now_us: int) -> Emissions:
        """Judge the second that is over, if all of it was in the window."""
        bucket = state.bucket
        start_us = bucket.second * SECOND_US
        if not bucket.requests or not 0 <= state.since_us <= start_us or now_us < start_us + SECOND_US:
            return NOTHING
        state.tested += 1
        due = self.FREE + self.FACTOR * bucket.useful
        if bucket.requests <= due:
            return NOTHING
        return self.violated(
            state.key,
            f"{state.key} sent {bucket.requests:,} requests in one second, and they led to {bucket.useful:,} useful "
            "events",
            bucket.first,
            known=state.known if bucket.requests - bucket.beyond <= due else "",
        )

    def finish(self, state: Load, horizon_us: int) -> Emissions:
        return self._close(state, horizon_us)
