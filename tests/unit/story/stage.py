"""Hand-written traces of a run that has begun, and what a chronicle makes of them."""

from __future__ import annotations

from typing import Any, Literal

from actors.trace.events import DRIVER, AdminInvoke, AdminReturn, CtlFault, CtlPhase, ErrorSeen
from orchestrator.story.chronicle import Chronicle
from orchestrator.story.moments import Break
from tests.unit.invariants.trace_builder import TP, TraceBuilder

ADMIN = "admin-1"


class Stage(TraceBuilder):
    """A trace in which the chaos begins when ``begin`` says so."""

    def begin(self) -> Stage:
        """Time 0."""
        self.emit(DRIVER, CtlPhase("chaos"))
        return self

    def fault(self, kind: str, phase: Literal["start", "stop"], *targets: str, name: str = "f1", **given: Any) -> str:
        """A fault begins or ends."""
        return self.emit(DRIVER, CtlFault(name, kind, phase, list(targets), given))

    def asks(self, call: str, **arguments: Any) -> str:
        """An operator asks for something."""
        return self.emit(ADMIN, AdminInvoke("op", call, arguments))

    def is_answered(
        self, call: str, outcome: Literal["ok", "fail", "unknown"] = "ok", error: int = 0, **results: Any
    ) -> str:
        """The operator is answered; ``results`` have _ in place of -."""
        told = {name.replace("_", "-"): each for name, each in results.items()}
        return self.emit(ADMIN, AdminReturn("op", outcome, error, call, told))

    def refused(self, client: str, error: int, broker: str = "broker-1") -> str:
        """A client gets an error."""
        return self.emit(client, ErrorSeen(TP, "Produce", 9, error, broker))

    @property
    def chronicle(self) -> Chronicle:
        """What is written down of the trace so far."""
        chronicle = Chronicle()
        for event in self.events:
            chronicle(event)
        return chronicle

    def story(self, *breaks: Break) -> list[str]:
        """The lines of the story, without their times."""
        return [moment.text for moment in self.chronicle.told(breaks)]
