"""What a check says."""

from __future__ import annotations

from typing import Literal

import msgspec

CheckStatus = Literal["ok", "warning", "problem"]


class Check(msgspec.Struct, frozen=True):
    """One look at the machine. found: in a few words. remedy: what to do about it, "" if it is ok.

    A problem keeps Krift, or its live runtime, from working; a warning may make it slow or surprising."""

    name: str
    status: CheckStatus
    found: str
    remedy: str = ""


def ok(name: str, found: str) -> Check:
    """Nothing is wrong."""
    return Check(name, "ok", found)


def warning(name: str, found: str, remedy: str) -> Check:
    """It works, but not as well as it might."""
    return Check(name, "warning", found, remedy)


def problem(name: str, found: str, remedy: str) -> Check:
    """It does not work."""
    return Check(name, "problem", found, remedy)
