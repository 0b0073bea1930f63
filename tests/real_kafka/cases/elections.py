"""ElectLeaders, elections of the controller's own, and dynamic configuration."""

from __future__ import annotations

from typing import Any

from tests.real_kafka.cases.common import leader_text, prefer, produced_text
from tests.real_kafka.cluster import Cluster, Connection, Topic, wait
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import (
    alter_topic,
    batch,
    elect,
    epoch_end,
    error,
    fetch,
    list_offsets,
    metadata,
    partition_of,
    produce,
)

ALL, TWO = "elected", "unclean"
TOPICS = {ALL: Topic([[1, 2, 3]]), TWO: Topic([[2, 3]])}
PREFERRED, UNCLEAN = 0, 1


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """With everybody alive, and with a partition whose replicas die one after the other."""
    prefer(cluster, ALL, TWO)
    first = cluster.connect(1)
    _ask_alive(first, outcomes)
    _ask_dying(cluster, first, outcomes)
    _ask_unclean(cluster, first, outcomes)
    _ask_configs(first, outcomes)


def elected_text(answer: Any) -> str:
    """Each partition's result, and whether a message says why."""
    results = sorted(
        (topic.topic, data.partition_id, error(data.error_code), bool(data.error_message))
        for topic in answer.replica_election_results
        for data in topic.partition_result
    )
    return f"{error(answer.error_code)} {results}"


def _ask_alive(first: Connection, outcomes: Outcomes) -> None:
    only = {ALL: [0]}
    outcomes.say("preferred, and it leads", elected_text(elect(first, PREFERRED, only)))
    outcomes.say("unclean, and somebody leads", elected_text(elect(first, UNCLEAN, only)))
    outcomes.say("unknown topic", elected_text(elect(first, PREFERRED, {"nope": [0]})))
    outcomes.say("unknown partition", elected_text(elect(first, PREFERRED, {ALL: [5]})))
    topics = len(metadata(first).topics)
    for name, kind in (("preferred", PREFERRED), ("unclean", UNCLEAN)):
        answer = elect(first, kind, None)
        told = f"{error(answer.error_code)} each topic: {len(answer.replica_election_results) == topics}"
        results = [each for each in answer.replica_election_results if each.topic in TOPICS]
        outcomes.say(f"all, {name}", f"{told} partitions={sum(len(each.partition_result) for each in results)}")
    outcomes.ask("election type 2", lambda: elected_text(elect(first, 2, only)))
    outcomes.ask("all, election type 2", lambda: elected_text(elect(first, 2, None)))
    answer = elect(first, PREFERRED, only, version=0)
    codes = [error(data.error_code) for topic in answer.replica_election_results for data in topic.partition_result]
    outcomes.say("version 0", codes)


def _ask_dying(cluster: Cluster, first: Connection, outcomes: Outcomes) -> None:
    """3 dies and leaves the ISR, 2 leads alone, writes, and dies; 3 returns."""
    second = cluster.connect(2)
    outcomes.say("two replicas", leader_text(second, TWO))
    produce(second, TWO, batch("x", "x"))
    cluster.kill(3)
    wait(cluster, lambda: sorted(partition_of(second, TWO).isr_nodes) == [2])
    outcomes.say("3 is dead", leader_text(second, TWO))
    outcomes.say("acks=1 then", produced_text(produce(second, TWO, batch("y", "y", "y"), acks=1)))
    outcomes.say("high watermark then", fetch(second, TWO, 0).high_watermark)
    outcomes.say("preferred elsewhere, 3 is dead", elected_text(elect(first, PREFERRED, {ALL: [0]})))
    cluster.kill(2)
    wait(cluster, lambda: partition_of(first, TWO).leader_id == -1)
    outcomes.say("both are dead", leader_text(first, TWO))
    outcomes.say("unclean, nobody is alive", elected_text(elect(first, UNCLEAN, {TWO: [0]})))
    outcomes.say("preferred, it is dead", elected_text(elect(first, PREFERRED, {TWO: [0]})))
    cluster.start(3)
    wait(cluster, lambda: 3 in [broker.node_id for broker in metadata(first).brokers])
    cluster.sleep(1500)
    outcomes.say("3 is back", leader_text(first, TWO))
    outcomes.say("preferred, neither alive nor in the ISR", elected_text(elect(first, PREFERRED, {TWO: [0]})))


def _ask_unclean(cluster: Cluster, first: Connection, outcomes: Outcomes) -> None:
    outcomes.say("unclean elections are allowed", alter_topic(first, TWO, unclean_leader_election_enable="true"))
    came = wait(cluster, lambda: partition_of(first, TWO).leader_id == 3, 30_000)
    outcomes.say("after that", leader_text(first, TWO))
    outcomes.say("a leader came by itself", came)
    third = cluster.connect(3)
    cluster.sleep(500)
    listed = list_offsets(third, TWO, -1)
    outcomes.say("latest at the unclean leader", f"{error(listed.error_code)} {listed.offset}")
    outcomes.say("acks=all at the unclean leader", produced_text(produce(third, TWO, batch("z"))))
    cluster.start(2)
    wait(cluster, lambda: sorted(partition_of(first, TWO).isr_nodes) == [2, 3])
    outcomes.say("2 is back", leader_text(third, TWO))
    for epoch in range(5):
        data = epoch_end(third, TWO, epoch)
        told = f"{error(data.error_code)} epoch={data.leader_epoch} end={data.end_offset}"
        outcomes.say(f"OffsetForLeaderEpoch of {epoch}", told)
    outcomes.say("preferred, and it is back", elected_text(elect(first, PREFERRED, {TWO: [0]})))
    cluster.sleep(500)
    outcomes.say("it leads again", leader_text(first, TWO))


def _ask_configs(first: Connection, outcomes: Outcomes) -> None:
    outcomes.say("a value that is none", alter_topic(first, TWO, unclean_leader_election_enable="maybe"))
    outcomes.say("a key that is none", alter_topic(first, TWO, no_such="1"))
    outcomes.say("a topic that is none", alter_topic(first, "nope", min_insync_replicas="1"))
    outcomes.say("min.insync.replicas=0", alter_topic(first, TWO, min_insync_replicas="0"))
    outcomes.say("min.insync.replicas=5", alter_topic(first, TWO, min_insync_replicas="5"))
    outcomes.say("max.message.bytes=-1", alter_topic(first, TWO, max_message_bytes="-1"))
    outcomes.say("max.message.bytes=99999999999", alter_topic(first, TWO, max_message_bytes="99999999999"))
    long = alter_topic(first, TWO, message_timestamp_before_max_ms="99999999999")
    outcomes.say("message.timestamp.before.max.ms=99999999999", long)
    alter_topic(first, TWO, unclean_leader_election_enable=None, min_insync_replicas=None)
