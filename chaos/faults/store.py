"""Faults of the remote store itself. Crashes, pauses and faults on links hit it as they hit any node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from actors.control import AnyAction, DegradeStore, MendStore
from actors.node.events import StoreRule, StoreRuleKind
from actors.node.messages import APIS
from actors.node.spec import REMOTE_STORE
from chaos.faults.base import Aimed, Fault, Told
from chaos.nemesis.scene import slower
from chaos.scenario.durations import format_chance, format_duration
from chaos.scenario.scalars import Chance, Duration, PositiveDuration
from chaos.scenario.yaml_tree import Path_
from chaos.view import ClusterView

if TYPE_CHECKING:
    from chaos.nemesis.scene import Part, Scene
    from chaos.scenario.references import References

STORE_APIS = tuple(api.name for api, spec in APIS.items() if spec.servers == ("remote-store",))
"""APIs that only the store serves."""
_IN_SIM = "the node gets the rule from its host"
_LIVE = "the node gets the rule from its runtime"
_SEEN = "`store.rule`"


class StoreFault(Fault):
    """A rule of the remote store, which holds over its restarts."""

    rule_kind: ClassVar[StoreRuleKind] = "unavailable"

    def check(self, place: Path_, references: References) -> None:
        if REMOTE_STORE not in references.nodes:
            references.mistakes.add(place, "the cluster has no remote store", "cluster: {remote-store: {}}")
        for index, api in enumerate(self._apis()):
            if api not in STORE_APIS:
                references.mistakes.unknown((*place, "apis", index), api, "API of the remote store", STORE_APIS)

    def _apis(self) -> list[str]:
        """The APIs that are hit, [] all."""
        return []

    def delays_us(self) -> tuple[int, int]:
        """Bounds of the delay that a request gets."""
        return (0, 0)

    def chance_of_hit_ppm(self) -> int:
        """Parts per million of what is hit."""
        return 1_000_000

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        if REMOTE_STORE not in nodes:
            return None
        low, high = self.delays_us()
        rule = StoreRule(fault, REMOTE_STORE, self.rule_kind, low, high, self.chance_of_hit_ppm(), list(self._apis()))
        parameters = {
            "delay_min_us": low,
            "delay_max_us": high,
            "chance_ppm": rule.chance_ppm,
            "apis": list(rule.apis),
        }
        begin: list[AnyAction] = [DegradeStore(rule)]
        end: list[AnyAction] = [MendStore(rule.id, rule.node)]
        return Aimed(self.kind, [REMOTE_STORE], parameters, begin, end, rules=[rule.id])

    def describe(self) -> str:
        apis = f" for {', '.join(self._apis())}" if self._apis() else ""
        return f"of {REMOTE_STORE}{apis}"

    @classmethod
    def drawn_apis(cls, scene: Scene) -> Part:
        """APIs that a drawn fault is narrowed to, now and then."""
        apis = scene.draw.sample(STORE_APIS, min(len(STORE_APIS), scene.pick(scene.nemesis.like.apis)))
        return {"apis": apis} if apis else {}


class SlowStore(StoreFault):
    """Requests of the remote store take longer, ``by``, plus a part of ``jitter`` drawn for each."""

    kind = "slow-store"
    rule_kind = "slow"
    spare = ("jitter", "apis")
    told = (
        Told(
            "slow-store: {by: 2s, jitter: 1s, apis: [FetchLogSegment]}",
            "the remote store serves each request (of `apis`, all if not given) later by `by`, plus a drawn time of up "
            "to `jitter`; requests of different connections overtake one another",
            _IN_SIM,
            _LIVE,
            _SEEN,
        ),
    )

    by: PositiveDuration
    jitter: Duration = 0
    apis: list[str] = Field([], description="Requests of these APIs; of all if not given.")

    def _apis(self) -> list[str]:
        return self.apis

    def delays_us(self) -> tuple[int, int]:
        return (self.by, self.by + self.jitter)

    def describe(self) -> str:
        jitter = f" to {format_duration(self.by + self.jitter)}" if self.jitter else ""
        return f"{super().describe()} by {format_duration(self.by)}{jitter}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {**slower(scene), **cls.drawn_apis(scene)}


class FailingStore(StoreFault):
    """The store answers requests that are hit with an error, and does not carry them out."""

    kind = "failing-store"
    rule_kind = "failing"
    spare = ("apis",)
    told = (
        Told(
            "failing-store: {chance: 30%, apis: [CopyLogSegmentData]}",
            "the remote store answers a request that is hit (of `apis`, all if not given) with KAFKA_STORAGE_ERROR, "
            "and does not carry it out",
            _IN_SIM,
            _LIVE,
            _SEEN,
        ),
    )

    chance: Chance
    apis: list[str] = Field([], description="Requests of these APIs; of all if not given.")

    def _apis(self) -> list[str]:
        return self.apis

    def chance_of_hit_ppm(self) -> int:
        return self.chance

    def describe(self) -> str:
        return f"{super().describe()}, {format_chance(self.chance)}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"chance": scene.pick(scene.nemesis.like.chance), **cls.drawn_apis(scene)}


class UnavailableStore(StoreFault):
    """The store answers no request, and closes each connection on which one arrives."""

    kind = "unavailable-store"
    rule_kind = "unavailable"
    told = (
        Told(
            "unavailable-store: {}",
            "the remote store closes each connection on which a request arrives, and keeps its objects",
            _IN_SIM,
            _LIVE,
            _SEEN,
        ),
    )

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {}


class HalfCopies(StoreFault):
    """Copies of segments break off: the log data is stored, and the other objects never are."""

    kind = "half-copied"
    rule_kind = "half-copied"
    told = (
        Told(
            "half-copied: {chance: 50%}",
            "the remote store takes only the log data of a segment whose copy is hit, and answers the copy of each "
            "other object with KAFKA_STORAGE_ERROR",
            _IN_SIM,
            _LIVE,
            _SEEN,
        ),
    )

    chance: Chance

    def chance_of_hit_ppm(self) -> int:
        return self.chance

    def _apis(self) -> list[str]:
        return ["CopyLogSegmentData"]

    def describe(self) -> str:
        return f"at {REMOTE_STORE}, {format_chance(self.chance)}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"chance": scene.pick(scene.nemesis.like.chance)}


class StaleListing(StoreFault):
    """The remote store lists the objects that it had some time ago, like an eventually consistent one."""

    kind = "stale-listing"
    rule_kind = "stale-listing"
    told = (
        Told(
            "stale-listing: {by: 5s}",
            "the remote store lists the objects that it had `by` ago: new ones are missing, and deleted ones are still "
            "listed. It deletes the objects of a segment by such a list",
            _IN_SIM,
            _LIVE,
            _SEEN,
        ),
    )

    by: PositiveDuration

    def delays_us(self) -> tuple[int, int]:
        return (self.by, self.by)

    def describe(self) -> str:
        return f"{super().describe()} by {format_duration(self.by)}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"by": scene.duration(scene.pick(scene.nemesis.like.slower_by))}
