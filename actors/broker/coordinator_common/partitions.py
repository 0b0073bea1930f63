"""Which partition of its topic holds a coordinator's key (``GroupCoordinatorService.partitionFor``,
``TransactionStateManager.partitionFor``)."""

from __future__ import annotations

from functools import lru_cache

from actors.broker.turn import Turn
from actors.node.spec import topic_partition

GROUP_METADATA_TOPIC = "__consumer_offsets"
"""Holds groups and their offsets; the key is the group's id."""
TRANSACTION_STATE_TOPIC = "__transaction_state"
"""Holds the states of transactions; the key is the transactional id."""

INTERNAL_TOPICS = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
"""Topics of Kafka's own, which are compacted."""
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
"""Holds what is known of segments in remote storage."""
UNTIERED_TOPICS = (*INTERNAL_TOPICS, REMOTE_LOG_METADATA_TOPIC)
"""Topics that are never tiered."""


def partition_for(turn: Turn, topic: str, key: str) -> str:
    """The partition of a coordinator's topic that holds a key. Until this broker knows the topic it goes by the number
    of partitions that the topic will be made with."""
    known = turn.image.topics.get(turn.image.topic_ids.get(topic, ""))
    count = configured_count(turn, topic) if known is None else len(known.partitions)
    return topic_partition(topic, partition_of(key, count))


def configured_count(turn: Turn, topic: str) -> int:
    """Partitions of a coordinator's topic, when it is made."""
    if topic == TRANSACTION_STATE_TOPIC:
        return turn.settings.transactions.topic_num_partitions
    return turn.settings.groups.offsets_topic_num_partitions


@lru_cache(maxsize=1024)  # brokers ask at each of their steps
def partition_of(key: str, count: int) -> int:
    """The number of a key's partition, of so many."""
    return _abs(java_hash_code(key)) % count


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
