"""What both rings of the live benchmark send, and the sans-IO node of Krift's ring."""

from __future__ import annotations

import msgspec

from actors.node.contract import Node
from actors.node.effects import AnyEffect
from actors.node.events import Answered, AnyEvent, Failed, Invoked, Received, Started
from actors.node.messages import Api
from actors.node.spec import ClusterSpec, NodeSpec, Role
from actors.node.step import Step
from actors.trace.events import ReplyPartition, Rpc, RpcReply
from krift.v1.produce import ProduceRequest, ProduceResponse
from krift.v1.records import Record, RecordBatch

WINDOW = 5
"""Requests in flight per connection: Kafka's max.in.flight.requests.per.connection."""

VALUE = bytes(100)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
TIMEOUT_MS = 30_000
VERSION = 13


def request(client: str, number: int) -> ProduceRequest:
    """A Produce of one record, as Krift's producers send it."""
    record = Record(timestamp_ms=1, uid=f"{client}/0/{number}", key=b"key", value=VALUE)
    batch = RecordBatch(producer_id=1, producer_epoch=0, base_sequence=number, records=[record])
    made = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS)
    header = made.header
    header.api_key, header.api_version = int(Api.Produce), VERSION
    header.client_id, header.correlation_id = client, number
    data = ProduceRequest.PartitionProduceData(index=0, records=batch)
    made.topic_data.append(ProduceRequest.TopicProduceData(topic_id=TOPIC_ID, partition_data=[data]))
    return made


def response(offset: int) -> ProduceResponse:
    """Its answer."""
    data = ProduceResponse.PartitionProduceResponse(
        index=0, base_offset=offset, log_append_time_ms=1, log_start_offset=0
    )
    topic = ProduceResponse.TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[data])
    return ProduceResponse(responses=[topic])


class RingNode(msgspec.Struct):
    """From "begin" to "end" keeps WINDOW requests in flight to the node named in its workload; answers what it is
    asked itself. "end" is complete, with the count of answers and the milliseconds since "begin", when the last
    answer is there. As a broker would, it records an exchange when it ends and an answer before it leaves."""

    spec: NodeSpec | None = None
    running: bool = False
    calls: int = 0
    in_flight: int = 0
    answered: int = 0
    served: int = 0
    begun_ms: int = 0
    operation: str = ""

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """See ``actors.node.contract.Node``."""
        step = Step(now_ms)
        match event:
            case Answered(call):
                self._answered(step, call)
            case Received(connection, asked):
                assert isinstance(asked, ProduceRequest)
                self._serve(step, connection, asked)
            case Started(spec):
                self.spec = spec
            case Invoked(_, "begin"):
                self.running, self.answered, self.begun_ms = True, 0, now_ms
                for _ in range(WINDOW):
                    self._call(step)
            case Invoked(operation):
                self.running, self.operation = False, operation
            case Failed():
                raise AssertionError(f"a call failed: {event.reason}")
            case _:
                pass
        if self.operation and not self.in_flight:
            step.complete(self.operation, {"answered": self.answered, "elapsed_ms": now_ms - self.begun_ms})
            self.operation = ""
        return step.effects

    def _call(self, step: Step) -> None:
        assert self.spec is not None
        self.calls += 1
        self.in_flight += 1
        asked = request(self.spec.name, self.calls)
        step.call(self.calls, self.spec.workload["peer"], "ring", asked, TIMEOUT_MS)

    def _answered(self, step: Step, call: int) -> None:
        assert self.spec is not None
        self.in_flight -= 1
        self.answered += 1
        step.record(Rpc("Produce", VERSION, self.spec.workload["peer"], "ring", call, "answered", []))
        if self.running:
            self._call(step)

    def _serve(self, step: Step, connection: str, asked: ProduceRequest) -> None:
        self.served += 1
        header = asked.header
        told = ReplyPartition("orders-0", 0, self.served, self.served)
        step.record(
            RpcReply("Produce", VERSION, header.client_id, connection, header.correlation_id, -1, 0, -1, [told])
        )
        step.reply(connection, response(self.served))


def new_node(_role: Role) -> Node:
    """For ``actors.live.setup.Setup.factory``."""
    return RingNode()


def ring(size: int) -> list[NodeSpec]:
    """The nodes of a ring: each asks the next."""
    names = [f"broker-{number}" for number in range(1, size + 1)]
    cluster = ClusterSpec("ring", [], list(range(1, size + 1)))
    return [
        NodeSpec(name, "broker", index + 1, f"dir-{name}", cluster, workload={"peer": names[(index + 1) % size]})
        for index, name in enumerate(names)
    ]
