"""What waits at a node, and how a kind of waiting that nobody knew before goes on."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

import pytest

from actors.broker import leadership
from actors.broker.broker_node import BrokerNode
from actors.broker.fetch import DelayedFetch
from actors.broker.fetch_request import parse_params
from actors.broker.forwarding import ForwardedRequest
from actors.broker.partition import Partition, RemoteReplica, find_partition
from actors.broker.produce import DelayedProduce
from actors.broker.purgatory import COMMITTED
from actors.broker.turn import Settings, Turn
from actors.log.batch import LogRecord
from actors.metadata.registrations import PartitionRegistration
from actors.node.codec import decode, encode
from actors.node.effects import Reply, SetTimer
from actors.node.errors import KafkaError
from actors.node.purgatory import NEVER_MS, PREFIX, DelayedOperation, Key, Purgatory
from actors.node.step import Step
from krift.v1.admin import ElectLeadersRequest
from krift.v1.fetch import FetchRequest
from krift.v1.producer_ids import InitProducerIdResponse

TP = "groups-0"


class AppendAnswered(DelayedOperation):
    """What a coordinator does with its own partition: it has appended, and answers its client when the high watermark
    has passed ``offset``."""

    offset: int
    error: KafkaError = KafkaError.NONE

    timer: ClassVar[str] = f"{PREFIX}append"

    @property
    def keys(self) -> tuple[Key, ...]:
        return ((COMMITTED, TP),)

    def try_complete(self, context: Turn, key: Key) -> bool:
        partition, self.error = find_partition(context, TP)
        if partition is None:
            return True
        done, self.error = partition.has_reached(self.offset + 1)
        return done

    def on_complete(self, context: Turn) -> None:
        context.step.reply(self.connection, InitProducerIdResponse(error_code=self.error))

    def on_expiration(self, context: Turn) -> None:
        self.error = KafkaError.REQUEST_TIMED_OUT
        self.on_complete(context)


class Coordinator:
    """Broker 1, which leads the partition in epoch 3 with broker 2 as follower, and has appended one record."""

    def __init__(self) -> None:
        self.node: Any = BrokerNode(settings=Settings(node_id=1))
        self.lead(leader=1, leader_epoch=3, partition_epoch=3)
        turn = self.turn()
        self.partition.log.append_records(turn.step, turn.files, [LogRecord(0)], 3)
        turn.purgatory.park(turn.step, AppendAnswered("client>1", 500, 0))
        self.parked = turn

    @property
    def partition(self) -> Partition:
        """The coordinator's own."""
        found: Partition = self.node.replicas.partitions[TP]
        return found

    def turn(self, now_ms: int = 100) -> Turn:
        """Another step."""
        return Turn(Step(now_ms), self.node)

    def lead(self, leader: int, leader_epoch: int, partition_epoch: int) -> Turn:
        """The metadata log names a leader."""
        topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
        state = PartitionRegistration("groups", topic_id, 0, [1, 2], [1, 2], leader, leader_epoch, partition_epoch)
        self.node.image.partitions[TP] = state
        turn = self.turn()
        self.node.replicas.apply(turn, [state])
        return turn


def errors(turn: Turn) -> list[int]:
    """What a step answered."""
    replies = [effect for effect in turn.step.effects if isinstance(effect, Reply)]
    assert all(reply.connection == "client>1" for reply in replies)
    return [reply.response.error_code for reply in replies]  # type: ignore[union-attr]


def test_an_append_is_answered_above_the_high_watermark() -> None:
    """Shows that an operation which the broker has never heard of waits until a follower has the record, and goes on
    then, without anything but its own class."""
    coordinator = Coordinator()
    assert coordinator.parked.step.effects[-1] == SetTimer(f"{PREFIX}append", 400, 400)
    turn = coordinator.turn()
    coordinator.node.replicas._advance(turn, coordinator.partition)
    assert errors(turn) == []
    coordinator.partition.remotes[2] = RemoteReplica(log_end=1)
    coordinator.node.replicas._advance(turn, coordinator.partition)
    assert errors(turn) == [KafkaError.NONE]
    assert (turn.purgatory.parked, turn.purgatory.unwatched()) == ({}, [])


def test_an_append_is_refused_when_the_leadership_is_lost() -> None:
    """Shows that whoever waits for a partition learns that another broker leads it now."""
    coordinator = Coordinator()
    turn = coordinator.lead(leader=2, leader_epoch=4, partition_epoch=4)
    assert errors(turn) == [KafkaError.NOT_LEADER_OR_FOLLOWER]


