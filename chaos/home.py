"""Where Krift keeps what outlives a run: the user's own incidents, and the failures that campaigns met."""

from __future__ import annotations

import os
from pathlib import Path

HOME_VARIABLE = "KRIFT_HOME"
"""Names another directory than the default; for all of a user's projects, or for tests."""
DEFAULT_HOME = ".krift"


def home() -> Path:
    """``$KRIFT_HOME``, or ``.krift`` in the current directory. It need not exist."""
    return Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME)


def incidents_directory() -> Path:
    """The user's own part of the library: ``NAME.yaml`` files, worth keeping under version control."""
    return home() / "incidents"


def failures_directory() -> Path:
    """The failure store: a cache."""
    return home() / "failures"
