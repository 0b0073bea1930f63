"""C12: how long clients go on after errors that Kafka's clients take for passing ones."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.client.admin import DELETE_RECORDS
from actors.client.group_consumer import CLOSE_TIMEOUT_MS
from actors.features import FORMER_EPOCH
from actors.node.errors import KafkaError, error_name, traits
from actors.node.messages import Api
from actors.node.spec import partition_name, split_topic_partition
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    BeginInvoke,
    ClockSet,
    CommitInvoke,
    CommitReturn,
    CommittedReturn,
    EndReturn,
    ErrorSeen,
    InitReturn,
    MetaView,
    NodeDown,
    NodeUp,
    OpReturn,
    Rpc,
    SendInvoke,
    SendOffsetsReturn,
    SendReturn,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import OPEN_REMEMBERED, remember
from orchestrator.invariants.folds.pauses import EARLY_US
from orchestrator.invariants.folds.routes import NODE

E = KafkaError
_NAMES = {each.name: each for each in KafkaError}

TRANSACTIONAL: dict[type[OpReturn], str] = {
    InitReturn: "initTransactions",
    SendOffsetsReturn: "sendOffsetsToTransaction",
    EndReturn: "the end of its transaction",
}
"""Calls of a transactional producer that return, and their names for a sentence."""

ASKED_FOR_THEM = (
    Api.InitProducerId.name,
    Api.AddPartitionsToTxn.name,
    Api.AddOffsetsToTxn.name,
    Api.TxnOffsetCommit.name,
    Api.EndTxn.name,
)
"""What these calls ask coordinators."""


class Begun(msgspec.Struct, frozen=True):
    """An operation that has not returned. tp: name of the partition that a record is sent to, "" of others. lost: calls
    of the client that were not answered before."""

    at_us: int
    by: Witness
    tp: str = ""
    lost: int = 0


class Moving(msgspec.Struct, frozen=True):
    """A send that ended for a former topic, to begin for the one that has its name now."""

    uid: str
    begun: Begun | None
    refused: int
    by: Witness


class InStep(msgspec.Struct):
    """The step in which the last sends failed, and to which partitions: the first of each begins a batch."""

    cause: str = ""
    req: str = ""
    wall: int = -1
    seq: int = -1
    told: set[str] = set()

    def is_first(self, event: Stamped, tp: str) -> bool:
        """Whether a send to the partition is the first that fails in this step."""
        same = (event.cause, event.req) == (self.cause, self.req)
        if not same or (event.wall != self.wall and event.seq != self.seq + 1):
            self.told = set()
        self.cause, self.req, self.wall, self.seq = event.cause, event.req, event.wall, event.seq
        first = tp not in self.told
        self.told.add(tp)
        return first


class Patience(State):
    """Of a node. sends: by uid; calls: commits that an application waits for, and deletions of records, by operation.
    refused: first record of a batch -> how often it was refused so far; lost: how many Produce calls were not answered.
    failing: the step in which sends fail; failed: errors of the sends that have failed since the last transaction
    began. right_us: since when its clock has been right, -1 it is not. topic_ids: by
    name, as the node was told first; anew: names that topics have had which were created again, where it gives up for
    that what it asked of the former ones (``topics``)."""

    delivery_us: int = 0
    retries: int = 0
    api_us: int = 0
    early_us: int = EARLY_US
    topics: bool = False
    sends: dict[str, Begun] = {}
    calls: dict[str, Begun] = {}
    refused: dict[str, int] = {}
    lost: int = 0
    failing: InStep = msgspec.field(default_factory=InStep)
    failed: set[int] = set()
    moving: Moving | None = None
    right_us: int = 0
    topic_ids: dict[str, str] = {}
    anew: set[str] = set()

    def begin(self) -> None:
        """A node that starts has asked for nothing."""
        self.sends, self.calls, self.refused, self.moving = {}, {}, {}, None
        self.topic_ids, self.anew, self.failed = {}, set(), set()

    def judges(self, begun: Begun) -> bool:
        """Whether its clock has been right since."""
        return 0 <= self.right_us <= begun.at_us


class RetriableErrorsAreRetried(KeyedInvariant[Patience]):
    """Leaders and coordinators change all the time, and clients get over it by themselves. An application that is told
    of each change has to do that work itself, or takes for lost what only had to be asked again.

    Example: delivery.timeout.ms is 120 s, and after 200 ms a batch of producer-1 is refused with
    NOT_ENOUGH_REPLICAS: producer-1 sends it again, and does not return that error. The operations are sends,
    ``commitSync``, look-ups of committed positions, DeleteRecords, and the calls of transactional producers. A send
    ends with a retriable error once delivery.timeout.ms is over or its batch was sent again as often as retries
    allows, the first record of a batch being the oldest; a commit once default.api.timeout.ms is over, or the 30 s
    in which a consumer is closed, whichever is less; DeleteRecords once default.api.timeout.ms is over. A look-up
    of committed positions never does, nor a call of a transactional producer, except with the error of a send that
    has failed in its transaction. A send that ends because its topic was created anew begins again in the same
    step. With mend.former-epoch = topic-id a commit for a former topic is not tried again.
    """

    id = "C12"
    title = "A client gives up at a retriable error only when its time or its retries are used up"
    source = "KIP-91; KIP-266; Kafka's Sender.canRetry, ConsumerCoordinator.commitOffsetsSync, AdminApiDriver"
    tested_when = "a client meets a retriable error of one of these operations, or returns it"
    route = NODE
    types = (
        *(SendInvoke, SendReturn, CommitInvoke, CommitReturn, CommittedReturn, AdminInvoke, AdminReturn),
        BeginInvoke,
        *TRANSACTIONAL,
        *(ErrorSeen, Rpc, MetaView, NodeUp, NodeDown, ClockSet),
    )
    cases = {Rpc: (Api.Produce.name,)}
    unseen = (
        "time or retries that are used up too late: L7 and X11 judge them",
        "OUT_OF_ORDER_SEQUENCE_NUMBER and UNKNOWN_PRODUCER_ID, which are retriable for some batches alone",
        "batches that are given up in a step behind another one to their partition",
        "a batch behind parts of one that was too large, which may seem as old as they are",
        "retries of a batch that are not used up while calls with other batches were lost",
        "commits that nobody waits for, and those before a rebalance",
        "operations that were under way while a fault changed the speed of the clock",
        "other operations than these",
    )

    def initial(self, key: str, profile: Profile) -> Patience:
        def own(name: str) -> int:
            return profile.number(name, key)

        return Patience(
            key,
            delivery_us=1000 * own("delivery.timeout.ms"),
            retries=own("retries"),
            api_us=1000 * own("default.api.timeout.ms"),
            early_us=EARLY_US + profile.epsilon_us,
            topics=profile.feature(FORMER_EPOCH, key) == "topic-id",
        )

    def step(self, state: Patience, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        found: Emissions = NOTHING
        if state.moving is not None:
            moving, state.moving = state.moving, None
            if kind is SendInvoke and body.uid == moving.uid:
                return self._moved(state, moving)
            found = self._not_moved(state, event, moving)
        if isinstance(body, OpReturn):
            return [*found, *self._returned(state, event, body)]
        if kind is SendInvoke:
            begun = Begun(event.wall, witness(event), partition_name(body.tp), state.lost)
            remember(state.sends, body.uid, begun, OPEN_REMEMBERED)
        elif kind is CommitInvoke or kind is AdminInvoke:
            if body.how == "sync" if kind is CommitInvoke else body.call == DELETE_RECORDS:
                remember(state.calls, body.op, Begun(event.wall, witness(event)), OPEN_REMEMBERED)
        elif kind is BeginInvoke:
            state.failed = set()
        elif kind is ErrorSeen:
            self._met(state, body)
        elif kind is Rpc:
            state.lost += body.outcome != "answered"
        elif kind is MetaView:
            for topic, topic_id in body.topic_ids.items() if state.topics else ():
                if state.topic_ids.setdefault(topic, topic_id) != topic_id:
                    state.anew.add(topic)
        elif kind is ClockSet:
            state.right_us = -1 if body.rate_ppm else event.wall
        else:
            state.begin()
        return found

    def _met(self, state: Patience, body: ErrorSeen) -> None:
        """The client goes on after an error."""
        retriable = traits(body.error).retriable
        if body.api == Api.Produce.name and body.uid:
            state.tested += retriable
            if body.error == E.MESSAGE_TOO_LARGE:
                self._divided(state, body.uid)
            elif body.uid in state.sends:
                state.refused[body.uid] = state.refused.get(body.uid, 0) + 1
        elif body.api == Api.OffsetCommit.name:
            state.tested += retriable and bool(state.calls)
        elif body.api in (Api.OffsetFetch.name, Api.DeleteRecords.name, *ASKED_FOR_THEM):
            state.tested += retriable

    @staticmethod
    def _divided(state: Patience, uid: str) -> None:
        """A batch is sent in parts, which are as old as it is; how many records it had is not told."""
        state.refused.pop(uid, None)
        first = state.sends.get(uid)
        if first is None:
            return
        for other, begun in state.sends.items():
            if begun.tp == first.tp and begun.at_us > first.at_us:
                state.sends[other] = msgspec.structs.replace(begun, at_us=first.at_us)

    # ---- sends ------------------------------------------------------------------------------------------------

    @staticmethod
    def _moved(state: Patience, moving: Moving) -> Emissions:
        """The send goes on for the topic that has the name now, and is as old as before."""
        if moving.begun is not None:
            remember(state.sends, moving.uid, moving.begun, OPEN_REMEMBERED)
            if moving.refused:
                state.refused[moving.uid] = moving.refused
        return NOTHING

    def _not_moved(self, state: Patience, event: Stamped, moving: Moving) -> Emissions:
        if type(event.body) is NodeUp or type(event.body) is NodeDown:
            return NOTHING  # the node did not get so far
        sentence = (
            f"{state.key} ended the send of {moving.uid}, as if its topic had been created again, and did not begin it "
            f"for the new one"
        )
        return self.violated(state.key, sentence, moving.by, event)

    def _sent(self, state: Patience, event: Stamped, body: SendReturn) -> Emissions:
        begun = state.sends.pop(body.uid, None)
        refused = state.refused.pop(body.uid, 0)
        if body.outcome == "ok":
            return NOTHING
        state.failed.add(body.error)
        if body.error == E.UNKNOWN_TOPIC_ID and not body.broker:
            state.moving = Moving(body.uid, begun, refused, witness(event))
            return NOTHING
        first = state.failing.is_first(event, partition_name(body.tp))
        if begun is None or not first or not traits(body.error).retriable or not state.judges(begun):
            return NOTHING
        state.tested += 1
        age_us, lost = event.wall - begun.at_us, state.lost - begun.lost
        if age_us >= state.delivery_us - state.early_us or (body.broker and refused + lost >= state.retries):
            return NOTHING
        sentence = (
            f"{state.key} gave the send of {body.uid} to {body.tp} up with {error_name(body.error)} after "
            f"{age_us // 1000:,} ms and {refused + lost:,} failed tries at most, with delivery.timeout.ms = "
            f"{state.delivery_us // 1000:,} and retries = {state.retries:,}"
        )
        return self.violated(state.key, sentence, begun.by, event)

    # ---- other operations -------------------------------------------------------------------------------------

    def _ended(self, state: Patience, event: Stamped, body: OpReturn) -> Emissions:
        """A call of a transactional producer returns. It tries again without limit."""
        excused = type(body) is not InitReturn and body.error in state.failed
        if body.outcome == "ok" or excused or not traits(body.error).retriable:
            return NOTHING
        state.tested += 1
        sentence = f"{state.key} gave {TRANSACTIONAL[type(body)]} up with {error_name(body.error)}"
        return self.violated(state.key, sentence, event)

    def _returned(self, state: Patience, event: Stamped, body: Any) -> Emissions:
        kind = type(body)
        if kind is SendReturn:
            return self._sent(state, event, body)
        if kind in TRANSACTIONAL:
            return self._ended(state, event, body)
        if kind is CommittedReturn:
            if body.outcome != "fail" or body.error == E.UNKNOWN_TOPIC_OR_PARTITION or not traits(body.error).retriable:
                return NOTHING
            state.tested += 1
            sentence = (
                f"{state.key} gave up its look-up of what group {body.group} has committed with "
                f"{error_name(body.error)}"
            )
            return self.violated(state.key, sentence, event)
        begun = state.calls.pop(body.op, None)
        if kind is AdminReturn and body.call == DELETE_RECORDS:
            for tp, name in body.results.items():
                if traits(_NAMES.get(name, E.NONE)).retriable:
                    sentence = f"{state.key} did not delete records of {tp}, and gave up with {name}"
                    return self.violated(state.key, sentence, event)
        if body.outcome == "ok" or begun is None or not traits(body.error).retriable or not state.judges(begun):
            return NOTHING
        if kind is CommitReturn and any(split_topic_partition(tp)[0] in state.anew for tp in body.offsets):
            return NOTHING
        limit_us = min(state.api_us, 1000 * CLOSE_TIMEOUT_MS) if kind is CommitReturn else state.api_us
        state.tested += 1
        age_us = event.wall - begun.at_us
        if age_us >= limit_us - state.early_us:
            return NOTHING
        what = f"its commit in group {body.group}" if kind is CommitReturn else "a deletion of records"
        sentence = (
            f"{state.key} gave up {what} with {error_name(body.error)} after {age_us // 1000:,} ms, with "
            f"{limit_us // 1000:,} ms to try again"
        )
        return self.violated(state.key, sentence, begun.by, event)
