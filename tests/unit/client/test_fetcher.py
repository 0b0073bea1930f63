"""What a consumer's fetcher makes of answers that bring nothing."""

from __future__ import annotations

import pytest

from actors.client.fetcher import PURPOSE, Asked, Fetcher
from actors.client.metadata_cache import MetadataCache
from actors.client.subscription_state import TopicPartitionState
from actors.node.fetch_session_handler import FetchSessionHandler, PartitionRequest
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.often import TOLD
from actors.node.step import Step
from actors.trace.events import RpcQuiet
from krift.v1.fetch import FetchRequest, FetchResponse

TP = "orders-0"
BEYOND = 10
SESSION = 7


def _ask(fetcher: Fetcher, call: int) -> None:
    request = FetchRequest()
    session = fetcher.sessions.setdefault("broker-1", FetchSessionHandler())
    session.build(request, 12, {TP: PartitionRequest("orders", "", 0, BEYOND, 1 << 20, 0)})
    fetcher.calls[call] = {TP: Asked(BEYOND, 0, TP)}
    fetcher.busy["broker-1"] = call


def _answer(
    fetcher: Fetcher,
    step: Step,
    call: int,
    position: TopicPartitionState,
    high_watermark: int | None,
    stable_offset: int = -1,
) -> None:
    response = FetchResponse(session_id=SESSION)
    if high_watermark is not None:
        data = FetchResponse.PartitionData(partition_index=0, high_watermark=high_watermark)
        data.last_stable_offset = stable_offset
        response.responses.append(FetchResponse.FetchableTopicResponse(topic="orders", partitions=[data]))
    ended = Ended(call, "broker-1", "client", int(Api.Fetch), 12, PURPOSE, FetchRequest(), response, None)
    assert fetcher.on_ended(step, MetadataCache(), {TP: position}, ended) == []


def _quiet(step: Step) -> list[RpcQuiet]:
    return [each.event for each in step.effects if isinstance(getattr(each, "event", None), RpcQuiet)]


def test_a_position_that_is_assigned_anew_within_a_session_is_still_known_to_be_beyond_the_high_watermark() -> None:
    """A session's answer leaves out what has not changed, a high watermark that does not move among it: that the member
    joined again in between, and has a new position, is nothing to the broker."""
    fetcher, step = Fetcher(), Step(0)
    first, again = (TopicPartitionState(TP, "fetching", BEYOND) for _ in range(2))
    for call in range(TOLD):
        _ask(fetcher, call)
        _answer(fetcher, step, call, first if call < 2 else again, None if call else BEYOND - 3)
    assert _quiet(step) == [RpcQuiet(TOLD, TP)]


def test_a_position_at_the_high_watermark_is_not_beyond_it() -> None:
    """So it is told of the new one when that moves, and asks for no reason."""
    fetcher, step = Fetcher(), Step(0)
    position = TopicPartitionState(TP, "fetching", BEYOND)
    for call in range(TOLD + 1):
        _ask(fetcher, call)
        _answer(fetcher, step, call, position, {0: BEYOND - 3, 1: BEYOND}.get(call))
    assert _quiet(step) == []


@pytest.mark.parametrize(("isolation", "found"), [(0, []), (1, [RpcQuiet(TOLD, TP)])])
def test_a_reader_of_committed_records_beyond_the_last_stable_offset(isolation: int, found: list[RpcQuiet]) -> None:
    """A transaction that was over is open again for a leader that lacks its marker (KAFKA-7408): who has read it is
    above the last stable offset, however far the high watermark is."""
    fetcher, step = Fetcher(isolation=isolation), Step(0)
    position = TopicPartitionState(TP, "fetching", BEYOND)
    for call in range(TOLD):
        _ask(fetcher, call)
        _answer(fetcher, step, call, position, None if call else BEYOND + 50, stable_offset=BEYOND - 1)
    assert _quiet(step) == found
