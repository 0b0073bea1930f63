"""Who may stand for election in the quorum, who wins, and what a leader may do with the epoch that it won."""

from __future__ import annotations

import msgspec

from actors.features import REMOVED_LEADER_DEADLOCK
from actors.node.spec import node_name
from actors.trace.events import (
    BrokerReg,
    ClockSet,
    ConfigChange,
    CtlFault,
    DiskRuleChange,
    LogAppend,
    LogHw,
    LogTrunc,
    MetaState,
    NodeDown,
    NodeUp,
    PartChange,
    PartRemove,
    QRole,
    QVote,
    QVoters,
    Stamped,
    TraceEvent,
)
from orchestrator.invariants.folds.bounds import longest_ms
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.known_findings import known_as
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import WIPED, LogMirror
from orchestrator.invariants.mirrors.voter_sets import is_majority, named
from orchestrator.invariants.partitions.replication import CleanLeaderHasEverything, Completeness
from orchestrator.invariants.quorum.idle import MAX_IDLE, IdleControllers

EPOCHS_KEPT = 64


class Granted(msgspec.Struct, frozen=True):
    """A vote that was granted, by a voter whose metadata lies in ``directory_id``."""

    directory_id: str
    by: Witness


class Ballots(State):
    """Epoch -> candidate -> voter -> vote."""

    votes: dict[int, dict[int, dict[str, Granted]]] = {}


