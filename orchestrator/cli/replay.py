"""``krift replay``: step a run again and compare every effect."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from actors.node.contract import Node
from actors.replay import JournalGap, plain, replay_node, state_at
from actors.sim.digest import StepDigests
from actors.sim.world import World
from actors.trace.journal import JournalError, JournalNotBegun, Segment, read_segment
from actors.trace.lines import DAMAGE
from chaos.conductor import ScenarioConductor
from chaos.errors import ReplayDiverged, nearest
from chaos.plan import Plan
from chaos.words import some
from orchestrator.cli.check import plan_of
from orchestrator.cli.options import runs_option
from orchestrator.clusters.base import RunOrder, run_meta
from orchestrator.clusters.sim import STEPS_FILE
from orchestrator.compressed import read_compressed
from orchestrator.driving import held
from orchestrator.repeats import repeat
from orchestrator.report.console import Page, page
from orchestrator.run_dir import COMPRESSED, RESTORE, Manifest, RunDir, open_run_dir, why, wrong
from orchestrator.runner import keep_verdict, repeat_result
from orchestrator.soak.again import is_evidence, repeat_evidence
from orchestrator.verdict import judged_again, read_verdict
from orchestrator.version import __version__

Journals = dict[tuple[str, int], list[Segment]]
"""Node and incarnation -> segments."""

JOURNAL_BYTES_MAX = 1 << 30
"""More than a segment has: a new one begins at ``actors.live.journal_writer.SEGMENT_BYTES_MAX``."""

_MOMENT = re.compile(r"(zero\+)?(\d{1,16})", re.ASCII)


class Moment(msgspec.Struct, frozen=True):
    """What --at names: milliseconds, since the scenario's time 0 or on the clock of the run."""

    number: int
    since_zero: bool

    def ms(self, manifest: Manifest) -> int:
        """On the clock of a run. Raises InputError if it never came to its time 0."""
        if not self.since_zero:
            return self.number
        if manifest.zero_ms < 0:
            raise wrong(f"--at zero+{self.number}", "the run never reached its time 0", "--at without zero+")
        return manifest.zero_ms + self.number


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> Moment | None:
    if value is None:
        return None
    found = _MOMENT.fullmatch(value)
    if found is None:
        raise click.BadParameter(
            f"{value!r} is no moment; expected milliseconds, such as 4500 or zero+4500", ctx, param
        )
    return Moment(int(found[2]), bool(found[1]))


@click.command("replay")
@click.argument("run", default="latest")
@click.option("--node", help="Only this node.")
@click.option(
    "--at",
    "at",
    callback=_moment,
    metavar="[zero+]MS",
    help="Print the state of --node at this moment of its own clock, as JSON. zero+MS counts from the scenario's "
    "time 0, MS alone from 1970 in a live run, from the start in a sim run.",
)
@click.option(
    "--incarnation",
    type=click.IntRange(min=0),
    help="With --at, in a live run: which incarnation of the node, as each start begins one; the first if not given.",
)
@runs_option
def command(run: str, node: str | None, at: Moment | None, incarnation: int | None, out: Path) -> int:
    """Step every node of RUN again (a directory, a name under --out, or "latest") and compare every effect.

    A live run is replayed from its journals, a sim run from its scenario and seed.
    """
    if at is not None and node is None:
        raise click.UsageError("--at needs --node")
    if incarnation is not None and at is None:
        raise click.UsageError("--incarnation needs --at")
    directory = open_run_dir(out, run)
    directory.refuse_a_soak()
    manifest = directory.read_manifest()
    plan = plan_of(directory)
    if node is not None and node not in plan.names:
        raise wrong(f"--node {node}", "no such node in this run", ", ".join(plan.names), nearest(node, plan.names))
    shown = page()
    at_ms = at.ms(manifest) if at is not None else None
    if manifest.runtime == "sim" and is_evidence(directory):
        return _evidence(shown, directory, manifest, at_ms is not None)
    if manifest.runtime == "sim":
        return _sim(shown, directory, manifest, plan, node, at_ms, incarnation)
    journals = _journals(directory, node)
    if at_ms is None or node is None:
        return _replay_live(shown, manifest, journals)
    life = (node, incarnation or 0)
    if life not in journals:
        lives = ", ".join(str(number) for name, number in sorted(journals) if name == node)
        raise wrong(f"--incarnation {life[1]}", f"{node} had no such life", f"one of {lives}")
    try:
        _show_state(shown, state_at(journals[life], now_ms=at_ms))
    except JournalGap as gap:
        raise wrong(f"--at {at_ms}", str(gap), _span(journals[life])) from None
    return 0


# ---- sim -------------------------------------------------------------------------------------------------------


def _sim(
    shown: Page,
    directory: RunDir,
    manifest: Manifest,
    plan: Plan,
    node: str | None,
    at_ms: int | None,
    incarnation: int | None,
) -> int:
    if incarnation is not None:
        raise click.UsageError("--incarnation is for live runs: in a sim run --at names one moment of all nodes")
    if node is None or at_ms is None:
        if node is not None:
            raise click.UsageError("a sim run is replayed as a whole; --node goes with --at")
        return _replay_sim(shown, directory, manifest, plan)
    last_ms = int(manifest.duration * 1000)
    if at_ms > last_ms:
        raise wrong(f"--at {at_ms}", "the run had ended by then", f"0 to {last_ms}")
    order = RunOrder(manifest.run, plan, directory.path)
    conductor = ScenarioConductor(plan)
    world = World(plan.nodes, conductor, plan.seed, order.run, lambda _: None, meta=run_meta(order, "sim"))
    world.run(at_ms * 1000 + 999)
    found = world.hosts[node].node
    if found is None:
        raise wrong(f"--at {at_ms}", f"{node} is down then", "a moment at which it is up")
    _show_state(shown, found)
    return 0


