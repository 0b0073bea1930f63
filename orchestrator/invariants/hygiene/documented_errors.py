"""X1: which errors Kafka's servers may answer with, and what must have been the case for some of them."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError, error_name
from actors.node.messages import APIS
from actors.node.spec import REMOTE_STORE
from actors.trace.events import (
    CoordRefuse,
    FetchMisfit,
    FetchRefused,
    FetchTold,
    LogAppend,
    LogLocalStart,
    LogStart,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartRemove,
    QRefuse,
    QRole,
    RemoteFetchEnd,
    ReplyPartition,
    Rpc,
    RpcReply,
    Stamped,
    TierTask,
    TxnGuard,
    TxnLoad,
    TxnState,
    TxnVerify,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import OPEN_REMEMBERED, remember
from orchestrator.invariants.folds.routes import NODE
from orchestrator.invariants.hygiene.coordinator_errors import Producers, without_reason
from orchestrator.invariants.mirrors.log_mirror import ANEW
from orchestrator.invariants.mirrors.producer_state import SEQUENCE_ERRORS, ProducerLog

E = KafkaError

_ANY = frozenset({E.UNSUPPORTED_VERSION, E.INVALID_REQUEST})
"""Of an API that the registry lacks."""
_COORDINATOR_TROUBLE = frozenset(
    {
        E.NETWORK_EXCEPTION,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.CONCURRENT_TRANSACTIONS,
    }
)
"""Of which a leader tells a producer as NOT_ENOUGH_REPLICAS (``ReplicaManager.handleProduceAppend``); the last one
before ``transaction.version`` 2 alone."""
_EPOCH = frozenset({E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH})

DOCUMENTED: dict[str, frozenset[KafkaError]] = {
    api.name: frozenset(KafkaError[name] for name in spec.errors) for api, spec in APIS.items()
}
"""API -> errors that its answers may carry, in whichever version knows them (X7 looks at versions)."""

OF_READS = {"ListOffsets": E.UNKNOWN_SERVER_ERROR, "Fetch": E.UNKNOWN_SERVER_ERROR}
"""API -> error for which Kafka has no code, of a read from remote storage that was rejected, or that failed. It is no
error of the API: the server must have had such a read."""


class FailedReads(msgspec.Struct):
    """Of one Fetch. ``errors``: what must be told (``_error_of``) -> the event by which a read from remote storage was
    rejected, or ended in this error; ``untold``: those that were not told yet."""

    correlation_id: int
    errors: dict[str, Witness] = {}
    untold: set[str] = set()


class Server(State):
    """One node. ``leads``: partition -> by which event it took up its leadership; ``producers``: partition -> what its
    log has of idempotent producers; ``ends``: partition -> where its log ends; ``unverified``: partition -> how many
    batches may be refused as it was in trouble with the coordinator of their transactions; ``failed_reads``:
    "connection partition" -> the event by which a look-up in remote storage was rejected, or ended in an error;
    ``failed_fetches``: connection -> the reads of its Fetch that came to such an end; ``store_answered``: the last call
    to the remote store that was answered without an error, and the step in which that was: its cause and request;
    ``removed``: partitions of which the topic was removed; ``quorum``: the epoch of the quorum in which its process is,
    -1 not told, and by which event; ``max_size``: how many members its groups may have; ``given``: the epochs that it
    gave as a coordinator of transactions."""

    leads: dict[str, Witness] = {}
    producers: dict[str, ProducerLog] = {}
    ends: dict[str, int] = {}
    unverified: dict[str, int] = {}
    failed_reads: dict[str, Witness] = {}
    failed_fetches: dict[str, FailedReads] = {}
    store_answered: tuple[str, str, Witness] | None = None
    removed: dict[str, bool] = {}
    quorum: tuple[int, Witness | None] = (-1, None)
    max_size: int = 0
    given: Producers = msgspec.field(default_factory=Producers)

    def failed_of(self, body: FetchTold | FetchRefused | RemoteFetchEnd | TierTask) -> FailedReads | None:
        """What came to such an end of the Fetch that an event is about."""
        failed = self.failed_fetches.get(body.connection)
        return failed if failed is not None and failed.correlation_id == body.correlation_id else None

    def log(self, tp: str) -> ProducerLog:
        """What its log of a partition has of producers; an empty one at first."""
        found = self.producers.get(tp)
        if found is None:
            found = self.producers[tp] = ProducerLog()
        return found


class OnlyDocumentedErrors(KeyedInvariant[Server]):
    """Clients are written for the errors that an API documents. Any other error ends their work, or makes them react
    wrongly.

    Example: broker-2 answers Produce with UNKNOWN_SERVER_ERROR, which means an internal bug; or it answers
    NOT_LEADER_OR_FOLLOWER for orders-0, which it has led for a minute; or OUT_OF_ORDER_SEQUENCE_NUMBER for exactly the
    next sequence number. Or broker-3, which does not coordinate app-1, answers its EndTxn with
    INVALID_PRODUCER_ID_MAPPING in place of NOT_COORDINATOR, and the transaction is given up. Or controller-2, in quorum
    epoch 7, refuses a Fetch of epoch 6 with UNKNOWN_LEADER_EPOCH, as if its own epoch were the older one: who fetches
    waits, and does not look for the leader. Or broker-1 tells a static member UNKNOWN_MEMBER_ID whose instance id
    another one has by now, in place of FENCED_INSTANCE_ID: it joins again, and the two put each other out for ever.
    Or broker-2 gives a producer its next epoch, the answer is lost, and broker-2 fences it when it asks again.

    A consumer that is not told why it gets no records believes that there are none. Example: the queue of the reader
    threads of broker-2 is full, and a read from remote storage is rejected. The answer to the Fetch must have
    UNKNOWN_SERVER_ERROR for that partition. A read must not fail, either, at an answer of the store that has what was
    asked for.

    Who fetches in a session is told of what that session has, and nothing else. Example: broker-3 does not follow
    broker-1 for orders-0 any more, and its next Fetch says so; the one after that is answered about orders-0 as well.
    Broker-3 can use nothing of that answer, and asks for everything again.
    """

    id = "X1"
    title = (
        "Servers answer only with errors that the API documents, and with each error only for its reasons; a Fetch is "
        "told of a failed read from remote storage, and of nothing outside its session; no read fails without cause"
    )
    source = "Kafka's protocol guide; redpanda-data/chaos log checks"
    tested_when = (
        "the server or the caller records an answer with an error, or that fits no fetch session, or answers a Fetch "
        "of which a read had failed"
    )
    route = NODE
    types = (
        *(Rpc, RpcReply, PartAssume, LogAppend, LogTrunc, LogStart, LogLocalStart, NodeUp, NodeDown),
        *(TxnGuard, TxnVerify, TierTask, FetchTold, FetchRefused, RemoteFetchEnd, CoordRefuse, QRole, QRefuse),
        *(FetchMisfit, TxnState, TxnLoad),
    )
    unseen = (
        (
            "reasons of errors in answers to other APIs than Produce, ListOffsets and those of coordinators, but for "
            "failed reads of a Fetch and the epochs of the quorum's requests"
        ),
        "COORDINATOR_NOT_AVAILABLE, and refusals of a group's protocol: their reasons are not in the trace",
        "errors that end a JoinGroup or SyncGroup which waits for the others",
        "reasons of timeouts, of unknown topics, and of refusals for a batch's size or timestamps",
        "a producer with wrong sequence numbers: its leader refuses them rightly (T2 judges the first number)",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (PartRemove,)

    def initial(self, key: str, profile: Profile) -> Server:
        return Server(key, max_size=profile.number("group.max.size", key))

    def hear(self, state: Server, event: Stamped) -> Emissions:
        assert isinstance(event.body, PartRemove)
        remember(state.removed, event.body.tp, True, OPEN_REMEMBERED)
        return NOTHING

    def step(self, state: Server, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is Rpc:
            if body.dst == REMOTE_STORE:
                well = body.outcome == "answered" and not body.errors
                state.store_answered = (event.cause, event.req, witness(event)) if well else None
            if body.errors and body.outcome == "answered":
                state.tested += 1
                return self._documented(state, event, body.api, body.dst, body.errors)
            return NOTHING
        if type(body) is LogAppend:
            state.ends[body.tp] = body.last + 1
            if body.producer_id >= 0 and not body.control and body.base_sequence >= 0:
                state.log(body.tp).append(event, body)
            elif body.producer_id >= 0 and body.marker:
                state.log(body.tp).append_marker(body)
            if body.transactional or body.marker:
                state.log(body.tp).end_verification(body)
        elif type(body) is RpcReply:
            return self._answered(state, event, body)
        elif type(body) is TierTask:
            if body.phase == "reject" or (body.phase == "finish" and body.error):
                self._failed(state, event, body)
                return self._fails(state, event, body)
        elif type(body) is CoordRefuse:
            return self._refused(state, event, body)
        elif type(body) is FetchMisfit:
            return self._misfit(state, event, body)
        elif isinstance(body, TxnState | TxnLoad):
            state.given.take(event, body)
        elif type(body) is QRole:
            state.quorum = (body.epoch, witness(event))
        elif type(body) is QRefuse:
            return self._refused_for_epoch(state, event, body)
        elif type(body) is FetchTold:
            return self._fetched(state, event, body)
        elif type(body) is FetchRefused:
            if state.failed_of(body) is not None:
                del state.failed_fetches[body.connection]
        elif type(body) is RemoteFetchEnd:
            return self._fetch_ended(state, event, body)
        elif type(body) is PartAssume:
            if body.role == "leader":
                state.leads[body.tp] = witness(event)
            else:
                state.leads.pop(body.tp, None)
        elif type(body) is TxnVerify:
            busy = body.adds and body.error == E.CONCURRENT_TRANSACTIONS
            if body.error in _COORDINATOR_TROUBLE and not busy:
                state.unverified[body.tp] = state.unverified.get(body.tp, 0) + 1
        elif type(body) is TxnGuard:
            state.log(body.tp).verify(body)
        elif type(body) is LogStart:
            # A leader's log that starts where this one ends takes no producers away.
            behind_all = body.reason == "out-of-range" and body.new == state.ends.get(body.tp, 0)
            if body.reason in ANEW and not behind_all:
                state.log(body.tp).begin_anew(body.new)
        elif type(body) is LogLocalStart:
            if body.reason == "remote":
                state.log(body.tp).begin_behind_unknown(body.new)
        elif type(body) is LogTrunc:
            state.ends[body.tp] = body.to
            if (cut := state.producers.get(body.tp)) is not None:
                cut.cut(body.to, body.leader_epoch)
        else:
            assert isinstance(body, NodeUp | NodeDown)
            self._begins_anew(state, body)
        return NOTHING

    @staticmethod
    def _begins_anew(state: Server, body: NodeUp | NodeDown) -> None:
        state.quorum = (-1, None)
        state.given = Producers()
        state.leads.clear()
        state.unverified.clear()
        state.failed_reads.clear()
        state.failed_fetches.clear()
        for log in state.producers.values():
            log.verifying.clear()
        for tp, first in body.lost.items() if type(body) is NodeDown else ():
            state.ends[tp] = first
            if (cut := state.producers.get(tp)) is not None:
                cut.cut(first)

    # ---- judging ------------------------------------------------------------------------------------------

    def _documented(self, state: Server, event: Stamped, api: str, server: str, errors: list[int]) -> Emissions:
        allowed = DOCUMENTED.get(api, _ANY)
        for error in errors:
            if error and error not in allowed and error != OF_READS.get(api):
                sentence = f"{server} answered {api} with {error_name(error)}, which that API does not document"
                return self.violated(state.key, sentence, event)
        return NOTHING

    def _failed(self, state: Server, event: Stamped, body: TierTask) -> None:
        if body.kind == "list-offsets":
            state.failed_reads[f"{body.connection} {body.tp}"] = witness(event)
            return
        failed = state.failed_of(body)
        if failed is None:
            failed = FailedReads(body.correlation_id)
            remember(state.failed_fetches, body.connection, failed, OPEN_REMEMBERED)
        # Kafka has no code for a RejectedExecutionException.
        what = _error_of(body.tp, body.error if body.phase == "finish" else E.UNKNOWN_SERVER_ERROR)
        failed.errors[what] = witness(event)
        failed.untold.add(what)

    def _fails(self, state: Server, event: Stamped, body: TierTask) -> Emissions:
        """A read ends without a result. Kafka has no code for what the remote store did not do; if its last answer, in
        this step, is what was asked for, something else is wrong."""
        if body.phase != "finish" or body.error != E.UNKNOWN_SERVER_ERROR:
            return NOTHING
        state.tested += 1
        last = state.store_answered
        if last is None or last[:2] != (event.cause, event.req) or body.tp in state.removed:
            return NOTHING
        sentence = (
            f"{event.node} gave the read {body.task} of {body.tp} from remote storage up with "
            f"{error_name(body.error)}, although the store had answered without an error"
        )
        return self.violated(state.key, sentence, last[2], event)

    def _fetched(self, state: Server, event: Stamped, body: FetchTold) -> Emissions:
        failed = state.failed_of(body)
        what = _error_of(body.tp, body.error)
        if failed is not None and what in failed.errors:
            failed.untold.discard(what)
            return NOTHING
        if body.error != E.UNKNOWN_SERVER_ERROR:
            return NOTHING
        sentence = (
            f"{event.node} answered a Fetch of {body.tp} at {body.offset:,} with {error_name(body.error)}, although no "
            "read from remote storage had failed for it"
        )
        return self.violated(state.key, sentence, event)

    def _fetch_ended(self, state: Server, event: Stamped, body: RemoteFetchEnd) -> Emissions:
        """A Fetch was answered: each of its reads that failed was told."""
        failed = state.failed_of(body)
        if failed is None:
            return NOTHING
        del state.failed_fetches[body.connection]
        state.tested += 1
        for what in sorted(failed.untold):
            sentence = (
                f"{event.node} answered the Fetch of {body.connection.partition('>')[0]} without {what}, whose read "
                "from remote storage had failed"
            )
            return self.violated(state.key, sentence, failed.errors[what], event)
        return NOTHING

    def _misfit(self, state: Server, event: Stamped, body: FetchMisfit) -> Emissions:
        """An answer fits no session. Nothing excuses that: there is one Fetch at a time in a session, so that both
        sides know what it has; a broker that does not know, or knows another epoch, refuses the Fetch as a whole."""
        state.tested += 1
        begins = body.session_epoch == 0
        where = "that was to begin a session" if begins else f"of epoch {body.session_epoch} in its fetch session"
        unasked = f" about {', '.join(body.unasked)}, which it does not ask for" if body.unasked else ""
        unasked += " any more" if unasked and not begins else ""
        missing = f" without {', '.join(body.missing)}" if body.missing else ""
        how = f"{unasked}{missing}" or " about a partition more than once"
        sentence = f"{body.peer} answered the Fetch of {event.node} {where}{how}"
        return self.violated(state.key, sentence, event)

    def _refused(self, state: Server, event: Stamped, body: CoordRefuse) -> Emissions:
        state.tested += 1
        why, by = without_reason(body, state.max_size), None
        if not why:
            why, by = state.given.repeated(body)
        if not why:
            return NOTHING
        asked = f" by {body.member}" if body.member else ""
        if body.generation >= 0:
            asked += f" in generation {body.generation}"
        if body.producer_id >= 0:
            asked = f" for producer id {body.producer_id}, epoch {body.producer_epoch}"
        sentence = f"{event.node} answered {body.api} of {body.name}{asked} with {error_name(body.error)} {why}"
        return self.violated(state.key, sentence, by, event)

    def _refused_for_epoch(self, state: Server, event: Stamped, body: QRefuse) -> Emissions:
        epoch, by = state.quorum
        if epoch < 0:
            return NOTHING
        state.tested += 1
        right = E.FENCED_LEADER_EPOCH if body.asked < epoch else E.UNKNOWN_LEADER_EPOCH
        if body.error == right and body.asked != epoch:
            return NOTHING
        sentence = (
            f"{event.node} refused {body.api} in quorum epoch {body.asked} with {error_name(body.error)}, although it "
            f"was in quorum epoch {epoch} itself"
        )
        return self.violated(state.key, sentence, by, event)

    def _answered(self, state: Server, event: Stamped, body: RpcReply) -> Emissions:
        wrong = [told for told in body.partitions if told.error]
        if not wrong:
            return NOTHING
        state.tested += 1
        found = self._documented(state, event, body.api, event.node, [told.error for told in wrong])
        for told in wrong:
            if found:
                break
            found = self._with_cause(state, event, body, told)
        return found

    def _with_cause(self, state: Server, event: Stamped, body: RpcReply, told: ReplyPartition) -> Emissions:
        by: Witness | None = None
        why = ""
        if told.error == E.NOT_LEADER_OR_FOLLOWER and told.leader_epoch_start >= 0:
            by = state.leads.get(told.tp)
            why = f"although it led leader epoch {told.leader_epoch}"
        elif told.error in _EPOCH and told.asked_epoch >= 0 and told.leader_epoch >= 0:
            older = told.asked_epoch < told.leader_epoch
            if older != (told.error == E.FENCED_LEADER_EPOCH) or told.asked_epoch == told.leader_epoch:
                why = (
                    f"although the request named leader epoch {told.asked_epoch} and the broker knew "
                    f"{told.leader_epoch}"
                )
        elif told.error == E.UNKNOWN_SERVER_ERROR:
            if state.failed_reads.pop(f"{body.connection} {told.tp}", None) is None:
                why = "although no read from remote storage had failed for it"
        elif told.error in SEQUENCE_ERRORS:
            why = state.producers.get(told.tp, ProducerLog()).wrongly_refused(told)
        elif told.error in (E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND) and told.min_isr:
            in_sync = told.committed_isr if told.error == E.NOT_ENOUGH_REPLICAS else told.isr
            unverified = state.unverified.get(told.tp, 0) if told.error == E.NOT_ENOUGH_REPLICAS else 0
            if unverified:
                state.unverified[told.tp] = unverified - 1
            elif in_sync >= told.min_isr:
                why = f"although {in_sync} replicas were in sync, and {told.min_isr} are enough"
        if not why:
            return NOTHING
        sentence = f"{event.node} answered {body.api} for {told.tp} with {error_name(told.error)} {why}"
        return self.violated(state.key, sentence, by, event)


def _error_of(tp: str, error: int) -> str:
    return f"{error_name(error)} for {tp}"
