"""The smallest nemesis, for tests that say one thing more or another."""

from __future__ import annotations

from typing import Final

SMALL: Final = """\
schema: krift-nemesis/v1
name: mine
about: The leader goes down.
faults: {crash: 1}
"""
