"""What an operator asks a cluster for: not faults, but scheduled like them, and over when they are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from actors.client.admin import ADD_VOTER, ALTER_CONFIG, DESCRIBE_QUORUM, ELECT_LEADERS, REMOVE_VOTER
from actors.config import CONFIG, Scope, config_text, config_value
from actors.control import AnyAction, Invoke
from chaos.errors import nearest
from chaos.faults.base import Aimed, Drawing, Fault, Told
from chaos.nemesis.scene import UNCLEAN, VOTERS
from chaos.scenario.durations import Malformed
from chaos.scenario.scalars import Config, Selectors, TopicName, TopicPartitions
from chaos.scenario.selectors import select
from chaos.scenario.switch_checks import check_config
from chaos.scenario.yaml_tree import Path_
from chaos.view import ClusterView

if TYPE_CHECKING:
    from chaos.nemesis.scene import Part, Scene
    from chaos.scenario.references import References

ADMIN = "admin-1"
"""The node through which an operator speaks to the cluster; a run has it if its scenario needs it."""

ASKED = ("the node `admin-1` gets the operation", "the same", "the operation's answer")
"""What the rows of ``docs/faults.md`` say of every such action: in the sim, live, and what shows it."""


class AdminAction(Fault):
    """An operation of the admin client, through which an operator speaks to the cluster."""

    section = "action"
    lasts = False
    call: ClassVar[str] = ""
    """Its name among the client's operations."""

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        """What the operation is told; None if it would be about nothing now."""
        raise NotImplementedError

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        arguments = self.arguments(view, nodes)
        if arguments is None or ADMIN in busy:
            return None
        operation = f"{fault}/{self.kind}"
        begin: list[AnyAction] = [Invoke(ADMIN, operation, self.call, arguments)]
        return Aimed(self.kind, [ADMIN], arguments, begin, [], operations={operation: ADMIN})

    @classmethod
    def retargeted(cls, body: Mapping[str, Any]) -> list[str]:
        """A mutation leaves alone what an operator asks about."""
        return []


class LeaderElection(AdminAction):
    """Leader elections at an operator's request (ElectLeaders)."""

    kind = "elect"
    call = ELECT_LEADERS
    told = (
        Told(
            "elect: {partitions: all, type: preferred}",
            "ElectLeaders of `all` partitions, one (`orders-0`) or a list; `type` is `preferred` or `unclean`. An "
            "unclean election gives up the records that no live replica has, whatever the configuration says",
            *ASKED,
        ),
    )

    partitions: TopicPartitions = Field(description="all, a topic partition such as orders-0, or a list of them.")
    type: Literal["preferred", "unclean"] = "preferred"

    def _named(self) -> list[str]:
        """Topic partitions, [] for all."""
        return [] if self.partitions == ["all"] else list(self.partitions)

    def check(self, place: Path_, references: References) -> None:
        for index, tp in enumerate(self._named()):
            references.topic_partition((*place, "partitions", index), tp)

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        return {"type": self.type, "partitions": self._named()}

    def describe(self) -> str:
        return f"{self.type} leaders of {', '.join(self._named()) or 'all partitions'}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        """Records are given up only where the configuration says that they may be."""
        kind = scene.pick(scene.nemesis.like.election) if scene.cast.unclean else "preferred"
        return {"partitions": scene.draw.choice(("all", scene.tp)), "type": kind}

    @classmethod
    def settle(cls, body: Any, allowed: bool) -> None:
        if not allowed:
            body.pop("type", None)


class Configuration(AdminAction):
    """A change of dynamic configuration (IncrementalAlterConfigs): of a topic, of a broker, or of all brokers."""

    kind = "configure"
    call = ALTER_CONFIG
    told = (
        Told(
            "configure: {topic: orders, set: {KEY: value}, delete: [KEY]}",
            "IncrementalAlterConfigs, of a `topic`, of a `broker` (a selector, or a list) or of the `cluster: true`: "
            "the default of all brokers. A topic takes all of its keys, a broker the dynamic ones "
            "([configuration.md](configuration.md#configuration-keys)). With eligible leader replicas "
            "no broker has a `min.insync.replicas` of its own, and that of the cluster cannot be deleted",
            *ASKED,
        ),
    )

    topic: TopicName | None = None
    broker: Selectors | None = None
    cluster: Literal[True] | None = None
    set_: Config = Field({}, alias="set", description="Keys and their new values.")
    delete: list[str] = Field([], description="Keys that are no longer set.")

    @model_validator(mode="after")
    def _one_resource(self) -> Configuration:
        self.one_of("topic", "broker", "cluster")
        if not self.set_ and not self.delete:
            raise Malformed("it changes nothing", "set: {key: value}, or delete: [key]")
        return self

    def check(self, place: Path_, references: References) -> None:
        """Whether Kafka would take the change: of keys that are dynamic, at resources that are there. Anything else is
        a mistake of the scenario's writer, not something to be tried on a cluster."""
        scope: Scope = "topic" if self.topic is not None else "broker"
        if self.topic is not None:
            references.topic((*place, "topic"), self.topic)
        references.brokers((*place, "broker"), self.broker)
        check_config((*place, "set"), self.set_, (scope,), references.mistakes)
        dynamic = [name for name, key in CONFIG.items() if scope in key.scopes and (scope == "topic" or key.dynamic)]
        for path, name in [
            *(((*place, "set", name), name) for name in self.set_ if name in CONFIG and scope in CONFIG[name].scopes),
            *(((*place, "delete", index), name) for index, name in enumerate(self.delete)),
        ]:
            if name not in dynamic:
                wrong = f"{name} is no key of a {scope} that changes without a restart"
                references.mistakes.add(path, wrong, "one of " + ", ".join(dynamic), nearest(name, dynamic))

    def _values(self) -> dict[str, str]:
        """Key -> its new value, as text."""
        return {key: config_text(value) for key, value in self.set_.items()}

    def resolved(self, drawing: Drawing) -> Configuration:
        values = {key: config_value(key, text) for key, text in self._values().items()}
        return super().resolved(drawing).model_copy(update={"set_": values})

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        resources = [f"topic/{self.topic}" if self.topic else "broker/"]
        if self.broker:
            chosen = select(self.broker, view, nodes)
            resources = [f"broker/{name.removeprefix('broker-')}" for name in chosen]
        return {"resources": resources, "set": self._values(), "delete": list(self.delete)} if resources else None

    def describe(self) -> str:
        whom = f"topic {self.topic}" if self.topic else ", ".join(map(str, self.broker or ())) or "all brokers"
        changes = [*(f"{key}={value}" for key, value in self._values().items()), *(f"no {key}" for key in self.delete)]
        return f"{whom}: {', '.join(changes)}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        topic = scene.cast.topic
        changes: list[Part] = [
            {"topic": topic, "set": {UNCLEAN: scene.cast.unclean}},
            {"topic": topic, "delete": [UNCLEAN]},
            {"topic": topic, "set": {"min.insync.replicas": 1}},
            {"broker": ["any(1)"], "set": {"num.io.threads": scene.draw.choice((1, 2, 8))}},
            {"cluster": True, "delete": ["num.io.threads"]},
        ]
        if scene.cast.remote_store:
            changes = cls._of_tiers(scene) + changes[2:4]
        return scene.draw.choice(changes)

    @staticmethod
    def _of_tiers(scene: Scene) -> list[Part]:
        """What is changed where there is a remote store, above all."""
        draw = scene.draw
        return [
            {"cluster": True, "set": {"remote.list.offsets.request.timeout.ms": draw.choice((300, 1000, 5000))}},
            {"cluster": True, "set": {"remote.fetch.max.wait.ms": draw.choice((100, 300, 800))}},
            {"broker": ["any(1)"], "set": {"remote.log.reader.threads": draw.choice((1, 2, 4))}},
            {"topic": scene.cast.topic, "set": {"local.retention.bytes": draw.choice((1, 10_000))}},
        ]

    @classmethod
    def settle(cls, body: Any, allowed: bool) -> None:
        if UNCLEAN in body.get("set", {}):
            body["set"][UNCLEAN] = allowed


