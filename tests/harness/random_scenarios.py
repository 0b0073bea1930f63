"""Whole scenarios drawn from a seed: cluster, switches, clients and faults that overlap. Each is run in the sim and
judged.

``python -m tests.harness.random_scenarios 17`` prints the scenario of seed 17, for ``krift run``; several are run,
with a line on each.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from actors.control import Predicate
from actors.crash_points import POINTS
from actors.features import FEATURES
from actors.node.messages import API_NAMES, Api
from actors.trace.events import OpReturn, Stamped, TraceEvent
from actors.versions import API_VERSIONS
from chaos.conductor import ScenarioConductor
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.scenario.triggers import TRIGGERS, matches
from orchestrator.clusters.base import RunOrder, RunOutcome
from orchestrator.clusters.sim import SimCluster
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.invariants.conclusion import InvariantResult

DURATION_MS = 20_000
NUMBERS_OF_FAULTS = (1, 2, 3, 4, 5, 6, 6, 6)
LASTING_MS = (20, 8_000)
MOMENTS = (
    "committed",
    "committed",
    "log-reached",
    "leader-elected",
    "lagging-leader",
    "isr-shrunk",
    "isr-expanded",
    "truncated",
    "quorum-leader-elected",
)
TOPIC = "orders"

TIMERS: dict[str, dict[str, int]] = {
    "kafka": {},
    "quick": {
        "broker.session.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 400,
        "replica.lag.time.max.ms": 1500,
        "request.timeout.ms": 3000,
        "replica.socket.timeout.ms": 3000,
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
        "request.timeout.ms": 1000,
        "replica.socket.timeout.ms": 1000,
    },
}
"""Time-outs of servers: a run of seconds sees the end of few of Kafka's own. Those of the quorum stay above the 500 ms
that a voter's Fetch may wait: with less, leaders change without any fault."""

NARROW: dict[str, tuple[int, ...]] = {
    "replica.fetch.max.bytes": (200, 2000),
    "replica.high.watermark.checkpoint.interval.ms": (50, 1000),
    "num.io.threads": (1, 2),
    "krift.request.service.us": (100, 2000),
}
"""Now and then brokers have little of these."""

Mapping_ = dict[str, Any]
"""A part of a scenario file."""

ELR = "eligible.leader.replicas.version"

ASKED = ("elect", "configure", "describe-quorum")
"""What an operator asks for may find nobody who answers."""

COUNTED = (
    "leader-elected",
    "lagging-leader",
    "unclean-election",
    "isr-shrunk",
    "offset-not-available",
    "leader-not-available",
    "quorum-leader-elected",
    "truncated",
    "broker-fenced",
    "node-restarted",
)
SEEN: dict[type[TraceEvent], list[str]] = {}
for _name in COUNTED:
    SEEN.setdefault(TRIGGERS[_name].type, []).append(_name)


def random_scenario(seed: int) -> str:
    """A scenario file, all of which is drawn from ``seed``."""
    draw = random.Random(f"random-scenarios/{seed}")
    timers = draw.choice(("kafka", "quick", "quick", "hasty", "hasty"))
    narrow = {name: draw.choice(values) for name, values in NARROW.items() if draw.random() < 0.2}
    unclean = draw.random() < 0.2
    replicas = _replicas(draw)
    workload = _workload(draw, timers)
    nodes = _nodes(draw.choice((3, 3, 4, 5)), workload)
    return yaml.safe_dump(
        {
            "schema": "krift/v1",
            "name": f"random-{seed}",
            "about": "Everything is drawn from the seed.",
            "seed": seed,
            "duration": f"{DURATION_MS}ms",
            "cluster": {
                "voters": sum(name.startswith("controller-") for name in nodes),
                "brokers": 3,
                "topics": {TOPIC: {"replicas": replicas, "config": {"min.insync.replicas": draw.choice((1, 2, 2))}}},
                "config": {
                    **TIMERS[timers],
                    **narrow,
                    "unclean.leader.election.enable": unclean,
                    "krift.os.flush.ms": random.Random(f"random-scenarios/{seed}/flush").choice((200, 1000, 30000)),
                },
            },
            "features": {
                **{name: draw.choice(FEATURES[name].values) for name in ("kip-207", "kip-996")},
                ELR: random.Random(f"random-scenarios/{seed}/elr").choice(FEATURES[ELR].values),
            },
            "nodes": {name: {"versions": _server_versions(draw, name)} for name in nodes if draw.random() < 0.1},
            "workload": workload,
            "chaos": [
                *_all_chaos(draw, nodes, len(replicas), unclean),
                *_on_links(seed, nodes, len(replicas)),
                *_by_operator(seed, len(replicas), unclean),
                *_on_disks(seed, nodes, len(replicas)),
                *_on_clocks(seed, nodes),
                *_stopped_properly(seed, nodes),
            ],
        },
        sort_keys=False,
    )


