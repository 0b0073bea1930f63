"""Settings that all tests share: where Ray and Spark tests run."""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)  # before xdist reads the groups, which it does first of the plain hooks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Put every test that needs Ray or Spark in one group, which one xdist worker runs in turn.

    So there is one Ray cluster and one JVM on the machine at a time, and session fixtures start each of them once.
    """
    for item in items:
        if item.get_closest_marker("ray") or item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("cluster"))
    yield
