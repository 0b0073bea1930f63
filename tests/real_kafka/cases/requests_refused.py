"""Versions that are spoken, and requests that cannot be served."""

from __future__ import annotations

from tests.real_kafka.cluster import Cluster, Connection, Topic, call
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import error

TOPICS: dict[str, Topic] = {}
KEYS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "ApiVersions": 18,
    "InitProducerId": 22,
    "OffsetForLeaderEpoch": 23,
    "ElectLeaders": 43,
    "IncrementalAlterConfigs": 44,
    "Vote": 52,
    "BeginQuorumEpoch": 53,
    "EndQuorumEpoch": 54,
    "DescribeQuorum": 55,
    "AlterPartition": 56,
    "FetchSnapshot": 59,
    "BrokerRegistration": 62,
    "BrokerHeartbeat": 63,
    "AllocateProducerIds": 67,
    "AddRaftVoter": 80,
    "RemoveRaftVoter": 81,
    "UpdateRaftVoter": 82,
}


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """Of a broker, and of a controller."""
    for api, version in (("Produce", 2), ("Fetch", 3), ("ListOffsets", 0), ("ApiVersions", 99)):
        outcomes.ask(f"{api} {version}", lambda api=api, version=version: cluster.connect(1).unsupported(api, version))
    _ask_ranges(cluster.connect(1), "broker", outcomes)
    _ask_ranges(cluster.connect(101), "controller", outcomes)
    connection = cluster.connect(1)
    answer = call(connection, "ApiVersions", 3, client_software_name="", client_software_version="")
    outcomes.say("ApiVersions without a name", error(answer.error_code))
    answer = call(connection, "ApiVersions", 4, client_software_name="a b", client_software_version="1")
    outcomes.say("ApiVersions with a wrong name", error(answer.error_code))


def _ask_ranges(connection: Connection, who: str, outcomes: Outcomes) -> None:
    answer = call(connection, "ApiVersions", 3, client_software_name="krift", client_software_version="1")
    spoken = {each.api_key: f"{each.min_version}-{each.max_version}" for each in answer.api_keys}
    for api, key in KEYS.items():
        outcomes.say(f"{api} of a {who}", spoken.get(key))
