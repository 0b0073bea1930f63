"""``krift campaign``: thousands of runs on Spark, and what they came to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from chaos.failure_store import DirectoryStore, FailureStore
from chaos.home import failures_directory
from chaos.sources import file_text
from chaos.words import some
from orchestrator.campaigns.asked import Asked, Source, combinations
from orchestrator.campaigns.campaign import Campaign
from orchestrator.campaigns.directory import CampaignDir, create_campaign_dir, open_campaign_dir
from orchestrator.campaigns.failures import order_again
from orchestrator.campaigns.summary import Report
from orchestrator.campaigns.work import code_id
from orchestrator.cli.asked import Mistakes, Options, find_checked
from orchestrator.cli.campaign_progress import CampaignProgress
from orchestrator.cli.options import check_master, parse_seeds, runs_option, with_retries
from orchestrator.cli.outputs import Outputs, output_options
from orchestrator.files import write_text
from orchestrator.interrupts import INTERRUPTED, Interrupts
from orchestrator.report.campaign import markdown, print_campaign
from orchestrator.report.console import Page, page
from orchestrator.report.junit_of_many import suites_of_campaign
from orchestrator.report.summary import summary_of_campaign
from orchestrator.run_dir import RunDir, check_root, utc_now, wrong
from orchestrator.verdict import Verdict, read_verdict
from orchestrator.version import __version__

SAMPLE = 10
NAME_MAX = 60


@click.command("campaign")
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--seeds", callback=parse_seeds, metavar="N|A-B", help="A run for each seed: 1 to N, or A to B.")
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Run only this variant; may be repeated.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a value in all runs; a KEY that is given several times takes each value in turn.",
)
@click.option("--defect", "defects", multiple=True, metavar="NAME", help="Plant this bug in all runs; may be repeated.")
@click.option(
    "--master",
    default="local[2]",
    show_default=True,
    metavar="URL",
    help="Where Spark runs: local[N], local-cluster[N,CORES,MB], spark://HOST:PORT, ...",
)
@runs_option
@click.option(
    "--resume", metavar="DIR", help='Continue a campaign that was stopped: a directory, a name under --out, "latest".'
)
@click.option(
    "--sample",
    type=click.IntRange(0, 1000),
    default=SAMPLE,
    show_default=True,
    help="Keep the traces of this many runs that do not fail.",
)
@click.option(
    "--guide",
    type=click.Choice(["random", "coverage"]),
    default="random",
    show_default=True,
    help="random: only fresh draws; coverage: half of them, half mutations of runs that reached new coverage.",
)
@click.option(
    "--fresh", is_flag=True, help="Neither try failures of earlier campaigns first, nor save new ones for the next."
)
@click.option("--dry-run", is_flag=True, help="Print the runs and start nothing.")
@click.option("--json", "as_json", is_flag=True, help="The result on stdout, as one object, and nothing else.")
@output_options
@click.option("--full", is_flag=True, help="Print all tables: faults, coverage, and every promise.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    seeds: range | None,
    master: str,
    out: Path,
    resume: str | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    full: bool,
    fresh: bool,
    junit_file: Path | None,
    summary_file: Path | None,
    **options: Any,
) -> int:
    """Run NAMEs (scenario files, or names of the library) with many seeds in the sim, on Spark, and summarize them."""
    check_master(master)
    if dry_run and as_json:
        raise click.UsageError("--dry-run prints for people, and --json only the result of a campaign")
    talk = page(stderr=True)
    if resume is not None:
        directory = open_campaign_dir(out, resume)
        asked = directory.read_asked()
        _check_same(ctx, directory, asked, _ask(names, seeds, **options) if names else None)
    else:
        asked = _ask(names, seeds, **options)
    if dry_run:
        _print_orders(page(), asked)
        return 0
    check_root(out)
    outputs = Outputs(junit_file, summary_file)
    outputs.check()
    store = None if fresh else DirectoryStore(failures_directory())
    if resume is None:
        if store is not None:
            asked = _with_earlier(asked, store, talk)
        directory = create_campaign_dir(out, asked.name)
        directory.write_asked(asked)
    talk.say(_announcement(asked))
    with directory.held():
        campaign = Campaign(directory, asked, talk.say, store)
        return _carry_out(campaign, master, talk, quiet, as_json, full, outputs)


def _carry_out(
    campaign: Campaign, master: str, talk: Page, quiet: bool, as_json: bool, full: bool, outputs: Outputs
) -> int:
    from orchestrator.engines.spark_session import spark_session

    if campaign.resumed:
        talk.say(f"{campaign.resumed:,} of {some(campaign.total, 'run')} done already")
    interrupted = False
    spark = spark_session(with_retries(master))
    try:
        with Interrupts() as interrupts, CampaignProgress(talk, quiet) as progress:

            def tick() -> None:
                if interrupts.asked:
                    raise KeyboardInterrupt
                progress.show(campaign)

            try:
                campaign.run(spark, tick)
            except KeyboardInterrupt:
                interrupted = True
            finally:
                spark.stop()
    except KeyboardInterrupt:  # a second one, while the first was obeyed
        interrupted = True
    except BaseException:
        talk.say(_how_to_resume(campaign))
        raise
    report = campaign.report()
    _print(report, campaign.directory, as_json, full)
    outputs.write(lambda: suites_of_campaign(report), lambda: summary_of_campaign(report))
    if interrupted:
        talk.say(f"interrupted after {report.runs:,} of {some(report.asked, 'run')}; the finished runs are kept")
        talk.say(_how_to_resume(campaign))
        return INTERRUPTED
    return report.exit_code


def _print(report: Report, directory: CampaignDir, as_json: bool, full: bool) -> None:
    shown = page()
    if as_json:
        shown.raw(msgspec.json.encode(report).decode() + "\n")
    else:
        print_campaign(shown, report, _worst_failure(report, directory), full=full)
    write_text(directory.report_text, markdown(report))


def _worst_failure(report: Report, directory: CampaignDir) -> Verdict | None:
    """The verdict on the failure that matters most, if it was kept."""
    kept = report.worst.kept if report.worst is not None else ""
    return read_verdict(RunDir(directory.path / kept)) if kept else None


def _how_to_resume(campaign: Campaign) -> str:
    return f"continue with  krift campaign --resume {campaign.directory.path}"


def _announcement(asked: Asked) -> str:
    names = ", ".join(source.name for source in asked.sources)
    return (
        f"krift {__version__}: campaign {names}, {some(asked.runs, 'run')}, seeds {asked.seeds[0]} to {asked.seeds[1]}"
    )


def _print_orders(shown: Page, asked: Asked) -> None:
    shown.say(f"{some(asked.runs, 'run')}: each of these with seeds {asked.seeds[0]} to {asked.seeds[1]}")
    for order in asked.orders_of(asked.seeds[0]):
        shown.say(f"  {order.again(asked.seeds[0])}")


# ---- what is asked, checked before anything starts -------------------------------------------------------------------


def _ask(
    names: tuple[str, ...],
    seeds: range | None,
    variants: tuple[str, ...],
    settings: tuple[str, ...],
    defects: tuple[str, ...],
    sample: int,
    guide: Literal["random", "coverage"],
) -> Asked:
    """What the command line asks for. Raises InputError for all that no run could be made from."""
    if not names:
        raise click.UsageError("Missing argument 'NAME...': scenarios to run")
    if seeds is None:
        raise click.UsageError("Missing option '--seeds': how many runs, N or A-B")
    given = Options(variants, seeds[0], combinations(settings), defects)
    mistakes = Mistakes()
    found = [_source(name, given, mistakes) for name in dict.fromkeys(names)]
    mistakes.tell()
    sources = [source for source in found if source is not None]
    return Asked(
        name="-".join(_plain(source.name) for source in sources)[:NAME_MAX],
        krift=__version__,
        code=code_id(),
        created=utc_now(),
        sources=sources,
        seeds=(seeds[0], seeds[-1]),
        settings=combinations(settings),
        defects=list(dict.fromkeys(defects)),
        sample=sample,
        guide=guide,
    )


def _with_earlier(asked: Asked, store: FailureStore, talk: Page) -> Asked:
    """The same, with what failed in earlier campaigns to be tried first."""
    contents = store.contents()
    for damaged in contents.damaged:
        talk.say(f"an earlier failure is skipped: {damaged}")
    if contents.failures:
        talk.say(f"{some(len(contents.failures), 'kind')} of earlier failures, tried first (not with --fresh)")
    return msgspec.structs.replace(asked, first=[order_again(each) for each in contents.failures])


def _source(word: str, options: Options, mistakes: Mistakes) -> Source | None:
    found = find_checked(word, options, mistakes)
    if found is None:
        return None
    untested: dict[str, str] = {}
    if found.nemesis is not None:
        untested = found.nemesis.nemesis.untested
    return Source(word, list(dict.fromkeys(options.variants)) or found.variants or [""], file_text(word), untested)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", Path(name).name.removesuffix(".yaml").removesuffix(".yml")).strip("-.")


_OF_THE_CAMPAIGN = ("seeds", "variants", "settings", "defects", "sample", "guide")


def _check_same(ctx: click.Context, directory: CampaignDir, asked: Asked, now: Asked | None) -> None:
    """A campaign goes on as it was begun, by the code that began it. Raises InputError."""
    if asked.code != code_id():
        problem = (
            f"begun by another krift ({asked.code}; this is {code_id()}): their runs are not to be counted together"
        )
        raise wrong(f"--resume {directory.path}", problem, "the krift that began it, or a new campaign")
    if now is None:
        given = click.core.ParameterSource.COMMANDLINE
        meant = [name for name in _OF_THE_CAMPAIGN if ctx.get_parameter_source(name) == given]
        if meant:
            raise click.UsageError(
                "--resume uses the names and options of the campaign: repeat all of them, names first, or none"
            )
        return
    differing = now.differs_from(asked)
    if differing:
        said = "; ".join(f"{name} {_shown(asked, name)}, and now {_shown(now, name)}" for name in differing)
        raise wrong(f"--resume {directory.path}", f"a campaign with other options: {said}", "the same, or none at all")


def _shown(asked: Asked, name: str) -> str:
    return msgspec.json.encode(getattr(asked, name)).decode()[:200]
