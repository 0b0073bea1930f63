"""The directory of a soak: what is in it, and who may write there.

```
runs/<soak>/soak.json        what was asked for
            scenario.yaml    the cluster, with the schedule of round 0
            rounds/          the schedules of the last rounds, each as a scenario
            trace/           the last events that were checked, Parquet
            checkpoints/     what the checks know, with the digest of the trace so far: the last two
            findings.jsonl   a line for each promise that was broken, with its place
            evidence/        for each of those: the events around it, the round, the finding
            status.json      where it stands
            verdict.json     once it is over
```
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final, Literal

import msgspec

from chaos.scenario.durations import format_duration
from orchestrator.run_dir import RunDir, open_run_dir, read_json, write_json, wrong

SOAK_SCHEMA: Final = "krift-soak/v1"
STATUS_SCHEMA: Final = "krift-soak-status/v1"
EVIDENCE_SCHEMA: Final = "krift-soak-evidence/v1"

OnViolation = Literal["continue", "stop"]


class Asked(msgspec.Struct, kw_only=True, frozen=True):
    """What was asked for: ``soak.json``. word: the scenario or nemesis. Times are microseconds of the run's own time.
    keep_us: how far back checked events are kept; checkpoint_us: how often what the checks know is put aside.
    evidence_max: how many findings get their evidence. cluster: the options of where it runs, as they were given;
    address, tls, insecure: what they mean (``orchestrator.runner.Settings``)."""

    schema: Literal["krift-soak/v1"] = SOAK_SCHEMA
    krift: str
    soak: str
    word: str
    runtime: Literal["live", "sim"]
    seed: int
    variant: str = ""
    settings: list[str] = []
    defects: list[str] = []
    duration_us: int
    calm_us: int
    keep_us: int
    checkpoint_us: int
    on_violation: OnViolation = "continue"
    evidence_max: int = 50
    started: str
    cluster: str = ""
    address: str = ""
    tls: str | None = None
    insecure: bool = False

    @property
    def command(self) -> str:
        """The command that does it again. Its settings say how long brokers keep records, also where ``--retention``
        decided that; so ``--retention 0s`` adds nothing to them."""
        words = ["krift", "soak", self.word, "--runtime", self.runtime, "--seed", str(self.seed)]
        times = {"duration": self.duration_us, "calm": self.calm_us, "keep": self.keep_us}
        for name, us in (times | {"checkpoint": self.checkpoint_us, "retention": 0}).items():
            words += [f"--{name}", format_duration(us)]
        words += ["--on-violation", self.on_violation]
        words += ["--variant", self.variant] if self.variant else []
        for name, values in (("--set", self.settings), ("--defect", self.defects)):
            for value in values:
                words += [name, value]
        return shlex.join(words) + self.cluster


class Found(msgspec.Struct, kw_only=True, frozen=True):
    """A promise that was broken: a line of ``findings.jsonl``. known: the finding about Kafka itself that shows here.
    at_us: by the trace's clock. evidence: its folder below ``evidence``, "" if it has none."""

    number: int
    invariant: str
    key: str
    known: str
    sentence: str
    events: list[str]
    causes: list[str]
    at_us: int
    round: int
    evidence: str = ""


class Status(msgspec.Struct, kw_only=True):
    """Where a soak stands: ``status.json``. state: running, or how it ended. time_us: since time 0, of duration_us.
    faults: kind -> how many took effect. findings: invariant -> how many, those of Kafka's own apart under ``known``.
    checked_us: the trace's clock at the last checkpoint. state_bytes: what the checks know, encoded. memory_bytes: of
    this process. disk_bytes: of the soak's directory; evidence_bytes: of those, of evidence. restarts: how often it was
    resumed; checker_restarts: how often the checks of a live soak were started again. starved_ms: how long its nodes
    have waited for processor time, added up."""

    schema: Literal["krift-soak-status/v1"] = STATUS_SCHEMA
    soak: str
    scenario: str
    runtime: Literal["live", "sim"]
    state: str = "running"
    detail: str = ""
    phase: str = "starting"
    round: int = 0
    time_us: int = 0
    duration_us: int = 0
    events: int = 0
    faults: dict[str, int] = {}
    findings: dict[str, int] = {}
    known: dict[str, int] = {}
    checked_us: int = 0
    state_bytes: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    evidence_bytes: int = 0
    restarts: int = 0
    checker_restarts: int = 0
    starved_ms: int = 0
    started: str = ""
    updated: str = ""
    wall_s: float = 0.0
    up: int = 0
    nodes: int = 0


class EvidenceFile(msgspec.Struct, kw_only=True, frozen=True):
    """What a folder of evidence is about: ``evidence.json``. first, last: numbers of its events in the trace of the
    soak, counted from 0; digest: of these."""

    schema: Literal["krift-soak-evidence/v1"] = EVIDENCE_SCHEMA
    asked: Asked
    found: Found
    first: int
    last: int
    digest: str


class SoakDir:
    """One soak's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = RunDir(path)

    @property
    def rounds(self) -> Path:
        return self.path / "rounds"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def bases(self) -> Path:
        return self.path / "bases"

    @property
    def findings(self) -> Path:
        return self.path / "findings.jsonl"

    @property
    def evidence(self) -> Path:
        return self.path / "evidence"

    @property
    def status(self) -> Path:
        return self.path / "status.json"

    def read_asked(self) -> Asked:
        """Read soak.json. InputError if it is missing, damaged or of another format."""
        return read_json(self.path / "soak.json", Asked, SOAK_SCHEMA, "a directory that krift soak wrote")

    def write_asked(self, asked: Asked) -> None:
        """Write soak.json."""
        write_json(self.path / "soak.json", asked)

    def read_status(self) -> Status:
        """Read status.json; InputError likewise."""
        return read_json(self.status, Status, STATUS_SCHEMA, "a soak that has begun")

    def write_status(self, status: Status) -> None:
        """Write status.json."""
        write_json(self.status, status)

    def size(self, folder: Path | None = None) -> int:
        """Bytes of all its files, or of those in one of its folders."""
        total = 0
        for path in (folder or self.path).rglob("*"):
            try:
                total += path.stat().st_size if path.is_file() else 0
            except FileNotFoundError:
                continue
        return total


def open_soak(root: Path, name: str) -> SoakDir:
    """An existing soak: a path, a name under ``root``, or "latest", which is the newest soak. Raises InputError."""
    if name == "latest":
        soaks = sorted(root.glob("*/soak.json"), key=lambda path: path.stat().st_mtime)
        if not soaks:
            raise wrong(name, f"there is no soak under {root}/", "the directory of a soak, or --out where soaks are")
        return SoakDir(soaks[-1].parent)
    found = SoakDir(open_run_dir(root, name).path)
    found.read_asked()
    return found
