"""The clients of a drawn scenario."""

from __future__ import annotations

import random

from actors.client.transactions.session import RESTART_MS
from actors.config import setting
from actors.node.messages import Api
from chaos.nemesis.model import NOTHING, Acks, Isolation, Nemesis, Timers
from chaos.nemesis.scene import Part, pick, stream
from chaos.nemesis.settings import MEMBER_TIMERS, client_config, client_versions
from chaos.scenario.durations import format_duration, parse_duration_us, parse_rate
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
HURRY_MS = 1000
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
COPIES = "copies"
"""The topic to which its processors write, if it has some."""
RETURNS = "returns"
"""The group whose processors copy that back, if there is one."""
ROUND_RATE = 2
"""Records a second, at most, of a producer whose records go round and round."""
EXACTLY_ONCE: dict[Isolation, float] = {"read_committed": 1}
"""How processors read: what was aborted is not to be processed."""
MIXED = ("range,cooperative-sticky", "cooperative-sticky,range", "cooperative-sticky")
"""Assignors of a member while a group goes over to another one (KIP-429): any two have one in common."""
TWIN = "twin"
"""The group.instance.id that two members have by mistake."""
RESET = "auto.offset.reset"
PATIENCE = 2
"""The session of a patient member, as many times its max.poll.interval.ms: who is silent is given up by the rebalance
time-out, not by its session."""
LINGERS_MS = (15_000, 25_000)
"""Between these a producer stays in its last transaction: for longer than the bound of T9, with quick timers or hasty
ones."""
NEEDS = {
    "read_uncommitted": 1,
    "read_committed": 2,
    "max-timestamp": 7,
    "latest-tiered": 9,
    "earliest-pending-upload": 11,
}
"""The version of ListOffsets that a question needs."""


def workload_of(
    nemesis: Nemesis, seed: int, topic: str, brokers: int, timers: Timers, chaos_us: int, tiered: bool
) -> list[Part]:
    """Entries of the workload: producers, consumers, probers, at least one of each of the first two. Of a topic that is
    ``tiered``, look-ups may wait for remote storage, and consumers that go back."""
    kinds = nemesis.workload
    counts = stream(nemesis.name, seed, "workload")
    producers, consumers, probers = (
        pick(counts, weights) for weights in (kinds.producers, kinds.consumers, kinds.probers)
    )
    entries: list[Part] = []
    # A group has one kind of members: they have to agree on an assignor, and on what a position means.
    members, returns = _members(nemesis, seed, topic, timers), False
    if not members:
        members, returns = _processors(nemesis, seed, topic, timers)
    for number in range(max(1, producers)):
        draw = stream(nemesis.name, seed, f"workload/producer/{number}")
        producer = _producer(draw, nemesis, topic, timers, max(1, producers), chaos_us)
        if returns:
            producer["rate"] = f"{max(1, int(min(parse_rate(producer['rate']), ROUND_RATE)))}/s"
        entries.append({"producer": producer})
        if pick(stream(nemesis.name, seed, f"workload/hurry/{number}"), kinds.hurry) == "yes":
            _hurry(producer)
        _transactions(stream(nemesis.name, seed, f"workload/transactions/{number}"), nemesis, producer)
        transfers = pick(stream(nemesis.name, seed, f"workload/transfers/{number}"), kinds.transfers)
        if transfers == "yes" and "transactional" in producer:
            producer["transactional"]["transfers"] = True
    for number in range(max(1, consumers)):
        draw = stream(nemesis.name, seed, f"workload/consumer/{number}")
        outside = _external(stream(nemesis.name, seed, f"workload/external/{number}"), nemesis)
        rewinds: Part = {}
        if outside or tiered:
            rewinds = _rewinds(stream(nemesis.name, seed, f"workload/rewinds/{number}"), nemesis, far=not outside)
        consumer = {**_consumer(draw, nemesis, topic, timers), **outside, **rewinds}
        reset = pick(stream(nemesis.name, seed, f"workload/reset/{number}"), kinds.reset)
        if reset == "latest":
            consumer["config"][RESET] = reset
        elif reset == "none" and not outside and not rewinds:
            # Without a position to begin at, its application would end at once.
            consumer["config"][RESET], consumer["seek"] = reset, 0
        entries.append({"consumer": consumer})
    has_transactions = bool(transactional_ids_of([*entries, *members]))
    for number in range(probers):
        draw = stream(nemesis.name, seed, f"workload/prober/{number}")
        isolation: Isolation = "read_uncommitted"
        if has_transactions:
            isolation = pick(stream(nemesis.name, seed, f"workload/isolation/{number}"), kinds.isolation)
        prober = _prober(draw, nemesis, topic, brokers, timers, isolation)
        if tiered and "replica-id" not in prober:
            prober = _looking_up(nemesis, seed, number, prober)
        entries.append({"list-offsets": prober})
    return [*entries, *members]


