"""ListOffsets: every special timestamp, and times, in every version."""

from __future__ import annotations

from tests.real_kafka.cases.common import prefer
from tests.real_kafka.cluster import Cluster, Connection, Topic
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import batch, list_offsets, produce

NAME = "list-offsets"
TOPICS = {NAME: Topic([[1, 2, 3]], {"message.timestamp.after.max.ms": "9223372036854775807"})}
BASE_MS = 1_000_000_000_000
TIMESTAMPS = (-1, -2, -3, -4, -5, -6, -7, 0, BASE_MS + 150, BASE_MS + 300, BASE_MS + 301)


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """Of an empty log, and of one with five records."""
    prefer(cluster, NAME)
    leader = cluster.connect(1)
    _ask_all(leader, "empty", outcomes)
    produce(leader, NAME, batch("a", "b", timestamps=[BASE_MS + 100, BASE_MS + 300]))
    produce(leader, NAME, batch("c", timestamps=[BASE_MS + 200]))
    produce(leader, NAME, batch("d", "e", timestamps=[BASE_MS + 300, BASE_MS + 150]))
    cluster.sleep(600)
    _ask_all(leader, "five records", outcomes)


def _ask_all(leader: Connection, what: str, outcomes: Outcomes) -> None:
    for version in range(1, 12):
        told = []
        for timestamp in TIMESTAMPS:
            data = list_offsets(leader, NAME, timestamp, version=version)
            epoch = data.leader_epoch if version >= 4 else ""
            asked, found = (time % 1000 if time > 0 else time for time in (timestamp, data.timestamp))
            told.append(f"{asked}:{int(data.error_code)}/{data.offset}/{found}/{epoch}")
        outcomes.say(f"{what}, version {version}", " ".join(told))
