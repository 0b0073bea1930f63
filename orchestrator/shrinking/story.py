"""The story of a failing run: what was done to the cluster, what changed in it, and when what was promised broke."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from actors.trace.events import (
    BrokerReg,
    CtlFault,
    CtlPhase,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    Stamped,
)

CHANGES_MAX = 24
"""Lines on what changed in the cluster; those nearest to the failure stay."""


class Line(msgspec.Struct, frozen=True):
    """Something that happened. us: when, since time 0. weight: 0 for what always stays."""

    us: int
    text: str
    weight: int = 1


class Chronicle:
    """Writes down what happens from time 0 on. Takes the events of a run in order."""

    def __init__(self) -> None:
        self.zero_us: int | None = None
        self.lines: list[Line] = []

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if isinstance(body, CtlPhase):
            if body.phase == "chaos":
                self.zero_us = event.wall
            elif body.phase == "healing":
                self._note(event, "the chaos is over: what is left is healed", 0)
        elif self.zero_us is not None:
            tell = _TELL.get(type(body))
            text = tell(event.node, body) if tell is not None else ""
            if text:
                self._note(event, text, 0 if isinstance(body, CtlFault) else 1)

    def _note(self, event: Stamped, text: str, weight: int) -> None:
        if self.zero_us is not None and (not self.lines or self.lines[-1].text != text):
            self.lines.append(Line(event.wall - self.zero_us, text, weight))

    def told(self, failed_us: int | None, sentence: str) -> list[str]:
        """The lines up to the failure and what was done after it, with the failure among them. ``failed_us``: when it
        was, since time 0; None if that is only known at the end."""
        if failed_us is None:
            end_us = self.lines[-1].us if self.lines else 0
            before, after = self.lines, [Line(end_us, f"in the end, VIOLATED: {sentence}", 0)]
        else:
            before = [line for line in self.lines if line.us <= failed_us]
            after = [Line(failed_us, f"VIOLATED: {sentence}", 0)]
            after += [line for line in self.lines if line.us > failed_us and line.weight == 0]
        changes = [line for line in before if line.weight]
        left_out = {id(line) for line in changes[: max(0, len(changes) - CHANGES_MAX)]}
        kept = [line for line in before if id(line) not in left_out]
        return [f"{line.us / 1_000_000:>8.3f} s  {line.text}" for line in [*kept, *after]]


def _fault(_node: str, body: Any) -> str:
    begins = "begins" if body.phase == "start" else "ends"
    return f"{body.fault} {body.kind} {begins}: {', '.join(body.targets) or 'an operator asks'}"


def _change(node: str, body: Any) -> str:
    leader = f"broker-{body.leader} leads" if body.leader >= 0 else "nobody leads"
    isr = ", ".join(map(str, body.isr))
    return f"{node} ({body.cause}): {leader} {body.tp} in leader epoch {body.leader_epoch}, ISR [{isr}]"


def _assume(node: str, body: Any) -> str:
    if body.role != "leader":
        return ""
    ends = f"log end {body.log_end:,}, high watermark {body.high_watermark:,}"
    return f"{node} takes up the leadership of {body.tp} in leader epoch {body.leader_epoch} ({ends})"


def _role(node: str, body: Any) -> str:
    return f"{node} leads the quorum in epoch {body.epoch}" if body.role == "leader" else ""


def _truncated(node: str, body: Any) -> str:
    return f"{node} cuts its log of {body.tp} from {body.was:,} to {body.to:,} ({body.reason})"


def _registered(node: str, body: Any) -> str:
    return f"{node}: broker-{body.broker} is {'fenced' if body.fenced else 'unfenced'}"


def _down(node: str, body: Any) -> str:
    return "" if body.mode == "end" else f"{node} is down ({body.mode}{f', {body.detail}' if body.detail else ''})"


def _up(node: str, _body: Any) -> str:
    return f"{node} is up again"


_TELL: dict[type, Callable[[str, Any], str]] = {
    CtlFault: _fault,
    PartChange: _change,
    PartAssume: _assume,
    QRole: _role,
    LogTrunc: _truncated,
    BrokerReg: _registered,
    NodeDown: _down,
    NodeUp: _up,
}
