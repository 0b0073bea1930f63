"""Which leaders a client has taken over, by the events that it recorded: what M1 and M2 ask both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from actors.node.spec import partition_name
from actors.trace.events import MetaView, Stamped
from orchestrator.invariants.folds.fold import Witness

NOBODY = -1

REMEMBERED = 64
"""Leaders of a partition that are remembered of a client: what it sent before that has arrived long ago."""


class Adopted(msgspec.Struct, frozen=True):
    """A leader that a client took over, with its event number ``seq``."""

    leader: int
    epoch: int
    seq: int
    by: Witness


def note_keys(keys: dict[str, str], body: MetaView) -> None:
    """Take which topic a client means by a partition's name now, where there may have been several of that name."""
    for tp in (*body.epochs, *body.accepted):
        keys[partition_name(tp)] = tp


def asked_about(
    adopted: Iterable[tuple[str, Sequence[Adopted]]], keys: dict[str, str], tp: str, seq: int
) -> Adopted | None:
    """The leader that a client had when it asked by the name of a partition, having recorded event ``seq``, whichever
    topic of that name it meant: it is the one of which it had taken over a leader last. adopted: by partition; tp: what
    the broker takes it to be, which may not have heard of that topic, or of a newer one. None if it had no leader, or
    has come to mean another topic since."""
    name = partition_name(tp)
    meant, had = "", None
    for key, leaders in adopted:
        if partition_name(key) == name:
            last = next((each for each in reversed(leaders) if each.seq <= seq), None)
            if last is not None and (had is None or last.seq > had.seq):
                meant, had = key, last
    return had if meant == keys.get(name, tp) else None


def asked_at(event: Stamped, client: str, incarnation: int) -> int:
    """Number of the client's last event when it asked what a broker answers; -1 if that was another incarnation."""
    node, _, rest = event.cause.partition("/")
    number, _, seq = rest.partition("/")
    return int(seq) if node == client and int(number) == incarnation else -1
