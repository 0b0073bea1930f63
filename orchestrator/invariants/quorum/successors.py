"""Whom a leader of the quorum that resigns names first as its successor: a part of Q23."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from actors.node.spec import node_name
from actors.trace.events import QEnd
from orchestrator.invariants.folds.fold import Witness
from orchestrator.invariants.mirrors.fetched_ends import FetchedEnds

Ends = Mapping[str, tuple[int, Witness | None]]
NEVER = (-1, None)
"""Where a voter is that has not fetched."""


def ends_known(fetched: FetchedEnds, body: QEnd) -> Ends:
    """Up to where a leader that has resigned knew its successors to have fetched, and by which fetches; {} not told."""
    known = fetched.leaders.get(node_name(body.leader))
    if known is None or known.epoch != body.leader_epoch or known.changed:
        return {}
    return known.ends


def misplaced(ends: Ends, body: QEnd) -> tuple[str, list[Witness]] | None:
    """What is wrong with the order in which a leader named its successors, and the fetches that show it: those come
    first that have the most of its log (``LeaderState.nonLeaderVotersByDescendingFetchOffset``)."""
    for one, other in pairwise(map(node_name, body.preferred)):
        end, by = ends.get(other, NEVER)
        least, least_by = ends.get(one, NEVER)
        if by is None or end <= least:
            continue
        had = f"had fetched only up to {least:,}" if least_by is not None else "had not fetched in that epoch"
        sentence = (
            f"{node_name(body.leader)}, which had led epoch {body.leader_epoch}, named {one} before {other} as its "
            f"successor, though {other} had fetched up to {end:,}, and {one} {had}"
        )
        return sentence, [by] if least_by is None else [by, least_by]
    return None
