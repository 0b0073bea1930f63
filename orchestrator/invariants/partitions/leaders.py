"""What the active controller promises about leaders: they come from the right pool, and stay if they can."""

from __future__ import annotations

import msgspec

from actors.client.admin import ELECT_LEADERS
from actors.node.spec import node_name, partition_name
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    BrokerReg,
    ClockSet,
    CtlFault,
    DiskRuleChange,
    MetaState,
    NodeDown,
    NodeUp,
    PartChange,
    PartRemove,
    QRole,
    Stamped,
    TraceEvent,
)
from orchestrator.invariants.folds.fold import (
    NOTHING,
    UNCLEAN_ENABLE,
    Emissions,
    Finding,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.mirrors.config_records import resources
from orchestrator.invariants.mirrors.loss_budget import ELR
from orchestrator.invariants.mirrors.metadata_view import Entry, MetadataView, View
from orchestrator.invariants.partitions.asked_elections import AskedElections
from orchestrator.invariants.partitions.controller import ControllerInvariant, named, standing
from orchestrator.invariants.partitions.preferred_passes import INTERVAL, PreferredPasses

REMOVING = ("fence", "controlled-shutdown", "unclean-shutdown")
"""Causes of changes that take one broker out of the ISR."""
ELECTING = (*REMOVING, "unfence", "elect")
"""Causes of changes that leave no partition without a leader if a replica is eligible."""


class Candidates(msgspec.Struct, frozen=True):
    """Who was eligible in a change. ``since``: an older quorum epoch's records are not relied on: its controller ended
    abruptly, and may have written more than it told. ``added``: a broker that is unfenced in this very step, -1 none,
    whatever else its registration says."""

    view: View
    known: PartChange
    body: PartChange
    since: int
    added: int = -1

    def eligible(self) -> list[int]:
        """Who could lead without a loss, in the order of the assignment: the members of the ISR that are certainly
        active, or else the eligible leader replicas."""
        body = self.body
        pool = body.isr or body.elr
        if self._from_eligible():
            pool = [body.leader, *body.elr]
        gone = self._gone()
        return [each for each in body.replicas if each in pool and each not in gone and self._is_active(each)]

    def _from_eligible(self) -> bool:
        """Whether the one elected is an eligible leader replica, which then is the ISR."""
        body, known = self.body, self.known
        return body.isr == [body.leader] and body.leader not in known.isr and body.leader in known.elr

    def _gone(self) -> set[int]:
        """Who leaves with this change, and is taken off the list of the living by a record behind it at the latest: the
        one that has left the ISR, or would if it were not the last member."""
        known, body = self.known, self.body
        if body.cause not in REMOVING:
            return set()
        if left := {*known.isr} - {*body.isr}:
            return left
        last = known.isr if len(known.isr) == 1 else []
        return {*last, *(known.elr if body.cause == "unclean-shutdown" else ())}

    def _is_active(self, broker: int) -> bool:
        entry = self.view.brokers.get(broker)
        if entry is None or entry.epoch <= self.since:
            return False
        return broker == self.added or self.view.is_active(broker)

    def better(self) -> int:
        """Who had to lead in place of the leader of the change, -1 nobody."""
        known, body = self.known, self.body
        eligible = self.eligible()
        if not eligible or body.leader == known.leader >= 0:
            return -1
        if known.leader in eligible:
            preferred = body.cause == "preferred" and body.leader == body.replicas[0]
            return -1 if preferred else known.leader
        if body.cause not in ELECTING or body.leader not in (-1, *eligible):
            return -1
        return -1 if body.leader == eligible[0] else eligible[0]


class Doubt(msgspec.Struct, frozen=True):
    """A leader was elected uncleanly though one replica was eligible: right if that one is fenced in the same step, or
    registers after an unclean shutdown, and is eligible no more. req: that the controller served. last: the number of
    the controller's last event that was of this step. by_fence: both end it, not only the latter."""

    node: str
    req: str
    last: int
    eligible: int
    finding: Finding
    by_fence: bool


class Return(msgspec.Struct):
    """A controller has unfenced a broker. req: that the controller served. last: the number of the controller's last
    event that was of this step. waiting: partition without a leader that the broker may lead -> the state in which it
    waits, and why the broker may."""

    broker: int
    req: str
    last: int
    waiting: dict[str, tuple[Witness, str]]
    by: Witness


class Pools(State):
    """``profile``: of the run; ``elr``: whether it has eligible leader replicas. ``doubts``: of the step that is being
    recorded. ``added``: controller -> the broker whose registration it wrote last, if that is not fenced, else -1.
    ``unfenced``: controller -> the broker that it unfenced last, and the request that it served then. ``returns``:
    controller -> who waits for that broker, in the step that is being recorded.
    ``asked``: the partitions of which operators have asked for unclean elections, by name; "" all. ``abrupt``: the
    newest quorum epoch whose controller ended abruptly, maybe before it told of all that it wrote. ``unanswered``: the
    elections that operators wait for. ``passes``: when controllers looked for preferred leaders last."""

    profile: Profile = Profile()
    elr: bool = False
    doubts: list[Doubt] = []
    added: dict[str, int] = {}
    unfenced: dict[str, tuple[int, str]] = {}
    returns: dict[str, Return] = {}
    asked: set[str] = set()
    abrupt: int = -1
    unanswered: AskedElections = msgspec.field(default_factory=AskedElections)
    passes: PreferredPasses = msgspec.field(default_factory=PreferredPasses)

    def settle(self, event: Stamped, req: str | None = None) -> Emissions:
        """What a controller left in doubt is in none any more, but for the request that it still serves."""
        over = [each for each in self.doubts if each.node == event.node and each.req != req]
        self.doubts = [
            msgspec.structs.replace(each, last=event.seq) if each.node == event.node else each
            for each in self.doubts
            if each not in over
        ]
        return [each.finding for each in over]

    def interrupt(self, event: Stamped) -> None:
        """A controller that ended within a step never came to the records behind the one in doubt."""
        self.doubts = [each for each in self.doubts if (each.node, each.last + 1) != (event.node, event.seq)]
        back = self.returns.get(event.node)
        if back is not None and back.last + 1 == event.seq:
            del self.returns[event.node]


class ElectionsComeFromTheRightPool(ControllerInvariant[Pools]):
    """Only members of the ISR, and eligible leader replicas if the ISR is empty, have every committed record. The
    election of any other replica loses records. It needs permission, and must be marked as unclean, so that replicas
    take the new leader's log for complete, and the new leader as recovering (KIP-704), so that it knows of that. A
    leader that can go on is not replaced, as clients would have to look for another for nothing; and if it cannot, the
    first eligible replica of the assignment leads, not nobody. A partition without a leader gets one in the step that
    unfences a broker which may lead it. A broker that shuts down is not elected, as its leadership would end at once.
    An operator who asks for the preferred leader allows nothing more than what is allowed anyway, and is told that
    nobody needs to be elected only where that replica leads. The controller itself gives leaderships back to preferred
    replicas once in leader.imbalance.check.interval.seconds: more often, and a broker that comes and goes takes its
    clients with it each time.

    Example: the last member of the ISR of orders-0 is down, unclean.leader.election.enable is false, and the controller
    elects broker-3, which had lagged behind. Or that last member comes back and is unfenced, and nobody elects it.
    """

    id = "P21"
    title = (
        "Leaders come from the ISR or the eligible leader replicas; unclean elections are allowed and marked as such"
    )
    source = "KIP-106; KIP-704; KIP-966; Kafka's PartitionChangeBuilder"
    tested_when = (
        "a controller gives a partition another leader or none, elects uncleanly, or unfences a broker that may lead a "
        "partition without a leader; an operator is told that no election is needed; or a controller elects a "
        "preferred leader by the clock"
    )
    unseen = (
        "whether the preferred replica is elected finally: L19 judges that",
        "passes of a controller whose timers a fault falsifies, and its next one, and all after a bounce sets the key",
        "elections that are never held where no broker is unfenced: L3 sees that a leader is missing",
        "replicas that were eligible only by records of a controller that ended abruptly",
        "the eligible leader replicas and the last leader themselves: the check uses the controller's records (P20)",
    )
    types = (PartChange, PartRemove, BrokerReg, QRole, MetaState, NodeUp, NodeDown, AdminInvoke, AdminReturn)
    before_types = (PartChange, BrokerReg)

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (CtlFault, ClockSet, DiskRuleChange)

    def hear(self, state: Pools, event: Stamped) -> Emissions:
        state.passes.hear(event)
        return NOTHING

    def initial(self, key: str, profile: Profile) -> Pools:
        return Pools(key, profile=profile, elr=profile.feature(ELR) not in ("", "0"))

    def before(self, state: Pools, event: Stamped, mirror: MetadataView) -> Emissions:
        return [*self._go_on(state, event), *self._judge(state, event, mirror)]

    def _judge(self, state: Pools, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if type(body) is PartChange:
            # Of one step come those that take a broker out of its partitions, and the one that fences it, or registers
            # it anew. Between them a live node may stand at a barrier.
            goes_on = event.req if body.cause in (*REMOVING, "unclean") else None
            return [*state.settle(event, goes_on), *self._change(state, event, body, mirror.view_of(event))]
        assert type(body) is BrokerReg
        self._unfenced(state, event, body, mirror.view_of(event))
        state.added[event.node] = -1 if body.fenced else body.broker
        settled = state.settle(event, event.req)
        gone = body.fenced or body.shutting_down
        state.doubts = [
            each
            for each in state.doubts
            if (each.node, each.eligible) != (event.node, body.broker) or not (body.unclean or (gone and each.by_fence))
        ]
        return [*settled, *state.settle(event)]

    def step(self, state: Pools, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if isinstance(body, MetaState | NodeUp | NodeDown):
            state.passes.begins(event, body)
        if type(body) is NodeDown and body.mode not in ("clean", "end"):
            state.interrupt(event)
            if (epoch := mirror.elections.epoch_of(event.node)) >= 0:
                state.abrupt = max(state.abrupt, epoch)
                state.unanswered.open.clear()  # the next controller may know of changes that nobody has told
        elif type(body) is AdminInvoke and body.call == ELECT_LEADERS:
            if body.arguments.get("type") == "unclean":
                state.asked.update(body.arguments.get("partitions") or [""])
            state.unanswered.asks(body, mirror, state.abrupt)
        elif type(body) is AdminReturn:
            return self._unneeded(state, event, body)
        elif type(body) is QRole:
            if body.role == "leader":
                state.unanswered.look(mirror)
        elif isinstance(body, PartChange | PartRemove):
            state.unanswered.changes(body)
            if type(body) is PartChange and body.cause == "preferred" and not body.asked:
                return self._given_back(state, event, body)
        return NOTHING

    def _given_back(self, state: Pools, event: Stamped, body: PartChange) -> Emissions:
        """A controller elects a preferred leader by the clock."""
        tested, before = state.passes.elects(event, body, state.profile)
        state.tested += tested
        if before is None:
            return NOTHING
        what = "gave partitions back" if before.offset >= 0 else "became active"
        after_ms = (event.wall - before.at_us) / 1000
        sentence = (
            f"{event.node} gave {body.tp} back to {node_name(body.leader)} {after_ms:,.0f} ms after it {what}, and "
            f"{INTERVAL} is {state.profile.number(INTERVAL, event.node)}"
        )
        return self.violated(body.tp, sentence, before.by, event)

    def _unneeded(self, state: Pools, event: Stamped, body: AdminReturn) -> Emissions:
        wrong, told = state.unanswered.returns(body)
        state.tested += told
        return [
            found
            for tp, by in wrong
            for found in self.violated(
                tp,
                f"{event.node} was told that {tp} needs no election, although no controller has known it with the "
                "leader that was asked for since then",
                by,
                event,
            )
        ]

    def finish(self, state: Pools, mirror: MetadataView) -> Emissions:
        left = [found for back in state.returns.values() for found in self._left(back)]
        return [*[each.finding for each in state.doubts], *left]

    def _unfenced(self, state: Pools, event: Stamped, body: BrokerReg, view: View) -> None:
        """A registration: whom the controller has to elect in this step, if it unfences a broker."""
        entry, known = view.brokers.get(body.broker), view.broker(body.broker)
        is_known = entry is not None and known is not None and entry.epoch > state.abrupt
        if body.fenced or (is_known and known is not None and not known.fenced):
            return
        state.unfenced[event.node] = (body.broker, event.req)
        if not is_known or known is None or known.incarnation != body.incarnation:
            return
        waiting = {
            tp: (each.by, why)
            for tp, each in view.partitions.items()
            if each.epoch > state.abrupt and (why := _why_able(state, event.node, view, each.body, body.broker))
        }
        if waiting:
            state.tested += len(waiting)
            state.returns[event.node] = Return(body.broker, event.req, event.seq, waiting, witness(event))

    def _go_on(self, state: Pools, event: Stamped) -> Emissions:
        """The next record of a controller: in the step that unfences a broker, or in another one."""
        back = state.returns.get(event.node)
        if back is None:
            return NOTHING
        if back.req != event.req:
            del state.returns[event.node]
            return self._left(back)
        back.last = event.seq
        body = event.body
        if type(body) is PartChange and body.leader >= 0:
            back.waiting.pop(body.tp, None)
        return NOTHING

    def _left(self, back: Return) -> Emissions:
        """What stays without a leader after a step that unfences a broker."""
        broker = node_name(back.broker)
        return [
            found
            for tp, (by, why) in back.waiting.items()
            for found in self.violated(
                tp,
                f"the controller unfenced {broker} and elected nobody for {tp}, although {broker} {why}",
                by,
                back.by,
            )
        ]

    def _change(self, state: Pools, event: Stamped, body: PartChange, view: View) -> Emissions:
        entry = view.partitions.get(body.tp)
        if entry is None:
            return NOTHING
        known = entry.body
        assert type(known) is PartChange
        unclean = body.cause == "unclean"
        if body.leader == known.leader >= 0 and not unclean:
            return NOTHING
        state.tested += body.leader != known.leader or unclean
        if body.leader < 0:
            return self._better(state, event, body, view, entry)
        if unclean and body.recovering is False:
            return self._elected(event, body, entry, "without marking it as recovering")
        wrong = "which is shutting down" if _leaves(state, event, view, body.leader) else ""
        if not wrong and unclean:
            wrong = self._wrong_unclean(state, event.node, view, known, body)
        elif not wrong:
            wrong = _wrong_clean(view, known, body)
        able = _able(state, view, known) if unclean and not wrong else []
        if able:
            wrong = f"uncleanly, although {named(able)} could lead"
        if not wrong:
            return self._better(state, event, body, view, entry)
        (found,) = self._elected(event, body, entry, wrong)
        assert isinstance(found, Finding)
        if unclean and event.req and self._is_last_known(state, known, body) and len(known.elr) == 1:
            state.doubts.append(Doubt(event.node, event.req, event.seq, known.elr[0], found, by_fence=False))
            return NOTHING
        if len(able) == 1:
            state.doubts.append(Doubt(event.node, event.req, event.seq, able[0], found, by_fence=True))
            return NOTHING
        return (found,)

    def _elected(self, event: Stamped, body: PartChange, entry: Entry, wrong: str) -> Emissions:
        return self.violated(
            body.tp,
            f"the controller elected {node_name(body.leader)} for {body.tp} in leader epoch {body.leader_epoch} "
            f"({body.cause}), {wrong}",
            entry.by,
            event,
        )

    def _better(self, state: Pools, event: Stamped, body: PartChange, view: View, entry: Entry) -> Emissions:
        """A change that elects nobody, or cleanly: whether another one had to lead."""
        known = entry.body
        assert type(known) is PartChange
        if entry.epoch <= state.abrupt:
            return NOTHING
        added = state.added.get(event.node, -1) if body.cause == "unfence" else -1
        better = Candidates(view, known, body, state.abrupt, added).better()
        if better < 0:
            return NOTHING
        why = "leads and could go on" if better == known.leader else "comes first of those that could lead"
        return self.violated(
            body.tp,
            f"the controller elected {node_name(body.leader) if body.leader >= 0 else 'nobody'} for {body.tp} in "
            f"leader epoch {body.leader_epoch} ({body.cause}), although {node_name(better)} {why}: the ISR is "
            f"{named(body.isr)}",
            entry.by,
            event,
        )

    def _is_last_known(self, state: Pools, known: PartChange, body: PartChange) -> bool:
        """Whether the one who is elected is the only one known to have led last, in a cluster where that counts
        (``PartitionChangeBuilder.canElectLastKnownLeader``)."""
        return state.elr and not known.isr and known.last_known_elr == [body.leader]

    def _wrong_unclean(self, state: Pools, node: str, view: View, known: PartChange, body: PartChange) -> str:
        """What speaks against an unclean election, or ""."""
        if body.isr != [body.leader]:
            return f"uncleanly, but with the ISR {named(body.isr)}, not the leader alone"
        if not view.is_unfenced(body.leader):
            return f"which is {standing(view, body.leader)}"
        asked = body.asked and not state.asked.isdisjoint(("", partition_name(body.tp)))
        if asked or _allows_unclean(state, node, view, body.tp):
            return ""
        if self._is_last_known(state, known, body):
            return f"the last known leader, although {named(known.elr)} is eligible" if known.elr else ""
        if body.asked:
            return f"uncleanly, from outside the ISR {named(known.isr)}, although no operator had asked for that"
        return f"uncleanly, from outside the ISR {named(known.isr)}, although {UNCLEAN_ENABLE} is false"


def _leaves(state: Pools, event: Stamped, view: View, broker: int) -> bool:
    """Whether a broker shuts down, and may not be elected any more, as far as its last registration is relied on. Who
    is unfenced in this very step may be, whatever else its registration says."""
    entry, known = view.brokers.get(broker), view.broker(broker)
    if entry is None or known is None or entry.epoch <= state.abrupt:
        return False
    return known.shutting_down and state.unfenced.get(event.node) != (broker, event.req)


def _allows_unclean(state: Pools, node: str, view: View, tp: str) -> bool:
    """Whether the topic, or else this controller, or else the brokers' default, or else what it was started with allows
    unclean elections at this offset."""
    for resource in resources(node, tp):
        value = view.config(resource, UNCLEAN_ENABLE)
        if value is not None:
            return value == "true"
    return state.profile.topic_setting(tp, UNCLEAN_ENABLE, node, default=False) is True


def _why_able(state: Pools, node: str, view: View, known: object, broker: int) -> str:
    """Why a broker that is unfenced may lead a partition, "" if it may not, or if the partition has a leader."""
    assert type(known) is PartChange
    if known.leader >= 0:
        return ""
    if broker in known.isr:
        return f"is in the ISR {named(known.isr)}"
    if not known.isr and broker in known.elr:
        return f"is one of the eligible leader replicas {named(known.elr)}, and the ISR is empty"
    if state.elr and ELR not in state.profile.bounced and not known.isr and not known.elr:
        if known.last_known_elr == [broker]:
            return "led it last, and nobody is eligible"
    # A controller that ended abruptly may have written a configuration that it did not tell of.
    if broker in known.replicas and state.abrupt < 0 and _allows_unclean(state, node, view, known.tp):
        return f"is one of the replicas {named(known.replicas)}, and {UNCLEAN_ENABLE} is true"
    return ""


def _wrong_clean(view: View, known: PartChange, body: PartChange) -> str:
    """What speaks against a leader that was elected cleanly, or ""."""
    if not view.is_unfenced(body.leader):
        return f"which is {standing(view, body.leader)}"
    asked = body.isr if body.cause == "alter-isr" else ()
    if body.leader in known.isr or body.leader in asked:
        return ""
    if body.leader in known.elr and body.isr == [body.leader]:
        able = [member for member in known.isr if view.is_active(member)]
        if len(able) <= (body.cause in REMOVING):  # who goes with this change is fenced by the record behind it
            return ""
        return f"from the eligible leader replicas, although {named(able)} of the ISR could lead"
    elr = f" and the eligible leader replicas {named(known.elr)}" if known.elr else ""
    return f"from outside the ISR {named(known.isr)}{elr}"


def _able(state: Pools, view: View, known: PartChange) -> list[int]:
    """Who could be elected cleanly: the active members of the ISR; those of the ELR if the ISR is empty, or if its only
    active member is fenced in this very step, and nobody else is in it."""
    able = [member for member in known.isr if view.is_active(member)]
    if state.elr and set(known.isr) <= set(able[:1]):
        able += [each for each in known.elr if view.is_active(each) and each not in able]
    return able