def _replicas(draw: random.Random) -> list[list[int]]:
    """Of one to three partitions, mostly on all brokers."""
    partitions = draw.randint(1, 3)
    return [draw.sample((1, 2, 3), draw.choice((3, 3, 3, 2))) for _ in range(partitions)]


def _versions(draw: random.Random, *apis: str) -> dict[str, str]:
    """What a client speaks of some APIs: mostly everything, else up to some version."""
    bounds = {API_NAMES[api]: versions for api, versions in API_VERSIONS.items()}
    return {name: f"{bounds[name][0]}-{draw.randint(*bounds[name])}" for name in apis if draw.random() < 0.3}


def _server_versions(draw: random.Random, name: str) -> dict[str, str]:
    """What an older voter or broker speaks, down to what KRaft needs."""
    if name.startswith("controller-"):
        return {"Vote": f"0-{draw.randint(0, 1)}"}
    if name.startswith("broker-"):
        return {"Fetch": f"4-{draw.randint(12, 17)}", "ListOffsets": f"1-{draw.randint(4, 10)}"}
    return {}


def _workload(draw: random.Random, timers: str) -> list[Mapping_]:
    timeouts = {name: ms for name, ms in TIMERS[timers].items() if name == "request.timeout.ms"}
    clients: list[Mapping_] = []
    for _ in range(draw.choice((1, 1, 2))):
        acks_all = draw.random() < 0.8
        config = {**timeouts, "linger.ms": draw.choice((0, 5, 50))}
        if timeouts and draw.random() < 0.3:
            config["delivery.timeout.ms"] = 5000
        producer = {
            "topic": TOPIC,
            "rate": draw.choice(("20/s", "50/s", "100/s")),
            "acks": "all" if acks_all else 1,
            "idempotent": acks_all and draw.random() < 0.9,
            "versions": _versions(draw, "Produce", "Metadata", "InitProducerId"),
            "config": config,
        }
        clients.append({"producer": producer})
    for _ in range(draw.choice((1, 1, 2))):
        consumer = {
            "topic": TOPIC,
            "versions": _versions(draw, "Fetch", "ListOffsets", "Metadata"),
            "config": dict(timeouts),
        }
        clients.append({"consumer": consumer})
    for highest in (API_VERSIONS[Api.ListOffsets][1], draw.randint(1, 4)):
        prober: Mapping_ = {
            "topic": TOPIC,
            "every": draw.choice(("20ms", "50ms", "200ms")),
            "timestamp": draw.choice(("latest", "latest", "latest", "earliest")),
            "versions": {"ListOffsets": f"1-{highest}"},
            "config": dict(timeouts),
        }
        clients.append({"list-offsets": prober})
    if draw.random() < 0.2:
        clients.append({"list-offsets": {"topic": TOPIC, "every": "50ms", "replica-id": draw.randint(1, 3)}})
    return clients


def _nodes(voters: int, workload: list[Mapping_]) -> list[str]:
    names = [*(f"controller-{n}" for n in range(1, voters + 1)), *(f"broker-{n}" for n in range(1, 4))]
    numbers: dict[str, int] = {}
    for entry in workload:
        (kind,) = entry
        numbers[kind] = numbers.get(kind, 0) + 1
        names.append(f"{kind}-{numbers[kind]}")
    return names


