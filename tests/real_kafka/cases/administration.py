"""Configuration and changes of the voters: what is refused, and by whom."""

from __future__ import annotations

from typing import Any

from tests.real_kafka.cluster import Cluster, Connection, Fields, Topic, call
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import NOBODY, describe_quorum, error

NAME = "administered"
TOPICS = {NAME: Topic([[1, 2, 3]])}
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """Of a broker, which passes most of it on; and of controllers."""
    broker = cluster.connect(1)
    _ask_configs(broker, outcomes)
    leader = describe_quorum(broker).topics[0].partitions[0].leader_id
    follower = next(each for each in (101, 102, 103) if each != leader)
    for who, node in (("broker", 1), ("leader", leader), ("follower", follower)):
        _ask_voters(cluster.connect(node), who, cluster.cluster_id, outcomes)


def _alter(connection: Connection, *resources: tuple[int, str, list[Fields]], validate_only: bool = False) -> str:
    asked = [{"resource_type": kind, "resource_name": name, "configs": keys} for kind, name, keys in resources]
    answer = call(connection, "IncrementalAlterConfigs", 1, resources=asked, validate_only=validate_only)
    told = sorted((each.resource_type, each.resource_name, int(each.error_code)) for each in answer.responses)
    return ", ".join(f"{kind}/{name} {error(code)}" for kind, name, code in told)


def _key(name: str, value: str | None = None, operation: int = SET) -> Fields:
    return {"name": name, "config_operation": operation, "value": value}


def _ask_configs(broker: Connection, outcomes: Outcomes) -> None:
    least = "min.insync.replicas"
    questions: dict[str, Any] = {
        "append to a number": [(TOPIC, NAME, [_key(least, "1", APPEND)])],
        "subtract from a number": [(TOPIC, NAME, [_key(least, "1", SUBTRACT)])],
        "an operation that is none": [(TOPIC, NAME, [_key(least, "1", 9)])],
        "no value": [(TOPIC, NAME, [_key(least)])],
        "delete what is not set": [(TOPIC, NAME, [_key(least, operation=DELETE)])],
        "delete a key that is none": [(TOPIC, NAME, [_key("no.such", operation=DELETE)])],
        "a key twice": [(TOPIC, NAME, [_key(least, "1"), _key(least, "2")])],
        "a topic twice": [(TOPIC, NAME, [_key(least, "1")]), (TOPIC, NAME, [_key(least, "2")])],
        "no topic": [(TOPIC, "", [_key(least, "1")])],
        "a kind that is none": [(77, NAME, [_key(least, "1")])],
        "a broker that does not exist": [(BROKER, "9", [_key("num.io.threads", "4")])],
        "another broker": [(BROKER, "2", [_key("num.io.threads", "4")])],
        "a broker that is no number": [(BROKER, "one", [_key("num.io.threads", "4")])],
        "a broker's key that needs a restart": [(BROKER, "1", [_key("replica.lag.time.max.ms", "4000")])],
        "a broker's value that is none": [(BROKER, "1", [_key("num.io.threads", "many")])],
        "a key of brokers at a topic": [(TOPIC, NAME, [_key("num.io.threads", "4")])],
        "a good topic beside an unknown one": [(TOPIC, NAME, [_key(least, "1")]), (TOPIC, "nope", [_key(least, "1")])],
        "one good key beside a bad one": [(TOPIC, NAME, [_key(least, "1"), _key("max.message.bytes", "x")])],
        "nothing at all": [],
        "a topic without keys": [(TOPIC, NAME, [])],
        "least ISR of one broker": [(BROKER, "1", [_key(least, "1")])],
        "the cluster's least ISR": [(BROKER, "", [_key(least, "1")])],
        "no least ISR of the cluster": [(BROKER, "", [_key(least, operation=DELETE)])],
    }
    for question, resources in questions.items():
        outcomes.ask(question, lambda resources=resources: _alter(broker, *resources))
    tried = _alter(broker, (TOPIC, NAME, [_key(least, "x")]), validate_only=True)
    outcomes.say("a bad value, to be validated only", tried)


def _ask_voters(connection: Connection, who: str, cluster_id: str, outcomes: Outcomes) -> None:
    """The voters are static here: kraft.version is 0."""
    added: Fields = {"timeout_ms": 1000, "voter_id": 104, "voter_directory_id": None, "listeners": []}
    for question, cluster in (("", cluster_id), (" of another cluster", "nope"), (" without a cluster", None)):
        outcomes.ask(
            f"AddRaftVoter{question} at the {who}",
            lambda cluster=cluster: error(call(connection, "AddRaftVoter", 0, cluster_id=cluster, **added).error_code),
        )
        removed = {"cluster_id": cluster, "voter_id": 103, "voter_directory_id": None}
        outcomes.ask(
            f"RemoveRaftVoter{question} at the {who}",
            lambda removed=removed: error(call(connection, "RemoveRaftVoter", 0, **removed).error_code),
        )
    named = {"cluster_id": cluster_id, "voter_id": 103, "voter_directory_id": NOBODY}
    answer = call(connection, "RemoveRaftVoter", 0, **named)
    outcomes.say(f"RemoveRaftVoter with a directory at the {who}", error(answer.error_code))
