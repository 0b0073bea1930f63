"""The state of the metadata log as records: what a snapshot has makes the state that it was made of."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from actors.log.batch import LogRecord, make_batch
from actors.metadata.image_records import EMPTY_DIGEST, extend_digest, load_records, records_of
from actors.metadata.metadata_state import MetadataState
from actors.metadata.registrations import BrokerRegistration, PartitionRegistration, TopicRegistration
from actors.metadata.state_hash import state_hash

IDS = st.lists(st.integers(1, 9), max_size=4, unique=True)
BROKERS = st.builds(
    BrokerRegistration,
    st.integers(1, 9),
    st.text("abc/0", max_size=5),
    st.integers(0, 2**40),
    st.booleans(),
    st.booleans(),
    st.just(41),
)
CONFIGS = st.dictionaries(
    st.sampled_from(["topic/orders", "broker/", "broker/2"]),
    st.dictionaries(st.sampled_from(["min.insync.replicas", "num.io.threads"]), st.text("19", max_size=3), min_size=1),
)


@st.composite
def states(draw: st.DrawFn) -> MetadataState:
    """Any state, in any order of its parts."""
    state = MetadataState(
        brokers={each.id: each for each in draw(st.lists(BROKERS, max_size=4))},
        configs=draw(CONFIGS),
        features=draw(st.dictionaries(st.sampled_from(["metadata.version", "elr"]), st.integers(1, 30))),
        next_producer_id=draw(st.integers(0, 5000)),
    )
    for name in draw(st.permutations(["orders", "payments"])):
        topic = TopicRegistration(name, f"id-{name}", draw(IDS))
        state.topics[topic.topic_id], state.topic_ids[name] = topic, topic.topic_id
        for index in topic.partitions:
            facts = [draw(IDS), draw(IDS), *draw(st.tuples(*[st.integers(-1, 9)] * 3)), draw(st.integers(0, 1))]
            partition = PartitionRegistration(name, topic.topic_id, index, *facts, draw(IDS), draw(IDS))
            state.partitions[partition.tp] = partition
    return state


@given(states())
def test_what_a_snapshot_holds_makes_the_state(state: MetadataState) -> None:
    """Shows that loading gives the state again, its parts in the same order, and every broker's registration at the
    last offset of the snapshot, as in Kafka."""
    loaded = MetadataState()
    load_records(loaded, records_of(state), 41)
    assert loaded == state
    for part in ("brokers", "topics", "topic_ids", "partitions", "configs", "features"):
        assert list(getattr(loaded, part)) == list(getattr(state, part))


@given(states())
def test_a_loaded_state_has_the_hash_of_the_replayed_one(state: MetadataState) -> None:
    """Shows that neither the offsets of registrations nor the order of the parts nor topics that are gone change it."""
    loaded = MetadataState(removed={"id-gone": "gone"})
    load_records(loaded, records_of(state), 99)
    loaded.brokers = dict(reversed(loaded.brokers.items()))
    loaded.partitions = dict(reversed(loaded.partitions.items()))
    loaded.configs = dict(reversed(loaded.configs.items()))
    for topic in loaded.topics.values():
        topic.partitions.reverse()
    assert state_hash(loaded) == state_hash(state)


def _state() -> MetadataState:
    """A state with one of each."""
    topic = TopicRegistration("orders", "id-orders", [0])
    partition = PartitionRegistration("orders", "id-orders", 0, [1, 2, 3], [1], 1, 4, 7, elr=[2])
    return MetadataState(
        brokers={1: BrokerRegistration(1, "broker-1/0", 5, False, False, 41)},
        topics={topic.topic_id: topic},
        topic_ids={topic.name: topic.topic_id},
        partitions={partition.tp: partition},
        configs={"topic/orders": {"min.insync.replicas": "2"}},
        features={"eligible.leader.replicas.version": 1},
        next_producer_id=1000,
        metadata_epoch=3,
    )


CHANGES = {"isr": [1, 2], "replicas": [3, 2, 1], "leader": 2, "leader_epoch": 5, "partition_epoch": 8, "elr": []} | {
    "leader_recovery_state": 1,
    "last_known_elr": [1],
}


@pytest.mark.parametrize("field", CHANGES)
def test_each_fact_of_a_partition_counts(field: str) -> None:
    """Shows that two states with another partition have two hashes."""
    other = _state()
    other.partitions["orders-0"] = msgspec.structs.replace(other.partitions["orders-0"], **{field: CHANGES[field]})
    assert state_hash(other) != state_hash(_state())


@pytest.mark.parametrize("field", ["fenced", "in_controlled_shutdown", "epoch", "incarnation_id"])
def test_each_fact_of_a_broker_counts(field: str) -> None:
    """Shows that two states with another registration have two hashes."""
    other = _state()
    value = {"epoch": 6, "incarnation_id": "broker-1/1"}.get(field, True)
    other.brokers[1] = msgspec.structs.replace(other.brokers[1], **{field: value})
    assert state_hash(other) != state_hash(_state())


@pytest.mark.parametrize(
    "field",
    ["brokers", "topics", "topic_ids", "partitions", "configs", "features", "next_producer_id", "metadata_epoch"],
)
def test_each_part_counts(field: str) -> None:
    """Shows that a state that lacks a part has another hash."""
    other = _state()
    setattr(other, field, type(getattr(other, field))())
    assert state_hash(other) != state_hash(_state())


@given(st.lists(st.binary(max_size=4), min_size=1, max_size=8), st.integers(0, 8))
def test_the_digest_goes_on_from_a_snapshot(values: list[bytes], at: int) -> None:
    """Shows that the digest of a log is that of its beginning, carried on, however the records are batched."""
    whole = extend_digest(EMPTY_DIGEST, [make_batch(0, 0, 1, [LogRecord(0, value=value) for value in values])])
    parts = [
        make_batch(0, 0, 1, [LogRecord(0, value=value) for value in part])
        for part in (values[:at], values[at:])
        if part
    ]
    digest = EMPTY_DIGEST
    for part in parts:
        digest = extend_digest(digest, [part])
    assert digest == whole
