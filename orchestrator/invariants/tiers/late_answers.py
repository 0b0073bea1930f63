"""R9: what is looked up in remote storage is told as if it had been found at once."""

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
    """How far the log of a broker could be read when it let a request wait: by clients, by those that read committed
    records alone, and by brokers. ``leads``: the leader epoch in which it led."""

    correlation_id: int
    leads: int
    high_watermark: int
    stable: int
    end: int
    by: Witness


class Asked(State):
    """Of one partition: connection -> what was so when its request began to wait."""

    limits: dict[str, Limits] = {}
    profile: Profile = Profile()


class LateAnswersKeepTheLimit(LogInvariant[Asked]):
    """While remote storage is asked, the log goes on: a limit that is read when the answer comes may be another
    leader's, and what KIP-207 refused at first looks settled.

    Example: list-offsets-1 asks broker-2 for a time, just after it was elected: its high watermark is 1,204, its epoch
    began at 1,310, and nothing below 1,204 is as late. The look-up finds offset 1,250. By then the high watermark is
    1,310, but the answer is OFFSET_NOT_AVAILABLE, as at the beginning; never an offset that is not committed.
    """

    id = "R9"
    title = "A late answer to ListOffsets keeps the limit and the refusal of when it was asked, and is below the end"
    source = "KIP-1075; KIP-207; Kafka's DelayedRemoteListOffsets.tryComplete (lastFetchableOffset, maybeOffsetsError)"
    tested_when = "a broker answers a ListOffsets that waited for remote storage, with an offset or with nothing"
    requires = (FEATURE,)
    types = (RpcPark, RpcReply)
    cases = {RpcReply: (LIST_OFFSETS,)}
    unseen = ("Whether an earlier record would have been right, or nothing would: H4 compares with the log.",)

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
            return f"with offset {told.offset:,} of {state.key}, of which it could read {limit:,} when it asked"
        lagging = limits.leads == told.leader_epoch and limits.high_watermark < told.leader_epoch_start
        if told.offset < 0 and lagging and body.replica_id == CLIENT and must_refuse(state.profile, state.key, node):
            return (
                f"that there is nothing in {state.key}, when its high watermark was {limits.high_watermark:,} and its "
                f"leader epoch had begun at {told.leader_epoch_start:,}"
            )
        return ""
