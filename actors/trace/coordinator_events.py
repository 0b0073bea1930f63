"""Events of the coordinators of groups and of transactions alike."""

from __future__ import annotations

from typing import Literal

from actors.trace.event_parts import TraceEvent

Standing = Literal["none", "loading", "loaded"]


class CoordRefuse(TraceEvent, frozen=True, tag="coord.refuse"):
    """A broker refused what a member of a group, or a producer with a transactional id, asked its coordinator for,
    when that came: what becomes of a write afterwards is none.
    ``name``: the group or transactional id, which the partition ``tp`` holds. ``standing``: what the broker had of that
    partition as a coordinator; ``leads``: whether it led it. ``error``: the reason that it found.

    Asked: ``member``, ``instance``, ``generation`` (""  and -1: not said); ``producer_id``, ``producer_epoch``, -1 not
    said.

    Ghost data, of the group or transactional id as the coordinator had it then: ``state``, "" it did not know it;
    ``had_generation``; ``size``: members that have joined its rebalance or, without one, that it has; ``is_member``:
    the member was one, or was about to join by the id that it was given; ``holder``: member that had the instance id,
    "" none; ``had_id``, ``had_epoch``: of the producer; ``pending``: another state of it was not committed yet."""

    api: str
    name: str
    tp: str
    error: int
    standing: Standing
    leads: bool
    member: str = ""
    instance: str = ""
    generation: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    state: str = ""
    had_generation: int = -1
    size: int = 0
    is_member: bool = False
    holder: str = ""
    had_id: int = -1
    had_epoch: int = -1
    pending: bool = False


CoordinatorEvent = CoordRefuse
