"""Requests of a transactional producer that wait for their turn, and how they travel."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.client.transactions.reactions import Kind
from actors.node.messages import AnyRequest, Api
from actors.node.spec import split_topic_partition, topic_partition
from actors.trace.group_events import Entry
from actors.versions import Ranges
from krift.v1.groups import FindCoordinatorRequest
from krift.v1.producer_ids import InitProducerIdRequest
from krift.v1.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnTopicPartitions,
)

PRIORITY: dict[Kind, int] = {
    "find-coordinator": 0,
    "init-producer-id": 1,
    "add-partitions": 2,
    "add-offsets": 2,
    "commit-offsets": 2,
    "end": 3,
    "raise-epoch": 4,
}
"""The lowest goes first: the end of a transaction after all that belongs to it, and before its epoch is raised."""

APIS: dict[Kind, Api] = {
    "find-coordinator": Api.FindCoordinator,
    "init-producer-id": Api.InitProducerId,
    "raise-epoch": Api.InitProducerId,
    "add-partitions": Api.AddPartitionsToTxn,
    "add-offsets": Api.AddOffsetsToTxn,
    "commit-offsets": Api.TxnOffsetCommit,
    "end": Api.EndTxn,
}

CLIENT_ADD_PARTITIONS_VERSION = 3
"""Of AddPartitionsToTxn the last one for clients."""
BEFORE_TRANSACTION_V2: dict[Api, int] = {Api.Produce: 11, Api.EndTxn: 4, Api.TxnOffsetCommit: 4}
"""Last version of an API that does not mean transaction.version 2."""


def knows_transaction_v2(ranges: Ranges) -> bool:
    """Whether a client that speaks these versions can go by transaction.version 2. An older one goes on as before,
    whatever the brokers have finalized."""
    return all(ranges[api.name][1] > last for api, last in BEFORE_TRANSACTION_V2.items())


_BATCH_VERSION = 4

CoordinatorType = Literal["", "group", "transaction"]
KEY_TYPES: dict[CoordinatorType, int] = {"group": 0, "transaction": 1}


class GroupMetadata(msgspec.Struct, frozen=True):
    """``ConsumerGroupMetadata``: the group that offsets are of, and who in it read up to them."""

    group: str
    generation: int = -1
    member: str = ""
    instance: str = ""


class TxnRequest(msgspec.Struct):
    """A request, as it was when it was made: whatever is tried again says the same.

    kind: what it asks for. coordinator: of what type it goes to, "" any broker; looked_up: of FindCoordinator, which
    type, and ``key`` for whom. producer_id, epoch: with which it is made. v2: under transaction.version 2. commit: of
    an end. tps: of add-partitions. group, offsets: of a consumer's positions. operation: of the application, that
    ends with it, "" none. again: it was tried before, and is preceded by a pause; paused: which is over. pause_ms: how
    long. undecided: some attempt may have been carried out.
    """

    kind: Kind
    coordinator: CoordinatorType = "transaction"
    looked_up: CoordinatorType = ""
    key: str = ""
    producer_id: int = -1
    epoch: int = -1
    v2: bool = False
    commit: bool = False
    tps: list[str] = []
    group: GroupMetadata | None = None
    offsets: dict[str, Entry] = {}
    operation: str = ""
    again: bool = False
    paused: bool = False
    pause_ms: int = 0
    undecided: bool = False
    sent: bool = False

    def version(self, negotiated: int) -> int:
        """In which it goes to a broker with which ``negotiated`` would be the highest."""
        api = APIS[self.kind]
        if api == Api.AddPartitionsToTxn:
            return min(negotiated, CLIENT_ADD_PARTITIONS_VERSION)
        if not self.v2 and api in BEFORE_TRANSACTION_V2:
            return min(negotiated, BEFORE_TRANSACTION_V2[api])
        return negotiated

    def speakable(self, version: int) -> bool:
        """Whether what it asks for can be said in a version."""
        if self.kind == "find-coordinator":
            return version >= 1 or self.looked_up == "group"
        return self.kind != "raise-epoch" or version >= 3

    def message(self, transactional_id: str, timeout_ms: int, version: int) -> AnyRequest:
        """What travels."""
        match self.kind:
            case "find-coordinator":
                return self._find_coordinator(version)
            case "init-producer-id" | "raise-epoch":
                init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
                if version >= 3:
                    init.producer_id, init.producer_epoch = self.producer_id, self.epoch
                return init
            case "add-partitions":
                added = AddPartitionsToTxnRequest(v3_and_below_transactional_id=transactional_id)
                added.v3_and_below_producer_id, added.v3_and_below_producer_epoch = self.producer_id, self.epoch
                for name, indexes in _by_topic(self.tps).items():
                    added.v3_and_below_topics.append(TxnTopicPartitions(name=name, partitions=indexes))
                return added
            case "add-offsets":
                assert self.group is not None
                return AddOffsetsToTxnRequest(
                    transactional_id=transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=self.group.group,
                )
            case "end":
                return EndTxnRequest(
                    transactional_id=transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    committed=self.commit,
                )
            case "commit-offsets":
                return self._commit_offsets(transactional_id, version)

    def _find_coordinator(self, version: int) -> FindCoordinatorRequest:
        request = FindCoordinatorRequest()
        if version >= _BATCH_VERSION:
            request.coordinator_keys.append(self.key)
        else:
            request.key = self.key
        if version >= 1:
            request.key_type = KEY_TYPES[self.looked_up]
        return request

    def _commit_offsets(self, transactional_id: str, version: int) -> TxnOffsetCommitRequest:
        assert self.group is not None
        request = TxnOffsetCommitRequest(transactional_id=transactional_id, group_id=self.group.group)
        request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        if version >= 3:
            request.generation_id, request.member_id = self.group.generation, self.group.member
            request.group_instance_id = self.group.instance or None
        for name, indexes in _by_topic(self.offsets).items():
            topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name)
            request.topics.append(topic)
            for index in indexes:
                offset, leader_epoch, _ = self.offsets[topic_partition(name, index)]
                part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=""
                )
                if version >= 2:
                    part.committed_leader_epoch = leader_epoch
                topic.partitions.append(part)
        return request


def _by_topic(tps: list[str] | dict[str, Entry]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for tp in tps:
        name, index = split_topic_partition(tp)
        found.setdefault(name, []).append(index)
    return found
