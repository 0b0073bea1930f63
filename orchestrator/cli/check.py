"""``krift check``: the invariants again, over an existing run."""

from __future__ import annotations

from pathlib import Path

import click

from chaos.plan import Plan
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from orchestrator.report.console import console
from orchestrator.report.text import print_verdict
from orchestrator.run_dir import RunDir, open_run_dir, wrong
from orchestrator.runner import Checked, check_in_process, check_in_spark, write_violations
from orchestrator.verdict import RunFacts, encode_verdict, judge, write_verdict


@click.command("check")
@click.argument("run", default="latest")
@click.option(
    "--engine",
    type=click.Choice(["spark", "in-process"]),
    default="spark",
    show_default=True,
    help="Both drive the same folds.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where run directories are.",
)
@click.option("--json", "as_json", is_flag=True, help="The verdict on stdout, and nothing else.")
def command(run: str, engine: str, out: Path, as_json: bool) -> int:
    """Check the invariants over RUN (a directory, a name under --out, or "latest") again, and write its verdict."""
    directory = open_run_dir(out, run)
    manifest = directory.read_manifest()
    plan = plan_of(directory)
    if not any(directory.trace.glob("*.parquet")):
        raise wrong(directory.path, "no trace", "a run that was kept")
    checked = _check(directory, plan, engine)
    facts = RunFacts(
        run=manifest.run,
        scenario=plan.scenario,
        variant=plan.variant,
        runtime="live" if manifest.runtime == "live" else "sim",
        seed=plan.seed,
        digest=checked.digest,
        events=checked.events,
        rpcs=checked.rpcs,
        duration=manifest.duration,
    )
    verdict = judge(facts, checked.results, plan.expect, checked.seen, manifest.doubts)
    write_verdict(verdict, directory.verdict)
    write_violations(directory, verdict)
    if as_json:
        click.echo(encode_verdict(verdict).decode())
    else:
        print_verdict(console(), verdict)
    return verdict.exit_code


def plan_of(directory: RunDir) -> Plan:
    """The plan of a run, from the resolved scenario in its directory."""
    return resolve(load_file(directory.scenario))


def _check(directory: RunDir, plan: Plan, engine: str) -> Checked:
    if engine == "in-process":
        return check_in_process(directory, plan)
    from orchestrator.engines.spark_session import spark_session

    spark = spark_session()
    try:
        return check_in_spark(spark, directory, plan)
    finally:
        spark.stop()
