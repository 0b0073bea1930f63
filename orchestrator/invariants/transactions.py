"""What idempotent (and, in time, transactional) producers are promised."""

from __future__ import annotations

import msgspec

from actors.trace.events import LogAppend, LogTrunc, NodeDown, Stamped
from orchestrator.invariants.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.log_fold import LogInvariant
from orchestrator.invariants.log_mirror import SEQUENCES, LogMirror, batch_facts


class LastSequence(msgspec.Struct, frozen=True):
    """Of one producer id in one replica's log: epoch and last sequence number, and where its last batch ends."""

    producer_epoch: int
    last_sequence: int
    end: int
    by: Witness | None


class Sequences(State):
    """node -> producer id -> LastSequence."""

    nodes: dict[str, dict[int, LastSequence]] = {}


class SequencesAreContiguous(LogInvariant[Sequences]):
    """Sequence numbers are how a leader tells a retry from a new batch, and notices a missing one. A leader that
    takes any number appends duplicates, or a batch before the one that it follows.

    Example: producer 7 (epoch 0) has records 0-9 in the log of orders-0; the leader appends a batch that begins with
    sequence 15, or again with 5.
    """

    id = "T2"
    title = "In a leader's log the sequence numbers of a producer id and epoch have no gap and no repetition"
    source = "KIP-98; Kafka's ProducerAppendInfo; KAFKA-14920"
    tested_when = "a leader appends a batch of an idempotent producer"
    types = (LogAppend, LogTrunc, NodeDown)
    exemptions = {"no-producer-state": "The log has nothing of this producer id: a leader accepts any first number."}

    def initial(self, key: str, profile: Profile) -> Sequences:
        return Sequences(key)

    def step(self, state: Sequences, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        producers = state.nodes.get(event.node)
        if producers is None:
            producers = state.nodes[event.node] = {}
        if type(body) is LogAppend:
            if body.producer_id < 0 or body.control or body.base_sequence < 0:
                return NOTHING
            known = producers.get(body.producer_id)
            facts = batch_facts(body)
            producers[body.producer_id] = LastSequence(
                body.producer_epoch, facts.last_sequence, facts.end, witness(event)
            )
            return self._judge(state, known, event, body) if body.role == "leader" else NOTHING
        self._rebuild(producers, event.node, mirror)
        return NOTHING

    def _judge(self, state: Sequences, known: LastSequence | None, event: Stamped, body: LogAppend) -> Emissions:
        state.tested += 1
        if known is None or known.producer_epoch != body.producer_epoch:
            expected = 0
        else:
            expected = (known.last_sequence + 1) % SEQUENCES
        if body.base_sequence == expected:
            return NOTHING
        sentence = (
            f"{event.node} appended sequence {body.base_sequence} of producer id {body.producer_id}, epoch "
            f"{body.producer_epoch}, to {state.key} at offset {body.base:,}, where {expected} was next"
        )
        if known is None:
            return self.excused("no-producer-state", state.key, sentence, event)
        return self.violated(state.key, sentence, known.by, event)

    def _rebuild(self, producers: dict[int, LastSequence], node: str, mirror: LogMirror) -> None:
        """After a truncation: what is left of the log says what each producer's last sequence number is."""
        log = mirror.replica(node).log
        for producer_id, known in list(producers.items()):
            if known.end <= log.end:
                continue
            del producers[producer_id]
            for batch in reversed(log.batches):
                if batch.producer_id == producer_id:
                    producers[producer_id] = LastSequence(batch.producer_epoch, batch.last_sequence, batch.end, None)
                    break
