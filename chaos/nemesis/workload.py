"""The clients of a drawn scenario."""

from __future__ import annotations

import random

from actors.node.messages import Api
from chaos.nemesis.model import NOTHING, Acks, Nemesis, Timers
from chaos.nemesis.scene import Part, pick, stream
from chaos.nemesis.settings import client_config, client_versions
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
        entries.append({"consumer": _consumer(draw, nemesis, topic, timers)})
    for number in range(probers):
        draw = stream(nemesis.name, seed, f"workload/prober/{number}")
        entries.append({"list-offsets": _prober(draw, nemesis, topic, brokers, timers)})
    return entries


def client_names(workload: list[Part]) -> list[str]:
    """Names that the clients will have."""
    numbers: dict[str, int] = {}
    names = []
    for entry in workload:
        (kind,) = entry
        numbers[kind] = numbers.get(kind, 0) + 1
        names.append(f"{kind}-{numbers[kind]}")
    return names


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
        "versions": client_versions(draw, nemesis, Api.Fetch, Api.ListOffsets, Api.Metadata, list_offsets=least),
        "config": client_config(timers),
    }


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
    versions = client_versions(draw, nemesis, Api.ListOffsets, Api.Metadata, list_offsets=least)
    return {**prober, "versions": versions}
