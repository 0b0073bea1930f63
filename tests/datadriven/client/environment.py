"""Verbs of the clients' transcripts: one real producer, consumer or offsets prober among scripted brokers.

A line with ``*`` is a trace event; ``-> c1 ...`` a request, which waits for the verb ``answer``, ``fail`` or its
time-out; ``-x ...`` one to a broker that is down; ``~ ...`` a pause, with the range it is drawn from. Records are
shown by their numbers. Connections, versions, metadata and the producer's id are dealt with silently, unless the
script holds those requests back to answer them itself.
"""

from __future__ import annotations

from typing import Any, cast

from actors.client.external_offsets import FILE
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.events import Invoked
from actors.node.messages import Api, api_of
from actors.node.spec import Role
from actors.versions import Ranges
from krift.v1.admin import DescribeQuorumRequest, DescribeQuorumResponse, ElectLeadersRequest
from krift.v1.common import LeaderAndEpoch, NodeEndpoint
from krift.v1.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from krift.v1.metadata import MetadataResponse
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from krift.v1.produce import ProduceRequest, ProduceResponse
from krift.v1.producer_ids import InitProducerIdResponse
from krift.v1.records import Record, RecordBatch
from tests.datadriven.client.groups import GROUP_APIS, group_answer
from tests.datadriven.client.rendering import COPIES
from tests.datadriven.client.scene import PRODUCER_ID, TOPIC_ID, Scene
from tests.datadriven.client.transactions import TRANSACTION_APIS, transaction_answer
from tests.datadriven.runner import Command

TIMESTAMPS = {"latest": -1, "earliest": -2, "max": -3, "earliest-local": -4, "latest-tiered": -5, "pending-upload": -6}


