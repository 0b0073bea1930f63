"""What the cluster gets back to in the end: a quorum leader, registered brokers, leaders and whole ISRs."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import REMOTE_STORE, node_name
from actors.trace.events import (
    BrokerReg,
    LogAppend,
    LogHw,
    LogStart,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    QVoters,
    RepFetch,
    SendReturn,
    Stamped,
)
from actors.trace.metadata_history import Elections, History
from orchestrator.invariants.folds.fold import NOTHING, UNCLEAN_ENABLE, Deadline, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.known_findings import known_as
from orchestrator.invariants.folds.routes import BROKER, PARTITION, QUORUM
from orchestrator.invariants.folds.windows import (
    Obligation,
    PartitionInvariant,
    PartitionState,
    WindowInvariant,
    WindowState,
    beta,
)
from orchestrator.invariants.liveness.copying import Copying, CopyingInvariant
from orchestrator.invariants.liveness.telling import Telling
from orchestrator.invariants.mirrors.voter_sets import VoterSets, is_majority

CONTROLLER = "controller-"
NO_MEMBER = (
    "No member of the ISR is in the core of the window: the data is unavailable, and no clean election is possible."
)
NO_CANDIDATE = (
    "No possible leader is in the core of the window: no member of the ISR; or, if that is empty, no eligible leader "
    "replica; or, without these, not the last known leader."
)
TOO_FEW = "Fewer replicas of the ISR than min.insync.replicas are in the core of the window."


class VoterRole(msgspec.Struct, frozen=True):
    """What a voter last said of itself. ``leader``: node id of the leader it acknowledges, -1 none."""

    epoch: int
    role: str
    leader: int
    by: Witness


class Quorum(WindowState):
    """voters: by whose log. roles: of the controllers that are up. known: the finding about removed voters, if it is
    one here."""

    voters: VoterSets = msgspec.field(default_factory=VoterSets)
    roles: dict[str, VoterRole] = {}
    known: str = ""


class LeaderIsElected(WindowInvariant[Quorum]):
    """Without a leader that most voters acknowledge no metadata can change: no election, no ISR change, no return of a
    broker.

    Example: controller-1, the leader, is crashed; controller-2 and controller-3 stay followers of its epoch for good.
    The obligation begins when the leader is lost, or with the window, and ends when more than half of all voters, all
    of them in the core, name one leader of one epoch.
    """

    id = "L1"
    title = "The quorum finds a leader that most voters acknowledge"
    source = "KIP-595; Raft 5.2"
    tested_when = "a leader is acknowledged by most voters in a window, after there was none"
    unseen = (
        (
            "The speed of an election within the bound: an ignored EndQuorumEpoch, or a BeginQuorumEpoch that is "
            "never repeated, only costs time."
        ),
        "an acknowledged leader that changes nothing: L3, L4, L12 and Q19 find the consequences",
    )
    route = QUORUM
    types = (QRole, QVoters, NodeUp, NodeDown)

    def initial(self, key: str, profile: Profile) -> Quorum:
        known = known_as(profile, "finding-removed-leader-deadlock")
        return Quorum(key, beta_us=beta(profile, self.id), voters=VoterSets.starting_with(profile.voters), known=known)

    def look(self, state: Quorum, event: Stamped) -> None:
        self._judge(state, event)

    def step(self, state: Quorum, event: Stamped) -> Emissions:
        if not event.node.startswith(CONTROLLER):
            return NOTHING
        body = event.body
        if type(body) is QVoters:
            state.voters.take(event, body)
        elif type(body) is QRole:
            state.roles[event.node] = VoterRole(body.epoch, body.role, body.leader_id, witness(event))
        else:
            state.roles.pop(event.node, None)
        self._judge(state, event)
        return self.arm(state)

    def _judge(self, state: Quorum, event: Stamped) -> None:
        if state.since_us < 0:
            return
        if self._acknowledged(state):
            self.kept(state, "leader")
        else:
            self.oblige(state, "leader", event)

    def _acknowledged(self, state: Quorum) -> bool:
        there = {name: known for name, known in state.roles.items() if name in state.core}
        for name, leader in there.items():
            if leader.role == "leader":
                voters = state.voters.of(name)
                agreed = [
                    voter
                    for voter, each in there.items()
                    if voter in voters and (each.epoch, each.leader) == (leader.epoch, leader.leader)
                ]
                if is_majority(len(agreed), voters):
                    return True
        return False

    def missed(self, state: Quorum, name: str, obligation: Obligation) -> Emissions:
        there = {name: known for name, known in sorted(state.roles.items()) if name in state.core}
        told = ", ".join(f"{name} is {known.role} in epoch {known.epoch}" for name, known in there.items())
        return self.violated(
            state.key,
            f"no quorum leader was acknowledged by most of the {len(state.voters.newest)} voters {self.within(state)}: "
            f"{told or 'none of them recorded its role'}",
            obligation.by,
            *(known.by for known in list(there.values())[:2]),
            known=state.known if self._waits_for_removed(state) else "",
        )

    def _waits_for_removed(self, state: Quorum) -> bool:
        """Whether a voter that is up cannot do without one that is up, too, and is no voter by its own log."""
        there = [name for name in state.roles if name in state.core]
        out = {name for name in there if name not in state.voters.of(name)}
        sets = (state.voters.of(name) for name in there if name not in out)
        return any(
            out.intersection(voters)
            and is_majority(len(voters.keys() & {*there}), voters)
            and not is_majority(len(voters.keys() & {*there} - out), voters)
            for voters in sets
        )


class Registered(msgspec.Struct, frozen=True):
    """A record of the metadata log about a broker."""

    quorum_epoch: int
    offset: int
    fenced: bool
    by: Witness


class BrokerState(WindowState):
    """What the metadata log says of a broker, since it started."""

    elections: Elections = msgspec.field(default_factory=Elections)
    history: History[Registered] = msgspec.field(default_factory=lambda: History(4))


class BrokerIsUnfenced(WindowInvariant[BrokerState]):
    """A fenced broker leads no partition, is in no ISR, and is hidden from clients: the cluster runs on fewer replicas
    than it has.

    Example: broker-2 was restarted and has registered again; the controller waits until its heartbeat reports the end
    of the metadata log, which advances every half second, and never unfences it.
    """

    id = "L12"
    title = "A broker that starts, or that was fenced, is unfenced"
    source = "KIP-631; KAFKA-13959"
    tested_when = "a broker is unfenced in a window, after it was fenced or started"
    route = BROKER
    types = (BrokerReg, NodeUp)
    unseen = ("whether the brokers know that it is unfenced: the controller's record is enough",)

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, QRole)

    def initial(self, key: str, profile: Profile) -> BrokerState:
        return BrokerState(key, beta_us=beta(profile, self.id))

    def hear(self, state: BrokerState, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is not QRole:
            return super().hear(state, event)
        if state.elections.take(event.node, body):
            state.history.forget_lost(state.elections)
            self._judge(state, event)
        return self.arm(state)

    def step(self, state: BrokerState, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is NodeUp:
            # It must register again, whatever the controller still believes.
            state.history = History(state.history.limit)
        else:
            assert type(body) is BrokerReg
            epoch = state.elections.epoch_of(event.node)
            state.history.add(Registered(epoch, body.offset, body.fenced, witness(event)), state.elections)
        self._judge(state, event)
        return self.arm(state)

    def look(self, state: BrokerState, event: Stamped) -> None:
        self._judge(state, event)

    def _judge(self, state: BrokerState, event: Stamped) -> None:
        if state.key not in state.core:
            self.void(state, "unfenced")
        elif (last := state.history.newest) is not None and not last.fenced:
            self.kept(state, "unfenced")
        else:
            self.oblige(state, "unfenced", event)

    def missed(self, state: BrokerState, name: str, obligation: Obligation) -> Emissions:
        last = state.history.newest
        how = f"fenced by {last.by.node}" if last is not None else "not registered"
        return self.violated(
            state.key,
            f"{state.key} was not unfenced {self.within(state)}: it is {how}",
            obligation.by,
            last.by if last is not None else None,
        )


class LedPartition(PartitionState):
    """assumed_epoch, assumed_by: newest leader epoch that a broker took up. unclean: whether leaders outside the ISR
    may be elected. cleared: by which change of the configuration nobody is eligible any more, though the ISR is empty.
    known: the finding that this is, if it is one here."""

    assumed_epoch: int = -1
    assumed_by: str = ""
    unclean: bool = False
    cleared: Witness | None = None
    known: str = ""


class PartitionGetsALeader(PartitionInvariant[LedPartition]):
    """A partition without a leader accepts no records and returns none, although complete replicas are available.

    Example: broker-1, leader of orders-0, is crashed and was fenced; broker-2 is in the ISR and unfenced, and no
    controller elects it. The obligation ends when the leader that the controller named has begun its leader epoch. The
    cluster may not forget the candidates either: with an empty ISR these are the eligible replicas, and without
    eligible replicas the last known leader.
    """

    id = "L3"
    title = "Every partition gets a leader that takes up its leadership"
    source = "KIP-595; KIP-966; ReplicationControlManager.java"
    tested_when = "a leader in the core begins its leader epoch, after there was none"
    route = PARTITION
    types = (PartChange, PartAssume)
    exemptions = {"isr-away": NO_CANDIDATE}
    unseen = ("leaders that producers and consumers cannot find: L5 and L6 judge that",)

    def initial(self, key: str, profile: Profile) -> LedPartition:
        unclean = bool(profile.topic_setting(key, UNCLEAN_ENABLE, default=False))
        known = known_as(profile, "finding-elr-cleared")
        return LedPartition(key, beta_us=beta(profile, self.id), unclean=unclean, known=known)

    def step(self, state: LedPartition, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is PartChange:
            state.take(event, body)
            if body.isr or body.elr or body.last_known_elr:
                state.cleared = None
            elif body.cause == "config":
                state.cleared = witness(event)
        else:
            assert type(body) is PartAssume
            if body.role == "leader" and body.leader_epoch >= state.assumed_epoch:
                state.assumed_epoch, state.assumed_by = body.leader_epoch, event.node
        self.look(state, event)
        return self.arm(state)

    def look(self, state: LedPartition, event: Stamped) -> None:
        newest = state.newest
        if newest is None:
            return
        leader = state.leader
        if leader in state.core and state.assumed_by == leader and state.assumed_epoch >= newest.change.leader_epoch:
            self.kept(state, "leader")
        elif state.since_us >= 0:
            self.oblige(state, "leader", event)

    def missed(self, state: LedPartition, name: str, obligation: Obligation) -> Emissions:
        newest = state.newest
        if newest is None:
            return NOTHING  # what there was of it was lost with the controller that had appended it
        change = newest.change
        able = change.replicas if state.unclean else [*change.isr, *change.elr] or change.last_known_elr
        there = [node_name(replica) for replica in able or change.replicas if node_name(replica) in state.core]
        if not there:
            away = ", ".join(map(node_name, able)) or "nobody"
            sentence = f"{state.key} had no leader: {away} may lead it, and could not be reached"
            return self.excused("isr-away", state.key, sentence, obligation.by, newest.by)
        if not able:
            return self.violated(
                state.key,
                f"{state.key} got no leader {self.within(state)}, and can get none: its ISR and its eligible leader "
                f"replicas are empty, and no last known leader is recorded, although its replicas {', '.join(there)} "
                "are up",
                obligation.by,
                state.cleared or newest.by,
                known=state.known if state.cleared else "",
            )
        had = f"its leader is {state.leader}" if state.leader else "it has no leader"
        return self.violated(
            state.key,
            f"no broker took up the leadership of {state.key} {self.within(state)}: {had} in leader epoch "
            f"{newest.change.leader_epoch}, and {', '.join(there)} could lead",
            obligation.by,
            newest.by,
        )


class IsrIsWhole(CopyingInvariant[Copying]):
    """While a replica is out of the ISR, one replica less protects the data.

    Example: broker-3 was away for a minute and is back; it has fetched all records from broker-1, and the leader never
    proposes it. The obligation begins for each replica that is in the core, like its leader, and not in the ISR. The
    bound counts from when the replica has copied what the leader had at the beginning; until then the replica must copy
    more within each bound.
    """

    id = "L4"
    title = "A replica that comes back rejoins the ISR"
    source = "KIP-497; KAFKA-10706; Partition.scala (maybeExpandIsr)"
    tested_when = "a replica joins the ISR in a window, after it was out of it"
    route = PARTITION
    types = (PartChange, PartAssume, LogAppend)
    unseen = ("a replica outside the ISR while the leader is not in the core", "a replica that copies slowly")

    def initial(self, key: str, profile: Profile) -> Copying:
        return Copying(key, beta_us=beta(profile, self.id))

    def step(self, state: Copying, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is LogAppend:
            state.append(event, body, event.node)
            return NOTHING
        if kind is PartAssume:
            state.ends[event.node] = body.log_end
            return NOTHING
        state.take(event, body)
        self.look(state, event)
        return self.arm(state)

    def look(self, state: Copying, event: Stamped) -> None:
        newest = state.newest
        if newest is None:
            return
        led = state.leader in state.core
        for replica in newest.change.replicas:
            name = node_name(replica)
            if not led or name not in state.core:
                self.void(state, name)
            elif replica in newest.change.isr:
                self.kept(state, name)
            else:
                self.oblige(state, name, event, state.ends.get(state.leader, 0))

    def missed(self, state: Copying, name: str, obligation: Obligation) -> Emissions:
        if state.newest is None:
            return NOTHING  # what there was of it was lost with the controller that had appended it
        isr = ", ".join(map(node_name, state.isr))
        return self.violated(
            state.key,
            f"{name} did not get into the ISR of {state.key} {self.within(state)}: {state.leader} leads it in leader "
            f"epoch {state.newest.change.leader_epoch} with the ISR {isr}",
            obligation.by,
            state.newest.by,
        )


ACKED = "acked"
"""The one obligation of L14."""


class Ends(Copying):
    """marks: broker -> its high watermark. acked: end of what was acknowledged; by: the last such
    answer. unclean: whether an unclean election gave something up. lost: the least offset that a disk lost, -1 none.
    telling: what leaders tell without records."""

    marks: dict[str, int] = {}
    acked: int = 0
    by: Witness | None = None
    unclean: bool = False
    lost: int = -1
    telling: Telling = msgspec.field(default_factory=Telling)


class AcknowledgedIsOnAll(CopyingInvariant[Ends]):
    """An acknowledged record has min.insync.replicas copies, and gets safer only when the other replicas have it, too.
    A replica that does not learn that it is committed refuses ListOffsets and withholds records when it leads.

    Example: producer-1 got the acknowledgement for offset 1,310 of orders-0; broker-3 is up and reaches all nodes, and
    its log ends at 900 for good; or its log has 1,310, and its high watermark stays at 900, when that of the leader is
    1,311. The obligation concerns the end of the acknowledged records at its beginning; there is at most one at a time.
    As in L4, the bound counts anew for as long as replicas copy what they lack.

    A follower that fetches from its leader hears within two waits of its Fetch, twice replica.fetch.wait.max.ms and two
    seconds, that the leader's high watermark has moved, or its log start, be there no record to go with that. Example:
    broker-2 and broker-3 have the last record of the day, 1,310. Broker-1 commits it when broker-3 fetches from 1,311,
    and its answer to the next Fetch says so. If it left out partitions without records from its answers in a fetch
    session (KIP-227), both would go through the night with high watermark 1,310.
    """

    id = "L14"
    title = "Records acknowledged with acks=all reach every replica, which then learns that they are committed"
    source = "KIP-966; KIP-227; ReplicaFetcherThread.scala; FetchSession.scala (maybeUpdateResponseData)"
    tested_when = "all replicas in the core of a window have the acknowledged records, and the leader's high watermark"
    route = PARTITION
    types = (PartChange, PartAssume, LogAppend, LogHw, LogStart, LogTrunc, SendReturn, RepFetch)
    exemptions = {
        "leader-away": "The leader is not in the core of the window: no broker serves fetches.",
        "unclean-election": "An unclean election gave up the records that the leader lacks.",
        "loss-budget": "A disk lost the records that the leader lacks.",
    }
    unseen = (
        "a replica that copies slowly",
        "records acknowledged with less than acks=all",
        "whether an unclean election gave up a record, or a later election lost it: P4 and C1 distinguish these",
        "whether a disk may lose the records that the leader lacks: P4 and C1 judge that",
        "a high watermark that the leader does not have either: H3 and P18 judge that",
        (
            "What a leader does not tell without records to a follower that has not fetched since the last fault, or "
            "restart, or in that leader epoch; or anywhere in a cluster with a remote store, which may hold up a Fetch."
        ),
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, NodeUp, NodeDown)

    def initial(self, key: str, profile: Profile) -> Ends:
        return Ends(key, beta_us=beta(profile, self.id), telling=Telling.of(profile))

    def hear(self, state: Ends, event: Stamped) -> Emissions:
        if type(event.body) is not QRole:
            state.telling.reset()  # a fault, a window, a process, or the topic begins or ends
        if type(event.body) is NodeDown:
            state.telling.ended(event.node)
            return self._copied(state, event) if state.key in event.body.lost else NOTHING
        return NOTHING if type(event.body) is NodeUp else super().hear(state, event)

    def step(self, state: Ends, event: Stamped) -> Emissions:
        found = NOTHING if type(event.body) in (LogStart, RepFetch) else self._copied(state, event)
        free = 0 <= state.since_us <= event.wall and REMOTE_STORE not in state.core and not state.is_removed
        state.telling.take(event, state.ends, state.core, free=free)
        due_us = state.telling.arm_us()
        return found if due_us < 0 else (*found, Deadline(due_us))

    def expire(self, state: Ends, at_us: int) -> Emissions:
        found = list(super().expire(state, at_us))
        for each in state.telling.overdue(at_us):
            sentence = (
                f"{each.follower} did not learn within {state.telling.bound_us / 1_000_000:g} s without a fault that "
                f"the {each.what} of {state.telling.leads}, from which it fetches {state.key} in leader epoch "
                f"{state.telling.epoch}, had moved to {each.target:,}: its own is "
                f"{state.telling.known[each.what].get(each.follower, 0):,}"
            )
            found.extend(self.violated(state.key, sentence, each.fetch, each.by))
        due_us = state.telling.arm_us()
        return found if due_us < 0 else [*found, Deadline(due_us)]

    def _copied(self, state: Ends, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is LogAppend:
            state.append(event, body, ACKED)
            return self._caught_up(state, event) if state.due else NOTHING
        if kind is LogHw:
            state.marks[event.node] = body.new
            return self._caught_up(state, event) if state.due else NOTHING
        if kind is SendReturn:
            if body.outcome != "ok" or body.acks != -1 or body.offset < state.acked:
                return NOTHING
            state.acked, state.by = body.offset + 1, witness(event)
            return NOTHING if state.due else self._pursue(state, event)
        return self._changed(state, event)

    def _changed(self, state: Ends, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is PartChange:
            state.take(event, body)
            state.unclean = state.unclean or body.cause == "unclean"
        elif type(body) is PartAssume:
            state.ends[event.node], state.marks[event.node] = body.log_end, body.high_watermark
        elif type(body) is LogTrunc:
            state.ends[event.node] = body.to
        else:
            assert type(body) is NodeDown
            lost = body.lost.get(state.key, 0)
            if state.key in body.lost and lost < state.ends.get(event.node, 0):
                state.lost = lost if state.lost < 0 else min(state.lost, lost)
            state.ends[event.node] = min(state.ends.get(event.node, 0), lost)
        return self._caught_up(state, event) if state.due else NOTHING

    def look(self, state: Ends, event: Stamped) -> None:
        if state.due:
            self._caught_up(state, event)
        else:
            self._pursue(state, event)

    def _lacking(self, state: Ends, target: int) -> list[str]:
        if state.newest is None:
            return []
        replicas = [name for name in map(node_name, state.newest.change.replicas) if name in state.core]
        known = min(target, state.marks.get(state.leader, 0))
        behind = [name for name in replicas if state.ends.get(name, 0) < target]
        return behind or [name for name in replicas if state.marks.get(name, 0) < known]

    def _pursue(self, state: Ends, event: Stamped) -> Emissions:
        """The end of what is acknowledged now has to get to all of the core."""
        if state.since_us < 0 or not state.acked or state.is_removed:
            return NOTHING
        self.oblige(state, ACKED, event, state.acked)
        return self._caught_up(state, event)

    def _caught_up(self, state: Ends, event: Stamped) -> Emissions:
        obligation = state.due[ACKED]
        if state.since_us < 0 or self._lacking(state, obligation.target):
            return self.arm(state)
        self.kept(state, ACKED)
        if state.acked > obligation.target and self._lacking(state, state.acked):
            self.oblige(state, ACKED, event, state.acked)
        return self.arm(state)

    def missed(self, state: Ends, name: str, obligation: Obligation) -> Emissions:
        lacking = self._lacking(state, obligation.target)
        assert lacking, "else it was kept"
        end, mark = state.ends.get(lacking[0], 0), state.marks.get(lacking[0], 0)
        had_it = end >= obligation.target
        failed = "did not learn of the commit of" if had_it else "did not get"
        where = f"high watermark is {mark:,}" if had_it else f"log ends at {end:,}"
        sentence = (
            f"{lacking[0]} {failed} the acknowledged records of {state.key} below {obligation.target:,} "
            f"{self.within(state)}: its {where}"
        )
        newest = state.newest.by if state.newest is not None else None
        if state.leader not in state.core:
            return self.excused("leader-away", state.key, sentence, obligation.by, newest)
        end = state.ends.get(state.leader, 0)
        if end < obligation.target and (state.unclean or 0 <= state.lost < obligation.target):
            state.acked = end
            rule = "unclean-election" if state.unclean else "loss-budget"
            return self.excused(rule, state.key, sentence, obligation.by, newest)
        return self.violated(state.key, sentence, state.by, obligation.by)
