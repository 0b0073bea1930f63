"""What readers of committed transactions see: T6 and T7."""

from __future__ import annotations

from actors.node.isolation import READ_COMMITTED
from actors.node.list_timestamps import LATEST
from actors.trace.events import PollReturn, RpcReply, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOSS, read_in, way_of_loss
from orchestrator.invariants.mirrors.loss_budget import LossBudget, loss_budget


class Shown(State):
    """What disks may lose."""

    budget: LossBudget = LossBudget()


class CommittedAloneIsRead(LogInvariant[Shown]):
    """A read_committed consumer acts on the records that it gets. If their transaction is aborted, before or
    afterwards, it has acted on something that never happened.

    Example: the transaction of producer 7 has producer-1:57 at 41 of orders-0 and an abort marker at 44, and
    consumer-1, at read_committed, gets producer-1:57. Or consumer-1 gets it while there is no marker yet.
    """

    id = "T6"
    title = "A consumer at read_committed gets no record of a transaction that is open or aborted"
    source = "KIP-98; KAFKA-9807; KAFKA-5376; KAFKA-13727; Jepsen's kafka workload (G1a, precommitted-read)"
    tested_when = "a poll at read_committed returns records of a partition with transactions"
    of_transactions = True
    types = (PollReturn,)
    exemptions = LOSS
    unseen = (
        "records in a Fetch that the consumer does not deliver",
        "missing records of a committed transaction: C5 finds the gap, and L6 a consumer that stops",
    )

    def initial(self, key: str, profile: Profile) -> Shown:
        return Shown(key, budget=loss_budget(profile, key))

    def step(self, state: Shown, event: Stamped, mirror: LogMirror) -> Emissions:
        body, transactions = event.body, mirror.transactions
        assert type(body) is PollReturn
        if body.isolation != READ_COMMITTED or body.outcome != "ok" or not body.records:
            return NOTHING
        if not (transactions.any or transactions.markers):
            return NOTHING
        state.tested += 1
        for record in body.records:
            fate = transactions.fate(record.offset)
            if fate not in ("aborted", "open"):
                continue
            is_in = "an aborted transaction" if fate == "aborted" else "an open transaction"
            sentence = (
                f"{event.node} got {record.uid} at {record.offset:,} of {state.key}, but the record is in {is_in}"
            )
            if rule := way_of_loss(mirror, record.offset, state.budget, read_in(body, mirror)):
                return self.excused(rule, state.key, sentence, event)
            return self.violated(state.key, sentence, event)
        return NOTHING


class Stable(State):
    """``told``: broker/leader epoch -> the last stable offset that it told last, and by which answer."""

    told: dict[str, tuple[int, Witness]] = {}


class LastStableOffsetIsRight(LogInvariant[Stable]):
    """The last stable offset is the end of the partition for read_committed consumers. If it is too high, they get
    records of undecided transactions; if it is too low, or goes back, they wait for records that are there.

    Example: in the log of broker-1, whose high watermark is 50, a transaction is open from 41 on. It answers a request
    for the latest offset at read_committed with 50, or a consumer gets 45 from it. When the marker at 52 is below the
    high watermark, the next open transaction counts, or the high watermark itself.
    """

    id = "T7"
    title = "The last stable offset is the beginning of the oldest transaction whose marker is not replicated"
    source = "KIP-98; KAFKA-12153; Kafka's UnifiedLog.fetchLastStableOffsetMetadata"
    tested_when = "a leader returns the last stable offset, or a read_committed consumer gets records from it"
    of_transactions = True
    types = (RpcReply, PollReturn)
    cases = {RpcReply: ("ListOffsets",)}
    unseen = (
        "the last stable offset in a Fetch answer: consumers ignore it",
        "answers of a leader that has restarted, or was replaced, before they arrived",
    )
    REMEMBERED = 256

    def initial(self, key: str, profile: Profile) -> Stable:
        return Stable(key)

    def step(self, state: Stable, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is PollReturn:
            return self._read(state, event, body, mirror)
        assert type(body) is RpcReply
        if body.api != "ListOffsets" or body.isolation != READ_COMMITTED or body.replica_id != -1:
            return NOTHING
        replica = mirror.replica(event.node)
        for told in body.partitions:
            if told.tp != state.key or told.error or told.timestamp != LATEST or told.leader_epoch < 0:
                continue
            state.tested += 1
            leads = f"{event.node}/{told.leader_epoch}"
            before = state.told.get(leads)
            state.told[leads] = (told.offset, witness(event))
            if len(state.told) > self.REMEMBERED:
                del state.told[next(iter(state.told))]
            sentence = f"{event.node} returned {told.offset:,} as the last stable offset of {state.key}"
            if told.offset != replica.last_stable_offset:
                sentence += (
                    f"; the right one is {replica.last_stable_offset:,}: its log ends at {replica.log.end:,}, and its "
                    f"high watermark is {replica.high_watermark:,}"
                )
                return self.violated(state.key, sentence, event)
            if before is not None and told.offset < before[0]:
                sentence += f" after {before[0]:,} in the same leader epoch"
                return self.violated(state.key, sentence, before[1], event)
        return NOTHING

    def _read(self, state: Stable, event: Stamped, body: PollReturn, mirror: LogMirror) -> Emissions:
        if body.isolation != READ_COMMITTED or not body.records or body.leader_epoch < 0:
            return NOTHING
        replica = mirror.replicas.get(body.broker)
        if replica is None or replica.leads != body.leader_epoch or replica.away:
            return NOTHING
        state.tested += 1
        last, stable = body.records[-1].offset, replica.last_stable_offset
        if last < stable:
            return NOTHING
        sentence = (
            f"{event.node} got offset {last:,} of {state.key} at read_committed from {body.broker}, but the last "
            f"stable offset there was {stable:,} (high watermark {replica.high_watermark:,})"
        )
        return self.violated(state.key, sentence, event)
