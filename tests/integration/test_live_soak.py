"""Live soaks: a real cluster, checked by a process of its own while it goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from pathlib import Path
from statistics import linear_regression, mean, pstdev
from typing import NamedTuple

import msgspec
import pytest

from actors.trace.events import Stamped
from chaos.rounds import Rounds, kept_for
from chaos.sources import find
from orchestrator.cli.replay import _journals
from orchestrator.engines.in_process import check
from orchestrator.run_dir import RunDir
from orchestrator.soak.checker import OVER, read_progress
from orchestrator.soak.directory import Asked, Found, SoakDir, Status
from orchestrator.soak.ledger import Ledger
from orchestrator.soak.live import LiveSoak
from orchestrator.soak.outcome import STOPPED, Ended
from orchestrator.soak.soaking import begin, new_standing
from orchestrator.trace.order import merged
from orchestrator.trace.read import line_to_stamped, trace_of
from orchestrator.version import __version__

pytestmark = [pytest.mark.ray, pytest.mark.spark, pytest.mark.long]

MINUTE_US = 60_000_000


class Soaked:
    """A live soak. ``retention_us``: how long brokers keep records; 0: for ever."""

    def __init__(self, root: Path, seconds: int, retention_us: int = 0, **others: object) -> None:
        usual: dict[str, object] = {
            "krift": __version__,
            "soak": "",
            "word": "replication",
            "runtime": "live",
            "seed": 3,
            "duration_us": seconds * 1_000_000,
            "calm_us": 5_000_000,
            "keep_us": 60 * MINUTE_US,
            "checkpoint_us": MINUTE_US,
            "started": "2026-01-01T00:00:00.000+00:00",
        }
        asked = msgspec.convert({**usual, **others}, Asked)
        plan = Rounds(find(asked.word), asked.seed, asked.variant, asked.settings, asked.defects).plan
        asked = msgspec.structs.replace(asked, settings=[*asked.settings, *kept_for(plan, retention_us)])
        self.rounds = Rounds(find(asked.word), asked.seed, asked.variant, asked.settings, asked.defects)
        self.directory: SoakDir = begin(root, asked, self.rounds)
        self.asked = self.directory.read_asked()
        self.told: list[Found] = []
        self.seen: list[Status] = []
        self.on_status: Callable[[Status], None] = lambda _: None
        standing = new_standing(self.directory, self.asked, self.rounds, self._show)
        self.soak = LiveSoak(self.directory, self.asked, self.rounds, self.told.append, standing)

    def _show(self, status: Status) -> None:
        self.seen.append(msgspec.structs.replace(status))
        self.on_status(status)

    def run(self) -> Ended:
        """Carry it out."""
        return self.soak.run()

    @property
    def events(self) -> list[Stamped]:
        """What was recorded, as far as it is still there, in order."""
        return [line_to_stamped(line) for line in merged(self.directory.path)]


@pytest.mark.timeout(900)
def test_a_live_soak_finds_what_batch_finds_though_its_checks_die(tmp_path: Path) -> None:
    """Shows that the checks of a live soak, killed on the way, give in the end what its whole trace gives at
    once; that each finding is in the ledger once; and that its evidence has the events that the ledger names, and
    journals that can be replayed."""
    soaked = Soaked(tmp_path, 600, defects=["list-behind"])
    killed: list[int] = []

    def kill_the_checks(status: Status) -> None:
        """Once before they have put anything aside, and once after that; however long they take to get so far, and the
        soak goes on for no longer than that."""
        process, come_to = soaked.soak.checker._process, read_progress(soaked.directory).at_us
        if process is None or process.poll() is not None or (soaked.directory.path / OVER).exists():
            return
        if (not killed and status.round) or (len(killed) == 1 and come_to > killed[0]):
            killed.append(come_to)
            os.kill(process.pid, signal.SIGKILL)
            if len(killed) == 2:
                soaked.soak.conductor.soak_us = 45_000_000

    soaked.on_status = kill_the_checks
    ended = soaked.run()
    assert ended.status == "completed"
    assert len(killed) == 2
    assert soaked.soak.checker.starts > len(killed)
    expected = check(soaked.events)
    assert ended.checked.results == expected
    ledger = Ledger(soaked.directory.findings).found
    named = [(each.invariant, each.key, each.known) for each in ledger]
    violations = [each for result in expected for each in result.violations]
    assert set(named) == {(each.invariant, each.key, each.rule) for each in violations} != set()
    assert len(named) == len(set(named))
    evidence = RunDir(soaked.directory.evidence / ledger[0].evidence)
    assert set(ledger[0].events) <= {event.id for event in trace_of(evidence)}
    assert _journals(evidence, None)


@pytest.mark.timeout(600)
def test_a_finding_stops_a_live_soak(tmp_path: Path) -> None:
    """Shows that with ``--on-violation stop`` a soak for an hour ends soon after its first finding, in good order."""
    soaked = Soaked(tmp_path, 3600, defects=["list-behind"], on_violation="stop")
    assert soaked.run().status == STOPPED
    assert [found for found in soaked.told if not found.known]


class Line(NamedTuple):
    """A straight line through points, by least squares. ``error``: the standard error of its slope."""

    slope: float
    error: float


def line(points: Sequence[tuple[float, float]]) -> Line:
    """The line through some points, three at least."""
    xs, ys = zip(*points, strict=True)
    slope, start = linear_regression(xs, ys)
    rest = sum((y - start - slope * x) ** 2 for x, y in points)
    return Line(slope, sqrt(rest / (len(points) - 2)) / (pstdev(xs) * sqrt(len(points))))


def means(points: Iterable[tuple[float, float]], every: float) -> list[tuple[float, float]]:
    """The mean of each stretch of so many seconds: what one fault does to a soak is over within a stretch or two, so
    that these are measurements of their own."""
    stretches: dict[int, list[tuple[float, float]]] = {}
    for x, y in points:
        stretches.setdefault(int(x / every), []).append((x, y))
    return [(mean(x for x, _ in stretch), mean(y for _, y in stretch)) for stretch in stretches.values()]


SIZES: dict[str, Callable[[Status], int]] = {
    "states": lambda status: status.state_bytes,
    "memory": lambda status: status.memory_bytes,
    "disk": lambda status: status.disk_bytes - status.evidence_bytes,  # which known findings may leave at any time
}


@pytest.mark.timeout(3600)
def test_half_an_hour_needs_no_more_and_more(tmp_path: Path) -> None:
    """Shows that over the second half of a soak of thirty minutes what the checks know, the driver's memory and the
    disk do not grow by more than a tenth of what they are, as far as the slope can be told from the noise: by more than
    two standard errors, of which each is small. And that it finds nothing."""
    soaked = Soaked(tmp_path, 1800, retention_us=3 * MINUTE_US, keep_us=3 * MINUTE_US)
    assert soaked.run().status == "completed"
    assert [found for found in soaked.told if not found.known] == []
    second = [each for each in soaked.seen if each.time_us > 900 * 1_000_000 and each.state == "running"]
    assert len(second) > 100
    for name, of in SIZES.items():
        points = means(((each.time_us / 1e6, float(of(each))) for each in second), 100)
        size, (slope, error) = mean(y for _, y in points), line(points)
        assert error * 900 < 0.2 * size, f"{name}: no measurement"
        assert (slope - 2 * error) * 900 < 0.1 * size, name