def members_of(workload: list[Part]) -> list[str]:
    """Names that the members of the group will have."""
    named = zip(client_names(workload), workload, strict=True)
    return [name for name, entry in named if "group" in entry.get("consumer", {})]


def static_members_of(workload: list[Part]) -> list[str]:
    """Names that those of them will have that keep their place in the group while they are away."""
    named = zip(client_names(workload), workload, strict=True)
    return [name for name, entry in named if "group.instance.id" in entry.get("consumer", {}).get("config", {})]


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
    rate = f"{max(1, int(min(wanted, most)))}/s" if wanted >= 1 else f"{round(wanted * 60)}/m"
    producer: Part = {
        "topic": topic,
        "rate": rate,
        **ACKS[pick(draw, kinds.acks)],
        "versions": client_versions(draw, nemesis, Api.Produce, Api.Metadata, Api.InitProducerId),
        "config": config,
    }
    retries = pick(draw, kinds.retries)
    if retries != NOTHING:
        config["retries"] = parse_scalar(retries)
    return producer


def _hurry(producer: Part) -> None:
    """Have a producer give up what nobody has acknowledged after a second, with a sequence that has gaps then."""
    config = producer["config"]
    config["request.timeout.ms"] = min(config.get("request.timeout.ms", HURRY_MS), HURRY_MS)
    config["delivery.timeout.ms"] = config["linger.ms"] + config["request.timeout.ms"]
    producer |= ACKS["idempotent"]


