"""What was done and what came, with the seconds since the start, short enough for a page."""

from __future__ import annotations

import textwrap
import time

WIDTH = 118
LINES_MAX = 12
LINE_MAX = 250


def outcome_lines(outcome: dict[str, object]) -> list[str]:
    """What it comes down to, as it ends a transcript."""
    said = {sentence: ("no", "yes")[value] if isinstance(value, bool) else value for sentence, value in outcome.items()}
    return ["Outcome", *(f"  {sentence}: {value}" for sentence, value in said.items())]


class Transcript:
    """Lines that are printed as they come, and kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self.begun = time.monotonic()

    def head(self, about: str, cluster: list[str]) -> None:
        """What is tried, and on what; time begins with it."""
        self.begun = time.monotonic()
        for line in [*textwrap.wrap(" ".join(about.split()), WIDTH), "", *cluster, ""]:
            self._add(line)

    def foot(self, outcome: dict[str, object]) -> None:
        """What it comes down to."""
        for line in ["", *outcome_lines(outcome)]:
            self._add(line)

    def did(self, what: str, *came: str) -> None:
        """A step, and what came of it."""
        self._add(f"{self.seconds():7.1f} s  {what}")
        self.came(*came)

    def came(self, *came: str) -> None:
        """What came of the last step."""
        shown = [line for each in came for line in each.strip().splitlines() if line.strip()]
        left_out = len(shown) - LINES_MAX
        for line in shown[:LINES_MAX]:
            self._add(f"{'':11}{' '.join(line.split())}")
        if left_out > 0:
            self._add(f"{'':11}({left_out} more lines)")

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.begun

    def text(self) -> str:
        """All of it."""
        return "\n".join(self.lines) + "\n"

    def plain(self, text: str) -> str:
        """What this machine calls something, by the name that the reader knows it by."""
        for real, name in self.names.items():
            text = text.replace(real, name)
        return text

    def _add(self, line: str) -> None:
        line = self.plain(line).rstrip()
        self.lines.append(line if len(line) <= LINE_MAX else line[:LINE_MAX].rpartition(" ")[0] + " ...")
        print(self.lines[-1], flush=True)
