"""A proxy before a listener of Kafka, which keeps the answers to some client's Fetch requests to itself.

A request begins with its length, API key, version, correlation id and client id, an answer with its length and the
correlation id. Whatever else goes over the listener passes, and so does what the client asks on other connections.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections import Counter
from collections.abc import Coroutine
from typing import Any

FETCH = 1


class Proxy:
    """Listens on one port and passes on to another, in a thread of its own. A context manager."""

    def __init__(self, port: int, to_port: int) -> None:
        self.port, self.to_port = port, to_port
        self.held: set[str] = set()
        self.waiting: dict[str, list[asyncio.StreamWriter]] = {}
        self.kept: Counter[str] = Counter()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Proxy:
        self.thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def hold(self, client_id: str) -> None:
        """From now on this client gets no answers to its Fetch requests."""
        self._do(self._hold(client_id))

    def let_go(self, client_id: str) -> None:
        """It does again. What was held is lost with its connection, so that the client asks anew."""
        self._do(self._let_go(client_id))

    # ---- in the loop's thread --------------------------------------------------------------------------------

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    async def _listen(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _end(self) -> None:
        self.server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _hold(self, client_id: str) -> None:
        self.held.add(client_id)

    async def _let_go(self, client_id: str) -> None:
        self.held.discard(client_id)
        for writer in self.waiting.pop(client_id, []):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.to_port)
        except OSError:
            writer.close()
            return
        fetches: dict[int, str] = {}
        ways = [
            asyncio.create_task(self._requests(reader, back, fetches)),
            asyncio.create_task(self._answers(there, writer, fetches)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.close()
            back.close()

    async def _requests(
        self, reader: asyncio.StreamReader, back: asyncio.StreamWriter, fetches: dict[int, str]
    ) -> None:
        while frame := await _frame(reader):
            key, _, correlation, size = struct.unpack_from(">hhih", frame)
            if key == FETCH and size > 0:
                fetches[correlation] = frame[10 : 10 + size].decode()
            await _pass(back, frame)

    async def _answers(
        self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, fetches: dict[int, str]
    ) -> None:
        while frame := await _frame(there):
            client_id = fetches.pop(struct.unpack_from(">i", frame)[0], None)
            if client_id in self.held:
                self.kept[client_id] += 1
                self.waiting.setdefault(client_id, []).append(writer)
                await asyncio.Event().wait()  # until the connection is closed
            await _pass(writer, frame)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """The next message without its length; nothing at the end."""
    try:
        return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def _pass(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)
    await writer.drain()
