"""How long a group that was empty waits for its first members (KIP-134): a delay, and one more for each that joins."""

from __future__ import annotations

import msgspec

from actors.trace.events import GrpGen, GrpLoad, GrpOut, Stamped
from orchestrator.invariants.folds.bounds import SLACK_US, longest_ms
from orchestrator.invariants.folds.fold import Profile, Witness, witness
from orchestrator.invariants.mirrors.stops import Stops

DELAY = "group.initial.rebalance.delay.ms"


class Initial(msgspec.Struct):
    """A first rebalance. members: who was in the group when it began; outs: how many were put out since."""

    wall_us: int
    members: frozenset[str]
    by: Witness
    outs: int = 0


class Coordinator(msgspec.Struct):
    """What a broker has done with the group since it has loaded it. is_empty: it has no members. joined: members have
    joined in one of its first rebalances, perhaps in the last delay, so that they extend the next one."""

    epoch: int
    is_empty: bool
    joined: bool = False
    initial: Initial | None = None


class FirstRebalances(msgspec.Struct):
    """delay_us: how long a broker waits for more members. coordinators: broker -> what it has done."""

    delay_us: int = 0
    coordinators: dict[str, Coordinator] = {}

    def ended(self, node: str) -> None:
        """A broker does not coordinate any more."""
        self.coordinators.pop(node, None)

    def loaded(self, event: Stamped, body: GrpLoad, group: str) -> None:
        """A broker has read the group from its log."""
        is_empty = body.groups.get(group, ("Empty", 0))[0] == "Empty"
        self.coordinators[event.node] = Coordinator(body.coordinator_epoch, is_empty)

    def put_out(self, event: Stamped, body: GrpOut) -> None:
        """A member is gone, which may have joined in this rebalance."""
        coordinator = self.coordinators.get(event.node)
        if coordinator is not None and coordinator.initial is not None and coordinator.epoch == body.coordinator_epoch:
            coordinator.initial.outs += 1

    def _of(self, event: Stamped, body: GrpGen) -> Coordinator:
        """What is known of the broker. Of a group that was not in its log nothing is told before its first rebalance,
        which no generation precedes."""
        known = self.coordinators.get(event.node)
        if known is None or known.epoch != body.coordinator_epoch:
            is_new = body.state == "PreparingRebalance" and not body.generation
            known = self.coordinators[event.node] = Coordinator(body.coordinator_epoch, is_new)
        return known

    def moved(self, event: Stamped, body: GrpGen, stops: Stops, skewed: set[str]) -> tuple[str, Witness] | None:
        """What is wrong with how long a first rebalance lasted that ends now, and when it began."""
        coordinator = self._of(event, body)
        initial, coordinator.initial = coordinator.initial, None
        if body.state == "PreparingRebalance" and coordinator.is_empty:
            coordinator.initial = Initial(event.wall, frozenset(body.members), witness(event))
        coordinator.is_empty = body.state in ("Empty", "Dead")
        if initial is None or body.state not in ("CompletingRebalance", "Empty"):
            return None
        joined = len(body.members.keys() - initial.members) + initial.outs
        allowed_us = self.delay_us * (1 + joined + coordinator.joined)
        coordinator.joined = coordinator.joined or joined > 0
        if event.node in skewed or stops.has(event.node):
            return None
        since_us = max(initial.wall_us, stops.free_us(event.node))
        if event.wall <= since_us + allowed_us + SLACK_US:
            return None
        waited_ms = (event.wall - since_us) // 1000
        sentence = (
            f"{event.node} ended the first rebalance of group {body.group} {waited_ms:,} ms after "
            f"it began, with {joined} new members since, though it may wait {allowed_us // 1000:,} ms for so many"
        )
        return sentence, initial.by


def first_rebalances(profile: Profile) -> FirstRebalances:
    """Of a group, before anything has happened."""
    return FirstRebalances(1000 * longest_ms(profile, DELAY))
