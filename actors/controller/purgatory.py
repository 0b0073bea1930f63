"""Answers that wait until the records behind them are committed (``DeferredEventQueue.java``)."""

from __future__ import annotations

import msgspec

from actors.node.messages import AnyRequest, AnyResponse


class DeferredReply(msgspec.Struct, frozen=True):
    """``response`` to ``request`` goes out on ``connection`` once the record at ``offset`` is committed."""

    offset: int
    connection: str
    version: int
    request: AnyRequest
    response: AnyResponse


class ReplyPurgatory(msgspec.Struct):
    """The waiting answers; offsets never decrease along the list."""

    waiting: list[DeferredReply] = []

    def add(self, reply: DeferredReply) -> None:
        """Let an answer wait."""
        self.waiting.append(reply)

    def take_committed(self, end: int) -> list[DeferredReply]:
        """Remove and return those whose records are below ``end``."""
        done = [reply for reply in self.waiting if reply.offset < end]
        self.waiting = self.waiting[len(done) :]
        return done

    def take_all(self) -> list[DeferredReply]:
        """Remove and return all: their records may be lost."""
        done, self.waiting = self.waiting, []
        return done

    def forget(self, connection: str) -> None:
        """Nobody listens on ``connection`` any more."""
        self.waiting = [reply for reply in self.waiting if reply.connection != connection]
