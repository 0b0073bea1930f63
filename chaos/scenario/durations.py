"""Durations, rates, chances and version ranges as a scenario writes them: ``3s``, ``100/s``, ``5%``, ``1-4``."""

from __future__ import annotations

import re

UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
"""Unit -> microseconds."""

DURATION_PATTERN = r"^\d{1,15}(\.\d{1,6})?(us|ms|s|m|h)$"
RATE_PATTERN = r"^\d{1,9}(\.\d{1,6})?/(s|m)$"
CHANCE_PATTERN = r"^\d{1,3}(\.\d{1,4})?%$"
OFFSET_PATTERN = r"^[+-]\d{1,15}(\.\d{1,6})?(us|ms|s|m|h)$"
RATE_CHANGE_PATTERN = r"^[+-]\d{1,3}(\.\d{1,4})?%$"
VERSIONS_PATTERN = r"^\d{1,3}(-\d{1,3})?$"

DURATION_EXPECTED = "a duration such as 3s, 4500ms or 2m"
RATE_EXPECTED = "a rate such as 100/s or 30/m"
CHANCE_EXPECTED = "a chance above 0%, up to 100%, such as 5% or 0.5%"
OFFSET_EXPECTED = "a duration with its sign, such as +500ms or -3s, at most 24h either way"
RATE_CHANGE_EXPECTED = "a change of rate from -90% to +900%, such as +10% or -0.5%, and not 0"
VERSIONS_EXPECTED = "a range of versions such as 1-4, or one version"

_DURATION = re.compile(r"(-?)(\d{1,15})(?:\.(\d{1,6}))?\s?(us|ms|s|m|h)")
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)/(s|m)")
_CHANCE = re.compile(r"(\d{1,3})(?:\.(\d{1,4}))?%")
_VERSIONS = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")


class Malformed(ValueError):
    """A value that is not of its kind: ``problem`` and ``expected`` are halves of the message."""

    def __init__(self, problem: str, expected: str) -> None:
        self.problem, self.expected = problem, expected
        super().__init__(f"{problem}; expected {expected}")


def parse_duration_us(text: str) -> int:
    """Microseconds of a duration. Raises Malformed if it has no unit, is negative, or is finer than 1 us."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise Malformed(f"{text!r} is not a duration", DURATION_EXPECTED)
    sign, whole, fraction, unit = match.groups()
    if sign:
        raise Malformed(f"{text!r} is negative", f"{DURATION_EXPECTED}, at least 0")
    scale = UNITS_US[unit]
    micros, rest = divmod(int(fraction or 0) * scale, int("1" + "0" * len(fraction or "")))
    if rest:
        raise Malformed(f"{text!r} is finer than a microsecond", DURATION_EXPECTED)
    return int(whole) * scale + micros


def format_duration(us: int) -> str:
    """The shortest text that ``parse_duration_us`` reads back as ``us``: ``3s``, ``4500ms``."""
    for unit in ("h", "m", "s", "ms"):
        if us and us % UNITS_US[unit] == 0:
            return f"{us // UNITS_US[unit]}{unit}"
    return f"{us}us" if us else "0s"


def parse_offset_us(text: str) -> int:
    """Microseconds by which a clock is ahead (behind: negative)."""
    text = text.strip()
    if text[:1] not in ("+", "-") or _DURATION.fullmatch(text[1:]) is None or text[1:2] == "-":
        raise Malformed(f"{text!r} is not an offset", OFFSET_EXPECTED)
    offset_us = parse_duration_us(text[1:]) * (-1 if text[0] == "-" else 1)
    if not 0 < abs(offset_us) <= 24 * UNITS_US["h"]:
        raise Malformed(f"{text!r} is not an offset", OFFSET_EXPECTED)
    return offset_us


def format_offset(us: int) -> str:
    """The shortest text that ``parse_offset_us`` reads back: ``+3s``, ``-500ms``."""
    return f"{'-' if us < 0 else '+'}{format_duration(abs(us))}"


def parse_rate_ppm(text: str) -> int:
    """Parts per million by which a clock runs too fast (too slowly: negative)."""
    text = text.strip()
    match = _CHANCE.fullmatch(text[1:]) if text[:1] in ("+", "-") else None
    ppm = 0 if match is None else int(match[1]) * 10_000 + int((match[2] or "").ljust(4, "0"))
    ppm = -ppm if text[:1] == "-" else ppm
    if not -900_000 <= ppm <= 9_000_000 or ppm == 0:
        raise Malformed(f"{text!r} is not a change of rate", RATE_CHANGE_EXPECTED)
    return ppm


def format_rate(ppm: int) -> str:
    """The shortest text that ``parse_rate_ppm`` reads back: ``+10%``, ``-0.5%``."""
    return f"{'-' if ppm < 0 else '+'}{format_chance(abs(ppm))}"


def parse_rate(text: str) -> float:
    """Records (or operations) a second."""
    match = _RATE.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise Malformed(f"{text!r} is not a rate above 0", RATE_EXPECTED)
    return float(match[1]) / (1 if match[2] == "s" else 60)


def parse_chance_ppm(text: str) -> int:
    """Parts per million of a chance."""
    match = _CHANCE.fullmatch(text.strip())
    ppm = 0 if match is None else int(match[1]) * 10_000 + int((match[2] or "").ljust(4, "0"))
    if not 0 < ppm <= 1_000_000:
        raise Malformed(f"{text!r} is not a chance", CHANCE_EXPECTED)
    return ppm


def format_chance(ppm: int) -> str:
    """The shortest text that ``parse_chance_ppm`` reads back: ``5%``, ``0.25%``."""
    whole, rest = divmod(ppm, 10_000)
    fraction = f".{rest:04d}".rstrip("0") if rest else ""
    return f"{whole}{fraction}%"


def parse_versions(text: str) -> tuple[int, int]:
    """Lowest and highest of a range of API versions."""
    match = _VERSIONS.fullmatch(text.strip())
    if match is None:
        raise Malformed(f"{text!r} is not a range of versions", VERSIONS_EXPECTED)
    low, high = int(match[1]), int(match[2] or match[1])
    if low > high:
        raise Malformed(f"{text!r} ends before it begins", VERSIONS_EXPECTED)
    return low, high


def format_versions(low: int, high: int) -> str:
    """``1-4``, or ``4`` for a range of one."""
    return str(low) if low == high else f"{low}-{high}"
