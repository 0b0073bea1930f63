"""What the controller refuses of brokers, and a controller that does not lead of anybody."""

from __future__ import annotations

import uuid

from tests.real_kafka.cluster import Cluster, Connection, Fields, Topic, call
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import NOBODY, describe_quorum, error, metadata

NAME = "brokers"
TOPICS = {NAME: Topic([[1, 2, 3]])}
STALE = 999_999
STRANGER = 9


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """Of the active controller, and of another one."""
    broker = cluster.connect(1)
    leader = describe_quorum(broker).topics[0].partitions[0].leader_id
    follower = next(each for each in (101, 102, 103) if each != leader)
    topic_id = metadata(broker, NAME).topics[0].topic_id
    for who, node in (("active controller", leader), ("other controller", follower)):
        controller = cluster.connect(node)
        _ask_about_brokers(controller, who, topic_id, outcomes)
        _ask_registration(controller, who, cluster.cluster_id, outcomes)
        elected = call(controller, "ElectLeaders", 2, election_type=0, topic_partitions=None, timeout_ms=1000)
        outcomes.say(f"ElectLeaders at the {who}", error(elected.error_code))


def _ask_about_brokers(controller: Connection, who: str, topic_id: object, outcomes: Outcomes) -> None:
    partition: Fields = {"partition_index": 0, "leader_epoch": 0, "leader_recovery_state": 0, "partition_epoch": 0}
    partition["new_isr_with_epochs"] = [{"broker_id": 1, "broker_epoch": -1}]
    for broker, epoch in ((1, STALE), (1, -1), (STRANGER, STALE)):
        whose = f"of broker {broker} in epoch {epoch} at the {who}"
        beat: Fields = {"broker_id": broker, "broker_epoch": epoch, "current_metadata_offset": 0}
        answer = call(controller, "BrokerHeartbeat", 0, **beat, want_fence=False, want_shut_down=False)
        outcomes.say(f"BrokerHeartbeat {whose}", error(answer.error_code))
        answer = call(controller, "AllocateProducerIds", 0, broker_id=broker, broker_epoch=epoch)
        outcomes.say(f"AllocateProducerIds {whose}", error(answer.error_code))
        for what, asked in (("", topic_id), (" of an unknown topic", NOBODY)):
            topics = [{"topic_id": asked, "partitions": [partition]}]
            answer = call(controller, "AlterPartition", 3, broker_id=broker, broker_epoch=epoch, topics=topics)
            inner = [error(data.error_code) for topic in answer.topics for data in topic.partitions]
            outcomes.say(f"AlterPartition{what} {whose}", f"{error(answer.error_code)} {inner}")


def _ask_registration(controller: Connection, who: str, cluster_id: str, outcomes: Outcomes) -> None:
    """Of a broker that is alive, and of one of another cluster."""
    incarnation = uuid.UUID(int=4711)
    for question, broker, cluster in (("a broker that is alive", 1, cluster_id), ("another cluster", STRANGER, "nope")):
        asked: Fields = {"broker_id": broker, "cluster_id": cluster, "incarnation_id": incarnation, "features": []}
        answer = call(controller, "BrokerRegistration", 0, **asked)
        told = f"{error(answer.error_code)} epoch={answer.broker_epoch}"
        outcomes.say(f"BrokerRegistration of {question} at the {who}", told)
