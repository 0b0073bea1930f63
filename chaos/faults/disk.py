"""Faults on disks: three that end the process and take something of its files, and one that slows it down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from actors.control import AnyAction, DiskLoss, DiskRule, MendDisk, SlowDisk
from chaos.faults.base import Aimed, Fault, Told, Whom
from chaos.faults.process import NodeCrash, chosen
from chaos.nemesis.scene import BROKERS, SERVERS, VOTERS, slower
from chaos.scenario.durations import format_duration
from chaos.scenario.scalars import Duration, PositiveDuration, Selectors
from chaos.scenario.yaml_tree import Path_
from chaos.view import ClusterView

if TYPE_CHECKING:
    from chaos.nemesis.scene import Part, Scene
    from chaos.scenario.references import References

CONTROLLERS = ("active-controller", "voters(", "controller")
"""How selectors of controllers begin."""


class PowerLoss(NodeCrash):
    """The machine loses power: unsynced data is gone from the disk."""

    kind = "power-loss"
    hits: ClassVar[Whom] = "servers"
    plainness = 7
    disk: ClassVar[DiskLoss] = "power-loss"
    told = (
        Told(
            "power-loss: A",
            "as `crash`, and unsynced data is lost from the disk: the end of a log, a Replace; truncated entries do "
            "not come back. The operating system writes all data out every `krift.os.flush.ms`, at its own times",
            "taken from the modelled disk",
            "SIGKILL; then the host agent removes the data that the records of Syncs beside the files do not cover",
            "`node.down` (lossy, with what was lost)",
        ),
    )

    def _check_nodes(self, place: Path_, references: References) -> None:
        references.disks(place, self.nodes)

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"nodes": scene.some(SERVERS), **cls.drawn_point(scene)}


class TornTail(PowerLoss):
    """The machine loses power in the middle of a write: the last unsynced entry is on the disk in part."""

    kind = "torn-tail"
    plainness = 8
    disk = "torn-tail"
    told = (
        Told(
            "torn-tail: A",
            "as `power-loss` in the middle of a write: of each file all data reached the disk, except for the last "
            "unsynced entry, which reached it in part. The checksum reveals it at the start, and it is dropped",
            "as it would be found at the start",
            "SIGKILL; then the host agent truncates the last entry in the middle, and the new process finds it",
            "`node.down` (lossy), `torn` of the next `node.up`",
        ),
    )


class DiskWipe(PowerLoss):
    """The disk is replaced: the node comes back with an empty directory, which has a new id. A mutation wipes brokers
    alone: a wiped voter may forget records that only a majority with it had, and then Kafka promises nothing."""

    kind = "wipe"
    hits = "brokers"
    plainness = 9
    disk = "wiped"
    told = (
        Told(
            "wipe: A",
            "as `crash`, and the node comes back with an empty directory, which has a new directory id",
            "the modelled disk is emptied",
            "SIGKILL; then the host agent empties the directory",
            "`node.down` (lossy), `wiped` of the next `node.up`",
        ),
    )

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        whose = VOTERS if scene.pick(scene.nemesis.like.wiped) == "voter" else BROKERS
        return {"nodes": [scene.one(whose)], **cls.drawn_point(scene)}

    @classmethod
    def takes_from_quorum(cls, body: Any) -> tuple[int, int]:
        return (0, int(any(each.startswith(CONTROLLERS) for each in body["nodes"])))


class DiskSlowness(Fault):
    """Each Sync of a node takes longer: ``by``, plus a part of ``jitter`` drawn for each."""

    kind = "slow-disk"
    hits = "servers"
    spare = ("jitter",)
    told = (
        Told(
            "slow-disk: {nodes: A, by: 200ms, jitter: 50ms}",
            "each Sync takes `by`, plus up to `jitter` as drawn, longer; those of a file keep their order. A voter "
            "waits for its quorum-state, and its other events queue; its appends to the metadata log count when they "
            "are synced; data logs wait for no Sync",
            "added to the Sync's time",
            "the node's runtime reports a Sync that much later",
            "`disk.rule`",
        ),
    )

    nodes: Selectors
    by: PositiveDuration
    jitter: Duration = 0

    def check(self, place: Path_, references: References) -> None:
        references.disks((*place, "nodes"), self.nodes)

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        hit = chosen(self.nodes, view, nodes, busy)
        if not hit:
            return None
        low, high = self.by, self.by + self.jitter
        rules = [DiskRule(f"{fault}/{number}", name, low, high) for number, name in enumerate(hit, 1)]
        begin: list[AnyAction] = [SlowDisk(rule) for rule in rules]
        end: list[AnyAction] = [MendDisk(rule.id, rule.node) for rule in rules]
        parameters = {"delay_min_us": low, "delay_max_us": high}
        return Aimed(self.kind, hit, parameters, begin, end, rules=[rule.id for rule in rules])

    def describe(self) -> str:
        jitter = f" to {format_duration(self.by + self.jitter)}" if self.jitter else ""
        return f"of {', '.join(map(str, self.nodes))} by {format_duration(self.by)}{jitter}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"nodes": scene.some(SERVERS), **slower(scene)}
