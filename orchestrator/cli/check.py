"""``krift check``: the invariants again, over an existing run."""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click

from actors.trace.lines import DAMAGE, decode_line
from chaos.errors import KriftError
from chaos.plan import Plan
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from chaos.words import some
from orchestrator.checked import Checked, of_an_unfinished, verdict_on
from orchestrator.cli.options import full_option, runs_option, story_option
from orchestrator.cli.outputs import Outputs, output_options
from orchestrator.driving import held, is_held
from orchestrator.invariants.folds.fold import Finding
from orchestrator.report.console import page
from orchestrator.report.junit import Judged
from orchestrator.report.text import print_verdict
from orchestrator.run_dir import RESTORE, Manifest, RunDir, open_run_dir, wrong
from orchestrator.runner import (
    check_by,
    check_in_process,
    check_in_spark,
    check_in_stream,
    keep_verdict,
    with_paths,
    with_repeat,
)
from orchestrator.soak.again import is_evidence
from orchestrator.soak.base import judged, read_base
from orchestrator.trace.collect import incarnations
from orchestrator.trace.read import events_in, line_to_stamped, trace_of
from orchestrator.verdict import exit_code, json_line
from orchestrator.version import __version__

AUTO = "auto"
IN_PROCESS = "in-process"
IN_PROCESS_EVENTS = 50_000
"""A trace of up to as many is judged in this process, where Spark would only begin to start."""
GROWING = "the run had not ended when it was checked"
CUT_OFF = "the run did not end: its driver was killed"


@click.command("check")
@click.argument("run", default="latest")
@click.option(
    "--engine",
    type=click.Choice([AUTO, "spark", "streaming", IN_PROCESS]),
    default=AUTO,
    show_default=True,
    help="The engine that evaluates the invariants; the results are the same. in-process needs no Java; "
    "streaming follows the nodes' logs, even while a live run goes on; "
    f"auto: in-process up to {IN_PROCESS_EVENTS:,} events, spark above.",
)
@runs_option
@click.option("--json", "as_json", is_flag=True, help="The verdict on stdout, as one line of JSON, and nothing else.")
@output_options
@full_option
@story_option
def command(
    run: str,
    engine: str,
    out: Path,
    as_json: bool,
    junit_file: Path | None,
    summary_file: Path | None,
    full: bool,
    story: bool,
) -> int:
    """Check the invariants over RUN (a directory, a name under --out, or "latest") again, and write its verdict."""
    directory = open_run_dir(out, run)
    # First this: a run that ends meanwhile is taken for one that goes on, and its own verdict is left alone.
    driven = is_held(directory.path)
    manifest = directory.read_manifest()
    plan = plan_of(directory)
    unfinished = manifest.status == "running"
    by_logs = engine == "streaming" and bool(incarnations(directory.path))
    collected = not (by_logs and (unfinished or not any(directory.trace.glob("*.parquet"))))
    if collected:
        directory.trace_parts()
    if not os.access(directory.path, os.W_OK):
        raise wrong(directory.path, "the verdict cannot be written there", "a directory that you may write to")
    outputs = Outputs(junit_file, summary_file)
    outputs.check()
    evidence = is_evidence(directory)
    if evidence and engine not in (AUTO, IN_PROCESS):
        raise wrong(f"--engine {engine}", "evidence goes on from what the checks knew, in this process", "no --engine")
    engine = IN_PROCESS if evidence else _chosen(directory, engine)
    page(stderr=True).say(f"checking {directory.path}{_means(directory, engine)}")
    short = _why_short(directory, manifest, driven, collected)
    checked = _check(directory, plan, engine, collected, bool(short))
    if short:
        checked = of_an_unfinished(checked, short)
    else:
        _compare_digests(directory, manifest, plan, checked)
    doubts = [*manifest.doubts, *([short] if short else [])]
    shown = page()
    if driven:
        page(stderr=True).say("this verdict is not kept: the run's own command writes one")
    with nullcontext() if driven else held(directory.path):
        # A replay may have said meanwhile what came of the repetition.
        checked = with_repeat(checked, manifest.digest, directory.read_manifest().repeated)
        verdict = verdict_on(plan, manifest.run, manifest.runtime, checked, manifest.duration, doubts, manifest.remarks)
        if collected:
            verdict = with_paths(verdict, directory, checked.zero_us)
        if not driven:
            keep_verdict(directory, verdict)
    if as_json:
        shown.raw(json_line(verdict))
    else:
        print_verdict(shown, verdict, full=full, story=story)
    code = exit_code(verdict, manifest.status)
    outputs.write_runs([Judged(verdict, manifest.started, manifest.reproduce, code)])
    return code


