"""A run's trace as DataFrames."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from actors.trace.events import EVENT_TYPES
from chaos.errors import InputError, Mistake, choices, nearest
from orchestrator.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ENVELOPE = ("id", "at_us", "node", "incarnation", "seq", "type", "tp", "cause", "req")
"""Columns of every frame of events."""


def check_types(types: Collection[str]) -> None:
    """Raises InputError for what is no type of event."""
    unknown = [name for name in types if name not in EVENT_TYPES]
    if unknown:
        known = sorted(EVENT_TYPES)
        raise InputError(
            Mistake(
                f"events({name!r})",
                0,
                "",
                "no such type of event",
                choices(known, "a type in actors/trace/events.py"),
                nearest(name, known),
            )
            for name in unknown
        )


def events_frame(trace: pa.Table, zero_us: int | None, types: Collection[str]) -> pd.DataFrame:
    """The events of a trace in its order, a row each: ``ENVELOPE``, then what the bodies say. Of some types each field
    of their bodies is a column; of all types there is ``body``, JSON. ``zero_us``: time 0 by the trace's clock."""
    import pandas as pd

    frame = trace.to_pandas()
    frame.insert(0, "id", frame["node"] + "/" + frame["incarnation"].astype(str) + "/" + frame["seq"].astype(str))
    never = pd.Series(pd.NA, index=frame.index, dtype="Int64")
    frame.insert(1, "at_us", never if zero_us is None else (frame["wall"] - zero_us).astype("Int64"))
    if not types:
        return frame[[*ENVELOPE, "body"]]
    bodies = pd.DataFrame([msgspec.json.decode(text) for text in frame["body"]], index=frame.index)
    fields = [name for name in bodies.columns if name not in ENVELOPE]
    return pd.concat([frame[list(ENVELOPE)], bodies[fields]], axis=1)


def promises_frame(verdict: Verdict) -> pd.DataFrame:
    """A row for each invariant: id, title, status, tested and violated (how often), first_us (microseconds since time
    0, NA if it was not violated), excused (how often), weight, why."""
    import pandas as pd

    rows: list[dict[str, Any]] = [
        {
            "id": each.id,
            "title": each.title,
            "status": each.status,
            "tested": each.tested,
            "violated": each.violated,
            "first_us": each.first_us,
            "excused": sum(each.excused.values()),
            "weight": each.weight,
            "why": each.why,
        }
        for each in verdict.invariants
    ]
    return pd.DataFrame(rows).astype({"first_us": "Int64"})


def violations_frame(verdict: Verdict) -> pd.DataFrame:
    """A row for each violation that differs: invariant, at_us, key, sentence, events (ids), times, known, weight."""
    import pandas as pd

    names = ["invariant", "at_us", "key", "sentence", "events", "times", "known", "weight"]
    rows = [
        [each.id, one.at_us, one.key, one.sentence, one.events, one.times, one.known, each.weight]
        for each in verdict.invariants
        for one in each.violations
    ]
    return pd.DataFrame(rows, columns=names).astype({"at_us": "Int64", "times": "int64"})