class QuorumDescription(AdminAction):
    """The quorum leader's view of its members (DescribeQuorum)."""

    kind = "describe-quorum"
    call = DESCRIBE_QUORUM
    told = (Told("describe-quorum: {}", "DescribeQuorum: the quorum leader's knowledge of its members", *ASKED),)

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        return {}

    def describe(self) -> str:
        return "of the metadata log"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {}


class VoterChange(AdminAction):
    """A change of one voter, with the directory that an operator finds in the voter set or, of a controller that is not
    in it, on its disk. There is none where the voters are not in the log."""

    controller: Selectors = Field(description="A selector of a controller; if it selects several, the first one.")

    def check(self, place: Path_, references: References) -> None:
        references.controllers((*place, "controller"), self.controller)

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        chosen = select(self.controller, view, nodes)
        if not chosen:
            return None
        name = chosen[0]
        directory = self._directory(view, name)
        return {"controller": name, "directory": directory} if directory else None

    def _directory(self, view: ClusterView, name: str) -> str:
        raise NotImplementedError

    def describe(self) -> str:
        return ", ".join(map(str, self.controller))


class VoterAddition(VoterChange):
    """A controller becomes a voter (AddRaftVoter)."""

    kind = "add-voter"
    call = ADD_VOTER
    told = (
        Told(
            "add-voter: {controller: A}",
            "AddRaftVoter: a controller becomes a voter, with the directory that it has now. It must have copied the "
            "log, and the change before must be committed, or the answer is REQUEST_TIMED_OUT; an appended change may "
            "still be committed after that answer",
            *ASKED,
        ),
    )

    def _directory(self, view: ClusterView, name: str) -> str:
        return view.directories.get(name, "")

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        """Of anybody: a spare controller, one that was removed, or whose disk was wiped; a voter already is refused."""
        return {"controller": scene.draw.choice(scene.cast.controllers)}


class VoterRemoval(VoterChange):
    """A voter becomes an observer (RemoveRaftVoter)."""

    kind = "remove-voter"
    call = REMOVE_VOTER
    told = (
        Told(
            "remove-voter: {controller: A}",
            "RemoveRaftVoter: a voter, with the directory that the voter set has of it, becomes an observer. The "
            "leader may be removed too; it resigns when the removal is committed",
            *ASKED,
        ),
    )

    def _directory(self, view: ClusterView, name: str) -> str:
        return view.voter_directories.get(name) or view.directories.get(name, "")

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"controller": scene.one(VOTERS)}

    @classmethod
    def takes_from_quorum(cls, body: Any) -> tuple[int, int]:
        return (1, 0)
