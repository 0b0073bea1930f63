"""The observer that collects the coverage points of a run."""

from __future__ import annotations

from actors.trace.events import Stamped
from orchestrator.coverage.clients import ClientCoverage
from orchestrator.coverage.partitions import PartitionCoverage
from orchestrator.coverage.points import Handler, Points
from orchestrator.coverage.quorum import QuorumCoverage
from orchestrator.coverage.under_way import UnderWay


class Coverage:
    """Coverage points of a trace that is fed event by event, in order: an observer of ``run_in_sim``, and as good on a
    kept trace. What a prefix of a trace covers, the whole covers too."""

    def __init__(self) -> None:
        self._points = Points()
        parts = (self._points, QuorumCoverage(self._points), PartitionCoverage(self._points))
        self._handlers: dict[type, Handler] = {}
        for handlers in (*(part.handlers() for part in parts), ClientCoverage(self._points).handlers()):
            self._handlers.update(handlers)
        under_way = UnderWay(self._points)
        self._ends, self._begins = under_way.ends(), under_way.begins()

    def __call__(self, event: Stamped) -> None:
        """Take note of an event."""
        kind = type(event.body)
        for handlers in (self._ends, self._handlers, self._begins):
            if kind in handlers:
                handlers[kind](event)

    def points(self) -> list[str]:
        """What was covered so far: each point once, sorted."""
        return sorted("/".join(map(str, point)) for point in self._points.found)
