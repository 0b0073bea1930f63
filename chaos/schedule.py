"""The resolved timeline of a plan as text: what ``--dry-run`` prints."""

from __future__ import annotations

from typing import Any

from actors.config import CONFIG
from actors.features import AS_KAFKA, MENDS
from actors.node.spec import NodeSpec
from actors.versions import default_ranges
from chaos.plan import At, Plan, ScheduledFault
from chaos.scenario.durations import format_versions
from chaos.scenario.scalars import RANDOM, TIMESTAMPS
from chaos.scenario.triggers import describe
from chaos.words import varied

TIMESTAMP_NAMES = {value: name for name, value in TIMESTAMPS.items()}


def timeline(plan: Plan) -> str:
    """The whole plan, for people."""
    lines = [f"{varied(plan.scenario, plan.variant)}, seed {plan.seed}"]
    if plan.about:
        lines.append(plan.about)
    lines += ["", *_cluster(plan), *_workload(plan), "", "timeline", *_chaos(plan), "", *_expectation(plan)]
    return "\n".join(lines) + "\n"


def _line(label: str, text: str) -> str:
    return f"{label:<16}{text}"


def _cluster(plan: Plan) -> list[str]:
    cluster = plan.cluster
    store = ", a remote store" if cluster.remote_store else ""
    lines = [_line("cluster", f"{len(cluster.voters)} voters, {len(cluster.brokers)} brokers{store}")]
    for topic in cluster.topics:
        replicas = ", ".join(f"{topic.name}-{p} on {r}" for p, r in enumerate(topic.replicas))
        own = "".join(f", {key}={value}" for key, value in topic.config.items())
        lines.append(_line("topic", f"{replicas}{own}"))
    told = {name: value for name, value in plan.features.items() if name not in MENDS or value != AS_KAFKA}
    lines.append(_line("features", ", ".join(f"{name}={value}" for name, value in told.items())))
    config = [f"{key}={value}" for key, value in plan.config.items() if CONFIG[key].default != value]
    lines += [_line("config", ", ".join(config))] if config else []
    servers = [node for node in plan.nodes if node.node_id >= 0]
    lines += [_line(node.name, other) for node in servers if (other := _otherwise(plan, node))]
    lines += [_line("defects", ", ".join(plan.defects))] if plan.defects else []
    lines += [_line("drawn", f"{place}: {', '.join(names)}") for place, names in plan.drawn.items()]
    return lines


def _otherwise(plan: Plan, node: NodeSpec) -> str:
    """What a node has otherwise than the cluster."""
    parts = [f"{name}={value}" for name, value in node.features.items() if plan.features.get(name) != value]
    parts += [f"{name} {format_versions(*v)}" for name, v in node.versions.items() if plan.versions.get(name) != v]
    parts += [f"{key}={value}" for key, value in node.config.items() if plan.config.get(key, value) != value]
    return ", ".join(parts)


def _workload(plan: Plan) -> list[str]:
    lines = []
    for node in plan.clients:
        work: dict[str, Any] = node.workload
        parts = [f"{work['topic']} {','.join(map(str, work['partitions']))}"]
        if "rate" in work:
            parts.append(f"{work['rate']:g} records/s, acks={node.config['acks']}")
            parts.append("idempotent" if node.config["enable.idempotence"] else "not idempotent")
        if work.get("seek", -1) >= 0:
            parts.append(f"from offset {work['seek']}")
        if work.get("rewind_every_ms", 0):
            parts.append(f"goes back by {work['rewind_by_ms']}ms every {work['rewind_every_ms']}ms")
        if work.get("group"):
            parts.append(f"in group {work['group']}, commits: {work['commit']}")
        if "copy_to" in work:
            parts.append(f"copies to {work['copy_to']}")
        if "external_every_ms" in work:
            parts.append(f"keeps its positions outside Kafka every {work['external_every_ms']}ms")
        if "every_ms" in work:
            asked = TIMESTAMP_NAMES.get(work["timestamp"], work["timestamp"])
            asked = f"{work['ago_ms']}ms ago" if "ago_ms" in work else asked
            parts.append(f"{asked} every {work['every_ms']}ms")
        if "client" in work:
            parts.append(f"by a {work['client']}'s call")
        if work.get("replica_id", -1) >= 0:
            parts.append(f"as broker-{work['replica_id']}")
        parts += [f"{key}={value}" for key, value in node.config.items() if _differs(key, value)]
        ranges = default_ranges()
        parts += [f"{api} {format_versions(*v)}" for api, v in node.versions.items() if ranges.get(api) != v]
        lines.append(_line(node.name, ", ".join(parts)))
    return lines


def _differs(key: str, value: Any) -> bool:
    return key not in ("acks", "enable.idempotence") and CONFIG[key].default != value


def _chaos(plan: Plan) -> list[str]:
    """One line for each moment that is known, in order of time; then what waits to be seen."""
    timed: list[tuple[int, int, str]] = [(0, -1, "steady state: every workload has succeeded once")]
    waiting: list[str] = []
    for index, scheduled in enumerate(plan.schedule):
        what = f"{scheduled.id} {scheduled.fault.kind} {scheduled.fault.describe()}"
        if isinstance(scheduled.when, At):
            timed.append((scheduled.when.us, index, f"{what}, {scheduled.ending}"))
        else:
            waiting.append(f"  {scheduled.when}: {what}, {scheduled.ending}")
        end = end_us(scheduled)
        if end is not None:
            timed.append((end, index, f"{scheduled.id} {scheduled.fault.kind} ends"))
    healed = "the remaining faults are healed"
    if plan.core is not None:
        healed = f"a core is healed: {', '.join(map(str, plan.core)) or RANDOM}"
    timed.append((plan.duration_us, len(plan.schedule), f"end of the chaos: {healed}"))
    lines = [f"  {us / 1e6:>9.3f} s  {text}" for us, _, text in sorted(timed)]
    return [*lines, *waiting, "  then stop producers and probers, drain consumers"]


def end_us(scheduled: ScheduledFault) -> int | None:
    """When a fault ends, since time 0, if that is known beforehand."""
    if isinstance(scheduled.until, At):
        return scheduled.until.us
    if isinstance(scheduled.when, At) and scheduled.for_us is not None and not scheduled.waits_for_point:
        return scheduled.when.us + scheduled.for_us
    return None


def _expectation(plan: Plan) -> list[str]:
    expect = plan.expect
    parts = [
        f"{key} {', '.join(ids)}" for key in ("violated", "held", "excused", "may") if (ids := getattr(expect, key))
    ]
    lines = [_line("expect", "; ".join(parts) or "nothing violated")]
    if expect.asked:
        lines.append(_line("answers", ", ".join(describe(predicate) for predicate in expect.asked)))
    if expect.must_happen:
        lines.append(_line("must happen", ", ".join(describe(predicate) for predicate in expect.must_happen)))
    return lines
