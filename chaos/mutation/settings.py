"""Ways to change a scenario document apart from its schedule. Everything that is new comes from the other document."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

from chaos.mutation.cast import Part
from chaos.nemesis.scene import UNCLEAN
from chaos.nemesis.workload import AROUND_US, RECORDS_MAX
from chaos.scenario.durations import parse_duration_us, parse_rate


def timers(document: Part, other: Part, draw: random.Random) -> bool:
    """All times of the other's configuration together: alone, some of them contradict each other."""
    document["cluster"]["config"] = _with_times(
        document["cluster"].get("config", {}), other["cluster"].get("config", {})
    )
    for entry in document["workload"]:
        ((kind, client),) = entry.items()
        alike = [each[kind] for each in other["workload"] if kind in each]
        if alike:
            client["config"] = _with_times(client.get("config", {}), draw.choice(alike).get("config", {}))
    return True


def _with_times(config: Part, other: Part) -> Part:
    kept = {key: value for key, value in config.items() if not key.endswith(".ms")}
    return {**kept, **{key: value for key, value in other.items() if key.endswith(".ms")}}


def config(document: Part, other: Part, draw: random.Random) -> bool:
    """One key of the configuration as the other has it, unless it is a time, or decides what may be lost."""
    mine, new = document["cluster"].setdefault("config", {}), other["cluster"].get("config", {})
    keys = [key for key in sorted({*mine, *new}) if not key.endswith(".ms") and key != UNCLEAN]
    if not keys:
        return False
    key = draw.choice(keys)
    if key in new:
        mine[key] = new[key]
    else:
        del mine[key]
    return True


def feature(document: Part, other: Part, draw: random.Random) -> bool:
    """The value of one feature in which they differ."""
    mine, theirs = document.get("features", {}), other.get("features", {})
    names = sorted(name for name, value in theirs.items() if mine.get(name) != value)
    if not names:
        return False
    name = draw.choice(names)
    document["features"] = {**mine, name: theirs[name]}
    return True


def client(document: Part, other: Part, draw: random.Random) -> bool:
    """One client of the other, in the place of one of its kind."""
    index = draw.randrange(len(document["workload"]))
    ((kind, _),) = document["workload"][index].items()
    alike = [each for each in other["workload"] if kind in each]
    if not alike:
        return False
    document["workload"][index] = copy.deepcopy(draw.choice(alike))
    return True


def versions(document: Part, other: Part, _draw: random.Random) -> bool:
    """What the servers of the other speak; servers that there are not here speak nothing."""
    if document.get("nodes", {}) == other.get("nodes", {}):
        return False
    document["nodes"] = copy.deepcopy(other.get("nodes", {}))
    return True


def shape(document: Part, other: Part, _draw: random.Random) -> bool:
    """The other's numbers of voters and brokers, and its topics."""
    for key in ("voters", "brokers", "topics"):
        if key in other["cluster"]:
            document["cluster"][key] = copy.deepcopy(other["cluster"][key])
    return True


def seed(document: Part, _other: Part, draw: random.Random) -> bool:
    """The same with other random numbers."""
    document["seed"] = draw.randrange(2**31)
    return True


WAYS: tuple[Callable[[Part, Part, random.Random], bool], ...] = (
    timers,
    config,
    feature,
    client,
    versions,
    shape,
    seed,
)
"""All of them, equally likely."""


def within_bounds(document: Part) -> None:
    """Slow the producers down to what a run may have of records."""
    producers = [entry["producer"] for entry in document["workload"] if "producer" in entry]
    wanted = sum(parse_rate(each["rate"]) * each.get("count", 1) for each in producers)
    most = RECORDS_MAX * 1_000_000 / (parse_duration_us(document["duration"]) + AROUND_US)
    if wanted > most:
        for each in producers:
            each["rate"] = f"{max(1, int(parse_rate(each['rate']) * most / wanted))}/s"