# ---- faults ----------------------------------------------------------------------------------------------------


def _all_chaos(draw: random.Random, nodes: list[str], partitions: int, unclean: bool) -> list[Mapping_]:
    """Up to six faults: spread over the run, or close together, while the last one still shows."""
    near = draw.randrange(200, DURATION_MS - 4_000)
    spread = draw.choice((1_500, 3_000, DURATION_MS - near - 500))
    number = draw.choice(NUMBERS_OF_FAULTS)
    cornered = _cornered(draw, f"{TOPIC}-{draw.randrange(partitions)}", near) if unclean and number > 2 else []
    return [*cornered, *(_chaos(draw, nodes, partitions, near, spread) for _ in range(number - len(cornered)))]


def _cornered(draw: random.Random, tp: str, near: int) -> list[Mapping_]:
    """The followers fall behind, and then the leader is gone: the way to an unclean election."""
    link = {"from": [f"leader({tp})"], "to": [f"followers({tp})"]}
    behind: Mapping_ = {"partition": link} if draw.random() < 0.7 else {"pause": f"followers({tp})"}
    gone: Mapping_ = {"crash": f"leader({tp})"} if draw.random() < 0.5 else {"partition": {"isolate": f"leader({tp})"}}
    alone = {"seen": {"isr-shrunk": {"tp": tp}}, "nth": draw.choice((1, 2, 3)), "delay": f"{draw.randrange(300)}ms"}
    return [
        {
            "when": {"at": f"{near}ms"},
            "fault": behind,
            "for": f"{min(draw.randint(1_000, 6_000), DURATION_MS - near)}ms",
        },
        {"when": alone, "fault": gone, "for": f"{draw.randint(4_000, 8_000)}ms"},
    ]


def _on_links(seed: int, nodes: list[str], partitions: int) -> list[Mapping_]:
    """With even seeds up to three faults that break and reorder connections, from a stream of their own."""
    if seed % 2:
        return []
    draw = random.Random(f"random-scenarios/{seed}/links")
    near = draw.randrange(200, DURATION_MS - 4_000)
    found = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        fault = draw.choice((_drop, _duplicate, _reorder))(draw, nodes, f"{TOPIC}-{draw.randrange(partitions)}")
        at = near + draw.randrange(3_000)
        found.append(
            {"when": {"at": f"{at}ms"}, "fault": fault, "for": f"{min(_lasting_ms(draw), DURATION_MS - at)}ms"}
        )
    return found


def _by_operator(seed: int, partitions: int, unclean: bool) -> list[Mapping_]:
    """With every third seed up to three actions of an operator, from a stream of their own. Records may be given up
    where the scenario says that they may."""
    if seed % 3:
        return []
    draw = random.Random(f"random-scenarios/{seed}/operator")
    actions = []
    for _ in range(draw.choice((1, 2, 3))):
        tp = f"{TOPIC}-{draw.randrange(partitions)}"
        election: Mapping_ = {"partitions": draw.choice(("all", tp)), "type": "preferred"}
        if unclean and draw.random() < 0.5:
            election["type"] = "unclean"
        change: Mapping_ = draw.choice(
            (
                {"topic": TOPIC, "set": {"unclean.leader.election.enable": unclean}},
                {"topic": TOPIC, "delete": ["unclean.leader.election.enable"]},
                {"broker": "any(2)", "set": {"num.io.threads": draw.choice((1, 2, 8))}},
                {"cluster": True, "delete": ["num.io.threads"]},
            )
        )
        action = draw.choice(({"elect": election}, {"elect": election}, {"configure": change}, {"describe-quorum": {}}))
        seen = draw.random() < 0.3
        actions.append(
            {"when": _seen(draw, tp) if seen else {"at": f"{draw.randrange(DURATION_MS)}ms"}, "action": action}
        )
    return actions


