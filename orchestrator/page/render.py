"""Pages as files: HTML that holds its styles, its scripts and the library that draws, so that it needs no network."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from functools import cache
from importlib import resources

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chaos.words import times
from orchestrator.invariants.folds.fold import Status
from orchestrator.page.blocks import Block, Tone
from orchestrator.page.model import Timeline
from orchestrator.report.console import printable
from orchestrator.report.headline import caught, headlines, most_excused, tone
from orchestrator.report.losses import worst_first
from orchestrator.report.rules import in_full
from orchestrator.report.text import LEFT_OUT, MEANINGS, badness, conclusion, outcome, remark, title
from orchestrator.run_dir import Manifest
from orchestrator.story.words import clock, seconds
from orchestrator.verdict import Verdict
from orchestrator.version import __version__

TEMPLATES = "templates"

FIRST_MAX = 4
"""Violations that stand above all else, one of each promise."""

RANKS: tuple[Status, ...] = ("violated", "inconclusive", "excused", "held", "vacuous")
"""Statuses in the table of promises: first what did not simply hold."""

LEGEND = (
    ("up", "up"),
    ("down", "down"),
    ("leads", "leads a partition, or the quorum"),
    ("votes", "asks for votes"),
    ("paused", "paused"),
    ("cut", "cut off from others: point at it to see from whom"),
    ("fault", "fault"),
    ("request", "an operator's request"),
    ("leader", "leader of the partition"),
    ("unclean", "by an unclean election"),
    ("isr", "in its ISR"),
    ("out", "not in its ISR"),
    ("waits", "an operation under way"),
    ("ok", "its return: it succeeded"),
    ("fail", "it failed"),
    ("unknown", "its outcome is unknown"),
    ("refused", "an error after which the client tries again"),
    ("open", "it never returned"),
    ("bad", "violation, its evidence and the messages that led to it"),
    ("amber", "excused break, and its evidence"),
)
"""Style -> what it means."""
PATTERNS = {"down": "crossed", "paused": "hatched"}
"""Style that is drawn with a pattern -> which it is."""


def run_page(verdict: Verdict, manifest: Manifest, timeline: Timeline | None, no_timeline: str = "") -> str:
    """The page of a run. ``no_timeline``: why there is none, if there is none."""
    ranks = list(RANKS)
    promises = sorted(verdict.invariants, key=lambda each: ranks.index(each.status))
    statuses = [each.status for each in promises]
    broken = [each for each in verdict.invariants if each.status == "violated" or each.violations]
    broken.sort(key=badness)
    return _environment().get_template("run.html.j2").render(
        title=printable(title(verdict)),
        verdict=verdict,
        manifest=manifest,
        headlines=headlines(verdict),
        outcome=outcome(verdict),
        tone=_tone(verdict),
        tone_of=tone,
        first=[each for each in broken if each.violations][:FIRST_MAX],
        broken=broken,
        excused=most_excused(verdict),
        rule_in_words=in_full,
        worst_first=worst_first,
        left_out=LEFT_OUT.fullmatch,
        promises=promises,
        not_held=sum(status not in ("held", "vacuous") for status in statuses),
        counts=[(status, statuses.count(status)) for status in dict.fromkeys(statuses)],
        conclusion=conclusion(verdict),
        meanings=MEANINGS,
        remark=remark,
        times=times,
        legend=LEGEND,
        patterns=PATTERNS,
        timeline=timeline,
        no_timeline=no_timeline,
        data=_as_json(timeline),
        library="" if timeline is None else library(),
    )  # fmt: skip


def _tone(verdict: Verdict) -> Status | None:
    """The status in whose colour the outcome of a run stands; None if it stands without one, as it only says that what
    the headlines tell was expected: what broke or was lost is no good news beside them."""
    if verdict.unexpected and not caught(verdict):
        return "violated"
    if not verdict.expected and not verdict.unexpected:
        return "inconclusive"
    quiet = {None, "held"}
    return "held" if all(tone(line) in quiet for line in headlines(verdict)) else None


def blocks_page(
    heading: str, headline: str, tone: Tone, blocks: Sequence[Block], *, lines: Sequence[str] = (), again: str = ""
) -> str:
    """A page of many runs. tone: in whose colour the headline stands."""
    return _environment().get_template("blocks.html.j2").render(
        title=printable(heading),
        headline=printable(headline),
        tone=tone,
        blocks=blocks,
        lines=[printable(line) for line in lines],
        again=printable(again),
    )  # fmt: skip


@cache
def library() -> str:
    """plotly.js as the Python package has it, compressed, in base64."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def _as_json(timeline: Timeline | None) -> Markup:
    """Within a script element: no text in it can end that."""
    text = msgspec.json.encode(timeline).decode()
    return Markup(text.replace("<", "\\u003c"))


@cache
def _environment() -> Environment:
    loader = PackageLoader("orchestrator.page", TEMPLATES)
    found = Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    found.globals.update(source=_source, krift=__version__, printable=printable, clock=clock, seconds=seconds)
    return found


def _source(name: str) -> Markup:
    """A file of ours, as it is."""
    return Markup((resources.files("orchestrator.page") / TEMPLATES / name).read_text(encoding="utf-8"))
