"""The passes of shrinking, in their order: each knows one way to make a scenario smaller.

How to write one. A pass is a generator of *sweeps*; a sweep is a list of edits, made for the scenario as it is when the
sweep begins. An edit is a function that changes a copy of the scenario, whatever has become of it meanwhile: earlier
edits of the same sweep may have succeeded. So edits that take out what has a number go from the highest to the lowest,
and an edit that finds nothing to do any more returns False. It need not see to it that the outcome is a legal scenario,
nor that it is smaller: who tries it does (``chaos.shrink.shrinker``). A pass is deterministic about what it proposes,
and goes through its sweeps once: that everything is tried again as long as anything gets smaller is not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from chaos.faults.kinds import KINDS, body_of, entry_of, kinds_of
from chaos.faults.process import NodeCrash
from chaos.scenario.durations import format_duration, parse_duration_us, parse_rate
from chaos.shrink.moments import Sighting, as_moment, moments_before
from chaos.shrink.parts import (
    Scenario_,
    only_one_client,
    without_broker,
    without_clients,
    without_partition,
    without_topic,
    without_voter,
)

Edit = Callable[[Scenario_], object]
"""Changes a scenario, in place; False if there is nothing to change."""

FIRST_MOMENT_US = 100_000
"""Steps are moved no nearer to time 0 than this."""
ROUND_US = (1_000_000, 500_000, 100_000, 10_000, 1_000)


class Target(msgspec.Struct):
    """What is made smaller. failed_us: when it failed, since time 0; -1 if that is not known. sightings: what was seen
    in its run, asked for by the one pass that needs it."""

    document: Scenario_
    failed_us: int
    look: Callable[[Mapping[str, Any]], Sequence[Sighting]] | None = None


class Pass(msgspec.Struct, frozen=True):
    """One way to make a scenario smaller. structural: it takes parts out, so that it may be worth trying with other
    draws (``seed-drawn-again``)."""

    name: str
    about: str
    sweeps: Callable[[Target], Iterator[list[Edit]]]
    structural: bool = False


def _chunks(count: int) -> Iterator[list[tuple[int, int]]]:
    """All of something, then its halves, its quarters, ..., each from the last to the first, as (start, end)."""
    size = count
    while size >= 1:
        yield [(start, min(start + size, count)) for start in reversed(range(0, count, size))]
        size //= 2


# ---- the schedule ----------------------------------------------------------------------------------------------


def _what_comes_after(target: Target) -> Iterator[list[Edit]]:
    if target.failed_us >= 0:
        ends = sorted({-(-target.failed_us // unit) * unit for unit in (1_000_000, 100_000, 1_000)}, reverse=True)
        yield [partial(end_at, end_us=end) for end in ends]


def end_at(document: Scenario_, end_us: int) -> object:
    """End the chaos at ``end_us``: what begins later goes, what lasts longer ends then."""
    if not 0 < end_us < parse_duration_us(document["duration"]):
        return False
    document["duration"] = format_duration(end_us)
    kept = []
    for step in document["chaos"]:
        at = step["when"].get("at")
        if at is not None and parse_duration_us(at) >= end_us:
            continue
        until = step.get("until", {})
        if "at" in until and parse_duration_us(until["at"]) > end_us:
            until["at"] = format_duration(end_us)
        if "for" in step:
            rest = end_us - parse_duration_us(at or "0s")
            step["for"] = format_duration(min(parse_duration_us(step["for"]), rest))
        kept.append(step)
    document["chaos"] = kept
    return True


def _fewer_steps(target: Target) -> Iterator[list[Edit]]:
    def remove(document: Scenario_, start: int, end: int) -> object:
        if start >= len(document["chaos"]):
            return False
        del document["chaos"][start:end]
        return True

    size = len(target.document["chaos"])
    while size >= 1:
        count = len(target.document["chaos"])
        starts = reversed(range(0, count, size))
        yield [partial(remove, start=start, end=start + size) for start in starts]
        size //= 2


def _shorter(target: Target) -> Iterator[list[Edit]]:
    steps = range(len(target.document["chaos"]))
    yield [partial(_lasting, index=index, part=part) for index in reversed(steps) for part in (0.1, 0.5, 0.8)]
    yield [partial(_sooner, index=index, part=part) for index in steps for part in (0.0, 0.5, 0.8)]
    yield [partial(_until_to_for, index=index) for index in reversed(steps)]
    yield [partial(_duration, part=part) for part in (0.25, 0.5, 0.75, 0.9)]
    yield from _what_comes_after(target)


def _lasting(document: Scenario_, index: int, part: float) -> object:
    """Let a step last only a part as long."""
    step = document["chaos"][index]
    if "for" not in step:
        return False
    step["for"] = format_duration(max(1_000, _whole_ms(parse_duration_us(step["for"]) * part)))
    return True


def _sooner(document: Scenario_, index: int, part: float) -> object:
    """Let only a part of the time pass between a step and the one before it; what comes later moves with it. For a
    step that waits to be seen, that is its delay."""
    step = document["chaos"][index]
    if "at" not in step["when"]:
        if "delay" not in step["when"]:
            return False
        step["when"]["delay"] = format_duration(_whole_ms(parse_duration_us(step["when"]["delay"]) * part))
        return True
    at_us = parse_duration_us(step["when"]["at"])
    times = [parse_duration_us(other["when"].get("at", "0s")) for other in document["chaos"]]
    before_us = max([time for time in times if time < at_us], default=0)
    gap_us = at_us - max(before_us, FIRST_MOMENT_US)
    by_us = gap_us - _whole_ms(gap_us * part)
    if by_us <= 0:
        return False
    for other in document["chaos"]:
        for moment in (other["when"], other.get("until", {})):
            if "at" in moment and parse_duration_us(moment["at"]) >= at_us:
                moment["at"] = format_duration(parse_duration_us(moment["at"]) - by_us)
    document["duration"] = format_duration(max(1_000, parse_duration_us(document["duration"]) - by_us))
    return True


def _until_to_for(document: Scenario_, index: int) -> object:
    """A fault that ends when something is seen: let it last for the chaos, and shorten that."""
    step = document["chaos"][index]
    if "until" not in step:
        return False
    del step["until"]
    rest_us = parse_duration_us(document["duration"]) - parse_duration_us(step["when"].get("at", "0s"))
    step["for"] = format_duration(max(1_000, min(rest_us, 1_000_000)))
    return True


def _duration(document: Scenario_, part: float) -> object:
    return end_at(document, _whole_ms(parse_duration_us(document["duration"]) * part))


def _whole_ms(us: float) -> int:
    return int(us) // 1_000 * 1_000


# ---- clients, records, nodes -----------------------------------------------------------------------------------


def _fewer_clients(target: Target) -> Iterator[list[Edit]]:
    def remove(document: Scenario_, start: int, end: int) -> object:
        if start >= len(document["workload"]) or end - start >= len(document["workload"]):
            return False
        for index in reversed(range(start, min(end, len(document["workload"])))):
            without_clients(document, index)
        return True

    size = len(target.document["workload"]) // 2
    while size >= 1:
        starts = reversed(range(0, len(target.document["workload"]), size))
        yield [partial(remove, start=start, end=start + size) for start in starts]
        size //= 2
    yield [partial(only_one_client, index=index) for index in reversed(range(len(target.document["workload"])))]


def _fewer_records(target: Target) -> Iterator[list[Edit]]:
    def slower(document: Scenario_, index: int, rate: float) -> object:
        client = document["workload"][index].get("producer")
        if client is None or parse_rate(client["rate"]) <= rate:
            return False
        client["rate"] = f"{rate:g}/s"
        return True

    def rarer(document: Scenario_, index: int, every_ms: int) -> object:
        client = document["workload"][index].get("list-offsets")
        if client is None or parse_duration_us(client["every"]) >= every_ms * 1_000:
            return False
        client["every"] = f"{every_ms}ms" if every_ms < 1_000 else f"{every_ms // 1_000}s"
        return True

    entries = range(len(target.document["workload"]))
    yield [partial(slower, index=index, rate=rate) for index in entries for rate in (1, 5, 10, 20, 50)]
    yield [partial(rarer, index=index, every_ms=ms) for index in entries for ms in (1_000, 500, 200, 100, 50)]


def _fewer_nodes(target: Target) -> Iterator[list[Edit]]:
    def one_voter(document: Scenario_) -> object:
        for number in reversed(range(2, document["cluster"]["voters"] + 1)):
            without_voter(document, number)
        return True

    def one_broker(document: Scenario_) -> object:
        for number in reversed(range(2, document["cluster"]["brokers"] + 1)):
            without_broker(document, number)
        return True

    def fewer(document: Scenario_, key: str, numbers: Sequence[int]) -> object:
        if max(numbers) > document["cluster"][key] or len(numbers) >= document["cluster"][key]:
            return False
        for number in numbers:
            (without_voter if key == "voters" else without_broker)(document, number)
        return True

    yield [one_voter, one_broker]
    voters = range(1, target.document["cluster"]["voters"] + 1)
    # An even number of voters tolerates no more failures than one less: two go at a time, then one.
    yield [partial(fewer, key="voters", numbers=(number, number - 1)) for number in reversed(voters) if number > 1]
    yield [partial(fewer, key="voters", numbers=(number,)) for number in reversed(voters)]
    brokers = range(1, target.document["cluster"]["brokers"] + 1)
    yield [partial(fewer, key="brokers", numbers=(number,)) for number in reversed(brokers)]


def _fewer_replicas(target: Target) -> Iterator[list[Edit]]:
    def fewer(document: Scenario_, topic: str, partition: int, position: int) -> object:
        replicas = document["cluster"]["topics"].get(topic, {"replicas": []})["replicas"]
        if partition >= len(replicas) or position >= len(replicas[partition]) or len(replicas[partition]) == 1:
            return False
        del replicas[partition][position]
        return True

    def no_partition(document: Scenario_, topic: str, partition: int) -> object:
        replicas = document["cluster"]["topics"].get(topic, {"replicas": []})["replicas"]
        if len(replicas) < 2 or partition >= len(replicas):
            return False
        without_partition(document, topic, partition)
        return True

    def no_topic(document: Scenario_, topic: str) -> object:
        if len(document["cluster"]["topics"]) < 2:
            return False
        without_topic(document, topic)
        return True

    topics = target.document["cluster"]["topics"]
    yield [partial(no_topic, topic=topic) for topic in topics]
    topics = target.document["cluster"]["topics"]
    counts = {name: range(len(topic["replicas"])) for name, topic in topics.items()}
    yield [partial(no_partition, topic=name, partition=p) for name in topics for p in reversed(counts[name])]
    topics = target.document["cluster"]["topics"]
    yield [
        partial(fewer, topic=name, partition=p, position=position)
        for name, topic in topics.items()
        for p, replicas in enumerate(topic["replicas"])
        for position in reversed(range(len(replicas)))
    ]


# ---- settings --------------------------------------------------------------------------------------------------


def _fewer_settings(target: Target) -> Iterator[list[Edit]]:
    def remove(document: Scenario_, places: Sequence[tuple[str | int, ...]]) -> object:
        return sum(_unset(document, place) for place in places) > 0

    count = len(list(setting_places(target.document)))
    for chunks in _chunks(count):
        places = list(setting_places(target.document))
        yield [partial(remove, places=places[start:end]) for start, end in chunks]


def setting_places(document: Scenario_) -> Iterator[tuple[str | int, ...]]:
    """Where settings stand that could be left out: configuration, features, versions, and what nodes have of their
    own."""
    tops: list[tuple[str | int, ...]] = [(), ("cluster",)]
    tops += [("cluster", "topics", name) for name in document["cluster"]["topics"]]
    tops += [("nodes", name) for name in document.get("nodes") or {}]
    tops += [("workload", index, kind) for index, entry in enumerate(document["workload"]) for kind in entry]
    for top in tops:
        within: Any = document
        for part in top:
            within = within[part]
        for kind in ("features", "versions", "config"):
            yield from ((*top, kind, key) for key in within.get(kind) or {})
    for index, step in enumerate(document["chaos"]):
        fault, body = body_of(step)
        for kind in ("features", "versions", "config") if isinstance(body, Mapping) else ():
            yield from (("chaos", index, fault.section, fault.kind, kind, key) for key in body.get(kind) or {})


def _unset(document: Scenario_, place: tuple[str | int, ...]) -> bool:
    within: Any = document
    for part in place[:-1]:
        within = within.get(part) if isinstance(within, dict) else within[part]
        if within is None:
            return False
    return within.pop(place[-1], None) is not None


# ---- what steps say --------------------------------------------------------------------------------------------


def _fewer_targets(target: Target) -> Iterator[list[Edit]]:
    def remove(document: Scenario_, place: tuple[str | int, ...], position: int) -> object:
        found = _at(document, place)
        if not isinstance(found, list) or len(found) < 2 or position >= len(found):
            return False
        del found[position]
        return True

    places = [(place, len(found)) for place, found in _lists(target.document["chaos"], ("chaos",))]
    yield [partial(remove, place=place, position=p) for place, count in places for p in reversed(range(count))]


def _lists(value: Any, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], list[Any]]]:
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, list) and place != ("chaos",):
        yield place, value
    for key, part in parts:
        yield from _lists(part, (*place, key))


def _at(document: Scenario_, place: Sequence[str | int]) -> Any:
    """What stands at a place, or None."""
    within: Any = document
    for part in place:
        if isinstance(within, dict):
            within = within.get(str(part))
        elif isinstance(within, list) and isinstance(part, int) and part < len(within):
            within = within[part]
        else:
            return None
    return within


STOPS = sorted(kinds_of(NodeCrash), key=lambda kind: KINDS[kind].plainness)
"""Faults that end processes, the plainest first: what is said of one can be said of any other."""


def _plainer_faults(target: Target) -> Iterator[list[Edit]]:
    def at_once(document: Scenario_, index: int) -> object:
        """Without waiting for a point."""
        kind, body = body_of(document["chaos"][index])
        if kind.kind not in STOPS or not isinstance(body, dict):
            return False
        document["chaos"][index] |= entry_of(kind.kind, body[kind.short])
        return True

    def instead(document: Scenario_, index: int, kind: str) -> object:
        """A crash for what is worse."""
        worse, body = body_of(document["chaos"][index])
        if worse.kind not in STOPS or STOPS.index(worse.kind) <= STOPS.index(kind):
            return False
        document["chaos"][index] |= entry_of(kind, body)
        return True

    steps = range(len(target.document["chaos"]))
    yield [partial(at_once, index=index) for index in steps]
    yield [partial(instead, index=index, kind=kind) for index in steps for kind in STOPS]


def _simpler_values(target: Target) -> Iterator[list[Edit]]:
    yield [partial(_round, place=place, unit_us=unit) for place in _durations(target.document) for unit in ROUND_US]
    steps = range(len(target.document["chaos"]))
    spare = {index: body_of(target.document["chaos"][index])[0].spare for index in steps}
    yield [partial(_drop_key, index=index, key=key) for index in steps for key in spare[index]]
    yield [partial(_drop_moment, index=index, key=key) for index in steps for key in ("delay", "nth")]
    yield [partial(_rounder_chance, index=index, chance=chance) for index in steps for chance in ("100%", "50%")]


def _durations(document: Scenario_) -> Iterator[tuple[str | int, ...]]:
    yield ("duration",)
    for index, step in enumerate(document["chaos"]):
        for key in ("for", "when", "until"):
            if isinstance(step.get(key), str):
                yield ("chaos", index, key)
            for part in ("at", "delay"):
                if isinstance(step.get(key), Mapping) and part in step[key]:
                    yield ("chaos", index, key, part)
        kind, body = body_of(step)
        if isinstance(body, Mapping):
            keys = (key for key in kind.durations() if key in body)
            yield from (("chaos", index, kind.section, kind.kind, key) for key in keys)


def _round(document: Scenario_, place: tuple[str | int, ...], unit_us: int) -> object:
    """Round a duration down to a whole number of units."""
    within: Any = _at(document, place[:-1])
    text = _at(document, place)
    if not isinstance(text, str):
        return False
    us = parse_duration_us(text)
    if us < unit_us or us % unit_us == 0:
        return False
    within[place[-1]] = format_duration(us // unit_us * unit_us)
    return True


def _drop_key(document: Scenario_, index: int, key: str) -> object:
    body = body_of(document["chaos"][index])[1]
    return isinstance(body, dict) and body.pop(key, None) is not None


def _drop_moment(document: Scenario_, index: int, key: str) -> object:
    moments = [document["chaos"][index]["when"], document["chaos"][index].get("until", {})]
    return sum(moment.pop(key, None) is not None for moment in moments) > 0


def _rounder_chance(document: Scenario_, index: int, chance: str) -> object:
    kind, body = body_of(document["chaos"][index])
    keys = [key for key in kind.chances() if body.get(key, chance) != chance]
    for key in keys:
        body[key] = chance
    return bool(keys)


# ---- moments that can be seen ----------------------------------------------------------------------------------


def _seen_moments(target: Target) -> Iterator[list[Edit]]:
    def wait(document: Scenario_, index: int, moment: Mapping[str, Any]) -> object:
        step = document["chaos"][index]
        if "at" not in step["when"]:
            return False
        step["when"] = dict(moment)
        return True

    if target.look is None:
        return
    for index in range(len(target.document["chaos"])):
        at = target.document["chaos"][index]["when"].get("at")
        if at is None:
            continue
        at_us = parse_duration_us(at)
        found = moments_before(target.look(target.document), at_us)
        yield [partial(wait, index=index, moment=as_moment(sighting, at_us)) for sighting in found]


PASSES: tuple[Pass, ...] = (
    Pass("what-comes-after", "ends the chaos with the failure", _what_comes_after),
    Pass("fewer-steps", "takes steps out of the schedule: all, halves, quarters, ..., single ones", _fewer_steps, True),
    Pass("shorter", "lets faults last less, and less time pass between them", _shorter),
    Pass("fewer-clients", "takes clients out of the workload", _fewer_clients, True),
    Pass("fewer-records", "lets producers send, and clients ask, less often", _fewer_records),
    Pass("fewer-nodes", "takes voters and brokers out of the cluster", _fewer_nodes, True),
    Pass("fewer-replicas", "takes topics, partitions and replicas out", _fewer_replicas, True),
    Pass("fewer-settings", "leaves configuration, features and versions at their defaults", _fewer_settings),
    Pass("fewer-targets", "lets steps hit fewer nodes", _fewer_targets),
    Pass("plainer-faults", "puts crashes in place of worse stops, and waits for no point", _plainer_faults),
    Pass("seen-moments", "puts what was seen in place of times, so that a live run can be held to it", _seen_moments),
    Pass("simpler-values", "rounds times down, and leaves out what need not be said", _simpler_values),
)
"""Every pass, in the order in which they are tried."""
