"""``krift report --html`` and ``krift export``: what is written, where, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.campaigns.comparison import Comparison, Side, Violated
from orchestrator.exam.kept import write_marks
from orchestrator.exam.marks import DefectMark, Marks
from orchestrator.page.render import library, run_page
from orchestrator.run_dir import Manifest, RunDir, write_json
from orchestrator.story.moments import Moment
from orchestrator.verdict import Excuse, InvariantVerdict, Verdict, read_verdict, write_verdict
from tests.unit.cli.command import krift

LOADS = re.compile(r"""(?:src|href)=["'](?!data:|#)""")


class Texts(HTMLParser):
    """What a reader sees, and whether every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.seen.append(" ".join(data.split()))

    @property
    def text(self) -> str:
        assert not self.open, self.open
        return " ".join(filter(None, self.seen))


def test_a_page_shows_what_was_excused() -> None:
    """Shows the evidence of a promise that gave way and what its rule says, before what held, under a headline that is
    not that of a run in which all held."""
    excuse = Excuse("unclean-election", "orders-0", "broker-3 lacks it", ["broker-3/0/9"], 7_010_000)
    weak = InvariantVerdict("P4", "Leaders have it", "excused", 0, excused={"unclean-election": 1}, excuses=[excuse])
    held = InvariantVerdict("P1", "One leader", "held", 2)
    facts: dict[str, Any] = {"run": "r1", "scenario": "small", "variant": "", "runtime": "sim", "seed": 7}
    verdict = Verdict(
        **facts,
        outcome="held",
        expected=True,
        digest="",
        invariants=[held, weak],
        events=1,
        rpcs=1,
        duration=1.0,
        story=[Moment(7_010_000, "MISSING from now on: 1 record"), Moment(7_020_000, "(3 lesser events left out)")],
    )
    html = run_page(verdict, Manifest(**facts, krift="", started=""), None, "it was not drawn")
    text = Texts(html).text
    evidence = "broker-3 lacks it once, first at 7.010 s; orders-0; proved by broker-3/0/9"
    assert f"{evidence}; rule unclean-election: An unclean election" in text
    assert text.index("Again:") < text.index("What happened")
    assert text.index("P4 excused") < text.index("P1 held")
    assert "7.010 MISSING from now on" in text
    assert "(3 lesser events left out)" in text
    assert "7.020" not in text
    assert '<p class="headline excused">nothing violated; 1 promise excused' in html


def test_what_broke_as_expected_is_no_good_news() -> None:
    """Shows that the outcome of a run that broke something as expected stands in no colour, after the headlines that
    say so; that a run in which all held is good news, and one that was not expected to break is bad, both first."""
    facts: dict[str, Any] = {"run": "r1", "scenario": "small", "variant": "", "runtime": "sim", "seed": 7}
    held = InvariantVerdict("P1", "One leader", "held", 2)
    broken = InvariantVerdict("H1", "Offsets stay", "violated", 2, violated=1)
    more: dict[str, Any] = {"digest": "", "events": 1, "rpcs": 1, "duration": 1.0}
    plain = Verdict(**facts, **more, outcome="held", expected=True, invariants=[held])
    expected = Verdict(**facts, **more, outcome="violated", expected=True, invariants=[broken, held])
    unexpected = msgspec.structs.replace(expected, expected=False, unexpected=["H1 was violated"])
    pages = [
        run_page(each, Manifest(**facts, krift="", started=""), None, "-") for each in (plain, expected, unexpected)
    ]
    assert '<p class="headline held">Outcome: held, as expected</p>' in pages[0]
    assert '<p class="headline violated">Outcome: violated, NOT as expected</p>' in pages[2]
    assert "<p>Outcome: violated, as expected.</p>" in pages[1] and "headline held" not in pages[1]
    assert pages[1].index("VIOLATED as expected: H1") < pages[1].index("Outcome: violated, as expected.")
    # What did not simply hold is shown first, where there is anything.
    assert (
        '<option value="broken">1 violated, excused or inconclusive</option><option value="">all 2</option>' in pages[1]
    )
    assert 'value="broken"' not in pages[0]


def test_a_run_has_its_page_beside_it(run: Path) -> None:
    """Shows one file that loads nothing, with verdict, timeline, promises and the command that does it again; the exit
    code is that of the run, and stdout has the file's name."""
    ended = krift("report", run, "--html")
    assert (ended.code, ended.out) == (0, f"{run / 'report.html'}\n")
    html = (run / "report.html").read_text(encoding="utf-8")
    assert not LOADS.search(html.replace(library(), ""))
    text = Texts(html).text
    assert "nothing violated" in text
    assert RunDir(run).read_manifest().reproduce in text
    for each in read_verdict(RunDir(run)).invariants:
        assert each.id in text
    found = re.search(r'<script type="application/json" id="timeline-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    lanes = {lane["title"] for lane in json.loads(found[1])["lanes"]}
    assert {"broker-1", "controller-1", "producer-1", "consumer-1", "orders-0 on 1"} <= lanes


def test_a_page_goes_where_it_is_asked_for(run: Path, tmp_path: Path) -> None:
    """Shows --to, and that nothing is left beside the run then."""
    assert krift("report", run, "--html", "--to", tmp_path / "a.html").code == 0
    assert (tmp_path / "a.html").is_file()
    assert not (run / "report.html").exists()


def test_names_from_a_scenario_are_no_markup(run: Path) -> None:
    """Shows that what somebody wrote into a scenario stays text: on the page, and within its data."""
    directory = RunDir(run)
    wicked = "</script><script>alert(1)</script>"
    write_verdict(msgspec.structs.replace(read_verdict(directory), about=wicked), directory)
    assert krift("report", run, "--html").code == 0
    html = (run / "report.html").read_text(encoding="utf-8")
    assert "alert(1)</script>" not in html
    assert "alert(1)" in Texts(html).text


def test_a_run_without_a_trace_says_why_there_is_no_timeline(run: Path) -> None:
    """Shows the page of a verdict alone, without the library that it would not need."""
    shutil.rmtree(run / "trace")
    assert krift("report", run, "--html").code == 0
    html = (run / "report.html").read_text(encoding="utf-8")
    assert "There is no timeline: it has no trace: none was kept" in Texts(html).text
    assert 'id="library"' not in html


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--html", "--json"), "--html writes a page with all there is"),
        (("--html", "--story"), "--html writes a page with all there is"),
        (("--to", "x.html"), "--to is for the page that --html writes"),
        (("--html", "--to", "/nowhere/x.html"), "--to /nowhere/x.html: cannot be written"),
    ],
)
def test_what_does_not_go_together_is_refused(run: Path, arguments: tuple[str, ...], told: str) -> None:
    """Shows one error, exit code 2, and nothing written."""
    ended = krift("report", run, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err


def test_a_damaged_trace_is_refused(run: Path) -> None:
    """Shows that no page is made of half a trace."""
    part = next((run / "trace").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:200])
    ended = krift("report", run, "--html")
    assert ended.code == 2
    assert "not a whole Parquet file" in ended.err or "damaged" in ended.err
    assert not (run / "report.html").exists()


