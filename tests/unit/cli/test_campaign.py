"""``krift campaign`` with its runs done here, in place of Spark."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from junitparser import Error, Failure, JUnitXml

from chaos.errors import RunError
from orchestrator.campaigns import campaign as module
from orchestrator.campaigns.directory import open_campaign_dir
from orchestrator.campaigns.summary import Report
from orchestrator.cli.options import with_retries
from orchestrator.engines import spark_session
from tests.unit.campaigns.here import Here
from tests.unit.chaos.nemesis_text import SMALL
from tests.unit.cli.command import krift, scenario

NEMESIS = f"""\
{SMALL}
chaos: {{duration: {{1s-2s: 1}}, number: {{1: 1}}}}
untested: {{H5: Nobody asks as a broker does., X3: Nothing has bugs.}}
"""


class NoSpark:
    """A session that can be stopped."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> NoSpark:
    """Stands in for the session, in a directory of its own."""
    found = NoSpark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spark_session, "spark_session", lambda master: found)
    monkeypatch.setattr(module, "spread", Here().spread)
    monkeypatch.setattr(module, "recheck", lambda spark, kept: "")
    scenario(tmp_path)
    return found


def test_a_campaign_for_people(spark: NoSpark) -> None:
    """Shows the sum on stdout, all tables with --full, the same in report.md, and that a campaign which leaves promises
    untested is undecided."""
    ended = krift("campaign", "small.yaml", "--seeds", "4-5", "--sample", "1")
    assert (ended.code, spark.stopped) == (3, True)
    assert ended.err.startswith("krift 0.1.0: campaign small.yaml, 2 runs, seeds 4 to 5\n")
    assert "small.yaml     2     2         0 " in ended.out
    assert re.search(r"^None of 2 runs tested these \d+ promises, .* \(X9: Every", ended.out, re.MULTILINE)
    assert "\nQ4   Votes go only to candidates" in ended.out
    assert re.search(r"^and \d+ others: (\w+, )+\w+$", ended.out, re.MULTILINE)
    assert ended.out.startswith("Outcome\nUNDECIDED: ")
    assert "runs        2 (seeds 4-5): 2 as expected" in ended.out
    assert "outcome     UNDECIDED" in ended.out
    assert re.search(r"^a page      krift report runs/campaign-small\S* --html$", ended.out, re.MULTILINE)
    assert "Column tested: " not in ended.out
    directory = open_campaign_dir(Path("runs"), "latest")
    full = krift("campaign", "small.yaml", "--seeds", "4-5", "--full")
    assert re.search(r"^Q4 +0 +0 ", full.out, re.MULTILINE)
    text = directory.report_text.read_text(encoding="utf-8")
    assert "| small.yaml | 2 | 2 | 0 | 0 | 0 | 0 |" in text
    assert "| source | runs | held | violated | inconclusive | not carried out | unexpected |" in text
    assert len(list(directory.sample.iterdir())) == 1


def test_a_campaign_for_programs(spark: NoSpark) -> None:
    """Shows exactly one object on stdout, with each bug as one signature, and 1 for violations that nobody expects; the
    next campaign tries what was found first, unless it is told not to."""
    Path("small.yaml").write_text(Path("small.yaml").read_text() + "defects: [leader-skips-offset]\n")
    ended = krift("campaign", "small.yaml", "--seeds", "3", "--json", "--quiet", "--sample", "0")
    report = msgspec.json.decode(ended.out, type=Report)
    assert (ended.code, report.runs, report.violated, ended.out.count("\n")) == (1, 3, 3, 1)
    assert [each.runs for each in report.signatures] == [3]
    again = krift("campaign", "small.yaml", "--seeds", "1", "--json", "--quiet")
    assert "1 kind of earlier failures, tried first" in again.err
    assert msgspec.json.decode(again.out, type=Report).runs == 2
    fresh = krift("campaign", "small.yaml", "--seeds", "1", "--json", "--quiet", "--fresh")
    assert msgspec.json.decode(fresh.out, type=Report).runs == 1


def test_a_failure_is_explained(spark: NoSpark) -> None:
    """Shows what a campaign prints of a failure: what was violated, with its evidence, the command that does it again,
    and the whole story of the first run that failed so."""
    Path("small.yaml").write_text(Path("small.yaml").read_text() + "defects: [leader-skips-offset]\n")
    lines = krift("campaign", "small.yaml", "--seeds", "2", "--quiet", "--sample", "0").out.splitlines()
    failures = lines[lines.index("Failures") : lines.index("One of these failures in full")]
    assert re.match(r"2 runs: \w+ ", failures[1])
    assert re.fullmatch(r"  also violated: (\w+ \(seeds 1, 2\)(, )?)+", failures[3])
    assert failures[4].startswith("  first: seed 1, the 1st run to end, after ")
    assert re.search(r"  again with  krift run \S+$", failures[5])
    told = lines[lines.index("One of these failures in full") : lines.index("NEVER TESTED")]
    assert re.match(r"small, sim, seed \d", told[1]), told[1]
    assert told[2].startswith("planted on purpose: leader-skips-offset (")
    assert told[3].startswith("VIOLATED with the planted defect: ")
    assert "      how it happened" in told


