"""All kinds of faults and actions. A kind more is its class, a line here, and a weight in the nemeses that want it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from chaos.faults.base import Fault
from chaos.faults.clock import ClockJump, SkewedClock
from chaos.faults.disk import DiskSlowness, DiskWipe, PowerLoss, TornTail
from chaos.faults.network import NetworkDelay, NetworkDrop, NetworkDuplicate, NetworkPartition, NetworkReorder
from chaos.faults.operator import Configuration, LeaderElection, QuorumDescription, VoterAddition, VoterRemoval
from chaos.faults.process import NodeBounce, NodeCrash, NodePause, NodeShutdown
from chaos.faults.store import FailingStore, HalfCopies, SlowStore, StaleListing, UnavailableStore
from chaos.faults.topics import PartitionAddition, RecordDeletion, TopicCreation, TopicDeletion

ALL: tuple[type[Fault], ...] = (
    NetworkPartition,
    NetworkDelay,
    NetworkDrop,
    NetworkDuplicate,
    NetworkReorder,
    NodeCrash,
    PowerLoss,
    TornTail,
    DiskWipe,
    NodePause,
    DiskSlowness,
    SkewedClock,
    ClockJump,
    SlowStore,
    FailingStore,
    UnavailableStore,
    HalfCopies,
    StaleListing,
    LeaderElection,
    Configuration,
    QuorumDescription,
    VoterAddition,
    VoterRemoval,
    TopicCreation,
    TopicDeletion,
    PartitionAddition,
    RecordDeletion,
    NodeShutdown,
    NodeBounce,
)
"""In the order of the documents."""

KINDS: dict[str, type[Fault]] = {each.kind: each for each in ALL}
"""Name, as a scenario writes it -> kind."""


@cache
def kinds_of(*classes: type[Fault]) -> frozenset[str]:
    """The names of all kinds that are one of these, or derived from one."""
    return frozenset(name for name, kind in KINDS.items() if issubclass(kind, classes))


def body_of(entry: Mapping[str, Any]) -> tuple[type[Fault], Any]:
    """The kind of an entry of the chaos as it is written, and what stands behind its name."""
    ((name, body),) = (entry["fault"] if "fault" in entry else entry["action"]).items()
    return KINDS[name], body


def entry_of(kind: str, body: Any, **rest: Any) -> dict[str, Any]:
    """The part of an entry of the chaos that says what happens: the opposite of ``body_of``."""
    return {KINDS[kind].section: {kind: body}, **rest}
