"""A Fetch that waits for remote storage: what each of its partitions is answered."""

from __future__ import annotations

from actors.broker.broker_node import BrokerNode
from actors.broker.delayed_remote_fetch import DelayedRemoteFetch
from actors.broker.fetch_request import FetchItem, FetchParams, ReadResult
from actors.broker.remote_log.fetch_reader import RemoteLogReader
from actors.broker.remote_log.reader_pool import ReaderPool
from actors.broker.remote_log.readers import READER
from actors.broker.turn import Turn
from actors.node.effects import Record, Reply
from actors.node.errors import KafkaError as E
from actors.node.step import Step
from actors.trace.events import RemoteFetchEnd
from krift.v1.fetch import FetchResponse

TP = "orders-0"
CONNECTION = "consumer-1>broker-1"


def _result(topic_id: str, error: E = E.NONE) -> ReadResult:
    item = FetchItem(TP, "orders", topic_id, 0, -1, 5, -1, -1, 1000)
    return ReadResult(item, error, remote=not error, valid=not error, max_bytes=1000)


def _waiting(*results: ReadResult) -> tuple[Turn, DelayedRemoteFetch]:
    """A Fetch whose reads have the numbers 1, 2, ... in the order of its partitions."""
    turn = Turn(Step(0), BrokerNode())
    turn.readers.pools[READER] = ReaderPool(READER, 1, 1)
    params = FetchParams(CONNECTION, 15, 7, -1, -1, 0, 1, 5000, 500, "none", 0, -1, False, False)
    delayed = DelayedRemoteFetch(CONNECTION, 500, params, list(results))
    places = [place for place, result in enumerate(results) if result.remote]
    delayed.tasks = dict(enumerate(places, start=1))
    turn.purgatory.park(turn.step, delayed)
    return turn, delayed


def _done(turn: Turn, delayed: DelayedRemoteFetch, number: int, error: E) -> None:
    delayed.on_read(turn, RemoteLogReader(number, CONNECTION, 7, TP, TP, error=error))


def _told(turn: Turn) -> list[tuple[str, int]]:
    """(topic id, error) of each partition in the answer."""
    (reply,) = [each for each in turn.step.effects if isinstance(each, Reply)]
    response = reply.response
    assert isinstance(response, FetchResponse)
    return [(topic.topic_id, each.error_code) for topic in response.responses for each in topic.partitions]


def test_a_former_topic_of_the_same_name_gets_nothing_of_a_read() -> None:
    """Shows that a read is for the partition of one topic id: another one with its name, which a fetch session still
    has, keeps its error."""
    turn, delayed = _waiting(_result("former", E.INCONSISTENT_TOPIC_ID), _result("new"))
    _done(turn, delayed, 1, E.OFFSET_OUT_OF_RANGE)
    assert _told(turn) == [("former", E.INCONSISTENT_TOPIC_ID), ("new", E.OFFSET_OUT_OF_RANGE)]


def test_a_former_topic_keeps_its_error_when_the_new_one_is_lost() -> None:
    """Shows that the same holds for the error of a partition that the broker has no more."""
    turn, delayed = _waiting(_result("former", E.INCONSISTENT_TOPIC_ID), _result("new"))
    assert delayed.try_complete(turn, delayed.keys[0])
    delayed.on_complete(turn)
    assert _told(turn) == [("former", E.INCONSISTENT_TOPIC_ID), ("new", E.UNKNOWN_TOPIC_OR_PARTITION)]


def test_each_read_has_its_result() -> None:
    """Shows that a Fetch that names a partition twice waits for both reads, and tells the result of each. The end of
    its wait is recorded after its answer."""
    turn, delayed = _waiting(_result("one"), _result("two"))
    turn.purgatory.remove(CONNECTION)  # so that the loss of its partitions does not end its wait
    _done(turn, delayed, 2, E.REPLICA_NOT_AVAILABLE)
    _done(turn, delayed, 3, E.UNKNOWN_SERVER_ERROR)
    assert [result.error for result in delayed.results] == [E.NONE, E.REPLICA_NOT_AVAILABLE]
    _done(turn, delayed, 1, E.OFFSET_OUT_OF_RANGE)
    delayed.on_complete(turn)
    assert _told(turn) == [("one", E.OFFSET_OUT_OF_RANGE), ("two", E.REPLICA_NOT_AVAILABLE)]
    last = turn.step.effects[-1]
    assert isinstance(last, Record) and last.event == RemoteFetchEnd(CONNECTION, 7, False)
