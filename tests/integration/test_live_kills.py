"""Live runs in which processes of nodes are killed at drawn moments: what survives, and what ``krift replay`` makes of
them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest

from actors.node.effects import Choose
from actors.trace.journal import Segment, encode_entry, frame, read_segment, unframe
from tests.integration.kills import FEW_KILLS, KILLS_PER_RUN, Killed, assert_survived
from tests.unit.cli.command import krift

SEED = 1
KILLS = int(os.environ.get("KRIFT_KILLS", str(FEW_KILLS)))
"""How many nodes are killed, over all runs; KRIFT_KILLS=30 for the long way."""

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]


LiveKills = Callable[[int, int], Killed]
"""From a seed and a number of kills to the run with them."""


@pytest.fixture(scope="module")
def live_kills(tmp_path_factory: pytest.TempPathFactory) -> LiveKills:
    """Live runs of scenarios of kills, each carried out once; their directories are not to be changed."""
    from orchestrator.clusters.local_ray import LocalRayCluster

    @cache
    def run(seed: int, kills: int) -> Killed:
        return Killed(LocalRayCluster(), seed, kills, tmp_path_factory.mktemp("kills"))

    return run


@pytest.fixture
def killed(live_kills: LiveKills) -> Killed:
    """A live run with kills."""
    return live_kills(SEED, FEW_KILLS)


@pytest.fixture
def run(killed: Killed, tmp_path: Path) -> Path:
    """A copy of its directory, to be changed."""
    return Path(shutil.copytree(killed.directory.path, tmp_path / "run"))


def journal(run: Path, node: str, incarnation: int) -> tuple[Path, Segment]:
    """The first segment of an incarnation's journal."""
    path = run / "journals" / f"node={node}" / f"{incarnation}-0.journal"
    return path, read_segment(path.read_bytes())


def split(kills: int) -> Sequence[int]:
    """How many kills there are in each run."""
    return [min(KILLS_PER_RUN, kills - done) for done in range(0, kills, KILLS_PER_RUN)]


@pytest.mark.parametrize(("seed", "kills"), list(enumerate(split(KILLS), 1)))
def test_kills_of_live_processes(seed: int, kills: int, live_kills: LiveKills) -> None:
    """Shows that processes killed with SIGKILL at drawn moments come back from disk as the next incarnation, that
    nothing acknowledged is lost, and that the trace of each is whole up to its kill."""
    assert_survived(live_kills(seed, kills), kills)


def test_every_life_of_every_node_is_the_same_again(killed: Killed) -> None:
    """Shows that all steps of all incarnations, those that were killed too, give the recorded effects again."""
    ended = krift("replay", killed.directory.path)
    assert ended.code == 0, ended.err
    lives = len(killed.plan.names) + len(killed.victims)
    assert ended.out.count("no difference") == lives + 1
    assert f"{lives} incarnations" in ended.out


def test_one_node_and_one_moment(killed: Killed) -> None:
    """Shows --node with all lives of one node, and --at with its state as it was then."""
    victim = killed.victims[0]
    ended = krift("replay", killed.directory.path, "--node", victim)
    assert ended.code == 0
    assert ended.out.count(f"{victim}/") == killed.victims.count(victim) + 1
    _, segment = journal(killed.directory.path, victim, 1)
    first, last = segment.entries[0].now_ms, segment.entries[-1].now_ms
    states = []
    for moment in (first, last):
        ended = krift("replay", killed.directory.path, "--node", victim, "--incarnation", "1", "--at", str(moment))
        assert ended.code == 0, ended.err
        states.append(json.loads(ended.out))
    assert states[0] != states[1]
    ended = krift("replay", killed.directory.path, "--node", victim, "--incarnation", "1", "--at", str(first - 1))
    assert (ended.code, ended.out) == (2, "")
    assert f"expected {first} to {last}" in ended.err


def test_a_changed_byte_is_damage_and_no_difference(run: Path) -> None:
    """Shows that a journal whose content does not fit its checksum is refused with file and place, exit code 2."""
    path, _ = journal(run, "broker-1", 0)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    ended = krift("replay", run)
    assert ended.code == 2
    assert f"{path}: damaged at byte " in ended.err
    assert "differs" not in ended.err


def test_a_torn_tail_is_what_a_kill_leaves(run: Path) -> None:
    """Shows that a last entry cut short is left out, said so, and no error."""
    path, segment = journal(run, "broker-1", 0)
    path.write_bytes(path.read_bytes()[:-1])
    ended = krift("replay", run, "--node", "broker-1")
    assert ended.code == 0, ended.err
    assert f"broker-1/0: {len(segment.entries) - 1:,} steps" in ended.out
    assert "1 torn at the end by a kill" in ended.out


def test_another_effect_is_a_difference(run: Path) -> None:
    """Shows that a whole journal that says something else than the node does ends in the node, the step and both
    sides, exit code 4."""
    path, segment = journal(run, "controller-1", 0)
    payloads, _ = unframe(path.read_bytes())
    step = len(segment.entries) - 1
    entry = segment.entries[step]
    frames = [frame(payload) for payload in payloads[:-1]]
    path.write_bytes(b"".join([*frames, encode_entry(entry.now_ms, entry.event, [Choose("other", 2)])]))
    ended = krift("replay", run)
    assert ended.code == 4
    assert f"controller-1/0 step {step} at {entry.now_ms} ms" in ended.err
    assert msgspec.json.encode("other").decode().strip('"') in ended.err
