"""The states of a classic group, and from which to which it may go (``ClassicGroupState.java``)."""

from __future__ import annotations

from actors.trace.group_events import GroupState

EMPTY: GroupState = "Empty"
"""It has no members; it is there for its committed offsets, or because it was asked for."""
PREPARING_REBALANCE: GroupState = "PreparingRebalance"
"""It waits for its members to join."""
COMPLETING_REBALANCE: GroupState = "CompletingRebalance"
"""It waits for its leader's assignment."""
STABLE: GroupState = "Stable"
"""Its members have their assignment, which the offsets partition has committed."""
DEAD: GroupState = "Dead"
"""Its coordinator gave it up, or removed it."""

PREVIOUS: dict[GroupState, tuple[GroupState, ...]] = {
    EMPTY: (PREPARING_REBALANCE,),
    PREPARING_REBALANCE: (STABLE, COMPLETING_REBALANCE, EMPTY),
    COMPLETING_REBALANCE: (PREPARING_REBALANCE,),
    STABLE: (COMPLETING_REBALANCE,),
    DEAD: (STABLE, PREPARING_REBALANCE, COMPLETING_REBALANCE, EMPTY, DEAD),
}
"""State -> the states from which a group may come into it. A group begins as Empty; one that is loaded, as Empty or
Stable."""
