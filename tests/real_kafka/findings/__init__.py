"""What Krift's campaigns found about Kafka itself, done by commands on the real one.

Each finding is a module: ``stage`` is its cluster, ``run`` does it and says what came out, and ``OUTCOME`` is what
Kafka 4.3.1 did. ``python -m tests.real_kafka.findings`` does them, and keeps the transcripts in docs/findings.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol

from tests.real_kafka.findings.stage import Stage
from tests.real_kafka.findings.transcript import Transcript

NAMES = (
    "removed_leader_zombie",
    "removed_leader_deadlock",
    "elr_cleared",
    "hung_brokers",
    "reelected_in_place",
    "spinning_consumer",
    "former_epoch",
    "endless_aborts",
    "uncommitted_duplicates",
)
TRANSCRIPTS = Path(__file__).parents[3] / "docs" / "findings" / "real-kafka-4.3.1"

Outcome = dict[str, object]
"""What a finding comes down to: a sentence, and whether it was so."""


class Finding(Protocol):
    """A module of this package."""

    OUTCOME: Outcome

    def stage(self) -> Stage:
        """The cluster that the finding needs, not yet started."""
        ...

    def run(self, stage: Stage) -> Outcome:
        """Do it on the cluster that was started."""
        ...


def finding(name: str) -> Finding:
    """The module of this name, whose docstring says what is tried."""
    module: Finding = import_module(f"{__name__}.{name}")
    return module


def reproduce(name: str) -> tuple[Outcome, Transcript]:
    """Start the cluster, do the finding, and end every process, whatever happens."""
    tried = finding(name)
    with tried.stage() as stage:
        stage.begin({})
        stage.transcript.head(tried.__doc__ or "", stage.described())
        outcome = tried.run(stage)
        stage.transcript.foot(outcome)
    return outcome, stage.transcript
