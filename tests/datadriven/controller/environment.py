"""Verbs of the controller's transcripts: real controllers, asked by brokers that the script plays.

A line with ``*`` is a change of the metadata log as its maker tells of it, with its offset: ``* 7 orders-0 leader=2
epoch=1/3 isr=[2,3] (fence)`` (leader epoch / partition epoch, and the cause); ``b1 <- ...`` is an answer to broker 1,
and ``b1 waits`` a request whose answer waits for a commit. Where there are several controllers, each line says whose
it is. Times are exact; unless the script configures it, no no-op record comes in between.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actors.metadata.metadata_state import ELR_FEATURE
from actors.node.spec import ClusterSpec, NodeSpec, TopicSpec, node_name, split_topic_partition
from actors.quorum.quorum_state import role_name
from actors.versions import default_ranges
from krift.v1.controller import AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest
from krift.v1.metadata import MetadataRequest
from krift.v1.producer_ids import AllocateProducerIdsRequest
from krift.v1.records import MetadataRecord
from krift.v1.wire import from_bytes
from tests.datadriven.admin import alter_configs_request, describe_quorum_request, elect_request, plain
from tests.datadriven.controller.rendering import describe_record
from tests.datadriven.controller.voters import Voter, Voters
from tests.datadriven.quorum.environment import full_name
from tests.datadriven.quorum.rendering import short
from tests.datadriven.runner import Command, parse_command
from tests.datadriven.topics import create_partitions_request, create_topics_request, delete_topics_request

VERSIONS = default_ranges()
HEARTBEAT_INTERVAL_MS = 2000

OPERATOR = 9
"""Number under which an operator asks, through whatever broker."""


def value_of(text: str) -> Any:
    """A configuration value as the script writes it."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


