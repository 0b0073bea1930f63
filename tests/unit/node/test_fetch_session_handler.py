"""What a fetcher makes of answers that do not fit its session."""

from __future__ import annotations

import pytest

from actors.node.effects import Record
from actors.node.fetch_session_handler import FetchSessionHandler, PartitionRequest
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.step import Step
from actors.trace.events import FetchMisfit
from krift.v1.fetch import FetchRequest, FetchResponse

SESSION = 7


class Fetcher:
    """Who fetches from broker-1, in a version that names topics, or knows their ids."""

    def __init__(self, version: int) -> None:
        self.handler = FetchSessionHandler()
        self.version = version

    def asks(self, *tps: str, generation: str = "") -> FetchRequest:
        """For these partitions, "<topic>-<index>", and no others."""
        request = FetchRequest()
        wanted: dict[str, PartitionRequest] = {}
        for tp in tps:
            topic, _, index = tp.rpartition("-")
            topic_id = f"id-{topic}{generation}" if self.version >= 13 else ""
            wanted[tp] = PartitionRequest(topic, topic_id, int(index), 0, 1)
        self.handler.build(request, self.version, wanted)
        return request

    def hears(self, *tps: str, generation: str = "") -> list[FetchMisfit]:
        """Of these partitions; what the trace has of it."""
        response = FetchResponse(session_id=SESSION)
        for tp in tps:
            topic, _, index = tp.rpartition("-")
            about = FetchResponse.FetchableTopicResponse(
                partitions=[FetchResponse.PartitionData(partition_index=int(index))]
            )
            if self.version >= 13:
                about.topic_id = f"id-{topic}{generation}"
            else:
                about.topic = topic
            response.responses.append(about)
        step = Step(0)
        ended = Ended(1, "broker-1", "c", int(Api.Fetch), self.version, "", FetchRequest(), response, None)
        answers = self.handler.take(step, ended)
        found = [each.event for each in step.effects if isinstance(each, Record)]
        assert (answers is None) == bool(found)
        assert answers is None or [tp for tp, _ in answers] == list(tps)
        return [each for each in found if isinstance(each, FetchMisfit)]


@pytest.mark.parametrize("version", [12, 13])
def test_answers_that_fit(version: int) -> None:
    """Shows that a session that begins is answered about all that was asked for, and then about any part of that; and
    that nothing of it is told."""
    fetcher = Fetcher(version)
    fetcher.asks("orders-0", "orders-1", "bills-0")
    assert fetcher.hears("orders-0", "bills-0", "orders-1") == []
    for tps in ((), ("orders-1",)):
        assert fetcher.asks("orders-0", "orders-1").session_id == SESSION
        assert fetcher.hears(*tps) == []


@pytest.mark.parametrize("version", [12, 13])
def test_an_answer_about_what_the_session_was_to_forget(version: int) -> None:
    """Shows that the partition is told of, by the id of its topic if nothing of that is in the session; and that the
    next request ends the session, and asks for everything."""
    for forgotten in ("orders-1", "bills-0"):
        fetcher = Fetcher(version)
        fetcher.asks("orders-0", forgotten)
        assert fetcher.hears("orders-0", forgotten) == []
        [named] = fetcher.asks("orders-0").forgotten_topics_data
        assert named.partitions == [int(forgotten[-1])]
        name = "id-bills-0" if (version, forgotten) == (13, "bills-0") else forgotten
        assert fetcher.hears("orders-0", forgotten) == [FetchMisfit("broker-1", SESSION, 1, [name], [])]
        request = fetcher.asks("orders-0")
        assert (request.session_id, request.session_epoch, len(request.topics)) == (SESSION, 0, 1)


def test_an_answer_about_a_topic_that_was_made_anew() -> None:
    """Shows that a topic of another id is another topic, and that the former one is told of by its id."""
    for generation, misfits in (("-2", []), ("", [FetchMisfit("broker-1", SESSION, 1, ["id-orders-0"], [])])):
        fetcher = Fetcher(13)
        fetcher.asks("orders-0")
        assert fetcher.hears("orders-0") == []
        [named] = fetcher.asks("orders-0", generation="-2").forgotten_topics_data
        assert named.topic_id == "id-orders"
        step = fetcher.hears("orders-0", generation=generation)
        assert step == misfits


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize(
    ("told", "unasked", "missing"),
    [
        (("orders-0",), [], ["orders-1"]),
        (("orders-0", "orders-1", "orders-2"), ["orders-2"], []),
        (("orders-0", "orders-2"), ["orders-2"], ["orders-1"]),
        (("orders-0", "orders-1", "orders-1"), [], []),
    ],
)
def test_a_session_that_begins_with_an_answer_that_does_not_fit(
    version: int, told: tuple[str, ...], unasked: list[str], missing: list[str]
) -> None:
    """Shows that what the answer lacks is told, too, and that there is no session then."""
    fetcher = Fetcher(version)
    fetcher.asks("orders-0", "orders-1")
    assert fetcher.hears(*told) == [FetchMisfit("broker-1", 0, 0, unasked, missing)]
    request = fetcher.asks("orders-0", "orders-1")
    assert (request.session_id, request.session_epoch) == (0, 0)
