"""Records on their way into the metadata log."""

from __future__ import annotations

import msgspec

from krift.v1.records import MetadataRecord


class Change(msgspec.Struct, frozen=True):
    """A record to append. For the trace only: ``cause`` of a partition's change, whether an operator ``asked`` for it,
    and the ``members`` of the ISR that its leader asked for, broker id -> broker epoch (see ``part.change``); and
    ``unclean``, that a registration follows a shutdown that was not clean; ``placed``, which one a new partition is of
    those that were placed together, -1 none."""

    record: MetadataRecord
    cause: str = ""
    unclean: bool = False
    asked: bool = False
    members: dict[int, int] = {}
    placed: int = -1