def test_an_append_waits_no_longer_than_its_time() -> None:
    """Shows that the timer of a new kind ends its waits, and is set anew for those that are left."""
    coordinator = Coordinator()
    turn = coordinator.turn(500)
    turn.purgatory.park(turn.step, AppendAnswered("client>2", 700, 0))  # type: ignore[arg-type]
    turn.purgatory.on_timer(turn, AppendAnswered.timer)
    assert errors(turn) == [KafkaError.REQUEST_TIMED_OUT]
    assert turn.step.effects[-1] == SetTimer(AppendAnswered.timer, 200, 200)
    assert list(turn.purgatory.parked) == ["client>2"]


def test_nobody_answers_a_client_that_is_gone() -> None:
    """Shows that a request whose connection is gone is forgotten, with all that it was watched under."""
    coordinator = Coordinator()
    turn = coordinator.turn()
    assert turn.purgatory.remove("client>1") is not None
    assert turn.purgatory.remove("client>1") is None
    coordinator.partition.remotes[2] = RemoteReplica(log_end=1)
    coordinator.node.replicas._advance(turn, coordinator.partition)
    assert errors(turn) == []


def test_what_waits_is_data() -> None:
    """Shows that a purgatory is copied, written down and read again with what its operations need to go on."""
    purgatory: Purgatory[AppendAnswered] = Purgatory()
    purgatory.park(Step(0), AppendAnswered("client>1", 500, 7))
    assert deepcopy(purgatory) == purgatory
    assert decode(encode(purgatory), Purgatory[AppendAnswered]) == purgatory


class Waiting(DelayedOperation):
    """Waits for partitions, and tells when it is looked at."""

    partitions: list[str]

    timer: ClassVar[str] = f"{PREFIX}waiting"

    @property
    def keys(self) -> list[Key]:
        return [("news", tp) for tp in self.partitions]

    def try_complete(self, context: list[str], key: Key) -> bool:
        context.append(f"{self.connection} {key[1]}")
        return False


def test_one_timer_covers_all_deadlines() -> None:
    """Shows that the timer is set again only for a deadline that is earlier than the one it runs for, and for none that
    never comes."""
    purgatory, step = Purgatory[Waiting](), Step(100)
    for name, deadline_ms in (("a", 600), ("b", 700), ("c", 500), ("d", NEVER_MS)):
        purgatory.park(step, Waiting(name, deadline_ms, []))
    assert step.effects == [SetTimer(Waiting.timer, 500, 500), SetTimer(Waiting.timer, 400, 400)]


def test_whoever_waits_looks_again_once_and_in_order() -> None:
    """Shows that a request which names a partition twice is woken once for it, that those are woken in the order in
    which they came, and nobody who waits for another partition."""
    purgatory, step = Purgatory[Waiting](), Step(0)
    for name, partitions in (("a", ["t-0", "t-1", "t-0"]), ("b", ["t-1"]), ("c", ["t-0"])):
        purgatory.park(step, Waiting(name, NEVER_MS, partitions))
    woken: list[str] = []
    purgatory.check(woken, ("news", "t-0"))
    assert woken == ["a t-0", "c t-0"]


def test_a_part_of_the_broker_learns_who_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a listener hears once of every leader epoch, whether this broker won or lost it, and of nothing else
    that the metadata log says of the partition."""
    heard: list[tuple[int, bool]] = []
    listeners = (*leadership.LISTENERS, lambda turn, each: heard.append((each.leader_epoch, each.is_leader)))
    monkeypatch.setattr(leadership, "LISTENERS", listeners)
    coordinator = Coordinator()
    coordinator.lead(leader=1, leader_epoch=3, partition_epoch=4)
    coordinator.lead(leader=2, leader_epoch=4, partition_epoch=5)
    coordinator.lead(leader=1, leader_epoch=5, partition_epoch=6)
    assert heard == [(3, True), (4, False), (5, True)]


def test_a_node_keeps_its_operations_through_a_snapshot() -> None:
    """Shows that every kind that may wait at a broker is read again as what it was."""
    node, asked = BrokerNode(), ElectLeadersRequest()
    operations = (
        DelayedProduce("client>1", 5, "client", 9, 1, -1, []),
        DelayedFetch("client>2", 6, parse_params(Turn(Step(0), node), "client>2", FetchRequest()), [], []),
        ForwardedRequest("client>3", 7, asked, asked, 7),
    )
    for operation in operations:
        node.purgatory.park(Step(0), operation)
    assert list(decode(encode(node), BrokerNode).purgatory.parked.values()) == list(operations)
