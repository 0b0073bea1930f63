"""Variants of a scenario that leave more time: what is shrunk to the last millisecond fails by a hair, and with other
draws, or on a live cluster, not at all."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from chaos.scenario.durations import format_duration, parse_duration_us, parse_rate

AT_LEAST_S = (1, 3)
"""Seconds that faults last, and that the chaos goes on after the last step, at the least."""
RATE = 20
"""Records a second that producers send at the least."""


def steadier(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same schedule with more time, from little to much: a longer chaos; longer faults, too; more records, too."""
    found = []
    for seconds in AT_LEAST_S:
        longer = _longer(document, seconds * 1_000_000)
        lasting = copy.deepcopy(longer)
        for step in lasting["chaos"]:
            if "for" in step:
                step["for"] = format_duration(max(parse_duration_us(step["for"]), seconds * 1_000_000))
        busier = copy.deepcopy(lasting)
        for entry in busier["workload"]:
            client = entry.get("producer")
            if client is not None and parse_rate(client["rate"]) < RATE:
                client["rate"] = f"{RATE}/s"
        found += [longer, lasting, busier]
    return found


def _longer(document: Mapping[str, Any], by_us: int) -> dict[str, Any]:
    longer = copy.deepcopy(dict(document))
    last_us = max((parse_duration_us(step["when"].get("at", "0s")) for step in longer["chaos"]), default=0)
    duration_us = max(parse_duration_us(longer["duration"]), last_us) + by_us
    longer["duration"] = format_duration(duration_us)
    return longer
