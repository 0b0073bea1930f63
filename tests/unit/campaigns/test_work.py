"""What an executor does with an order."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest

from chaos.errors import RunError
from chaos.plan import Plan
from orchestrator.campaigns import work
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.work import carry_out, code_id
from orchestrator.sim_run import Observer, SimRun, run_in_sim
from tests.unit.cli.command import SCENARIO

ORDER = SimOrder("small.yaml", seed=3, text=SCENARIO)


def test_another_krift_is_refused() -> None:
    """Shows that runs of two codes are not mixed: an executor whose Krift is not the driver's does none."""
    with pytest.raises(RunError, match="a different version of Krift than the driver"):
        carry_out(ORDER, "0.0.1-0123456789abcdef")


def test_what_krift_stumbles_over_is_a_record() -> None:
    """Shows that a run that cannot even be planned ends as one that was not carried out, and ends nothing else."""
    record = carry_out(SimOrder("kip-207", "none", seed=3), code_id())
    assert record is not None
    assert (record.exit_code, record.seed, record.tallies) == (4, 3, {})
    assert record.signature.startswith("error: InputError: kip-#.yaml:#: variants: there is no variant none")


def test_a_run_cut_short_is_still_to_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a run which a signal ended leaves no record that a resumed campaign would count as done."""

    def interrupted(plan: Plan, observers: Sequence[Observer]) -> SimRun:
        signals = iter([signal.SIGINT])
        return run_in_sim(plan, [*observers, lambda event: [signal.raise_signal(each) for each in signals]])

    monkeypatch.setattr(work, "run_in_sim", interrupted)
    assert carry_out(ORDER) is None
