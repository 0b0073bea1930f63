"""Tests that share what is dear to make have the mark ``xdist_group``, and so one worker makes it once."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("one-worker")
@pytest.mark.skipif("not hasattr(config, 'workerinput')", reason="there is one process (-n 0)")
def test_a_group_of_tests_stays_on_one_worker(request: pytest.FixtureRequest) -> None:
    """Shows that pytest-xdist hears of the mark: it keeps tests together by what it adds to their names. It silently
    does not where pytest is too new for it (9.2 with xdist 3.8)."""
    assert request.node.nodeid.endswith("@one-worker")
