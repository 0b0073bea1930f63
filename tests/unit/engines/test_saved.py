"""What engines put aside can be read by another process."""

from __future__ import annotations

import subprocess
import sys

from orchestrator.engines.saved import layout


def test_the_layout_has_the_same_name_in_every_process() -> None:
    """Shows that a checkpoint is not refused because a process has its functions elsewhere."""
    script = "from orchestrator.engines.saved import layout; print(layout(), end='')"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert other.stdout == layout()
