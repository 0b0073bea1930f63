"""acks and min.insync.replicas: what is acknowledged, refused and shown while the ISR is too small."""

from __future__ import annotations

from tests.real_kafka.cases.common import is_full, leader_text, produced_text
from tests.real_kafka.cluster import Cluster, Connection, Topic, count_records, wait
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import batch, error, fetch, list_offsets, partition_of, produce, produced, send_produce

NAME = "acks"
TOPICS = {NAME: Topic([[1, 2, 3]], {"min.insync.replicas": "2"})}


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """Kill both followers, and bring them back."""
    leader, waiting = cluster.connect(1), cluster.connect(1)
    outcomes.say("acks=all with an ISR of 3", produced_text(produce(leader, NAME, batch("0"))))
    wait(cluster, lambda: fetch(leader, NAME, 0).high_watermark == 1)
    cluster.kill(2, 3)
    long = send_produce(waiting, NAME, batch("L"), timeout_ms=12_000)
    cluster.sleep(200)
    short = produce(leader, NAME, batch("1"), timeout_ms=1500)
    outcomes.say("acks=all for 1.5 s after both followers were killed", produced_text(short))
    data = fetch(leader, NAME, 1)
    outcomes.say("high watermark then", f"hw={data.high_watermark} records={count_records(data.records)}")
    wait(cluster, lambda: sorted(partition_of(leader, NAME).isr_nodes) == [1])
    outcomes.say("the ISR once they are fenced", leader_text(leader, NAME))
    _ask_alone(leader, outcomes)
    outcomes.say("acks=all for 12 s that waited meanwhile", produced_text(produced(long.get())))
    cluster.start(2, 3)
    wait(cluster, lambda: is_full(leader, NAME))
    wait(cluster, lambda: fetch(leader, NAME, 0).high_watermark == 4, 10_000)
    outcomes.say("both are back", leader_text(leader, NAME))
    outcomes.say("high watermark with both back", fetch(leader, NAME, 0).high_watermark)


def _ask_alone(leader: Connection, outcomes: Outcomes) -> None:
    """The leader is its whole ISR."""
    refused = produce(leader, NAME, batch("2"), timeout_ms=1500)
    outcomes.say("acks=all with an ISR of 1", produced_text(refused))
    outcomes.say("log start with that refusal", refused.log_start_offset)
    outcomes.say("acks=1 with an ISR of 1", produced_text(produce(leader, NAME, batch("2"), acks=1, timeout_ms=1500)))
    data = fetch(leader, NAME, 1)
    seen = f"hw={data.high_watermark} lso={data.last_stable_offset} records={count_records(data.records)}"
    outcomes.say("what a consumer sees then", seen)
    listed = list_offsets(leader, NAME, -1)
    outcomes.say("ListOffsets latest then", f"{error(listed.error_code)} {listed.offset}")
    data = fetch(leader, NAME, 3)
    outcomes.say("Fetch above the high watermark", f"{error(data.error_code)} records={count_records(data.records)}")
    data = fetch(leader, NAME, 9)
    outcomes.say("Fetch above the log end", f"{error(data.error_code)} hw={data.high_watermark}")
