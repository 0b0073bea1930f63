"""O9: for whom a coordinator waits, and for how long."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.trace.events import (
    ClockSet,
    ConsOwn,
    CtlFault,
    GrpGen,
    GrpLoad,
    GrpOut,
    NodeDown,
    NodeUp,
    Stamped,
)
from orchestrator.invariants.folds.bounds import SLACK_US, longest_ms
from orchestrator.invariants.folds.broken_links import BrokenLinks, Cuts
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
from orchestrator.invariants.folds.memory import SESSIONS_REMEMBERED, forget_first, touch
from orchestrator.invariants.folds.routes import GROUP
from orchestrator.invariants.groups.first_rebalances import DELAY, FirstRebalances, first_rebalances
from orchestrator.invariants.groups.put_outs import PutOuts, put_outs
from orchestrator.invariants.groups.servers import SERVED_US, Servers
from orchestrator.invariants.mirrors.stops import Stops

Wait = Literal["", "join", "sync", "member"]


class Bounds(msgspec.Struct, frozen=True):
    """How long a coordinator waits at the most, microseconds: for members to join, for members to sync and for what the
    leader assigns to be committed, for a member of which it hears nothing."""

    join_us: int = 0
    sync_us: int = 0
    member_us: int = 0


class Word(msgspec.Struct, frozen=True):
    """What the newest coordinator said of the group last. members: member id -> client. loaded: it had read that from
    its log."""

    node: str
    epoch: int
    state: str
    generation: int
    members: dict[str, str]
    wall_us: int
    by: Witness
    loaded: bool = False


class Waits(State):
    """word: None while nobody coordinates. running: clients that run. clients: member id -> client, of all that a
    coordinator told of; gone: member id -> since when nobody has it any more. stops: faults that touch a node's
    clock. links: faults of links, of any kind; cuts: whom nobody can hear. servers: whether something disturbs them.
    first: of rebalances of an empty group. armed_us: when it is looked at next, -1 never."""

    bounds: Bounds = Bounds()
    static: list[str] = []
    word: Word | None = None
    running: set[str] = set()
    clients: dict[str, str] = {}
    gone: dict[str, int] = {}
    stops: Stops = msgspec.field(default_factory=Stops)
    links: BrokenLinks = msgspec.field(default_factory=BrokenLinks)
    cuts: Cuts = msgspec.field(default_factory=Cuts)
    servers: Servers = msgspec.field(default_factory=Servers)
    out: PutOuts = msgspec.field(default_factory=PutOuts)
    first: FirstRebalances = msgspec.field(default_factory=FirstRebalances)
    armed_us: int = -1

    def silent(self, word: Word) -> list[str]:
        """Members that are gone, by when the coordinator has heard the last of them."""
        gone = [each for each in word.members if each in self.gone]
        return sorted(gone, key=lambda each: self.heard_us(word, each))

    def heard_us(self, word: Word, member: str) -> int:
        """Until when a coordinator may have heard of a member that is gone: what it sent may be on its way."""
        client = word.members[member]
        arrived_us = self.links.whole_since_us(client, word.node)
        return max(self.gone[member], arrived_us, self.stops.free_us(client) if client in self.running else 0)

    def is_silenced(self, word: Word, member: str) -> bool:
        """Whether a fault still has what a member that is gone sent, or the client that had it and is up."""
        client = word.members[member]
        return (client in self.running and self.stops.has(client)) or self.links.are_between(client, word.node)

    def cut_off(self, word: Word) -> list[tuple[int, str]]:
        """Members whose clients are cut off from the coordinator, each with until when it may have heard of them. A
        word of the coordinator that it had not read from its log shows that it could commit then."""
        undisturbed = self.servers.are_undisturbed(word.wall_us, self.links.left.all_us)
        if word.loaded or word.node in self.out.skewed or not undisturbed:
            return []
        members = ((self.cuts.since_us(client, word.node), each, client) for each, client in word.members.items())
        return [
            (cut_us + SERVED_US, each) for cut_us, each, client in members if cut_us >= 0 and self.out.is_one(client)
        ]

    def unheard(self, word: Word) -> tuple[int, str, str]:
        """Until when the coordinator may have heard of a member that it does not hear any more, which one that is, and
        why; -1 there is none."""
        silent = [each for each in self.silent(word) if not self.is_silenced(word, each)]
        gone = [(self.heard_us(word, each), each, "is gone") for each in silent[:1]]
        cut_off = [(heard_us, each, "is cut off from it") for heard_us, each in self.cut_off(word)]
        return min([*gone, *cut_off], default=(-1, "", ""))

    def wait(self) -> tuple[Wait, int]:
        """For what the coordinator waits, and until when at the most (microseconds); "" for nothing that ends by
        itself."""
        word = self.word
        if word is None or self.stops.has(word.node):
            return "", -1
        since_us = max(word.wall_us, self.stops.free_us(word.node))
        if word.state == "PreparingRebalance" and not any(each in self.static for each in word.members.values()):
            return "join", since_us + self.bounds.join_us
        if word.state == "CompletingRebalance":
            return "sync", since_us + self.bounds.sync_us
        heard_us, member, _ = self.unheard(word)
        if member and word.state == "Stable":
            return "member", max(since_us, heard_us) + self.bounds.member_us
        return "", -1


class CoordinatorsWaitAsAsked(KeyedInvariant[Waits]):
    """Members state how long they may take to join again, and how long they may be silent. A coordinator that waits
    longer blocks the whole group for a member that will not come, or leaves partitions to dead members. One that waits
    less, or that counts a missing member, gives partitions to a member that does not know of it.

    Example: consumer-2 died, and its session.timeout.ms is 2 s; half a minute later broker-1, which has been
    coordinator all the time, still has it among the members of the stable generation 4. Or consumer-2 is up, but has
    been cut off from broker-1 for half a minute. Or broker-1 has waited since the beginning of the rebalance for
    consumer-2 to join, whose max.poll.interval.ms is long over. Or generation 5 is formed with consumer-2, a dynamic
    member, which has not joined; or without it, though its max.poll.interval.ms is not over; or without it, though it
    was in generation 4 and nobody has put it out. Or a new coordinator puts consumer-2 out a second after it has read
    its log. Or nobody but consumer-1 has joined an empty group, and the group.initial.rebalance.delay.ms is half a
    second; broker-1 forms the first generation three seconds later.
    """

    id = "O9"
    title = "A coordinator waits for its members as long as they asked for, and then goes on without the missing ones"
    source = (
        "KIP-62; KIP-134; KIP-345; GroupMetadataManager.java, completeClassicGroupJoin, "
        "expireClassicGroupMemberHeartbeat, tryCompleteInitialRebalanceElseSchedule"
    )
    tested_when = (
        "a coordinator ends a wait, for members to join, to sync, or for a silent member, or puts a member out"
    )
    route = GROUP
    types = (GrpGen, GrpLoad, GrpOut, ConsOwn)
    of_groups = True
    unseen = (
        (
            "groups with static members: the coordinator waits for absent static members as long as there is no other "
            "member"
        ),
        (
            "members whose clients are up, and that are silent for another reason than a partition of links from their "
            "client to the coordinator"
        ),
        (
            "members whose clients are cut off, with a coordinator that has read its log since, or while servers are "
            "disturbed: what had arrived may wait behind a request whose commit takes long"
        ),
        (
            "silent members while other faults affect the links of their client to the coordinator: requests may "
            "arrive late"
        ),
        (
            "static members whose group.instance.id several clients have, and whose client is cut off or ends: another "
            "one may have their place"
        ),
        "members that are gone while others wait for an assignment, or to join again: these waits end in any case",
        "members that are put out too early, after a heartbeat that their coordinator has answered: O10 judges that",
        "waits that are too short at a broker whose clock was set",
        "members that vanish where the group may have group.max.size members: who is refused for that vanishes",
        "first rebalances at a broker whose clock was set",
        "rebalances that do not wait for who was given a member id and has not joined with it: nothing tells of it",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (NodeUp, NodeDown, CtlFault, ClockSet)

    def initial(self, key: str, profile: Profile) -> Waits:
        session_ms = longest_ms(profile, "session.timeout.ms", "consumer")
        # Version 0 of JoinGroup has no time-out of its own for that: its members may take as long as their session.
        rebalance_ms = max(session_ms, longest_ms(profile, "max.poll.interval.ms", "consumer"))
        initial_ms = longest_ms(profile, DELAY)
        commit_ms = longest_ms(profile, "offsets.commit.timeout.ms")
        bounds = Bounds(
            SLACK_US + 1000 * (rebalance_ms + initial_ms),
            SLACK_US + 1000 * (rebalance_ms + commit_ms),
            SLACK_US + 1000 * session_ms,
        )
        static = [node for node in profile.nodes if profile.setting("group.instance.id", node, "")]
        return Waits(key, bounds=bounds, static=static, out=put_outs(key, profile), first=first_rebalances(profile))

    # ---- the run --------------------------------------------------------------------------------------------

    def hear(self, state: Waits, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind in (NodeUp, NodeDown):
            state.out.present.pop(event.node, None)
            state.first.ended(event.node)
        if kind is ClockSet:
            state.out.skewed.add(event.node)
        elif kind is CtlFault:
            state.stops.take(event, body)
            for each in (state.links, state.cuts, state.servers):
                each.take(body, event.wall)
        elif kind is NodeUp:
            state.running.add(event.node)
            state.out.first_us.setdefault(event.node, event.wall)
        else:
            state.running.discard(event.node)
            state.servers.ended(event.node, event.wall)
            if state.word is not None and event.node == state.word.node:
                state.word = None
            its = [member for member, client in state.clients.items() if client == event.node]
            self._went(state, event, its if state.out.is_one(event.node) else [])
        return self._arm(state)

    def _went(self, state: Waits, event: Stamped, members: list[str]) -> None:
        for member in members:
            state.gone.setdefault(member, event.wall)
        forget_first(state.gone, SESSIONS_REMEMBERED)

    # ---- the group ------------------------------------------------------------------------------------------

    def step(self, state: Waits, event: Stamped) -> Emissions:
        body: Any = event.body
        found: Emissions = NOTHING
        if type(body) is ConsOwn:
            self._heard_from(state, event, body)
        elif type(body) is GrpGen:
            found = [*self._ended(state, event, body), *self._moved(state, event, body)]
        elif type(body) is GrpOut:
            found = self._put_out(state, event, body)
        elif body.loaded:
            state.first.loaded(event, body, state.key)
            state.out.heard(event, body.members.get(state.key, {}))
            state.out.tells(event, body.members.get(state.key, {}))
            now, generation = body.groups.get(state.key, ("Empty", 0))
            word = (body.coordinator_epoch, now, generation)
            self._told(state, event, word, body.members.get(state.key, {}), loaded=True)
        return [*found, *self._arm(state)]

    def _heard_from(self, state: Waits, event: Stamped, body: ConsOwn) -> None:
        """A member leaves. One with a group.instance.id that begins anew, or gives that up, takes the place of its
        former self, with a session of its own: the coordinator tells of its new id only when that is committed."""
        if event.node in state.static and body.reason in ("join", "leave"):
            former = [member for member, client in state.clients.items() if client == event.node]
            state.gone.update({member: event.wall for member in former if member in state.gone})
        if body.reason == "leave" and body.member:
            self._went(state, event, [body.member])

    def _ended(self, state: Waits, event: Stamped, body: GrpGen) -> Emissions:
        """A rebalance may have ended too early, too late, or without somebody, and another wait begins."""
        first = state.first.moved(event, body, state.stops, state.out.skewed)
        out = state.out
        wrong = (out.ended_early(event, body), out.too_many(event, body), out.vanished(event, body), first)
        out.moved(event, body)
        return [each for found in wrong if found is not None for each in self.violated(state.key, *found, event)]

    def _put_out(self, state: Waits, event: Stamped, body: GrpOut) -> Emissions:
        state.tested += body.why != "leave"
        state.first.put_out(event, body)
        wrong = state.out.put_out(event, body, state.static)
        return NOTHING if wrong is None else self.violated(state.key, wrong[0], *wrong[1], event)

    def _moved(self, state: Waits, event: Stamped, body: GrpGen) -> Emissions:
        before = state.word
        if before is not None and body.coordinator_epoch < before.epoch:
            return NOTHING
        same = before is not None and (before.node, before.state) == (event.node, body.state)
        if before is not None and before.node == event.node and not same:
            silent = bool(state.silent(before)) and before.state == "Stable"
            state.tested += silent or before.state in ("PreparingRebalance", "CompletingRebalance")
        word = (body.coordinator_epoch, body.state, body.generation)
        self._told(state, event, word, body.members)
        absent = [each for each in body.absent if body.members.get(each, "") not in state.static]
        if not absent:
            return NOTHING
        sentence = (
            f"{event.node} formed generation {body.generation} of group {state.key} with {', '.join(absent)}, which "
            "had sent no JoinGroup for it"
        )
        return self.violated(state.key, sentence, event)

    def _told(
        self,
        state: Waits,
        event: Stamped,
        word: tuple[int, str, int],
        members: dict[str, str],
        loaded: bool = False,
    ) -> None:
        epoch, now, generation = word
        for member, client in members.items():
            touch(state.clients, member, client)
        forget_first(state.clients, SESSIONS_REMEMBERED)
        if state.word is not None and epoch < state.word.epoch:
            return
        by = witness(event)
        state.word = Word(event.node, epoch, now, generation, dict(members), event.wall, by, loaded)
        # Whose client is down already was not known to be a member.
        down = [member for member, client in members.items() if client not in state.running]
        self._went(state, event, [member for member in down if state.out.is_one(members[member])])
        if now == "Dead":
            state.word = None

    # ---- deadlines ------------------------------------------------------------------------------------------

    def _arm(self, state: Waits) -> Emissions:
        wait, due_us = state.wait()
        if not wait or due_us == state.armed_us:
            return NOTHING
        state.armed_us = due_us
        return (Deadline(due_us),)

    def expire(self, state: Waits, at_us: int) -> Emissions:
        wait, due_us = state.wait()
        word = state.word
        if word is None or not wait or due_us > at_us:
            return NOTHING
        state.word = None  # said once
        seconds = (at_us - word.wall_us) / 1_000_000
        what = (
            f"group {state.key} has been {word.state} at {word.node} in generation {word.generation} for {seconds:.1f} "
            "s"
        )
        if wait == "member":
            _, member, why = state.unheard(word)
            sentence = f"{what}, although its member {member} {why}"
        else:
            sentence = f"{what}, longer than its members are given to {wait}"
        return self.violated(state.key, sentence, word.by)
