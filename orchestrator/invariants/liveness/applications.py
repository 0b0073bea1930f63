"""That applications get their transactions committed: L20."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.coordinator_common.partitions import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from actors.node.errors import KafkaError, error_name
from actors.node.messages import Api
from actors.node.spec import node_name, partition_name, split_topic_partition
from actors.trace.events import (
    BeginInvoke,
    CtlFault,
    EndInvoke,
    EndReturn,
    InitReturn,
    NodeDown,
    PartChange,
    PartRemove,
    SendOffsetsReturn,
    SendReturn,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.known_findings import known_as
from orchestrator.invariants.folds.routes import NODE
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.liveness.lost_decisions import (
    LOST_DECISIONS,
    LOST_DECISIONS_RULE,
    TELL_OF_LOST_DECISIONS,
    LostDecisions,
)
from orchestrator.invariants.liveness.removed_names import REMOVALS, RemovedNames
from orchestrator.invariants.mirrors.late_pushes import LATE_PUSH, LATE_PUSH_RULE, LatePushes
from orchestrator.invariants.transactions.timeouts import timeout_of, timeouts_of, transactional_id_of

COMMIT = "commit"
OF_THE_GROUP = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
"""What is said to a member that lost its place in the group, for which it aborts."""
OUT_OF_ORDER = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
RAISES_EPOCHS = 3
"""Version of InitProducerId from which a producer can raise its epoch (KIP-360)."""
OF_ALL = (TRANSACTION_STATE_TOPIC, GROUP_METADATA_TOPIC)
"""Topics that a transaction may need beside those that it writes to."""
OF_THE_CLUSTER = tuple(dict.fromkeys((*REMOVALS, *TELL_OF_LOST_DECISIONS)))


class Attempt(msgspec.Struct):
    """A transaction. begun_us: when its application began it; version: transaction.version of it. error: the first of
    which the application was told, 0 none; tps: partitions that its failed sends are to. at_commit: the error ended an
    attempt to commit, and no earlier call. ending: the application aborts it of its own will. counted: it is among the
    failed ones."""

    begun_us: int
    version: int
    error: int = 0
    tps: set[str] = set()
    asked: bool = False
    at_commit: bool = False
    ending: bool = False
    counted: bool = False

    def fails(self, error: int) -> None:
        """Its application is told of an error."""
        self.error = self.error or error


class Attempts(WindowState):
    """Of an application. timeout_us: of its transactions; alone: nobody else has its transactional id. attempt: its
    newest transaction. failed: transactions in a row that failed in a window; last, last_us: end of the newest of
    them, with ``last_error``; tps: partitions that their failed sends were to; refused: each had a batch refused as
    out of order below transaction.version 2, while it was committed or where epochs cannot be raised. brokers: that
    have replicas. short: partitions with fewer in-sync replicas than they need. removed: topics that are gone. lost:
    by the transaction log. pushes: of UpdateMetadata. producer: its id and epoch; acked: a record of these was
    acknowledged; early: one was refused as out of order before its transaction was ended; raises: the producer can
    raise the epoch. known: the finding about such batches, if it is one here."""

    timeout_us: int = 0
    alone: bool = True
    attempt: Attempt | None = None
    failed: int = 0
    last: Witness | None = None
    last_us: int = -1
    last_error: int = 0
    tps: set[str] = set()
    refused: bool = True
    brokers: set[str] = set()
    short: set[str] = set()
    removed: RemovedNames = msgspec.field(default_factory=RemovedNames)
    lost: LostDecisions = msgspec.field(default_factory=LostDecisions)
    pushes: LatePushes = msgspec.field(default_factory=LatePushes)
    producer: tuple[int, int] = (-1, -1)
    acked: bool = False
    early: bool = False
    raises: bool = True
    known: str = ""

    def begin_count(self) -> None:
        """Count failed transactions from now on."""
        self.failed, self.refused = 0, True
        self.tps.clear()

    def changed(self, body: PartChange) -> None:
        """The controller changed a partition."""
        name = partition_name(body.tp)
        self.brokers.update(map(node_name, body.replicas))
        if len(body.isr) < body.min_isr:
            self.short.add(name)
        else:
            self.short.discard(name)

    @property
    def is_known(self) -> bool:
        """Whether its transactions fail as those of the finding do: a leader does not have the newest batch of this
        epoch, and the producer did not have to raise the epoch."""
        return self.refused and self.acked and not (self.early and self.raises)

    @property
    def lacks_replicas(self) -> bool:
        """Whether a partition that its transactions need has too few in-sync replicas."""
        return any(tp in self.tps or split_topic_partition(tp)[0] in OF_ALL for tp in self.short)

    @property
    def lacks_topic(self) -> bool:
        """Whether it sends to a topic that is gone."""
        return not self.removed.gone.isdisjoint(map(partition_name, self.tps))


class TransactionsCommit(WindowInvariant[Attempts]):
    """An application whose transaction fails aborts it and does its work again in the next one. If that fails for the
    same reason, it is busy, answered, and gets nowhere: no timeout ends that, and no other promise is broken, since
    each transaction ends as it should.

    Example: producer-1 sends a record and commits. Broker-2, which was elected uncleanly, refuses the batch as out of
    order. Producer-1 aborts and begins another transaction with the same producer epoch, and broker-2 refuses its batch
    again.
    """

    id = "L20"
    title = "An application whose transactions fail commits one in the end"
    source = "KIP-98; KIP-360; TransactionManager.java (maybeTransitionToErrorState)"
    tested_when = "an application commits a transaction in a window, after one that failed"
    route = NODE
    of_transactions = True
    types = (BeginInvoke, EndInvoke, EndReturn, InitReturn, SendReturn, SendOffsetsReturn)
    exemptions = {
        "isr-away": "A partition that its transactions need has fewer in-sync replicas than min.insync.replicas.",
        "removed-topic": "It sends to a topic that an operator has removed.",
        LATE_PUSH_RULE: LATE_PUSH,
        LOST_DECISIONS: LOST_DECISIONS_RULE,
    }
    LEAST = 3
    """Fewer failed transactions than that are no livelock: the first may fail for a fault that is over, and the second
    for what the fault has left behind."""
    unseen = (
        "windows without some broker: it may be a coordinator, or the leader of a partition",
        "applications that share a transactional id: they fence each other",
        "transactions that were open for longer than their timeout, and those that their group has turned away",
        "an application that waits for one operation for ever: L5, L7 and L18 judge that",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, *OF_THE_CLUSTER)

    def initial(self, key: str, profile: Profile) -> Attempts:
        state = Attempts(key, beta_us=beta(profile, self.id), pushes=LatePushes.of(profile))
        if key in profile.transactional:
            state.timeout_us = 1000 * timeout_of(profile, key)
            state.alone = len(timeouts_of(profile)[transactional_id_of(profile, key)]) == 1
        brokers = [each for each in profile.nodes if each.startswith("broker-")]
        state.raises = not profile.is_older(Api.InitProducerId.name, RAISES_EPOCHS, key, *brokers)
        name = "finding-endless-aborts"
        state.known = known_as(profile, name) or ("" if state.raises else name)
        return state

    def hear(self, state: Attempts, event: Stamped) -> Emissions:
        body = event.body
        if isinstance(body, TELL_OF_LOST_DECISIONS):
            state.lost.take(event)
        if isinstance(body, REMOVALS) and state.removed.take(event):
            self.void(state, COMMIT)
        if isinstance(body, PartChange):
            state.changed(body)
        elif isinstance(body, PartRemove):
            state.short.discard(partition_name(body.tp))
        elif isinstance(body, NodeDown):
            if event.node == state.key:
                state.attempt = None
                self.void(state, COMMIT)
        elif isinstance(body, CtlFault):
            state.pushes.take(body)
        return NOTHING if isinstance(body, OF_THE_CLUSTER) else super().hear(state, event)

    def look(self, state: Attempts, event: Stamped) -> None:
        state.begin_count()

    def step(self, state: Attempts, event: Stamped) -> Emissions:
        body: Any = event.body
        kind, attempt = type(body), state.attempt
        if kind is BeginInvoke:
            state.attempt = Attempt(event.wall, body.version)
            if (producer := (body.producer_id, body.producer_epoch)) != state.producer:
                state.producer = producer
                state.acked = state.early = False
        elif kind is InitReturn:
            return self._failed(state, event, body.error) if body.outcome != "ok" else NOTHING
        elif attempt is None:
            return NOTHING
        elif kind is SendReturn:
            if body.outcome == "ok":
                state.acked = True
            elif not attempt.ending:
                attempt.fails(body.error)
                attempt.tps.add(body.tp)
        elif kind is SendOffsetsReturn:
            attempt.fails(body.error)
        elif kind is EndInvoke and not attempt.asked:
            attempt.asked = True
            attempt.ending = not body.commit and not attempt.error
            attempt.at_commit = body.commit and not attempt.error
            state.early = state.early or attempt.error == OUT_OF_ORDER
        elif kind is EndReturn and (body.commit or not attempt.counted):
            return self._ended(state, event, body, attempt)
        return NOTHING

    def _ended(self, state: Attempts, event: Stamped, body: EndReturn, attempt: Attempt) -> Emissions:
        if body.outcome == "ok" and body.commit:
            if body.asked:
                self.kept(state, COMMIT)
            return NOTHING
        attempt.fails(body.error)
        too_long = event.wall - attempt.begun_us >= state.timeout_us
        if not attempt.error or too_long or attempt.error in OF_THE_GROUP:
            return NOTHING
        attempt.counted = True
        return self._failed(state, event, attempt.error, attempt)

    def _failed(self, state: Attempts, event: Stamped, error: int, attempt: Attempt | None = None) -> Emissions:
        """A transaction failed, or its application got no producer for it."""
        if not state.alone:
            return NOTHING
        if COMMIT not in state.due:
            state.begin_count()
            self.oblige(state, COMMIT, event)
        state.failed += 1
        state.last, state.last_us, state.last_error = witness(event), event.wall, error
        if attempt is not None:
            state.tps |= attempt.tps
        kept = attempt is not None and attempt.version < 2 and (attempt.at_commit or not state.raises)
        state.refused &= kept and error == OUT_OF_ORDER
        return self.arm(state)

    def missed(self, state: Attempts, name: str, obligation: Obligation) -> Emissions:
        since_us = max(obligation.since_us, state.since_us)
        if state.key not in state.core or not state.brokers <= state.core:
            return NOTHING
        if state.failed < self.LEAST or state.last_us < since_us + state.beta_us // 2:
            return NOTHING
        sentence = (
            f"{state.key} committed no transaction {self.within(state)}: {state.failed:,} in a row failed, the "
            f"last with {error_name(state.last_error)}"
        )
        if state.lacks_replicas:
            return self.excused("isr-away", state.key, sentence, obligation.by, state.last)
        if state.lacks_topic:
            return self.excused("removed-topic", state.key, sentence, obligation.by, state.last)
        if state.pushes.possible:
            return self.excused(LATE_PUSH_RULE, state.key, sentence, obligation.by, state.last)
        if state.lost.any and state.last_error == KafkaError.CONCURRENT_TRANSACTIONS:
            return self.excused(LOST_DECISIONS, state.key, sentence, obligation.by, state.last)
        known = state.known if state.is_known else ""
        return self.violated(state.key, sentence, obligation.by, state.last, known=known)
