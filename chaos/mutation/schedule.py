"""Ways to change the schedule of a scenario document. Each takes the schedule apart from what it changes as it is."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

from chaos.faults.kinds import body_of, entry_of
from chaos.mutation.cast import Cast, Part
from chaos.scenario.durations import format_duration, parse_duration_us

MS = 1_000
ENTRIES_MAX = 12
"""A schedule does not grow beyond that."""
LATEST_US = 20 * MS
"""Nothing begins later than that before the end of the chaos."""


class Draft:
    """A schedule that is being changed. other: entries that may be put in, made to fit. duration_us: of the chaos."""

    def __init__(self, draw: random.Random, entries: list[Part], other: list[Part], cast: Cast, duration_us: int):
        self.draw, self.entries, self.cast, self.duration_us = draw, entries, cast, duration_us
        self.other = [settled(each, cast, duration_us) for each in other]

    def one(self) -> int:
        """Index of an entry."""
        return self.draw.randrange(len(self.entries))

    def near(self) -> int:
        """A shift in time, either way: as likely to be small as large."""
        return int(10 * MS * 500 ** self.draw.random()) // MS * MS * self.draw.choice((1, -1))


def settled(entry: Part, cast: Cast, duration_us: int) -> Part:
    """An entry of any schedule as one of this: names that there are, times within the chaos, and records given up by an
    operator only where the configuration gives them up too."""
    entry = cast.fit(copy.deepcopy(entry))
    kind, body = body_of(entry)
    kind.settle(body, cast.unclean)
    return timed(entry, duration_us)


def timed(entry: Part, duration_us: int) -> Part:
    """The entry with its times within the chaos."""
    when, until = entry["when"], entry.get("until", {})
    if "at" in when:
        at_us = min(max(0, parse_duration_us(when["at"])), duration_us - LATEST_US)
        when["at"] = format_duration(at_us)
        if "for" in entry:
            entry["for"] = format_duration(max(MS, min(parse_duration_us(entry["for"]), duration_us - at_us)))
    if "at" in until:
        begins_us = parse_duration_us(when["at"]) if "at" in when else 0
        until["at"] = format_duration(min(max(parse_duration_us(until["at"]), begins_us + MS), duration_us))
    return entry


# ---- ways: each says whether it found something to change --------------------------------------------------------


def shift(draft: Draft) -> bool:
    """An entry earlier or later; one that waits for something, with another delay."""
    if not draft.entries:
        return False
    when = draft.entries[draft.one()]["when"]
    key = "at" if "at" in when else "delay"
    when[key] = format_duration(max(0, parse_duration_us(when.get(key, "0s")) + draft.near()))
    return True


def shift_all(draft: Draft) -> bool:
    """The whole schedule earlier or later."""
    by = draft.near()
    for entry in draft.entries:
        if "at" in entry["when"]:
            entry["when"]["at"] = format_duration(max(0, parse_duration_us(entry["when"]["at"]) + by))
    return bool(draft.entries)


def meet(draft: Draft) -> bool:
    """An entry at the moment of another, or a little later."""
    if len(draft.entries) < 2:
        return False
    one, other = draft.draw.sample(draft.entries, 2)
    one["when"] = copy.deepcopy(other["when"])
    key = "at" if "at" in one["when"] else "delay"
    later = draft.draw.choice((0, 1, 20, 200, 1_000)) * MS
    one["when"][key] = format_duration(parse_duration_us(one["when"].get(key, "0s")) + later)
    return True


def stretch(draft: Draft) -> bool:
    """A fault for longer, or shorter."""
    lasting = [entry for entry in draft.entries if "for" in entry]
    if not lasting:
        return False
    entry = draft.draw.choice(lasting)
    lasts_us = int(parse_duration_us(entry["for"]) * 4 ** draft.draw.uniform(-1, 1)) // MS * MS
    entry["for"] = format_duration(min(max(MS, lasts_us), draft.duration_us))
    return True


def retarget(draft: Draft) -> bool:
    """A fault on other nodes."""
    if not draft.entries:
        return False
    entry = draft.entries[draft.one()]
    kind, body = body_of(entry)
    chosen = [draft.draw.choice(draft.cast.selectors(kind.whom(body)))]
    if isinstance(body, str | list):
        entry |= entry_of(kind.kind, chosen)
        return True
    keys = kind.retargeted(body)
    if not keys:
        return False
    body[draft.draw.choice(keys)] = chosen
    return True


def retrigger(draft: Draft) -> bool:
    """An entry when something is seen instead of at a time, or the other way round, or the next time it is seen."""
    if not draft.entries:
        return False
    entry = draft.entries[draft.one()]
    if "seen" in entry["when"] and draft.draw.random() < 0.5:
        entry["when"]["nth"] = draft.draw.choice((1, 1, 2, 3, 5))
        return True
    moments = [
        each["when"] for each in (*draft.other, *draft.entries) if ("at" in each["when"]) != ("at" in entry["when"])
    ]
    if not moments:
        return False
    entry["when"] = copy.deepcopy(draft.draw.choice(moments))
    return True


def duplicate(draft: Draft) -> bool:
    """An entry a second time, a little later or earlier."""
    if not draft.entries or len(draft.entries) >= ENTRIES_MAX:
        return False
    entry = copy.deepcopy(draft.entries[draft.one()])
    key = "at" if "at" in entry["when"] else "delay"
    entry["when"][key] = format_duration(max(0, parse_duration_us(entry["when"].get(key, "0s")) + draft.near()))
    draft.entries.append(entry)
    return True


def drop(draft: Draft) -> bool:
    """One entry less."""
    if len(draft.entries) < 2:
        return False
    del draft.entries[draft.one()]
    return True


def insert(draft: Draft) -> bool:
    """One entry of the other schedule more."""
    if not draft.other or len(draft.entries) >= ENTRIES_MAX:
        return False
    draft.entries.append(copy.deepcopy(draft.draw.choice(draft.other)))
    return True


def replace(draft: Draft) -> bool:
    """Another fault at the same moment, and for as long where both last."""
    if not draft.entries or not draft.other:
        return False
    index = draft.one()
    entry, new = draft.entries[index], copy.deepcopy(draft.draw.choice(draft.other))
    new["when"] = entry["when"]
    if "for" in new and "for" in entry:
        new["for"] = entry["for"]
    draft.entries[index] = new
    return True


def splice(draft: Draft) -> bool:
    """The first part of the schedule with the last part of the other."""
    if not draft.entries or not draft.other:
        return False
    kept = draft.draw.randint(1, len(draft.entries))
    taken = draft.draw.randint(1, len(draft.other))
    draft.entries[kept:] = copy.deepcopy(draft.other[-taken:])
    del draft.entries[ENTRIES_MAX:]
    return True


WAYS: tuple[Callable[[Draft], bool], ...] = (
    shift,
    shift_all,
    meet,
    stretch,
    retarget,
    retrigger,
    duplicate,
    drop,
    insert,
    replace,
    splice,
)
"""All of them, equally likely."""
