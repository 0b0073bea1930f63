"""What every soak comes to, whatever it runs in."""

from __future__ import annotations

from typing import Final

import msgspec

from chaos.rounds import Round
from orchestrator.checked import Checked
from orchestrator.files import write_text
from orchestrator.soak.directory import SoakDir

STOPPED: Final = "stopped at a violation"
"""Status of a soak that a finding has ended."""

ROUNDS_KEPT = 50


class Ended(msgspec.Struct, frozen=True):
    """How a soak ended, and what its trace says. status, detail: as in a manifest, or ``STOPPED``."""

    status: str
    detail: str
    checked: Checked
    duration_us: int


def keep_round(soak: SoakDir, round_: Round) -> None:
    """Write a round down as a scenario, and let go the oldest."""
    soak.rounds.mkdir(exist_ok=True)
    write_text(soak.rounds / f"round-{round_.number:06}.yaml", round_.plan.yaml())
    for path in sorted(soak.rounds.glob("round-*.yaml"))[:-ROUNDS_KEPT]:
        path.unlink(missing_ok=True)
