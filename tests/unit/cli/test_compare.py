"""``krift compare``: what it finds, what it leaves behind, how it ends."""

from __future__ import annotations

import signal
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from junitparser import Error, JUnitXml

from orchestrator.campaigns.comparison import Comparison, MeasuredPair, Pair, measure
from orchestrator.cli import compare
from tests.unit.cli.command import Ended, krift, scenario

SLOWER = ("--b", "nodes.producer-1.config.linger.ms=200")
"""What makes b differ: each record waits 200 ms for company."""
WITHOUT = ("--a", "features.kip-207=off")


def compared(ended: Ended) -> Comparison:
    """Stdout as it must be with --json: one object, and nothing else."""
    assert ended.out.count("\n") == 1
    return msgspec.json.decode(ended.out, type=Comparison)


def run(directory: Path, *options: str, more: str = "") -> Ended:
    return krift("compare", scenario(directory, more), "--out", directory / "runs", "--seeds", "2", *options)


def test_a_difference_is_found_and_kept(tmp_path: Path) -> None:
    """Shows that a producer that lingers has later acknowledgements, by how much, and in which files that is kept."""
    ended = run(tmp_path, *SLOWER, "--json")
    found = compared(ended)
    assert ended.code == 0, ended.err
    assert (found.pairs, found.seeds, found.violated) == (2, (1, 2), [])
    assert (found.a.label, found.b.label) == ("the scenario as it is", "nodes.producer-1.config.linger.ms=200")
    [send] = [each for each in found.differences if each.metric == "latency.send.p50"]
    assert 80 < send.low <= send.difference <= send.high < 200
    assert (send.lower, send.higher, send.unit) == (0, 2, "ms")
    kept = Path(found.kept_in)
    assert msgspec.json.decode((kept / "comparison.json").read_bytes(), type=Comparison) == found
    pairs = [msgspec.json.decode(line, type=MeasuredPair) for line in (kept / "pairs.ndjson").read_bytes().splitlines()]
    assert [pair.b.record.seed for pair in pairs] == [1, 2]
    svg = ET.fromstring((kept / "plot.svg").read_text(encoding="utf-8"))
    texts = ["".join(each.itertext()) for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "latency: send, p50" in texts
    assert not (tmp_path / "runs" / "latest").exists()
    assert ended.err.endswith("--b nodes.producer-1.config.linger.ms=200 --seeds 1-2\n")


def test_violations_are_compared_by_pairs(tmp_path: Path) -> None:
    """Shows the incident as a comparison: who is told less than before without KIP-207, and who waits with it."""
    ended = krift("compare", "kip-207", *WITHOUT, "--b", "features.kip-207=kafka", "--seeds", "3-3", "--out", tmp_path)
    assert ended.code == 0, ended.err
    words = [line.split() for line in ended.out.splitlines()]
    [h1] = [line for line in words if line[:1] == ["H1"]]
    assert h1[:4] == ["H1", "1", "of", "1"]
    assert h1[5:11] == ["%)", "0", "of", "1", "(0-97.5", "%)"]
    assert h1[11:14] == ["1", "0", "1.000"]
    assert any(
        line[:3] == ["latest-prober", "refused,", "longest"] and "none for one pair" in " ".join(line) for line in words
    )
    assert "the same in all pairs" in ended.out
    [zeros] = [line for line in ended.out.splitlines() if line.startswith("0 in all runs: ")]
    assert "records acknowledged and lost" in zeros.split("; ")


NEVER_SEEN = "must-happen: [lagging-leader]\n"
NEVER_STEADY = "budgets: {steady-state: 1ms}\n"


def test_3_a_run_is_undecided(tmp_path: Path) -> None:
    """Shows 3, and why, where what must happen was not seen; the pairs are compared all the same."""
    ended = run(tmp_path, *SLOWER, more=NEVER_SEEN)
    assert ended.code == 3
    assert "2 runs of b undecided, but compared\n  2 times: never seen: lagging-leader\n" in ended.out


def test_4_no_run_could_be_carried_out(tmp_path: Path) -> None:
    """Shows 4, with the reason, and that nothing is claimed."""
    ended = run(tmp_path, *SLOWER, more=NEVER_STEADY)
    assert (ended.code, ended.out) == (4, "")
    assert "no pair of runs could be carried out; the first: " in ended.err
    assert not list((tmp_path / "runs").glob("compare-*"))


def test_4_one_run_could_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows 4 where one run broke, and that its pair is left out."""

    def breaks(pair: Pair, code: str = "") -> MeasuredPair | None:
        if pair.a.seed == 2:
            pair = Pair(pair.a, msgspec.structs.replace(pair.b, text="?"))
        return measure(pair, code)

    monkeypatch.setattr(compare, "measure", breaks)
    ended = run(tmp_path, *SLOWER)
    assert ended.code == 4
    assert "1 pair of runs compared" in ended.out
    assert "1 run of b could not be carried out, and is ignored" in ended.out


def test_130_what_was_done_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a Ctrl-C ends it with the pairs that were done."""

    def interrupted(pair: Pair, code: str = "") -> MeasuredPair | None:
        if pair.a.seed == 2:
            signal.raise_signal(signal.SIGINT)
            return None
        return measure(pair, code)

    monkeypatch.setattr(compare, "measure", interrupted)
    ended = run(tmp_path, *SLOWER, "--json")
    assert (ended.code, compared(ended).pairs) == (130, 1)
    assert "interrupted after 1 of 2 pairs; the finished pairs are compared" in ended.err


@pytest.mark.spark
def test_spark_finds_the_same(tmp_path: Path) -> None:
    """Shows that executors come to the same figures as this process, from a scenario file that they do not see."""
    here, there = (compared(run(tmp_path, *SLOWER, "--json", *more)) for more in ((), ("--master", "local[2]")))
    assert there.differences == here.differences
    assert there.violated == here.violated


def test_a_comparison_for_builds(tmp_path: Path) -> None:
    """Shows the files of --junit and --summary: what is violated is no failure, as it is what is compared; runs that
    are undecided are an error of their side."""
    file, page = tmp_path / "it.xml", tmp_path / "page.md"
    asked = [*WITHOUT, "--b", "features.kip-207=kafka", "--seeds", "3-3", "--out", tmp_path]
    assert krift("compare", "kip-207", *asked, "--junit", file, "--summary", page).code == 0
    [suite] = JUnitXml.fromfile(str(file))
    cases = {case.name.split()[0]: case for case in suite}
    assert (suite.failures, suite.errors) == (0, 0)
    assert cases["H1"].system_out == "violated in a: 1 of 1 (2.5-100 %); in b: 0 of 1 (0-97.5 %)"
    told = page.read_text(encoding="utf-8")
    assert told.startswith("### Krift compare kip-207: 1 pair of runs, seeds 3-3\n")
    assert "- a: features.kip-207=off\n- b: features.kip-207=kafka (as shipped)\n" in told
    assert "| H1 | 1 of 1 (2.5-100 %) | 0 of 1 (0-97.5 %) | 1 | 0 | 1.000 |" in told
    ended = run(tmp_path, *SLOWER, "--junit", str(file), more="must-happen: [offset-not-available]\n")
    assert ended.code == 3
    [suite] = JUnitXml.fromfile(str(file))
    assert [type(case.result[0]) for case in suite] == [Error, Error]
    assert "never seen: offset-not-available" in next(iter(suite)).result[0].message
