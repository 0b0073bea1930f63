"""``krift replay``: step a run again and compare every effect."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from actors.node.codec import encode
from actors.replay import JournalGap, plain, replay_node, state_at
from actors.sim.digest import StepDigests
from actors.trace.journal import JournalError, Segment, read_segment
from chaos.conductor import ScenarioConductor
from chaos.errors import ReplayDiverged
from orchestrator.cli.check import plan_of
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.sim import STEPS_FILE, SimCluster
from orchestrator.report.console import console
from orchestrator.run_dir import Manifest, RunDir, open_run_dir, wrong


@click.command("replay")
@click.argument("run", default="latest")
@click.option("--node", help="Only this node.")
@click.option(
    "--at",
    "at_ms",
    type=int,
    metavar="MS",
    help="Show the node's state after its last step at or before this moment of its own clock; needs --node.",
)
@click.option("--incarnation", type=int, default=0, show_default=True, help="Which life of the node --at means.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where run directories are.",
)
def command(run: str, node: str | None, at_ms: int | None, incarnation: int, out: Path) -> int:
    """Step every node of RUN again (a directory, a name under --out, or "latest") and compare every effect.

    A live run is replayed from its journals, a sim run from its scenario and seed.
    """
    directory = open_run_dir(out, run)
    manifest = directory.read_manifest()
    talk = console()
    if at_ms is not None and node is None:
        raise click.UsageError("--at needs --node")
    if manifest.runtime == "sim":
        if node is not None:
            raise click.UsageError("a sim run is replayed as a whole: it has no journals")
        return _replay_sim(talk, directory, manifest)
    journals = _journals(directory, node)
    if at_ms is not None and node is not None:
        return _show_state(talk, journals[(node, incarnation)], at_ms)
    return _replay_live(talk, journals)


def _replay_sim(talk: Console, directory: RunDir, manifest: Manifest) -> int:
    plan = plan_of(directory)
    recorded = _steps(directory)
    with tempfile.TemporaryDirectory(prefix="krift-replay-") as aside:
        cluster = SimCluster()
        cluster.run(RunOrder(manifest.run, plan, Path(aside)), ScenarioConductor(plan))
    assert cluster.steps is not None
    difference = recorded.first_difference(cluster.steps)
    if difference is not None:
        raise ReplayDiverged(manifest.run, difference.step, str(difference))
    if cluster.digest != manifest.digest:
        raise ReplayDiverged(manifest.run, len(recorded), f"trace digest {cluster.digest}, not {manifest.digest}")
    talk.print(f"{manifest.run}: {len(recorded):,} steps taken again, no difference; digest {cluster.digest[:16]}")
    return 0


def _steps(directory: RunDir) -> StepDigests:
    path = directory.path / STEPS_FILE
    try:
        return StepDigests.from_bytes(path.read_bytes())
    except OSError:
        raise wrong(path, "the digests of the run's steps are missing", "a run that was kept") from None
    except msgspec.DecodeError as error:
        raise wrong(path, f"not the digests of a run's steps: {error}") from None


def _journals(directory: RunDir, node: str | None) -> dict[tuple[str, int], list[Segment]]:
    found: dict[tuple[str, int], list[Segment]] = {}
    for path in sorted(directory.journals.glob("node=*/*")):
        name = path.parent.name.removeprefix("node=")
        if node is not None and name != node:
            continue
        try:
            segment = read_segment(path.read_bytes())
        except JournalError as error:
            raise wrong(path, str(error)) from None
        found.setdefault((segment.header.node, segment.header.incarnation), []).append(segment)
    if not found:
        what = f"no journal of {node}" if node else "no journals"
        raise wrong(directory.path, what, "a live run that was kept")
    return found


def _replay_live(talk: Console, journals: dict[tuple[str, int], list[Segment]]) -> int:
    steps = effects = 0
    for _, segments in sorted(journals.items()):
        report = replay_node(segments)
        if report.difference is not None:
            difference = report.difference
            raise ReplayDiverged(difference.node, difference.step, str(difference))
        torn = f", {report.torn} torn" if report.torn else ""
        gaps = f", gaps before steps {report.gaps}" if report.gaps else ""
        talk.print(
            f"{report.node}/{report.incarnation}: {report.steps:,} steps, {report.effects:,} effects,"
            f" no difference{torn}{gaps}"
        )
        steps += report.steps
        effects += report.effects
    talk.print(f"{len(journals)} incarnations, {steps:,} steps, {effects:,} effects: no difference")
    return 0


def _show_state(talk: Console, segments: Iterable[Segment], at_ms: int) -> int:
    try:
        node = state_at(segments, now_ms=at_ms)
    except JournalGap as gap:
        raise wrong(f"--at {at_ms}", str(gap)) from None
    state: Any = plain(encode(node))
    talk.print_json(msgspec.json.encode(state, enc_hook=_hex).decode())
    return 0


def _hex(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)
