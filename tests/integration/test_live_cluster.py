"""A live cluster over several runs, and what becomes of a run whose processes fail by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.control import Invoke
from actors.trace.events import LogAppend, Stamped
from chaos.conductor import ScenarioConductor
from chaos.errors import RunError
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.clusters.base import RunOrder, RunOutcome
from orchestrator.clusters.local_ray import LocalRayCluster
from orchestrator.run_dir import RunDir
from orchestrator.runner import Session, Settings, check_in_process
from orchestrator.trace.read import read_events
from tests.harness.live_toys import client_spec, server_spec
from tests.harness.toys import Script

SMALL = """
schema: krift/v1
name: small
about: Nothing is broken, in as few processes as it takes; what breaks by itself ends the run before its time.
duration: 20s
cluster:
  voters: 1
  brokers: 1
  topics:
    orders: {replicas: [[1]]}
workload:
  - producer: {topic: orders, rate: 50/s}
  - list-offsets: {topic: orders, every: 20ms, timestamp: latest}
expect: {held: [C1, P17]}
"""
FAILING = "tests.harness.failing_nodes"
MATCHER = "chaos.scenario.triggers:matches"

pytestmark = pytest.mark.ray


def small(defects: tuple[str, ...] = ()) -> Plan:
    """A run without faults."""
    return resolve(load_text(SMALL, "small.yaml"), defects=defects)


def toys() -> Plan:
    """A server and a client in place of a cluster."""
    plan = small()
    plan.nodes[:] = [server_spec(), client_spec("asker", "broker-1")]
    return plan


class TakesTwenty(Script):
    """Lets the client ask, and ends with its twentieth answer."""

    def __init__(self) -> None:
        super().__init__(60_000_000)

    def begin(self) -> list[Invoke]:  # type: ignore[override]
        return [Invoke("asker", "ask", "ask", {"enough": 20})]

    def on_complete(self, now_us: int, node: str, operation: str, result: dict[str, object]) -> list[Invoke]:  # type: ignore[override]
        self.completed.append((now_us, node, operation, result))
        self.finished = True
        return []


def run_toys(directory: Path) -> tuple[RunOutcome, list[Stamped], list[int]]:
    """One run of the toys: how it went, its trace, and what the client was answered."""
    directory.mkdir()
    script = TakesTwenty()
    cluster = LocalRayCluster("tests.harness.live_toys:new_toy", MATCHER)
    outcome = cluster.run(RunOrder(directory.name, toys(), directory), script)
    return outcome, list(read_events(directory)), script.completed[0][3]["answers"]


@pytest.mark.usefixtures("local_ray")
def test_runs_on_one_cluster_share_nothing(tmp_path: Path) -> None:
    """Shows that each run gets new processes with empty disks, although its nodes have the names of the last one's,
    and that its directory has its own trace, whole."""
    for name in ("first", "second"):
        outcome, trace, answers = run_toys(tmp_path / name)
        assert (outcome.status, outcome.detail, outcome.torn) == ("completed", "", 0)
        assert answers == list(range(1, 21)), "the server counts what is on its disk"
        assert {event.run for event in trace} == {name}
        assert {event.incarnation for event in trace} == {0}
        appended = [event.body.base for event in trace if isinstance(event.body, LogAppend)]
        assert appended == list(range(len(appended)))
        assert outcome.events == len(trace)
        by_node = {node: sum(event.node == node for event in trace) for node in ("broker-1", "asker")}
        assert {f"{node}/0": count - 1 for node, count in by_node.items()}.items() <= outcome.final_seq.items()


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize(
    ("factory", "says"),
    [
        ("without_brokers", r"broker-\d did not start: ValueError: no broker can be made here$"),
        ("with_brokers_that_die_in_the_making", r"broker-\d did not start: its process died"),
    ],
)
def test_a_node_that_does_not_start_is_one_clear_error(factory: str, says: str, tmp_path: Path) -> None:
    """Shows that a run whose nodes cannot be made, or whose processes end at once, is not carried out, and says in
    one line which node it was and why; the cluster takes the next run."""
    plan = small()
    cluster = LocalRayCluster(f"{FAILING}:{factory}", MATCHER)
    (tmp_path / "fails").mkdir()
    with pytest.raises(RunError, match=says) as caught:
        cluster.run(RunOrder("fails", plan, tmp_path / "fails"), ScenarioConductor(plan))
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    (kept,) = (tmp_path / "fails" / "logs" / "node=driver").iterdir()
    assert b"run.meta" in kept.read_bytes()
    outcome, _, _ = run_toys(tmp_path / "next")
    assert outcome.status == "completed"


@pytest.mark.spark
@pytest.mark.usefixtures("local_ray", "spark")
def test_a_process_that_dies_by_itself_breaks_the_run(tmp_path: Path) -> None:
    """Shows that a death which nobody caused ends the run as broken, with the node in its detail and exit code 4,
    and that what was recorded is kept and judged."""
    cluster = LocalRayCluster(f"{FAILING}:with_dying_brokers", MATCHER)
    carried = Session(Settings("live", tmp_path), cluster).carry_out(small())
    assert carried.exit_code == 4
    assert "broker-1/0: its process died" in carried.error
    assert not carried.verdict.expected
    assert carried.directory is not None
    assert RunDir(carried.directory).read_manifest().status == "broken"
    downs = [event for event in read_events(carried.directory) if event.type == "node.down"]
    assert [(event.node, event.body.mode) for event in downs if event.node == "broker-1"] == [("broker-1", "crash")]
    assert {each.id: each.status for each in carried.verdict.invariants}["X3"] == "held"


@pytest.mark.usefixtures("local_ray")
def test_a_broken_promise_of_a_node_is_a_violation(tmp_path: Path, local_ray: LocalRayCluster) -> None:
    """Shows that an exception in a node (the defect raise) breaks the run and violates X3, with what it said."""
    plan = small(defects=("raise",))
    directory = tmp_path / "raises"
    directory.mkdir()
    outcome = local_ray.run(RunOrder("raises", plan, directory), ScenarioConductor(plan))
    assert outcome.status == "broken"
    assert outcome.detail.startswith("broker-1")
    results = {each.id: each for each in check_in_process(RunDir(directory), plan).results}
    assert results["X3"].status == "violated"
    sentence = results["X3"].violations[0].sentence
    assert "raised an exception" in sentence
    assert "the defect raise" in sentence
