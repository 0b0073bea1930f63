"""What the trace is told of copied segments."""

from __future__ import annotations

from actors.broker.partition import Partition
from actors.broker.remote_log.lineage import is_within, with_records
from actors.broker.remote_log.segment_metadata import SegmentMetadata
from actors.broker.turn import Turn
from actors.trace.events import TierPhase as TierPhase, TierSegment


def record_segment(turn: Turn, partition: Partition, metadata: SegmentMetadata, phase: TierPhase) -> None:
    """What becomes of a segment at this broker, and what the log had then."""
    log = partition.log
    turn.step.record(
        TierSegment(
            partition.key,
            metadata.key,
            phase,
            metadata.state.name,
            metadata.start_offset,
            metadata.end_offset,
            {str(entry.epoch): entry.start_offset for entry in metadata.epochs},
            metadata.max_timestamp_ms,
            partition.leader_epoch,
            log.high_watermark,
            log.last_stable_offset,
            log.start_offset,
            is_within(metadata, log.end_offset, with_records(log.epochs.entries)),
            metadata.size_bytes,
        )
    )
