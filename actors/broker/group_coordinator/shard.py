"""What a coordinator knows of one offsets partition (``GroupCoordinatorShard.java``)."""

from __future__ import annotations

import msgspec

from actors.broker.group_coordinator.group import ClassicGroup
from actors.broker.group_coordinator.offset_metadata import Offsets


class Shard(msgspec.Struct):
    """The groups and offsets of an offsets partition that this broker leads. ``epoch``: leader epoch in which it does.
    ``loading``: its log was not read yet. ``written``: log end behind the last record that the coordinator wrote or
    read."""

    tp: str
    epoch: int
    loading: bool = True
    written: int = 0
    groups: dict[str, ClassicGroup] = {}
    offsets: Offsets = msgspec.field(default_factory=Offsets)
