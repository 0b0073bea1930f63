"""A live soak: this process drives the cluster, and another one checks what its nodes record.

The checks may die: they are started again, and go on from Spark's checkpoint. A cluster ends with its driver: of a soak
whose driver was killed what it left is checked to the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orchestrator
from actors.trace.events import DRIVER
from chaos.errors import RunError
from chaos.rounds import Round, Rounds
from chaos.soak import SoakConductor
from chaos.words import times
from orchestrator.checked import Checked
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.local_ray import LocalRayCluster
from orchestrator.soak.checker import OVER, RESULTS, read_progress, read_results
from orchestrator.soak.directory import Asked, Found, SoakDir
from orchestrator.soak.ledger import Ledger
from orchestrator.soak.outcome import STOPPED, Ended, keep_round
from orchestrator.soak.standing import Standing
from orchestrator.trace.collect import bury_the_killed, close_open_chunks

LOOK_S = 2.0
IN_VAIN_MAX = 20
"""How often in a row the checks may end without getting any further: what fails that often will not succeed."""
LOG = "checker.log"

Tell = Callable[[Found], None]


class CheckerProcess:
    """The process of the checks, kept alive."""

    def __init__(self, soak: SoakDir) -> None:
        self._soak = soak
        self._process: subprocess.Popen[bytes] | None = None
        self._in_vain, self._at_us = 0, -1
        self.starts = 0

    def see_to_it(self) -> None:
        """Start it if it does not run. Raises RunError if it failed too often."""
        if self._process is not None and self._process.poll() is None:
            return
        at_us = read_progress(self._soak).at_us
        self._in_vain = 0 if at_us > self._at_us else self._in_vain + 1
        if self._in_vain >= IN_VAIN_MAX:
            path = self._soak.path / LOG
            raise RunError(f"the checks ended {times(self._in_vain)} without getting any further; {path} says why")
        self._at_us = at_us
        self.starts += 1
        root = str(Path(orchestrator.__file__).resolve().parents[1])
        known = os.environ.get("PYTHONPATH", "")
        with (self._soak.path / LOG).open("ab") as log:  # why the one before has ended stays to be read
            self._process = subprocess.Popen(
                [sys.executable, "-m", "orchestrator.soak.checker", str(self._soak.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{known}" if known else root},
                process_group=0,  # as of a helper of repeats.py
            )

    def finish(self, wait: Callable[[], None]) -> None:
        """Tell it that nothing more comes, and see it come to its end."""
        (self._soak.path / OVER).touch()
        while not (self._soak.path / RESULTS).exists():
            self.see_to_it()
            assert self._process is not None
            try:
                self._process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                wait()
        if self._process is not None:
            self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class LiveSoak:
    """One live soak. ``tell`` hears of each finding."""

    def __init__(self, soak: SoakDir, asked: Asked, rounds: Rounds, tell: Tell, standing: Standing) -> None:
        self._soak, self._asked, self._rounds = soak, asked, rounds
        self._tell, self._standing = tell, standing
        self.conductor = SoakConductor(rounds, asked.duration_us, asked.calm_us, self._begun)
        self.checker = CheckerProcess(soak)
        self._told = 0
        self._looked_s = 0.0

    def run(self) -> Ended:
        """Carry it out, and check it to its end."""
        (self._soak.path / OVER).unlink(missing_ok=True)
        order = RunOrder(self._asked.soak, self._rounds.plan, self._soak.path)
        cluster = _cluster(self._asked)
        cluster.keep_s = self._asked.keep_us / 1e6
        try:
            with cluster:
                outcome = cluster.run(order, self.conductor, self._look)
            self.checker.finish(self._show)
        except BaseException:
            self.checker.kill()
            raise
        status = outcome.status if outcome.status != "completed" else self.conductor.status
        self._show()
        return _ended(self._soak, status, outcome.detail or self.conductor.detail, self.conductor, outcome.duration_us)

    def _begun(self, round_: Round) -> None:
        keep_round(self._soak, round_)

    def _look(self) -> None:
        """See to the checks, and to what they found; called a few times a second."""
        if time.monotonic() - self._looked_s < LOOK_S:
            return
        self._looked_s = time.monotonic()
        if self.conductor.phase != "starting":
            self.checker.see_to_it()
        self._show()
        if self._asked.on_violation == "stop" and any(not each.known for each in self._ledger.found):
            self.conductor.halt(STOPPED, "")

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self._soak.findings)

    def _show(self) -> None:
        ledger = self._ledger
        for found in ledger.found[self._told :]:
            self._tell(found)
        self._told = len(ledger)
        checked, status = read_progress(self._soak), self._standing.status
        status.state_bytes, status.checker_restarts = checked.state_bytes, max(self.checker.starts - 1, 0)
        progress = self.conductor.progress()
        behind_us = max(checked.newest_us - checked.at_us, 0)
        status.checked_us = max(progress.time_us - behind_us, 0) if checked.at_us else 0
        self._standing.measure()
        self._standing.take(self.conductor, ledger, progress.events)


def check_what_is_left(soak: SoakDir, asked: Asked, rounds: Rounds, tell: Tell, standing: Standing) -> Ended:
    """Check a soak whose driver is gone, and its cluster with it, to the end of what was recorded."""
    close_open_chunks(soak.path)
    bury_the_killed(soak.path, DRIVER, {})
    live = LiveSoak(soak, asked, rounds, tell, standing)
    (soak.path / RESULTS).unlink(missing_ok=True)
    live._told = len(live._ledger)
    live.checker.finish(live._show)
    detail = "its driver was killed, and the cluster ended with it"
    return _ended(soak, "interrupted", detail, live.conductor, standing.status.time_us)


def _ended(soak: SoakDir, status: str, detail: str, conductor: SoakConductor, duration_us: int) -> Ended:
    checked = Checked(read_results(soak), conductor.seen, 0, conductor.progress().events, "")
    return Ended(status, detail, checked, duration_us)


def _cluster(asked: Asked) -> LocalRayCluster:
    if not asked.address:
        return LocalRayCluster(tls=asked.tls, insecure=asked.insecure)
    from orchestrator.clusters.ray_address import RayAddressCluster

    remote = RayAddressCluster(asked.address, tls=asked.tls, insecure=asked.insecure)
    remote.reach()
    return remote
