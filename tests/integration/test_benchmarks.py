"""The live benchmarks, as small as they get."""

from __future__ import annotations

import pytest

from benchmarks import live


@pytest.mark.ray
@pytest.mark.further
@pytest.mark.timeout(180)
def test_both_rings_answer() -> None:
    """Shows that a ring of live nodes and one of bare actors both exchange messages, and end."""
    [figure] = live.figures(rounds=1, seconds=0.2, actors=2)
    assert figure.values[0] > 0
    assert figure.beside[0] > 0
    assert figure.unit == "RPCs/s"
