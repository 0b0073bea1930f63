"""The pages of campaigns, comparisons and exams: what became of each run, and where its page is."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest

from chaos.errors import InputError
from orchestrator.campaigns import campaign as module
from orchestrator.campaigns.asked import Asked, Source
from orchestrator.campaigns.comparison import Comparison, Measured, MeasuredPair, Side, differences, violations
from orchestrator.campaigns.directory import CampaignDir, create_campaign_dir
from orchestrator.exam.kept import write_marks
from orchestrator.exam.marks import DefectMark, FalseAlarm, Marks, OddityMark
from orchestrator.files import NotWritten
from orchestrator.page import subjects
from orchestrator.page.blocks import AS_HELD, FAILED, KEY, SQUARES_MAX, Fate, fate, strip
from orchestrator.page.campaigns import again, read_report
from orchestrator.page.subjects import write_page
from orchestrator.run_dir import write_json
from tests.unit.campaigns.here import Here
from tests.unit.campaigns.records import failed, record
from tests.unit.campaigns.test_campaign import ASKED, BROKEN, begin
from tests.unit.cli.test_report_html import Texts

LINK = re.compile(r'href="(?!data:|#)([^"]+)"')


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of Spark."""
    monkeypatch.setattr(module, "spread", Here().spread)
    monkeypatch.setattr(module, "recheck", lambda spark, kept: "")


def carried_out(root: Path, asked: Asked = BROKEN) -> CampaignDir:
    """A campaign that ended."""
    directory = create_campaign_dir(root, "small")
    directory.write_asked(asked)
    campaign = begin(directory, asked)
    campaign.run(None)  # type: ignore[arg-type]  # Here needs no session of Spark
    campaign.report()
    return directory


def test_a_campaign_leads_to_the_pages_of_its_failures(here: None, tmp_path: Path) -> None:
    """Shows each kind of failure with a link to a page that is there, a square for each run, and the promise that was
    violated before those that held; from elsewhere the links lead to the same pages."""
    directory = carried_out(tmp_path)
    written = write_page(tmp_path, str(directory.path))
    assert (written.path, written.exit_code) == (directory.path / "report.html", 1)
    html = written.path.read_text(encoding="utf-8")
    text = Texts(html).text
    assert "5 runs: 5 with violations, by the planted defect, in 1 way" in text
    assert "violated, by the planted defect: 5" in text
    assert html.count('class="square violated"') == 5 + 1  # the legend's
    ((_, promises),) = [
        each for each in re.findall(r"<h2>(\w+)</h2>(.*?)</section>", html, re.DOTALL) if "Promises" in each
    ]
    first = re.search(r"<tbody>\s*<tr><td class=\"[ ]*\"[^>]*>(\w+)</td>", promises)
    assert first is not None and f"{first[1]} was violated" in text
    steps = html.partition("<h2>How one of these failures happened</h2>")[2].partition("</section>")[0]
    assert f"{first[1]} " in steps and re.search(r"broker-\d/0/\d+", steps)
    links = {(directory.path / unquote(link)).resolve() for link in LINK.findall(html)}
    assert links and all(link.is_file() for link in links)
    elsewhere = tmp_path / "other" / "page.html"
    elsewhere.parent.mkdir()
    write_page(tmp_path, directory.path.name, elsewhere)
    links_there = LINK.findall(elsewhere.read_text(encoding="utf-8"))
    assert {(elsewhere.parent / unquote(link)).resolve() for link in links_there} == links


def test_a_failure_leads_to_the_run_that_is_told(here: None, tmp_path: Path) -> None:
    """Shows that the sentence of a kind of failure links to the run that the command beside it does again, although
    another one comes before it by name."""
    directory = carried_out(tmp_path, msgspec.structs.replace(BROKEN, seeds=(9, 10)))
    html = write_page(tmp_path, str(directory.path)).path.read_text(encoding="utf-8")
    (told,) = read_report(directory).signatures
    assert told.runs == 2 and len(told.kept) == 2 and sorted(told.kept) != told.kept
    failures = html.partition("<h2>Failures</h2>")[2].partition("</section>")[0]
    (link,) = LINK.findall(failures)
    assert unquote(link).startswith(told.kept[0]) and "seed9-" in told.kept[0]
    assert f"{told.kept[0]}/scenario.yaml" in failures


