"""Verbs of the broker's transcripts: one real broker, whose controller agrees with everything, among scripted clients,
followers and leaders.

A line with ``*`` is a trace event; ``x <- ...`` an answer on connection x; ``x parked`` a request that waits;
``-> peer ...`` a request of the broker that waits for the verb ``altered``, ``fetched``, ``listed`` or ``lose``.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from actors.broker.fetch import DelayedFetch
from actors.broker.produce import DelayedProduce
from actors.log.segments import parse_segment_file
from actors.metadata.registrations import RECOVERING
from actors.node.effects import Call
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.events import ClockStepped, Disconnected, Invoked
from actors.node.messages import Api, api_of
from actors.node.spec import split_topic_partition
from actors.versions import Ranges
from krift.v1.admin import ElectLeadersResponse
from krift.v1.api_versions import ApiVersionsRequest
from krift.v1.controller import AlterPartitionResponse, BrokerHeartbeatResponse, BrokerRegistrationResponse
from krift.v1.delete_records import DeleteRecordsRequest
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from krift.v1.metadata import MetadataRequest
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from krift.v1.produce import ProduceRequest
from krift.v1.producer_ids import InitProducerIdRequest
from krift.v1.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RecordBatch,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from krift.v1.update_metadata import UpdateMetadataRequest
from tests.datadriven.admin import alter_configs_request, describe_quorum_request, elect_request
from tests.datadriven.broker.scene import Scene
from tests.datadriven.broker.tiers import Tiers
from tests.datadriven.runner import Command
from tests.datadriven.topics import create_partitions_request, create_topics_request, delete_topics_request

TOPIC_APIS = (Api.CreateTopics, Api.DeleteTopics, Api.CreatePartitions)
TIMESTAMPS = {"latest": -1, "earliest": -2, "max": -3, "earliest-local": -4, "latest-tiered": -5, "pending-upload": -6}


def first_id(topic: str) -> str:
    """The id that the script's topics have."""
    return f"id-{topic}"


