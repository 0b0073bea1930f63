"""What moves of brokers are called, and what comes of them, as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.metadata.registrations import PartitionRegistration
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, AnyResponse, api_of
from actors.node.spec import node_name, topic_partition
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.transactions import AddPartitionsToTxnRequest, WriteTxnMarkersRequest, WriteTxnMarkersResponse
from orchestrator.exploration.broker_facts import BrokerFacts, Kept, Logged, Marked
from orchestrator.exploration.place import Input
from orchestrator.exploration.wire import Move

ASKS = {
    "init": "a producer begins (InitProducerId)",
    "commit": "the producer commits (EndTxn)",
    "another": "another producer with its transactional id begins (InitProducerId)",
}


class TransactionWords:
    """See ``cluster.Words``."""

    def moved(self, move: Move, name: str) -> str:
        """News of the metadata log, a request of a producer, an election."""
        about: tuple[Any, ...] = move.about
        if move.kind == "learn":
            return f"{name} learns what the controller has published"
        if move.kind == "ask":
            asked = str(about[0])
            return f"{ASKS.get(asked) or f'the producer writes to orders-{asked[-1]}'} at {name}"
        change, leader = about
        assert isinstance(change, PartitionRegistration)
        return f"the controller elects {node_name(leader)} for {change.tp}, leader epoch {change.leader_epoch + 1}"

    def restarted(self, name: str, event: Input) -> str:
        """It is back at once."""
        return f"{name} crashes and comes back; others lead what it led, if they are in the ISR"

    def asked(self, request: AnyRequest) -> str:
        """A request."""
        if isinstance(request, FetchRequest):
            wanted = [
                f"{topic.topic_id.removeprefix('id-')}-{each.partition} from {each.fetch_offset} "
                f"in epoch {each.current_leader_epoch}"
                for topic in request.topics
                for each in topic.partitions
            ]
            return f"Fetch ({', '.join(wanted)})"
        if isinstance(request, WriteTxnMarkersRequest):
            return f"WriteTxnMarkers ({', '.join(_marker(each) for each in request.markers)})"
        if isinstance(request, AddPartitionsToTxnRequest):
            return "AddPartitionsToTxn"
        return api_of(request).name

    def said(self, response: AnyResponse) -> str:
        """A response."""
        if isinstance(response, FetchResponse):
            return ", ".join(_fetched(topic, each) for topic in response.responses for each in topic.partitions)
        if isinstance(response, WriteTxnMarkersResponse):
            told = {
                topic_partition(topic.name, each.partition_index): KafkaError(each.error_code).name
                for marker in response.markers
                for topic in marker.topics
                for each in topic.partitions
            }
            return ", ".join(f"{tp} {error}" for tp, error in told.items())
        return "answered"

    def changes(self, before: BrokerFacts, after: BrokerFacts) -> Iterator[str]:
        """What a step has made of a broker."""
        had = dict(before.replicas)
        for tp, replica in after.replicas:
            was = had.get(tp)
            if was is None or (was.leads, was.leader_epoch) != (replica.leads, replica.leader_epoch):
                yield f"{'leads' if replica.leads else 'follows'} {tp} in epoch {replica.leader_epoch}"
            if was is not None and len(replica.log) < len(was.log):
                yield f"{tp} cut to {replica.log[-1].entry[0] if replica.log else 0}"
            for logged in replica.log if was is None else replica.log[len(was.log) :]:
                yield f"{tp} {_log(logged)}"
            if was is not None and replica.high_watermark != was.high_watermark:
                yield f"{tp} high watermark {replica.high_watermark}"
        coordinated = dict(before.ids)
        for name, each in after.ids:
            known = coordinated.get(name)
            if known is None or (known.state, known.producer_epoch) != (each.state, each.producer_epoch):
                yield f"has {name} in {each.state}, producer epoch {each.producer_epoch}"


def _log(logged: Logged) -> str:
    offset, epoch = logged.entry[0] - 1, logged.entry[1]
    match logged.said:
        case Marked(_, producer_epoch, commits, coordinator):
            epochs = f"producer epoch {producer_epoch}, coordinator epoch {coordinator}"
            what = f"{'commit' if commits else 'abort'} marker ({epochs})"
        case Kept(name, state, _, producer_epoch, _):
            what = f"{name} {state} (producer epoch {producer_epoch})"
        case _:
            what = "a record"
    return f"{offset}@{epoch} {what}"


def _marker(marker: WriteTxnMarkersRequest.WritableTxnMarker) -> str:
    told = [topic_partition(topic.name, index) for topic in marker.topics for index in topic.partitions]
    kind = "commit" if marker.transaction_result else "abort"
    epochs = f"producer epoch {marker.producer_epoch}, coordinator epoch {marker.coordinator_epoch}"
    return f"{kind} to {', '.join(told)}, {epochs}"


def _fetched(topic: FetchResponse.FetchableTopicResponse, data: FetchResponse.PartitionData) -> str:
    tp = topic_partition(topic.topic_id.removeprefix("id-"), data.partition_index)
    if data.error_code:
        return f"{tp} {KafkaError(data.error_code).name}"
    if data.diverging_epoch is not None:
        return f"{tp} diverges from epoch {data.diverging_epoch.epoch}, which ends at {data.diverging_epoch.end_offset}"
    held = ", ".join(f"{each.base_offset}@{each.partition_leader_epoch}" for each in data.records)
    return f"{tp} {held or 'no records'}, high watermark {data.high_watermark}"
