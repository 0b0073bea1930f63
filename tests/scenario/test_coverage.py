"""Coverage points of whole runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.coverage.observer import Coverage
from orchestrator.sim_run import run_in_sim
from orchestrator.trace.read import read_events

ELSEWHERE = """
from tests.scenario.test_coverage import points_of
print("\\n".join(points_of()))
"""


SCENARIO = """
schema: krift/v1
name: cut-and-crash
seed: 3
duration: 4s
cluster:
  topics: {orders: {replicas: [[1, 2, 3]]}}
  config: {broker.session.timeout.ms: 800, broker.heartbeat.interval.ms: 200}
workload:
  - producer: {topic: orders, rate: 50/s, config: {linger.ms: 50}}
  - list-offsets: {topic: orders, every: 50ms}
chaos:
  - when: {at: 200ms}
    fault: {partition: {from: [leader(orders-0), "followers(orders-0)[1]"], to: ["followers(orders-0)[0]"]}}
    for: 3s
  - when: {at: 600ms}
    fault: {crash: leader(orders-0)}
    for: 3s
"""


def points_of(directory: Path | None = None) -> list[str]:
    """Of what KIP-207 is about, in short."""
    coverage = Coverage()
    run_in_sim(resolve(load_text(SCENARIO)), [coverage], directory=directory)
    return coverage.points()


def test_a_run_covers_the_same_in_another_process_and_in_its_kept_trace(tmp_path: Path) -> None:
    """Shows that points depend on the run alone: not on the order of hashes, and not on whether they were collected
    while it went on or from what was kept."""
    found = points_of(tmp_path)
    again = Coverage()
    for event in read_events(tmp_path):
        again(event)
    assert again.points() == found
    elsewhere = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.split() == found


def test_the_incident_covers_what_it_is_about() -> None:
    """Shows that the points tell what the incident behind KIP-207 is made of: the old leader cut off, a new one whose
    high watermark lags, and ListOffsets refused meanwhile."""
    found = points_of()
    assert {"fault/partition/leader", "during/partition/leader/lagging-leader"} <= set(found)
    assert any(point.startswith("listed/newest/78/client/behind/") for point in found)