def value_of(text: str) -> Any:
    """A configuration value as the script writes it."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def ranges_of(items: list[str]) -> Ranges:
    """``Fetch:4-11`` and the like."""
    pairs = (item.split(":") for item in items)
    return {api: [int(bound) for bound in span.split("-")] for api, span in pairs}


class Environment:
    """One transcript's broker."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.epochs: dict[int, int] = {}
        self.ids: dict[str, str] = {}
        self.tiers = Tiers()

    # ---- the broker --------------------------------------------------------------------------------------

    def topic_id(self, topic: str) -> str:
        """The id that a topic has now."""
        return self.ids.get(topic, first_id(topic))

    def verb_start(self, command: Command) -> str:
        """start [feature=kip-207:seed] [config=(key:value,...)] [defects=(...)] [speaks=(Fetch:4-11)]
        [peers=(Fetch:4-11)] [remote-store]: the broker starts; brokers 2 and 3 are registered with broker epochs 52 and
        53."""
        scene = self.scene
        scene.features |= dict(item.split(":") for item in command.many("features", "()"))
        pairs = (item.split(":") for item in command.many("config", "()"))
        scene.config |= {key: value_of(value) for key, value in pairs}
        scene.defects = command.many("defects", "()")
        scene.ranges |= ranges_of(command.many("speaks", "()"))
        scene.peer_ranges |= ranges_of(command.many("peers", "()"))
        for broker_id in (2, 3):
            if broker_id not in self.epochs:
                self._register(broker_id, 50 + broker_id)
        scene.caught_up = not command.has("behind")
        scene.remote_store = command.has("remote-store")
        scene.start()
        return scene.told() if command.has("aloud") else scene.told() and ""

    def verb_catch_up(self, command: Command) -> str:
        """catch-up: from now on the controller sees the broker as caught up."""
        self.scene.caught_up = True
        self.scene.advance(2000)
        return self.scene.told()

    def verb_clock(self, command: Command) -> str:
        """clock offset=MS: the wall clock of the machine is set: so far ahead of true time (negative: behind)."""
        self.scene.give(ClockStepped(command.number("offset")))
        return self.scene.told()

    def verb_crash(self, command: Command) -> str:
        """crash: the process is gone; the disk stays."""
        self.scene.timers = {}
        return ""

    def verb_shutdown(self, command: Command) -> str:
        """shutdown: the operator asks the broker to stop."""
        self.scene.give(Invoked("operation", "shutdown"))
        return self.scene.told()

    def verb_scripted(self, command: Command) -> str:
        """scripted: from now on the script answers registrations and heartbeats, and sees when the next is due."""
        self.scene.scripted = True
        return ""

    def verb_registered(self, command: Command) -> str:
        """registered [epoch=] [error=NAME]: the controller answers the registration; with an epoch the metadata log
        says so, too."""
        call = self._held(Api.BrokerRegistration, command)
        response = BrokerRegistrationResponse(error_code=KafkaError[command.text("error", "NONE")])
        if "epoch" in command.arguments:
            response.broker_epoch = command.number("epoch")
            self._register(self.scene.node_id, response.broker_epoch, fenced=True)
        self.scene.answer(call, response)
        return self.scene.told()

    def verb_heard(self, command: Command) -> str:
        """heard [caught-up] [unfenced] [may-stop] [error=NAME]: the controller answers the heartbeat."""
        response = BrokerHeartbeatResponse(
            error_code=KafkaError[command.text("error", "NONE")],
            is_caught_up=command.has("caught-up"),
            is_fenced=not command.has("unfenced"),
            should_shut_down=command.has("may-stop"),
        )
        self.scene.answer(self._held(Api.BrokerHeartbeat, command), response)
        return self.scene.told()

    def verb_damage(self, command: Command) -> str:
        """damage FILE batch=1 [missing]: an entry of a file is not what was written, or is not there."""
        entries = self.scene.disk[command.words[0]]
        index = command.number("batch")
        if command.has("missing"):
            del entries[index]
        else:
            entries[index] = b"nonsense"
        return ""

    def verb_copy(self, command: Command) -> str:
        """copy FILE FILE: what is in a file is in another one, too, as a former process left it."""
        self.scene.disk[command.words[1]] = list(self.scene.disk[command.words[0]])
        return ""

    def verb_advance(self, command: Command) -> str:
        """advance ms=500: time passes."""
        self.scene.advance(command.number("ms"))
        return self.scene.told()

    def verb_disconnect(self, command: Command) -> str:
        """disconnect c1: a client's connection is gone."""
        self.scene.give(Disconnected(command.words[0]))
        return self.scene.told()

    def verb_disk(self, command: Command) -> str:
        """disk file: the content of a small file."""
        return "\n".join(entry.decode() for entry in self.scene.disk.get(command.words[0], []))

    # ---- metadata ----------------------------------------------------------------------------------------

    def _register(self, broker_id: int, epoch: int, fenced: bool = False) -> None:
        self.epochs[broker_id] = epoch
        record = RegisterBrokerRecord(broker_id=broker_id, incarnation_id="i", broker_epoch=epoch, fenced=fenced)
        self.scene.commit([MetadataRecord(register_broker=record)])

    def verb_register(self, command: Command) -> str:
        """register 2 epoch=60: another incarnation of a broker registers."""
        self._register(int(command.words[0]), command.number("epoch"), command.has("fenced"))
        return self.scene.told()

    def verb_fence(self, command: Command) -> str:
        """fence 2 | unfence 2 | leaving 2: a broker is fenced, unfenced, in controlled shutdown."""
        broker_id = int(command.words[0])
        self.scene.change_registration(broker_id, self.epochs[broker_id], fenced=1)
        return self.scene.told()

    def verb_unfence(self, command: Command) -> str:
        """See fence."""
        broker_id = int(command.words[0])
        self.scene.change_registration(broker_id, self.epochs[broker_id], fenced=-1)
        return self.scene.told()

    def verb_leaving(self, command: Command) -> str:
        """See fence."""
        broker_id = int(command.words[0])
        self.scene.change_registration(broker_id, self.epochs[broker_id], shutting_down=1)
        return self.scene.told()

    def verb_topic(self, command: Command) -> str:
        """topic orders leader=1 epoch=0 [replicas=(1,2,3)] [isr=(1,2,3)] [config=(key:value)] [id=...]: a topic with
        one partition. With ``id`` it is another one than the first of its name."""
        name = command.words[0]
        self.ids[name] = command.text("id", self.topic_id(name))
        replicas = command.numbers("replicas", "(1,2,3)")
        partition = PartitionRecord(
            topic_id=self.topic_id(name),
            partition_id=0,
            replicas=replicas,
            isr=command.numbers("isr", str(tuple(replicas))),
            leader=command.number("leader"),
            leader_epoch=command.number("epoch", 0),
            partition_epoch=command.number("partition-epoch", 0),
        )
        records = [MetadataRecord(topic=TopicRecord(name=name, topic_id=self.topic_id(name)))]
        for item in command.many("config", "()"):
            key, value = item.split(":")
            records.append(self._config(name, key, value))
        self.scene.commit([*records, MetadataRecord(partition=partition)])
        return self.scene.told()

    def verb_remove(self, command: Command) -> str:
        """remove orders [id=] [replicas=(1,2,3)] [leader=]: a topic is removed; with ``id`` it is created again in the
        same commit."""
        name = command.words[0]
        records = [MetadataRecord(remove_topic=RemoveTopicRecord(topic_id=self.topic_id(name)))]
        if "id" in command.arguments:
            self.ids[name] = command.text("id")
            partition = PartitionRecord(topic_id=self.ids[name], replicas=[1, 2, 3], isr=[1, 2, 3])
            partition.leader = command.number("leader")
            records.append(MetadataRecord(topic=TopicRecord(name=name, topic_id=self.ids[name])))
            records.append(MetadataRecord(partition=partition))
        self.scene.commit(records)
        return self.scene.told()

    def verb_files(self, command: Command) -> str:
        """files: the segments on the disk, with their numbers of entries."""
        logs = {name: entries for name, entries in self.scene.disk.items() if parse_segment_file(name)}
        return "\n".join(f"{name} {len(entries)}" for name, entries in sorted(logs.items()))

    def verb_create_topics(self, command: Command) -> str:
        """create-topics orders ... [v=7] on=a1: as for the controller."""
        return self.scene.receive(command.text("on"), create_topics_request(command), command.number("v", 7))

    def verb_delete_topics(self, command: Command) -> str:
        """delete-topics orders ... [v=6] on=a1: as for the controller."""
        return self.scene.receive(command.text("on"), delete_topics_request(command, {}), command.number("v", 6))

    def verb_create_partitions(self, command: Command) -> str:
        """create-partitions orders count=2 [v=3] on=a1: as for the controller."""
        return self.scene.receive(command.text("on"), create_partitions_request(command), command.number("v", 3))

    def _config(self, resource: str, key: str, value: str) -> MetadataRecord:
        kind, name = resource.split("/") if "/" in resource else ("topic", resource)
        record = ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        return MetadataRecord(config=record)

    def verb_configure(self, command: Command) -> str:
        """configure orders min.insync.replicas=2: a topic's configuration changes in the metadata log; that of
        ``broker/1`` or of all brokers, ``broker/``, likewise."""
        key = next(iter(command.arguments))
        self.scene.commit([self._config(command.words[0], key, command.text(key))])
        return self.scene.told()

    # ---- operators ---------------------------------------------------------------------------------------

    def verb_elect(self, command: Command) -> str:
        """elect preferred|unclean all|orders-0 [v=2] on=a1: an operator asks for elections."""
        return self.scene.receive(command.text("on"), elect_request(command), command.number("v", 2))

    def verb_alter_configs(self, command: Command) -> str:
        """alter-configs topic/orders broker/1 broker/ [set=(key:value)] [delete=(key)] [append=(key:value)]
        [null=(key)] on=a1: an operator changes configuration."""
        return self.scene.receive(command.text("on"), alter_configs_request(command), command.number("v", 1))

    def verb_describe_quorum(self, command: Command) -> str:
        """describe-quorum on=a1: an operator looks at the quorum."""
        return self.scene.receive(command.text("on"), describe_quorum_request(command), command.number("v", 2))

    def verb_served(self, command: Command) -> str:
        """served [error=NAME]: the controller answers the request that was passed on; every part of it alike."""
        apis = (Api.ElectLeaders, Api.IncrementalAlterConfigs, Api.DescribeQuorum, *TOPIC_APIS)
        call = next(call for call in self.scene.held if api_of(call.request) in apis)
        error = KafkaError[command.text("error", "NONE")]
        response = error_response(call.request, error)
        if isinstance(response, ElectLeadersResponse) and error != KafkaError.NOT_CONTROLLER:
            response.error_code = 0
        self.scene.answer(call, response)
        return self.scene.told()

    def verb_change(self, command: Command) -> str:
        """change orders-0 [leader=2] [isr=(1,2)] [recovering] [times=1] [quiet] | change orders-0 leaders=(2,1)
        [isr=(1,2)]: the controller changes a partition (``recovering``: by an unclean election); or changes it several
        times, of which the broker hears at once."""
        topic, index = split_topic_partition(command.words[0])
        if "leaders" in command.arguments:
            changes = [
                PartitionChangeRecord(topic_id=self.topic_id(topic), partition_id=index, leader=leader)
                for leader in command.numbers("leaders", "()")
            ]
            changes[-1].isr.extend(command.numbers("isr", "()"))
            self.scene.commit([MetadataRecord(partition_change=change) for change in changes])
            return self.scene.told()
        for _ in range(command.number("times", 1)):
            record = PartitionChangeRecord(topic_id=self.topic_id(topic), partition_id=index)
            if "leader" in command.arguments:
                record.leader = command.number("leader")
            if command.has("recovering"):
                record.leader_recovery_state = RECOVERING
            record.isr.extend(command.numbers("isr", "()"))
            self.scene.commit([MetadataRecord(partition_change=record)])
        told = self.scene.told()
        return "" if command.has("quiet") else told

    # ---- requests ----------------------------------------------------------------------------------------

    def verb_produce(self, command: Command) -> str:
        """produce orders-0 n=5 [acks=1] [v=13] [ts=0] [size=1] [pid= seq= pepoch=] [base=0] [control] [timeout=30000]
        [on=p1] [quiet]: a batch; its records have timestamps ts, ts+1, ... and values of so many bytes."""
        topic, index = split_topic_partition(command.words[0])
        version = command.number("v", 13)
        request = ProduceRequest(acks=command.number("acks", 1), timeout_ms=command.number("timeout", 30000))
        data = ProduceRequest.TopicProduceData()
        request.topic_data.append(data)
        if version >= 13:
            data.topic_id = command.text("id", self.topic_id(topic))
        else:
            data.name = topic
        start, value = command.number("ts", 0), b"v" * command.number("size", 1)
        batch = RecordBatch(
            base_offset=command.number("base", 0),
            is_control=command.has("control"),
            records=[Record(timestamp_ms=start + n, uid=f"u{n}", value=value) for n in range(command.number("n", 1))],
        )
        if "pid" in command.arguments:
            pid, epoch, sequence = command.number("pid"), command.number("pepoch", 0), command.number("seq")
            batch = replace(batch, producer_id=pid, producer_epoch=epoch, base_sequence=sequence)
        data.partition_data.append(ProduceRequest.PartitionProduceData(index=index, records=batch))
        told = self.scene.receive(command.text("on", "p1"), request, version)
        return "" if command.has("quiet") else told

    def verb_fetch(self, command: Command) -> str:
        """fetch orders-0 at=0 [follower=2] [epoch=-1] [last=-1] [bepoch=52] [v=18] [wait=500] [min=1] [starts=0]
        [on=f2]: a consumer's Fetch, or a follower's, whose log starts there."""
        topic, index = split_topic_partition(command.words[0])
        version = command.number("v", 18)
        follower = command.number("follower", -1)
        request = FetchRequest(max_wait_ms=command.number("wait", 500), min_bytes=command.number("min", 1))
        if follower >= 0 and version >= 15:
            epoch = command.number("bepoch", self.epochs.get(follower, -1))
            request.replica_state = FetchRequest.ReplicaState(replica_id=follower, replica_epoch=epoch)
        elif follower >= 0:
            request.replica_id = follower
        asked = FetchRequest.FetchPartition(partition=index, fetch_offset=command.number("at"))
        asked.partition_max_bytes = command.number("max", 1048576)
        if version >= 9:
            asked.current_leader_epoch = command.number("epoch", -1)
        if version >= 12:
            asked.last_fetched_epoch = command.number("last", -1)
        data = FetchRequest.FetchTopic()
        request.topics.append(data)
        if version >= 13:
            data.topic_id = command.text("id", self.topic_id(topic))
        else:
            data.topic = topic
        data.partitions.append(asked)
        if "starts" in command.arguments:
            request.topics[0].partitions[0].log_start_offset = command.number("starts")
        return self.scene.receive(command.text("on", f"f{follower}" if follower >= 0 else "c1"), request, version)

    def verb_fetch_many(self, command: Command) -> str:
        """fetch-many orders-0@5 bills-0@0:3 [forget=(orders-0)] [session=0] [epoch=0] [follower=2] [leader-epoch=0]
        [last=-1] [v=18] [wait=0] [max=1048576] [each=1048576] [on=f2]: a Fetch of several partitions, the last number
        being the leader epoch it expects, in a fetch session: the one last told on this connection (or another,
        of=c1), with this epoch."""
        version = command.number("v", 18)
        follower = command.number("follower", -1)
        connection = command.text("on", f"f{follower}" if follower >= 0 else "c1")
        request = FetchRequest(max_wait_ms=command.number("wait", 0), min_bytes=1)
        request.max_bytes = command.number("max", 1048576)
        if follower >= 0:
            epoch = self.epochs.get(follower, -1)
            request.replica_state = FetchRequest.ReplicaState(replica_id=follower, replica_epoch=epoch)
        if version >= 7:
            request.session_id = command.number("session", self.scene.sessions.get(command.text("of", connection), 0))
            request.session_epoch = command.number("epoch", 0)
        for word in command.words:
            name, _, rest = word.partition("@")
            offset, _, epoch = rest.partition(":")
            topic, index = split_topic_partition(name)
            data = FetchRequest.FetchTopic()
            request.topics.append(data)
            if version >= 13:
                data.topic_id = command.text("id", self.topic_id(topic))
            else:
                data.topic = topic
            asked = FetchRequest.FetchPartition(partition=index, fetch_offset=int(offset))
            asked.partition_max_bytes = command.number("each", 1048576)
            data.partitions.append(asked)
            if epoch:
                asked.current_leader_epoch = int(epoch)
            if version >= 12:
                asked.last_fetched_epoch = command.number("last", -1)
        for name in command.many("forget", "()"):
            topic, index = split_topic_partition(name)
            gone = FetchRequest.ForgottenTopic(partitions=[index])
            request.forgotten_topics_data.append(gone)
            if version >= 13:
                gone.topic_id = self.topic_id(topic)
            else:
                gone.topic = topic
        return self.scene.receive(connection, request, version)

    def verb_sessions(self, command: Command) -> str:
        """sessions: the fetch sessions that the broker keeps, the longest unused first."""
        lines = []
        for session in self.scene.node.replicas.sessions.sessions.values():
            whose = "follower" if session.privileged else "consumer"
            lines.append(f"{session.id} {whose} epoch={session.epoch} {' '.join(session.partitions)}")
        return "\n".join(lines) or "none"

    def verb_list(self, command: Command) -> str:
        """list orders-0 ... ts=latest [v=11] [epoch=-1] [replica=-1] [isolation=0] [time-out=0] [on=l1]: a
        ListOffsets."""
        version = command.number("v", 11)
        request = ListOffsetsRequest(replica_id=command.number("replica", -1))
        if version >= 2:
            request.isolation_level = command.number("isolation", 0)
        if version >= 10:
            request.timeout_ms = command.number("time-out", 0)
        words = [word for word in command.words if word != "twice"]
        for tp in words * (2 if command.has("twice") else 1):
            topic, index = split_topic_partition(tp)
            if not request.topics or request.topics[-1].name != topic:
                request.topics.append(ListOffsetsRequest.ListOffsetsTopic(name=topic))
            text = command.text("ts", "latest")
            asked = ListOffsetsRequest.ListOffsetsPartition(
                partition_index=index, timestamp=TIMESTAMPS.get(text) or int(text)
            )
            request.topics[-1].partitions.append(asked)
            if "epoch" in command.arguments:
                asked.current_leader_epoch = command.number("epoch")
        return self.scene.receive(command.text("on", "l1"), request, version)

    def verb_delete_records(self, command: Command) -> str:
        """delete-records orders-0 ... to=5 [time-out=1000] [v=2] [on=d1]: a DeleteRecords; -1: to high watermarks."""
        request = DeleteRecordsRequest(timeout_ms=command.number("time-out", 1000))
        for tp in command.words:
            topic, index = split_topic_partition(tp)
            asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=command.number("to"))
            request.topics.append(DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[asked]))
        return self.scene.receive(command.text("on", "d1"), request, command.number("v", 2))

    def verb_epoch_end(self, command: Command) -> str:
        """epoch-end orders-0 of=2 [epoch=-1] [replica=-1] [v=4] [on=e1]: an OffsetForLeaderEpoch."""
        topic, index = split_topic_partition(command.words[0])
        version = command.number("v", 4)
        request = OffsetForLeaderEpochRequest()
        if version >= 3:
            request.replica_id = command.number("replica", -1)
        asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=index, leader_epoch=command.number("of"))
        request.topics.append(OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[asked]))
        if "epoch" in command.arguments:
            asked.current_leader_epoch = command.number("epoch")
        return self.scene.receive(command.text("on", "e1"), request, version)

    def verb_api_versions(self, command: Command) -> str:
        """api-versions [v=4] [software=name]: a client asks what this broker speaks."""
        version = command.number("v", 4)
        request = ApiVersionsRequest()
        if version >= 3:
            request.client_software_name = command.text("software", "client")
            request.client_software_version = "1"
        return self.scene.receive("v1", request, version)

    def verb_metadata(self, command: Command) -> str:
        """metadata [orders ...] [id-orders ...] [v=12] [brokers-only]: a Metadata request for all topics, those named
        (by name or by id), or none."""
        request = MetadataRequest(all_topics=not command.words)
        for name in command.words:
            if name.startswith("id-"):
                request.topics.append(MetadataRequest.MetadataRequestTopic(topic_id=name))
            elif name != "brokers-only":
                request.topics.append(MetadataRequest.MetadataRequestTopic(name=name))
        return self.scene.receive("m1", request, command.number("v", 12))

    def verb_update_metadata(self, command: Command) -> str:
        """update-metadata [orders-0/2/5 ...] live=(1,2,3) [epoch=4] [broker=51] [v=8] [metadata-epoch=-1]: the
        controller of this epoch pushes partitions with their leaders and leader epochs, to the registration of this
        broker epoch."""
        version = command.number("v", 8)
        request = UpdateMetadataRequest(controller_id=101, controller_epoch=command.number("epoch", 1))
        if version >= 5:
            request.broker_epoch = command.number("broker", -1)
            request.metadata_epoch = command.number("metadata-epoch", -1)
        for word in command.words:
            tp, leader, leader_epoch = word.split("/")
            topic, index = split_topic_partition(tp)
            if version < 5:
                state = UpdateMetadataRequest.UpdateMetadataPartitionState(topic_name=topic)
                request.ungrouped_partition_states.append(state)
            else:
                of_topic = UpdateMetadataRequest.UpdateMetadataTopicState(topic_name=topic)
                request.topic_states.append(of_topic)
                if version >= 7:
                    of_topic.topic_id = self.topic_id(topic)
                state = UpdateMetadataRequest.UpdateMetadataPartitionState()
                of_topic.partition_states.append(state)
            state.partition_index, state.leader, state.leader_epoch = index, int(leader), int(leader_epoch)
            state.replicas.extend([1, 2, 3])
            state.isr.extend([1, 2, 3])
        for live in command.many("live", "()"):
            request.live_brokers.append(UpdateMetadataRequest.UpdateMetadataBroker(id=int(live)))
        return self.scene.receive("c1", request, version)

    def verb_init_producer_id(self, command: Command) -> str:
        """init-producer-id [times=1]: an idempotent producer begins; the last answer."""
        self.scene.refuse_ids = command.has("unanswered")
        for _ in range(command.number("times", 1)):
            told = self.scene.receive("p1", InitProducerIdRequest(), 5)
        return told

    # ---- answers to the broker ---------------------------------------------------------------------------

    def _held(self, api: Api, command: Command) -> Call:
        """The newest call of this API that waits; with ``old`` the oldest."""
        calls = [call for call in self.scene.held if api_of(call.request) == api]
        return calls[0 if command.has("old") else -1]

    def verb_altered(self, command: Command) -> str:
        """altered [error=NAME] [top=NAME]: the controller answers the AlterPartition in flight; without an error it
        accepts, and the metadata log says so afterwards with ``change``."""
        call = self._held(Api.AlterPartition, command)
        request: Any = call.request
        response = AlterPartitionResponse(error_code=KafkaError[command.text("top", "NONE")])
        error = KafkaError[command.text("error", "NONE")]
        for topic in request.topics:
            answers = AlterPartitionResponse.TopicData(topic_id=topic.topic_id)
            response.topics.append(answers)
            for asked in topic.partitions:
                data = AlterPartitionResponse.PartitionData(
                    partition_index=asked.partition_index, error_code=int(error)
                )
                answers.partitions.append(data)
                if not error:
                    data.leader_id, data.leader_epoch = self.scene.node_id, asked.leader_epoch
                    data.isr.extend(member.broker_id for member in asked.new_isr_with_epochs)
                    data.partition_epoch = asked.partition_epoch + 1
        self.scene.answer(call, response)
        return self.scene.told()

    def verb_fetched(self, command: Command) -> str:
        """fetched [hw=0] [log-start=0] [batches=(0:5,1:2)] [base=7] [ph=7] [diverging=(epoch,end)] [error=NAME]
        [session=7] [old] [of=orders-0] | fetched nothing [session=7] | fetched top=NAME: the leader answers the
        broker's newest Fetch, or its oldest: the first partition that it names, or another (batches are epoch:records),
        with nothing new, or with an error of the whole."""
        call = self._held(Api.Fetch, command)
        request: Any = call.request
        top = KafkaError[command.text("top", "NONE")]
        response = FetchResponse(session_id=command.number("session", 0))
        if top or command.has("nothing"):
            response.error_code = int(top)
            self.scene.answer(call, response)
            return self.scene.told()
        tp = command.text("of", "")
        topic = FetchResponse.FetchableTopicResponse()
        response.responses.append(topic)
        if tp:
            name, index = split_topic_partition(tp)
            topic.topic_id, base = self.topic_id(name), self.scene.node.replicas.partitions[tp].log.end_offset
        else:
            asked = request.topics[0].partitions[0]
            index, base = asked.partition, asked.fetch_offset
            if request.header.api_version >= 13:
                topic.topic_id = request.topics[0].topic_id
            else:
                topic.topic = request.topics[0].topic
        data = FetchResponse.PartitionData(partition_index=index)
        topic.partitions.append(data)
        data.error_code = KafkaError[command.text("error", "NONE")]
        data.high_watermark = command.number("hw", 0)
        data.log_start_offset = command.number("log-start", 0)
        data.prefix_hash = command.number("ph", -1)
        if "diverging" in command.arguments:
            epoch, end_offset = command.numbers("diverging")
            data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        base = command.number("base", base)
        for item in command.many("batches", "()"):
            epoch, count = (int(part) for part in item.split(":"))
            records = [Record(timestamp_ms=base + n, uid=f"r{base + n}") for n in range(count)]
            data.records.append(RecordBatch(base_offset=base, partition_leader_epoch=epoch, records=records))
            base += count
        self.scene.answer(call, response)
        return self.scene.told()

    def verb_listed(self, command: Command) -> str:
        """listed offset=5 [epoch=2] [ph=77]: the leader answers the broker's own ListOffsets; ``ph``: prefix hash."""
        call = self._held(Api.ListOffsets, command)
        request: Any = call.request
        response = ListOffsetsResponse()
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name=request.topics[0].name)
        response.topics.append(topic)
        told = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0, offset=command.number("offset"))
        if "epoch" in command.arguments:
            told.leader_epoch = command.number("epoch")
        told.prefix_hash = command.number("ph", -1)
        topic.partitions.append(told)
        self.scene.answer(call, response)
        return self.scene.told()

    def verb_epoch_ended(self, command: Command) -> str:
        """epoch-ended epoch=2 end=5 [error=NAME] [old]: the leader answers the broker's own OffsetForLeaderEpoch."""
        call = self._held(Api.OffsetForLeaderEpoch, command)
        request: Any = call.request
        response = OffsetForLeaderEpochResponse()
        for asked in request.topics:
            topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=asked.topic)
            response.topics.append(topic)
            for each in asked.partitions:
                data = OffsetForLeaderEpochResponse.EpochEndOffset(partition=each.partition)
                topic.partitions.append(data)
                data.error_code = KafkaError[command.text("error", "NONE")]
                data.leader_epoch, data.end_offset = command.number("epoch", -1), command.number("end", -1)
        self.scene.answer(call, response)
        return self.scene.told()

    def verb_lose(self, command: Command) -> str:
        """lose Fetch: the connection under a call of the broker breaks."""
        self.scene.fail(self._held(Api[command.words[0]], command))
        return self.scene.told()

    # ---- remote storage ----------------------------------------------------------------------------------

    def verb_copied(self, command: Command) -> str:
        """copied orders-0 s1 from=0 to=3: the broker knows of a copy of these records."""
        return self.tiers.copied(self.scene, command)

    def verb_relabel(self, command: Command) -> str:
        """relabel orders-0 s1 [state=started] [epochs=(3@0)]: what it knows of the copy is something else."""
        return self.tiers.relabelled(self.scene, command)

    def verb_trimmed(self, command: Command) -> str:
        """trimmed orders-0 to=4: the broker itself has what follows, and no more."""
        return self.tiers.trimmed(self.scene, command)

    def verb_stored(self, command: Command) -> str:
        """stored [error=NAME] [garbage]: the remote store answers what it was asked first."""
        return self.tiers.stored(self.scene, command)

    # ---- looking -----------------------------------------------------------------------------------------

    def verb_state(self, command: Command) -> str:
        """state orders-0: the replica, and what the leader knows of its followers."""
        replicas = self.scene.node.replicas
        partition = replicas.partitions[command.words[0]]
        log = partition.log
        epochs = ",".join(f"{entry.epoch}@{entry.start_offset}" for entry in log.epochs.entries)
        first = f"{partition.role} epoch={partition.leader_epoch}/{partition.partition_epoch}"
        first += f" epoch-start={partition.leader_epoch_start} hw={log.high_watermark} end={log.end_offset}"
        first += f" start={log.start_offset}" if log.start_offset else ""
        lines = [f"{first} epochs={epochs or 'none'}"]
        if partition.is_leader:
            pending = f" pending {partition.pending.kind} {partition.pending.isr}" if partition.pending else ""
            lines.append(f"isr={partition.isr} maximal={partition.maximal_isr}{pending}")
            lines += [f"follower {key}: end={remote.log_end}" for key, remote in partition.remotes.items()]
        return "\n".join(lines)

    def verb_parked(self, command: Command) -> str:
        """parked: how many requests of each kind wait in the purgatory."""
        parked = self.scene.node.purgatory.parked.values()
        fetches, produces = (sum(isinstance(each, kind) for each in parked) for kind in (DelayedFetch, DelayedProduce))
        return f"fetches={fetches} produces={produces}"

    def verb_defect(self, command: Command) -> str:
        """defect name: the broker has it from now on."""
        self.scene.node.spec.defects.extend(command.words)
        return ""
