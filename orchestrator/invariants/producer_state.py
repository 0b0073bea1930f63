"""What a partition's log says of idempotent producers, mirrored from the trace (``ProducerStateManager.java``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from actors.trace.events import LogAppend, Stamped
from orchestrator.invariants.fold import Witness, witness

if TYPE_CHECKING:
    from orchestrator.invariants.log_mirror import BatchFacts, Prefix


NO_PRODUCER_STATE = "A leader whose log had nothing of the producer id took a batch with whatever sequence it had."
"""Exemption, where it follows from T2's of the same name."""


class LastSequence(msgspec.Struct, frozen=True, gc=False):
    """Of one producer id in one replica's log: epoch and last sequence number, and where its last batch ends. ``by``:
    None where a cut brought an older batch to the end again."""

    producer_epoch: int
    last_sequence: int
    end: int
    by: Witness | None


class ProducerStates(msgspec.Struct):
    """``nodes``: replica -> producer id -> LastSequence. ``unchecked``: (offset, leader epoch) of batches that a leader
    took at whatever sequence number they had, since its log had nothing of their producer id."""

    nodes: dict[str, dict[int, LastSequence]] = {}
    unchecked: list[tuple[int, int]] = []

    def last(self, node: str, producer_id: int) -> LastSequence | None:
        """What a replica's log says of a producer id, None where it has nothing of it."""
        known = self.nodes.get(node)
        return None if known is None else known.get(producer_id)

    def append(self, event: Stamped, body: LogAppend, batch: BatchFacts) -> None:
        """A batch of an idempotent producer came to the end of a log."""
        known = self.nodes.get(event.node)
        if known is None:
            known = self.nodes[event.node] = {}
        if body.role == "leader" and body.base_sequence and batch.producer_id not in known:
            self.unchecked.append((batch.base, batch.epoch))
        known[batch.producer_id] = LastSequence(batch.producer_epoch, batch.last_sequence, batch.end, witness(event))

    def cut(self, node: str, log: Prefix) -> None:
        """What is left of a log says what each producer's last sequence number is."""
        states = self.nodes.get(node, {})
        for producer_id, known in list(states.items()):
            if known.end <= log.end:
                continue
            del states[producer_id]
            for batch in reversed(log.batches):
                if batch.producer_id == producer_id:
                    states[producer_id] = LastSequence(batch.producer_epoch, batch.last_sequence, batch.end, None)
                    break
