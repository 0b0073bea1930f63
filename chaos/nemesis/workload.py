"""The clients of a drawn scenario."""

from __future__ import annotations

import random

from actors.node.messages import Api
from chaos.nemesis.model import NOTHING, Acks, Nemesis, Timers
from chaos.nemesis.scene import Part, pick, stream
from chaos.nemesis.settings import MEMBER_TIMERS, client_config, client_versions
from chaos.scenario.durations import format_duration, parse_rate
from chaos.scenario.yaml_tree import parse_scalar

RECORDS_MAX = 2_000
"""Records of a run, about."""
AROUND_US = 8_000_000
"""What a run takes apart from its chaos, mostly less: producers send all the while."""

ACKS: dict[Acks, Part] = {
    "idempotent": {"acks": "all", "idempotent": True},
    "all": {"acks": "all", "idempotent": False},
    "1": {"acks": 1, "idempotent": False},
    "0": {"acks": 0, "idempotent": False},
}
METADATA_WITH_IDS = 10
"""The first version of Metadata whose answers have topic ids."""
OF_MEMBERS = (
    Api.Fetch,
    Api.FindCoordinator,
    Api.JoinGroup,
    Api.SyncGroup,
    Api.Heartbeat,
    Api.LeaveGroup,
    Api.OffsetCommit,
    Api.OffsetFetch,
)
"""What an older member of a group may speak in older versions."""
OF_STATIC_MEMBERS = {Api.JoinGroup: 5, Api.SyncGroup: 3, Api.Heartbeat: 3, Api.LeaveGroup: 3, Api.OffsetCommit: 7}
"""The versions that a static member needs: with older ones it cannot say who it is."""
GROUP = "billing"
"""The group of a drawn scenario, if it has one."""
PATIENCE = 2
"""The session of a patient member, as many times its max.poll.interval.ms: who is silent is given up by the rebalance
time-out, not by its session."""
NEEDS = {"read_uncommitted": 1, "read_committed": 2, "max-timestamp": 7}
"""The version of ListOffsets that a question needs."""


def workload_of(nemesis: Nemesis, seed: int, topic: str, brokers: int, timers: Timers, chaos_us: int) -> list[Part]:
    """Entries of the workload: producers, consumers, probers, at least one of each of the first two."""
    kinds = nemesis.workload
    counts = stream(nemesis.name, seed, "workload")
    producers, consumers, probers = (
        pick(counts, weights) for weights in (kinds.producers, kinds.consumers, kinds.probers)
    )
    entries: list[Part] = []
    for number in range(max(1, producers)):
        draw = stream(nemesis.name, seed, f"workload/producer/{number}")
        entries.append({"producer": _producer(draw, nemesis, topic, timers, max(1, producers), chaos_us)})
    for number in range(max(1, consumers)):
        draw = stream(nemesis.name, seed, f"workload/consumer/{number}")
        outside = _external(stream(nemesis.name, seed, f"workload/external/{number}"), nemesis)
        entries.append({"consumer": {**_consumer(draw, nemesis, topic, timers), **outside}})
    for number in range(probers):
        draw = stream(nemesis.name, seed, f"workload/prober/{number}")
        entries.append({"list-offsets": _prober(draw, nemesis, topic, brokers, timers)})
    return [*entries, *_members(nemesis, seed, topic, timers)]


def members_of(workload: list[Part]) -> list[str]:
    """Names that the members of the group will have."""
    named = zip(client_names(workload), workload, strict=True)
    return [name for name, entry in named if "group" in entry.get("consumer", {})]


def keepers_of(workload: list[Part]) -> list[str]:
    """Names that the consumers will have which keep their offsets outside Kafka."""
    named = zip(client_names(workload), workload, strict=True)
    return [name for name, entry in named if "external-offsets" in entry.get("consumer", {})]


def client_names(workload: list[Part]) -> list[str]:
    """Names that the clients will have."""
    numbers: dict[str, int] = {}
    names = []
    for entry in workload:
        (kind,) = entry
        numbers[kind] = numbers.get(kind, 0) + 1
        names.append(f"{kind}-{numbers[kind]}")
    return names


def tell_topics_apart(workload: list[Part]) -> None:
    """Where a topic may come after another one of its name, clients are told the ids of topics: nobody could say which
    of the two one means that is not."""
    for entry in workload:
        (client,) = entry.values()
        low, _, high = client.get("versions", {}).get("Metadata", "").partition("-")
        if high and int(high) < METADATA_WITH_IDS:
            client["versions"]["Metadata"] = f"{low}-{METADATA_WITH_IDS}"


