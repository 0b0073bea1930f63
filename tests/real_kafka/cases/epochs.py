"""Leader epochs in Fetch, ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from tests.real_kafka.cases.common import is_full, leader_text, leads, records_text
from tests.real_kafka.cluster import Cluster, Connection, Topic, count_records, wait
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import NOBODY, batch, elect, epoch_end, error, fetch, list_offsets, metadata, produce

NAME = "epochs"
TOPICS = {NAME: Topic([[1, 2, 3]])}
EPOCH = 2
"""Of the leader when it is asked: the third."""


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """A log of three epochs: 0 from 0 to 3, 1 to 5, 2 to 6."""
    first, second = cluster.connect(1), cluster.connect(2)
    outcomes.say("at the start", leader_text(first, NAME))
    produce(first, NAME, batch("a", "a", "a"))
    cluster.kill(1)
    leads(cluster, 2, NAME, 2)
    cluster.sleep(500)
    outcomes.say("after 1 was killed", leader_text(second, NAME))
    produce(second, NAME, batch("b", "b"))
    cluster.start(1)
    wait(cluster, lambda: is_full(second, NAME))
    answer = elect(second, 0, {NAME: [0]})
    results = [error(each.error_code) for topic in answer.replica_election_results for each in topic.partition_result]
    outcomes.say("preferred election", f"{error(answer.error_code)} {results}")
    leads(cluster, 1, NAME, 1, 2, 3)
    cluster.sleep(500)
    first = cluster.connect(1)
    outcomes.say("after it", leader_text(first, NAME))
    produce(first, NAME, batch("c"))
    cluster.sleep(600)
    listed = list_offsets(first, NAME, -1)
    outcomes.say("log end and its epoch", f"{listed.offset} {listed.leader_epoch}")
    _ask_current_epoch(first, second, outcomes)
    _ask_divergence(first, outcomes)
    _ask_list_offsets(first, second, outcomes)
    _ask_epoch_ends(first, second, outcomes)


def _current_leader(data: object, version: int) -> str:
    known = getattr(data, "current_leader", None)
    return f" leader={known.leader_id}/{known.leader_epoch}" if version >= 12 and known is not None else ""


def _ask_current_epoch(first: Connection, second: Connection, outcomes: Outcomes) -> None:
    for version in (9, 12):
        for epoch in (0, 1, 2, 3, 7):
            data = fetch(first, NAME, 0, version=version, epoch=epoch)
            told = f"{error(data.error_code)} hw={data.high_watermark}{_current_leader(data, version)}"
            outcomes.say(f"Fetch {version} at the leader of epoch 2 for epoch {epoch}", told)
    topic_id = metadata(first, NAME).topics[0].topic_id
    data = fetch(first, topic_id, 0, version=16, epoch=EPOCH - 1)
    outcomes.say("Fetch 16 of an older epoch", f"{error(data.error_code)}{_current_leader(data, 16)}")
    for version in (4, 10, 11, 12):
        data = fetch(second, NAME, 0, version=version)
        told = f"{error(data.error_code)} hw={data.high_watermark} records={count_records(data.records)}"
        outcomes.say(f"Fetch {version} at a follower", told + _current_leader(data, version))
    for epoch in (1, 2, 3):
        data = fetch(second, NAME, 0, epoch=epoch)
        told = f"{error(data.error_code)} records={count_records(data.records)}"
        outcomes.say(f"Fetch 12 at a follower for epoch {epoch}", told)
    for data, what in ((fetch(first, "nope", 0), "topic"), (fetch(first, NAME, 0, partition=9), "partition")):
        outcomes.say(f"Fetch 12 of an unknown {what}", error(data.error_code))
    unknown = fetch(first, NOBODY, 0, version=16)
    outcomes.say("Fetch 16 of an unknown topic id", error(unknown.error_code))


def _ask_divergence(first: Connection, outcomes: Outcomes) -> None:
    for last in (-1, 0, 1, 2, 3):
        data = fetch(first, NAME, 3, epoch=EPOCH, last_epoch=last)
        outcomes.say(f"Fetch 12 at 3 with last epoch {last}", records_text(data))
    for offset, last in (
        (0, 0),
        (0, 1),
        (4, 0),
        (4, 1),
        (5, 0),
        (5, 1),
        (5, 2),
        (6, 0),
        (6, 1),
        (6, 2),
        (7, 2),
        (60, 2),
    ):
        data = fetch(first, NAME, offset, epoch=EPOCH, last_epoch=last)
        outcomes.say(f"Fetch 12 at {offset} with last epoch {last}", records_text(data))
    for offset in (-1, 6, 7):
        data = fetch(first, NAME, offset)
        told = f"{error(data.error_code)} hw={data.high_watermark} start={data.log_start_offset}"
        outcomes.say(f"Fetch 12 at {offset}, where the log ends at 6", told)


def _ask_list_offsets(first: Connection, second: Connection, outcomes: Outcomes) -> None:
    for timestamp in (-1, -2):
        for epoch in (1, 2, 3):
            data = list_offsets(first, NAME, timestamp, epoch=epoch)
            told = f"{error(data.error_code)} {data.offset} {data.leader_epoch}"
            outcomes.say(f"ListOffsets {timestamp} at the leader for epoch {epoch}", told)
    for replica in (-1, -2, 2):
        data = list_offsets(second, NAME, -1, replica=replica)
        told = f"{error(data.error_code)} {data.offset} {data.leader_epoch}"
        outcomes.say(f"ListOffsets at a follower, replica {replica}", told)
    outcomes.say("ListOffsets of an unknown topic", error(list_offsets(first, "nope", -1).error_code))
    outcomes.say("ListOffsets of an unknown partition", error(list_offsets(first, NAME, -1, partition=9).error_code))


def _ask_epoch_ends(first: Connection, second: Connection, outcomes: Outcomes) -> None:
    for epoch in (-2, -1, 0, 1, 2, 3, 4, 5, 9):
        data = epoch_end(first, NAME, epoch)
        told = f"{error(data.error_code)} epoch={data.leader_epoch} end={data.end_offset}"
        outcomes.say(f"OffsetForLeaderEpoch of {epoch}", told)
    for current in (1, 2, 3):
        data = epoch_end(first, NAME, 0, current=current)
        told = f"{error(data.error_code)} epoch={data.leader_epoch} end={data.end_offset}"
        outcomes.say(f"OffsetForLeaderEpoch of 0 for epoch {current}", told)
    for version in (2, 3):
        data = epoch_end(first, NAME, 0, version=version)
        told = f"{error(data.error_code)} epoch={data.leader_epoch} end={data.end_offset}"
        outcomes.say(f"OffsetForLeaderEpoch {version} of 0", told)
    for current in (-1, 1, 2, 3):
        data = epoch_end(second, NAME, 0, current=current)
        told = f"{error(data.error_code)} epoch={data.leader_epoch} end={data.end_offset}"
        outcomes.say(f"OffsetForLeaderEpoch at a follower for epoch {current}", told)
    outcomes.say("OffsetForLeaderEpoch of an unknown topic", error(epoch_end(first, "nope", 0).error_code))
    unknown = epoch_end(first, NAME, 0, partition=7)
    outcomes.say("OffsetForLeaderEpoch of an unknown partition", error(unknown.error_code))
