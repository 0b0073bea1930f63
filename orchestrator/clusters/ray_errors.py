"""Ray's errors in a line: it explains them in paragraphs, with the tracebacks of every process on the way."""

from __future__ import annotations

from ray.exceptions import RayActorError

_DETAIL = "Worker exit detail: "
_GUESSES = " Some common causes include"


def reason(error: BaseException) -> str:
    """What happened at the far end: that a process died, and what Ray saw of it, or the exception that was raised."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if not isinstance(error, RayActorError):
        return lines[-1]
    told = next((line for line in lines if _DETAIL in line), lines[-1])
    return f"its process died: {told.partition(_DETAIL)[2].partition(_GUESSES)[0] or told}"