class Environment:
    """One transcript's controllers. ``epochs``: broker epochs as the brokers were told; ``silent``: those that do not
    heartbeat while time passes."""

    def __init__(self) -> None:
        self.voters = Voters()
        self.topics: list[TopicSpec] = []
        self.epochs: dict[int, int] = {}

    # ---- the cluster -------------------------------------------------------------------------------------

    def verb_topic(self, command: Command) -> str:
        """topic orders replicas=(1/2/3,2/3/1) [config=(key:value)]: a topic of the scenario; before ``start``."""
        replicas = [[int(broker) for broker in text.split("/")] for text in command.many("replicas")]
        pairs = (item.split(":") for item in command.many("config", "()"))
        name = command.words[0]
        self.topics.append(TopicSpec(name, f"id-{name}", replicas, {key: value_of(value) for key, value in pairs}))
        return ""

    def verb_start(self, command: Command) -> str:
        """start [voters=1] [spare=0] [config=(key:value)] [features=(name:value)] [elr] [defects=()]: all controllers
        start, and one becomes active. ``spare``: controllers that do not run. ``elr``: with eligible leader replicas,
        as a new cluster has."""
        config = {"metadata.max.idle.interval.ms": 0, "controller.quorum.append.linger.ms": 0}
        pairs = (item.split(":") for item in command.many("config", "()"))
        config |= {key: value_of(value) for key, value in pairs}
        features = {ELR_FEATURE: "1" if command.has("elr") else "0"}
        features |= dict(item.split(":") for item in command.many("features", "()"))
        ids = list(range(101, 101 + command.number("voters", 1)))
        spare = [ids[-1] + 1 + number for number in range(command.number("spare", 0))]
        cluster = ClusterSpec("krift", ids, [1, 2, 3], self.topics, spare)
        defects = command.many("defects", "()")
        for voter_id in ids:
            name = node_name(voter_id)
            spec = NodeSpec(
                name, "controller", voter_id, f"dir-{voter_id}", cluster, config, features, VERSIONS, defects=defects
            )
            self.voters.voters[name] = Voter(spec, self.voters)
        for name in list(self.voters.voters):
            self.voters.start(name)
        self.voters.run(command.number("ms", 1500))
        return self._active()

    def _active(self) -> str:
        name = self.voters.active
        told = self.voters.told()
        if not name:
            return told
        epoch = self.voters.voters[name].node.controller.active_epoch
        return f"{told}\n{short(name)} is active in epoch {epoch}"

    def verb_run(self, command: Command) -> str:
        """run ms=1000 [alive=(1,2)]: time passes, while the brokers named send a heartbeat every 2 s, the first one
        now. With ``active`` it ends with the name of the active controller."""
        left, alive = command.number("ms"), command.numbers("alive", "()")
        while left > 0:
            for broker in alive:
                self._ask(command, broker, self._beat(broker, self._latest()), 1)
            self.voters.run(min(left, HEARTBEAT_INTERVAL_MS))
            left -= HEARTBEAT_INTERVAL_MS
        if command.has("quiet"):
            changes = [line for line in self.voters.told().splitlines() if "* " in line]
            return "\n".join(changes)
        return self._active() if command.has("active") else self.voters.told()

    def verb_brokers_speak(self, command: Command) -> str:
        """brokers-speak (UpdateMetadata:0-4): what brokers speak that the controller tells of the cluster."""
        pairs = (item.split(":") for item in command.words[0].strip("()").split(","))
        ranges = {api: [int(bound) for bound in span.split("-")] for api, span in pairs}
        self.voters.broker_ranges = self.voters.broker_ranges | ranges
        return ""

    def verb_deaf(self, command: Command) -> str:
        """deaf 2: a broker answers nothing that a controller tells it."""
        self.voters.deaf = {f"broker-{word}" for word in command.words}
        return ""

    def verb_cut(self, command: Command) -> str:
        """cut c1: what it sends to the other controllers, and they to it, is held; brokers still reach it."""
        self.voters.cut |= {full_name(name) for name in command.words}
        return ""

    def verb_heal(self, command: Command) -> str:
        """heal: no cut is left, and what was held arrives."""
        self.voters.heal()
        return self.voters.told()

    def verb_crash(self, command: Command) -> str:
        """crash c1: kill a controller; its disk stays."""
        self.voters.crash(full_name(command.words[0]))
        return self.voters.told()

    def verb_restart(self, command: Command) -> str:
        """restart c1 [config=(key:value)]: it starts again with its disk, and perhaps another configuration."""
        voter = self.voters.voters[full_name(command.words[0])]
        pairs = (item.split(":") for item in command.many("config", "()"))
        config = voter.spec.config | {key: value_of(value) for key, value in pairs}
        voter.spec = msgspec.structs.replace(voter.spec, config=config)
        self.voters.start(voter.spec.name)
        return self.voters.told()

    def verb_disconnect(self, command: Command) -> str:
        """disconnect 1: a broker closes the connections on which it waits."""
        for connection, exchange in list(self.voters.exchanges.items()):
            if exchange.source == "test" and connection.startswith(f"b{command.words[0]}/"):
                self.voters.hang_up(connection)
        return self.voters.told()

    # ---- requests ----------------------------------------------------------------------------------------

    def _target(self, command: Command) -> str:
        name = command.text("to", "")
        return full_name(name) if name else self.voters.active

    def _latest(self) -> int:
        """The offset of the last committed record, which a broker that keeps up has."""
        return self.voters.voters[self.voters.active].node.controller.committed - 1

    def _ask(self, command: Command, broker: int, request: Any, version: int) -> str:
        target = self._target(command)
        connection = self.voters.ask(target, request, command.number("v", version), f"b{broker}")
        if connection not in self.voters.replies:
            self.voters.lines.append(f"b{broker} waits")
        return connection

    def verb_register(self, command: Command) -> str:
        """register 1 [incarnation=a] [previous=-1] [cluster=krift] [features=(name:low-high)] [v=4] [to=c1]: a broker
        registers; it takes the epoch it is given."""
        broker = int(command.words[0])
        incarnation = command.text("incarnation", "a")
        request = BrokerRegistrationRequest(
            broker_id=broker, cluster_id=command.text("cluster", "krift"), incarnation_id=incarnation
        )
        if command.number("v", 4) >= 3:
            request.previous_broker_epoch = command.number("previous", -1)
        for item in command.many("features", "()"):
            name, _, bounds = item.partition(":")
            low, high = (int(bound) for bound in bounds.split("-"))
            request.features.append(
                BrokerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
            )
        response: Any = self.voters.replies.get(self._ask(command, broker, request, 4))
        if response is not None and not response.error_code:
            self.epochs[broker] = response.broker_epoch
        return self.voters.told()

    def _beat(self, broker: int, offset: int) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=broker, broker_epoch=self.epochs.get(broker, 0), current_metadata_offset=offset
        )

    def verb_heartbeat(self, command: Command) -> str:
        """heartbeat 1 2 [epoch=..] [offset=..] [want-fence] [want-shut-down] [to=c1]: heartbeats; unless the script
        says so the broker has replayed the log up to the last committed record."""
        brokers = [int(word) for word in command.words if word.isdigit()]
        for broker in brokers:
            request = self._beat(broker, 0)
            offset = command.text("offset", "")
            request.current_metadata_offset = int(offset) if offset else self._latest()
            request.broker_epoch = command.number("epoch", request.broker_epoch)
            request.want_fence, request.want_shut_down = command.has("want-fence"), command.has("want-shut-down")
            self._ask(command, broker, request, 1)
        return self.voters.told()

    def verb_brokers_up(self, command: Command) -> str:
        """brokers-up 1 2 3: brokers register and are unfenced, without a word."""
        for word in command.words:
            self.verb_register(Command("register", [word], {}, [], command.line))
            told = self.verb_heartbeat(Command("heartbeat", [word], {}, [], command.line))
            assert told.endswith("unfenced caught-up"), told
        return ""

    def verb_alter(self, command: Command) -> str:
        """alter orders-0 from=1 isr=(1,2) [epochs=(5,-1)] [leader-epoch=..] [partition-epoch=..] [recovering]
        [broker-epoch=..] [v=3] [to=c1]: an AlterPartition; lines of input name further partitions in the same way.
        Epochs that are not given are those that the controller has."""
        broker = command.number("from")
        version = command.number("v", 3)
        request = AlterPartitionRequest(
            broker_id=broker, broker_epoch=command.number("broker-epoch", self.epochs.get(broker, -1))
        )
        self._proposal(request, command, self._target(command), version)
        for line in command.input:
            self._proposal(request, parse_command([f"and {line}"], command.line), self._target(command), version)
        self._ask(command, broker, request, 3)
        return self.voters.told()

    def _proposal(self, request: AlterPartitionRequest, command: Command, target: str, version: int) -> None:
        topic, index = split_topic_partition(command.words[0])
        known = self.voters.voters[target].node.controller.state.partition(f"id-{topic}", index)
        data = AlterPartitionRequest.PartitionData(
            partition_index=index,
            leader_epoch=command.number("leader-epoch", known.leader_epoch if known else 0),
            partition_epoch=command.number("partition-epoch", known.partition_epoch if known else 0),
            leader_recovery_state=1 if command.has("recovering") else 0,
        )
        request.topics.append(AlterPartitionRequest.TopicData(topic_id=f"id-{topic}", partitions=[data]))
        isr = command.numbers("isr")
        if version < 3:
            data.new_isr.extend(isr)
            return
        epochs = command.numbers("epochs", plain([self.epochs.get(member, -1) for member in isr]).strip("[]"))
        for member, epoch in zip(isr, epochs, strict=True):
            data.new_isr_with_epochs.append(AlterPartitionRequest.BrokerState(broker_id=member, broker_epoch=epoch))

    def verb_allocate(self, command: Command) -> str:
        """allocate 1 [epoch=..] [to=c1]: a broker wants a block of producer ids."""
        broker = int(command.words[0])
        epoch = command.number("epoch", self.epochs.get(broker, -1))
        self._ask(command, broker, AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch), 0)
        return self.voters.told()

    def verb_elect(self, command: Command) -> str:
        """elect preferred|unclean all|orders-0 payments-0 [v=2] [to=c1]: an operator asks for elections."""
        self._ask(command, OPERATOR, elect_request(command), 2)
        return self.voters.told()

    def verb_configure(self, command: Command) -> str:
        """configure topic/orders [broker/1 broker/] [set=(key:value)] [delete=(key)] [append=(key:value)]
        [subtract=(key:value)] [operation=(9:key)] [validate-only] [v=1] [to=c1]: an operator changes the configuration
        of topics, brokers, or all brokers (``broker/``)."""
        self._ask(command, OPERATOR, alter_configs_request(command), 1)
        return self.voters.told()

    def verb_create_topics(self, command: Command) -> str:
        """create-topics orders [partitions=-1] [replicas=-1] [assign=(1/2,2/3)] [indexes=(0,1)] [config=(key:value)]
        [null=(key)] [validate-only] [v=7] [to=c1]: an operator creates topics; lines of input name further ones."""
        self._ask(command, OPERATOR, create_topics_request(command), 7)
        return self.voters.told()

    def verb_delete_topics(self, command: Command) -> str:
        """delete-topics orders id:payments id:?Xyz both:orders none: [v=6] [to=c1]: an operator deletes topics, by
        name or by id."""
        ids = self._voter(command).node.controller.state.topic_ids
        self._ask(command, OPERATOR, delete_topics_request(command, ids), 6)
        return self.voters.told()

    def verb_create_partitions(self, command: Command) -> str:
        """create-partitions orders count=4 [assign=(1/2)] [validate-only] [v=3] [to=c1]: an operator adds partitions;
        lines of input name further topics."""
        self._ask(command, OPERATOR, create_partitions_request(command), 3)
        return self.voters.told()

    def verb_topics(self, command: Command) -> str:
        """topics [to=c1]: topics with their ids, and those that were removed."""
        state = self._voter(command).node.controller.state
        lines = [f"{topic.name} {topic.topic_id} {topic.partitions}" for topic in state.topics.values()]
        return "\n".join([*lines, *(f"{name} {topic_id} removed" for topic_id, name in state.removed.items())])

    def verb_describe_quorum(self, command: Command) -> str:
        """describe-quorum [topic=__cluster_metadata] [partition=0] [v=2] [to=c1]: a look at the quorum."""
        self._ask(command, OPERATOR, describe_quorum_request(command), 2)
        return self.voters.told()

    def verb_configs(self, command: Command) -> str:
        """configs [to=c1]: the dynamic configuration that a controller holds."""
        configs = self._voter(command).node.controller.state.configs
        return "\n".join(f"{each} {key}={text}" for each in configs for key, text in configs[each].items())

    def verb_metadata(self, command: Command) -> str:
        """metadata 1 [to=c1]: a request that only brokers serve."""
        self._ask(command, int(command.words[0]), MetadataRequest(), 12)
        return self.voters.told()

    # ---- looking -----------------------------------------------------------------------------------------

    def _voter(self, command: Command) -> Voter:
        return self.voters.voters[self._target(command)]

    def verb_partitions(self, command: Command) -> str:
        """partitions [to=c1]: what a controller holds."""
        lines = []
        for partition in self._voter(command).node.controller.state.partitions.values():
            recovering = " recovering" if partition.leader_recovery_state else ""
            elr = f" elr={plain(partition.elr)}" if partition.elr else ""
            elr += f" last-known={plain(partition.last_known_elr)}" if partition.last_known_elr else ""
            lines.append(
                f"{partition.tp} leader={partition.leader} epoch={partition.leader_epoch}/{partition.partition_epoch}"
                f" isr={plain(partition.isr)} of {plain(partition.replicas)}{elr}{recovering}"
            )
        return "\n".join(lines)

    def verb_brokers(self, command: Command) -> str:
        """brokers [to=c1]: what a controller holds, and for how long their sessions last (the active one only)."""
        controller = self._voter(command).node.controller
        lines = []
        for broker in controller.state.brokers.values():
            fenced = "fenced" if broker.fenced else "unfenced"
            shutting_down = " shutting-down" if broker.in_controlled_shutdown else ""
            session = controller.heartbeats.sessions.get(broker.id) if controller.active else None
            end = f" session-until={session.contact_ms + controller.config.session_timeout_ms}" if session else ""
            incarnation = f"incarnation={broker.incarnation_id} registered-at={broker.offset}"
            lines.append(f"{broker.id}@{broker.epoch} {fenced}{shutting_down} {incarnation}{end}")
        return "\n".join(lines)

    def verb_controllers(self, command: Command) -> str:
        """controllers: role in the quorum, whether active, committed and end of the log."""
        lines = []
        for name, voter in self.voters.voters.items():
            raft, controller = voter.node.raft, voter.node.controller
            if voter.up:
                active = "active" if controller.active else "standby"
                role = f"{role_name(raft.quorum.role)} epoch={raft.epoch}"
                lines.append(f"{short(name)} {role} {active} committed={controller.committed} end={raft.end_offset}")
        return "\n".join(lines)

    def verb_log(self, command: Command) -> str:
        """log [from=0] [to=c1]: records of the metadata log."""
        lines = []
        for batch in self._voter(command).node.raft.log.batches:
            for index, record in enumerate(batch.records):
                offset = batch.base_offset + index
                told = "control" if batch.is_control else describe_record(from_bytes(MetadataRecord, record.value))
                if offset >= command.number("from", 0):
                    lines.append(f"{offset} e{batch.epoch} {told}")
        return "\n".join(lines)

    def verb_now(self, command: Command) -> str:
        """now: the time."""
        return str(self.voters.now)
