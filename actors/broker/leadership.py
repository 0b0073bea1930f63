"""The hook by which the parts of a broker learn who leads a partition from now on
(``ReplicaManager.applyDelta``, ``BrokerMetadataPublisher.onMetadataUpdate``)."""

from __future__ import annotations

from collections.abc import Callable

from actors.broker import purgatory, replica_fetcher
from actors.broker.group_coordinator import loading as group_loading
from actors.broker.partition import Partition
from actors.broker.transaction_coordinator import loading as transaction_loading
from actors.broker.turn import Turn

Listener = Callable[[Turn, Partition], None]
"""Called for each partition that this broker takes up in a new leader epoch, or in another role, with the partition as
it is then: ``is_leader``, ``leader_epoch``, ``leader`` (-1 none)."""

LISTENERS: tuple[Listener, ...] = (
    replica_fetcher.on_leadership,
    group_loading.on_leadership,
    transaction_loading.on_leadership,
    lambda turn, partition: purgatory.wake_all(turn, partition.tp),
)
"""Everybody who reacts to it, in order."""


def changed(turn: Turn, partition: Partition) -> None:
    """This broker has won or lost the leadership of ``partition``, or follows another leader."""
    for listener in LISTENERS:
        listener(turn, partition)
