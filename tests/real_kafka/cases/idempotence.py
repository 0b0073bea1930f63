"""Idempotent producers: sequence numbers, epochs, and what a new leader remembers."""

from __future__ import annotations

from typing import Any

from tests.real_kafka.cases.common import is_full, leads, prefer, produced_text
from tests.real_kafka.cluster import Batch, Cluster, Connection, Topic, wait
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import error, init_producer_id, list_offsets, produce

NAME = "idempotence"
TOPICS = {NAME: Topic([[1, 2, 3]])}
WRAPS = 2147483647
LOADING = 14


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """At one leader, and at the next."""
    prefer(cluster, NAME)
    leader = cluster.connect(1)
    producer_id = _new_producer_id(cluster, leader, outcomes)
    _ask_sequences(leader, producer_id, outcomes)
    _ask_unknown(leader, producer_id, outcomes)
    _ask_odd(leader, producer_id, outcomes)
    outcomes.say("log end", list_offsets(leader, NAME, -1).offset)
    another = init_producer_id(leader).producer_id
    outcomes.say("acks=all at the old leader", _sent(leader, another, 0))
    cluster.kill(1)
    following = cluster.connect(2)
    leads(cluster, 2, NAME, 2)
    cluster.sleep(300)
    outcomes.say("the same at the next leader", _sent(following, another, 0))
    outcomes.say("a gap at the next leader", _sent(following, another, 2))
    outcomes.say("what follows at the next leader", _sent(following, another, 1))
    cluster.start(1)
    wait(cluster, lambda: is_full(following, NAME))


def _sent(connection: Connection, producer_id: int, sequence: int, count: int = 1, epoch: int = 0, **how: Any) -> str:
    records = Batch([b"r"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return produced_text(produce(connection, NAME, records, **how))


def _new_producer_id(cluster: Cluster, leader: Connection, outcomes: Outcomes) -> int:
    answer = init_producer_id(leader)
    while answer.error_code == LOADING:
        cluster.sleep(50)
        answer = init_producer_id(leader)
    outcomes.say("InitProducerId", f"{error(answer.error_code)} epoch={answer.producer_epoch}")
    return int(answer.producer_id)


def _ask_sequences(leader: Connection, pid: int, outcomes: Outcomes) -> None:
    outcomes.say("sequence 0, 2 records", _sent(leader, pid, 0, 2))
    outcomes.say("the same again", _sent(leader, pid, 0, 2))
    outcomes.say("a gap: sequence 5", _sent(leader, pid, 5))
    outcomes.say("overlap: sequence 1, 2 records", _sent(leader, pid, 1, 2))
    outcomes.say("shorter: sequence 0, 1 record", _sent(leader, pid, 0, 1))
    for sequence in range(2, 7):
        outcomes.say(f"sequence {sequence}", _sent(leader, pid, sequence))
    outcomes.say("the newest again", _sent(leader, pid, 6))
    outcomes.say("the fifth newest again", _sent(leader, pid, 2))
    outcomes.say("the sixth newest again", _sent(leader, pid, 0, 2))
    outcomes.say("the fifth newest again with acks=1", _sent(leader, pid, 2, acks=1))
    outcomes.say("epoch 1, sequence 3", _sent(leader, pid, 3, epoch=1))
    outcomes.say("epoch 1, sequence 0", _sent(leader, pid, 0, epoch=1))
    outcomes.say("epoch 0, sequence 7", _sent(leader, pid, 7))
    outcomes.say("epoch 1, sequence 1", _sent(leader, pid, 1, epoch=1))
    refused = produce(leader, NAME, Batch([b"r"], producer_id=pid, producer_epoch=1, base_sequence=9))
    outcomes.say("log start with a gap", f"{error(refused.error_code)} log start {refused.log_start_offset}")


def _ask_unknown(leader: Connection, pid: int, outcomes: Outcomes) -> None:
    """Producer ids of which the leader has not heard."""
    outcomes.say("unknown id, sequence 5", _sent(leader, pid + 777_000, 5))
    outcomes.say("then its sequence 0", _sent(leader, pid + 777_000, 0))
    outcomes.say("then its sequence 6", _sent(leader, pid + 777_000, 6))
    outcomes.say("unknown id, epoch 4, sequence 0", _sent(leader, pid + 778_000, 0, epoch=4))
    outcomes.say("then epoch 2, sequence 0", _sent(leader, pid + 778_000, 0, epoch=2))
    outcomes.say("the last sequence there is", _sent(leader, pid + 779_000, WRAPS))
    outcomes.say("then sequence 0", _sent(leader, pid + 779_000, 0))
    outcomes.say("then sequence 1", _sent(leader, pid + 779_000, 1))
    outcomes.say("unknown id, a batch that wraps", _sent(leader, pid + 780_000, WRAPS, 3))
    outcomes.say("the batch that wraps again", _sent(leader, pid + 780_000, WRAPS, 3))
    outcomes.say("what follows the wrap", _sent(leader, pid + 780_000, 2))


def _ask_odd(leader: Connection, pid: int, outcomes: Outcomes) -> None:
    two = [Batch([b"r"], producer_id=pid, producer_epoch=1, base_sequence=sequence) for sequence in (2, 3)]
    outcomes.ask("two batches in one partition", lambda: produced_text(produce(leader, NAME, two)))
    outcomes.say("a producer id and sequence -1", _sent(leader, pid, -1, epoch=1))
    outcomes.say("a producer id, sequence -1 and a new epoch", _sent(leader, pid, -1, epoch=7))
    answer = init_producer_id(leader, pid, 1)
    same = answer.producer_id == pid
    told = f"{error(answer.error_code)} same id={same} epoch={answer.producer_epoch}"
    outcomes.say("InitProducerId with id and epoch, without transactions", told)
