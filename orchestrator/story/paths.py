"""How a violation came about: from the fault over what decided it to the wrong answer, by the causes in the trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import (
    AdminInvoke,
    ConfigChange,
    CtlFault,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    QVote,
    QVoters,
    Stamped,
)
from chaos.faults.operator import ADMIN
from orchestrator.story.events_in_words import has_words, in_words
from orchestrator.story.moments import Step

EVENTS_MAX = 300_000
"""A longer trace is not looked through for paths: it would not fit into memory."""

FAULTS, DECISIVE, PROOFS = 3, 5, 4
"""As many of each are told, those nearest to the violation."""

WHOLE_LIFE = 1 << 62
Life = tuple[str, int]
"""A node, and which of its incarnations."""


class Paths:
    """Finds the paths in a trace, which comes in order. ``zero_us``: time 0 by its clock."""

    def __init__(self, trace: Sequence[Stamped], zero_us: int) -> None:
        self._trace, self._zero_us = trace, zero_us
        self._index = {event.id: number for number, event in enumerate(trace)}

    def to(self, key: str, events: Iterable[str], causes: Iterable[str]) -> list[Step]:
        """The way to a violation at a key (a topic partition, a node), which these events prove. [] if the trace does
        not have them."""
        proofs = [self._trace[self._index[name]] for name in events if name in self._index]
        if not proofs:
            return []
        past = self._past(proofs)
        about = {event.tp for event in proofs if event.tp} | {key}
        known = [self._trace[self._index[name]] for name in causes if name in self._index]
        # A cause is the last thing that a sender did before it sent, which may have to do with something else.
        known = [event for event in known if has_words(event) and (not event.tp or event.tp in about)]
        decisive = [event for event in past if event.wall >= self._zero_us and _decides(event, about)]
        shown = [*decisive[-DECISIVE:], *known, *proofs[-PROOFS:]]
        shown += self._faults(max(event.wall for event in proofs), _involved(shown))
        told = {event.id: event for event in sorted(shown, key=lambda event: event.order)}
        return [Step(event.wall - self._zero_us, in_words(event), event.id) for event in told.values()]

    def _past(self, proofs: Sequence[Stamped]) -> list[Stamped]:
        """Everything that happened before the proofs by the causes in the trace, in order: what a node did before, and
        what the messages that reached it came from; of a node that came back, also its former lives."""
        reach: dict[Life, int] = {}
        for event in proofs:
            _extend(reach, (event.node, event.incarnation), event.seq)
        found = []
        last = max(self._index[event.id] for event in proofs)
        for event in reversed(self._trace[: last + 1]):
            if event.seq > reach.get((event.node, event.incarnation), -1):
                continue
            found.append(event)
            cause = self._index.get(event.cause)
            if cause is not None:
                led = self._trace[cause]
                _extend(reach, (led.node, led.incarnation), led.seq)
            if isinstance(event.body, NodeUp) and event.incarnation:
                _extend(reach, (event.node, event.incarnation - 1), WHOLE_LIFE)
        return found[::-1]

    def _faults(self, until_us: int, nodes: set[str]) -> list[Stamped]:
        """The last faults that began before a moment and hit one of the nodes. No message leads from a fault to what it
        does: it is there because of whom it hit."""
        found = []
        for event in self._trace:
            if event.wall > until_us:
                break
            body = event.body
            if isinstance(body, CtlFault) and body.phase == "start" and body.targets != [ADMIN]:
                if not nodes.isdisjoint(body.targets):
                    found.append(event)
        return found[-FAULTS:]


def _extend(reach: dict[Life, int], life: Life, seq: int) -> None:
    reach[life] = max(reach.get(life, -1), seq)


def _decides(event: Stamped, about: set[str]) -> bool:
    """Whether an event is a turn on the way to what broke at a partition, at a node, or in the quorum."""
    body = event.body
    match body:
        case PartChange() | LogTrunc():
            return body.tp in about
        case PartAssume():
            return body.tp in about and body.role == "leader"
        case QRole():
            return body.role == "leader" and _of_quorum(event.node, about)
        case QVote():
            return body.granted and not body.pre and _of_quorum(event.node, about)
        case QVoters():
            return _of_quorum(event.node, about)
    return isinstance(body, AdminInvoke | ConfigChange | NodeDown)


def _of_quorum(node: str, about: set[str]) -> bool:
    """Whether what a voter does matters: something broke in the metadata log, at that voter, or at no partition and no
    node, as in an epoch of the quorum."""
    elsewhere = any(name.rpartition("-")[2].isdigit() for name in about if "-" in name)
    return METADATA_PARTITION in about or node in about or not elsewhere


def _involved(events: Iterable[Stamped]) -> set[str]:
    """Nodes that events are of, or name as leader or member."""
    found: set[str] = set()
    for event in events:
        found.add(event.node)
        if isinstance(event.body, PartChange):
            found.update(f"broker-{number}" for number in event.body.replicas)
    return found