def _evidence(shown: Page, directory: RunDir, manifest: Manifest, at: bool) -> int:
    if at:
        raise wrong("--at", "the evidence of a soak has events, and no steps", "krift replay without --at")
    again = repeat_evidence(directory)
    shown.say(
        f"{manifest.run}: {some(again.compared, 'event')} around the finding repeated, the last of "
        f"{again.events:,}, no difference"
    )
    return 0


def _replay_sim(shown: Page, directory: RunDir, manifest: Manifest, plan: Plan) -> int:
    recorded = _steps(directory)
    # An interrupted run ended where its user wanted, and its trace with it: its replay ends after the same step.
    interrupted = manifest.status == "interrupted"
    again = repeat(plan, manifest.run, steps=True, steps_max=len(recorded) if interrupted else None)
    if not interrupted:
        _note_repeat(directory, manifest, again.digest)
    difference = recorded.first_difference(again.step_digests())
    if difference is not None:
        raise ReplayDiverged(manifest.run, difference.step, f"{manifest.run}: {difference}{_versions(manifest)}")
    if again.digest != manifest.digest and not interrupted:
        what = f"{manifest.run}: trace digest {again.digest}, the manifest has {manifest.digest}{_versions(manifest)}"
        raise ReplayDiverged(manifest.run, len(recorded), what)
    found = "up to its interruption" if interrupted else f"trace {again.digest}"
    shown.say(f"{manifest.run}: {some(len(recorded), 'step')} repeated, no difference; {found}")
    return 0


def _note_repeat(directory: RunDir, manifest: Manifest, digest: str) -> None:
    """Let the manifest and the verdict, if there is one, say what came of the repetition (X8). A run by another version
    of krift may well differ; and a run that may not be written to keeps what it says."""
    if manifest.krift != __version__ or not os.access(directory.path, os.W_OK):
        return
    with held(directory.path):
        manifest = directory.read_manifest()
        manifest.repeated = digest
        directory.write_manifest(manifest)
        if directory.verdict.exists():
            keep_verdict(directory, judged_again(read_verdict(directory), repeat_result(manifest.digest, digest)))


def _versions(manifest: Manifest) -> str:
    return "" if manifest.krift == __version__ else f" (recorded by krift {manifest.krift}; this is {__version__})"


def _steps(directory: RunDir) -> StepDigests:
    path = directory.path / STEPS_FILE
    try:
        return StepDigests.from_bytes(path.read_bytes())
    except FileNotFoundError:
        raise wrong(path, "the digests of the run's steps are missing", "a run that was kept (--keep all)") from None
    except OSError as error:
        raise wrong(path, f"cannot be read: {why(error)}", RESTORE) from None
    except (ValueError, *DAMAGE) as error:
        raise wrong(path, f"not the digests of a run's steps: {error}", RESTORE) from None


# ---- live ------------------------------------------------------------------------------------------------------


def _journals(directory: RunDir, node: str | None) -> Journals:
    found: Journals = {}
    for path in sorted(directory.journals.glob("node=*/*")):
        if node is not None and path.parent.name != f"node={node}":
            continue
        try:
            segment = read_segment(_read(path))
        except OSError as error:
            raise wrong(path, f"cannot be read: {why(error)}", RESTORE) from None
        except JournalNotBegun:
            continue  # killed just when it began a new segment: no step is missing
        except JournalError as error:
            raise wrong(path, str(error), RESTORE) from None
        found.setdefault((segment.header.node, segment.header.incarnation), []).append(segment)
    if not found:
        what = f"it has no journal of {node}" if node else "it has no journals"
        raise wrong(directory.path, what, "a live run that was kept whole")
    return found


def _read(path: Path) -> bytes:
    return read_compressed(path, JOURNAL_BYTES_MAX) if path.suffix == COMPRESSED else path.read_bytes()


def _replay_live(shown: Page, manifest: Manifest, journals: Journals) -> int:
    steps = effects = 0
    for _, segments in sorted(journals.items()):
        report = replay_node(segments)
        if report.difference is not None:
            difference = report.difference
            raise ReplayDiverged(difference.node, difference.step, f"{difference}{_versions(manifest)}")
        torn = f"; {report.torn} torn at the end by a kill" if report.torn else ""
        gaps = f"; gaps before the steps {', '.join(map(str, report.gaps))}" if report.gaps else ""
        shown.say(
            f"{report.node}/{report.incarnation}: {some(report.steps, 'step')}, {some(report.effects, 'effect')}, "
            f"no difference{torn}{gaps}"
        )
        steps += report.steps
        effects += report.effects
    shown.say(f"{some(len(journals), 'incarnation')}, {some(steps, 'step')}, {some(effects, 'effect')}: no difference")
    return 0


def _span(segments: Iterable[Segment]) -> str:
    times = [entry.now_ms for segment in segments for entry in segment.entries]
    return f"{min(times)} to {max(times)}" if times else "a journal with steps"


def _show_state(shown: Page, node: Node) -> None:
    state: Any = plain(node)
    shown.raw(msgspec.json.format(msgspec.json.encode(state, enc_hook=_hex), indent=2).decode() + "\n")


def _hex(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)
