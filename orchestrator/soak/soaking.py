"""One soak from what was asked for to its verdict, and on from where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from chaos.errors import InputError
from chaos.rounds import Rounds
from chaos.sources import find
from orchestrator.checked import verdict_on
from orchestrator.driving import held, is_held
from orchestrator.files import write_text
from orchestrator.run_dir import Manifest, create_run_dir, utc_now, wrong
from orchestrator.runner import keep_verdict
from orchestrator.soak.directory import Asked, Found, SoakDir, Status
from orchestrator.soak.outcome import STOPPED, Ended
from orchestrator.soak.sim import SimSoak
from orchestrator.soak.standing import Standing
from orchestrator.verdict import Verdict, exit_code
from orchestrator.version import __version__

INTERRUPTED = 130


class Result(msgspec.Struct, frozen=True):
    """How a soak ended. code: of the command."""

    verdict: Verdict
    status: str
    detail: str
    code: int


def rounds_of(asked: Asked) -> Rounds:
    """The rounds of a soak. Raises InputError."""
    return Rounds(find(asked.word), asked.seed, asked.variant, asked.settings, asked.defects)


def begin(root: Path, asked: Asked, rounds: Rounds) -> SoakDir:
    """A new directory for a soak; ``asked`` without its name."""
    plan = rounds.plan
    run = create_run_dir(root, plan.scenario, plan.variant, f"soak-{asked.runtime}", asked.seed)
    soak = SoakDir(run.path)
    asked = msgspec.structs.replace(asked, soak=run.path.name)
    soak.write_asked(asked)
    write_text(run.scenario, plan.yaml())
    run.write_manifest(
        Manifest(
            krift=__version__,
            run=asked.soak,
            scenario=plan.scenario,
            variant=plan.variant,
            runtime=asked.runtime,
            seed=asked.seed,
            started=asked.started,
            reproduce=asked.command,
        )
    )
    return soak


def resumable(soak: SoakDir) -> Asked:
    """What was asked of a soak that can go on. Raises InputError if it cannot."""
    asked = soak.read_asked()
    if is_held(soak.path):
        raise wrong(soak.path, "it is running", "a soak whose driver has ended; krift soak status shows it")
    state = soak.read_status().state if soak.status.exists() else "running"
    if state not in ("running", "interrupted"):
        raise wrong(soak.path, f"it is over: {state}", "a soak that was killed or interrupted")
    if asked.krift != __version__:
        raise wrong(soak.path, f"begun by krift {asked.krift}", f"a soak of this version, {__version__}")
    return asked


def carry_on(soak: SoakDir, tell: Callable[[Found], None], standing: Standing) -> Result:
    """Carry a soak out, from its checkpoint if it has one, and judge it. Raises RunError, InputError."""
    asked = soak.read_asked()
    rounds = rounds_of(asked)
    with held(soak.path):
        try:
            ended = _run(soak, asked, rounds, tell, standing)
        except BaseException as error:
            standing.end("interrupted" if isinstance(error, KeyboardInterrupt) else "not carried out", str(error))
            raise
        return _finish(soak, asked, rounds, ended, standing)


def _run(soak: SoakDir, asked: Asked, rounds: Rounds, tell: Callable[[Found], None], standing: Standing) -> Ended:
    if asked.runtime == "live":
        from orchestrator.soak.live import LiveSoak, check_what_is_left

        if standing.status.restarts:
            return check_what_is_left(soak, asked, rounds, tell, standing)
        return LiveSoak(soak, asked, rounds, tell, standing).run()
    return SimSoak(soak, asked, rounds, standing, tell).run()


def _finish(soak: SoakDir, asked: Asked, rounds: Rounds, ended: Ended, standing: Standing) -> Result:
    manifest = soak.run.read_manifest()
    manifest.ended, manifest.status, manifest.detail = utc_now(), ended.status, ended.detail
    manifest.duration, manifest.digest = ended.duration_us / 1e6, ended.checked.digest
    doubts = []
    if ended.status not in ("completed", STOPPED):
        doubts.append(f"the soak was {ended.status}: {ended.detail}" if ended.detail else f"it was {ended.status}")
    verdict = verdict_on(rounds.plan, asked.soak, asked.runtime, ended.checked, manifest.duration, doubts)
    soak.run.write_manifest(manifest)
    keep_verdict(soak.run, verdict)
    standing.end(ended.status, ended.detail)
    code = INTERRUPTED if ended.status == "interrupted" else exit_code(verdict, ended.status)
    return Result(verdict, ended.status, ended.detail, code)


def new_standing(soak: SoakDir, asked: Asked, rounds: Rounds, show: Callable[[Status], None]) -> Standing:
    """Where a soak stands when it begins, or goes on."""
    status = Status(
        soak=asked.soak,
        scenario=rounds.plan.scenario,
        runtime=asked.runtime,
        duration_us=asked.duration_us,
        started=asked.started,
    )
    try:
        before = soak.read_status()
    except InputError:
        return Standing(soak, status, show)
    status.restarts, status.wall_s = before.restarts + 1, before.wall_s
    return Standing(soak, status, show)
