"""No file, however it was made, has another outcome than a clear error or a sound value."""

from __future__ import annotations

import pytest

from tests.fuzz.feed import feed
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_hostile_files(target: Target) -> None:
    """Shows, for each reader of files that may come from somebody else, that changed files are refused in its own
    words, if they are not sound. ``python -m tests.fuzz`` does the same with a million."""
    fed = feed(target, 150, seed=1)
    assert not fed.broke, next(iter(fed.broke.values()))
    assert fed.refused > 15, "the changes reach what is looked at"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_sound_files(target: Target, tmp_path: object) -> None:
    """Shows that the files which the hostile ones are made of are read without an error."""
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    for sample in target.samples():
        target.read(sample, tmp_path)
