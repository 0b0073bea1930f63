"""The schedule of a scenario as a Workflow of Chaos Mesh, for faults below the actors.

A rule on links becomes a NetworkChaos between pods, a slow disk an IOChaos. The Workflow counts its times from the
moment that it is applied, where a scenario counts from the steady state of the cluster. Two differences are Chaos
Mesh's: a partition drops packets, where Krift's keeps messages until it heals; and loss, duplicates and another order
hit packets, which TCP repairs, so that clients see delays.

Sources: chaos-mesh, config/crd/bases/chaos-mesh.org_workflows.yaml, NetworkChaosSpec and IOChaosSpec.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actors.control import CERTAIN, DiskRule, InstallRule, LinkRule, SlowDisk
from chaos.plan import At, Plan, ScheduledFault
from chaos.scenario.durations import format_duration
from chaos.view import ClusterView
from orchestrator.kubernetes.pods import GROUP_LABEL, SCRATCH, groups_of

STATIC = ("name", "group")
"""Kinds of selectors whose nodes are known before the run."""

_FIELDS = {"NetworkChaos": "networkChaos", "IOChaos": "ioChaos"}
"""Kind of an experiment -> where a template has its body."""

AGAIN_S = 60
"""What a step of the Workflow may take longer than its fault: Chaos Mesh retries an injection that failed."""


class Refusal(msgspec.Struct, frozen=True):
    """A fault that Chaos Mesh cannot carry out, and why."""

    fault: str
    kind: str
    why: str


class _CannotError(Exception):
    """Why a fault is no experiment of Chaos Mesh."""


def workflow(plan: Plan, name: str, namespace: str) -> tuple[dict[str, Any], list[Refusal]]:
    """The Workflow, and what it leaves out. Its ``children`` are empty if it leaves out every fault."""
    steps: list[dict[str, Any]] = []
    entries: list[str] = []
    refused = []
    for scheduled in plan.schedule:
        try:
            templates = _templates(scheduled, plan, namespace)
        except _CannotError as error:
            refused.append(Refusal(scheduled.id, scheduled.fault.kind, str(error)))
        else:
            entries.append(templates[0]["name"])
            steps += templates
    whole = format_duration(plan.duration_us + AGAIN_S * 1_000_000)
    chaos = {"name": "chaos", "templateType": "Parallel", "deadline": whole, "children": entries}
    document = {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "krift"}},
        "spec": {"entry": "chaos", "templates": [chaos, *steps]},
    }
    return document, refused


def _templates(scheduled: ScheduledFault, plan: Plan, namespace: str) -> list[dict[str, Any]]:
    """The fault's steps one after the other: wait, then one experiment for each rule, at the same time."""
    begin_us, end_us = _times(scheduled, plan)
    experiments = _experiments(scheduled, plan, namespace)
    lasts = format_duration(end_us - begin_us)
    fault = scheduled.id.replace("_", "-").lower()
    wait, both = f"{fault}-wait", f"{fault}-{scheduled.fault.kind}"
    whole = format_duration(end_us + AGAIN_S * 1_000_000)
    children = [wait, both] if begin_us else [both]
    templates: list[dict[str, Any]] = [
        {"name": fault, "templateType": "Serial", "deadline": whole, "children": children}
    ]
    if begin_us:
        templates.append({"name": wait, "templateType": "Suspend", "deadline": format_duration(begin_us)})
    names = [both] if len(experiments) == 1 else [f"{both}-{number}" for number in range(1, len(experiments) + 1)]
    if len(names) > 1:
        templates.append({"name": both, "templateType": "Parallel", "deadline": lasts, "children": names})
    for own, (kind, body) in zip(names, experiments, strict=True):
        templates.append({"name": own, "templateType": kind, "deadline": lasts, _FIELDS[kind]: body})
    return templates


