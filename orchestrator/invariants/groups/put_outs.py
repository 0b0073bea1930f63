"""Whom a coordinator puts out of a group, and after how long: the lower bounds of its waits."""

from __future__ import annotations

import msgspec

from actors.trace.events import REBALANCE_TIMEOUT, GrpGen, GrpOut, Stamped
from orchestrator.invariants.folds.fold import Profile, Witness, witness
from orchestrator.invariants.folds.memory import SESSIONS_REMEMBERED, remember
from orchestrator.invariants.folds.pauses import EARLY_US

SESSION, REBALANCE, MAX_SIZE = "session.timeout.ms", "max.poll.interval.ms", "group.max.size"
INSTANCE = "group.instance.id"
NEW_MEMBER_US = 300_000_000
"""How long a member that has never been in a generation may wait for one (Kafka's NEW_MEMBER_JOIN_TIMEOUT_MS)."""


class Began(msgspec.Struct, frozen=True):
    """A wait of a coordinator: when it began at the earliest, how long it lasts at least, and with what."""

    wall_us: int
    least_us: int
    by: Witness

    def early_us(self, now_us: int) -> int:
        """By how much it is too short if it ends now; 0 or less: it is not."""
        return self.wall_us + self.least_us - EARLY_US - now_us


class Present(msgspec.Struct):
    """Whom a coordinator has told of last. members: member id -> client, of those that it has not put out since; outs:
    the clients of those that it has."""

    members: dict[str, str]
    by: Witness
    outs: list[str] = []


