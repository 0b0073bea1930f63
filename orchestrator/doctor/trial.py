"""The proof: a run as small as can be, in each runtime."""

from __future__ import annotations

import tempfile
from pathlib import Path

from chaos.errors import KriftError
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from chaos.words import some
from orchestrator.doctor.base import Check, ok, problem
from orchestrator.runner import Runtime, Session, Settings

TRIAL = Path(__file__).with_name("trial.yaml")
REMEDIES: dict[Runtime, str] = {
    "sim": "this is a bug in Krift, or its installation is damaged",
    "live": "fix the problems above first; Ray's logs are in /tmp/ray/session_latest/logs",
}


def check_run(runtime: Runtime, scenario: Path = TRIAL) -> Check:
    """Carry out the smallest run and judge it in this process: in the sim, or live with Ray and gRPC."""
    name = f"a {runtime} run"
    with tempfile.TemporaryDirectory(prefix="krift-doctor-") as out:
        try:
            with Session(Settings(runtime, Path(out), spark=False)) as session:
                done = session.carry_out(resolve(load_file(scenario)))
        except (KriftError, OSError) as error:
            return problem(name, str(error), REMEDIES[runtime])
    against = [done.error, *done.verdict.unexpected, *done.verdict.undecided]
    if done.exit_code != 0:
        return problem(name, "; ".join(text for text in against if text), REMEDIES[runtime])
    return ok(name, f"{some(done.verdict.events, 'event')}, {some(done.verdict.rpcs, 'RPC')}, judged as expected")
