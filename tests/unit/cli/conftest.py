"""A run to look at, carried out once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.cli.command import run_directory


@pytest.fixture(scope="session")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run; not to be changed."""
    return run_directory(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def run(kept_run: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    copy = tmp_path / "run"
    shutil.copytree(kept_run, copy)
    return copy
