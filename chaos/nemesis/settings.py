"""What a drawn cluster is set to: timers, features, configuration, and what its nodes speak."""

from __future__ import annotations

import random
from collections.abc import Mapping

from actors.features import AS_KAFKA, KIP_232
from actors.node.messages import API_NAMES, Api
from actors.quorum.raft_config import DIRECTORY_VERSIONS, DIVERGENCE_FEATURE, KRAFT_VERSION_FEATURE
from actors.versions import API_VERSIONS
from chaos.nemesis.model import NOTHING, Nemesis, Timers
from chaos.nemesis.scene import Cast, Part, Scene, pick, stream
from chaos.scenario.yaml_tree import parse_scalar

TIMERS: dict[Timers, dict[str, int]] = {
    "kafka": {},
    "quick": {
        "controller.quorum.election.timeout.ms": 300,
        "controller.quorum.fetch.timeout.ms": 1000,
        "controller.quorum.request.timeout.ms": 1000,
        "controller.quorum.election.backoff.max.ms": 300,
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "replica.lag.time.max.ms": 4000,
        "replica.fetch.backoff.ms": 200,
        "replica.socket.timeout.ms": 2000,
        "request.timeout.ms": 2000,
        "reconnect.backoff.max.ms": 500,
    },
    "hasty": {
        "controller.quorum.election.timeout.ms": 200,
        "controller.quorum.fetch.timeout.ms": 700,
        "controller.quorum.request.timeout.ms": 700,
        "controller.quorum.election.backoff.max.ms": 200,
        "broker.session.timeout.ms": 600,
        "broker.heartbeat.interval.ms": 150,
        "replica.lag.time.max.ms": 500,
        "replica.fetch.wait.max.ms": 100,
        "replica.fetch.backoff.ms": 100,
        "replica.socket.timeout.ms": 1000,
        "request.timeout.ms": 1000,
        "reconnect.backoff.max.ms": 500,
    },
}
"""Time-outs: a run of seconds sees the end of few of Kafka's own, and no stability window in it is as long as their
sum. Those of the quorum stay above the 500 ms that a voter's Fetch may wait: with less, leaders change without any
fault."""

CLIENT_TIMERS = ("request.timeout.ms", "reconnect.backoff.max.ms")
"""What clients have of them."""

GROUP_TIMERS: dict[Timers, dict[str, int]] = {
    "kafka": {},
    "quick": {"group.initial.rebalance.delay.ms": 500, "group.min.session.timeout.ms": 1000},
    "hasty": {"group.initial.rebalance.delay.ms": 100, "group.min.session.timeout.ms": 300},
}
"""What brokers have beside that where there is a group."""

MEMBER_TIMERS: dict[Timers, dict[str, int]] = {
    "kafka": {},
    "quick": {
        "session.timeout.ms": 2500,
        "heartbeat.interval.ms": 500,
        "max.poll.interval.ms": 3000,
        "auto.commit.interval.ms": 700,
    },
    "hasty": {
        "session.timeout.ms": 900,
        "heartbeat.interval.ms": 200,
        "max.poll.interval.ms": 1200,
        "auto.commit.interval.ms": 200,
    },
}
"""And what its members have."""

TIER_TIMERS: dict[Timers, dict[str, int]] = {
    "kafka": {},
    "quick": {
        "remote.log.manager.task.interval.ms": 500,
        "rlmm.config.remote.log.metadata.consume.wait.ms": 5000,
        "log.retention.check.interval.ms": 1000,
        "log.initial.task.delay.ms": 1000,
    },
    "hasty": {
        "remote.log.manager.task.interval.ms": 200,
        "rlmm.config.remote.log.metadata.consume.wait.ms": 2000,
        "log.retention.check.interval.ms": 500,
        "log.initial.task.delay.ms": 500,
    },
}
"""What brokers have beside that where there is a remote store."""

PROPAGATION = "metadata.propagation"
OFFSETS_PARTITIONS = "offsets.topic.num.partitions"

OLDER: dict[str, dict[Api, int]] = {
    "controller": {Api.Vote: 0},
    "broker": {Api.Fetch: 12, Api.ListOffsets: 7},
}
"""Kind of server -> what it speaks of an API when it is an older one: up to something from here on. With less, KRaft or
the drawn clients (max-timestamp is of ListOffsets version 7) cannot work."""


OF_TIERS = {Api.ListOffsets: 8}
"""With less, a follower of a tiered log cannot ask for the earliest local offset, and never catches up."""
ANOTHER_CLUSTER = "another"
"""Id of the cluster that strangers belong to."""


