"""Which offsets partition holds a group (``GroupCoordinatorService.partitionFor``)."""

from __future__ import annotations

from actors.broker.turn import Turn
from actors.node.spec import topic_partition

GROUP_METADATA_TOPIC = "__consumer_offsets"


def partition_for(turn: Turn, group_id: str) -> str:
    """The offsets partition of a group. Until this broker knows the topic it goes by offsets.topic.num.partitions."""
    topic = turn.image.topics.get(turn.image.topic_ids.get(GROUP_METADATA_TOPIC, ""))
    count = turn.settings.groups.offsets_topic_num_partitions if topic is None else len(topic.partitions)
    return topic_partition(GROUP_METADATA_TOPIC, partition_of(group_id, count))


def partition_of(group_id: str, count: int) -> int:
    """The number of a group's partition, of so many."""
    return _abs(java_hash_code(group_id)) % count


def java_hash_code(text: str) -> int:
    """``String.hashCode``: over the units of UTF-16, as a signed number of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for index in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[index : index + 2], "big")) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found


def _abs(number: int) -> int:
    """``Utils.abs``: of the smallest number, 0."""
    return 0 if number == -(1 << 31) else abs(number)