def _on_disks(seed: int, nodes: list[str], partitions: int) -> list[Mapping_]:
    """In half of the scenarios: one to three faults on disks, or crashes at a point."""
    draw = random.Random(f"random-scenarios/{seed}/disks")
    if draw.random() < 0.5:
        return []
    servers = [name for name in nodes if name.startswith(("broker-", "controller-"))]
    near = draw.randrange(200, DURATION_MS - 4_000)
    found = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        tp = f"{TOPIC}-{draw.randrange(partitions)}"
        fault = draw.choice((_power_loss, _torn_tail, _wipe, _slow_disk, _crash_at, _crash_at))(draw, servers, tp)
        lasts = f"{draw.randint(20, 4_000)}ms"
        if draw.random() < 0.35:
            found.append({"when": _seen(draw, tp), "fault": fault, "for": lasts})
        else:
            at = near + draw.randrange(3_000)
            found.append({"when": {"at": f"{at}ms"}, "fault": fault, "for": f"{min(int(lasts[:-2]), 1_000)}ms"})
    return found


def _on_clocks(seed: int, nodes: list[str]) -> list[Mapping_]:
    """With every fourth seed up to three wrong clocks, from a stream of their own."""
    if seed % 4:
        return []
    draw = random.Random(f"random-scenarios/{seed}/clocks")
    found = []
    for _ in range(draw.choice((1, 2, 3))):
        where = {"nodes": _some(draw, nodes, f"{TOPIC}-0")}
        offset = f"{draw.choice('+-')}{draw.choice((1, 300, 3_000, 40_000))}ms"
        if draw.random() < 0.5:
            fault: Mapping_ = {"clock-jump": {**where, "by": offset}}
        else:
            off = {"offset": offset} if draw.random() < 0.5 else {}
            fault = {
                "clock-skew": {**where, **off, "rate": f"{draw.choice(('+0.05', '-0.05', '+30', '-30', '+200'))}%"}
            }
        at = draw.randrange(200, DURATION_MS - 500)
        found.append(
            {"when": {"at": f"{at}ms"}, "fault": fault, "for": f"{min(_lasting_ms(draw), DURATION_MS - at)}ms"}
        )
    return found


def _stopped_properly(seed: int, nodes: list[str]) -> list[Mapping_]:
    """With every third seed, others than above, nodes are stopped properly or bounced, now and then to other
    versions."""
    if seed % 3 != 1:
        return []
    draw = random.Random(f"random-scenarios/{seed}/stops")
    servers = [name for name in nodes if name.startswith(("broker-", "controller-"))]
    found: list[Mapping_] = []
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(200, DURATION_MS - 2_000)
        if draw.random() < 0.5:
            stop = {"controlled-shutdown": {"targets": draw.choice((*servers, "active-controller"))}}
            lasts = min(draw.randint(100, 6_000), DURATION_MS - at)
            found.append({"when": {"at": f"{at}ms"}, "action": stop, "for": f"{lasts}ms"})
            continue
        bounce: Mapping_ = {"targets": draw.choice(("all", "brokers", "controllers")), "timeout": "20s"}
        if draw.random() < 0.5:
            bounce["versions"] = _server_versions(draw, "broker-1")
        found.append({"when": {"at": f"{at}ms"}, "action": {"rolling-bounce": bounce}})
    return found


def _chaos(draw: random.Random, nodes: list[str], partitions: int, near: int, spread: int) -> Mapping_:
    tp = f"{TOPIC}-{draw.randrange(partitions)}"
    fault = draw.choice(FAULTS)(draw, nodes, tp)
    lasts = _lasting_ms(draw)
    if draw.random() < 0.35:
        return {"when": _seen(draw, tp), "fault": fault, "for": f"{lasts}ms"}
    at = near + draw.randrange(spread)
    if draw.random() < 0.15:
        return {"when": {"at": f"{at}ms"}, "fault": fault, "until": _seen(draw, tp)}
    return {"when": {"at": f"{at}ms"}, "fault": fault, "for": f"{min(lasts, DURATION_MS - at)}ms"}


