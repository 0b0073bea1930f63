"""What an incarnation of a live node is told from outside, and what it reports back."""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from actors.control import Barrier
from actors.live.writer import CHUNK_AGE_MAX_US
from actors.node.spec import NodeSpec
from actors.trace.events import Stamped


class Setup(msgspec.Struct, frozen=True):
    """One incarnation.

    logs, journals, disk: directories of this node. host: address to bind to. factory: ``module:function`` from a
    role to a new node. matcher: ``module:function`` from a predicate and a stamped event to whether it matches, for
    ``barriers``. wiped, clean: as ``NodeUp`` tells it. ``seed`` is the run's; draws come from it by name. certificates:
    folder with the host's, for mutual TLS; "" to talk in the clear. Not what is in them: Ray would carry the key about.
    journal_age_max_s: when a segment of the journal is full, whatever its size. chunk_age_max_us: when a chunk of the
    log is.
    """

    run: str
    spec: NodeSpec
    incarnation: int
    seed: int
    logs: str
    journals: str
    disk: str
    host: str
    factory: str
    matcher: str
    barriers: list[Barrier] = []
    wiped: bool = False
    clean: bool = False
    certificates: str = ""
    journal_age_max_s: float = math.inf
    chunk_age_max_us: int = CHUNK_AGE_MAX_US


@cache
def load(path: str) -> Any:
    """What ``module:name`` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


class Opened(msgspec.Struct, frozen=True):
    """A process that is ready to start its node: its id, and the port it serves on."""

    pid: int
    port: int


class Control(msgspec.Struct, frozen=True):
    """Clock of whoever makes a control call or answers it."""

    wall_us: int
    logical: int


class Matched(msgspec.Struct, frozen=True):
    """An event that a barrier waits for: the node stands still until ``release(ticket)``."""

    ticket: int
    event: Stamped


class Watched(msgspec.Struct, frozen=True):
    """An event the conductor wants to hear of; the node goes on."""

    event: Stamped


class Reached(msgspec.Struct, frozen=True):
    """The node has come to a point at which its process is to be killed: it stands still until it is, or until the
    point is taken back."""

    point: str


class Completed(msgspec.Struct, frozen=True):
    """The node ended an operation."""

    operation: str
    result: dict[str, Any]


class Awake(msgspec.Struct, frozen=True):
    """The node has had time enough until then, but for the stalls that it has told of."""

    at_us: int


class Broken(msgspec.Struct, frozen=True):
    """The node, or its runtime, raised an exception: it takes no more steps and the run is over."""

    detail: str


Report = Matched | Watched | Reached | Completed | Awake | Broken
