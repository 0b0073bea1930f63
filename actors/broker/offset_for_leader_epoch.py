"""Serving OffsetForLeaderEpoch: where a leader epoch ends in this leader's log
(``ReplicaManager.lastOffsetForLeaderEpoch``, ``Partition.lastOffsetForLeaderEpoch``)."""

from __future__ import annotations

from actors.broker.partition import find_partition
from actors.broker.turn import Turn
from actors.node.messages import check_fields
from actors.node.spec import topic_partition
from actors.trace.events import EpochTold
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

REPLICA_ID = 3
"""Version from which on the request says who asks."""


def offset_for_leader_epoch(turn: Turn, connection: str, request: OffsetForLeaderEpochRequest) -> None:
    """Answer each partition by itself: (largest epoch at or below the one asked for, its exclusive end), or an error.

    Only the leader answers. An epoch that the log cannot place is answered with epoch and offset -1, and no error.
    """
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(answers)
        for asked in topic.partitions:
            data = OffsetForLeaderEpochResponse.EpochEndOffset(partition=asked.partition)
            answers.partitions.append(data)
            partition, error = find_partition(turn, topic_partition(topic.topic, asked.partition))
            if partition is not None:
                unfenced = "epoch-ends-unfenced" in turn.step.defects
                asked_epoch = -1 if unfenced else asked.current_leader_epoch
                error = partition.check_epoch(asked_epoch, leader_only=not unfenced)
            if partition is None or error:
                data.error_code = int(error)
            else:
                data.leader_epoch, data.end_offset = partition.log.epoch_end_offset(asked.leader_epoch)
                if "epoch-ends-at-log-end" in turn.step.defects and data.end_offset >= 0:
                    data.end_offset = partition.log.end_offset
                turn.step.record(
                    EpochTold(
                        partition.key,
                        request.replica_id if request.header.api_version >= REPLICA_ID else -1,
                        partition.leader_epoch,
                        asked.current_leader_epoch,
                        asked.leader_epoch,
                        data.leader_epoch,
                        data.end_offset,
                    )
                )
    check_fields(response, request.header.api_version)
    turn.step.reply(connection, response)
