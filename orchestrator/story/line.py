"""A line of a story, and how much it matters."""

from __future__ import annotations

import msgspec

from chaos.words import some, times
from orchestrator.story.words import listed, seconds

ALWAYS, KEY, TURN, CHANGE, DETAIL = range(5)
"""How much a line matters: what was done to the cluster; what a loss of records cannot be understood without; a leader,
a loss, an operator's request; a change that follows from these; what only fills the picture. The last are the first to
be left out."""

TOGETHER_US = 200_000
"""Changes of the same kind that are no further apart are one line."""


class Line(msgspec.Struct):
    """A line on its way. us: when, since time 0. text: with {} for the subjects, if there are any. weight: how much it
    matters. subjects: partitions or nodes of which the same is told. number: how often. last_us: the last time.
    notes: what came of it. felt: so many messages or Syncs were hit by the fault (felt_by says which). event: id of
    the first event that it tells. about: "partition" or "registration" if it is a change in the metadata log; "groups"
    or "transactions". keys: partitions, groups or transactional ids that it is about. cut: so many records were
    truncated, or lost by a disk."""

    us: int
    text: str
    weight: int
    subjects: list[str] = []
    number: int = 1
    last_us: int = 0
    notes: list[str] = []
    felt: int = 0
    felt_by: str = ""
    event: str = ""
    about: str = ""
    keys: set[str] = set()
    cut: int = 0

    def told(self) -> str:
        """As it is read."""
        text = self.text.replace("{}", listed(self.subjects, clauses=self.cut > 0))
        if self.number > 1:
            until = f" until {seconds(self.last_us)}" if self.last_us - self.us > TOGETHER_US else ""
            text += f", {times(self.number)}{until}"
        felt = f" ({some(self.felt, self.felt_by)} hit)" if self.felt_by else ""
        if self.felt_by and not self.felt:
            felt = f" (no effect: no {self.felt_by} hit)"
        return text + "".join(f", {note}" for note in self.notes) + felt