def test_a_campaign_that_may_only_be_read(here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that its page can go elsewhere: the failures are told, and lead nowhere."""
    directory = carried_out(tmp_path)
    to, write = tmp_path / "page.html", subjects.write_text

    def elsewhere_only(path: Path, text: str) -> None:
        if path != to:
            raise NotWritten(path, PermissionError(13, "no"))
        write(path, text)

    monkeypatch.setattr(subjects, "write_text", elsewhere_only)
    assert write_page(tmp_path, str(directory.path), to).path == to
    html = to.read_text(encoding="utf-8")
    assert not LINK.findall(html)
    assert "5 with violations" in Texts(html).text


def test_a_campaign_in_which_nothing_failed(here: None, tmp_path: Path) -> None:
    """Shows that no failure is said to be none."""
    directory = carried_out(tmp_path, msgspec.structs.replace(ASKED, seeds=(1, 2)))
    text = Texts(write_page(tmp_path, str(directory.path)).path.read_text(encoding="utf-8")).text
    assert "2 runs: nothing violated" in text
    assert "Failures None." in text


def test_the_command_of_a_campaign() -> None:
    """Shows every option that decides which runs there are."""
    assert again(ASKED) == "krift campaign small.yaml --seeds 1-6"
    sources = [Source("a", ["off", "seed"]), Source("b", ["off", "seed"])]
    asked = msgspec.structs.replace(
        ASKED, sources=sources, settings=[["x=1", "y=2"], ["x=3", "y=2"]], defects=["d"], guide="coverage"
    )
    assert again(asked) == (
        "krift campaign a b --seeds 1-6 --variant off --variant seed --set x=1 --set y=2 --set x=3 --defect d "
        "--guide coverage"
    )
    own = msgspec.structs.replace(ASKED, sources=[Source("a", ["off"]), Source("b", [""])])
    assert again(own) == "krift campaign a b --seeds 1-6"


def test_damaged_results_are_refused_and_left_alone(here: None, tmp_path: Path) -> None:
    """Shows that a page changes nothing of what a campaign may go on from."""
    directory = carried_out(tmp_path)
    part = directory.results / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:300])
    with pytest.raises(InputError, match=r"part-00000\.parquet: damaged"):
        write_page(tmp_path, str(directory.path))
    assert part.is_file()


def test_very_many_runs_share_squares() -> None:
    """Shows that one failure among thousands of runs is still seen, and that squares say what they stand for."""
    fates = [Fate(AS_HELD, f"seed {seed}") for seed in range(10 * SQUARES_MAX)]
    fates[17] = Fate(FAILED, "seed 17", "H1", "a.html")
    found = strip("all", fates)
    assert len(found.squares) == SQUARES_MAX
    assert [square.mark for square in found.squares[:3]] == ["·", "✕", "·"]
    assert found.squares[1].said == "seed 10 to seed 19: 1 of 10 not as expected; seed 17: not as expected, H1"
    assert found.squares[1].href == "a.html"
    assert "A square stands for 10 runs" in found.said


def test_every_exit_code_has_its_square() -> None:
    """Shows that what cannot be told apart by colour can be by its mark."""
    assert len({square.mark for square in KEY}) == len(KEY)
    assert [fate(code, False).mark for code in (0, 1, 3, 4)] == ["·", "✕", "?", "!"]
    assert fate(0, True).mark == "○"


def compared(directory: Path, pairs: list[MeasuredPair]) -> None:
    """What ``krift compare`` leaves behind."""
    found = Comparison(
        krift="1", scenario="s", common=[], a=Side("off", []), b=Side("seed", []), seeds=(1, len(pairs)),
        pairs=len(pairs), violated=violations(pairs), differences=differences(pairs), again="krift compare s",
        kept_in="",
    )  # fmt: skip
    write_json(directory / "comparison.json", found)
    (directory / "pairs.ndjson").write_bytes(b"".join(msgspec.json.encode(pair) + b"\n" for pair in pairs))


def test_a_comparison_shows_where_the_sides_part(tmp_path: Path) -> None:
    """Shows a square for each run of both sides, the commands for a seed in which they part, and each measure with its
    interval as a picture and in words."""
    pairs = [
        MeasuredPair(Measured(failed(1, "H1 went back"), {"rpcs": 30.0}), Measured(record(1), {"rpcs": 20.0})),
        MeasuredPair(Measured(record(2), {"rpcs": 31.0}), Measured(record(2), {"rpcs": 22.0})),
    ]
    compared(tmp_path, pairs)
    html = write_page(tmp_path, str(tmp_path)).path.read_text(encoding="utf-8")
    text = Texts(html).text
    assert "2 pairs of runs: H1 violated in 1 of a and 0 of b" in text
    assert "a promise violated: 1; nothing violated: 1" in text
    assert pairs[0].a.record.order.again(1) in text
    assert pairs[1].a.record.order.again(2) not in text
    assert re.search(r'<svg class="span telling"[^>]*aria-label="b - a -9.5', html)


def test_damaged_pairs_are_refused(tmp_path: Path) -> None:
    """Shows that half a comparison is none."""
    compared(tmp_path, [MeasuredPair(Measured(record(1), {}), Measured(record(1), {}))])
    (tmp_path / "pairs.ndjson").write_text("{")
    with pytest.raises(InputError, match=r"pairs\.ndjson: damaged"):
        write_page(tmp_path, str(tmp_path))


def test_an_exam_shows_survivors_and_alarms_first(tmp_path: Path) -> None:
    """Shows what must be known first: what raised a false alarm, what survived, what was hard."""
    marks = Marks(
        [
            DefectMark("easy", "C1", "", "clients", True, 2, 1, 1, 2_000_000, reproduce="krift run easy"),
            DefectMark("hard", "C1", "", "clients", True, 40, 1, 39, 2_000_000),
            DefectMark("alive", "C1", "", "clients", False, 60),
        ],
        [OddityMark("odd", "It looks wrong.", 3, 0, "it never occurred")],
        [FalseAlarm("odd", "C2", "c1 got it twice", "krift run odd")],
        everything=[DefectMark("easy", "C1", "", "everything", False, 200)],
    )
    write_marks(tmp_path, marks, "krift exam")
    written = write_page(tmp_path, str(tmp_path))
    text = Texts(written.path.read_text(encoding="utf-8")).text
    assert written.exit_code == 1
    assert "1 of 3 planted bugs survived" in text and "1 false alarm" in text
    places = [text.index(word) for word in ("c1 got it twice", "SURVIVED 60", "hard C1 39", "krift run easy")]
    assert places == sorted(places)
