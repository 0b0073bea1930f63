"""L11: groups that get together again."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.errors import TURNED_AWAY, KafkaError
from actors.trace.events import (
    MEMBERS_LEFT,
    ConsOwn,
    CtlFault,
    CtlPhase,
    CtlWindow,
    ErrorSeen,
    GrpGen,
    GrpLoad,
    NodeDown,
    NodeUp,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.routes import GROUP
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.liveness.removed_names import REMOVALS, RemovedNames
from orchestrator.invariants.mirrors.late_pushes import LATE_PUSH, LATE_PUSH_RULE, LatePushes

STABLE = "stable"
"""The one obligation of a group."""


class Seen(msgspec.Struct, frozen=True):
    """A group as its coordinator of a leader epoch told last. clients: those that are members."""

    state: str
    generation: int
    coordinator_epoch: int
    clients: list[str]
    by: Witness


class Gathering(WindowState):
    """expected: clients that are to be members, and partitions, all that are to be owned. running: those of them that
    run; away: whose consumers were closed. owned: client -> what it has. ids: client -> its newest member id.
    forgotten: static members -> the id of theirs of which the coordinator in office knows nothing: it has loaded the
    one before, a former coordinator gave the new one meanwhile, or it took up an older JoinGroup after a newer one.
    disconnected: members that lost a connection to a broker since they were last assigned something. fenced: those that
    got FENCED_INSTANCE_ID since then. pushes: of UpdateMetadata. removed: topics that are gone. seen: the newest
    coordinator's word. stalling: members whose applications stop polling for longer than they may; unwelcome: members
    that a coordinator may turn away for good."""

    expected: list[str] = []
    partitions: list[str] = []
    running: set[str] = set()
    away: set[str] = set()
    ids: dict[str, str] = {}
    owned: dict[str, list[str]] = {}
    forgotten: dict[str, str] = {}
    disconnected: set[str] = set()
    fenced: set[str] = set()
    pushes: LatePushes = msgspec.field(default_factory=LatePushes)
    removed: RemovedNames = msgspec.field(default_factory=RemovedNames)
    seen: Seen | None = None
    stopping: bool = False
    stalling: list[str] = []
    unwelcome: list[str] = []

    @property
    def members(self) -> list[str]:
        """Who is to be a member now."""
        return [each for each in self.expected if each in self.running and each not in self.away]

    @property
    def missing(self) -> list[str]:
        """Who is to be a member, and is none."""
        return [each for each in self.members if self.seen is None or each not in self.seen.clients]

    def lacks(self) -> str:
        """What is not yet as it is to be, "" nothing."""
        if self.seen is None or self.seen.state != "Stable":
            return f"it is {self.seen.state}" if self.seen is not None else "it was never formed"
        if missing := self.missing:
            return f"{missing[0]} is no member"
        has = [tp for each in self.members for tp in self.owned.get(each, ())]
        if nobodys := [tp for tp in self.partitions if tp not in has and tp not in self.removed.gone]:
            return f"nobody owns {nobodys[0]}"
        return ""


def _is_static(member: str, client: str) -> bool:
    """Whether a member id is of a static member: it begins with the instance's name, not with the client's."""
    return not member.startswith(f"{client}-")


class GroupsGetTogether(WindowInvariant[Gathering]):
    """A group that never becomes stable reads nothing, or reads only some partitions, for ever.

    Example: consumer-2 joined, the coordinator waits for consumer-1 to join again, and it never does although both are
    up and in reach; or generation 9 is stable and no member owns orders-1.
    """

    id = "L11"
    title = "A group with all its members present becomes stable, and every partition is owned by one of them"
    source = "KIP-848, EventuallyConverges; KAFKA-12890; KIP-62"
    tested_when = "a group that was not stable becomes so, with all partitions owned, in a window"
    route = GROUP
    types = (GrpGen, GrpLoad, ConsOwn)
    of_groups = True
    exemptions = {
        "fenced-static-member": "A static member had rejoined under another member id, and its coordinator ended "
        "before that generation was in the log, or was no longer in office: the next coordinator knows only the "
        "former id. Or the member lost its connection and asked again to join, and the coordinator took up its older "
        "JoinGroup last. Each time the coordinator fences the member (FENCED_INSTANCE_ID), which ends Kafka's "
        "consumer for good.",
        LATE_PUSH_RULE: LATE_PUSH,
    }
    unseen = (
        "a group with a member outside the core: the group may wait for it",
        "a group without any event",
        "partitions that are added to a topic while it is read",
        (
            "a group that is not stable for long because its applications do not poll: the bound begins anew each time "
            "that a member leaves whose workload stalls for longer than max.poll.interval.ms"
        ),
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, CtlFault, CtlPhase, ErrorSeen, NodeUp, NodeDown, *REMOVALS)

    def initial(self, key: str, profile: Profile) -> Gathering:
        group = profile.groups.get(key, {})
        members, partitions = list(group.get("members", [])), list(group.get("partitions", []))
        pushes = LatePushes.of(profile)
        return Gathering(
            key,
            beta_us=beta(profile, self.id),
            expected=members,
            partitions=partitions,
            pushes=pushes,
            stalling=profile.stalling,
            unwelcome=profile.unwelcome,
        )

    def hear(self, state: Gathering, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is ErrorSeen:
            return self._error(state, event, body)
        if kind is NodeUp or kind is NodeDown:
            if event.node not in state.expected:
                return NOTHING
            state.owned.pop(event.node, None)
            state.forgotten.pop(event.node, None)
            for each in (state.away, state.disconnected, state.fenced):
                each.discard(event.node)
            if kind is NodeUp:
                state.running.add(event.node)
            else:
                state.running.discard(event.node)
            return self._judge(state, event)
        if kind in REMOVALS:
            if state.removed.take(event):
                self.void(state, STABLE)  # the bound begins anew: the group has to hear of the topic
            return self._judge(state, event)
        if kind is CtlFault:
            state.pushes.take(body)
            return NOTHING
        if kind is CtlPhase:
            if body.phase in ("stopping", "draining", "finished"):
                state.stopping = True  # clients leave
                state.due.clear()
            return NOTHING
        return super().hear(state, event)

    def _error(self, state: Gathering, event: Stamped, body: ErrorSeen) -> Emissions:
        if event.node in state.expected:
            if event.node in state.unwelcome and body.error in TURNED_AWAY:
                state.away.add(event.node)
                return self._judge(state, event)
            if body.error == KafkaError.NETWORK_EXCEPTION:
                state.disconnected.add(event.node)
            elif body.error == KafkaError.FENCED_INSTANCE_ID:
                state.fenced.add(event.node)
        return NOTHING

    def look(self, state: Gathering, event: Stamped) -> None:
        if type(event.body) is CtlWindow:
            self.void(state, STABLE)
            self._oblige(state, event)

    def step(self, state: Gathering, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is ConsOwn:
            state.owned[event.node] = list(body.owned)
            if body.reason == "leave":
                self.void(state, STABLE)
                state.away.add(event.node)
            elif body.reason == "join":
                self._back(state, event.node)
            elif body.reason == "assign":
                self._back(state, event.node)
                state.disconnected.discard(event.node)
                state.fenced.discard(event.node)
        elif type(body) is GrpGen:
            if self._left(state, body):
                self.void(state, STABLE)
            self._told(state, event, body.coordinator_epoch, (body.state, body.generation), body.members)
        elif body.loaded and state.key in body.groups:
            # It goes on with what its log has, and moves the group into no other state for that.
            for member, client in body.members.get(state.key, {}).items():
                newest = state.ids.get(client, member)
                if newest != member and _is_static(newest, client):
                    state.forgotten[client] = newest
            self._told(state, event, body.coordinator_epoch, body.groups[state.key], body.members.get(state.key, {}))
        return self._judge(state, event)

    def _left(self, state: Gathering, body: GrpGen) -> bool:
        """Whether members asked to leave whose applications do not poll for longer than max.poll.interval.ms again and
        again. No group gets together while its members do that by turns."""
        if state.seen is None or body.coordinator_epoch < state.seen.coordinator_epoch:
            return False
        gone = [each for each in state.seen.clients if each not in body.members.values()]
        return body.reason.startswith(MEMBERS_LEFT) and any(each in state.stalling for each in gone)

    def _told(
        self, state: Gathering, event: Stamped, epoch: int, now: tuple[str, int], members: dict[str, str]
    ) -> None:
        """The word of a coordinator. A member that is away is only not given up yet, under whatever id: the coordinator
        may not have said before that it took it up. A consumer that is made anew says so itself."""
        if state.seen is not None and epoch < state.seen.coordinator_epoch:
            for member, client in members.items():
                if _is_static(member, client) and member != state.ids.get(client, member):
                    state.forgotten[client] = member
            return
        state.seen = Seen(*now, epoch, list(members.values()), witness(event))
        for member, client in members.items():
            former = state.ids.get(client, member)
            if state.forgotten.get(client) == member:
                del state.forgotten[client]
            elif former != member and _is_static(member, client) and client in state.disconnected:
                state.forgotten[client] = former
            state.ids[client] = member

    def _back(self, state: Gathering, client: str) -> None:
        """Who comes and goes of itself has the others begin anew."""
        if client in state.away:
            state.away.discard(client)
            self.void(state, STABLE)

    def _judge(self, state: Gathering, event: Stamped) -> Emissions:
        if state.stopping or state.since_us < 0:
            return NOTHING
        if not self._concerned(state):
            self.void(state, STABLE)
        elif not state.lacks():
            self.kept(state, STABLE)
        else:
            self._oblige(state, event)
        return NOTHING if state.armed_us >= 0 else self.arm(state)

    def _concerned(self, state: Gathering) -> bool:
        """Whether all who are to be members are in the core. Those that are left when one leaves go on without it."""
        return bool(state.members) and all(each in state.core for each in state.members)

    def _oblige(self, state: Gathering, event: Stamped) -> None:
        if not state.stopping and state.since_us >= 0 and self._concerned(state) and state.lacks():
            self.oblige(state, STABLE, event)

    def missed(self, state: Gathering, name: str, obligation: Obligation) -> Emissions:
        sentence = (
            f"group {state.key} of {', '.join(state.members)} did not become stable {self.within(state)}: "
            f"{state.lacks()}"
        )
        seen = None if state.seen is None else state.seen.by
        if state.missing and all(each in state.forgotten and each in state.fenced for each in state.missing):
            return self.excused("fenced-static-member", state.key, sentence, obligation.by, seen)
        if state.pushes.possible:
            return self.excused(LATE_PUSH_RULE, state.key, sentence, obligation.by, seen)
        return self.violated(state.key, sentence, obligation.by, seen)