def _why_short(directory: RunDir, manifest: Manifest, driven: bool, collected: bool) -> str:
    """Why what is checked does not reach to the end of the run; "" if it does."""
    if manifest.status == "running":
        return GROWING if driven else CUT_OFF
    return "" if collected else f"its trace was never collected: {directory.fate(manifest)}"


def _chosen(directory: RunDir, engine: str) -> str:
    """The engine that a trace of this size asks for, if it is left to us."""
    if engine != AUTO:
        return engine
    return IN_PROCESS if events_in(directory) <= IN_PROCESS_EVENTS else "spark"


def _means(directory: RunDir, engine: str) -> str:
    """By what it is judged, where somebody may wonder why it takes its time."""
    if engine != "spark":
        return ""
    return f": {some(events_in(directory), 'event')} in Spark, which takes a while to start"


def plan_of(directory: RunDir) -> Plan:
    """The plan of a run, from the resolved scenario in its directory."""
    return resolve(load_file(directory.scenario))


def _check(directory: RunDir, plan: Plan, engine: str, collected: bool, short: bool) -> Checked:
    try:
        if engine == IN_PROCESS:
            return _check_here(directory, plan)
        return _check_with_spark(directory, plan, engine, collected, short)
    except KriftError:
        raise
    except Exception as error:
        # An engine stumbles over a damaged trace in many ways, Spark far from the place: look whether it is that.
        if engine == "streaming":
            _read_the_logs(directory, error)
        _read_to_the_end(directory, error)
        raise


def _check_here(directory: RunDir, plan: Plan) -> Checked:
    base = read_base(directory) if is_evidence(directory) else None
    if base is None:
        return check_in_process(directory, plan)
    return check_by(directory, plan, partial(judged, directory, base))


def _check_with_spark(directory: RunDir, plan: Plan, engine: str, collected: bool, short: bool) -> Checked:
    from orchestrator.engines.spark_session import spark_session

    spark = spark_session()
    try:
        if engine == "streaming":
            return check_in_stream(spark, directory, plan, _tell_so_far if short else _tell, collected)
        return check_in_spark(spark, directory, plan)
    finally:
        spark.stop()


def _tell(violation: Finding) -> None:
    page(stderr=True).say(f"{violation.invariant} violated: {violation.sentence}")


def _tell_so_far(violation: Finding) -> None:
    page(stderr=True).say(f"{violation.invariant} seems to be violated so far: {violation.sentence}")


def _read_the_logs(directory: RunDir, error: Exception) -> None:
    """Raises InputError if a chunk of the logs has a line that is no event."""
    for path in sorted(chunk for own in incarnations(directory.path).values() for chunk in own):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                line_to_stamped(decode_line(line))
            except DAMAGE as damage:
                raise wrong(path, f"damaged in line {number:,}: {damage}", RESTORE) from error


def _read_to_the_end(directory: RunDir, error: Exception) -> None:
    """Raises InputError if the trace cannot be read, or is not in its order."""
    last = None
    for number, event in enumerate(trace_of(directory), 1):
        if last is not None and event.order < last:
            raise wrong(directory.trace, f"event {number:,} comes before the one in front of it", RESTORE) from error
        last = event.order


def _compare_digests(directory: RunDir, manifest: Manifest, plan: Plan, checked: Checked) -> None:
    """A trace that was changed proves nothing. Not for defects, which may keep events from the trace that its digest
    counts, nor for other versions of krift, to which events may have other fields."""
    comparable = manifest.digest and not plan.defects and manifest.krift == __version__
    if comparable and checked.digest != manifest.digest:
        problem = f"not what the run recorded: its digest is {checked.digest}, the manifest has {manifest.digest}"
        raise wrong(directory.trace, problem, RESTORE)
