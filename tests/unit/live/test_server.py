"""Connections of a live server, without sockets: what arrived before the end of one is served before it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from actors.control import LinkRule
from actors.live.links import Links
from actors.live.server import Server
from actors.live.wire import NO_STAMP, Arrived
from krift.v1.metadata import MetadataRequest

NAME = "asker>broker-1:c:0.0"


class Callers:
    """A server with a connection on which calls have arrived; ``seen`` has the numbers of the requests that its node
    was given, and the connection's name when it ended."""

    def __init__(self, rule: LinkRule | None = None) -> None:
        self.seen: list[int | str] = []
        self.loop = asyncio.get_running_loop()
        self.links = Links("broker-1", self.loop, random.Random, lambda hit: None)
        if rule is not None:
            self.links.install(rule)
        self.server = Server(
            "broker-1",
            self.links,
            random.Random(1),
            lambda connection, arrived: self.seen.append(arrived.number),
            self.seen.append,
        )

    async def call(self, numbers: range) -> list[asyncio.Task[bytes]]:
        """So many calls arrive."""
        context: Any = Context()
        requests = [Arrived(MetadataRequest(), NAME, number, 0, NO_STAMP) for number in numbers]
        calls = [self.loop.create_task(self.server._serve(request, context)) for request in requests]
        await asyncio.wait(calls, timeout=0)
        return calls


class Context:
    """Of a call that may be refused."""

    async def abort(self, code: object, detail: str) -> None:
        raise RefusedError(detail)


class RefusedError(Exception):
    """The peer sees its connection broken."""


DUPLICATE = LinkRule("hit", "duplicate", ["asker"], ["broker-1"])


def test_a_request_is_served_and_its_connection_severed() -> None:
    """Shows what a duplicate does: the first request is served, and then the connection ends at both ends, with all
    that was behind it."""

    async def scenario() -> None:
        callers = Callers(DUPLICATE)
        calls = await callers.call(range(3))
        assert callers.seen == [0]
        assert not any(call.done() for call in calls)
        callers.server.reply(NAME, None, NO_STAMP)
        assert callers.seen == [0, NAME]
        await asyncio.wait(calls)
        assert all(isinstance(call.exception(), RefusedError) for call in calls)

    asyncio.run(scenario())


def test_the_end_of_a_rule_tells_the_peers_whose_connections_it_severs() -> None:
    """Shows that the peer finds its connection broken when the rule ends, while the node goes on with the request and
    hears of the end when that is done."""

    async def scenario() -> None:
        callers = Callers(DUPLICATE)
        calls = await callers.call(range(2))
        callers.links.remove("hit")
        callers.server.rule_ended("hit")
        await asyncio.wait(calls)
        assert all(isinstance(call.exception(), RefusedError) for call in calls)
        assert callers.seen == [0]
        callers.server.reply(NAME, None, NO_STAMP)
        assert callers.seen == [0, NAME]

    asyncio.run(scenario())


def test_a_lost_request_ends_the_connection_behind_those_before_it() -> None:
    """Shows that what arrived before a request that is lost is still served, in order, that the peer finds the
    connection broken at once, and that nothing behind the loss is served."""

    async def scenario() -> None:
        callers = Callers()
        calls = await callers.call(range(2))
        # The stream of this link draws 1 and then 0: the first of these two is lost itself.
        callers.links.install(LinkRule("hit", "drop", ["asker"], ["broker-1"]))
        calls += await callers.call(range(2, 4))
        await asyncio.wait(calls)
        assert callers.seen == [0]
        for served in ([0, 1], [0, 1, NAME]):
            callers.server.reply(NAME, None, NO_STAMP)
            assert callers.seen == served

    asyncio.run(scenario())


def test_the_end_of_a_connection_waits_for_its_turn() -> None:
    """Shows that requests which arrived before their connection's end are served after it, one by one, and that the
    node is told of the end only then, as Kafka does not read a muted channel."""
    seen: list[int | str] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        links = Links("broker-1", loop, random.Random, lambda hit: None)
        server = Server(
            "broker-1", links, random.Random(1), lambda connection, arrived: seen.append(arrived.number), seen.append
        )
        context: Any = None
        requests = [Arrived(MetadataRequest(), NAME, number, 0, NO_STAMP) for number in range(3)]
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
