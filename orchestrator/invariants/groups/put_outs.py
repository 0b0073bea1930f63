"""Whom a coordinator puts out of a group, and after how long: the lower bounds of its waits."""

from __future__ import annotations

import msgspec

from actors.config import CONFIG
from actors.trace.events import REBALANCE_TIMEOUT, GrpGen, GrpOut, Stamped
from orchestrator.invariants.folds.fold import Profile, Witness, witness
from orchestrator.invariants.folds.memory import SESSIONS_REMEMBERED, remember
from orchestrator.invariants.folds.pauses import EARLY_US

SESSION, REBALANCE = "session.timeout.ms", "max.poll.interval.ms"
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


class PutOuts(msgspec.Struct):
    """What the coordinators of a group have waited for. session_us, rebalance_us: client -> how long it may be silent,
    and take to join again. joining, syncing: broker -> its last rebalance, and its last generation; sessions: "broker
    member" -> when the session of the member began anew, as far as that is told; first_us: client -> when it started
    first. skewed: brokers with a clock that was set."""

    session_us: dict[str, int] = {}
    rebalance_us: dict[str, int] = {}
    joining: dict[str, Began] = {}
    syncing: dict[str, Began] = {}
    sessions: dict[str, Began] = {}
    first_us: dict[str, int] = {}
    skewed: set[str] = set()

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

    # ---- what comes of it -----------------------------------------------------------------------------------

    def ended_early(self, event: Stamped, body: GrpGen) -> tuple[str, Witness] | None:
        """What is wrong with the end of a rebalance, and since when it was under way."""
        began = self.joining.get(event.node)
        if body.reason != REBALANCE_TIMEOUT or began is None or event.node in self.skewed:
            return None
        if body.state not in ("CompletingRebalance", "Empty") or began.early_us(event.wall) <= 0:
            return None
        sentence = (
            f"{event.node} formed generation {body.generation} of group {body.group} without the members that had not "
            f"joined {_ms(event.wall - began.wall_us)} after the rebalance began, though a member may take "
            f"{_ms(began.least_us)}"
        )
        return sentence, began.by

    def put_out(self, event: Stamped, body: GrpOut, static: list[str]) -> tuple[str, list[Witness]] | None:
        """What is wrong with putting out a member, and what it had to wait for."""
        what = f"{event.node} put {body.member}, a member of {body.client}, out of group {body.group}"
        if body.why == "join" and body.client in static:
            return f"{what} in a rebalance which it did not join, though it is a static member", []
        if event.node in self.skewed:
            return None
        if body.why == "session":
            return self._silenced(event, body, what)
        began = self.syncing.get(event.node)
        if body.why != "sync" or began is None or began.early_us(event.wall) <= 0:
            return None
        waited = f"{_ms(event.wall - began.wall_us)} after its generation was formed, for it had not synced"
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
        session_us = 1000 * int(profile.setting(SESSION, client, CONFIG[SESSION].default))
        rebalance_us = 1000 * int(profile.setting(REBALANCE, client, CONFIG[REBALANCE].default))
        sessions[client] = session_us
        rebalances[client] = min(session_us, rebalance_us) if without else rebalance_us
    return PutOuts(sessions, rebalances)


def _ms(us: int) -> str:
    return f"{us // 1000:,} ms"
