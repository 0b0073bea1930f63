"""Scenarios that kill one node's process after another, at moments drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from actors.trace.events import CtlFault, NodeDown, NodeUp, PollReturn, SendReturn, Stamped
from chaos.conductor import ScenarioConductor
from chaos.must_happen import happened
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.scenario.yaml_text import to_yaml
from orchestrator.clusters.base import Cluster, RunOrder, RunOutcome
from orchestrator.engines.in_process import check
from orchestrator.run_dir import Manifest, RunDir, utc_now
from orchestrator.trace.read import read_events
from orchestrator.verdict import RunFacts, Verdict, judge
from orchestrator.version import __version__

VICTIMS = [
    "broker-1",
    "broker-2",
    "broker-3",
    "controller-1",
    "controller-2",
    "controller-3",
    "producer-1",
    "consumer-1",
    "list-offsets-1",
]
AFTER_MS = (200, 800)
DOWN_MS = 800
SIM_CYCLE_MS, LIVE_CYCLE_MS = 2500, 8000
"""A kill and the way back: in the sim, and of processes on a busy machine."""
FEW_KILLS = 3
KILLS_PER_RUN = 10


def kill_scenario(seed: int, kills: int, cycle_ms: int) -> str:
    """A scenario file with ``kills`` crashes, one node at a time: who and when is drawn, to the millisecond. Each comes
    when the last one's victim is back, however long the machine takes for that."""
    draw = random.Random(f"kills/{seed}")
    chaos = []
    for number in range(kills):
        after = f"{draw.randrange(*AFTER_MS)}ms"
        when = {"seen": "node-restarted", "nth": number, "delay": after} if number else {"at": after}
        chaos.append({"when": when, "fault": {"crash": draw.choice(VICTIMS)}, "for": f"{DOWN_MS}ms"})
    return yaml.safe_dump(
        {
            "schema": "krift/v1",
            "name": f"kills-{seed}",
            "about": "Processes are killed at drawn moments; each comes back from its disk.",
            "seed": seed,
            "duration": f"{kills * cycle_ms}ms",
            "cluster": {
                "voters": 3,
                "brokers": 3,
                "topics": {"orders": {"replicas": [[1, 2, 3], [2, 3, 1]], "config": {"min.insync.replicas": 2}}},
                "config": {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 400},
            },
            "workload": [
                {"producer": {"topic": "orders", "rate": "50/s", "acks": "all", "idempotent": True}},
                {"consumer": {"topic": "orders"}},
                {"list-offsets": {"topic": "orders", "every": "100ms", "timestamp": "latest"}},
            ],
            "chaos": chaos,
            "expect": {"held": ["C1", "C3", "P17", "Q2", "Q3", "X3", "X4"]},
            "must-happen": ["node-restarted"],
        },
        sort_keys=False,
    )


class Killed:
    """A run of a scenario of kills: how it went, its directory, its trace and the verdict on it."""

    def __init__(self, cluster: Cluster, seed: int, kills: int, folder: Path) -> None:
        self.live = cluster.runtime != "sim"
        cycle_ms = LIVE_CYCLE_MS if self.live else SIM_CYCLE_MS
        self.plan: Plan = resolve(load_text(kill_scenario(seed, kills, cycle_ms)))
        self.conductor = ScenarioConductor(self.plan)
        self.directory = RunDir(folder)
        self.directory.scenario.write_text(to_yaml(self.plan.document), encoding="utf-8")
        with cluster:
            self.outcome: RunOutcome = cluster.run(RunOrder(f"kills-{seed}", self.plan, folder), self.conductor)
        facts: dict[str, Any] = {
            "run": f"kills-{seed}",
            "scenario": self.plan.scenario,
            "runtime": cluster.runtime,
            "seed": seed,
        }
        self.directory.write_manifest(Manifest(krift=__version__, started=utc_now(), status="completed", **facts))
        self.trace = list(read_events(folder))
        seen = happened(self.plan, self.trace)
        self.verdict: Verdict = judge(RunFacts(**facts), check(self.trace), self.plan.expect, seen)

    def events(self, node: str, incarnation: int) -> list[Stamped]:
        """What an incarnation recorded, in order."""
        return [event for event in self.trace if (event.node, event.incarnation) == (node, incarnation)]

    @property
    def victims(self) -> list[str]:
        """Whom the faults hit, in order; the same node may be named several times."""
        faults = [event.body for event in self.trace if isinstance(event.body, CtlFault) and not event.body.by_machine]
        return [body.targets[0] for body in faults if body.phase == "start"]


def assert_survived(run: Killed, kills: int) -> None:
    """The run completed as expected, and every victim was dead, came back, and lost no event."""
    assert (run.outcome.status, run.conductor.status) == ("completed", "completed"), run.conductor.detail
    assert run.verdict.expected, (run.verdict.unexpected, run.verdict.undecided)
    judged = {each.id: (each.status, each.tested > 0) for each in run.verdict.invariants}
    assert {name: judged[name] for name in run.plan.expect.held} == dict.fromkeys(run.plan.expect.held, ("held", True))
    assert_acknowledged_is_read(run.trace)
    assert_killed(run, kills)
    for node in run.plan.names:
        assert_lives_of(run, node, run.victims.count(node))


def assert_killed(run: Killed, kills: int) -> None:
    """All kills came in the sim. A live run has an end by the clock, which a busy machine may reach before the last."""
    assert 0 < len(run.victims) <= kills
    assert run.live or len(run.victims) == kills


def assert_acknowledged_is_read(trace: Sequence[Stamped]) -> None:
    """Whoever reads the topic to its end finds each acknowledged record, at the offset that the producer was told."""
    bodies = [event.body for event in trace]
    sends = [body for body in bodies if isinstance(body, SendReturn) and body.outcome == "ok"]
    polls = [body for body in bodies if isinstance(body, PollReturn) and body.outcome == "ok"]
    acknowledged = {(body.tp, body.offset, body.uid) for body in sends}
    read = {(body.tp, record.offset, record.uid) for body in polls for record in body.records}
    assert acknowledged
    assert not acknowledged - read


def assert_lives_of(run: Killed, node: str, kills: int) -> None:
    """``kills`` incarnations that end in a crash, one after another, and one that ends with the run."""
    for incarnation in range(kills + 1):
        events = run.events(node, incarnation)
        assert [event.seq for event in events] == list(range(len(events)))
        first, last = events[0].body, events[-1].body
        assert isinstance(first, NodeUp)
        assert isinstance(last, NodeDown)
        assert last.mode == ("crash" if incarnation < kills else "end")
    assert not run.events(node, kills + 1)
