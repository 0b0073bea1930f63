"""R9: a look-up in remote storage is answered as if it had ended at once."""

from __future__ import annotations

import msgspec

from actors.node.isolation import READ_COMMITTED
from actors.trace.events import ReplyPartition, RpcPark, RpcReply, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.offsets.list_offsets import must_refuse
from orchestrator.invariants.tiers.parked import FEATURE, LIST_OFFSETS, REMEMBERED

CLIENT = -1


class Limits(msgspec.Struct, frozen=True):
    """The limits of a broker's log when it let a request wait: the high watermark for clients, the last stable offset
    for clients at read_committed, and the log end for brokers. ``leads``: the leader epoch in which it led."""

    correlation_id: int
    leads: int
    high_watermark: int
    stable: int
    end: int
    by: Witness


class Asked(State):
    """Of one partition: connection -> the limits when its request began to wait."""

    limits: dict[str, Limits] = {}
    profile: Profile = Profile()


class LateAnswersKeepTheLimit(LogInvariant[Asked]):
    """The log changes while a broker waits for remote storage. Limits that the broker reads only when the result
    arrives may belong to another leader epoch, and a look-up that KIP-207 refused at first would be answered.

    Example: list-offsets-1 looks a timestamp up at broker-2, which was elected a moment ago: its high watermark is
    1,204, its leader epoch began at 1,310, and no record below 1,204 is as late. The look-up finds offset 1,250. By
    then the high watermark is 1,310. The answer must still be OFFSET_NOT_AVAILABLE, as at the beginning, and never an
    offset that was not committed then.
    """

    id = "R9"
    title = "A ListOffsets that waited for remote storage is answered by the limits of the log at its arrival"
    source = "KIP-1075; KIP-207; Kafka's DelayedRemoteListOffsets.tryComplete (lastFetchableOffset, maybeOffsetsError)"
    tested_when = "a broker answers a ListOffsets that waited for remote storage, without an error"
    requires = (FEATURE,)
    types = (RpcPark, RpcReply)
    cases = {RpcReply: (LIST_OFFSETS,)}
    unseen = ("Whether an earlier record, or no record, would have been right: H4 compares the answer with the log.",)

    def initial(self, key: str, profile: Profile) -> Asked:
        return Asked(key, profile=profile)

    def step(self, state: Asked, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is RpcPark:
            if state.key in body.tps:
                replica = mirror.replica(event.node)
                state.limits[body.connection] = Limits(
                    body.correlation_id,
                    replica.leads,
                    replica.high_watermark,
                    replica.last_stable_offset,
                    replica.log.end,
                    witness(event),
                )
                if len(state.limits) > REMEMBERED:
                    del state.limits[next(iter(state.limits))]
            return NOTHING
        if type(body) is not RpcReply or body.api != LIST_OFFSETS:
            return NOTHING
        limits = state.limits.pop(body.connection, None)
        if limits is None or limits.correlation_id != body.correlation_id:
            return NOTHING
        for told in body.partitions:
            if told.tp == state.key and not told.error:
                state.tested += 1
                if wrong := self._wrong(state, event.node, body, limits, told):
                    return self.violated(state.key, f"{event.node} answered {body.src} {wrong}", limits.by, event)
        return NOTHING

    def _wrong(self, state: Asked, node: str, body: RpcReply, limits: Limits, told: ReplyPartition) -> str:
        limit = limits.end
        if body.replica_id == CLIENT:
            limit = limits.stable if body.isolation == READ_COMMITTED else limits.high_watermark
        if told.offset >= limit:
            return (
                f"with offset {told.offset:,} of {state.key}, but clients might see only offsets below {limit:,} when "
                "the request arrived"
            )
        lagging = limits.leads == told.leader_epoch and limits.high_watermark < told.leader_epoch_start
        if told.offset < 0 and lagging and body.replica_id == CLIENT and must_refuse(state.profile, state.key, node):
            return (
                f"that {state.key} has no such record, but its high watermark was {limits.high_watermark:,}, below the "
                f"start of its leader epoch, {told.leader_epoch_start:,}, when the request arrived"
            )
        return ""
