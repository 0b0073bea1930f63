"""What the timeline of a run's page is drawn from. Times are seconds since time 0."""

from __future__ import annotations

from typing import Literal

import msgspec

Group = Literal["faults", "nodes", "partitions"]

Style = Literal[
    "up",
    "down",
    "leads",
    "votes",
    "paused",
    "cut",
    "fault",
    "request",
    "leader",
    "unclean",
    "isr",
    "out",
    "waits",
    "ok",
    "fail",
    "unknown",
    "refused",
    "open",
]
"""How a bar is drawn. Of nodes: up, down, leads (a partition, or the quorum), votes (a candidate), paused, cut (off
from others). fault, request (of an operator). Of replicas: leader, unclean (a leader
by an unclean election), isr, out (of it). Of operations: waits (from the
call to the return), and its return as ok, fail or unknown; refused (an error that the client tries again after); open
(it never returned)."""


class Bar(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stretch of time on a lane. tp: the partition that it is about, "" for all."""

    style: Style
    start: float
    end: float
    label: str = ""
    hover: str = ""
    tp: str = ""
    number: int = 1
    """So many are drawn as one."""


class Lane(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of the timeline. node, tp: whom it is about, "" if nobody in particular. short: its title where there is
    little room, "" if it has no other one."""

    title: str
    group: Group
    bars: list[Bar]
    node: str = ""
    tp: str = ""
    short: str = ""


class Series(msgspec.Struct, frozen=True):
    """An offset of a replica over time, as steps."""

    tp: str
    node: str
    what: Literal["log end", "high watermark"]
    x: list[float]
    y: list[int]


class Turn(msgspec.Struct, frozen=True):
    """What happened to a replica's log: a truncation, an empty disk, a leader that takes over. y: its log end then."""

    tp: str
    node: str
    kind: Literal["truncates", "empty", "leads"]
    at: float
    y: int
    text: str


class Break(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first time that a promise was broken in these words. excused: where a rule allows it."""

    promise: str
    at: float
    key: str
    sentence: str
    excused: bool = False


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event that proves a violation, or led to it. proof: whether it is one of those that prove it. excused: what it
    proves is excused."""

    promise: str
    at: float
    node: str
    text: str
    event: str
    proof: bool
    excused: bool = False


class Arrow(msgspec.Struct, frozen=True):
    """A message that led to a violation, from the last event of its sender before it to the first of its receiver after
    it."""

    promise: str
    sent: float
    sender: str
    received: float
    receiver: str
    text: str


class Timeline(msgspec.Struct, frozen=True):
    """All that is drawn. begin, end: of the trace. opens, closes: what the picture shows at first. phases: name -> when
    it began. events: of the trace. bands: when any fault goes on. turns: of replicas' logs, by time. left_out:
    sentences on what is not drawn, or not one by one."""

    begin: float
    end: float
    opens: float
    closes: float
    phases: dict[str, float]
    events: int
    lanes: list[Lane]
    series: list[Series]
    breaks: list[Break]
    marks: list[Mark]
    arrows: list[Arrow]
    bands: list[tuple[float, float]]
    turns: list[Turn]
    left_out: list[str]
