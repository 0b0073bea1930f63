"""Writes the roles of the quorum into docs/quorum.md: ``python -m chaos.scenario.quorum_document``.

The diagrams and tables between the marks come from the tables of transitions that the voters live by; what is before
and after the marks is written by hand, and kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

from actors.quorum.quorum_state import (
    TIMERS,
    TRANSITIONS,
    TRANSITIONS_OF_SEED_PROGRESS,
    TRANSITIONS_WITHOUT_PRE_VOTE,
    EpochChange,
    RoleName,
)

PATH = Path("docs/quorum.md")
BEGIN = "<!-- made by python -m chaos.scenario.quorum_document -->\n"
END = "<!-- end of what is made -->\n"

Table = Mapping[tuple[RoleName, RoleName], EpochChange]

TABLES: dict[str, Table] = {
    "As Kafka does it": TRANSITIONS,
    "Added by `kip-996: off`": TRANSITIONS_WITHOUT_PRE_VOTE,
    "Added by `kip-595.leader-progress: seed`": TRANSITIONS_OF_SEED_PROGRESS,
}
"""Heading -> transitions."""

_LEADER = "a leader is known"
_EPOCH = "a higher epoch, without a leader that can be reached"
_NEWER = "the leader of a higher epoch"

WHEN: dict[tuple[RoleName, RoleName], str] = {
    ("unattached", "unattached"): "a vote was granted; or a higher epoch, without a leader that can be reached",
    ("unattached", "prospective"): "election timeout",
    ("unattached", "follower"): _LEADER,
    ("unattached", "candidate"): "election timeout",
    ("prospective", "unattached"): "no majority of PreVotes, and no leader known; or a higher epoch",
    ("prospective", "prospective"): "a vote was granted",
    ("prospective", "candidate"): "a majority of PreVotes, or a peer whose version has no PreVote",
    ("prospective", "follower"): "no majority of PreVotes, and the leader is known; or a leader was found",
    ("candidate", "unattached"): _EPOCH,
    ("candidate", "prospective"): "election timeout",
    ("candidate", "leader"): "a majority of votes",
    ("candidate", "follower"): _LEADER,
    ("candidate", "candidate"): "a pause after the election timeout or a refusal by a majority",
    ("leader", "unattached"): _EPOCH,
    ("leader", "follower"): _NEWER,
    ("leader", "candidate"): "no majority fetched for the fetch timeout; a voter does not resign for that",
    ("leader", "resigned"): "no majority fetched (check quorum), its own removal is committed, or a shutdown",
    ("follower", "unattached"): _EPOCH,
    ("follower", "prospective"): "fetch timeout, or the leader ended its epoch",
    ("follower", "candidate"): "fetch timeout, or the leader ended its epoch",
    ("follower", "follower"): _NEWER,
    ("resigned", "unattached"): "election timeout, by one; or a higher epoch",
    ("resigned", "prospective"): "the start of a lone voter",
    ("resigned", "follower"): _NEWER,
    ("resigned", "candidate"): "election timeout",
}
"""Why a member changes its role."""

ABOUT: dict[RoleName, str] = {
    "unattached": "Knows the epoch, but no leader to fetch from. A granted vote is on its disk",
    "prospective": "Asks whether it would be elected (PreVote). The epoch stays, and no write is needed",
    "candidate": "Has raised the epoch and voted for itself, both on its disk, and asks for votes",
    "leader": "Appends, answers fetches, and tracks the positions of its followers",
    "follower": "Fetches from the leader of its epoch",
    "resigned": "Led this epoch and resigned: informs the voters (EndQuorumEpoch), and refuses fetches",
}


def section() -> str:
    """What stands between the marks."""
    lines = [*_roles()]
    for heading, table in TABLES.items():
        lines += ["", f"### {heading}", "", *_diagram(table), "", *_transitions(table)]
    return "\n".join(lines) + "\n"


def _roles() -> Iterator[str]:
    yield "| role | what it is | timers |"
    yield "|---|---|---|"
    for role in get_args(RoleName):
        timers = ", ".join(f"`{timer}`" for timer in TIMERS[role])
        yield f"| {role.capitalize()} | {ABOUT[role]} | {timers} |"


def _diagram(table: Table) -> Iterator[str]:
    yield "```mermaid"
    yield "stateDiagram-v2"
    if ("unattached", "unattached") in table:
        yield "    [*] --> Unattached: an empty disk"
    for (source, target), change in table.items():
        yield f"    {source.capitalize()} --> {target.capitalize()}: {_SHORT[change]}"
    yield "```"


_SHORT: dict[EpochChange, str] = {
    "same": "epoch stays",
    "next": "epoch + 1",
    "higher": "higher epoch",
    "same or higher": "same or higher epoch",
}


def _transitions(table: Table) -> Iterator[str]:
    yield "| from | to | epoch | when |"
    yield "|---|---|---|---|"
    for (source, target), change in table.items():
        yield f"| {source.capitalize()} | {target.capitalize()} | {change} | {WHEN[source, target]} |"


def document(text: str) -> str:
    """The document with the section in its place. Raises ValueError if ``text`` lacks the marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PATH} lacks the marks between which the section stands")
    return f"{head}{BEGIN}{section()}{END}{tail}"


def main() -> None:
    """Write it, from the root of the repository."""
    PATH.write_text(document(PATH.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