def _lasting_ms(draw: random.Random) -> int:
    """Now and then as likely to be short as long."""
    low, high = LASTING_MS
    return int(low * (high / low) ** draw.random()) if draw.random() < 0.3 else draw.randint(low, high)


def _seen(draw: random.Random, tp: str) -> Mapping_:
    """Moments at which a fault hurts: while leadership, an ISR or a log changes."""
    name = draw.choice(MOMENTS)
    seen: Mapping_ = {name: {"tp": tp}}
    if name == "quorum-leader-elected":
        seen = {name: {}}
    elif name in ("committed", "log-reached"):
        seen = {name: {"tp": tp, "offset": draw.randrange(10, 400)}}
    return {"seen": seen, "nth": draw.choice((1, 1, 1, 2)), "delay": f"{draw.choice((0, 0, 0, 5, 50, 500))}ms"}


def _one(draw: random.Random, nodes: list[str], tp: str) -> str:
    """A node: servers that matter more often than others."""
    wanted = draw.random()
    if wanted < 0.3:
        return f"leader({tp})"
    if wanted < 0.45:
        return f"followers({tp})[0]"
    if wanted < 0.6:
        return "active-controller"
    return draw.choice(nodes)


def _some(draw: random.Random, nodes: list[str], tp: str) -> list[str]:
    if draw.random() < 0.15:
        return [draw.choice(("brokers", "controllers", "clients"))]
    return list(dict.fromkeys(_one(draw, nodes, tp) for _ in range(draw.randint(1, 3))))