class LeaderHasAMajority(LogInvariant[Ballots]):
    """Two majorities of one voter set always share a voter. Only this prevents two leaders in one epoch, and a leader
    without the committed log. A leader with fewer votes, or with votes of nodes outside the set, has neither guarantee.

    Example: of five voters, controller-1 has its own vote and that of controller-2 in epoch 7, and leads; controller-3
    to controller-5 elect another leader. The voter set is the last one in the leader's log.
    """

    id = "Q5"
    title = "A quorum leader has the votes of a majority of the voters in its log"
    source = "Raft 5.2; KIP-595; KIP-853"
    tested_when = "a voter becomes leader"
    unseen = ("The requests for votes: only granted votes are in the trace.",)
    types = (QVote, QRole)

    def initial(self, key: str, profile: Profile) -> Ballots:
        return Ballots(key)

    def step(self, state: Ballots, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is QVote:
            if body.granted and not body.pre:
                ballot = state.votes.setdefault(body.epoch, {}).setdefault(body.candidate, {})
                ballot[event.node] = Granted(body.directory_id, witness(event))
                if len(state.votes) > EPOCHS_KEPT:
                    del state.votes[min(state.votes)]
            return NOTHING
        assert type(body) is QRole
        voters = mirror.voters.of(event.node)
        if body.role != "leader" or not voters:
            return NOTHING
        state.tested += 1
        votes = state.votes.get(body.epoch, {}).get(body.leader_id, {})
        told = {node_name(voter) for voter in body.votes} or set(votes)  # a vote that is on its way does not count
        counted = [name for name, vote in votes.items() if name in told and voters.get(name) in ("", vote.directory_id)]
        if is_majority(len(counted), voters):
            return NOTHING
        first = next((votes[name].by for name in counted), None)
        return self.violated(
            state.key,
            f"{event.node} leads epoch {body.epoch} with the votes of {', '.join(sorted(counted)) or 'no voter'}; that "
            f"is no majority of the {len(voters)} voters {', '.join(sorted(voters))}",
            first,
            event,
        )


class Removal(msgspec.Struct):
    """Where the first voter set is in the log of a member that it does not belong to any more, when that was written,
    and when the member, as the leader, committed it (-1 not yet)."""

    offset: int
    written_us: int
    committed_us: int = -1


class Removed(State):
    """removals: by member. out: leader that is no voter any more -> by which event that was committed. were: members
    that have been voters, and have not committed, as leaders, that they are none any more. timeout_us: after which
    nobody waits for the end of a removal any more. known: the finding that this is, if it is one here. may_stand:
    whether the mend lets a voter stand until its removal is committed."""

    removals: dict[str, Removal] = {}
    out: dict[str, Witness] = {}
    were: set[str] = set()
    timeout_us: int = 0
    known: str = ""
    may_stand: bool = False


class OnlyVotersStand(LogInvariant[Removed]):
    """A node that is not a voter any more, or not yet, lacks the knowledge of the voters: it need not have their
    committed entries, and an epoch that it raises disturbs a quorum to which it does not belong.

    Example: controller-3 was removed from the voters and has that record in its log; its fetch times out, and it stands
    for election (KAFKA-17067). A removed leader continues until its removal is committed, and not a record longer.
    """

    id = "Q15"
    title = "Only voters, by the voter set in their own log, stand for election and lead"
    source = "KIP-595; KIP-853; KAFKA-17067; Kafka's RemoveVoterHandler"
    tested_when = "a member becomes prospective, candidate or leader, or a leader commits its own removal"
    unseen = (
        (
            "Fetches and other actions of an observer: only roles, and the writes of a leader that is not a voter, are "
            "checked."
        ),
    )
    types = (QRole, QVoters, LogHw, LogAppend, NodeUp)
    cases = {LogHw: ("leader",), LogAppend: ("leader",)}

    def initial(self, key: str, profile: Profile) -> Removed:
        return Removed(
            key,
            timeout_us=1000 * longest_ms(profile, "controller.quorum.request.timeout.ms"),
            known=known_as(profile, "finding-removed-leader-zombie"),
            may_stand=profile.feature(REMOVED_LEADER_DEADLOCK) == "stand",
        )

    def step(self, state: Removed, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is QVoters:
            self._take_voters(state, event, body)
        elif type(body) is LogHw or type(body) is LogAppend:
            return self._leads_on(state, event, body, mirror) if body.role == "leader" else NOTHING
        else:
            state.out.pop(event.node, None)
            if type(body) is QRole:
                return self._stands(state, event, body, mirror)
        return NOTHING

    def _take_voters(self, state: Removed, event: Stamped, body: QVoters) -> None:
        if event.node in named(body.members):
            state.were.add(event.node)
            state.removals.pop(event.node, None)
        elif event.node not in state.removals:  # what follows is another member's
            state.removals[event.node] = Removal(body.offset, event.wall)

    def _leads_on(self, state: Removed, event: Stamped, body: LogHw | LogAppend, mirror: LogMirror) -> Emissions:
        """A leader that is no voter any more: it may commit that, and nothing else may follow."""
        if by := state.out.pop(event.node, None):
            did = "appended to the metadata log" if type(body) is LogAppend else "moved its high watermark"
            sentence = f"{event.node} {did} after its own removal from the voters was committed"
            return self.violated(
                state.key, sentence, by, event, known=state.known if self._is_late(state, event) else ""
            )
        if type(body) is LogHw and event.node not in mirror.voters.of(event.node):
            removal = state.removals.get(event.node)
            if removal is not None and body.new > removal.offset:
                state.tested += 1
                state.out[event.node] = witness(event)
                state.were.discard(event.node)
                if removal.committed_us < 0:
                    removal.committed_us = event.wall
        return NOTHING

    def _is_late(self, state: Removed, event: Stamped) -> bool:
        """Whether nobody waited for it any more when the leader committed its removal."""
        removal = state.removals.get(event.node)
        return removal is not None and removal.committed_us - removal.written_us >= state.timeout_us

    def _stands(self, state: Removed, event: Stamped, body: QRole, mirror: LogMirror) -> Emissions:
        voters = mirror.voters.of(event.node)
        if body.role not in ("prospective", "candidate", "leader") or not voters:
            return NOTHING
        state.tested += 1
        if voters.get(event.node) in ("", body.directory_id):
            return NOTHING
        if state.may_stand and event.node in state.were and event.node not in voters:
            return NOTHING  # the mend: it does not know yet that the others can do without it
        as_whom = "" if event.node not in voters else ": they have it with another directory"
        return self.violated(
            state.key,
            f"{event.node} became {body.role} in epoch {body.epoch}, but is none of the voters "
            f"{', '.join(sorted(voters))} in its log{as_whom}",
            event,
        )


class Led(msgspec.Struct, frozen=True):
    """That a node took up the leadership of an epoch, and where its log ended then."""

    epoch: int
    incarnation: int
    by: Witness
    log_end: int


class Leaderships(State):
    """now: node -> the epoch that it leads. before: node, or node and directory -> the last epoch that it led; wiped:
    nodes whose disks were wiped since, at kraft.version 0; begun: node -> the incarnation that has taken up a role."""

    now: dict[str, Led] = {}
    before: dict[str, Led] = {}
    wiped: set[str] = set()
    begun: dict[str, int] = {}


class LeadersOnlyAppend(LogInvariant[Leaderships]):
    """A leader's appended entries may already be on a majority. If the leader truncates its log while it leads, or
    restarts and continues in its own epoch, it writes other entries at offsets and in an epoch that are already used. A
    restarted leader has resigned: in its former epoch it neither votes nor follows.

    Example: controller-1 leads epoch 7 and appends up to 130, loses its unflushed entries in a crash, and continues as
    leader of epoch 7 at 126. Offset 128 of epoch 7 is then two different records.
    """

    id = "Q12"
    title = "A quorum leader only appends, and leads an epoch in a single incarnation"
    source = "Raft 5.3 (Leader Append-Only); KAFKA-10527"
    tested_when = "a node that has led truncates its log, becomes leader again, or comes back in the epoch that it led"
    unseen = ("Leaders that overwrite an offset without a truncation: Q6 finds two records at one place.",)
    types = (QRole, LogTrunc, NodeUp)
    exemptions = {
        "wiped": (
            "The disk of the former leader was wiped, together with the epochs that it had led, at kraft.version 0."
        )
    }

    def initial(self, key: str, profile: Profile) -> Leaderships:
        return Leaderships(key)

    def step(self, state: Leaderships, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is NodeUp:
            if body.wiped:
                state.wiped.add(event.node)
            return NOTHING
        if type(body) is LogTrunc:
            return self._cut(state, event, body)
        assert type(body) is QRole
        identity = f"{event.node}/{body.directory_id}" if mirror.voters.with_directories else event.node
        known = state.before.get(identity)
        first, state.begun[event.node] = state.begun.get(event.node) != event.incarnation, event.incarnation
        if body.role != "leader":
            state.now.pop(event.node, None)
            return self._comes_back(state, event, body, known) if first and known is not None else NOTHING
        led = state.now[event.node] = Led(body.epoch, event.incarnation, witness(event), body.log_end)
        wiped = event.node in state.wiped and not mirror.voters.with_directories
        state.wiped.discard(event.node)
        state.before[identity] = led
        if known is None or known.incarnation == event.incarnation:
            return NOTHING
        state.tested += 1
        if body.epoch > known.epoch:
            return NOTHING
        sentence = (
            f"{event.node} leads epoch {body.epoch} after a restart, although it had led epoch {known.epoch} before "
            "the restart"
        )
        if wiped:
            return self.excused("wiped", state.key, sentence, known.by, event)
        return self.violated(state.key, sentence, known.by, event)

    def _comes_back(self, state: Leaderships, event: Stamped, body: QRole, known: Led) -> Emissions:
        """The first role of an incarnation of a node that has led."""
        if body.epoch != known.epoch or event.node in state.wiped:
            return NOTHING
        state.tested += 1
        if body.role == "resigned":
            return NOTHING
        sentence = f"{event.node} came back as {body.role} in epoch {body.epoch}, which it had led before its restart"
        return self.violated(state.key, sentence, known.by, event)

    def _cut(self, state: Leaderships, event: Stamped, body: LogTrunc) -> Emissions:
        if all(led.by.node != event.node for led in state.before.values()):
            return NOTHING
        state.tested += 1
        led = state.now.get(event.node)
        if led is None or led.incarnation != event.incarnation:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} truncated its log from {body.was:,} to {body.to:,} while it led epoch {led.epoch}",
            led.by,
            event,
        )


class LeaderCompleteness(CleanLeaderHasEverything):
    """All others copy the quorum leader's log. A committed entry that the leader lacks is lost, and brokers that acted
    on it know of leaders and replicas that the cluster does not know.

    Example: the leader of epoch 4 committed up to 120; the leader of epoch 5 begins with a log that ends at 112, or
    that has other entries there. The later of the two events in the trace shows it.
    """

    id = "Q10"
    title = "A quorum leader has every entry that was committed in older epochs"
    source = "Raft 5.4 (Leader Completeness); KIP-595"
    tested_when = "a leader's log at its election is compared with the committed entries of an older epoch"
    unseen = ("Members that follow: they fetch missing entries, or Q18 and Q6 find the problem.",)
    types = (QRole, LogHw)
    exemptions = {"loss-budget": WIPED}

    def step(self, state: Completeness, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogHw:
            return super().step(state, event, mirror)
        assert type(body) is QRole
        if body.role != "leader":
            return NOTHING
        return self._elected(state, event, body.epoch, mirror)


class ActedAs(State):
    """Node -> the leadership that it took up last, and the event that ended it, if one has. idle: since when active
    controllers have appended nothing."""

    led: dict[str, Led] = {}
    ended: dict[str, Witness] = {}
    idle: IdleControllers = msgspec.field(default_factory=IdleControllers)


_WHAT = {
    PartChange: "changed a partition",
    PartRemove: "removed a partition",
    BrokerReg: "changed a registration",
    ConfigChange: "changed a configuration",
    LogAppend: "appended to the metadata log",
}


class ControllersActInOffice(LogInvariant[ActedAs]):
    """The controller acts for the quorum while its node leads. A controller that continues after its node has lost the
    leadership, or begins before its node has it, decides on a state that is not the quorum's, and confirms changes that
    will not be committed.

    A controller begins when its state has everything that the log had when its node was elected. One that begins
    earlier decides on registrations and ISRs that have changed since. While it is active it appends a no-op record in
    every metadata.max.idle.interval.ms at least, as the high watermark and what is measured by it would stand still
    otherwise, and nobody would see whether the quorum still commits.

    Example: controller-1 resigns in epoch 7 because no majority fetches any more, and its controller, which does not
    learn of this, appends another change of orders-0 (KAFKA-13104). Or controller-2 is elected with a log up to 80, and
    its controller begins with a state up to 60. Or nothing happens in the cluster, and for ten seconds controller-2
    appends nothing.
    """

    id = "Q16"
    title = (
        "A controller writes only between its node's election and next change of role, in that epoch, and at the "
        "latest after metadata.max.idle.interval.ms"
    )
    source = (
        "KIP-595; KIP-835; KAFKA-13104; Kafka's KafkaRaftClient.ListenerContext.maybeFireLeaderChange, "
        "QuorumController (writeNoOpRecord)"
    )
    tested_when = (
        "a controller begins, changes a partition, a registration or a configuration, or appends to the metadata log"
    )
    unseen = (
        "Answers of a controller out of office that are not based on a write.",
        "No-op records of a controller whose timers a fault falsifies, and all after a bounce sets their interval.",
        "Those that are missing when a controller shuts down, or when a process of a live run ends.",
    )
    types = (QRole, NodeUp, NodeDown, MetaState, LogAppend, PartChange, PartRemove, BrokerReg, ConfigChange)
    cases = {LogAppend: ("leader",)}

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (CtlFault, ClockSet, DiskRuleChange)

    def initial(self, key: str, profile: Profile) -> ActedAs:
        return ActedAs(key, idle=IdleControllers.of(profile))

    def hear(self, state: ActedAs, event: Stamped) -> Emissions:
        state.idle.hear(event)
        return NOTHING

    def step(self, state: ActedAs, event: Stamped, mirror: LogMirror) -> Emissions:
        return [*self._goes_on(state, event), *self._acts(state, event)]

    def _goes_on(self, state: ActedAs, event: Stamped) -> Emissions:
        """Whether an active controller has appended something in time."""
        late = state.idle.take(event)
        if late is None:
            return NOTHING
        quiet, allowed_ms = late
        sentence = (
            f"{event.node}, the active controller, appended nothing to the metadata log for "
            f"{(event.wall - quiet.since_us) // 1000:,} ms, not even a no-op record: {MAX_IDLE} allows "
            f"{allowed_ms:,} ms"
        )
        return self.violated(state.key, sentence, quiet.by, event)

    def _acts(self, state: ActedAs, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is NodeDown:
            return NOTHING
        if type(body) is NodeUp:
            state.led.pop(event.node, None)
            return NOTHING
        if type(body) is QRole:
            if body.role == "leader":
                state.led[event.node] = Led(body.epoch, event.incarnation, witness(event), body.log_end)
            elif state.led.pop(event.node, None) is not None:
                state.ended[event.node] = witness(event)
            return NOTHING
        if type(body) is MetaState:
            return self._begins(state, event, body)
        epoch = -1
        if type(body) is LogAppend:
            if body.role != "leader":
                return NOTHING
            epoch = body.batch_epoch
        elif isinstance(body, PartChange | PartRemove | ConfigChange):
            epoch = body.quorum_epoch
        state.tested += 1
        led = state.led.get(event.node)
        if led is not None and epoch in (-1, led.epoch):
            return NOTHING
        did = f"{event.node} {_WHAT[type(body)]}" + (f" as leader of epoch {epoch}" if epoch >= 0 else "")
        if led is not None:
            return self.violated(state.key, f"{did}, but it leads epoch {led.epoch}", led.by, event)
        return self.violated(state.key, f"{did}, but it does not lead the quorum", state.ended.get(event.node), event)

    def _begins(self, state: ActedAs, event: Stamped, body: MetaState) -> Emissions:
        led = state.led.get(event.node)
        if body.of != "active" or led is None:
            return NOTHING
        state.tested += 1
        if body.offset >= led.log_end:
            return NOTHING
        sentence = (
            f"the controller of {event.node} began in epoch {led.epoch} with a state up to {body.offset:,}, but the "
            f"log ended at {led.log_end:,} when its node was elected"
        )
        return self.violated(state.key, sentence, led.by, event)
