"""``krift k8s``: what Kubernetes needs to know of a scenario."""

from __future__ import annotations

import re

import click
import yaml

from chaos import sources
from chaos.errors import InputError, Mistake
from chaos.scenario.resolve import resolve
from orchestrator.cli.options import MAX_SEED
from orchestrator.kubernetes.chaos_mesh import Refusal, workflow
from orchestrator.report.console import page

NAMESPACE = "krift"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""A label of DNS (RFC 1123), which names of namespaces are."""


@click.group("k8s", no_args_is_help=True)
def command() -> None:
    """Write the faults of a scenario for Kubernetes. docs/kubernetes.md leads from an empty cluster to a verdict."""


@command.command("chaos")
@click.argument("scenario")
@click.option("--variant", metavar="NAME", help="Variant of the scenario; its first if not given.")
@click.option("--seed", type=click.IntRange(0, MAX_SEED), help="Seed; the scenario's own if not given.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a value, as for krift run.")
@click.option("--namespace", default=NAMESPACE, show_default=True, metavar="NAME", help="Where the run's pods are.")
@click.option("--skip", is_flag=True, help="Leave out the faults that Chaos Mesh cannot carry out.")
def chaos_command(
    scenario: str, variant: str | None, seed: int | None, settings: tuple[str, ...], namespace: str, skip: bool
) -> int:
    """Print the faults of SCENARIO as a Workflow of Chaos Mesh, for kubectl create -f -."""
    if _NAME.fullmatch(namespace) is None:
        problem = f"{namespace!r} is no namespace"
        raise InputError([Mistake("--namespace", 0, "", problem, "lower-case letters, digits and -, such as krift")])
    source = sources.find(scenario)
    plan = resolve(source.loaded(seed), variant or (source.variants or [""])[0], seed, settings)
    name = re.sub(r"[^a-z0-9]+", "-", f"{plan.scenario}-{plan.variant}".lower()).strip("-")[:63].strip("-")
    document, refused = workflow(plan, name, namespace)
    if refused and not skip:
        raise InputError([_mistake(scenario, refusal) for refusal in refused])
    if not document["spec"]["templates"][0]["children"]:
        raise InputError([Mistake(scenario, 0, "", "no fault is left for Chaos Mesh", "a partition, or a slow disk")])
    for refusal in refused:
        page(stderr=True).say(f"left out  {refusal.fault} {refusal.kind}: {refusal.why}")
    page().raw(yaml.safe_dump(document, sort_keys=False, width=110).rstrip())
    return 0


def _mistake(scenario: str, refusal: Refusal) -> Mistake:
    problem = f"Chaos Mesh cannot carry it out: {refusal.why}"
    return Mistake(scenario, 0, f"{refusal.fault} {refusal.kind}", problem, "--skip, to leave it to krift run")
