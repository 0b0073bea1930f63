"""Connections of a live server, without sockets: what arrived before the end of one is served before it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from actors.live.links import Links
from actors.live.server import Server
from actors.live.wire import NO_STAMP
from krift.v1.common_pb2 import RequestHeader
from krift.v1.metadata_pb2 import MetadataRequest

NAME = "asker>broker-1:c:0.0"


def test_the_end_of_a_connection_waits_for_its_turn() -> None:
    """Shows that requests which arrived before their connection's end are served after it, one by one, and that the
    node is told of the end only then, as Kafka does not read a muted channel."""
    seen: list[int | str] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        links = Links("broker-1", loop, random.Random, lambda hit: None)
        server = Server(
            "broker-1", links, random.Random(1), lambda connection, number, request: seen.append(number), seen.append
        )
        context: Any = None
        requests = [MetadataRequest(header=RequestHeader(connection=NAME, number=number)) for number in range(3)]
        calls = [loop.create_task(server._serve(request, context)) for request in requests]
        await asyncio.wait(calls, timeout=0)
        assert seen == [0]
        for call in calls:  # the peer closes its end
            call.cancel()
        await asyncio.wait(calls)
        for served in (1, 2, 3):
            assert seen == list(range(served))
            server.reply(NAME, None, NO_STAMP)
        assert seen == [0, 1, 2, NAME]

    asyncio.run(scenario())
