"""A run of a plan on some cluster, judged, and reduced to what parity compares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from actors.node.errors import KafkaError
from actors.node.spec import METADATA_PARTITION, is_recreated
from actors.trace.events import (
    ConsOwn,
    CtlFault,
    CtlPhase,
    NodeUp,
    PartAssume,
    Rpc,
    RpcReply,
    RunMeta,
    SendReturn,
    Stall,
    Stamped,
)
from chaos.conductor import ScenarioConductor
from chaos.plan import Plan
from orchestrator.clusters.base import Cluster, RunOrder, RunOutcome
from orchestrator.invariants.folds.fold import Status
from orchestrator.run_dir import RunDir
from orchestrator.runner import check_in_process
from orchestrator.trace.read import read_events
from orchestrator.verdict import RunFacts, Verdict, judge

REFUSALS = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE)
"""What KIP-207 answers; other errors of ListOffsets depend on whom a client happens to ask."""


class Structure(msgspec.Struct, frozen=True):
    """What the schedule of a run enforces, whatever the timing.

    phases: in order. faults: (kind, phase, targets) in order of the fault's number; controllers have no number here,
    since who leads the quorum is drawn. leaders: partition -> brokers that led it, in the order of leader epochs.
    restarted: node -> its newest incarnation, for those that have more than one; controllers without number.
    refused: prober -> refusals that it was answered with. listed_with: prober -> version of ListOffsets that it
    speaks. sends: outcomes of the producers' sends. owned: member of a group -> the partitions that it was assigned
    last before consumers were stopped. A topic that was made anew has its replicas where the controller drew them, and
    is not in leaders.
    """

    phases: list[str]
    faults: list[tuple[str, str, list[str]]]
    leaders: dict[str, list[int]]
    restarted: dict[str, int]
    refused: dict[str, list[str]]
    listed_with: dict[str, list[int]]
    sends: list[str]
    owned: dict[str, list[str]]


class Judged(msgspec.Struct, frozen=True):
    """A run: how it went, its verdict, statuses by invariant, kinds of its events, structure, and its trace."""

    outcome: RunOutcome
    verdict: Verdict
    statuses: dict[str, Status]
    kinds: set[tuple[str, str]]
    structure: Structure
    trace: list[Stamped]

    @property
    def busy(self) -> bool:
        """Whether the machine had too little time for it: then promises about time may be left unjudged."""
        return any(isinstance(event.body, CtlFault) and _by_machine(event) for event in self.trace)


def play(cluster: Cluster, plan: Plan, directory: Path) -> Judged:
    """Carry out a plan, which must go its whole way, and judge its collected trace: the same path for any cluster."""
    directory.mkdir(parents=True)
    conductor = ScenarioConductor(plan)
    outcome = cluster.run(RunOrder(directory.name, plan, directory), conductor)
    assert (outcome.status, outcome.detail) == ("completed", "")
    assert conductor.status == "completed", conductor.detail
    left = [each for each in conductor.outcomes if not (each.took_effect and each.phase == "ended")]
    assert not left, left
    checked = check_in_process(RunDir(directory), plan)
    facts = RunFacts(run=directory.name, scenario=plan.scenario, runtime=cluster.runtime, seed=plan.seed)
    verdict = judge(facts, checked.results, plan.expect, checked.seen)
    trace = list(read_events(directory))
    statuses = {each.id: each.status for each in verdict.invariants}
    return Judged(
        outcome,
        verdict,
        statuses,
        {kind_of(event) for event in trace if not _by_machine(event)},
        structure_of(trace),
        trace,
    )


def role_of(node: str) -> str:
    """``broker-2`` -> ``broker``."""
    return node.rpartition("-")[0] or node


def kind_of(event: Stamped) -> tuple[str, str]:
    """Who records what, as far as both runtimes owe it: role of the node and type of the event, with the API of an
    exchange; events about the metadata log are a kind of their own. A link rule, and what it hits, is recorded by
    whoever enforces it: the world in the sim, the ends of the link live."""
    body = event.body
    if event.type in ("link.rule", "link.hit"):
        return ("runtime", event.type)
    if isinstance(body, Rpc | RpcReply):
        return (role_of(event.node), f"{event.type} {body.api}")
    about = " of metadata" if event.tp == METADATA_PARTITION else ""
    return (role_of(event.node), event.type + about)


def structure_of(trace: Sequence[Stamped]) -> Structure:
    """See ``Structure``."""
    restarted: dict[str, int] = {}
    for event in trace:
        if isinstance(event.body, NodeUp) and event.incarnation > 0:
            restarted[_numbered(event.node)] = event.incarnation
    return Structure(
        phases=[event.body.phase for event in trace if isinstance(event.body, CtlPhase)],
        faults=_faults(trace),
        leaders=_leaders(trace),
        restarted=dict(sorted(restarted.items())),
        refused=_refused(trace),
        listed_with=_listed_with(trace),
        sends=sorted({event.body.outcome for event in trace if isinstance(event.body, SendReturn)}),
        owned=_owned(trace),
    )


def _faults(trace: Sequence[Stamped]) -> list[tuple[str, str, list[str]]]:
    found = [event.body for event in trace if isinstance(event.body, CtlFault) and not _by_machine(event)]
    found.sort(key=lambda body: (body.fault, body.phase))
    return [(body.kind, body.phase, sorted({_numbered(node) for node in body.targets})) for body in found]


def _by_machine(event: Stamped) -> bool:
    """Whether a live machine had too little time for its nodes, which no schedule enforces."""
    body = event.body
    return isinstance(body, Stall) or (isinstance(body, CtlFault) and body.by_machine)


def _numbered(node: str) -> str:
    """A controller without its number."""
    return "controller" if node.startswith("controller-") else node


def _leaders(trace: Sequence[Stamped]) -> dict[str, list[int]]:
    led: dict[str, dict[int, int]] = {}
    for event in trace:
        body = event.body
        if isinstance(body, PartAssume) and body.role == "leader" and not is_recreated(body.tp):
            led.setdefault(body.tp, {})[body.leader_epoch] = body.leader
    return {tp: [leader for _, leader in sorted(epochs.items())] for tp, epochs in sorted(led.items())}


def _owned(trace: Sequence[Stamped]) -> dict[str, list[str]]:
    """Until consumers are told to stop: then members leave one by one, as quickly as they read to the end."""
    found: dict[str, list[str]] = {}
    for event in trace:
        if isinstance(event.body, CtlPhase) and event.body.phase == "draining":
            break
        if isinstance(event.body, ConsOwn) and event.body.reason == "assign":
            found[event.node] = event.body.owned
    return dict(sorted(found.items()))


def _probers(trace: Sequence[Stamped]) -> list[str]:
    names = next(event.body.nodes for event in trace if isinstance(event.body, RunMeta))
    return [name for name in names if role_of(name) == "list-offsets"]


def _refused(trace: Sequence[Stamped]) -> dict[str, list[str]]:
    """By what servers answered; ``src`` of an answer is the client."""
    found: dict[str, set[str]] = {name: set() for name in _probers(trace)}
    for event in trace:
        body = event.body
        if isinstance(body, RpcReply) and body.api == "ListOffsets" and body.src in found:
            errors = {KafkaError(part.error) for part in body.partitions}
            found[body.src].update(error.name for error in errors if error in REFUSALS)
    return {name: sorted(errors) for name, errors in found.items()}


def _listed_with(trace: Sequence[Stamped]) -> dict[str, list[int]]:
    found: dict[str, set[int]] = {name: set() for name in _probers(trace)}
    for event in trace:
        body = event.body
        if isinstance(body, Rpc) and body.api == "ListOffsets" and event.node in found and body.outcome == "answered":
            found[event.node].add(body.version)
    return {name: sorted(versions) for name, versions in found.items()}
