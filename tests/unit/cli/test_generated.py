"""What the command says of generated code that is older than its sources."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import hatch_build
from chaos.errors import RunError
from orchestrator import generated
from orchestrator.cli.main import main
from tests.architecture.sources import ROOT

PROTO = "proto/krift/v1/fetch.proto"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with sources and the digests of what was generated from them."""
    for name in hatch_build.digests():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "krift" / "v1").mkdir(parents=True)
    (tmp_path / generated.DIGESTS).write_text(json.dumps(hatch_build.digests()), encoding="utf-8")
    return tmp_path


def test_sources_as_they_were(checkout: Path, tmp_path: Path) -> None:
    """Shows that nothing is raised while the sources are those of the package, nor where there are no sources, nor
    where an older version has left no digests."""
    generated.check_generated(checkout)
    (checkout / generated.DIGESTS).unlink()
    generated.check_generated(checkout)
    generated.check_generated(tmp_path / "site-packages")


def test_sources_that_changed(checkout: Path) -> None:
    """Shows that a changed, a new and a missing source are each found, by content, with what to do."""
    (checkout / PROTO).touch()
    generated.check_generated(checkout)
    (checkout / PROTO).write_text("// another\n", encoding="utf-8")
    with pytest.raises(RunError, match=rf"krift/ is older than {PROTO}; run: make proto"):
        generated.check_generated(checkout)
    (checkout / "proto/krift/v1/new.proto").touch()
    with pytest.raises(RunError, match="and 1 more"):
        generated.check_generated(checkout)
    (checkout / PROTO).unlink()
    with pytest.raises(RunError, match=PROTO):
        generated.check_generated(checkout)
    shutil.rmtree(checkout / "krift")
    with pytest.raises(RunError, match="krift/ is missing; run: make proto"):
        generated.check_generated(checkout)


def test_the_command_says_so_in_one_line(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shows one line in place of a traceback, and 4."""
    (checkout / PROTO).write_text("// another\n", encoding="utf-8")
    monkeypatch.setattr(generated.check_generated, "__defaults__", (checkout,))
    monkeypatch.setattr("sys.argv", ["krift", "run", "kip-207"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 4
    assert capsys.readouterr().err == f"krift: the generated package krift/ is older than {PROTO}; run: make proto\n"
