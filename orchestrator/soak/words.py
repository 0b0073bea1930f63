"""A soak in words: its status at a glance, and its findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from chaos.words import duration, some
from orchestrator.soak.directory import Found, Status

SHOWN = 10
"""Findings that a status shows, the newest ones."""


def one_line(status: Status) -> str:
    """For a line that is rewritten."""
    parts = [
        f"{status.scenario}: {status.phase}, round {status.round}",
        _of(status),
        f"{some(status.events, 'event')}",
        f"{some(sum(status.faults.values()), 'fault')}",
        found_in_words(status),
    ]
    return " | ".join(parts)


def found_in_words(status: Status) -> str:
    """``2 findings (C1, P3), 4 known``."""
    text = some(sum(status.findings.values()), "finding")
    text += f" ({_list(status.findings)})" if status.findings else ""
    return text + (f", {sum(status.known.values())} known" if status.known else "")


def at_a_glance(status: Status, findings: Sequence[Found], alive: bool) -> str:
    """The whole status, for people."""
    state = status.state
    if state == "running" and not alive:
        state = "its driver has ended; krift soak resume continues it"
    done = 100 * status.time_us / status.duration_us if status.duration_us else 0
    speed = f", {status.time_us / 1e6 / status.wall_s:.1f} s a second" if status.wall_s else ""
    evidence = f", {_bytes(status.evidence_bytes)} of it evidence" if status.evidence_bytes else ""
    lines = [
        f"soak        {status.soak}",
        f"state       {state}{f': {status.detail}' if status.detail else ''}",
        f"time        {_of(status)} ({done:.1f} %), round {status.round}, {status.phase}{speed}",
        f"events      {status.events:,}, checked up to {duration(status.checked_us / 1e6)}",
        f"nodes       {status.up} of {status.nodes} up",
        f"faults      {_list(status.faults, numbers=True) or 'none yet'}",
        f"findings    {_list(status.findings, numbers=True) or 'none'}",
    ]
    lines += [f"known       {_list(status.known, numbers=True)}"] if status.known else []
    lines += [
        f"states      {_bytes(status.state_bytes)}",
        f"memory      {_bytes(status.memory_bytes)}",
        f"disk        {_bytes(status.disk_bytes)}{evidence}",
        f"restarts    {status.restarts}, of the checks {status.checker_restarts}",
        f"updated     {status.updated}",
    ]
    if status.starved_ms:
        waited = duration(status.starved_ms / 1e3)
        lines.append(f"machine     busy: its nodes waited {waited} for processor time, added up")
    since_us = begun_us(status.runtime, status.started)
    lines += [f"  {line(found, since_us)}" for found in findings[-SHOWN:]]
    return "\n".join(lines) + "\n"


def _of(status: Status) -> str:
    return f"{duration(status.time_us / 1e6)} of {duration(status.duration_us / 1e6)}"


def begun_us(runtime: str, started: str) -> int:
    """What the clock of a soak's trace showed when it began: the time of day in a live one, in microseconds."""
    return int(datetime.fromisoformat(started).timestamp() * 1e6) if runtime == "live" else 0


def line(found: Found, since_us: int) -> str:
    """A finding on one line; ``since_us``: ``begun_us``. Which round it was in a live soak does not know at once."""
    known = f" (known: {found.known})" if found.known else ""
    where = f"; evidence/{found.evidence}" if found.evidence else ""
    at = f"at {duration((found.at_us - since_us) / 1e6)}" + (f", round {found.round}" if found.round >= 0 else "")
    return f"{found.invariant}{known} {at}: {found.sentence}{where}"


def _list(counts: Mapping[str, int], numbers: bool = False) -> str:
    return ", ".join(f"{name} {number}" if numbers else name for name, number in sorted(counts.items()))


def _bytes(number: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:,.1f} {unit}" if unit != "B" else f"{number} B"
        number = number // 1024 if unit == "B" else int(number / 1024)
    return f"{number:,} GiB"
