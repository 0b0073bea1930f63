"""What the linters look at, wherever the repository lies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.architecture.sources import ROOT, repository_files

RUFF = [sys.executable, "-m", "ruff"]


def said(folder: Path, *command: str) -> tuple[int, str]:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The Python files of the repository and the settings of the linters, in a folder of the name that git gives."""
    clone = tmp_path / "krift"
    for path in repository_files():
        if path.suffix == ".py" or path.name == "pyproject.toml":
            copy = clone / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    generated = clone / "krift" / "v1" / "generated_pb2.py"
    generated.parent.mkdir(parents=True)
    generated.write_text("import   os\n")
    return clone


def test_ruff_sees_every_file_of_a_clone(clone: Path) -> None:
    """Shows that all our files are looked at in a folder named krift, and what is generated is not."""
    code, shown = said(clone, *RUFF, "check", "--show-files", ".")
    assert code == 0, shown
    ours = {path.relative_to(ROOT).as_posix() for path in repository_files() if path.suffix == ".py"}
    seen = {Path(line).relative_to(clone.resolve()).as_posix() for line in shown.splitlines() if line.endswith(".py")}
    assert seen == ours


def test_a_mistake_in_a_clone_is_found(clone: Path) -> None:
    """Shows that ``make lint`` and pre-commit, which names files one by one, find a mistake there."""
    (clone / "actors" / "ugly.py").write_text("import   os\n")
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    entries = {hook["id"]: hook["entry"].removeprefix(".venv/bin/").split()[1:] for hook in hooks}
    commands = [
        ["check", "--quiet", "."],
        ["format", "--quiet", "--check", "."],
        [*(word for word in entries["ruff-check"] if word != "--fix"), "actors/ugly.py"],
        [*entries["ruff-format"], "--check", "actors/ugly.py"],
    ]
    for command in commands:
        code, shown = said(clone, *RUFF, *command)
        assert code == 1, (command, shown)
