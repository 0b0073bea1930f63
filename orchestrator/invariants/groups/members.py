"""What the members of a group may do, by what coordinators and members say of each other: O2, O4 and O5."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.errors import KafkaError
from actors.trace.events import (
    GROUP_EXPIRED,
    CommitInvoke,
    ConsOwn,
    GrpCommit,
    GrpGen,
    GrpLoad,
    NodeDown,
    NodeUp,
    PartChange,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import GROUP
from orchestrator.invariants.groups.losses import OFFSETS_LOSSES, offsets_losses
from orchestrator.invariants.groups.shares import uneven
from orchestrator.invariants.mirrors.partition_losses import PartitionLosses

NO_GENERATION = -1
TIMED_OUT = "rebalance timeout"
"""Why a group goes on without those of its members that have not joined again."""
REFUSALS = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID)
"""Errors of commits whose reason is in the state of the group."""
REMEMBERED = 64
"""Generations, and leader epochs of coordinators, that are remembered."""


class Generation(msgspec.Struct, frozen=True):
    """A state of a group, as a coordinator entered it. members: their ids, in order. clients: member id -> client, as
    that coordinator has them. losses: how often disks had lost something of its log."""

    state: str
    number: int
    members: list[str]
    by: Witness
    losses: int = 0
    clients: dict[str, str] = {}


class Generations(State):
    """current: coordinator epoch -> the state entered last; loaded: coordinator epoch -> the generation that its log
    had. stable: generation -> who was in it when it became stable, whichever coordinator saw to it. static: nodes that
    are static members. asked: client -> topic partition -> the generations in which it last asked to commit something,
    each with the offset, oldest first."""

    static: list[str] = []
    asked: dict[str, dict[str, list[tuple[int, int]]]] = {}
    current: dict[int, Generation] = {}
    loaded: dict[int, Generation] = {}
    stable: dict[int, Generation] = {}

    def enter(self, event: Stamped, body: GrpGen) -> None:
        """A coordinator moved the group into a state."""
        clients = dict(body.members)
        entered = Generation(body.state, body.generation, list(body.members), witness(event), clients=clients)
        _remember(self.current, body.coordinator_epoch, entered)
        if body.state == "Stable":
            _remember(self.stable, body.generation, entered)

    def load(self, event: Stamped, body: GrpLoad) -> None:
        """A coordinator read its log: whoever was in that generation before is a member. Of one that was not known to
        be stable when its coordinator was replaced, the log alone tells."""
        state, number = body.groups.get(self.key, ("Empty", 0))
        known = self.stable.get(number)
        told = dict(body.members.get(self.key, {}))
        members = list(told) if known is None or state == "Empty" else known.members
        loaded = Generation(state, number, members, witness(event), clients=told)
        _remember(self.loaded, body.coordinator_epoch, loaded)
        self.current.pop(body.coordinator_epoch, None)

    def ask(self, client: str, body: CommitInvoke) -> None:
        """A client asks to commit."""
        of_client = self.asked.setdefault(client, {})
        for tp, entry in body.offsets.items():
            known = of_client.setdefault(tp, [])
            if not known or known[-1] != (body.generation, entry[0]):
                known.append((body.generation, entry[0]))
                del known[:-REMEMBERED]

    def asked_before(self, event: Stamped, body: GrpCommit) -> int:
        """The earlier generation in which its client asked for a commit that a coordinator took; -1 it asked in this
        one, or nobody knows. What is forgotten is older than what is remembered."""
        known = self.asked.get(event.cause.partition("/")[0], {}).get(body.tp, [])
        generations = [generation for generation, offset in known if offset == body.offset]
        if body.generation in generations:
            return -1
        return max((each for each in generations if 0 <= each < body.generation), default=-1)


def _remember(known: dict[int, Generation], number: int, generation: Generation) -> None:
    known.pop(number, None)
    known[number] = generation
    if len(known) > REMEMBERED:
        del known[next(iter(known))]


class StaleMembersCannotCommit(KeyedInvariant[Generations]):
    """A member that was declared dead has no rights any more: its partitions belong to another member by now. If its
    commit is accepted, that other member goes back to it after the next rebalance, and delivers records again, or skips
    some.

    Example: consumer-1 was silent for longer than its session, generation 4 has begun without it, and then its commit
    of generation 3 arrives and is appended. A client without a group commits with generation -1 and no member id, which
    is accepted as long as the group has no members.

    A commit belongs to the generation in which the application asked for it: what consumer-1 asked for in generation 3,
    and could not send before it was in generation 4, may be about another member's partition by then, and must fail.

    A member of the current generation can commit in turn, so that its successors do not read again what it has
    processed, also while the next generation is prepared. Only when that is formed a commit has to wait until the
    member has its assignment (REBALANCE_IN_PROGRESS), and one in a transaction does not wait.
    """

    id = "O2"
    title = "Only members of the current generation can commit"
    source = "KIP-62; kafka-tlaplus, ValidMemberEpoch; Kafka's ClassicGroup.validateOffsetCommit"
    tested_when = "a coordinator accepts a commit when it has entered a state of the group, or loaded it"
    route = GROUP
    types = (GrpGen, GrpLoad, GrpCommit, CommitInvoke)
    of_groups = True
    unseen = (
        (
            "joins and departures between two states of a group: until the next state, the members are those of the "
            "last one"
        ),
        "whether static members, and members of a group that is not stable, are refused as unknown with reason",
        "tombstones: the reason why an offset expired or was deleted",
        "in which generation a commit in a transaction was asked for",
    )

    def initial(self, key: str, profile: Profile) -> Generations:
        return Generations(key, static=_static(profile))

    def step(self, state: Generations, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is GrpGen:
            state.enter(event, body)
        elif type(body) is GrpLoad:
            if body.loaded:
                state.load(event, body)
        elif type(body) is CommitInvoke:
            state.ask(event.node, body)
        elif body.error in REFUSALS:
            return self._refused(state, event, body)
        elif not body.error and body.offset >= 0:
            return self._taken(state, event, body)
        return NOTHING

    def _refused(self, state: Generations, event: Stamped, body: GrpCommit) -> Emissions:
        now = state.current.get(body.coordinator_epoch) or state.loaded.get(body.coordinator_epoch)
        if now is None or now.state in ("Empty", "Dead"):
            return NOTHING
        if _has_reason(state, now, body):
            return NOTHING
        state.tested += 1
        sentence = (
            f"{event.node} refused a commit for {body.tp} by {body.member or 'no member'} in generation "
            f"{body.generation} of group {state.key} with {KafkaError(body.error).name}, although the group was "
            f"{now.state} in generation {now.number}"
        )
        if body.error == KafkaError.UNKNOWN_MEMBER_ID:
            sentence += ", of which that is a member"
        return self.violated(state.key, sentence, now.by, event)

    def _taken(self, state: Generations, event: Stamped, body: GrpCommit) -> Emissions:
        now = state.current.get(body.coordinator_epoch) or state.loaded.get(body.coordinator_epoch)
        if now is None:
            return NOTHING
        state.tested += 1
        if body.generation == NO_GENERATION and not body.member:
            wrong = f"which has the members {', '.join(now.members)}" if now.members and now.state != "Empty" else ""
        elif now.state in ("Empty", "Dead", "CompletingRebalance"):
            wrong = f"which is {now.state} in generation {now.number}"
        elif body.generation != now.number:
            wrong = f"whose generation is {now.number}"
        else:
            wrong = f"in whose generation {now.number} it is no member" if body.member not in now.members else ""
        if not wrong and body.generation >= 0 and body.producer_id < 0:
            earlier = state.asked_before(event, body)
            wrong = f"though it was asked for in generation {earlier}" if earlier >= 0 else ""
        if not wrong:
            return NOTHING
        sentence = (
            f"{event.node} accepted a commit for {body.tp} by {body.member or 'no member'} in generation "
            f"{body.generation} of group {state.key}, {wrong}"
        )
        return self.violated(state.key, sentence, now.by, event)


def _has_reason(state: Generations, now: Generation, body: GrpCommit) -> bool:
    """Whether a coordinator may refuse a commit, with one of ``REFUSALS``, in a state of a group with members. A static
    member may have another member id by now, and outside of Stable members go before anybody says so."""
    if body.error == KafkaError.REBALANCE_IN_PROGRESS:
        return now.state == "CompletingRebalance" and body.producer_id < 0
    if body.error == KafkaError.ILLEGAL_GENERATION:
        return body.generation != now.number
    if now.state != "Stable" or body.generation != now.number:
        return True
    return body.member not in now.clients or now.clients[body.member] in state.static


def _static(profile: Profile) -> list[str]:
    """Nodes that are static members."""
    return [node for node in profile.nodes if profile.setting("group.instance.id", node, "")]


class Owned(msgspec.Struct, frozen=True):
    """What a member has, by its own account. ``known``: the member ids that its client had had in the group by then."""

    incarnation: int
    member: str
    tps: list[str]
    by: Witness
    known: frozenset[str] = frozenset()


class Assigned(msgspec.Struct, frozen=True):
    """Member id -> partitions, as a coordinator committed it."""

    assignment: dict[str, list[str]]
    coordinator_epoch: int
    by: Witness


class Owners(State):
    """owned: node -> what it has. assigned: generation -> what coordinators gave to whom in it, each once; loaded: the
    same, as they found it in their log. ids: client -> the last member ids under which coordinators knew it. static:
    nodes that are static members. timed_out: the last generation that began without all of them."""

    static: list[str] = []
    timed_out: int = -1
    ids: dict[str, list[str]] = {}
    owned: dict[str, Owned] = {}
    assigned: dict[int, list[Assigned]] = {}
    loaded: dict[int, list[Assigned]] = {}

    def meet(self, members: dict[str, str]) -> None:
        """A coordinator knows these members, each with its client."""
        for member, client in members.items():
            known = self.ids.setdefault(client, [])
            if member not in known:
                known.append(member)
                del known[:-REMEMBERED]

    def may_have_forgotten(self, generation: int) -> bool:
        """Whether a generation may have had an assignment that is remembered no more."""
        return len(self.assigned) == REMEMBERED and generation < min(self.assigned)

    def given(self) -> set[str]:
        """Partitions that were assigned to anybody."""
        generations = (*self.assigned.values(), *self.loaded.values())
        return {tp for known in generations for each in known for tps in each.assignment.values() for tp in tps}


class OneOwnerAtATime(KeyedInvariant[Owners]):
    """Two members that both read a partition deliver its records twice, and overwrite each other's commits.

    Example: generation 5 gives orders-0 to consumer-2 while consumer-1, which is a member of it, has not given orders-0
    up; or consumer-1 takes orders-0 and orders-1 in generation 5, in which orders-1 was assigned to consumer-2. Or it
    waits for its assignment in generation 5 when the group begins to rebalance, and is answered that it has none: that
    was never decided, and it must be told to join again.

    Each member owns its share: consumer-1 has three of four partitions and consumer-2 has one, which their assignor
    would have given two each. Range shares out each topic by itself; roundrobin and cooperative-sticky all partitions,
    if the members read the same topics. What a cooperative assignor leaves out, because its owner has to give it up
    first, may be anybody's.
    """

    id = "O4"
    title = "A partition has one owner in a group, and the next one only after the previous one has given it up"
    source = "KIP-62; KIP-429; kafka-tlaplus, NoDoubleClientAssignment"
    tested_when = "a group becomes stable with an assignment, or a member takes its assignment"
    route = GROUP
    types = (GrpGen, GrpLoad, ConsOwn)
    of_groups = True
    exemptions = {
        "fenced": "The former owner is not a member of this generation: it was removed from the group without its "
        "knowledge, and may continue to read, but not commit. A client that has joined anew knows of it.",
        "static": "A static member that does not rejoin in time stays a member: it does not know of the generation, "
        "and keeps its partitions until it does.",
    }
    unseen = (
        "members that were absent for more generations than the check remembers",
        "shares of roundrobin and cooperative-sticky where members read different topics, and of other assignors",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (NodeDown,)

    def initial(self, key: str, profile: Profile) -> Owners:
        return Owners(key, static=_static(profile))

    def hear(self, state: Owners, event: Stamped) -> Emissions:
        state.owned.pop(event.node, None)
        return NOTHING

    def step(self, state: Owners, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is ConsOwn:
            known = frozenset(state.ids.get(event.node, ()))
            state.owned[event.node] = Owned(event.incarnation, body.member, list(body.owned), witness(event), known)
            return self._took(state, event, body) if body.reason == "assign" else NOTHING
        if type(body) is GrpLoad:
            state.meet(body.members.get(state.key, {}))
            return self._loaded(state, event, body) if body.loaded else NOTHING
        state.meet(body.members)
        if body.state == "CompletingRebalance" and body.reason == TIMED_OUT:
            state.timed_out = body.generation
        return self._assigned(state, event, body) if body.state == "Stable" else NOTHING

    def _assigned(self, state: Owners, event: Stamped, body: GrpGen) -> Emissions:
        state.tested += 1
        by = Assigned(dict(body.assignment), body.coordinator_epoch, witness(event))
        known = state.assigned.get(body.generation, [])
        is_shared_out = not any(each.coordinator_epoch == body.coordinator_epoch for each in known)
        shares = uneven(body, state.given()) if is_shared_out else ""
        _give(state.assigned, body.generation, by)
        wrong = _overlap(event.node, state.key, body.generation, list(body.members), body.assignment)
        if wrong:
            return self.violated(state.key, wrong, event)
        if shares:
            sentence = f"generation {body.generation} of group {state.key} is assigned by {body.protocol}, and {shares}"
            return self.violated(state.key, sentence, event)
        given = {tp: member for member, tps in body.assignment.items() for tp in tps}
        return self._given_up(state, event, body, given)

    def _loaded(self, state: Owners, event: Stamped, body: GrpLoad) -> Emissions:
        """A coordinator goes on with an assignment that its log has: written, though it may be that nobody was told
        so before the one that wrote it was replaced."""
        assignment = body.assignment.get(state.key)
        if assignment is None:
            return NOTHING
        _, generation = body.groups[state.key]
        _give(state.loaded, generation, Assigned(dict(assignment), body.coordinator_epoch, witness(event)))
        wrong = _overlap(event.node, state.key, generation, list(body.members[state.key]), assignment)
        return self.violated(state.key, wrong, event) if wrong else NOTHING

    def _given_up(self, state: Owners, event: Stamped, body: GrpGen, given: dict[str, str]) -> Emissions:
        found: Emissions = NOTHING
        for node, owned in state.owned.items():
            # A static member may have another id from now on, and goes on with what it has.
            joined = [member for member, client in body.members.items() if client == node]
            mine = [owned.member, *joined]
            taken = [tp for tp in owned.tps if given.get(tp, owned.member) not in mine]
            if not taken:
                continue
            sentence = (
                f"generation {body.generation} of group {state.key} assigns {taken[0]} to {given[taken[0]]} while "
                f"{node}, as member {owned.member}, still owns it"
            )
            if owned.member in body.members and node in state.static and body.generation == state.timed_out:
                found = self.excused("static", state.key, sentence, owned.by, event)
                continue
            anew = [member for member in joined if member not in owned.known]
            if owned.member in body.members or anew:
                sentence += f", though it has joined anew as {anew[0]}" if owned.member not in body.members else ""
                return self.violated(state.key, sentence, owned.by, event)
            found = self.excused("fenced", state.key, sentence, owned.by, event)
        return found

    def _took(self, state: Owners, event: Stamped, body: ConsOwn) -> Emissions:
        state.tested += 1
        known = state.assigned.get(body.generation, [])
        if not any(body.member in each.assignment for each in known):
            # Its coordinator was replaced before it knew that this was committed: the next one found it in its log.
            known = [*known, *state.loaded.get(body.generation, [])]
        if not known and state.may_have_forgotten(body.generation):
            return NOTHING
        members = {member for each in known for member in each.assignment}
        if not known or (members and body.member not in members):
            wrong = "in which it is no member" if known else "which was never stable"
            sentence = (
                f"{event.node}, as {body.member}, took {', '.join(body.owned) or 'nothing'} in generation "
                f"{body.generation} of group {state.key}, {wrong}"
            )
            return self.violated(state.key, sentence, known[-1].by if known else None, event)
        if any(sorted(each.assignment.get(body.member, [])) == sorted(body.owned) for each in known):
            return NOTHING
        by = known[-1].by
        given = known[-1].assignment.get(body.member, [])
        sentence = (
            f"{event.node}, as {body.member}, took {', '.join(body.owned) or 'nothing'} in generation "
            f"{body.generation} of group {state.key}; its assignment is {', '.join(given) or 'empty'}"
        )
        return self.violated(state.key, sentence, by, event)


def _give(known: dict[int, list[Assigned]], generation: int, assigned: Assigned) -> None:
    of_generation = known.pop(generation, [])
    known[generation] = of_generation
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
    of_generation.append(assigned)
    del of_generation[:-REMEMBERED]


def _overlap(node: str, group: str, generation: int, members: list[str], assignment: dict[str, list[str]]) -> str:
    """What is wrong with an assignment by itself, "" nothing."""
    given: dict[str, str] = {}
    for member, tps in assignment.items():
        if member not in members and tps:
            given_to = f"{node} assigned {', '.join(tps)} to {member}"
            return f"{given_to}, which is no member of group {group} in generation {generation}"
        for tp in tps:
            if given.setdefault(tp, member) != member:
                return (
                    f"{node} assigned {tp} both to {given[tp]} and to {member} in generation {generation} of group "
                    f"{group}"
                )
    return ""


class Numbers(State):
    """committed: coordinator epoch -> the highest generation that became stable under it; reached: coordinator epoch ->
    the last generation under it. members: node -> the last generation of the member that it is. losses: what the
    offsets partition may lack."""

    committed: dict[int, Generation] = {}
    reached: dict[int, Generation] = {}
    members: dict[str, Generation] = {}
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)


class GenerationsMoveForward(KeyedInvariant[Numbers]):
    """The generation distinguishes current members from former ones. If it goes back, the commit of a former member
    passes for a current one.

    Example: generation 7 of group g was stable, broker-3 takes over as its coordinator and begins generation 6. Or
    broker-1 forms generation 7 again when consumer-2 has joined. A generation that was never stable may recur with
    another coordinator: it has no commits.
    """

    id = "O5"
    title = "Generations of a group move forward, at its coordinators and at its members"
    source = "kafka-tlaplus, ClientSideMemberEpochIsMonotonic; Kafka's ClassicGroup.initNextGeneration"
    tested_when = "a group enters another state, or a member takes its assignment, after an earlier generation"
    route = GROUP
    types = (GrpGen, ConsOwn)
    of_groups = True
    exemptions = OFFSETS_LOSSES
    unseen = ("a group that was removed when it was empty, and is created again: its generations restart",)

    @property
    def news(self) -> tuple[type, ...]:
        return (NodeUp, NodeDown, PartChange)

    def initial(self, key: str, profile: Profile) -> Numbers:
        return Numbers(key, losses=offsets_losses(profile))

    def hear(self, state: Numbers, event: Stamped) -> Emissions:
        if type(event.body) is NodeUp:
            state.members.pop(event.node, None)
        else:
            state.losses.take(event)
        return NOTHING

    def step(self, state: Numbers, event: Stamped) -> Emissions:
        body: Any = event.body
        return self._member(state, event, body) if type(body) is ConsOwn else self._coordinator(state, event, body)

    def _coordinator(self, state: Numbers, event: Stamped, body: GrpGen) -> Emissions:
        epoch, number = body.coordinator_epoch, body.generation
        losses = state.losses.count(body.tp)
        entered = Generation(body.state, number, list(body.members), witness(event), losses)
        last = state.reached.get(epoch)
        if body.state == "Dead":
            if last is None and body.reason == GROUP_EXPIRED:
                # It has read the group from its log, as an earlier coordinator had it last.
                last = state.reached.get(max((of for of in state.reached if of < epoch), default=-1))
            if last is not None and last.state == "Empty":
                state.committed.clear()
                state.reached.clear()
            return NOTHING
        older = [(of, each) for of, each in state.committed.items() if of < epoch]
        newer = [(of, each) for of, each in state.reached.items() if of > epoch]
        floor_epoch, floor = max(older, key=lambda known: known[1].number, default=(-1, None))
        ceiling = min((each for _, each in newer), key=_number, default=None) if body.state == "Stable" else None
        state.tested += last is not None or floor is not None
        _remember(state.reached, epoch, entered)
        if body.state == "Stable":
            _remember(state.committed, epoch, entered)
        rule = ""
        # Who forms a generation raises the number; whoever moves within one keeps it.
        least = number - 1 if _is_formed(last, body) else number
        if last is not None and least < last.number:
            wrong, by = f"after generation {last.number}", last.by
        elif floor is not None and least < floor.number:
            wrong, by = f"although generation {floor.number} had been stable before", floor.by
            rule = state.losses.rule(body.tp, floor_epoch, since=floor.losses)
        elif ceiling is not None and number > ceiling.number:
            wrong, by = f"although its next coordinator went on with generation {ceiling.number}", ceiling.by
            rule = state.losses.rule(body.tp, epoch)
        else:
            return NOTHING
        sentence = (
            f"{event.node} moved group {state.key} to {body.state} in generation {number}, in leader epoch {epoch} of "
            f"{body.tp}, {wrong}"
        )
        if rule:
            return self.excused(rule, state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)

    def _member(self, state: Numbers, event: Stamped, body: ConsOwn) -> Emissions:
        if body.reason in ("lost", "leave"):
            state.members.pop(event.node, None)
            return NOTHING
        if body.reason != "assign":
            return NOTHING
        last = state.members.get(event.node)
        state.members[event.node] = Generation("Stable", body.generation, [body.member], witness(event))
        if last is None or last.members != [body.member]:
            return NOTHING
        state.tested += 1
        if body.generation >= last.number:
            return NOTHING
        sentence = (
            f"{event.node} took the assignment of {body.member} in generation {body.generation} of group {state.key} "
            f"after the one in generation {last.number}"
        )
        return self.violated(state.key, sentence, last.by, event)


def _is_formed(last: Generation | None, body: GrpGen) -> bool:
    """Whether a rebalance has just come to its end: the group has a new generation, of members or of none."""
    return body.state == "CompletingRebalance" or (
        body.state == "Empty" and last is not None and last.state == "PreparingRebalance"
    )


def _number(generation: Generation) -> int:
    return generation.number
