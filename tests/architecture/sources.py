"""The files that the architecture tests look at."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".git", ".venv", "krift", "runs", "build", "dist", "__pycache__"}


def python_files(*folders: str) -> list[Path]:
    """Every hand-written Python file below the folders, in a stable order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def repository_files() -> tuple[Path, ...]:
    """Every file that is, or is about to be, part of the repository; without git, every file that looks so."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
        found = [ROOT / line for line in listed if line]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in ROOT.rglob("*") if not SKIPPED.intersection(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in found if path.is_file()))
