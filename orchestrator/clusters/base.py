"""What a place to run on offers: bring a plan's nodes up, carry out what the conductor decides, stop, collect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from actors.control import Conductor
from actors.trace.events import RunMeta
from chaos.plan import Plan

Progress = Callable[[], None]
"""Called a few times a second while a run goes on; the conductor knows where it stands."""

Say = Callable[[str], None]
"""Told what goes on that takes a while and that the conductor knows nothing of."""


def say_nothing(what: str) -> None:
    """To nobody."""


Status = Literal["completed", "interrupted", "broken"]


class RunOrder(msgspec.Struct, frozen=True):
    """One run. ``run``: its id. ``directory``: where its logs and its trace go; it exists, and is the run's alone."""

    run: str
    plan: Plan
    directory: Path


class RunOutcome(msgspec.Struct, frozen=True):
    """How a run went, apart from what it showed.

    status: completed (the conductor ended it), interrupted (by the user; faults were ended, and what was recorded
    is kept), broken (a node or its runtime raised an exception, or a process died that nobody killed: ``detail``).
    hosts: where nodes ran. duration_us: from the first node's start to the last one's stop. events: in the trace.
    torn: lines at the end of chunks that a killed process left unfinished. final_seq: as in ``RunEnd``. begun_ms: when
    the conductor began, on the clock by which nodes take steps: since 1970 in a live run, 0 in virtual time.
    """

    status: Status
    detail: str
    hosts: list[str]
    duration_us: int
    events: int
    torn: int
    final_seq: dict[str, int]
    begun_ms: int = 0


class Cluster(Protocol):
    """A context manager: entering brings up what all runs of a command share, leaving takes it down."""

    runtime: Literal["live", "sim"]

    def __enter__(self) -> Cluster: ...

    def __exit__(self, *error: object) -> None: ...

    def run(
        self, order: RunOrder, conductor: Conductor, progress: Progress | None = None, say: Say = say_nothing
    ) -> RunOutcome:
        """Carry out a run; returns when its trace is collected. Ctrl-C (SIGINT) ends it early, in good order, with
        the status interrupted; a second one raises KeyboardInterrupt. Raises RunError if it could not be carried
        out."""
        ...


def run_meta(order: RunOrder, runtime: Literal["live", "sim"]) -> RunMeta:
    """The first event of a run."""
    plan = order.plan
    return RunMeta(plan.scenario, plan.variant, runtime, plan.seed, plan.names, plan.profile())
