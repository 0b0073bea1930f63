"""One broker on a stage: its disk, its clock, a controller that says yes, and peers that say what the script wants."""

from __future__ import annotations

from typing import Any

from actors.broker.broker_node import BrokerNode
from actors.config import default_config
from actors.features import default_features
from actors.log.batch import EMPTY_PREFIX_HASH, Batch, LogRecord, make_batch
from actors.node.codec import decode, encode
from actors.node.effects import Call, Complete, Exit, SetTimer
from actors.node.events import Answered, AnyEvent, Failed, Received, Started, TimedOut
from actors.node.messages import AnyMessage, AnyResponse, Api, api_of, check_fields
from actors.node.spec import ClusterSpec, NodeSpec
from actors.trace.events import TraceEvent
from actors.versions import default_ranges
from krift.v1.api_versions import ApiVersionsResponse
from krift.v1.common import LeaderAndEpoch
from krift.v1.controller import BrokerHeartbeatResponse, BrokerRegistrationResponse
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.producer_ids import AllocateProducerIdsResponse
from krift.v1.records import BrokerRegistrationChangeRecord, MetadataRecord, RegisterBrokerRecord
from krift.v1.wire import to_bytes
from tests.datadriven.broker.rendering import describe_event, describe_reply, describe_request
from tests.harness.host import Host

CONTROLLER = 101
QUORUM_EPOCH = 1
IDS_PER_BLOCK = 1000
SHOWN_TIMERS = {"lifecycle/next": "next heartbeat", "lifecycle/retry": "tries again"}