def test_a_comparison_has_a_page(tmp_path: Path) -> None:
    """Shows both sides, and what was violated on which; without the pairs there is no run to show."""
    violated = Violated("H1", "The latest offset never goes back", 5, 0, (0.2, 0.9), (0.0, 0.5), 5, 0, 0.06)
    found = Comparison(
        krift="1", scenario="s", common=[], a=Side("off", []), b=Side("seed", []), seeds=(1, 5), pairs=5,
        violated=[violated], differences=[], again="krift compare s", kept_in="",
    )  # fmt: skip
    write_json(tmp_path / "comparison.json", found)
    ended = krift("report", tmp_path, "--html")
    assert ended.code == 0, ended.err
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    text = Texts(html).text
    assert "5 pairs of runs: H1 violated in 5 of a and 0 of b" in text
    assert "5 of 5" in text
    assert "krift compare s" in text
    assert "Runs, by seed" not in text


def test_an_exam_has_a_page(tmp_path: Path) -> None:
    """Shows that a bug which survived stands in the headline, and that the exit code says so."""
    marks = Marks([DefectMark("lost-ack", "C1", "", "everything", False, 60)], [], [])
    write_marks(tmp_path, marks, "krift exam --defect lost-ack")
    ended = krift("report", tmp_path, "--html")
    assert ended.code == 1, ended.err
    text = Texts((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "NOT passed: 1 of 1 planted bug survived" in text
    assert "krift exam --defect lost-ack" in text


def test_a_campaign_that_goes_on_has_no_page_yet(tmp_path: Path) -> None:
    """Shows that a campaign without its report is refused, with what to do."""
    (tmp_path / "campaign.json").write_text("{}")
    ended = krift("report", tmp_path, "--html")
    assert ended.code == 2
    assert "krift campaign --resume" in ended.err


@pytest.mark.parametrize("form", ["perfetto", "shiviz", "edn"])
def test_a_run_is_exported(run: Path, tmp_path: Path, form: str) -> None:
    """Shows the same on stdout and in a file."""
    shown = krift("export", run, "--format", form)
    assert shown.code == 0, shown.err
    written = krift("export", run, "--format", form, "--to", tmp_path / "x")
    assert (written.code, written.out) == (0, "")
    assert (tmp_path / "x").read_text(encoding="utf-8") == shown.out
    assert "producer-1" in shown.out
    if form == "perfetto":
        assert json.loads(shown.out)["traceEvents"]


def test_what_cannot_be_exported(run: Path) -> None:
    """Shows one error for a format that there is not, for none, and for a run without a trace."""
    assert "'perfetto', 'shiviz', 'edn'" in krift("export", run, "--format", "svg").err
    assert "Missing option '--format'" in krift("export", run).err
    shutil.rmtree(run / "trace")
    ended = krift("export", run, "--format", "edn")
    assert ended.code == 2
    assert "it has no trace" in ended.err
