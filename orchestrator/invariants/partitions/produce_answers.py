"""That a leader does not sit on an answer which it could give."""

from __future__ import annotations

import msgspec

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import ACKS_ALL, LogAppend, LogHw, PartAssume, PartStop, RpcReply, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import CONNECTIONS_REMEMBERED, remember
from orchestrator.invariants.folds.routes import PARTITION

LEADER = "leader"


class Moment(msgspec.Struct, frozen=True):
    """A step of a node, by one of its events. ``step``: what its events have in common, and those of two seldom."""

    by: Witness
    wall_us: int
    step: tuple[str, str]


class Waiting(msgspec.Struct):
    """What one Produce has appended. end: the offset behind it; batches: how many of them there are. appended: when
    that was; decided: when the high watermark passed it, or the broker lost the leadership, or the partition (lost),
    None before."""

    end: int
    batches: int
    appended: Moment
    decided: Moment | None = None
    lost: str = ""


class Produces(State):
    """``waiting``: by connection, on which there is one request at a time."""

    waiting: dict[str, Waiting] = {}


class ProducesAreAnsweredAtOnce(KeyedInvariant[Produces]):
    """A leader that misses the moment at which it can answer a produce may not get another one soon: without further
    records its high watermark does not move, and the producer waits until its timeout for records that were written
    long ago. A leader that is replaced will never commit them, and its producer has to ask the next one.

    Example: offsets 40 and 41 of orders-0 came from two producers with acks=all. The high watermark moves to 42.
    Broker-1 answers the first one at once, and the second one only with the next record, or at its timeout. Or broker-1
    begins to follow broker-2 while offset 42 waits, and answers that with NOT_LEADER_OR_FOLLOWER only at the timeout.
    Or the topic is deleted, and the producer hears that it does not exist only then.
    """

    id = "P24"
    title = (
        "A leader answers acks=1 once it has appended, and acks=all once the high watermark has passed the records or "
        "it has lost the leadership, or the partition"
    )
    source = "Kafka's ReplicaManager.appendRecords, stopPartitions; DelayedProduce.tryComplete; KAFKA-10301"
    tested_when = "a leader answers a Produce for one partition whose append is in the trace"
    unseen = (
        "a Produce for several partitions, which waits for the slowest",
        "a batch that is sent again and was appended before",
        "a Produce that has waited for a free request handler",
        "waiting fetches: their arrival is not in the trace",
    )
    route = PARTITION
    types = (LogAppend, LogHw, RpcReply, PartAssume, PartStop)
    cases = {LogHw: (LEADER,), RpcReply: ("Produce",)}

    def initial(self, key: str, profile: Profile) -> Produces:
        return Produces(key)

    def step(self, state: Produces, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is RpcReply:
            return self._answered(state, event, body)
        if type(body) is LogHw:
            for each in state.waiting.values():
                if each.decided is None and each.appended.by.node == event.node and body.new >= each.end:
                    each.decided = _moment(event)
            return NOTHING
        if type(body) is PartAssume:
            if body.role != LEADER:
                self._loses(state, event, "leadership")
            return NOTHING
        if type(body) is PartStop:
            self._loses(state, event, "partition")
            return NOTHING
        assert type(body) is LogAppend
        connection = event.req.partition("#")[0]
        if body.role != LEADER or not connection or body.tp == METADATA_PARTITION:
            return NOTHING
        known = state.waiting.pop(connection, None)
        moment = _moment(event)
        batches = known.batches + 1 if known is not None and known.appended.step == moment.step else 1
        remember(state.waiting, connection, Waiting(body.last + 1, batches, moment), CONNECTIONS_REMEMBERED)
        return NOTHING

    def _loses(self, state: Produces, event: Stamped, what: str) -> None:
        """A broker follows, or waits for a leader, or stops its replica: what this process had appended is not its to
        commit any more."""
        for each in state.waiting.values():
            by = each.appended.by
            if each.decided is None and (by.node, by.incarnation) == (event.node, event.incarnation):
                each.decided, each.lost = _moment(event), what

    def _answered(self, state: Produces, event: Stamped, body: RpcReply) -> Emissions:
        waited = state.waiting.pop(body.connection, None)
        if waited is None or waited.appended.by.node != event.node or waited.batches > 1 or len(body.partitions) > 1:
            return NOTHING
        since = waited.decided if body.acks == ACKS_ALL else waited.appended
        if since is None:
            return NOTHING
        state.tested += 1
        if since.step == _moment(event).step:
            return NOTHING
        acks, what = "1", "it had appended it"
        if body.acks == ACKS_ALL:
            acks, what = "all", f"it had lost the {waited.lost}" if waited.lost else "the high watermark had passed it"
        late_ms = (event.wall - since.wall_us) / 1000
        return self.violated(
            state.key,
            f"{event.node} answered the Produce of {body.src} with acks={acks} for the batch that ends at "
            f"{waited.end:,} of {state.key} {late_ms:,.0f} ms after {what}",
            since.by,
            event,
        )


def _moment(event: Stamped) -> Moment:
    return Moment(witness(event), event.wall, (event.cause, event.req))
