"""Imports go one way: orchestrator, chaos, actors, generated code."""

from __future__ import annotations

import subprocess
import sys

from tests.architecture.sources import ROOT


def test_import_contracts_are_kept() -> None:
    """Shows that every import keeps to the layers, and that Ray, gRPC and Spark stay where they belong."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
