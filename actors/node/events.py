"""What the runtime hands to a node: the inputs of ``step``.

Every class is plain data.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.node.messages import AnyRequest, AnyResponse
from actors.node.spec import NodeSpec

DiskImage = dict[str, list[bytes]]
"""What a node finds on its disk: file name -> entries in order (a file written by Replace has one)."""

FailureReason = Literal["disconnect", "timeout"]

StoreRuleKind = Literal["slow", "failing", "unavailable", "half-copied", "stale-listing"]


class Event(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Base of all inputs."""


class Started(Event, frozen=True):
    """First input of every incarnation. ``incarnation`` counts the starts of this node from 0."""

    spec: NodeSpec
    incarnation: int
    disk: DiskImage


class Received(Event, frozen=True):
    """A request arrived. ``connection`` is unique in the run; the next request of this connection is
    delivered only after this one was answered with Reply, as Kafka mutes a channel."""

    connection: str
    request: AnyRequest


class Disconnected(Event, frozen=True):
    """A connection on which this node served requests is gone. Nothing more arrives on it; a Reply to it
    is ignored by the runtime."""

    connection: str


class Answered(Event, frozen=True):
    """The response to a Call. Exactly one of Answered and Failed ends each Call."""

    call: int
    response: AnyResponse


class Failed(Event, frozen=True):
    """A Call ended without a response: its time-out ran out, or its connection broke. Neither says whether
    the peer acted on the request."""

    call: int
    reason: FailureReason


class Synced(Event, frozen=True):
    """Every Write to ``file`` up to and including sequence number ``upto`` survives power loss."""

    file: str
    upto: int


class TimedOut(Event, frozen=True):
    """A timer fired. A timer that was cancelled or set anew never fires for its old setting."""

    timer: str


class ClockStepped(Event, frozen=True):
    """The wall clock of the machine was set: it is ``offset_ms`` ahead of the times that ``step`` is given (negative:
    behind). It may go back. Until the first of these the two are one."""

    offset_ms: int


class StoreRule(msgspec.Struct, frozen=True):
    """What is wrong with the remote store while it is in force (``chaos.faults.store`` has the faults).

    slow: a request is served that much later, drawn from [delay_min_us, delay_max_us]. failing: it is answered with
    KAFKA_STORAGE_ERROR and nothing is done. unavailable: its connection is closed. half-copied: of a copy that is hit
    the log data is stored, and all requests for its other objects fail. stale-listing: the store lists what it had
    ``delay_max_us`` ago. ``chance_ppm``: of a request (half-copied: of a copy) to be hit; ``apis``: names, empty all.
    """

    id: str
    node: str
    kind: StoreRuleKind
    delay_min_us: int = 0
    delay_max_us: int = 0
    chance_ppm: int = 1_000_000
    apis: list[str] = []


class StoreRulesSet(Event, frozen=True):
    """The rules of a remote store that are in force from now on: of every change, and at its start where there are
    any."""

    rules: list[StoreRule]


class Chosen(Event, frozen=True):
    """The answer to Choose: a number in [0, n)."""

    choice: str
    value: int


class Invoked(Event, frozen=True):
    """An operation from outside (start or stop a workload, an operator's action). ``arguments`` is JSON-like."""

    operation: str
    kind: str
    arguments: dict[str, Any] = {}


AnyEvent = (
    Started
    | Received
    | Disconnected
    | Answered
    | Failed
    | Synced
    | TimedOut
    | ClockStepped
    | StoreRulesSet
    | Chosen
    | Invoked
)
