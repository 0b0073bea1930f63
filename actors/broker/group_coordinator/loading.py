"""Taking up and giving up an offsets partition (``CoordinatorRuntime``: scheduleLoadOperation, scheduleUnloadOperation;
``CoordinatorLoaderImpl``; ``GroupMetadataManager``: onLoaded, onUnloaded)."""

from __future__ import annotations

from actors.broker.coordinator_common.partitions import GROUP_METADATA_TOPIC
from actors.broker.group_coordinator import expiration, records, writes
from actors.broker.group_coordinator.answers import answer_join, answer_sync
from actors.broker.group_coordinator.group import ClassicGroup
from actors.broker.group_coordinator.group_state import DEAD, PREPARING_REBALANCE
from actors.broker.group_coordinator.offset_commit import simple_group
from actors.broker.group_coordinator.rebalance import cancel_timers, prepare_rebalance, reschedule_heartbeat
from actors.broker.group_coordinator.records import CoordinatorRecord
from actors.broker.group_coordinator.shard import Shard
from actors.broker.group_coordinator.tracing import record_loaded, transition
from actors.broker.partition import Partition
from actors.broker.turn import Turn
from actors.log.batch import Batch
from actors.log.control_records import ControlRecordType, marker_of
from actors.node.errors import KafkaError
from actors.trace.events import GrpLoad
from krift.v1.groups import GroupMetadataValue, JoinGroupResponse, SyncGroupResponse

LOAD = "groups/load/"
NO_PRODUCER_ID = -1


def on_leadership(turn: Turn, partition: Partition) -> None:
    """This broker won or lost the leadership of a partition, or leads in another epoch."""
    if partition.topic != GROUP_METADATA_TOPIC:
        return
    shards = turn.groups.shards
    shard = shards.get(partition.tp)
    if not partition.serves:
        if shard is not None and "coordinates-as-follower" not in turn.step.defects:
            _unload(turn, shard)
    elif shard is None:
        shards[partition.tp] = Shard(partition.tp, partition.leader_epoch)
        turn.step.set_timer(f"{LOAD}{partition.tp}", turn.settings.groups.load_ms)
    else:
        # Elected again in place: what is known stays, and what waits goes on waiting.
        shard.epoch = partition.leader_epoch


def load(turn: Turn, shard: Shard) -> None:
    """Read the log, up to its end; what lies above the high watermark is not told to anybody before it is committed."""
    log = turn.replicas.partitions[shard.tp].log
    for batch in log.batches[: -1 if "load-ends-early" in turn.step.defects else None]:
        if batch.is_control:
            _replay_marker(shard, batch)
            continue
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        if "open-offsets-loaded-as-committed" in turn.step.defects:
            producer_id = NO_PRODUCER_ID
        for index, record in enumerate(batch.records):
            _replay(shard, batch.base_offset + index, records.decode(record), producer_id)
    shard.written = log.end_offset
    shard.offsets.advance(log.high_watermark)
    shard.loading = False
    if "generations-begin-anew" in turn.step.defects:
        for known in shard.groups.values():
            known.generation = 0
    if "instances-lost-at-load" in turn.step.defects:
        for known in shard.groups.values():
            known.static_members = {}
            for member in known.members.values():
                member.group_instance_id = None
    record_loaded(turn, shard)
    for group in list(shard.groups.values()):
        for member in [] if "loaded-members-unwatched" in turn.step.defects else group.members.values():
            quarter_ms = member.session_timeout_ms // 4 if "loaded-session-short" in turn.step.defects else None
            reschedule_heartbeat(turn, group, member, quarter_ms)
        if len(group.members) > turn.settings.groups.max_size:
            prepare_rebalance(turn, shard, group, "freshly-loaded group is over capacity")
    expiration.schedule(turn, shard)


def _replay_marker(shard: Shard, batch: Batch) -> None:
    marker = marker_of(batch.records)
    if marker is not None:
        commits = marker.type == ControlRecordType.COMMIT
        shard.offsets.end_transaction(batch.producer_id, commits, batch.base_offset)


def _replay(shard: Shard, offset: int, record: CoordinatorRecord, producer_id: int) -> None:
    writes.replay_offset(shard, offset, record, producer_id)
    group_key, offset_key = record.key.group_metadata, record.key.offset_commit
    if offset_key is not None and record.value is not None and offset_key.group not in shard.groups:
        shard.groups[offset_key.group] = simple_group(offset_key.group, offset + 1)
    if group_key is None:
        return
    if isinstance(record.value, GroupMetadataValue):
        known = shard.groups.get(group_key.group)
        seen_at = offset + 1 if known is None else known.seen_at
        shard.groups[group_key.group] = records.group_of(group_key.group, record.value, seen_at)
    else:
        shard.groups.pop(group_key.group, None)


def on_partitions_deleted(turn: Turn, removed: dict[str, list[str]]) -> None:
    """Topics were removed: nothing is committed for their partitions any more, in the partitions that are read by now
    (``GroupCoordinatorService.onMetadataUpdate``). ``removed``: partition -> ids of topics that it was of."""
    for tp in removed:
        shard, partition = turn.groups.shards.get(tp), turn.replicas.partitions.get(tp)
        now = turn.image.partitions.get(tp)
        key = "" if now is None else turn.image.key(now, turn.settings.cluster)
        if shard is not None and partition is not None and key != partition.key:
            _unload(turn, shard)
    for shard in list(turn.groups.shards.values()) if removed else []:
        if not shard.loading:
            expiration.forget_partitions(turn, shard, removed)


def _unload(turn: Turn, shard: Shard) -> None:
    """Somebody else coordinates: whoever waits is told so, and nothing is remembered. What waits for the high watermark
    is looked at next, as everything that waits for the partition (``purgatory.wake_all``)."""
    del turn.groups.shards[shard.tp]
    turn.step.cancel_timer(f"{LOAD}{shard.tp}")
    turn.step.cancel_timer(f"{expiration.EXPIRE}{shard.tp}")
    waiting = {
        connection: member.member_id
        for group in shard.groups.values()
        for member in group.members.values()
        for connection in (member.awaiting_join, member.awaiting_sync)
        if connection
    }
    for group in shard.groups.values():
        _give_up(turn, shard, group)
    end = turn.replicas.partitions[shard.tp].log.end_offset
    left = [member_id for connection, member_id in waiting.items() if connection in turn.purgatory.parked]
    turn.step.record(GrpLoad(shard.tp, shard.epoch, False, end, waiting=left))


def _give_up(turn: Turn, shard: Shard, group: ClassicGroup) -> None:
    cancel_timers(turn, group)
    transition(turn, shard, group, DEAD, "its coordinator resigned")
    if "resigns-silently" in turn.step.defects:
        return
    for member in group.members.values():
        if group.previous_state == PREPARING_REBALANCE:
            response = JoinGroupResponse(error_code=KafkaError.NOT_COORDINATOR, member_id=member.member_id)
            answer_join(turn, member, response)
        else:
            answer_join(turn, member, JoinGroupResponse(error_code=KafkaError.NOT_COORDINATOR))
            answer_sync(turn, member, SyncGroupResponse(error_code=KafkaError.NOT_COORDINATOR))
