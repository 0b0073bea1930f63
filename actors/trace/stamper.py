"""Gives the events of one incarnation their envelope, and its messages their clock and cause: shared by the runtimes.

A runtime keeps one Stamper per incarnation of a node (and one for the driver). It merges the clock of whatever
comes in before the step that takes it, stamps every Record of that step, and puts clock and cause on whatever goes
out. Every physical time is in microseconds of the runtime's own clock, never of the skewed one a node is shown.
"""

from __future__ import annotations

import msgspec

from actors.trace.events import AnyTraceEvent, Stamped
from actors.trace.hlc import HybridLogicalClock

LOSE_TRACE = "lose-trace"
"""Name of the runtime's own defect (``actors.defects.catalogue``)."""


class Stamper(msgspec.Struct):
    """Envelope of one incarnation: ``seq`` counts its events from 0 without a gap, the clock only rises.

    ``clock`` is handed on from the incarnation before where the runtime has it, so that a node's clock rises over
    its restarts as well.
    """

    run: str
    node: str
    incarnation: int
    clock: HybridLogicalClock = msgspec.field(default_factory=HybridLogicalClock)
    seq: int = -1
    """Sequence number of the last event, -1 before the first."""

    @property
    def last_id(self) -> str:
        """Id of the last event, "" before the first: the cause that outgoing messages carry."""
        return "" if self.seq < 0 else f"{self.node}/{self.incarnation}/{self.seq}"

    def tick(self, physical_us: int) -> None:
        """Advance the clock for something that goes out."""
        self.clock.tick(physical_us)

    def merge(self, physical_us: int, wall_us: int, logical: int) -> None:
        """Advance the clock for something that came in with the clock (wall_us, logical)."""
        self.clock.merge(physical_us, wall_us, logical)

    def stamp(self, body: AnyTraceEvent, physical_us: int, cause: str = "", req: str = "") -> Stamped:
        """The next event of this incarnation. ``cause`` and ``req`` as ``Stamped`` defines them."""
        clock = self.clock
        if physical_us > clock.wall_us:  # as ``tick``, which every event of a run would call
            clock.wall_us, clock.logical = physical_us, 0
        else:
            clock.logical += 1
        self.seq += 1
        return Stamped(
            self.run,
            self.node,
            self.incarnation,
            self.seq,
            clock.wall_us,
            clock.logical,
            cause,
            req,
            body,
        )


def request_id(connection: str, number: int) -> str:
    """``req`` of the steps that serve this request or handle its end."""
    return f"{connection}#{number}"


def connection_id(source: str, target: str, name: str, incarnation: int, count: int) -> str:
    """A connection, unique in the run: ``broker-2>broker-1:fetcher:0.3`` is the fourth (``count`` from 0) that the
    first incarnation of broker-2 opened to broker-1 under the name "fetcher"."""
    return f"{source}>{target}:{name}:{incarnation}.{count}"


def connection_source(connection: str) -> str:
    """The node that opened a connection, "" where the id is none of ``connection_id``."""
    source, arrow, _ = connection.partition(">")
    return source if arrow else ""


def is_lost(defects: list[str], seq: int) -> bool:
    """Whether the defect ``lose-trace`` keeps this event out of the trace (every hundredth, after stamping)."""
    return LOSE_TRACE in defects and seq % 100 == 99
