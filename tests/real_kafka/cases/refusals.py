"""What brokers refuse of producers and in Metadata."""

from __future__ import annotations

from typing import Any

from tests.real_kafka.cases.common import prefer, produced_text
from tests.real_kafka.cluster import Batch, Cluster, Connection, Topic
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import NOBODY, batch, error, metadata, produce

NAME, SMALL = "refused", "small"
TOPICS = {
    NAME: Topic([[1, 2, 3]]),
    SMALL: Topic([[1, 2, 3]], {"max.message.bytes": "300", "message.timestamp.before.max.ms": "600000"}),
}
HOUR_MS = 3_600_000
TEN_YEARS_MS = 315_360_000_000


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """At the leader, and at a follower."""
    prefer(cluster, NAME, SMALL)
    leader, follower = cluster.connect(1), cluster.connect(2)
    _ask_metadata(leader, outcomes)
    _ask_addressed(leader, follower, outcomes)
    _ask_records(cluster, leader, outcomes)
    _ask_small(cluster, leader, follower, outcomes)


def _ask_metadata(leader: Connection, outcomes: Outcomes) -> None:
    for version in (1, 4, 9, 12):
        topic = metadata(leader, "nope", version=version).topics[0]
        told = f"{error(topic.error_code)} partitions={len(topic.partitions)}"
        outcomes.say(f"Metadata {version} of an unknown topic", told)
    for name in ("a b!", "a/b", ".", "x" * 250, "x" * 249):
        topic = metadata(leader, name).topics[0]
        outcomes.say(f"Metadata of {name[:5]}, {len(name)} letters", error(topic.error_code))
    topic = metadata(leader, topic_id=NOBODY).topics[0]
    outcomes.say("Metadata of an unknown id", f"{error(topic.error_code)} named={bool(topic.name)}")
    topic = metadata(leader, topic_id=metadata(leader, NAME).topics[0].topic_id).topics[0]
    outcomes.say("Metadata by id", f"{error(topic.error_code)} {topic.name}")


def _ask_addressed(leader: Connection, follower: Connection, outcomes: Outcomes) -> None:
    """What is refused whatever the records are."""
    for acks in (3, -2):
        outcomes.say(f"acks={acks}", produced_text(produce(leader, NAME, batch("x"), acks=acks)))
    outcomes.say("unknown topic", produced_text(produce(leader, "nope", batch("x"))))
    outcomes.say("unknown partition", produced_text(produce(leader, NAME, batch("x"), partition=9)))
    outcomes.say("unknown id", produced_text(produce(leader, NOBODY, batch("x"), version=13)))
    for version in (3, 9):
        outcomes.say(
            f"at a follower, version {version}", produced_text(produce(follower, NAME, batch("x"), version=version))
        )
    data = produce(follower, NAME, batch("x"), version=10)
    known = f"leader={data.current_leader.leader_id}/{data.current_leader.leader_epoch}"
    outcomes.say("at a follower, version 10", f"{produced_text(data)} {known} log start {data.log_start_offset}")
    outcomes.say("at a follower, acks=3", produced_text(produce(follower, NAME, batch("x"), acks=3)))


def _validated(data: Any) -> str:
    blamed = [each.batch_index for each in data.record_errors or []]
    told = f"{error(data.error_code)} records={blamed} message={bool(data.error_message)}"
    return f"{told} log start {data.log_start_offset}"


def _ask_records(cluster: Cluster, leader: Connection, outcomes: Outcomes) -> None:
    def told(question: str, records: Batch | None) -> None:
        outcomes.ask(question, lambda: _validated(produce(leader, NAME, records)))

    told("1,100,000 bytes", batch("x" * 1_100_000))
    told("1,048,500 bytes", batch("x" * 1_048_500))
    told("a wrong checksum", Batch([b"x"], corrupt=True))
    now_ms = cluster.wall_ms()
    told("2 hours ahead", batch("x", timestamps=[now_ms + 2 * HOUR_MS]))
    told("59 minutes ahead", batch("x", timestamps=[now_ms + 59 * 60_000]))
    told(
        "two of three are 2 hours ahead",
        batch("x", "y", "z", timestamps=[now_ms + 2 * HOUR_MS, now_ms, now_ms + 2 * HOUR_MS]),
    )
    told("timestamp -1", batch("x", timestamps=[-1]))
    told("10 years ago", batch("x", timestamps=[now_ms - TEN_YEARS_MS]))
    told("no records at all", None)
    told("control records", Batch([b"x"], is_control=True))
    told("an offset", Batch([b"x"], base_offset=5))


def _ask_small(cluster: Cluster, leader: Connection, follower: Connection, outcomes: Outcomes) -> None:
    """A topic that takes little."""

    def told(question: str, records: Batch | None, connection: Connection = leader) -> None:
        outcomes.ask(question, lambda: error(produce(connection, SMALL, records).error_code))

    now_ms = cluster.wall_ms()
    told("200 bytes, where 300 may be", batch("x" * 200))
    told("400 bytes, where 300 may be", batch("x" * 400))
    told("11 minutes ago, where 10 may be", batch("x", timestamps=[now_ms - 11 * 60_000]))
    told("9 minutes ago, where 10 may be", batch("x", timestamps=[now_ms - 9 * 60_000]))
    odd = {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1}
    told("too large, without a sequence", batch("x" * 400, **odd))
    told("too old, without a sequence", batch("x", timestamps=[now_ms - HOUR_MS], **odd))
    gap = {"producer_id": 999_999, "producer_epoch": 0, "base_sequence": 0}
    told("of a producer", batch("x", **gap))
    told("a gap, and too old", batch("x", timestamps=[now_ms - HOUR_MS], **(gap | {"base_sequence": 7})))
    told("the same once more, and too large", batch("x" * 400, **gap))
    told("too large, at a follower", batch("x" * 400), follower)
    told("nothing, at a follower", None, follower)
