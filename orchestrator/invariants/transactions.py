"""What idempotent (and, in time, transactional) producers are promised."""

from __future__ import annotations

from actors.trace.events import LogAppend, Stamped
from orchestrator.invariants.fold import NOTHING, Emissions, Profile, State
from orchestrator.invariants.log_fold import LogInvariant
from orchestrator.invariants.log_mirror import SEQUENCES, LogMirror


class SequencesAreContiguous(LogInvariant[State]):
    """Sequence numbers are how a leader tells a retry from a new batch, and notices a missing one. A leader that
    takes any number appends duplicates, or a batch before the one that it follows.

    Example: producer 7 (epoch 0) has records 0-9 in the log of orders-0; the leader appends a batch that begins with
    sequence 15, or again with 5.
    """

    id = "T2"
    title = "In a leader's log the sequence numbers of a producer id and epoch have no gap and no repetition"
    source = "KIP-98; Kafka's ProducerAppendInfo; KAFKA-14920"
    tested_when = "a leader appends a batch of an idempotent producer"
    types = ()
    before_types = (LogAppend,)
    cases = {LogAppend: ("leader",)}
    exemptions = {"no-producer-state": "The log has nothing of this producer id: a leader accepts any first number."}

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def before(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogAppend
        if body.role != "leader" or body.producer_id < 0 or body.control or body.base_sequence < 0:
            return NOTHING
        state.tested += 1
        known = mirror.producers.last(event.node, body.producer_id)
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

    def step(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
        return NOTHING
