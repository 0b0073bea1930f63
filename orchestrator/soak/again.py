"""The evidence of a soak in virtual time, once more: its events come again when the soak is carried out again."""

from __future__ import annotations

import msgspec

from actors.sim.digest import TraceDigest
from actors.sim.world import World
from actors.trace.events import Stamped
from chaos.errors import ReplayDiverged
from chaos.soak import SoakConductor
from chaos.words import some
from orchestrator.clusters.base import RunOrder, run_meta
from orchestrator.run_dir import RunDir, read_json
from orchestrator.soak.directory import EVIDENCE_SCHEMA, EvidenceFile
from orchestrator.soak.soaking import rounds_of
from orchestrator.trace.read import trace_of

FILE = "evidence.json"


class Again(msgspec.Struct, frozen=True):
    """What was repeated: events in all, and those of the evidence."""

    events: int
    compared: int


def is_evidence(directory: RunDir) -> bool:
    """Whether a directory is the evidence of a finding."""
    return (directory.path / FILE).exists()


def repeat_evidence(directory: RunDir) -> Again:
    """Carry the soak out again up to the end of the evidence, unchecked, and compare each of its events. Raises
    ReplayDiverged with the first that differs."""
    evidence = read_json(directory.path / FILE, EvidenceFile, EVIDENCE_SCHEMA, "the evidence of a soak")
    asked, rounds = evidence.asked, rounds_of(evidence.asked)
    conductor = SoakConductor(rounds, asked.duration_us, asked.calm_us)
    order = RunOrder(asked.soak, rounds.plan, directory.path)
    recorded, digest = trace_of(directory), TraceDigest()
    number = 0

    def take(event: Stamped) -> None:
        nonlocal number
        if evidence.first <= number <= evidence.last:
            digest.add(event)
            before = next(recorded, None)
            if before is None or before != event:
                was = "nothing" if before is None else f"{before.id} {before.type}"
                raise ReplayDiverged(asked.soak, number, f"event {number:,} is {event.id} {event.type}, and was {was}")
        number += 1
        if number > evidence.last:
            world.stop()

    world = World(rounds.plan.nodes, conductor, rounds.plan.seed, order.run, take, meta=run_meta(order, "sim"))
    world.run(1 << 60)
    if number <= evidence.last:
        raise ReplayDiverged(
            asked.soak, number, f"it ends after {some(number, 'event')}, and had {evidence.last + 1:,}"
        )
    return Again(evidence.last + 1, evidence.last - evidence.first + 1)
