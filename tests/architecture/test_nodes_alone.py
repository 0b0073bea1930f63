"""Nodes do no IO, read no clock and draw no random number."""

from __future__ import annotations

import subprocess
import sys

from tests.architecture.nodes_alone import NODES
from tests.architecture.sources import ROOT, python_files


def test_nodes_import_without_clock_randomness_and_io() -> None:
    """Shows that every node module can be imported where clocks, randomness, IO, Ray and gRPC do not exist."""
    command = [sys.executable, "-m", "tests.architecture.nodes_alone"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    folders = [package.replace(".", "/") for package in NODES]
    assert int(result.stdout) >= sum(path.name != "__init__.py" for path in python_files(*folders))
