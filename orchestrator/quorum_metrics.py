"""What a run cost the quorum: how long it had no leader, and how often it elected one.

The quorum *has a leader* while a voter leads an epoch and most of the voters by the set in its own log, itself
included, are in that epoch and know it as their leader: one that is cut off counts until they give it up. A *zombie*
leads on while another voter leads a later epoch in that sense. Everything is measured over the chaos; ``healed`` from
the moment on when the last of its faults had ended.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import node_name
from actors.trace.events import CtlFault, NodeDown, QRole, QVoters, Stamped
from chaos.plan import Plan
from orchestrator.invariants.mirrors.voter_sets import VoterSets, is_majority


class Standing(msgspec.Struct, frozen=True):
    """What a controller last said of itself."""

    role: str
    epoch: int
    leader: str


class QuorumMetrics:
    """Observes the roles of the voters; ``orchestrator.metrics`` has what comes of it among its measures."""

    types = (QRole, QVoters, NodeDown, CtlFault)

    def __init__(self, plan: Plan) -> None:
        self._controllers = {node_name(each) for each in (*plan.cluster.voters, *plan.cluster.spare_controllers)}
        self._voters = VoterSets.starting_with(plan.cluster.voters)
        self._roles: dict[str, Standing] = {}
        self._elections = self._first_epoch = self._epoch = 0
        self._since_us = -1
        self._in_force: set[str] = set()
        self._leaderless_us = self._zombie_us = self._healed_us = 0
        self._gap_us = self._longest_us = 0

    def begin(self, now_us: int) -> None:
        """The chaos begins."""
        self._since_us, self._first_epoch, self._elections = now_us, self._epoch, 0

    def take(self, event: Stamped, body: Any) -> None:
        """An event of ``types``."""
        self.until(event.wall)
        if type(body) is QRole:
            if event.node not in self._controllers:
                return
            leader = node_name(body.leader_id) if body.leader_id >= 0 else ""
            self._roles[event.node] = Standing(body.role, body.epoch, leader)
            self._epoch = max(self._epoch, body.epoch)
            self._elections += body.role == "leader"
        elif type(body) is QVoters:
            self._voters.take(event, body)
        elif type(body) is NodeDown:
            self._roles.pop(event.node, None)
        else:
            (self._in_force.add if body.phase == "start" else self._in_force.discard)(body.fault)
            if not self._in_force:
                self._healed_us = 0

    def until(self, now_us: int) -> None:
        """Nothing changed until now."""
        if self._since_us < 0:
            return
        passed, self._since_us = now_us - self._since_us, now_us
        leader = self._leader()
        if leader is None:
            self._leaderless_us += passed
            self._gap_us += passed
            self._longest_us = max(self._longest_us, self._gap_us)
            self._healed_us += passed if not self._in_force else 0
            return
        self._gap_us = 0
        older = (each for each in self._roles.values() if each.role == "leader" and each.epoch < leader.epoch)
        self._zombie_us += passed if any(older) else 0

    def _leader(self) -> Standing | None:
        """Who leads, acknowledged by most of the voters."""
        for name, standing in self._roles.items():
            if standing.role == "leader":
                voters = self._voters.of(name)
                there = (each for voter, each in self._roles.items() if voter in voters)
                if is_majority(sum((each.epoch, each.leader) == (standing.epoch, name) for each in there), voters):
                    return standing
        return None

    def metrics(self) -> dict[str, float]:
        """The measures of a chaos that is over."""
        return {
            "leaderless.quorum": self._leaderless_us / 1e6,
            "leaderless.quorum.healed": self._healed_us / 1e6,
            "longest-leaderless.quorum": self._longest_us / 1e6,
            "zombie.quorum": self._zombie_us / 1e6,
            "quorum.elections": float(self._elections),
            "quorum.epochs": float(self._epoch - self._first_epoch),
        }
