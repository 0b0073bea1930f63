"""The process that checks a live soak, and how often it is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest

from chaos.errors import RunError
from orchestrator.soak import live
from orchestrator.soak.checker import PROGRESS, Checked
from orchestrator.soak.directory import SoakDir


class Ended:
    """A process that says why it ends, and does."""

    def __init__(self, _: list[str], *, stdout: BinaryIO, **_more: Any) -> None:
        stdout.write(b"why\n")

    def poll(self) -> int:
        """Its exit code."""
        return 1


def test_checks_that_end_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that they are started as long as they get further, however often they end, and given up where they do not;
    and that what each of them said stays in one file."""
    monkeypatch.setattr("orchestrator.soak.live.subprocess.Popen", Ended)
    monkeypatch.setattr(live, "IN_VAIN_MAX", 3)
    checker = live.CheckerProcess(SoakDir(tmp_path))
    for at_us in range(5):
        (tmp_path / PROGRESS).write_bytes(msgspec.json.encode(Checked(at_us=at_us)))
        checker.see_to_it()
    for _ in range(2):
        checker.see_to_it()
    with pytest.raises(
        RunError, match=r"^the checks ended 3 times without getting any further; .*checker.log says why$"
    ):
        checker.see_to_it()
    assert (checker.starts, (tmp_path / live.LOG).read_text()) == (7, 7 * "why\n")
