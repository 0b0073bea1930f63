"""The evidence of a finding: what happened around it, kept for good while the trace goes on and expires."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from actors.live.journal_writer import SUFFIX as JOURNALS
from actors.sim.digest import TraceDigest
from actors.trace.events import CtlFault, CtlPhase, Stamped
from chaos.rounds import Round, Rounds
from orchestrator.compressed import write_compressed
from orchestrator.files import write_text
from orchestrator.run_dir import COMPRESSED, Manifest, RunDir, utc_now, write_json
from orchestrator.soak.directory import Asked, EvidenceFile, Found, SoakDir
from orchestrator.trace.write import write_events
from orchestrator.version import __version__

BEFORE_US = 120_000_000
"""How far back the events around a finding go, as far as they are there."""
AFTER_US = 5_000_000
"""How long after it."""
BASE = "base.bin"
"""What the checks knew before (``orchestrator.soak.base``)."""


def freeze_live(
    soak: SoakDir, asked: Asked, found: Found, rounds: Rounds, events: Iterable[Stamped], base: Path | None
) -> RunDir:
    """The same of a live soak, with the journals of the nodes as far as they are there, compressed. The events tell
    which round it was."""
    kept = list(events)
    number = round_at(kept, found.at_us)
    found = msgspec.structs.replace(found, round=number)
    directory = freeze(soak, asked, found, rounds.round(number), enumerate(kept), base)
    since_s = window(found)[0] / 1e6
    for path in soak.run.journals.glob(f"*/*{JOURNALS}"):
        if path.stat().st_mtime >= since_s:
            target = directory.journals / path.parent.name / f"{path.name}{COMPRESSED}"
            target.parent.mkdir(parents=True, exist_ok=True)
            write_compressed(target, path.read_bytes())
    return directory


def round_at(events: Iterable[Stamped], at_us: int) -> int:
    """The round that went on at a time: faults have it in their names."""
    number = 0
    for event in events:
        if event.wall <= at_us and type(event.body) is CtlFault and event.body.fault.startswith("r"):
            text = event.body.fault[1:].partition(".")[0]
            number = int(text) if text.isdigit() else number
    return number


def window(found: Found) -> tuple[int, int]:
    """From when to when what happened belongs to a finding."""
    return found.at_us - BEFORE_US, found.at_us + AFTER_US


def freeze(
    soak: SoakDir,
    asked: Asked,
    found: Found,
    round_: Round,
    events: Iterable[tuple[int, Stamped]],
    base: Path | None,
) -> RunDir:
    """Keep the events around a finding, as a run's directory that ``krift check``, ``replay`` and ``export`` take.
    ``base``: what the checks knew before, None if the events begin where the soak does."""
    numbered = list(events)
    directory = RunDir(soak.evidence / found.evidence)
    shutil.rmtree(directory.path, ignore_errors=True)  # of a freeze that was killed
    directory.path.mkdir(parents=True)
    digest = TraceDigest()
    for _, event in numbered:
        digest.add(event)
    write_events(directory.path, (event for _, event in numbered))
    write_text(directory.scenario, round_.plan.yaml())
    if base is not None:
        shutil.copyfile(base, directory.path / BASE)
    zero_us = next(
        (event.wall for _, event in numbered if type(event.body) is CtlPhase and event.body.phase == "chaos"), None
    )
    first, last = (numbered[0][0], numbered[-1][0]) if numbered else (0, -1)
    lasted_us = numbered[-1][1].wall - numbered[0][1].wall if numbered else 0
    directory.write_manifest(
        Manifest(
            krift=__version__,
            run=f"{asked.soak}/{found.evidence}",
            scenario=round_.plan.scenario,
            variant=round_.plan.variant,
            runtime=asked.runtime,
            seed=asked.seed,
            started=asked.started,
            ended=utc_now(),
            status="completed",
            detail=f"the events around finding {found.number} of a soak, in round {found.round}",
            duration=lasted_us / 1e6,
            zero_ms=-1 if zero_us is None else zero_us // 1000,
            digest=digest.hexdigest(),
            reproduce=asked.command,
        )
    )
    evidence = EvidenceFile(asked=asked, found=found, first=first, last=last, digest=digest.hexdigest())
    write_json(directory.path / "evidence.json", evidence)
    return directory
