"""AlterPartition: a leader asks for another ISR (``ReplicationControlManager.alterPartition``; KIP-497, 841, 903)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.controller.changes import Change
from actors.controller.controller_state import ControllerState
from actors.controller.elections import Election, ElectionRules, PartitionChangeBuilder
from actors.metadata.registrations import RECOVERED, RECOVERING, PartitionRegistration
from actors.node.errors import KafkaError
from krift.v1.controller import AlterPartitionRequest, AlterPartitionResponse

WITH_EPOCHS = 3
"""From this version on the members of the ISR come with the broker epochs the leader knows them by."""

Member = tuple[int, int]
"""Broker id, and its broker epoch as the leader knows it (-1 unknown)."""


def proposed_isr(data: AlterPartitionRequest.PartitionData, version: int) -> list[Member]:
    """The ISR a leader asks for."""
    if version >= WITH_EPOCHS:
        return [(member.broker_id, member.broker_epoch) for member in data.new_isr_with_epochs]
    return [(broker_id, -1) for broker_id in data.new_isr]


def validate(
    partition: PartitionRegistration | None,
    broker_id: int,
    data: AlterPartitionRequest.PartitionData,
    isr: list[Member],
    state: ControllerState,
    defects: Sequence[str] = (),
) -> KafkaError:
    """What stands against a proposal. The order of the checks is part of the protocol: a leader that is ahead of
    this controller must look for another one before anything is held against it."""
    if partition is None:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        return KafkaError.NOT_CONTROLLER
    if data.leader_epoch < partition.leader_epoch:
        return KafkaError.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return KafkaError.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch and "isr-without-version" not in defects:
        return KafkaError.INVALID_UPDATE_VERSION
    ids = [member for member, _ in isr]
    if len(set(ids)) != len(ids) or not set(ids) <= set(partition.replicas) or partition.leader not in ids:
        return KafkaError.INVALID_REQUEST
    if data.leader_recovery_state not in (RECOVERED, RECOVERING):
        return KafkaError.INVALID_REQUEST
    if data.leader_recovery_state == RECOVERING and (len(ids) > 1 or partition.leader_recovery_state == RECOVERED):
        return KafkaError.INVALID_REQUEST
    if "isr-of-former-lives" in defects:
        isr = [(member, -1) for member in ids]
    if "ineligible-while-others-are" in defects and any(broker.fenced for broker in state.brokers.values()):
        return KafkaError.INELIGIBLE_REPLICA
    if not all(state.is_eligible_for_isr(member, epoch) for member, epoch in isr):
        return KafkaError.INELIGIBLE_REPLICA
    return KafkaError.NONE


def alter_partition(
    request: AlterPartitionRequest,
    version: int,
    state: ControllerState,
    rules: ElectionRules,
) -> tuple[list[Change], AlterPartitionResponse]:
    """Validate each partition by itself: the changes of those that are in order, and the answer once these are
    committed. The caller has checked the broker epoch, which concerns the whole request."""
    changes: list[Change] = []
    response = AlterPartitionResponse()
    for topic_data in request.topics:
        topic = state.topics.get(topic_data.topic_id)
        answer = AlterPartitionResponse.TopicData(topic_id=topic_data.topic_id)
        response.topics.append(answer)
        for data in topic_data.partitions:
            result = AlterPartitionResponse.PartitionData(partition_index=data.partition_index)
            answer.partitions.append(result)
            if topic is None:
                result.error_code = KafkaError.UNKNOWN_TOPIC_ID
                continue
            partition = state.partition(topic.topic_id, data.partition_index)
            isr = proposed_isr(data, version)
            result.error_code = validate(partition, request.broker_id, data, isr, state, rules.defects)
            if partition is None or result.error_code:
                continue
            election: Election = "unclean" if rules.unclean_enabled(topic.name) else "online"
            builder = PartitionChangeBuilder(partition, rules, "alter-isr", election)
            builder.target_isr = [member for member, _ in isr]
            builder.target_recovery_state = data.leader_recovery_state
            change = builder.build()
            if change is not None:
                changes.append(msgspec.structs.replace(change, members=dict(isr)))
                partition = _after(partition, change)
            if partition.leader != request.broker_id or "change-made-and-refused" in rules.defects:
                result.error_code = KafkaError.NEW_LEADER_ELECTED
                continue
            _describe(result, partition)
    return changes, response


def _after(partition: PartitionRegistration, change: Change) -> PartitionRegistration:
    changed = change.record.partition_change
    return partition if changed is None else partition.merge(changed)


def _describe(result: AlterPartitionResponse.PartitionData, partition: PartitionRegistration) -> None:
    result.leader_id = partition.leader
    result.leader_epoch = partition.leader_epoch
    result.isr.extend(partition.isr)
    result.leader_recovery_state = partition.leader_recovery_state
    result.partition_epoch = partition.partition_epoch
