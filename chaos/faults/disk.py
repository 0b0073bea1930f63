"""Faults on disks: three that end the process and take something of its files, and one that slows it down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from actors.control import AnyAction, DiskLoss, DiskRule, MendDisk, SlowDisk
from chaos.faults.base import Aimed
from chaos.faults.process import NodeCrash, ProcessFault
from chaos.scenario.durations import format_duration
from chaos.view import ClusterView


class PowerLoss(NodeCrash, frozen=True):
    """The machine loses power: what no Sync covered is gone from the disk."""

    kind: ClassVar[str] = "power-loss"
    disk: ClassVar[DiskLoss] = "power-loss"


class TornTail(NodeCrash, frozen=True):
    """The machine loses power in the middle of a write: the last entry that no Sync covered is there in part."""

    kind: ClassVar[str] = "torn-tail"
    disk: ClassVar[DiskLoss] = "torn-tail"


class DiskWipe(NodeCrash, frozen=True):
    """The disk is replaced: the node comes back with an empty directory, which has a new id."""

    kind: ClassVar[str] = "wipe"
    disk: ClassVar[DiskLoss] = "wiped"


class DiskSlowness(ProcessFault, frozen=True):
    """Each Sync takes ``by_us``, and up to ``jitter_us`` as drawn, longer."""

    kind: ClassVar[str] = "slow-disk"

    by_us: int = 0
    jitter_us: int = 0

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        chosen = self.chosen(view, nodes, busy)
        if not chosen:
            return None
        low, high = self.by_us, self.by_us + self.jitter_us
        rules = [DiskRule(f"{fault}/{number}", name, low, high) for number, name in enumerate(chosen, 1)]
        begin: list[AnyAction] = [SlowDisk(rule) for rule in rules]
        end: list[AnyAction] = [MendDisk(rule.id, rule.node) for rule in rules]
        parameters = {"delay_min_us": low, "delay_max_us": high}
        return Aimed(self.kind, chosen, parameters, begin, end, rules=[rule.id for rule in rules])

    def describe(self) -> str:
        jitter = f" to {format_duration(self.by_us + self.jitter_us)}" if self.jitter_us else ""
        return f"of {super().describe()} by {format_duration(self.by_us)}{jitter}"
