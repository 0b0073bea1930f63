"""KIP-207: what a new leader says of the log end until its high watermark has reached the start of its epoch."""

from __future__ import annotations

from collections import Counter

from tests.real_kafka.cases.common import is_full, leads, prefer
from tests.real_kafka.cluster import Closed, Cluster, Connection, Topic, wait
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import batch, error, list_offsets, produce, send_list_offsets, send_produce

NAME = "kip-207"
TOPICS = {NAME: Topic([[1, 2, 3]], {"min.insync.replicas": "1"})}
VERSIONS = (4, 5, 10)
SILENCE_MS = 2500
"""Shorter than it takes until a dead leader is fenced."""
REFUSALS = {4: 5, 5: 78, 10: 78}
PASSING = (0, 3, 6)
"""No refusal of KIP-207: an answer, or a broker that does not lead (yet)."""


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """Kill the leader while records come, and ask the others, three times over."""
    seen: Counter[tuple[int, int]] = Counter()
    backwards = 0
    windows = []
    for attempt in range(3):
        prefer(cluster, NAME)
        leads(cluster, 1, NAME, 2, 3)
        last = _load(cluster)
        if attempt == 0:
            listed = list_offsets(cluster.connect(1), NAME, -1)
            outcomes.say("before", f"{error(listed.error_code)} epoch={listed.leader_epoch}")
        cluster.kill(1)
        first, window_ms = _poll(cluster, seen)
        backwards += first < last
        windows.append(window_ms)
        cluster.start(1)
        wait(cluster, lambda: is_full(cluster.connect(2), NAME))
    for version in VERSIONS:
        refusals = sorted({code for asked, code in seen if asked == version and code not in PASSING})
        outcomes.say(f"refusals at version {version}", refusals)
    outcomes.say("the new leader told less than the old one had", backwards > 0)
    outcomes.say("each time it refused for less than 2.7 s", all(window < 2700 for window in windows))


def _load(cluster: Cluster) -> int:
    """Produce for a while; the latest offset that the leader told. Some records are on their way at the end."""
    leader, second = cluster.connect(1), cluster.connect(1)
    end_ms = cluster.now_ms() + 800
    last = 0
    while cluster.now_ms() < end_ms:
        produce(leader, NAME, batch(*["x" * 20] * 5), acks=1)
        listed = list_offsets(leader, NAME, -1)
        last = max(last, listed.offset)
    for connection in (leader, second):
        send_produce(connection, NAME, batch(*["x" * 20] * 5), acks=1)
    cluster.sleep(15)
    return int(last)


def _poll(cluster: Cluster, seen: Counter[tuple[int, int]]) -> tuple[int, int]:
    """Ask the others, at every version, until one answers; its answer, and for how long it refused."""
    cluster.sleep(SILENCE_MS)
    asked: list[tuple[int, Connection]] = [(version, cluster.connect(node)) for version in VERSIONS for node in (2, 3)]
    since_ms = -1
    for _ in range(100_000):
        sent = [(version, send_list_offsets(each, NAME, -1, version=version)) for version, each in asked]
        for version, listed in [(version, pending.get().topics[0].partitions[0]) for version, pending in sent]:
            seen[version, int(listed.error_code)] += 1
            if listed.error_code == REFUSALS[version] and since_ms < 0:
                since_ms = cluster.now_ms()
            if not listed.error_code:
                return int(listed.offset), cluster.now_ms() - since_ms if since_ms >= 0 else 0
    raise Closed
