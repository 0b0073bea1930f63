"""The transactions of a producer: states, and requests to coordinators, one at a time (``TransactionManager.java``,
``Sender.maybeSendAndPollTransactionalRequest``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from actors.client.least_loaded_node import LeastLoadedNode
from actors.client.metadata_cache import CONNECTION, MetadataCache
from actors.client.transactions.answers import added_partitions, coordinator_in, errors_of_offsets
from actors.client.transactions.reactions import FATAL_FOR_BATCHES, Reaction, reaction_to
from actors.client.transactions.requests import APIS, PRIORITY, GroupMetadata, TxnRequest, knows_transaction_v2
from actors.client.transactions.states import COMPLETING, ERRORS, SOURCES, State
from actors.node.errors import KafkaError, traits
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.spec import node_name
from actors.node.step import Step
from actors.trace.events import ErrorSeen
from actors.trace.group_events import Entry

PURPOSE = "transactions"
RETRY = "transactions/retry"
CHOICE = "transactions/node"

ADD_PARTITIONS_RETRY_MS = 20
"""Longest pause before the first partitions of a transaction are added again while the last one is being completed."""
TRANSACTION_VERSION = "transaction.version"

E = KafkaError
Operation = Literal["init", "commit", "abort", "offsets"]


class Identity(Protocol):
    """Whoever keeps the producer's id, its epoch, and its sequences. ``fatal``: code of the error after which it is of
    no use, 0 none."""

    producer_id: int
    epoch: int
    fatal: int

    def reset_sequences(self) -> None:
        """All partitions begin at 0 again."""


class Transaction(msgspec.Struct):
    """See the module. What the application asks for ends in ``results``: the operation, and the code of its error, 0 if
    it was done.

    id: transactional.id, "" of a producer without transactions. error: of the state. v2: transaction.version is 2
    or above, as the brokers' finalized features said last (``features_epoch``), and the client knows of it. started:
    the coordinator may know of the transaction. raise_epoch: it must be raised before the next one, by InitProducerId;
    can_raise: the coordinator could. new, pending, added: partitions to be added, being added, and that may be sent to.
    offsets: still to be committed. queue: what is to be asked; waiting: what is to be asked next, and waits for a
    connection or a pause; asked: what was, by ``call``. coordinators: broker by type. pending_operation: that has not
    ended. endless_aborts: ``mend.endless-aborts``.
    """

    id: str = ""
    timeout_ms: int = 60000
    backoff_ms: int = 100
    state: State = "UNINITIALIZED"
    error: int = 0
    v2: bool = False
    features_epoch: int = -1
    started: bool = False
    raise_epoch: bool = False
    can_raise: bool = False
    new: list[str] = []
    pending: list[str] = []
    added: list[str] = []
    offsets: dict[str, Entry] = {}
    queue: list[TxnRequest] = []
    waiting: TxnRequest | None = None
    pausing: bool = False
    asked: TxnRequest | None = None
    call: int = 0
    coordinators: dict[str, int] = {}
    node: LeastLoadedNode = msgspec.field(default_factory=lambda: LeastLoadedNode(CHOICE, CONNECTION))
    pending_operation: str = ""
    end_sent: bool = False
    end_undecided: bool = False
    end_unanswered: int = 0
    results: dict[str, int] = {}
    endless_aborts: str = "kafka"

    @property
    def completing(self) -> bool:
        """Whether it is being ended: nothing lingers."""
        return self.state in COMPLETING

    @property
    def failed(self) -> bool:
        """Whether the application is told of an error at its next call."""
        return self.state in ERRORS

    # ---- what the application asks for --------------------------------------------------------------------

    def begin_init(self, identity: Identity) -> None:
        """``initTransactions``."""
        self._go_to("INITIALIZING")
        self.pending_operation = "init"
        self._enqueue(TxnRequest("init-producer-id", operation="init"))

    def initialized(self, net: NetworkClient) -> None:
        """``initTransactions`` returns."""
        self._look_at_features(net, at_first=True)

    def begin(self) -> None:
        """``beginTransaction``."""
        self._go_to("IN_TRANSACTION")
        self.end_sent, self.end_undecided, self.end_unanswered = False, False, 0

    def add_partition(self, tp: str) -> None:
        """``send`` (``maybeAddPartition``): the partition is part of the transaction. Under transaction.version 2 its
        leader sees to that; before, the coordinator is asked first."""
        assert self.state == "IN_TRANSACTION", f"cannot add {tp} in state {self.state}"
        if self.v2:
            if tp not in self.added:
                self.added.append(tp)
            self.started = True
        elif tp not in self.added and tp not in self.pending and tp not in self.new:
            self.new.append(tp)

    def send_offsets(self, identity: Identity, offsets: dict[str, Entry], group: GroupMetadata) -> None:
        """``sendOffsetsToTransaction``."""
        assert self.state == "IN_TRANSACTION", f"cannot send offsets in state {self.state}"
        if self.v2:
            self.started = True
            self._commit_offsets(identity, offsets, group)
        else:
            self._enqueue(
                TxnRequest(
                    "add-offsets",
                    producer_id=identity.producer_id,
                    epoch=identity.epoch,
                    group=group,
                    offsets=dict(offsets),
                    operation="offsets",
                )
            )

    def begin_end(self, identity: Identity, net: NetworkClient, commit: bool) -> None:
        """``beginCommit``, ``beginAbort``."""
        operation: Operation = "commit" if commit else "abort"
        self._go_to("COMMITTING_TRANSACTION" if commit else "ABORTING_TRANSACTION")
        self.end_sent, self.end_undecided, self.end_unanswered = False, False, 0
        self.results.pop("offsets", None)
        if not commit:
            self.new = []
        if self.new:
            self._add_partitions(identity)
        # The transaction is ended as it was begun, whatever the brokers say of the next one.
        end = TxnRequest("end", producer_id=identity.producer_id, epoch=identity.epoch, v2=self.v2, commit=commit)
        self._look_at_features(net, at_first=False)
        self._enqueue(end)
        self.pending_operation = operation
        if self.raise_epoch:
            raised = TxnRequest("raise-epoch", producer_id=identity.producer_id, epoch=identity.epoch)
            raised.operation = operation
            self._enqueue(raised)
        else:
            end.operation = operation

    def _look_at_features(self, net: NetworkClient, at_first: bool) -> None:
        """``maybeUpdateTransactionV2Enabled``. Who goes over to transaction.version 2 needs another epoch than its last
        transaction without: a leader must not take its partitions for added."""
        if self.features_epoch >= net.features_epoch:
            return
        self.features_epoch = net.features_epoch
        finalized = net.finalized_features.get(TRANSACTION_VERSION, 0)
        before, self.v2 = self.v2, finalized >= 2 and knows_transaction_v2(net.ranges)
        if not at_first and self.v2 and not before:
            self.raise_epoch = True

    # ---- states -------------------------------------------------------------------------------------------

    def _go_to(self, target: State, error: int = 0) -> None:
        assert self.state in SOURCES[target], f"{self.state} -> {target}"
        assert (target in ERRORS) == bool(error), f"{target} with error {error}"
        if error and traits(error).retriable:
            # No retry is left: the application is told that it must abort.
            error = E.TRANSACTION_ABORTABLE
        self.state, self.error = target, error

    def go_to_abortable(self, error: int) -> None:
        """The application must abort; if it is about to, nothing changes."""
        if self.state != "ABORTING_TRANSACTION":
            self._go_to("ABORTABLE_ERROR", error)

    def go_to_fatal(self, identity: Identity, error: int) -> None:
        """The producer is of no use any more."""
        self._go_to("FATAL_ERROR", error)
        identity.fatal = self.error
        if self.asked is not None and self.asked.kind == "end":
            self.end_undecided = True
        requests = [*self.queue, *(each for each in (self.waiting, self.asked) if each is not None)]
        operations = [self.pending_operation, *(each.operation for each in requests)]
        for operation in operations:
            self._fail(operation, self.error)
        self.queue, self.waiting, self.asked, self.call = [], None, None, 0

    def abortable_if_possible(self, identity: Identity, error: int) -> None:
        """Abortable where the epoch can be raised after it, which transaction.version 2 always does."""
        if not self.can_raise and not self.v2:
            self.go_to_fatal(identity, error)
            return
        self._need_epoch()
        self.go_to_abortable(error)

    def _need_epoch(self) -> None:
        if self.can_raise and not self.v2:
            self.raise_epoch = True

    def on_batch_failed(self, identity: Identity, error: int) -> None:
        """A batch failed for good (``maybeTransitionToErrorState``)."""
        if error in FATAL_FOR_BATCHES:
            self.go_to_fatal(identity, error)
        elif self.state != "FATAL_ERROR":
            mended = self.endless_aborts == "raise-epoch" and self.state == "COMMITTING_TRANSACTION"
            if mended or not self.completing:
                self._need_epoch()
            # That the transaction is over says no more than that it must be aborted.
            self.go_to_abortable(E.TRANSACTION_ABORTABLE if error == E.INVALID_TXN_STATE else error)

    def _complete_transaction(self) -> None:
        self._go_to("INITIALIZING" if self.raise_epoch else "READY")
        self.raise_epoch = self.started = False
        self.new, self.pending, self.added = [], [], []

    def _done(self, operation: str) -> None:
        if operation:
            self.results.setdefault(operation, 0)
            if operation == self.pending_operation:
                self.pending_operation = ""

    def _fail(self, operation: str, error: int) -> None:
        if operation:
            self.results.setdefault(operation, error)
            if operation == self.pending_operation:
                self.pending_operation = ""

    # ---- requests -----------------------------------------------------------------------------------------

    def _enqueue(self, request: TxnRequest) -> None:
        at = len(self.queue)
        while at and PRIORITY[self.queue[at - 1].kind] > PRIORITY[request.kind]:
            at -= 1
        self.queue.insert(at, request)

    def _again(self, request: TxnRequest, pause_ms: int = 0) -> None:
        request.again, request.paused = True, False
        request.pause_ms = pause_ms or self.backoff_ms
        self._enqueue(request)

    def _add_partitions(self, identity: Identity) -> None:
        self.pending += self.new
        self.new = []
        adding = TxnRequest("add-partitions", producer_id=identity.producer_id, epoch=identity.epoch)
        adding.tps = list(self.pending)
        self._enqueue(adding)

    def _commit_offsets(self, identity: Identity, offsets: Mapping[str, Entry], group: GroupMetadata) -> None:
        self.offsets |= offsets
        request = TxnRequest("commit-offsets", "group", producer_id=identity.producer_id, epoch=identity.epoch)
        request.v2, request.group, request.offsets = self.v2, group, dict(self.offsets)
        request.operation = "offsets"
        self._enqueue(request)

    def _look_up(self, request: TxnRequest) -> TxnRequest:
        """Who coordinates what a request is about is to be found anew."""
        self.coordinators.pop(request.coordinator, None)
        key = self.id
        if request.coordinator == "group":
            assert request.group is not None
            key = request.group.group
        lookup = TxnRequest("find-coordinator", "", request.coordinator, key)
        self._enqueue(lookup)
        return lookup

    def take_next(self, identity: Identity, incomplete: bool) -> bool:
        """Decide what is asked next (``nextRequest``): False if that is nothing, or waits for batches that are
        ``incomplete``."""
        if self.new:
            self._add_partitions(identity)
        while self.queue and not (self.queue[0].kind == "end" and incomplete):
            request = self.queue.pop(0)
            if self.failed and not (self.state == "ABORTABLE_ERROR" and request.kind == "find-coordinator"):
                self._fail(request.operation, self.error)
                continue
            if request.kind == "end" and not self.started:
                # The coordinator knows nothing of it.
                self._done(request.operation)
                self._complete_transaction()
                continue
            self.waiting = request
            return True
        return False

    def send(
        self, step: Step, net: NetworkClient, metadata: MetadataCache, identity: Identity, connection: str, room: int
    ) -> bool:
        """Ask for what waits, at its coordinator or anywhere; False while it waits for a connection or a pause. At most
        ``room`` calls may be under way on a connection."""
        request = self.waiting
        assert request is not None
        if self.pausing:
            return False
        if request.coordinator:
            peer = self._coordinator(step, net, request, connection)
            if not peer or self.waiting is None:
                return self.waiting is None
            if net.pending(peer, connection) >= room:
                return False
        else:
            connection = CONNECTION
            found = self.node.ready(step, net, metadata.brokers or metadata.bootstrap)
            if found is None:
                return False
            peer = found
        if request.again and not request.paused:
            self.pausing = True
            step.set_timer(RETRY, request.pause_ms)
            return False
        self.node.release()
        self._ask(step, net, identity, request, peer, connection)
        return True

    def _coordinator(self, step: Step, net: NetworkClient, request: TxnRequest, connection: str) -> str:
        """The broker to ask, "" while there is no connection to it; or it is looked for first. Kafka goes on looking at
        once where it cannot be reached; here that rests for the back-off."""
        broker = self.coordinators.get(request.coordinator)
        peer = "" if broker is None else node_name(broker)
        if peer and net.usable(peer, connection):
            if not net.ready(step, peer, connection):
                return ""
            if request.coordinator == "transaction":
                version = net.version(peer, connection, Api.InitProducerId)
                self.can_raise = version is not None and version >= 3
            return peer
        lookup = self._look_up(request)
        if peer:
            lookup.again, lookup.pause_ms = True, self.backoff_ms
        self.waiting = None
        self._again(request, request.pause_ms)
        return ""

    def _ask(
        self, step: Step, net: NetworkClient, identity: Identity, request: TxnRequest, peer: str, connection: str
    ) -> None:
        self.waiting = None
        negotiated = net.version(peer, connection, APIS[request.kind])
        version = -1 if negotiated is None else request.version(negotiated)
        if version < 0 or not request.speakable(version):
            self._fail(request.operation, E.UNSUPPORTED_VERSION)
            self.go_to_fatal(identity, E.UNSUPPORTED_VERSION)
            return
        message = request.message(self.id, self.timeout_ms, version)
        request.sent = True
        if request.kind == "end":
            self.end_sent = True
        self.asked = request
        self.call = net.send(step, peer, connection, message, version, PURPOSE)

    def on_retry(self) -> None:
        """The pause before a request is tried again is over."""
        self.pausing = False
        if self.waiting is not None:
            self.waiting.paused = True

    # ---- answers ------------------------------------------------------------------------------------------

    def on_ended(self, step: Step, identity: Identity, ended: Ended) -> None:
        """Take the end of a request."""
        if ended.call != self.call or self.asked is None:
            return  # of a producer that was closed, or is of no use
        request, self.asked, self.call = self.asked, None, 0
        if ended.response is None:
            step.record(ErrorSeen("", APIS[request.kind].name, ended.version, E.NETWORK_EXCEPTION, ended.peer))
            self._doubt(request, E.NETWORK_EXCEPTION)
            self.end_unanswered += request.kind == "end"
            if request.coordinator:
                self._look_up(request)
            self._again(request)
            return
        match request.kind:
            case "find-coordinator":
                error, broker = coordinator_in(ended.response)
            case "add-partitions":
                self._on_added(step, identity, request, ended)
                return
            case "commit-offsets":
                self._on_offsets(step, identity, request, ended)
                return
            case _:
                error, broker = ended.response.error_code, -1
        if error:
            step.record(ErrorSeen("", APIS[request.kind].name, ended.version, error, ended.peer))
            self._doubt(request, error)
            reaction = reaction_to(request.kind, error, step.defects)
            if request.kind == "end" and not request.commit and reaction == "abortable":
                reaction = "fatal"  # to abort again would lead nowhere
            self._react(identity, request, error, reaction)
            return
        match request.kind:
            case "find-coordinator":
                self.coordinators[request.looked_up] = broker
            case "init-producer-id" | "raise-epoch":
                identity.producer_id, identity.epoch = ended.response.producer_id, ended.response.producer_epoch
                self._go_to("READY")
                if request.kind == "raise-epoch":
                    identity.reset_sequences()
            case "add-offsets":
                assert request.group is not None
                self.started = True
                self._commit_offsets(identity, request.offsets, request.group)
                return
            case "end":
                self._on_end(step, identity, ended)
        self._done(request.operation)

    def _on_end(self, step: Step, identity: Identity, ended: Ended) -> None:
        """It is ended. From version 5 on the answer has the id and the epoch to go on with (KIP-890)."""
        if ended.response.producer_id >= 0 and "next-epoch-not-taken" not in step.defects:
            identity.producer_id, identity.epoch = ended.response.producer_id, ended.response.producer_epoch
            identity.reset_sequences()
        self._complete_transaction()

    def _doubt(self, request: TxnRequest, error: int) -> None:
        """Note whether an attempt to end the transaction may have been carried out though it failed: a coordinator that
        lost its log while it wrote says that it is none."""
        lost = (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR)
        if request.kind == "end" and (error in lost or not traits(error).definite):
            self.end_undecided = True

    def _on_added(self, step: Step, identity: Identity, request: TxnRequest, ended: Ended) -> None:
        """Partitions are added all or none."""
        answers = added_partitions(ended.response)
        refused = 0
        for tp, error in answers.items():
            if not error:
                continue
            step.record(ErrorSeen(tp, Api.AddPartitionsToTxn.name, ended.version, error, ended.peer))
            reaction = reaction_to(request.kind, error, step.defects)
            if reaction != "skip":
                first = error == E.CONCURRENT_TRANSACTIONS and not self.added
                self._react(identity, request, error, reaction, first)
                return
            refused = refused if refused and refused != E.OPERATION_NOT_ATTEMPTED else error
        self.pending = [tp for tp in self.pending if tp not in answers]
        if refused:
            self.go_to_abortable(refused)
            return
        self.added += [tp for tp in answers if tp not in self.added]
        self.started = True

    def _on_offsets(self, step: Step, identity: Identity, request: TxnRequest, ended: Ended) -> None:
        """Positions are committed each for itself; what is left is tried again."""
        looked_up = False
        for tp, error in errors_of_offsets(ended.response).items():
            if not error:
                self.offsets.pop(tp, None)
                continue
            step.record(ErrorSeen(tp, Api.TxnOffsetCommit.name, ended.version, error, ended.peer))
            reaction = reaction_to(request.kind, error, step.defects)
            if reaction == "look-up":
                if not looked_up:
                    self._look_up(request)
                looked_up = True
            elif reaction != "retry":
                self.offsets = {}
                self._react(identity, request, error, reaction)
                return
        if self.offsets:
            self._again(request)
        else:
            self._done(request.operation)

    def _react(
        self, identity: Identity, request: TxnRequest, error: int, reaction: Reaction, soon: bool = False
    ) -> None:
        match reaction:
            case "look-up":
                self._look_up(request)
                self._again(request)
            case "retry":
                self._again(request, min(self.backoff_ms, ADD_PARTITIONS_RETRY_MS) if soon else self.backoff_ms)
            case "abortable" | "skip":
                self._fail(request.operation, error)
                self.go_to_abortable(error)
            case "abortable-if-possible":
                self._fail(request.operation, error)
                self.abortable_if_possible(identity, error)
            case "fatal" | "fenced":
                code = int(E.PRODUCER_FENCED) if reaction == "fenced" else error
                self._fail(request.operation, code)
                self.go_to_fatal(identity, code)
