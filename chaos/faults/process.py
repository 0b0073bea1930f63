"""Faults on the processes of nodes, and how an operator stops and starts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from actors.control import AnyAction, Arm, Crash, Disarm, DiskLoss, Invoke, Pause, Restart, Resume
from actors.crash_points import POINTS, CrashPoint
from chaos.faults.base import Aimed, Bounce, Drawing, Fault, Told, Whom
from chaos.nemesis.model import NOTHING
from chaos.nemesis.scene import SERVERS, SINGLE_SERVERS
from chaos.nemesis.settings import bounce_settings
from chaos.scenario.durations import Malformed, format_duration, format_versions
from chaos.scenario.feature_groups import expand_features
from chaos.scenario.references import role_of
from chaos.scenario.scalars import Config, FeatureValues, Point, PositiveDuration, Selectors, Servers, VersionRanges
from chaos.scenario.selectors import Selector, select
from chaos.scenario.switch_checks import (
    SERVER_SCOPES,
    check_bootstrap,
    check_config,
    check_features,
    check_versions,
)
from chaos.scenario.yaml_tree import Path_
from chaos.view import ClusterView

if TYPE_CHECKING:
    from chaos.nemesis.scene import Part, Scene
    from chaos.scenario.references import References

FILES = ("quorum-state", "__cluster_metadata-0", "replication-offset-checkpoint")
"""Files that a drawn point is about, but for the log of a topic partition."""


def chosen(selectors: Sequence[Selector], view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> list[str]:
    """The nodes that selectors mean now, but for those that another fault has stopped."""
    return [name for name in select(selectors, view, nodes) if name not in busy]


class NodeCrash(Fault):
    """Processes of nodes end, at once, or each when it reaches a point for the n-th time (``actors.crash_points``). At
    the end they restart from the data on their disks."""

    kind = "crash"
    short = "nodes"
    plainness = 0
    spare = ("nth", "of")
    told = (
        Told(
            "crash: A",
            "the process dies: its memory is lost, its writes are kept, its connections break. The fault ends with a "
            "restart from disk, as a new incarnation",
            "the node's state is dropped; its disk is kept",
            "SIGKILL, then a new process with the same directory",
            "`node.down`, or the new incarnation's `node.up`",
        ),
    )
    disk: ClassVar[DiskLoss] = "kept"

    nodes: Selectors
    at: Point | None = None
    of: str | None = Field(None, description="The file, API or partition of the point.")
    nth: int = Field(1, ge=1, le=1_000_000)

    @model_validator(mode="after")
    def _goes_with_at(self) -> NodeCrash:
        if self.at is None and (self.of is not None or self.nth != 1):
            raise Malformed("of and nth go with at", "a point, such as at: after-write")
        return self

    def check(self, place: Path_, references: References) -> None:
        self._check_nodes((*place, "nodes"), references)
        if self.at is not None and self.of is not None:
            references.crash_point((*place, "of"), self.at, self.of)

    def _check_nodes(self, place: Path_, references: References) -> None:
        references.selectors(place, self.nodes)

    def written(self) -> Any:
        nodes = [str(selector) for selector in self.nodes]
        if self.at is None:
            return nodes
        return {"nodes": nodes, "at": self.at, "nth": self.nth} | ({"of": self.of} if self.of else {})

    @property
    def waits_for_point(self) -> bool:
        return self.at is not None

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        hit = chosen(self.nodes, view, nodes, busy)
        if not hit:
            return None
        if self.at is not None:
            return self._armed(fault, hit, self.at)
        begin: list[AnyAction] = [Crash(name, self.disk) for name in hit]
        end: list[AnyAction] = [Restart(name) for name in hit]
        return Aimed(self.kind, hit, {}, begin, end, stopped=hit, silent=hit)

    def _armed(self, fault: str, hit: list[str], at: str) -> Aimed:
        of = self.of or ""
        points = [CrashPoint(f"{fault}/{number}", name, at, of, self.nth) for number, name in enumerate(hit, 1)]
        begin: list[AnyAction] = [Arm(point, self.disk) for point in points]
        end: list[AnyAction] = [Disarm(point.id, point.node) for point in points]
        parameters = {"at": at, "of": of, "nth": self.nth}
        return Aimed(self.kind, hit, parameters, begin, end, points={point.id: point.node for point in points})

    def describe(self) -> str:
        nodes = ", ".join(map(str, self.nodes))
        return nodes if self.at is None else f"{nodes} at {CrashPoint('', '', self.at, self.of or '', self.nth)}"

    @classmethod
    def whom(cls, body: Any) -> Whom:
        return "servers" if isinstance(body, dict) and "at" in body and cls.hits == "all" else cls.hits

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        point = cls.drawn_point(scene)
        return {"nodes": scene.some(SERVERS if point else ()), **point}

    @classmethod
    def drawn_point(cls, scene: Scene) -> Part:
        """Where the process ends, now and then: else at once."""
        point = scene.pick(scene.nemesis.like.point)
        if point == NOTHING:
            return {}
        subjects = {
            "file": (*FILES, scene.tp),
            "api": scene.apis,
            "partition": (scene.tp, "__cluster_metadata-0"),
        }
        of = {"of": scene.draw.choice(subjects[POINTS[point].subject])} if scene.draw.random() < 0.7 else {}
        return {"at": point, "nth": max(1, scene.pick(scene.nemesis.like.nth)), **of}


class NodePause(Fault):
    """The process is stopped, and continues later; meanwhile it is silent, and its connections stay open."""

    kind = "pause"
    short = "nodes"
    plainness = 1
    told = (
        Told(
            "pause: A",
            "the process stops: connections stay open and arriving messages wait. Afterwards it continues, and "
            "overdue timers fire at once",
            "its events are delayed",
            "SIGSTOP, SIGCONT",
            "the runtime's report; a stopped process records nothing",
        ),
    )

    nodes: Selectors

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        hit = chosen(self.nodes, view, nodes, busy)
        if not hit:
            return None
        begin: list[AnyAction] = [Pause(name) for name in hit]
        end: list[AnyAction] = [Resume(name) for name in hit]
        return Aimed(self.kind, hit, {}, begin, end, silent=hit, held=hit)

    def describe(self) -> str:
        return ", ".join(map(str, self.nodes))

    @classmethod
    def draw(cls, scene: Scene) -> list[str]:
        return scene.some()


class NodeShutdown(Fault):
    """Controllers or brokers are asked to stop, as by SIGTERM, and started again at its end, once they are down."""

    kind = "controlled-shutdown"
    section = "action"
    hits = "servers"
    told = (
        Told(
            "controlled-shutdown: {targets: A}",
            "the process is asked to stop, as by SIGTERM. A broker asks the controller for permission (unless "
            "`controlled.shutdown.enable` is false), syncs its logs and leaves a clean-shutdown file; a controller "
            "that leads the quorum resigns. `for` or `until` is the time of the restart: at that time, or as soon as "
            "it is down",
            "the node gets the operation `shutdown`, and ends its process",
            "the same",
            "`node.down`, mode clean",
        ),
    )

    targets: Servers = Field(description="all, or selectors of controllers and brokers.")

    def check(self, place: Path_, references: References) -> None:
        references.servers((*place, "targets"), self.targets)

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        hit = chosen(self.targets, view, nodes, busy)
        if not hit:
            return None
        begin: list[AnyAction] = [Invoke(name, f"{fault}/{name}", "shutdown") for name in hit]
        end: list[AnyAction] = [Restart(name) for name in hit]
        return Aimed(self.kind, hit, {}, begin, end, stopped=hit, silent=hit, leave=True)

    def describe(self) -> str:
        return ", ".join(map(str, self.targets))

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"targets": scene.one(SINGLE_SERVERS)}


class NodeBounce(Fault):
    """Controllers or brokers are stopped and started one after the other, each with the settings given here; the next
    one stops when the previous one is back. The active controller is the last of the controllers."""

    kind = "rolling-bounce"
    section = "action"
    lasts = False
    hits = "servers"
    told = (
        Told(
            "rolling-bounce: {targets: A, features: {...}, versions: {...}, config: {...}, timeout: 1m}",
            "the nodes are stopped in the same way, one after the other, and each is started with the new settings. "
            "The next one stops when the previous one is back: a broker unfenced and in the ISR of all its "
            "partitions, a controller in the quorum. The action ends when the last one is back, even after the end of "
            "the chaos",
            "the operation `shutdown`, then a start with the new settings",
            "the same",
            "the last node's return",
        ),
    )

    targets: Servers = Field(description="all, or selectors of controllers and brokers, in their order.")
    features: FeatureValues = {}
    versions: VersionRanges = {}
    config: Config = {}
    timeout: PositiveDuration = 60_000_000

    def check(self, place: Path_, references: References) -> None:
        """The new settings must be such that the nodes read them."""
        references.servers((*place, "targets"), self.targets)
        check_features((*place, "features"), self.features, references.mistakes)
        check_versions((*place, "versions"), self.versions, references.mistakes)
        roles = {role_of(selector) for selector in self.targets}
        scopes = tuple(scope for scope in SERVER_SCOPES if scope in roles or (scope == "krift" and "broker" in roles))
        if scopes:
            check_config((*place, "config"), self.config, scopes, references.mistakes)
        check_bootstrap((*place, "config"), self.config, references.nodes, references.mistakes)

    def resolved(self, drawing: Drawing) -> NodeBounce:
        return super().resolved(drawing).model_copy(update={"features": expand_features(self.features)})

    @property
    def new_settings(self) -> Bounce:
        return Bounce(self.timeout, dict(self.features), dict(self.versions), dict(self.config))

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        hit = select(self.targets, view, nodes)
        if not hit:
            return None
        if view.controller in hit:
            last = max(index for index, name in enumerate(hit) if name not in view.brokers)
            hit.insert(last, hit.pop(hit.index(view.controller)))
        change = self.new_settings
        parameters = {"features": change.features, "versions": change.versions, "config": change.config}
        return Aimed(self.kind, hit, parameters, [], [], bounce=change)

    def describe(self) -> str:
        settings = [f"{name}={value}" for name, value in {**self.features, **self.config}.items()]
        settings += [f"{api} {format_versions(*bounds)}" for api, bounds in self.versions.items()]
        what = f" with {', '.join(settings)}" if settings else ""
        targets = ", ".join(map(str, self.targets))
        return f"of {targets}{what}, {format_duration(self.timeout)} each to stop and to come back"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        targets = scene.pick(scene.nemesis.like.bounced)
        if targets == "one":
            targets = scene.draw.choice(scene.cast.servers)
        return {"targets": targets, "timeout": "20s", **bounce_settings(scene, targets)}