def value_of(text: str) -> Any:
    """A configuration value as the script writes it."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def ranges_of(items: list[str]) -> Ranges:
    """``Produce:3-7`` and the like."""
    pairs = (item.split(":") for item in items)
    return {api: [int(bound) for bound in span.split("-")] for api, span in pairs}


def leader_of(text: str) -> tuple[int, int]:
    """``2@5``: leader 2 in leader epoch 5."""
    leader, _, epoch = text.partition("@")
    return int(leader), int(epoch or -1)


class Environment:
    """One transcript's clients, one after another."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.asked = 0

    # ---- the client --------------------------------------------------------------------------------------

    def verb_start(self, command: Command) -> str:
        """start producer [rate=100] [partitions=1] [config=(key:value)] [features=(name:value)] [hold=(Metadata,...)]
        [speaks=(Api:1-4)] [defects=(...)] | start consumer [seek=-1] [rewind=(every,by)] [external=(every,wait)] (which
        goes on with the disk of the consumer before it) | start list-offsets
        [every=1000] [timestamp=latest] [ago=ms] [isolation=0] [client=consumer] [together=yes] | start group-consumer
        [commit=auto] [commit-every=1000]
        [stall=(every,ms)] [absence=(every,ms)] | start mirror, likewise | start admin | start transactional-producer,
        as a producer, and [records=2] [aborts=0] [stay=(every,ms)] [stay-after=0] [last-stay=ms] |
        start processor, as a mirror, and as that."""
        role = command.words[0]
        self.scene.scripted |= set(command.many("hold", "()"))
        workload: dict[str, Any] = {"partitions": command.number("partitions", 1)}
        if role in ("transactional-producer", "processor"):
            stay = command.numbers("stay", "(0,0)")
            workload |= {"transaction_records": command.number("records", 2)}
            workload |= {"aborts_percent": command.number("aborts", 0)}
            workload |= {"hold_every_ms": stay[0], "hold_ms": stay[1], "hold_after": command.number("stay-after", 0)}
            workload["last_hold_ms"] = command.number("last-stay", 0)
        if role in ("producer", "transactional-producer"):
            workload["rate"] = command.number("rate", 100)
        if role == "consumer":
            workload["seek"] = command.number("seek", -1)
            workload["rewind_every_ms"], workload["rewind_by_ms"] = command.numbers("rewind", "(0,0)")
            workload["external_every_ms"], workload["external_wait_ms"] = command.numbers("external", "(0,0)")
        if role in ("mirror", "processor"):
            workload |= {"copy_to": COPIES, "copy_partitions": 1}
        if role in ("group-consumer", "mirror", "processor"):
            stall, absence = command.numbers("stall", "(0,0)"), command.numbers("absence", "(0,0)")
            workload |= {
                "group": "g",
                "commit": command.text("commit", "auto" if role == "group-consumer" else "sync"),
                "seek": -1,
                "rewind_every_ms": 0,
            }
            workload |= {"commit_every_ms": command.number("commit-every", 1000)}
            workload |= {"stall_every_ms": stall[0], "stall_ms": stall[1]}
            workload |= {"absent_every_ms": absence[0], "absent_ms": absence[1]}
        if role == "list-offsets":
            name = command.text("timestamp", "latest")
            workload |= {"every_ms": command.number("every", 1000), "isolation": command.number("isolation", 0)}
            workload["timestamp"] = TIMESTAMPS[name] if name in TIMESTAMPS else int(name)
            workload |= {"ago_ms": command.number("ago", -1), "client": command.text("client", "admin")}
            workload["together"] = command.text("together", "no") == "yes"
        config = {key: value_of(value) for key, value in (each.split(":") for each in command.many("config", "()"))}
        ranges = ranges_of(command.many("speaks", "()"))
        features = dict(item.split(":") for item in command.many("features", "()"))
        self.scene.start(cast(Role, role), workload, config, ranges, command.many("defects", "()"), features)
        return self.scene.told()

    def verb_metadata_epoch(self, command: Command) -> str:
        """metadata-epoch: the application asks its consumer for that of its metadata."""
        return self._invoke("metadata-epoch", {})

    def verb_wait_for_metadata_update(self, command: Command) -> str:
        """wait-for-metadata-update epoch=7 timeout=1000: the application waits for metadata that is not older."""
        arguments = {"epoch": command.number("epoch"), "timeout_ms": command.number("timeout")}
        return self._invoke("wait-for-metadata-update", arguments)

    def verb_saved(self, command: Command) -> str:
        """saved: what the application keeps of its positions."""
        kept = self.scene.disk.get(FILE, [])
        return kept[-1].decode() if kept else "nothing"

    def verb_new(self, command: Command) -> str:
        """new: another client, other brokers; nothing of what was before."""
        self.scene = Scene()
        return ""

    def verb_stop(self, command: Command) -> str:
        """stop [gone=(orders-0)]: the workload is to end, after all it has begun; partitions that are no more."""
        gone = command.many("gone", "()")
        self.scene.give(Invoked("stop", "stop", {"gone": gone} if gone else {}))
        return self.scene.told()

    def verb_leave(self, command: Command) -> str:
        """leave: the application closes its consumer."""
        return self._invoke("leave", {})

    def verb_join(self, command: Command) -> str:
        """join: it makes a new one."""
        return self._invoke("join", {})

    def verb_advance(self, command: Command) -> str:
        """advance ms=500: time passes."""
        self.scene.advance(command.number("ms"))
        return self.scene.told()

    def verb_draw(self, command: Command) -> str:
        """draw low | high: from now on pauses are as short, or as long, as their range allows (at first: long)."""
        self.scene.early = command.words[0] == "low"
        return ""

    def verb_choose(self, command: Command) -> str:
        """choose 2: what the client is told from now on when it asks for a choice."""
        self.scene.choice = int(command.words[0])
        return ""

    # ---- brokers -----------------------------------------------------------------------------------------

    def verb_brokers(self, command: Command) -> str:
        """brokers [speak=(Api:1-4)] [alive=(1,2,3)] [transaction-version=2 [at=1]]: what brokers speak; which of them
        Metadata names; the finalized transaction.version, as of an offset of the metadata."""
        if "transaction-version" in command.arguments:
            level = command.number("transaction-version")
            self.scene.finalized = command.number("at", 1), {"transaction.version": level}
        self.scene.broker_ranges = self.scene.broker_ranges | ranges_of(command.many("speak", "()"))
        self.scene.brokers = command.numbers("alive", "(1,2,3)")
        return ""

    def verb_down(self, command: Command) -> str:
        """down broker-1 ...: requests to these brokers fail at once, and those under way too."""
        self.scene.down |= set(command.words)
        for name in list(self.scene.held):
            if name in self.scene.held and self.scene.held[name].peer in self.scene.down:
                self.scene.fail(name, "disconnect")
        return self.scene.told()

    def verb_up(self, command: Command) -> str:
        """up broker-1 ...: the contrary of down."""
        self.scene.down -= set(command.words)
        return ""

    def verb_leaders(self, command: Command) -> str:
        """leaders (1@5,2@0) [id=other-id] [metadata-epoch=-1]: leader and leader epoch per partition, as Metadata has
        them from now on."""
        self.scene.metadata_epoch = command.number("metadata-epoch", -1)
        listed = [leader_of(text) for text in command.words[0].strip("()").split(",") if text]
        self.scene.leaders = dict(enumerate(listed))
        self.scene.topic_id = command.text("id", TOPIC_ID)
        return ""

    # ---- ends of calls -----------------------------------------------------------------------------------

    def verb_fail(self, command: Command) -> str:
        """fail c1 [timeout]: the call ends without an answer, and its connection with it."""
        self.scene.fail(command.words[0], "timeout" if command.has("timeout") else "disconnect")
        return self.scene.told()

    def verb_answer(self, command: Command) -> str:
        """answer c1 [error=NAME] ...: a broker answers; what else may be said depends on the API."""
        call = self.scene.held[command.words[0]]
        error = int(KafkaError[command.text("error", "NONE")])
        request: Any = call.request
        version = request.header.api_version
        response: Any
        match api_of(call.request):
            case Api.Produce:
                response = self._produced(command, request, error)
            case Api.Fetch:
                response = self._fetched(command, request, error)
            case Api.ListOffsets:
                response = self._listed(command, request, error)
            case Api.OffsetForLeaderEpoch:
                response = self._epoch_ends(command, request, error)
            case (
                Api.ElectLeaders
                | Api.IncrementalAlterConfigs
                | Api.DescribeQuorum
                | Api.AddRaftVoter
                | Api.RemoveRaftVoter
            ):
                response = self._administered(command, request, error)
            case Api.DeleteRecords:
                response = self._deleted(command, request, error)
            case Api.InitProducerId:
                response = InitProducerIdResponse(error_code=error)
                response.producer_id = command.number("id", -1 if error else PRODUCER_ID)
                response.producer_epoch = command.number("epoch", -1 if error else 0)
            case Api.ApiVersions:
                offered = self.scene.broker_ranges | ranges_of(command.many("speak", "()"))
                response = self.scene.api_versions(offered, error)
            case api if api.name in TRANSACTION_APIS:
                response = transaction_answer(command, request, error)
            case api if api.name in GROUP_APIS:
                response = group_answer(command, request, error)
            case _:
                response = self._metadata(command, error, version)
        self.scene.answer(command.words[0], response)
        return self.scene.told()

    def _administered(self, command: Command, request: Any, error: int) -> Any:
        """answer c1 [error=NAME] [whole]: each part that was asked for, or the request as a ``whole``."""
        response: Any = error_response(request, KafkaError(error))
        if not command.has("whole") and isinstance(request, ElectLeadersRequest):
            response.error_code = 0
        if isinstance(request, DescribeQuorumRequest) and not command.has("whole"):
            response.error_code = 0
            voters = [
                DescribeQuorumResponse.ReplicaState(replica_id=voter, log_end_offset=end)
                for voter, end in ((101, 9), (102, 8))
            ]
            data = DescribeQuorumResponse.PartitionData(
                error_code=error, leader_id=101, leader_epoch=3, high_watermark=8, current_voters=voters
            )
            topic = DescribeQuorumResponse.TopicData(topic_name=request.topics[0].topic_name, partitions=[data])
            response.topics.append(topic)
        return response

    def _deleted(self, command: Command, request: DeleteRecordsRequest, error: int) -> DeleteRecordsResponse:
        """answer c1 [error=NAME] [partition=0]: each partition, or that one only so and the others with success."""
        response, only = DeleteRecordsResponse(), command.number("partition", -1)
        for asked in request.topics:
            topic = DeleteRecordsResponse.DeleteRecordsTopicResult(name=asked.name)
            response.topics.append(topic)
            for each in asked.partitions:
                failed = error if only in (-1, each.partition_index) else 0
                result = DeleteRecordsResponse.DeleteRecordsPartitionResult(
                    partition_index=each.partition_index, low_watermark=-1 if failed else max(each.offset, 0) + 1
                )
                result.error_code = failed
                topic.partitions.append(result)
        return response

    def verb_delete_records(self, command: Command) -> str:
        """delete-records orders-0@5 orders-1@-1: an operation of the admin client."""
        asked = (word.partition("@") for word in command.words)
        return self._invoke("delete-records", {"offsets": {tp: int(offset) for tp, _, offset in asked}})

    def verb_elect(self, command: Command) -> str:
        """elect preferred|unclean all|orders-0: an operation of the admin client."""
        kind, *named = command.words
        arguments = {"type": kind, "partitions": [] if named == ["all"] else named}
        return self._invoke("elect-leaders", arguments)

    def verb_configure(self, command: Command) -> str:
        """configure topic/orders broker/1 broker/ [set=(key:value)] [delete=(key)]: likewise."""
        values = dict(item.split(":") for item in command.many("set", "()"))
        arguments = {"resources": command.words, "set": values, "delete": command.many("delete", "()")}
        return self._invoke("alter-config", arguments)

    def verb_describe_quorum(self, command: Command) -> str:
        """describe-quorum: likewise."""
        return self._invoke("describe-quorum", {})

    def verb_add_voter(self, command: Command) -> str:
        """add-voter controller-4 directory=dir: likewise."""
        return self._invoke("add-voter", {"controller": command.words[0], "directory": command.text("directory")})

    def verb_remove_voter(self, command: Command) -> str:
        """remove-voter controller-4 directory=dir: likewise."""
        return self._invoke("remove-voter", {"controller": command.words[0], "directory": command.text("directory")})

    def _invoke(self, kind: str, arguments: dict[str, Any]) -> str:
        self.asked += 1
        self.scene.give(Invoked(f"operation-{self.asked}", kind, arguments))
        return self.scene.told()

    def _metadata(self, command: Command, error: int, version: int) -> MetadataResponse:
        """answer c1 [empty] [topic-error=NAME] [error=REBOOTSTRAP_REQUIRED]: see also leaders."""
        if error or command.has("empty"):
            return MetadataResponse(error_code=error) if version >= 13 else MetadataResponse()
        return self.scene.metadata(version, int(KafkaError[command.text("topic-error", "NONE")]))

    def _produced(self, command: Command, request: ProduceRequest, error: int) -> ProduceResponse:
        """answer c1 [offset=0] [partition=0] [leader=2@5] [log-start=0]: all partitions alike, or that one only so
        and the others with success."""
        response = ProduceResponse()
        only = command.number("partition", -1)
        leader = command.text("leader", "")
        offset = command.number("offset", -1)
        log_start = command.number("log-start", -1)
        for data in request.topic_data:
            topic = ProduceResponse.TopicProduceResponse()
            response.responses.append(topic)
            if data.topic_id:
                topic.topic_id = data.topic_id
            else:
                topic.name = data.name
            for each in data.partition_data:
                mine = error if only in (-1, each.index) else 0
                partition = ProduceResponse.PartitionProduceResponse(index=each.index, error_code=mine)
                topic.partition_responses.append(partition)
                if not mine:
                    partition.base_offset = offset
                elif log_start >= 0:
                    partition.log_start_offset = log_start
                if mine and leader:
                    leader_id, leader_epoch = leader_of(leader)
                    partition.current_leader = LeaderAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        for node_id in command.numbers("endpoints", "()"):
            response.node_endpoints.append(NodeEndpoint(node_id=node_id))
        return response

    def _fetched(self, command: Command, request: FetchRequest, error: int) -> FetchResponse:
        """answer c1 [batches=(0-4e0,5-5e1)] [control] [partition=0] [leader=2@5] [error=NAME] [session=7]: batches of
        one partition, the others being empty; records are numbered like their offsets. Or of that partition alone,
        whether it is in the request or not (of=0), of none (nothing), or an error of the whole (top=NAME)."""
        response = FetchResponse()
        if "session" in command.arguments:
            response.session_id = command.number("session")
        top = KafkaError[command.text("top", "NONE")]
        if top or command.has("nothing"):
            response.error_code = int(top)
            return response
        if "of" in command.arguments:
            request = FetchRequest()
            of = FetchRequest.FetchPartition(partition=command.number("of"))
            request.topics.append(FetchRequest.FetchTopic(topic_id=self.scene.topic_id, partitions=[of]))
        only = command.number("partition", -1)
        leader = command.text("leader", "")
        batches = [self._batch(text, command.has("control")) for text in command.many("batches", "()")]
        for asked in request.topics:
            topic = FetchResponse.FetchableTopicResponse(topic_id=asked.topic_id, topic=asked.topic)
            response.responses.append(topic)
            for each in asked.partitions:
                chosen = only in (-1, each.partition)
                data = FetchResponse.PartitionData(partition_index=each.partition, error_code=error if chosen else 0)
                topic.partitions.append(data)
                if chosen and not error:
                    data.records.extend(batches)
                if chosen and leader:
                    leader_id, leader_epoch = leader_of(leader)
                    data.current_leader = LeaderAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        return response

    @staticmethod
    def _batch(text: str, control: bool) -> RecordBatch:
        span, _, epoch = text.partition("e")
        first, _, last = span.partition("-")
        offsets = range(int(first), int(last or first) + 1)
        records = [Record(timestamp_ms=0, uid=f"producer-1:{offset}") for offset in offsets]
        return RecordBatch(
            base_offset=int(first), partition_leader_epoch=int(epoch), is_control=control, records=records
        )

    def _epoch_ends(
        self, command: Command, request: OffsetForLeaderEpochRequest, error: int
    ) -> OffsetForLeaderEpochResponse:
        """answer c1 [epoch=-1] [end=-1] [partition=0]."""
        response = OffsetForLeaderEpochResponse()
        only = command.number("partition", -1)
        epoch, end = command.number("epoch", -1), command.number("end", -1)
        for asked in request.topics:
            topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=asked.topic)
            response.topics.append(topic)
            for each in asked.partitions:
                if only in (-1, each.partition):
                    topic.partitions.append(
                        OffsetForLeaderEpochResponse.EpochEndOffset(
                            partition=each.partition, error_code=error, leader_epoch=epoch, end_offset=end
                        )
                    )
        return response

    def _listed(self, command: Command, request: ListOffsetsRequest, error: int) -> ListOffsetsResponse:
        """answer c1 [offset=7] [timestamp=-1] [epoch=-1] [partition=0]."""
        response = ListOffsetsResponse()
        only = command.number("partition", -1)
        offset, timestamp = command.number("offset", -1), command.number("timestamp", -1)
        epoch = command.number("epoch", -1)
        for asked in request.topics:
            topic = ListOffsetsResponse.ListOffsetsTopicResponse(name=asked.name)
            response.topics.append(topic)
            for each in asked.partitions:
                if only not in (-1, each.partition_index):
                    continue
                data = ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=each.partition_index, error_code=error
                )
                topic.partitions.append(data)
                data.offset, data.timestamp = offset, timestamp
                if request.header.api_version >= 4:
                    data.leader_epoch = epoch
        return response