class PutOuts(msgspec.Struct):
    """What the coordinators of a group have waited for. session_us, rebalance_us: client -> how long it may be silent,
    and take to join again. instances: client -> the static member that it is; max_size, largest: how many members the
    group may have, at the broker that allows the fewest, and the most. joining, syncing: broker -> its last rebalance,
    and its last generation; sessions: "broker member" -> when the session of the member began anew, as far as that is
    told; first_us: client -> when it started first; present: broker -> whom it has as members, while it coordinates.
    skewed: brokers with a clock that was set."""

    session_us: dict[str, int] = {}
    rebalance_us: dict[str, int] = {}
    instances: dict[str, str] = {}
    max_size: int = 0
    largest: int = 0
    joining: dict[str, Began] = {}
    syncing: dict[str, Began] = {}
    sessions: dict[str, Began] = {}
    first_us: dict[str, int] = {}
    present: dict[str, Present] = {}
    skewed: set[str] = set()

    def is_one(self, client: str) -> bool:
        """Whether no other client is the same static member."""
        mine = self.instances.get(client)
        return mine is None or list(self.instances.values()).count(mine) == 1

    # ---- what is waited for ---------------------------------------------------------------------------------

    def moved(self, event: Stamped, body: GrpGen) -> None:
        """A coordinator begins to wait for its members, or forms a generation: all sessions begin anew then."""
        clients = list(body.members.values())
        longest_us = max((self.rebalance_us.get(each, 0) for each in clients), default=0)
        began = Began(event.wall, longest_us, witness(event))
        if body.state == "PreparingRebalance":
            self.joining[event.node] = began
        elif body.state == "CompletingRebalance":
            self.syncing[event.node] = began
            self.heard(event, body.members)

    def heard(self, event: Stamped, members: dict[str, str]) -> None:
        """The sessions of these members, all that a coordinator has, begin anew: it has loaded them, for instance."""
        for member, client in members.items():
            if client in self.session_us:
                began = Began(event.wall, self.session_us[client], witness(event))
                remember(self.sessions, f"{event.node} {member}", began, SESSIONS_REMEMBERED)

    def tells(self, event: Stamped, members: dict[str, str]) -> None:
        """A coordinator has these members."""
        self.present[event.node] = Present(dict(members), witness(event))

    # ---- what comes of it -----------------------------------------------------------------------------------

    def vanished(self, event: Stamped, body: GrpGen) -> tuple[str, Witness] | None:
        """What is wrong with who is no member any more, and who said that it is."""
        before = self.present.pop(event.node, None)
        if body.state == "Dead":
            return None
        self.tells(event, body.members)
        if before is None or len(body.members) + len(before.outs) >= self.max_size:
            return None  # who is refused for the size of the group is no member any more, and nothing tells so
        clients = [*body.members.values(), *before.outs]
        gone = [
            member
            for member, client in before.members.items()
            if member not in body.members and not self._is_replaced(client, clients)
        ]
        if not gone:
            return None
        sentence = (
            f"{event.node} moved group {body.group} to {body.state} in generation {body.generation} without the "
            f"member{'s' * (len(gone) > 1)} {', '.join(gone)}, which it had before and did not put out"
        )
        return sentence, before.by

    def too_many(self, event: Stamped, body: GrpGen) -> tuple[str, Witness] | None:
        """What is wrong with how many members a generation has, and who said what it had before. A static member that
        has not joined stays, and does not count when others do."""
        before, members = self.present.get(event.node), body.members.values()
        if body.state != "CompletingRebalance" or len(members) <= self.largest or before is None:
            return None
        if any(each in self.instances for each in members):
            return None
        sentence = (
            f"{event.node} formed generation {body.generation} of group {body.group} with {len(members)} members, "
            f"though {MAX_SIZE} is {self.largest}"
        )
        return sentence, before.by

    def _is_replaced(self, client: str, by: list[str]) -> bool:
        """Whether a static member has come back under another id."""
        return client in self.instances and any(self.instances.get(each) == self.instances[client] for each in by)

    def ended_early(self, event: Stamped, body: GrpGen) -> tuple[str, Witness] | None:
        """What is wrong with the end of a rebalance, and since when it was under way."""
        began = self.joining.get(event.node)
        if not (body.reason == REBALANCE_TIMEOUT or body.absent) or began is None or event.node in self.skewed:
            return None
        if body.state not in ("CompletingRebalance", "Empty") or began.early_us(event.wall) <= 0:
            return None
        if body.absent:
            sentence = (
                f"{event.node} formed generation {body.generation} of group {body.group} before "
                f"{', '.join(body.absent)} had joined, {_ms(event.wall - began.wall_us)} after the rebalance began, "
                f"though a member may take {_ms(began.least_us)}"
            )
            return sentence, began.by
        sentence = (
            f"{event.node} formed generation {body.generation} of group {body.group} without the members that had not "
            f"joined {_ms(event.wall - began.wall_us)} after the rebalance began, though a member may take "
            f"{_ms(began.least_us)}"
        )
        return sentence, began.by

    def put_out(self, event: Stamped, body: GrpOut, static: list[str]) -> tuple[str, list[Witness]] | None:
        """What is wrong with putting out a member, and what it had to wait for."""
        what = f"{event.node} put {body.member}, a member of {body.client}, out of group {body.group}"
        if (known := self.present.get(event.node)) is not None:
            known.members.pop(body.member, None)
            known.outs.append(body.client)
        if body.why == "join" and body.client in static:
            return f"{what} in a rebalance which it did not join, though it is a static member", []
        if event.node in self.skewed:
            return None
        if body.why == "session":
            return self._silenced(event, body, what)
        began = {"sync": self.syncing, "join": self.joining}.get(body.why, {}).get(event.node)
        if began is None or began.early_us(event.wall) <= 0:
            return None
        waited = f"{_ms(event.wall - began.wall_us)} after " + (
            "its generation was formed, for it had not synced"
            if body.why == "sync"
            else "its rebalance began, for it had not joined"
        )
        return f"{what} {waited}, though a member may take {_ms(began.least_us)}", [began.by]

    def _silenced(self, event: Stamped, body: GrpOut, what: str) -> tuple[str, list[Witness]] | None:
        if body.waits and not body.is_new:
            return f"{what} for its silence, though it waited for the answer to its JoinGroup or SyncGroup", []
        first_us = self.first_us.get(body.client, -1)
        if body.is_new:
            if first_us < 0 or event.wall >= first_us + NEW_MEMBER_US - EARLY_US:
                return None
            waited = _ms(event.wall - first_us)
            return f"{what} for its silence, though it is new, and its client has run for {waited} at the most", []
        began = self.sessions.get(f"{event.node} {body.member}")
        if began is None or began.early_us(event.wall) <= 0:
            return None
        waited = _ms(event.wall - began.wall_us)
        limit = f"its {SESSION} is {_ms(began.least_us)}"
        return f"{what} for its silence {waited} after it began to wait for its heartbeats, though {limit}", [began.by]


def put_outs(key: str, profile: Profile) -> PutOuts:
    """Of a group, before anything has happened."""
    sessions, rebalances = {}, {}
    # Version 0 of JoinGroup has no time-out of its own for a rebalance.
    without = profile.is_older("JoinGroup", 1, "", *profile.nodes)
    for client in profile.groups.get(key, {}).get("members", []):
        session_us = 1000 * profile.number(SESSION, client)
        rebalance_us = 1000 * profile.number(REBALANCE, client)
        sessions[client] = session_us
        rebalances[client] = min(session_us, rebalance_us) if without else rebalance_us
    instances = {node: str(profile.setting(INSTANCE, node, "")) for node in profile.nodes}
    sizes = [profile.number(MAX_SIZE, node) for node in ("", *profile.nodes)]
    static = {node: each for node, each in instances.items() if each}
    return PutOuts(sessions, rebalances, static, min(sizes), max(sizes))


def _ms(us: int) -> str:
    return f"{us // 1000:,} ms"
