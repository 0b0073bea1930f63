"""What a node is told about itself and its cluster when it starts."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from typing import Any, Literal

import msgspec

Role = Literal[
    "controller",
    "broker",
    "remote-store",
    "producer",
    "transactional-producer",
    "consumer",
    "group-consumer",
    "mirror",
    "processor",
    "list-offsets",
    "admin",
]

METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = "__cluster_metadata-0"
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The topic id that Kafka reserves for the metadata log."""

FIRST_CONTROLLER_ID = 101
"""Controllers have node ids 101, 102, ...; brokers 1, 2, ...: one id space, as KRaft demands."""

REMOTE_STORE_ID = 1001
REMOTE_STORE = "remote-store-1"
"""The node id and the name of the remote store, where there is one."""


class TopicSpec(msgspec.Struct, frozen=True):
    """A topic of the scenario. ``replicas[p]`` is the assignment of partition ``p`` (broker ids, preferred
    leader first); ``config`` are topic-level overrides with Kafka's keys."""

    name: str
    topic_id: str
    replicas: list[list[int]]
    config: dict[str, Any] = {}


class ClusterSpec(msgspec.Struct, frozen=True):
    """What all nodes of a run know alike: ids of voters and brokers and the topics to create.

    voters: at kraft.version 1 the initial ones, whose directory ids are ``directories``. spare_controllers: ids of the
    controllers that are no voters at first. remote_store: whether there is one.
    """

    cluster_id: str
    voters: list[int]
    brokers: list[int]
    topics: list[TopicSpec] = []
    spare_controllers: list[int] = []
    directories: dict[int, str] = {}
    remote_store: bool = False

    def topic_id(self, name: str) -> str:
        """Id of the scenario's topic of a name, "" if there is none."""
        return next((topic.topic_id for topic in self.topics if topic.name == name), "")


class NodeSpec(msgspec.Struct, frozen=True):
    """One node, fully resolved.

    config: Kafka's keys, defaults filled in (``actors.config``).
    features: switches of ``actors.features``, e.g. ``{"kip-207": "kafka"}``.
    versions: API name -> [min, max] that this node speaks (``actors.versions``).
    defects: names from ``actors.defects.catalogue`` that this node has.
    workload: what a client does: topic, partitions, rate, interval, timestamp, isolation, ... (clients only).
    """

    name: str
    role: Role
    node_id: int
    directory_id: str
    cluster: ClusterSpec
    config: dict[str, Any] = {}
    features: dict[str, str] = {}
    versions: dict[str, list[int]] = {}
    defects: list[str] = []
    workload: dict[str, Any] = {}


def with_new_directory(spec: NodeSpec, wipes: int) -> NodeSpec:
    """The node after its disk was wiped for the ``wipes``-th time: whoever formats the new one gives it another
    directory id, as ``kafka-storage.sh format`` does."""
    digest = hashlib.blake2b(f"{spec.directory_id}/{wipes}".encode(), digest_size=15).digest()
    return msgspec.structs.replace(spec, directory_id="D" + base64.urlsafe_b64encode(digest).decode() + "A")


@cache
def node_name(node_id: int) -> str:
    """Name of the server with this id: ``broker-1``, ``controller-1`` (id 101), ``remote-store-1`` (id 1001)."""
    if node_id >= REMOTE_STORE_ID:
        return REMOTE_STORE
    if node_id >= FIRST_CONTROLLER_ID:
        return f"controller-{node_id - FIRST_CONTROLLER_ID + 1}"
    return f"broker-{node_id}"


@cache
def node_id(name: str) -> int:
    """Inverse of ``node_name``."""
    if name == REMOTE_STORE:
        return REMOTE_STORE_ID
    role, _, number = name.rpartition("-")
    return FIRST_CONTROLLER_ID + int(number) - 1 if role == "controller" else int(number)


@cache
def is_valid_topic_name(name: str) -> bool:
    """Whether a topic may be called so (``Topic.java``)."""
    return len(name) <= 249 and name not in (".", "..") and bool(_TOPIC_NAME.fullmatch(name))


def topic_partition(topic: str, partition: int) -> str:
    """The key under which state and trace know a topic partition: ``orders-0``."""
    return f"{topic}-{partition}"


def topic_id_partition(tp: str, topic_id: str) -> str:
    """The key of a partition whose topic is not the first one of its name: ``orders-0@<topic id>``."""
    return f"{tp}@{topic_id}"


def partition_name(tp: str) -> str:
    """A partition's key without the topic id: what requests that name topics can tell of it."""
    return tp.partition("@")[0]


def is_recreated(tp: str) -> bool:
    """Whether a partition's topic came after another one of its name."""
    return "@" in tp


def split_topic_partition(tp: str) -> tuple[str, int]:
    """Inverse of ``topic_partition``, and of ``topic_id_partition``, whose id is left out."""
    topic, _, partition = tp.partition("@")[0].rpartition("-")
    return topic, int(partition)