def _transactions(draw: random.Random, nemesis: Nemesis, producer: Part) -> None:
    """Have a producer send in transactions, if that is drawn."""
    kinds = nemesis.workload
    if pick(draw, kinds.transactional) == "no":
        return
    producer |= ACKS["idempotent"]
    _in_transactions(draw, nemesis, producer)
    # At that rate all its records are sent before half of its time is over: else it would never commit any.
    timeout_ms, wanted = producer["config"]["transaction.timeout.ms"], producer["transactional"]["records"]
    most = int(parse_rate(producer["rate"]) * timeout_ms / 2000)
    producer["transactional"]["records"] = max(1, min(wanted, most))
    stay = producer["transactional"].get("stay")
    if stay is not None and parse_duration_us(stay["lasts"]) // 1000 % 2:
        # What it sends then comes after its time-out, and to another partition.
        stay["after"], producer["transactional"]["records"] = 1, min(producer["transactional"]["records"], 2)
    if stay is not None:
        # Between two stays that outlast its timeout there is a whole transaction: else it would commit none, either.
        whole_us = int(2_000_000 * producer["transactional"]["records"] / parse_rate(producer["rate"]))
        every_us = max(parse_duration_us(stay["every"]), (RESTART_MS * 1000 + whole_us) // 1000 * 1000)
        stay["every"] = format_duration(every_us)
    if pick(draw, kinds.lingers) == "yes":
        producer["transactional"]["last-stay"] = format_duration(draw.randint(*LINGERS_MS) * 1000)


def _in_transactions(draw: random.Random, nemesis: Nemesis, client: Part) -> None:
    """How long the transactions of a client are, and how they end."""
    kinds = nemesis.workload
    timeout_ms = draw.choice((1000, 2500, 6000))
    client["config"]["transaction.timeout.ms"] = timeout_ms
    client["transactional"] = {"records": pick(draw, kinds.records), "aborts": pick(draw, kinds.aborts)}
    if pick(draw, kinds.stays) == "yes":
        lasts = draw.randint(timeout_ms // 2, 3 * timeout_ms)
        client["transactional"]["stay"] = {
            "every": format_duration(draw.randint(2000, 5000) * 1000),
            "lasts": format_duration(lasts * 1000),
        }


def share_id(nemesis: Nemesis, seed: int, workload: list[Part], version: str) -> None:
    """Give all producers with transactions the transactional id of the first of them, which is its name, if that is
    drawn. With transaction.version 2 two of them may never let one another begin: who is fenced goes on in the next
    epoch."""
    producers = [entry for entry in workload if "transactional" in entry.get("producer", {})]
    wanted = pick(stream(nemesis.name, seed, "workload/namesakes"), nemesis.workload.namesakes) == "yes"
    if wanted and version != "2" and len(producers) > 1:
        first = transactional_ids_of(workload)[0]
        for entry in producers:
            entry["producer"]["config"]["transactional.id"] = first


def topics_of(workload: list[Part], topic: str) -> list[str]:
    """The topics that clients need: ``topic``, and that of its copies if some client makes them."""
    copies = any("copy-to" in client for entry in workload for client in entry.values())
    return [topic, COPIES] if copies else [topic]


def transactional_ids_of(workload: list[Part]) -> list[str]:
    """The transactional ids that producers and processors will have, each once: their names, if no other is given."""
    named = zip(client_names(workload), workload, strict=True)
    clients = [(name, client) for name, entry in named for client in entry.values() if "transactional" in client]
    return list(dict.fromkeys(client["config"].get("transactional.id", name) for name, client in clients))


GIVES_UP_MS = 300
"""In this time a record is given up, and its transaction ended."""


def hasty_ids_of(workload: list[Part]) -> list[str]:
    """Transactional ids of the producers that give a record up while their transaction may go on, and has more."""
    named = zip(client_names(workload), workload, strict=True)
    producers = [(name, entry["producer"]) for name, entry in named if "transactional" in entry.get("producer", {})]
    ids = [each["config"].get("transactional.id", name) for name, each in producers if _is_hasty(each)]
    return list(dict.fromkeys(ids))


def _is_hasty(producer: Part) -> bool:
    config, records = producer["config"], int(producer["transactional"]["records"])
    delivery_ms, timeout_ms = int(config["delivery.timeout.ms"]), int(config["transaction.timeout.ms"])
    return records > 1 and delivery_ms + GIVES_UP_MS < timeout_ms


def _processors(nemesis: Nemesis, seed: int, topic: str, timers: Timers) -> tuple[list[Part], bool]:
    """Members of a group that read committed transactions, and write in transactions what they have read; and who reads
    that. Whether there are members of another group, too, who write it where it came from."""
    number = pick(stream(nemesis.name, seed, "workload/processors"), nemesis.workload.processors)
    returns = number > 0 and pick(stream(nemesis.name, seed, "workload/returns"), nemesis.workload.returns) == "yes"
    found: list[Part] = []
    ways = [(topic, GROUP, COPIES), (COPIES, RETURNS, topic)] if returns else [(topic, GROUP, COPIES)]
    for way, (source, group, target) in enumerate(ways):
        for each in range(number):
            draw = stream(nemesis.name, seed, f"workload/processor/{each + way * number}")
            found.append({"consumer": _processor(draw, nemesis, timers, source, group, target)})
    if found:
        # Somebody has to see the results.
        reader: Part = {"topic": COPIES, "isolation": pick(draw, EXACTLY_ONCE), "config": client_config(timers)}
        found.append({"consumer": reader})
    return found, returns


def _processor(draw: random.Random, nemesis: Nemesis, timers: Timers, source: str, group: str, target: str) -> Part:
    processor: Part = {
        "topic": source,
        "group": group,
        "copy-to": target,
        "isolation": pick(draw, EXACTLY_ONCE),
        "commit-every": format_duration(draw.choice((200, 700)) * 1000),
        "config": {**client_config(timers), **MEMBER_TIMERS[timers]},
    }
    _in_transactions(draw, nemesis, processor)
    _poll_again(processor)
    return processor


def _poll_again(processor: Part) -> None:
    """An application does not poll while it stays in a transaction, nor until it has another producer if it was fenced
    meanwhile: it stays away from its group for no longer than one that stalls, and is there for longer than that, or
    members that stay by turns would never meet."""
    if "stay" in processor["transactional"]:
        stay, interval_us = processor["transactional"]["stay"], _poll_interval_ms(processor["config"]) * 1000
        lasts_us = min(parse_duration_us(stay["lasts"]), 2 * interval_us)
        least_us = lasts_us + RESTART_MS * 1000 + 3 * interval_us
        stay["lasts"] = format_duration(lasts_us)
        stay["every"] = format_duration(max(parse_duration_us(stay["every"]), least_us))


def fit_batches(workload: list[Part], config: Part) -> None:
    """Where segments are small, processors make no batch that is larger than one. Brokers refuse it for good, and the
    processor reads the same records again: one that has to catch up would commit no transaction any more."""
    segment, batch = setting(config, "log.segment.bytes"), setting({}, "batch.size")
    for entry in workload:
        client = entry.get("consumer", {})
        if "copy-to" in client and segment < batch:
            client["config"]["batch.size"] = segment


def _poll_interval_ms(config: Part) -> int:
    return int(config.get("max.poll.interval.ms", 4000))


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


def _rewinds(draw: random.Random, nemesis: Nemesis, far: bool) -> Part:
    """Whether a consumer looks for what is some time old, and reads it again. It waits with the first look until it is
    told where it had been. Far back is what remote storage may have alone by then."""
    if pick(draw, nemesis.workload.rewinds) == "no":
        return {}
    every_ms, by_ms = ((700, 1500), (2000, 4000, 8000)) if far else ((1500, 2500), (500, 2000))
    every, by = draw.choice(every_ms), draw.choice(by_ms)
    return {"rewind": {"every": format_duration(every * 1000), "by": format_duration(by * 1000)}}


def _members(nemesis: Nemesis, seed: int, topic: str, timers: Timers) -> list[Part]:
    """The members of a group. All of them have the assignor, without which they could not agree on one."""
    draw = stream(nemesis.name, seed, "workload/group")
    number, assignor = pick(draw, nemesis.workload.members), pick(draw, nemesis.workload.assignor)
    of_all: Part = {"partition.assignment.strategy": assignor, **MEMBER_TIMERS[timers]}
    patient = pick(stream(nemesis.name, seed, "workload/patience"), nemesis.workload.patience) == "yes"
    if patient and MEMBER_TIMERS[timers]:
        of_all["session.timeout.ms"] = PATIENCE * MEMBER_TIMERS[timers]["max.poll.interval.ms"]
    members = [
        _member(stream(nemesis.name, seed, f"workload/member/{each}"), nemesis, topic, timers, of_all, each)
        for each in range(number)
    ]
    _tell_apart(nemesis, seed, members)
    return [{"consumer": member} for member in members]


def _tell_apart(nemesis: Nemesis, seed: int, members: list[Part]) -> None:
    """What members have each for itself, or by mistake together."""
    kinds = nemesis.workload
    mixed = pick(stream(nemesis.name, seed, "workload/mixed"), kinds.mixed) == "yes"
    twins = pick(stream(nemesis.name, seed, "workload/twins"), kinds.twins) == "yes"
    for number, member in enumerate(members):
        config, draw = member["config"], stream(nemesis.name, seed, f"workload/member/{number}/config")
        if pick(draw, kinds.reset) == "latest":
            config[RESET] = "latest"
        if mixed:
            config["partition.assignment.strategy"] = draw.choice(MIXED)
        if twins and number < 2:
            config["group.instance.id"] = TWIN
            member["versions"] = client_versions(draw, nemesis, *OF_MEMBERS, needs=OF_STATIC_MEMBERS)


def _member(draw: random.Random, nemesis: Nemesis, topic: str, timers: Timers, of_all: Part, number: int) -> Part:
    kinds = nemesis.workload
    config = {**client_config(timers), **of_all}
    commit = pick(draw, kinds.commit)
    member: Part = {"topic": topic, "group": GROUP, "commit": commit, "config": config}
    every, interval_ms = draw.choice((200, 700)), _poll_interval_ms(config)
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


def _prober(
    draw: random.Random, nemesis: Nemesis, topic: str, brokers: int, timers: Timers, isolation: Isolation
) -> Part:
    kinds = nemesis.workload
    prober: Part = {
        "topic": topic,
        "every": format_duration(pick(draw, kinds.every)),
        "timestamp": parse_scalar(pick(draw, kinds.timestamp)),
        "config": client_config(timers),
    }
    if pick(draw, kinds.as_broker) == "yes":
        return {**prober, "replica-id": draw.randint(1, brokers)}
    if isolation == "read_committed":
        prober["isolation"] = isolation
    least = max(NEEDS.get(prober["timestamp"], 1), NEEDS[isolation])
    versions = client_versions(draw, nemesis, Api.ListOffsets, Api.Metadata, needs={Api.ListOffsets: least})
    return {**prober, "versions": versions}


def _looking_up(nemesis: Nemesis, seed: int, number: int, prober: Part) -> Part:
    """A prober that may ask for a time that goes with the clock, by another call, about all partitions at once, and for
    less long than Kafka says."""
    kinds = nemesis.workload
    draw = stream(nemesis.name, seed, f"workload/ago/{number}")
    ago, calls = pick(draw, kinds.ago), pick(draw, kinds.calls)
    if ago:
        prober = {**prober, "ago": format_duration(ago)}
        del prober["timestamp"]
    if calls != "admin":
        prober = {**prober, "client": calls}
    if pick(stream(nemesis.name, seed, f"workload/together/{number}"), kinds.together) == "yes":
        prober = {**prober, "together": True}
    gives_up_us = pick(stream(nemesis.name, seed, f"workload/api-timeout/{number}"), kinds.api_timeout)
    if not gives_up_us:
        return prober
    return {**prober, "config": {**prober["config"], "default.api.timeout.ms": gives_up_us // 1000}}
