"""What coordinators refuse, with what they knew: ghost data, by which each refusal can be judged."""

from __future__ import annotations

from typing import Any

from actors.broker.coordinator_common.partitions import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, partition_for
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.trace.coordinator_events import CoordRefuse, Standing


def record_refusal_of_member(turn: Turn, api: Api, group_id: str, request: Any, error: KafkaError) -> None:
    """``request``: of whatever type, with the identity that it has of a member."""
    tp = partition_for(turn, GROUP_METADATA_TOPIC, group_id)
    shard = turn.groups.shards.get(tp)
    group = None if shard is None else shard.groups.get(group_id)
    member = getattr(request, "member_id", None) or ""  # an OffsetFetch may say that it has none
    instance = getattr(request, "group_instance_id", None) or ""
    joins = group is not None and api == Api.JoinGroup and member in group.pending_join and not instance
    turn.step.record(
        CoordRefuse(
            *(api.name, group_id, tp, error),
            *_standing(turn, tp, shard),
            member=member,
            instance=instance,
            generation=getattr(request, "generation_id", -1),
            state="" if group is None else group.state,
            had_generation=-1 if group is None else group.generation,
            size=0 if group is None else group.size,
            is_member=joins or (group is not None and member in group.members),
            holder="" if group is None else group.static_members.get(instance, ""),
        )
    )


def record_refusal_of_producer(
    turn: Turn, api: Api, transactional_id: str, producer: tuple[int, int], error: KafkaError
) -> None:
    """``producer``: id and epoch, as it says."""
    tp = partition_for(turn, TRANSACTION_STATE_TOPIC, transactional_id)
    shard = turn.transactions.shards.get(tp)
    known = None if shard is None else shard.transactions.get(transactional_id)
    turn.step.record(
        CoordRefuse(
            *(api.name, transactional_id, tp, error),
            *_standing(turn, tp, shard),
            producer_id=producer[0],
            producer_epoch=producer[1],
            state="" if known is None else known.state,
            had_id=-1 if known is None else known.producer_id,
            had_epoch=-1 if known is None else known.producer_epoch,
            pending=known is not None and known.pending is not None,
        )
    )


def _standing(turn: Turn, tp: str, shard: Any) -> tuple[Standing, bool]:
    partition = turn.replicas.partitions.get(tp)
    leads = partition is not None and partition.is_leader
    if shard is None:
        return "none", leads
    return "loading" if shard.loading else "loaded", leads