class Scene(Host):
    """The stage. ``lines``: what happened since it was last asked. ``held``: calls of the broker that the script has
    to answer, oldest first. ``scripted``: registrations and heartbeats are among them."""

    def __init__(self) -> None:
        super().__init__()
        self.node_id = 1
        self.features: dict[str, str] = {}
        self.config: dict[str, Any] = {}
        self.defects: list[str] = []
        self.ranges = default_ranges()
        self.peer_ranges = default_ranges()
        self.node = BrokerNode()
        self.now_ms = 1000
        self.incarnation = -1
        self.metadata: list[Batch] = []
        self.metadata_call: Call | None = None
        self.held: list[Call] = []
        self.lines: list[str] = []
        self.next_producer_id = 0
        self.refuse_ids = False
        self.caught_up = True
        self.sessions: dict[str, int] = {}
        self.responses: dict[str, AnyResponse | None] = {}
        self.scripted = False
        self.remote_store = False

    # ---- the broker's life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin an incarnation, and let it register, catch up and be unfenced."""
        self.incarnation += 1
        self.node = BrokerNode()
        self.timers, self.held, self.metadata_call = {}, [], None
        config = default_config("broker") | self.config
        cluster = ClusterSpec("krift", [CONTROLLER], [1, 2, 3], remote_store=self.remote_store)
        features = default_features() | self.features
        spec = NodeSpec(
            f"broker-{self.node_id}", "broker", self.node_id, "d", cluster, config, features, self.ranges, self.defects
        )
        self.give(Started(spec, self.incarnation, self.image()))

    def give(self, event: AnyEvent) -> None:
        """Step the broker, and everything that follows from it; its state must survive encoding each time."""
        effects = self.node.step(self.now_ms, event)
        assert decode(encode(self.node), BrokerNode) == self.node
        self.carry_out(effects, self.now_ms)

    # ---- what it does with effects -----------------------------------------------------------------------

    owe = give

    def recorded(self, event: TraceEvent) -> None:
        text = describe_event(event)
        if text is not None:
            self.lines.append(text)

    def replied(self, connection: str, response: AnyResponse | None) -> None:
        self.responses[connection] = response
        if isinstance(response, FetchResponse) and response.session_id:
            self.sessions[connection] = response.session_id
        self.lines.append(describe_reply(connection, response))

    def closed(self, connection: str) -> None:
        self.lines.append(f"{connection} closed")

    def delay_ms(self, timer: SetTimer) -> int:
        if self.scripted and timer.name in SHOWN_TIMERS:
            self.lines.append(f"{SHOWN_TIMERS[timer.name]} in {timer.max_ms} ms")
        return timer.max_ms

    def completed(self, complete: Complete) -> None:
        self.lines.append(f"{complete.operation} complete {complete.result}")

    def exited(self, ended: Exit) -> None:
        self.timers = {}
        how = "fatal:" if ended.fatal else "clean" if ended.clean else "unclean"
        self.lines.append(f"exits {how} {ended.detail}".rstrip())

    # ---- time --------------------------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Let time pass. The quorum's own timers stay quiet: its leader is always there."""
        until = self.now_ms + ms
        while (due := self.next_timer(until, "raft/")) is not None:
            at, name = due
            self.now_ms = max(self.now_ms, at)
            del self.timers[name]
            self.give(TimedOut(name))
        self.now_ms = until

    # ---- calls of the broker -----------------------------------------------------------------------------

    def called(self, call: Call) -> None:
        request: Any = call.request
        check_fields(request, request.header.api_version)
        api = api_of(call.request)
        answer = self._automatic_answer(api, call)
        if answer is not None:
            self.give(Answered(call.call, answer))
        elif self.metadata_call is not call:
            self.held.append(call)
            self.lines.append(describe_request(call.peer, call.request))

    def _automatic_answer(self, api: Api, call: Call) -> AnyMessage | None:
        request: Any = call.request
        if api == Api.ApiVersions:
            response = ApiVersionsResponse()
            ranges = self.peer_ranges if call.peer.startswith("broker") else default_ranges()
            for name, (low, high) in ranges.items():
                response.api_keys.append(
                    ApiVersionsResponse.ApiVersion(api_key=int(Api[name]), min_version=low, max_version=high)
                )
            return response
        if api == Api.Fetch and call.peer.startswith("controller"):
            return self._metadata_answer(call, request)
        if self.scripted and api in (Api.BrokerRegistration, Api.BrokerHeartbeat):
            return None
        if api == Api.BrokerRegistration:
            epoch = self.metadata[-1].end_offset if self.metadata else 0
            record = RegisterBrokerRecord(
                broker_id=self.node_id, incarnation_id=request.incarnation_id, broker_epoch=epoch, fenced=True
            )
            self.lines.append(f"register previous-epoch={request.previous_broker_epoch}")
            self.commit([MetadataRecord(register_broker=record)])
            return BrokerRegistrationResponse(broker_epoch=epoch)
        if api == Api.BrokerHeartbeat:
            return self._heartbeat_answer(request)
        if api == Api.AllocateProducerIds and not self.refuse_ids:
            self.next_producer_id += IDS_PER_BLOCK
            return AllocateProducerIdsResponse(
                producer_id_start=self.next_producer_id - IDS_PER_BLOCK, producer_id_len=IDS_PER_BLOCK
            )
        return None

    def _heartbeat_answer(self, request: Any) -> BrokerHeartbeatResponse:
        caught_up = self.caught_up and request.current_metadata_offset >= request.broker_epoch
        known = self.node.image.brokers.get(self.node_id)
        if known is not None and known.fenced and not request.want_fence:
            self.change_registration(self.node_id, request.broker_epoch, fenced=-1)
        return BrokerHeartbeatResponse(
            is_caught_up=caught_up, is_fenced=request.want_fence, should_shut_down=request.want_shut_down
        )

    def answer(self, call: Call, response: AnyResponse) -> None:
        """Answer a held call."""
        self.held.remove(call)
        self.give(Answered(call.call, response))

    def fail(self, call: Call) -> None:
        """A held call ends in a disconnect."""
        self.held.remove(call)
        self.give(Failed(call.call, "disconnect"))

    # ---- metadata ----------------------------------------------------------------------------------------

    def commit(self, records: list[MetadataRecord]) -> None:
        """Append records to the metadata log and let the broker have them."""
        ph, end = (self.metadata[-1].ph, self.metadata[-1].end_offset) if self.metadata else (EMPTY_PREFIX_HASH, 0)
        values = [LogRecord(0, "", b"", to_bytes(record)) for record in records]
        self.metadata.append(make_batch(ph, end, QUORUM_EPOCH, values))
        call, self.metadata_call = self.metadata_call, None
        if call is not None:
            answer = self._metadata_answer(call, call.request)
            assert answer is not None
            self.give(Answered(call.call, answer))

    def change_registration(self, broker_id: int, epoch: int, fenced: int = 0, shutting_down: int = 0) -> None:
        """A broker is fenced (1) or unfenced (-1), or begins its controlled shutdown (1)."""
        record = BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=epoch, fenced=fenced, in_controlled_shutdown=shutting_down
        )
        self.commit([MetadataRecord(broker_registration_change=record)])

    def _metadata_answer(self, call: Call, request: FetchRequest) -> FetchResponse | None:
        asked = request.topics[0].partitions[0]
        end = self.metadata[-1].end_offset if self.metadata else 0
        response = FetchResponse()
        topic = FetchResponse.FetchableTopicResponse(topic_id=request.topics[0].topic_id)
        response.responses.append(topic)
        data = FetchResponse.PartitionData(high_watermark=end, last_stable_offset=end, log_start_offset=0)
        topic.partitions.append(data)
        data.current_leader = LeaderAndEpoch(leader_id=CONTROLLER, leader_epoch=QUORUM_EPOCH)
        if asked.current_leader_epoch == QUORUM_EPOCH and asked.fetch_offset >= end == asked.high_watermark:
            self.metadata_call = call
            return None
        if asked.current_leader_epoch == QUORUM_EPOCH:
            data.records.extend(b.to_message() for b in self.metadata if b.end_offset > asked.fetch_offset)
        return response

    def receive(self, connection: str, request: Any, version: int) -> str:
        """A request arrives; what the broker did at once, or "parked"."""
        request.header.api_key = int(api_of(request))
        request.header.api_version = version
        request.header.client_id = connection
        before = len(self.lines)
        self.give(Received(connection, request))
        waiting = [each.connection for each in (*self.node.channel.busy, *self.node.channel.queue)]
        answered = any(line.startswith(f"{connection} ") for line in self.lines[before:])
        if not answered and connection not in waiting:
            self.lines.append(f"{connection} parked")
        return self.told()

    def told(self) -> str:
        """What happened since this was last asked."""
        lines, self.lines = self.lines, []
        return "\n".join(lines)