def _link(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    form = draw.randrange(3)
    if form == 0:
        return {"from": _some(draw, nodes, tp), "to": _some(draw, nodes, tp)}
    if form == 1:
        return {"between": _some(draw, nodes, tp), "and": _some(draw, nodes, tp)}
    return {"isolate": _one(draw, nodes, tp)}


def _partition(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    return {"partition": _link(draw, nodes, tp)}


def _delay(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    by = draw.choice((5, 50, 300, 1500))
    return {"delay": {**_link(draw, nodes, tp), "by": f"{by}ms", "jitter": f"{draw.randrange(by)}ms"}}


def _by_chance(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    """Which messages, how often something happens on it, and to which exchanges."""
    link = _link(draw, nodes, tp) if draw.random() < 0.3 else {"isolate": _one(draw, nodes, tp)}
    apis = draw.sample(("Produce", "Fetch", "ListOffsets", "Vote", "AlterPartition", "BrokerHeartbeat", "Metadata"), 3)
    named = {"apis": apis} if draw.random() < 0.3 else {}
    return {**link, "chance": draw.choice(("0.5%", "3%", "20%", "60%")), **named}


def _drop(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    return {"drop": _by_chance(draw, nodes, tp)}


def _duplicate(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    return {"duplicate": _by_chance(draw, nodes, tp)}


def _reorder(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    return {"reorder": {**_by_chance(draw, nodes, tp), "by": f"{draw.choice((2, 20, 200))}ms"}}


def _crash(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    return {"crash": _some(draw, nodes, tp) if draw.random() < 0.2 else _one(draw, nodes, tp)}


def _pause(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    return {"pause": _some(draw, nodes, tp) if draw.random() < 0.2 else _one(draw, nodes, tp)}


def _power_loss(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    return {"power-loss": _stop(draw, nodes, tp)}


def _torn_tail(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    return {"torn-tail": _stop(draw, nodes, tp)}


def _wipe(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    """Of a broker: a wiped voter may forget what only a majority with it had, and Kafka promises nothing then."""
    return {"wipe": draw.choice((f"leader({tp})", f"followers({tp})[0]", "broker-1", "broker-2", "broker-3"))}


def _slow_disk(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    by = draw.choice((5, 50, 300, 1500))
    return {"slow-disk": {"nodes": _one(draw, nodes, tp), "by": f"{by}ms", "jitter": f"{draw.randrange(by)}ms"}}


def _crash_at(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    return {draw.choice(("crash", "power-loss", "torn-tail")): _at_point(draw, nodes, tp)}


def _stop(draw: random.Random, nodes: list[str], tp: str) -> Mapping_ | list[str] | str:
    wanted = draw.random()
    if wanted < 0.3:
        return _at_point(draw, nodes, tp)
    if wanted < 0.5:
        return list(dict.fromkeys(_one(draw, nodes, tp) for _ in range(2)))
    return "controllers" if wanted < 0.55 else _one(draw, nodes, tp)


def _at_point(draw: random.Random, nodes: list[str], tp: str) -> Mapping_:
    point = draw.choice(tuple(POINTS))
    subjects = {
        "file": ("quorum-state", "__cluster_metadata-0", tp, "replication-offset-checkpoint"),
        "api": ("Vote", "Fetch", "Produce", "AlterPartition", "BrokerRegistration", "BrokerHeartbeat"),
        "partition": (tp, "__cluster_metadata-0"),
    }
    of = {"of": draw.choice(subjects[POINTS[point].subject])} if draw.random() < 0.7 else {}
    return {"nodes": _one(draw, nodes, tp), "at": point, "nth": draw.choice((1, 1, 2, 5)), **of}


FAULTS: tuple[Callable[[random.Random, list[str], str], Mapping_], ...] = (
    _partition,
    _partition,
    _delay,
    _crash,
    _pause,
)


# ---- a run -----------------------------------------------------------------------------------------------------


class RandomRun:
    """A drawn scenario, run in the sim and judged while it goes on. seen: triggers of the scenario language by name
    and outcomes of operations, such as ``send ok``, with how often each was seen."""

    def __init__(self, seed: int, defects: Sequence[str] = ()) -> None:
        self.plan: Plan = resolve(load_text(random_scenario(seed)), defects=defects)
        self.conductor = ScenarioConductor(self.plan)
        self.seen: Counter[str] = Counter()
        self._engine = InProcessEngine()
        cluster = SimCluster(keep=False)
        cluster.observer = self._take
        self.outcome: RunOutcome = cluster.run(RunOrder(f"random-{seed}", self.plan, Path()), self.conductor)
        self.results: list[InvariantResult] = self._engine.results()

    def _take(self, event: Stamped) -> None:
        self._engine.feed(event)
        self.seen.update(name for name in SEEN.get(type(event.body), ()) if matches(Predicate(name, {}), event))
        if isinstance(event.body, OpReturn):
            self.seen[f"{event.body.kind} {event.body.outcome}"] += 1

    @property
    def complaints(self) -> list[str]:
        """What should not be: a run that did not go its whole way, and what was violated or could not be judged."""
        found = []
        if (self.outcome.status, self.conductor.status) != ("completed", "completed"):
            found.append(
                f"{self.outcome.status}, {self.conductor.status}: {self.outcome.detail or self.conductor.detail}"
            )
        found += [
            f"{fault.id} {fault.kind} on {', '.join(fault.targets)}: {fault.phase}, without effect"
            for fault, scheduled in zip(self.conductor.outcomes, self.plan.schedule, strict=True)
            if fault.phase == "in force"
            or (
                fault.phase == "ended"
                and not fault.took_effect
                and fault.kind not in ASKED
                and not scheduled.waits_for_point
            )
        ]
        for result in self.results:
            if result.status == "violated" and not (result.id in ("H1", "H6", "C6") and self.may_go_back):
                found.append(f"{result.id} violated: {result.violations[0].sentence}")
            elif result.status == "inconclusive":
                found.append(f"{result.id} inconclusive: {result.why}")
        return found

    @property
    def may_go_back(self) -> bool:
        """Whether the latest offset may go backwards: nothing, or not everything, keeps it from that."""
        return self.plan.features["kip-207"] == "off" or bool(self.plan.config["unclean.leader.election.enable"])


def main(seeds: list[int]) -> None:
    """Print the scenario of one seed, or run several."""
    if len(seeds) == 1:
        print(random_scenario(seeds[0]), end="")
        return
    for seed in seeds:
        run = RandomRun(seed)
        print(seed, "; ".join(run.complaints) or "ok", dict(sorted(run.seen.items())), flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
