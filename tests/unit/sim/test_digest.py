"""The same seed gives the same run, and a difference can be named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from actors.sim.digest import StepDigests
from actors.sim.world import RunResult, World
from tests.harness.toys import Script, new_toy, ping_pong_specs
from tests.harness.turmoil import turmoil

ROOT = Path(__file__).parents[3]


def run(seed: int, run_id: str = "run", **options: object) -> RunResult:
    """A second of toys under faults."""
    world = World(ping_pong_specs(pause_max_ms=20), turmoil(), seed, run_id, new_node=new_toy, **options)  # type: ignore[arg-type]
    result = world.run(10_000_000)
    assert result.finished, result.failures
    return result


def test_the_digest_depends_on_the_seed_and_not_on_the_run_id() -> None:
    """Shows what the digest stands for: the whole trace but the run's name."""
    assert run(1).digest == run(1, "another").digest
    assert run(1).digest != run(2).digest


def test_the_digest_is_the_same_in_another_process_with_other_hashes() -> None:
    """Shows that nothing in a run depends on hashes or addresses."""
    program = "from tests.unit.sim.test_digest import run; print(run(7).digest)"
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        digests.add(done.stdout.decode().strip())
    assert digests == {run(7).digest}


def test_looking_changes_nothing() -> None:
    """Shows that recording, observing and digesting steps leave the run as it is."""
    seen: list[object] = []
    watched = run(3, observer=seen.append, record=True, step_digests=True)
    assert watched.digest == run(3).digest
    assert seen == watched.trace
    assert len(seen) == watched.events


def test_the_first_difference_between_two_runs_is_named() -> None:
    """Shows that step digests find where two runs part, and a probe shows that step in full."""
    one, other = run(1, step_digests=True).step_digests, run(2, step_digests=True).step_digests
    assert one is not None
    assert other is not None
    difference = one.first_difference(other)
    assert difference is not None
    assert difference.first is not None
    assert str(difference).startswith(f"step {difference.step}: {difference.first[0]}'s step {difference.first[1]} at ")
    probed = run(1, probe=difference.step).probed
    assert probed is not None
    assert (probed.node, probed.now_us) == (difference.first[0], difference.first[2])


def test_step_digests_are_kept_as_bytes() -> None:
    """Shows that they can lie beside a run and still be compared, also with a run that ended earlier."""
    digests = run(1, step_digests=True).step_digests
    assert digests is not None
    kept = StepDigests.from_bytes(digests.to_bytes())
    assert len(kept) == len(digests) > 100
    assert kept.first_difference(digests) is None
    difference = kept.first_difference(StepDigests(kept.nodes))
    assert difference is not None
    assert difference.step == 0
    assert difference.second is None


def test_lose_trace_drops_every_hundredth_event() -> None:
    """Shows the runtime's own defect: the record has gaps, which the last sequence numbers give away."""
    specs = [spec if spec.name != "broker-1" else _with_defect(spec) for spec in ping_pong_specs()]
    result = World(specs, Script(1_000_000), 1, "run", record=True, new_node=new_toy).run(10_000_000)
    whole = World(ping_pong_specs(), Script(1_000_000), 1, "run", record=True, new_node=new_toy).run(10_000_000)
    own = [event.seq for event in result.trace if event.node == "broker-1"]
    missing = sorted(set(range(own[-1] + 1)) - set(own))
    assert missing == list(range(99, own[-1] + 1, 100))
    assert len(missing) > 3
    assert len([event for event in whole.trace if event.node == "broker-1"]) == own[-1] + 1


def _with_defect(spec: object) -> object:
    import msgspec

    return msgspec.structs.replace(spec, defects=["lose-trace"])  # type: ignore[type-var]
