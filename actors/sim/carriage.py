"""How a message gets from one node to another in the sim.

* ``shared``: the receiver gets the sender's message itself. That is fast, and right for as long as nobody changes a
  message that was sent.
* ``wire``: it is made to protobuf's bytes and parsed again, as between live nodes.
* ``watched``: as ``shared``, but whoever changes a message that it has sent or received is found out.

A run is the same with each of them.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from actors.node.codec import encode
from actors.node.messages import AnyMessage
from krift.v1.wire import from_bytes, to_bytes

Carriage = Literal["shared", "wire", "watched"]

LOOKED_AT = 64
"""So many messages that a node has sent or received last are looked at after each of its steps."""


class MessageChanged(AssertionError):
    """A message is no longer what it was when it was sent."""


class Sent(msgspec.Struct, frozen=True):
    """A message, as it was and where it went."""

    message: AnyMessage
    content: bytes
    sender: str
    receiver: str

    @property
    def changed(self) -> bool:
        """Whether somebody has touched it."""
        return encode(self.message) != self.content

    def __str__(self) -> str:
        return f"{type(self.message).__name__} from {self.sender} to {self.receiver}"


class MessageWatch:
    """All messages of a run. Those that a node has sent or received last are compared after each of its steps, so that
    it is known who has changed one; the others at the end of the run."""

    def __init__(self) -> None:
        self._all: list[Sent] = []
        self._latest: dict[str, deque[Sent]] = {}

    def sent(self, sender: str, receiver: str, message: AnyMessage) -> None:
        """A message leaves its node."""
        sent = Sent(message, encode(message), sender, receiver)
        self._all.append(sent)
        for node in (sender, receiver):
            self._latest.setdefault(node, deque(maxlen=LOOKED_AT)).append(sent)

    def look(self, node: str) -> None:
        """A node has taken a step. Raises MessageChanged if it has changed a message."""
        for sent in self._latest.get(node, ()):
            if sent.changed:
                raise MessageChanged(f"{node} has changed the {sent}")

    def look_at_all(self) -> None:
        """The run is over. Raises MessageChanged if somebody has changed a message."""
        for sent in self._all:
            if sent.changed:
                raise MessageChanged(f"somebody has changed the {sent}")


def by_wire(message: AnyMessage) -> AnyMessage:
    """What arrives of a message that travels as bytes."""
    arrived: AnyMessage = from_bytes(type(message), to_bytes(message))
    return arrived