def features_of(nemesis: Nemesis, seed: int) -> dict[str, str]:
    """A value for each feature that the nemesis has weights for."""
    draw = stream(nemesis.name, seed, "features")
    found = {name: pick(draw, values) for name, values in nemesis.features.items()}
    return _with_directories(found) if found.get(KRAFT_VERSION_FEATURE) == "1" else found


def with_epochs(features: dict[str, str], config: Part) -> dict[str, str]:
    """Metadata epochs count what controllers push: where they push nothing, there are none."""
    if features.get(KIP_232) == "seed" and config.get(PROPAGATION) != "push":
        return {**features, KIP_232: AS_KAFKA}
    return features


def _with_directories(features: dict[str, str]) -> dict[str, str]:
    """A Fetch as KIP-595 first proposed it tells no directory, so voters that are known by theirs do not use it."""
    return {**features, DIVERGENCE_FEATURE: "kafka"} if DIVERGENCE_FEATURE in features else features


def config_of(nemesis: Nemesis, seed: int, timers: Timers) -> Part:
    """Of controllers and brokers. Each key has a stream of its own."""
    config: Part = dict(TIMERS[timers])
    for key, values in nemesis.config.items():
        value = pick(stream(nemesis.name, seed, f"config/{key}"), values)
        if value != NOTHING:
            config[key] = parse_scalar(value)
    return config


def client_config(timers: Timers) -> Part:
    """The timers of a client."""
    return {key: value for key, value in TIMERS[timers].items() if key in CLIENT_TIMERS}


def older_versions(draw: random.Random, kind: str, cast: Cast) -> dict[str, str]:
    """What an older controller or broker speaks."""
    found = {}
    for api, least in OLDER[kind].items():
        if cast.changing:
            least = max(least, DIRECTORY_VERSIONS.get(api, 0))
        if cast.remote_store:
            least = max(least, OF_TIERS.get(api, 0))
        low, high = API_VERSIONS[api]
        found[API_NAMES[api]] = f"{low}-{draw.randint(least, high - 1)}"
    return found


def newest_versions(kind: str) -> dict[str, str]:
    """The same APIs, in all versions."""
    return {API_NAMES[api]: "{}-{}".format(*API_VERSIONS[api]) for api in OLDER[kind]}


def server_overrides(nemesis: Nemesis, seed: int, cast: Cast) -> Part:
    """``nodes`` of the scenario: the servers that are older, and the voters of another cluster."""
    found: Part = {name: {"cluster-id": ANOTHER_CLUSTER} for name in cast.strangers}
    draw = stream(nemesis.name, seed, "versions/servers")
    for name in cast.servers:
        if pick(draw, nemesis.versions.servers) == "older":
            found.setdefault(name, {})["versions"] = older_versions(draw, name.partition("-")[0], cast)
    return found


def strangers_of(nemesis: Nemesis, seed: int, voters: list[str]) -> list[str]:
    """The voters whose disks belong to another cluster."""
    draw = stream(nemesis.name, seed, "strangers")
    number = min(pick(draw, nemesis.shape.strangers), (len(voters) - 1) // 2)
    return sorted(draw.sample(voters, number))


def client_versions(
    draw: random.Random, nemesis: Nemesis, *apis: Api, needs: Mapping[Api, int] | None = None
) -> dict[str, str]:
    """What a client speaks of some APIs, where that is not everything. ``needs``: of an API the version that it cannot
    do without."""
    found = {}
    for api in apis:
        low, high = API_VERSIONS[api]
        newest = draw.randint(max(low, (needs or {}).get(api, low)), high)
        if pick(draw, nemesis.versions.clients) == "older":
            found[API_NAMES[api]] = f"{low}-{newest}"
    return found


def bounce_settings(scene: Scene, targets: str) -> Part:
    """What nodes have otherwise after a rolling bounce."""
    to = scene.pick(scene.nemesis.like.bounce_to)
    kinds = [kind for kind in OLDER if targets == "all" or targets.startswith(kind)]
    if to == "features":
        # The level of one of Kafka's own features is the whole cluster's: no restart changes it. Nor does one bring
        # metadata epochs, which take two bounces.
        given = scene.nemesis.features.items()
        own = {name: values for name, values in given if not name.endswith(".version") and name != KIP_232}
        drawn = {name: scene.pick(values) for name, values in own.items()}
        return {"features": _with_directories(drawn) if scene.cast.changing else drawn}
    if to == "newest":
        return {"versions": {name: text for kind in kinds for name, text in newest_versions(kind).items()}}
    if to == "older":
        older = [older_versions(scene.draw, kind, scene.cast) for kind in kinds]
        return {"versions": {name: text for each in older for name, text in each.items()}}
    return {}
