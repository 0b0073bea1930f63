"""Shows on stderr where a campaign stands while it goes on."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable

from rich.live import Live
from rich.text import Text

from chaos.words import duration, some
from orchestrator.campaigns.campaign import Campaign
from orchestrator.cli.progress import PLAIN_SECONDS
from orchestrator.report.console import Page

KINDS_SHOWN = 5


def describe(campaign: Campaign) -> str:
    """One line: runs done, speed, time left, failures by what was violated."""
    summary = campaign.summary
    done = f"{summary.runs:,} of {some(campaign.total, 'run')}"
    if campaign.phase == "sample":
        return f"{done} | keeping a sample of the runs without failure"
    if campaign.phase == "check":
        return f"{done} | checking kept traces again in Spark"
    elapsed, fresh = campaign.at_s - campaign.begun_s, summary.runs - campaign.resumed
    parts = [done]
    if fresh and elapsed > 0:
        parts.append(f"{60 * fresh / elapsed:,.0f} a minute, {duration(campaign.left * elapsed / fresh)} left")
    else:
        parts.append("the first are under way")
    kinds: Counter[str] = Counter()
    for each in summary.signatures.values():
        kinds[each.signature.partition(":")[0]] += each.runs
    shown = ", ".join(f"{name} {runs:,}" for name, runs in kinds.most_common(KINDS_SHOWN))
    failures = sum(kinds.values())
    number = len(summary.signatures)
    kinds_of = f"{number} kind{'' if number == 1 else 's'}"
    parts.append(f"{failures:,} failed, {kinds_of}: {shown}" if failures else "none failed")
    return " | ".join(parts)


class CampaignProgress:
    """A line that is rewritten on a terminal, and written every few seconds elsewhere; silent if ``quiet``."""

    def __init__(self, page: Page, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._page = page
        self._quiet = quiet
        self._clock = clock
        self._next = clock() + PLAIN_SECONDS
        terminal = sys.stderr.isatty() and not quiet
        self._live = Live(console=page, transient=True, auto_refresh=False) if terminal else None

    def __enter__(self) -> CampaignProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, campaign: Campaign) -> None:
        """Show where it stands."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.update(Text(describe(campaign)), refresh=True)
        elif self._clock() >= self._next:
            self._next = self._clock() + PLAIN_SECONDS
            self._page.say(describe(campaign))
