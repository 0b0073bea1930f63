"""What an operator does to topics: creates them, deletes them and their records, gives them more partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from actors.client.admin import CREATE_PARTITIONS, CREATE_TOPIC, DELETE_RECORDS, DELETE_TOPIC
from actors.config import config_text
from actors.trace.events import DELETE_UP_TO_HIGH_WATERMARK
from chaos.faults.base import Told
from chaos.faults.operator import ASKED, AdminAction
from chaos.nemesis.scene import OFFSETS
from chaos.scenario.scalars import HIGH_WATERMARK, Config, DeletionOffset, TopicName, TopicPartitions
from chaos.scenario.switch_checks import check_config
from chaos.scenario.yaml_tree import Path_
from chaos.view import ClusterView

if TYPE_CHECKING:
    from chaos.nemesis.scene import Part, Scene
    from chaos.scenario.references import References


class TopicAction(AdminAction):
    """Something that is done to a topic of the scenario."""

    topic: TopicName

    def check(self, place: Path_, references: References) -> None:
        references.topic((*place, "topic"), self.topic)


class TopicCreation(TopicAction):
    """A topic is created again under a name of the scenario, with another id (CreateTopics)."""

    kind = "create-topic"
    call = CREATE_TOPIC
    told = (
        Told(
            "create-topic: {topic: orders, partitions: 3, replicas: 3, config: {KEY: value}}",
            "CreateTopics, for a deleted topic of the scenario: it has another id and none of the records. The "
            "controller places the replicas. If a topic of that name exists, the answer is TOPIC_ALREADY_EXISTS",
            *ASKED,
        ),
    )

    partitions: int = Field(1, ge=1, le=1000)
    replicas: int = Field(3, ge=1, le=100)
    config: Config = Field({}, description="Keys of topics and their values.")

    def check(self, place: Path_, references: References) -> None:
        super().check(place, references)
        check_config((*place, "config"), self.config, ("topic",), references.mistakes)

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        config = {key: config_text(value) for key, value in self.config.items()}
        return {"topic": self.topic, "partitions": self.partitions, "replicas": self.replicas, "config": config}

    def describe(self) -> str:
        return f"{self.topic}, {self.partitions} partitions of {self.replicas} replicas"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        replicas = max(scene.cast.tps.values())
        return {"topic": scene.cast.topic, "partitions": len(scene.cast.tps), "replicas": replicas}


class TopicDeletion(TopicAction):
    """A topic is deleted (DeleteTopics)."""

    kind = "delete-topic"
    call = DELETE_TOPIC
    told = (
        Told(
            "delete-topic: {topic: orders}",
            "DeleteTopics: its records are lost for good, and its clients get the error that there is no such topic",
            *ASKED,
        ),
    )

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        return {"topic": self.topic}

    def describe(self) -> str:
        return self.topic

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"topic": scene.cast.topic}


class PartitionAddition(TopicAction):
    """A topic gets more partitions (CreatePartitions)."""

    kind = "create-partitions"
    call = CREATE_PARTITIONS
    told = (
        Told(
            "create-partitions: {topic: orders, count: 5}",
            "CreatePartitions: the topic has `count` partitions from then on, or the answer is INVALID_PARTITIONS if "
            "it already has as many. The workloads continue with the partitions that they name",
            *ASKED,
        ),
    )

    count: int = Field(ge=1, le=1000)

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        return {"topic": self.topic, "count": self.count}

    def describe(self) -> str:
        return f"{self.topic}, {self.count} in all"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"topic": scene.cast.topic, "count": scene.draw.choice((2, 4, 6))}


class RecordDeletion(AdminAction):
    """Records of partitions are deleted up to an offset (DeleteRecords)."""

    kind = "delete-records"
    call = DELETE_RECORDS
    told = (
        Told(
            "delete-records: {partitions: orders-0, offset: 40}",
            "DeleteRecords of `all` partitions, one (`orders-0`) or a list: their logs begin at `offset` from then on, "
            "or where the high watermark is if it is `high-watermark`. The answer is NONE once all replicas that are "
            "alive begin there; OFFSET_OUT_OF_RANGE, and nothing is deleted, for more than is committed",
            *ASKED,
        ),
    )

    partitions: TopicPartitions = Field(description="all, a topic partition such as orders-0, or a list of them.")
    offset: DeletionOffset = Field(description="The first offset that is kept, or high-watermark.")

    def _named(self) -> list[str]:
        """Topic partitions, [] for all."""
        return [] if self.partitions == ["all"] else list(self.partitions)

    def check(self, place: Path_, references: References) -> None:
        for index, tp in enumerate(self._named()):
            references.topic_partition((*place, "partitions", index), tp)

    def arguments(self, view: ClusterView, nodes: Sequence[str]) -> dict[str, Any] | None:
        offset = DELETE_UP_TO_HIGH_WATERMARK if self.offset == HIGH_WATERMARK else self.offset
        named = self._named() or [tp for tp in view.partitions if not tp.startswith("__")]
        return {"offsets": dict.fromkeys(named, offset)}

    def describe(self) -> str:
        upto = "the high watermark" if self.offset == HIGH_WATERMARK else f"{self.offset:,}"
        return f"of {', '.join(self._named()) or 'all partitions'} up to {upto}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        draw = scene.draw
        offset: int | str = draw.choice((HIGH_WATERMARK, draw.randrange(*OFFSETS), draw.randrange(*OFFSETS)))
        return {"partitions": draw.choice(("all", scene.tp, scene.tp)), "offset": offset}