def _times(scheduled: ScheduledFault, plan: Plan) -> tuple[int, int]:
    """Beginning and end, microseconds."""
    if not isinstance(scheduled.when, At):
        raise _CannotError("it waits for an event of the run, which Chaos Mesh does not see")
    if isinstance(scheduled.until, At):
        return scheduled.when.us, scheduled.until.us
    if scheduled.until is not None:
        raise _CannotError("its end waits for an event of the run, which Chaos Mesh does not see")
    lasts = plan.duration_us - scheduled.when.us if scheduled.for_us is None else scheduled.for_us
    return scheduled.when.us, scheduled.when.us + lasts


def _experiments(scheduled: ScheduledFault, plan: Plan, namespace: str) -> list[tuple[str, dict[str, Any]]]:
    """Kind and body of each experiment."""
    _check_static(scheduled)
    nobody_yet = ClusterView([name for name in plan.names if name.startswith("broker-")], {}, [])
    aimed = scheduled.fault.aim(scheduled.id, nobody_yet, plan.names, frozenset())
    if aimed is None:
        raise _CannotError("it has no target")
    experiments = []
    for action in aimed.begin:
        if isinstance(action, InstallRule):
            experiments.append(("NetworkChaos", _network(action.rule, plan.names, namespace)))
        elif isinstance(action, SlowDisk):
            experiments.append(("IOChaos", _disk(action.rule, plan.names, namespace)))
        else:
            raise _CannotError("it belongs to Krift's processes: a pod that dies would end the run, not break it")
    return experiments


def _check_static(scheduled: ScheduledFault) -> None:
    """Raises _CannotError for a fault whose targets depend on the run."""
    for selector in scheduled.fault.aimed_at():
        if selector.kind not in STATIC:
            raise _CannotError(f"{selector} depends on the run: Chaos Mesh knows pods, such as broker-1's")


def _network(rule: LinkRule, nodes: Sequence[str], namespace: str) -> dict[str, Any]:
    """A NetworkChaos for what goes from the rule's sources to its targets."""
    if rule.apis:
        raise _CannotError(f"it hits {', '.join(rule.apis)} alone, and Chaos Mesh sees packets")
    target = {"mode": "all", "selector": _selector(rule.targets, nodes, namespace)}
    selector = _selector(rule.sources, nodes, namespace)
    return {"mode": "all", "selector": selector, "direction": "to", "target": target, **_EFFECTS[rule.kind](rule)}


def _disk(rule: DiskRule, nodes: Sequence[str], namespace: str) -> dict[str, Any]:
    """An IOChaos that slows down every sync of the logs of one pod."""
    return {
        "action": "latency",
        "mode": "all",
        "selector": _selector([rule.node], nodes, namespace),
        "volumePath": SCRATCH,
        "methods": ["fsync"],
        "delay": format_duration(rule.delay_min_us),
        "percent": 100,
    }


def _selector(targets: Sequence[str], nodes: Sequence[str], namespace: str) -> dict[str, Any]:
    try:
        groups = groups_of(targets, nodes)
    except ValueError as error:
        raise _CannotError(f"{error}, and Chaos Mesh hits whole pods") from None
    chosen = {"key": GROUP_LABEL, "operator": "In", "values": groups}
    return {"namespaces": [namespace], "expressionSelectors": [chosen]}


def _delay(rule: LinkRule) -> dict[str, Any]:
    """Chaos Mesh's jitter goes both ways from its latency."""
    half = (rule.delay_max_us - rule.delay_min_us) // 2
    return {"latency": format_duration(rule.delay_min_us + half), **({"jitter": format_duration(half)} if half else {})}


def _percent(rule: LinkRule) -> str:
    return f"{100 * rule.chance_ppm / CERTAIN:g}"


_EFFECTS: dict[str, Callable[[LinkRule], dict[str, Any]]] = {
    "hold": lambda rule: {"action": "partition"},
    "delay": lambda rule: {"action": "delay", "delay": _delay(rule)},
    "drop": lambda rule: {"action": "loss", "loss": {"loss": _percent(rule)}},
    "duplicate": lambda rule: {"action": "duplicate", "duplicate": {"duplicate": _percent(rule)}},
    "reorder": lambda rule: {
        "action": "delay",
        "delay": {**_delay(rule), "reorder": {"reorder": _percent(rule), "gap": 1}},
    },
}
"""Kind of a rule -> action of a NetworkChaos, and its parameters."""