def _producer(draw: random.Random, nemesis: Nemesis, topic: str, timers: Timers, producers: int, chaos_us: int) -> Part:
    kinds = nemesis.workload
    config = {**client_config(timers), "linger.ms": pick(draw, kinds.linger) // 1000}
    config["delivery.timeout.ms"] = max(
        pick(draw, kinds.delivery) // 1000, config["linger.ms"] + config.get("request.timeout.ms", 30_000)
    )
    wanted = parse_rate(pick(draw, kinds.rate))
    # As many records as a run may have, over all producers and all of its time.
    most = RECORDS_MAX * 1_000_000 / (chaos_us + AROUND_US) / producers
    producer: Part = {
        "topic": topic,
        "rate": f"{max(1, int(min(wanted, most)))}/s",
        **ACKS[pick(draw, kinds.acks)],
        "versions": client_versions(draw, nemesis, Api.Produce, Api.Metadata, Api.InitProducerId),
        "config": config,
    }
    retries = pick(draw, kinds.retries)
    if retries != NOTHING:
        config["retries"] = parse_scalar(retries)
    return producer


def _consumer(draw: random.Random, nemesis: Nemesis, topic: str, timers: Timers) -> Part:
    isolation = pick(draw, nemesis.workload.isolation)
    least = NEEDS[isolation]
    return {
        "topic": topic,
        "isolation": isolation,
        "versions": client_versions(
            draw, nemesis, Api.Fetch, Api.ListOffsets, Api.Metadata, needs={Api.ListOffsets: least}
        ),
        "config": client_config(timers),
    }


def _external(draw: random.Random, nemesis: Nemesis) -> Part:
    """Where a consumer keeps its positions, if that is not in its memory alone."""
    if pick(draw, nemesis.workload.external) == "no":
        return {}
    return {"external-offsets": {"every": format_duration(draw.choice((50, 200, 1000)) * 1000)}}


def _members(nemesis: Nemesis, seed: int, topic: str, timers: Timers) -> list[Part]:
    """The members of a group. All of them have the assignor, without which they could not agree on one."""
    draw = stream(nemesis.name, seed, "workload/group")
    number, assignor = pick(draw, nemesis.workload.members), pick(draw, nemesis.workload.assignor)
    of_all: Part = {"partition.assignment.strategy": assignor, **MEMBER_TIMERS[timers]}
    patient = pick(stream(nemesis.name, seed, "workload/patience"), nemesis.workload.patience) == "yes"
    if patient and MEMBER_TIMERS[timers]:
        of_all["session.timeout.ms"] = PATIENCE * MEMBER_TIMERS[timers]["max.poll.interval.ms"]
    return [
        {
            "consumer": _member(
                stream(nemesis.name, seed, f"workload/member/{each}"), nemesis, topic, timers, of_all, each
            )
        }
        for each in range(number)
    ]


def _member(draw: random.Random, nemesis: Nemesis, topic: str, timers: Timers, of_all: Part, number: int) -> Part:
    kinds = nemesis.workload
    config = {**client_config(timers), **of_all}
    commit = pick(draw, kinds.commit)
    member: Part = {"topic": topic, "group": GROUP, "commit": commit, "config": config}
    every, interval_ms = draw.choice((200, 700)), MEMBER_TIMERS[timers].get("max.poll.interval.ms", 4000)
    if commit != "auto":
        member["commit-every"] = format_duration(every * 1000)
    if pick(draw, kinds.static) == "yes":
        config["group.instance.id"] = f"member-{number}"
    if pick(draw, kinds.stall) == "yes":
        lasts = draw.randint(interval_ms // 4, 2 * interval_ms)
        member["stall"] = {
            "every": format_duration(draw.randint(2000, 6000) * 1000),
            "lasts": format_duration(lasts * 1000),
        }
    if pick(draw, kinds.absence) == "yes":
        # With Kafka's own timers a group needs seconds to become stable.
        absent_ms = (2000, 8000) if MEMBER_TIMERS[timers] else (10_000, 16_000)
        lasts = draw.randint(50, 2500)
        if lasts % 2 == 0:
            lasts *= 20  # it stays away for so long that the others have to go on without it
        member["absence"] = {
            "every": format_duration(draw.randint(*absent_ms) * 1000),
            "lasts": format_duration(lasts * 1000),
        }
    needs = OF_STATIC_MEMBERS if "group.instance.id" in config else {}
    member["versions"] = client_versions(draw, nemesis, *OF_MEMBERS, needs=needs)
    return member


def _prober(draw: random.Random, nemesis: Nemesis, topic: str, brokers: int, timers: Timers) -> Part:
    kinds = nemesis.workload
    prober: Part = {
        "topic": topic,
        "every": format_duration(pick(draw, kinds.every)),
        "timestamp": parse_scalar(pick(draw, kinds.timestamp)),
        "config": client_config(timers),
    }
    if pick(draw, kinds.as_broker) == "yes":
        return {**prober, "replica-id": draw.randint(1, brokers)}
    least = NEEDS.get(prober["timestamp"], 1)
    versions = client_versions(draw, nemesis, Api.ListOffsets, Api.Metadata, needs={Api.ListOffsets: least})
    return {**prober, "versions": versions}
