"""A core that is healed converges, and a cluster that does not is told by name."""

from __future__ import annotations

from typing import Any

from actors.trace.events import NodeUp, Stamped
from chaos.nemesis.settings import TIMERS
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.scenario.yaml_text import to_yaml
from orchestrator.campaigns.signature import signature
from orchestrator.sim_run import SimRun, run_in_sim


def scenario(core: Any, **more: Any) -> str:
    """Brokers and a voter are down at the end of two seconds of chaos."""
    timeouts = {"request.timeout.ms": 1000}
    chaos = [
        {"when": {"at": "200ms"}, "fault": {"crash": "broker-3"}, "for": "1800ms"},
        {"when": {"at": "500ms"}, "fault": {"partition": {"isolate": "controller-1"}}, "for": "1500ms"},
    ]
    return to_yaml(
        {
            "schema": "krift/v1",
            "name": "core",
            "duration": "2s",
            "cluster": {"topics": {"orders": {"replicas": [[1, 2, 3]]}}, "config": dict(TIMERS["hasty"])},
            "workload": [
                {"producer": {"topic": "orders", "rate": "20/s", "config": timeouts}},
                {"consumer": {"topic": "orders", "config": timeouts}},
            ],
            "chaos": chaos,
            "heal": {"core": core} if core else {},
            "expect": {"held": ["L15"]},
            **more,
        }
    )


def carried_out(text: str, *defects: str) -> tuple[SimRun, list[str]]:
    """The run, and who was started more than once."""
    started: list[str] = []

    def note(event: Stamped) -> None:
        if isinstance(event.body, NodeUp) and event.incarnation:
            started.append(event.node)

    return run_in_sim(resolve(load_text(text, "core.yaml"), defects=defects), [note]), started


def test_a_core_converges_without_the_others() -> None:
    """Shows that the cluster gets steady and clients finish with a broker down and a voter cut off, to the end."""
    run, started = carried_out(scenario(["controller-2", "controller-3", "broker-1", "broker-2"]))
    assert (run.exit_code, run.status, started) == (0, "completed", [])
    assert [fault.phase for fault in run.faults] == ["ended", "ended"]
    assert {fault.ended_us for fault in run.faults} == {run.end_us - run.zero_us}


def test_with_everybody_healed_everybody_comes_back() -> None:
    """Shows the same scenario without a core."""
    run, started = carried_out(scenario(None))
    assert (run.exit_code, run.status, started) == (0, "completed", ["broker-3"])


def test_a_cluster_that_does_not_converge_is_told_by_name() -> None:
    """Shows that a leader that takes nobody back keeps the cluster from converging, which is a violation of its own
    once there was time enough, and undecided before."""
    run, _ = carried_out(
        scenario(None, budgets={"heal": "25s"}, expect={"violated": ["L15", "L4", "P25"]}), "isr-never-expands"
    )
    assert (run.exit_code, run.status) == (0, "did not converge"), "that is what the scenario is to show"
    found = {each.id: each for each in run.verdict.invariants}["L15"]
    assert found.violations[0].sentence == (
        "the cluster did not converge: healing: without its leader or its whole ISR: orders-0, 25 s after the chaos"
    )
    short, _ = carried_out(scenario(None, budgets={"heal": "5s"}, expect={"violated": ["P25"]}), "isr-never-expands")
    assert (short.exit_code, short.status) == (3, "did not converge")
    assert {each.id: each.status for each in short.verdict.invariants}["L15"] == "vacuous"


def test_its_signature_has_no_numbers() -> None:
    """Shows that clusters that fail to converge in the same way are one failure."""
    text = scenario(None, budgets={"heal": "25s"}, expect={"violated": ["L4", "P25"]})
    run, _ = carried_out(text, "isr-never-expands")
    assert run.exit_code == 1
    assert signature(run) == (
        "L15: the cluster did not converge: healing: without its leader or its whole ISR: orders-#, # s after the chaos"
    )