def test_what_a_nemesis_is_not_after(spark: NoSpark) -> None:
    """Shows that a campaign takes from the file what none of its runs tests, and looks whether that is so."""
    Path("mine.yaml").write_text(NEMESIS)
    ended = krift("campaign", "mine.yaml", "--seeds", "1", "--json", "--quiet")
    report = msgspec.json.decode(ended.out, type=Report)
    assert report.untested == {"H5": "Nobody asks as a broker does."}
    assert report.belied == ["X3 was tested by 1 of the runs of mine.yaml, whose file says that none tests it"]
    assert ("H5" in report.vacuous, "Q14" in report.vacuous, ended.code) == (False, True, 3)


def test_ctrl_c(spark: NoSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a Ctrl-C ends a campaign with 130 and a report on what is done, and how to go on."""
    here = Here()

    def spread(*arguments: Any, **options: Any) -> Iterator[Any]:
        for number, each in enumerate(here.spread(*arguments, **options), 1):
            if number == 2:
                signal.raise_signal(signal.SIGINT)
            yield each

    monkeypatch.setattr(module, "spread", spread)
    ended = krift("campaign", "small.yaml", "--seeds", "5")
    assert (ended.code, spark.stopped) == (130, True)
    assert "outcome     interrupted" in ended.out
    assert (
        "interrupted after 2 of 5 runs; the finished runs are kept\ncontinue with  krift campaign --resume runs/"
        in ended.err
    )
    ended = krift("campaign", "--resume", "latest", "--json")
    assert "2 of 5 runs done already" in ended.err
    assert ended.code == 130, "the spy sends it again, at the second run of the rest"
    assert msgspec.json.decode(ended.out, type=Report).runs == 4


def test_spark_gives_up(spark: NoSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a campaign whose executors are gone ends with 4, one error, and how to go on."""

    def spread(*arguments: Any, **options: Any) -> Iterator[Any]:
        raise RunError("Spark gave up: Task 3 failed 4 times")

    monkeypatch.setattr(module, "spread", spread)
    ended = krift("campaign", "small.yaml", "--seeds", "5")
    assert (ended.code, ended.out, spark.stopped) == (4, "", True)
    assert "continue with  krift campaign --resume runs/campaign-small-" in ended.err
    assert ended.err.endswith("krift: Spark gave up: Task 3 failed 4 times\n")


def test_a_dry_run(spark: NoSpark) -> None:
    """Shows what would be run, and that nothing is."""
    ended = krift(
        "campaign", "small.yaml", "everything", "--seeds", "7-9", "--set", "features.kip-207=seed", "--dry-run"
    )
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "6 runs: each of these with seeds 7 to 9",
        "  krift run small.yaml --runtime sim --seed 7 --set features.kip-207=seed",
        "  krift run everything --runtime sim --seed 7 --set features.kip-207=seed",
    ]
    assert not Path("runs").exists()


def test_a_python_process_may_die_on_any_master() -> None:
    """Shows that executors which are threads of the driver get the retries that others have."""
    masters = ["local", "local[2]", "local[*]", "local[2,1]", "local-cluster[2,1,1024]", "spark://a:7077"]
    assert [with_retries(master) for master in masters] == ["local[1,4]", "local[2,4]", "local[*,4]", *masters[3:]]


def test_a_campaign_for_builds(spark: NoSpark) -> None:
    """Shows the files of --junit and --summary: a failure for each kind of failure, with the command to do it again;
    an error for what nothing tested; a promise that was tested passes; and that the summary is added to."""
    Path("small.yaml").write_text(Path("small.yaml").read_text() + "defects: [leader-skips-offset]\n")
    Path("page.md").write_text("before\n")
    options = ("--seeds", "2", "--quiet", "--sample", "0", "--fresh", "--junit", "it.xml", "--summary", "page.md")
    assert krift("campaign", "small.yaml", *options).code == 1
    [suite] = JUnitXml.fromfile("it.xml")
    cases = {case.name: case for case in suite}
    [failed] = [case for name, case in cases.items() if name.startswith("failed: ")]
    assert isinstance(failed.result[0], Failure)
    assert "again: krift run" in failed.result[0].text
    assert "2 runs: 0 held, 2 violated" in cases["runs of small.yaml"].system_out
    by_id = {name.split()[0]: case for name, case in cases.items()}
    assert isinstance(by_id["Q4"].result[0], Error)
    assert by_id["Q4"].result[0].message == "nothing tested it in any run"
    assert by_id["T2"].result == []
    assert "tested" in by_id["T2"].system_out
    page = Path("page.md").read_text()
    assert page.startswith("before\n### Krift campaign-small-")
    assert ": not as expected\n" in page
    assert "<details><summary>all tables</summary>" in page
    assert "\n| promise | tested |" in page


def test_places_for_builds_are_looked_at_first(spark: NoSpark) -> None:
    """Shows 2 for a file that cannot be written, before any run."""
    ended = krift("campaign", "small.yaml", "--seeds", "2", "--summary", "nowhere/page.md")
    assert ended.code == 2
    assert ended.err.startswith("krift: --summary nowhere/page.md: cannot be written")
    assert not Path("runs/latest").exists()
