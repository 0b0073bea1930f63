"""What a campaign came to."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chaos.injector import FaultOutcome
from orchestrator.campaigns.asked import Source
from orchestrator.campaigns.record import RunRecord, Tally
from orchestrator.campaigns.summary import FirstFailure, Kept, Report, Summary
from orchestrator.report.campaign import headlines, markdown, ordinal, outcome, tone
from tests.unit.campaigns.records import ALL_HELD, ended, failed, record

GOES_BACK = "H1: list-offsets-# was told #"


def summary_of(*records: RunRecord, sources: Sequence[Source] = ()) -> Summary:
    found = Summary(sources=sources)
    for done in ended(*records):
        found.take(done)
    return found


def report_of(summary: Summary) -> Report:
    return summary.report(krift="0.1.0", campaign="c", directory="runs/c", asked=9, interrupted=False, seeds=(1, 9))


def test_a_bug_is_one_line() -> None:
    """Shows that failures of one signature are counted together, with the first of them in full, by frequency."""
    error = record(5, "error: x", 4, "inconclusive", {})
    report = report_of(summary_of(record(1), failed(2, GOES_BACK), error, failed(4, GOES_BACK)))
    assert [(each.signature, each.runs, each.seeds) for each in report.signatures] == [
        (GOES_BACK, 2, [2, 4]),
        ("error: x", 1, [5]),
    ]
    first = report.signatures[0]
    assert (first.number, first.at_s, first.sentence) == (2, 1.0, f"in full: {GOES_BACK}")
    assert first.reproduce == "krift run small.yaml --runtime sim --seed 2"
    assert report.first_failure == FirstFailure(2, 1.0)
    assert (report.runs, report.held, report.violated, report.inconclusive, report.not_carried_out) == (4, 1, 2, 0, 1)
    assert report.runs_per_minute == 120


def planted(seed: int, lost: int, *, caught: bool = True) -> RunRecord:
    """Of a run with a planted defect that lost acknowledged records."""
    tallies = {**ALL_HELD, "P10": Tally("violated", 5, 3)} if caught else ALL_HELD
    found = record(seed, GOES_BACK, 1, "violated", tallies)
    return msgspec.structs.replace(found, defects=["hw-ignores-isr"], lost=lost)


def test_what_was_planted_and_lost_stands_first() -> None:
    """Shows a defect with what it does, how often it was caught and by what, the records that were lost, with seeds,
    and that this is no bad news; the failure to look at first is the one that lost most."""
    summary = summary_of(planted(1, 0), planted(2, 3), planted(3, 10), planted(4, 10), record(5))
    report = report_of(summary)
    first, lost, failed_in = headlines(report)
    assert first.startswith(
        "planted on purpose: hw-ignores-isr (The leader's high watermark is its own log end); caught"
    )
    assert "; caught in 4 of 4 runs, by P10 (While a leader leads, high watermarks " in first
    assert lost == "LOST: 23 records acknowledged to producers, which no rule allows, in 3 runs (seeds 2, 3, 4)"
    assert failed_in == "5 runs: 4 with violations, by the planted defect, in 1 way"
    assert outcome(report).startswith("the planted defect hw-ignores-isr was caught in 4 of 4 runs, as planned")
    assert (tone(report), report.exit_code) == ("held", 1)
    assert summary.worst is not None and summary.worst.seed == 3
    once = report_of(summary_of(planted(1, 0), planted(2, 0, caught=False)))
    later = summary_of(planted(1, 0, caught=False), planted(2, 0), planted(3, 0))
    assert later.worst is not None and later.worst.seed == 2, "the run to explain is one that was caught as meant"
    assert "caught in 1 of 2 runs" in next(headlines(once))
    assert "no record acknowledged with acks=all was lost against the rules (tested 4 times)" in headlines(once)


def test_what_kafka_does_itself_is_no_failure() -> None:
    """Shows that the sum of a campaign says why violations are none: a finding about Kafka by its name, or that the
    scenario expects them."""
    broken = {**ALL_HELD, "X10": Tally("violated", 5, 3)}
    expected = record(2, "", 0, "violated", broken)
    met = msgspec.structs.replace(expected, known=["finding-spinning-consumer"])
    why = "violated, as expected or as Kafka itself does (finding-spinning-consumer): X10"
    assert [*headlines(report_of(summary_of(record(1), met)))][-1] == f"2 runs: all as expected; {why}"
    alone = report_of(summary_of(record(1), expected))
    assert [*headlines(alone)][-1] == "2 runs: all as expected; violated, as expected: X10"


def test_a_defect_that_was_missed_is_bad_news() -> None:
    """Shows that violations with a defect which nothing caught, or without one, are not as expected."""
    missed = report_of(summary_of(planted(1, 0, caught=False)))
    assert (outcome(missed), tone(missed)) == ("NOT as expected", "violated")
    beside = report_of(summary_of(planted(1, 0), planted(2, 0, caught=False)))
    assert outcome(beside).endswith("; 1 run violates other promises alone: run the same seeds without the defect")
    assert tone(beside) == "violated"
    other = report_of(summary_of(planted(1, 0), failed(2, GOES_BACK)))
    assert (outcome(other), tone(other)) == ("NOT as expected", "violated")


def test_ordinal_numbers() -> None:
    """Shows the endings of English."""
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 1_011)] == (
        ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "1,011th"]
    )


def test_tests_are_summed_up() -> None:
    """Shows for an invariant how often it was tested and violated in all runs, and in how many it ended how."""
    vacuous = record(3, tallies={**ALL_HELD, "H1": Tally("vacuous", 0, off=True)})
    found = report_of(summary_of(record(1), failed(2, GOES_BACK), vacuous)).invariants["H1"]
    assert (found.tested, found.violated, found.excused) == (7, 3, 0)
    assert (found.held_runs, found.violated_runs, found.vacuous_runs, found.off_runs) == (1, 1, 1, 1)


def test_faults_are_counted_whether_they_hit_or_not() -> None:
    """Shows for each kind of fault whom it was aimed at, and how often it found nobody or never began."""
    faults = (
        FaultOutcome("f1", "crash", "ended", ["broker-1"], 0, 1, True),
        FaultOutcome("f2", "crash", "without target", [], -1, -1, False),
        FaultOutcome("f3", "crash", "cancelled", [], -1, -1, False),
        FaultOutcome("f4", "partition", "ended", ["broker-1", "broker-2", "controller-1"], 0, 1, True),
    )
    report = report_of(summary_of(record(1, faults=faults)))
    crash, cut = report.faults["crash"], report.faults["partition"]
    assert (crash.scheduled, crash.took_effect, crash.without_target, crash.never_began) == (3, 1, 1, 1)
    assert crash.no_effect == 0
    assert (crash.roles, cut.roles) == ({"broker": 1}, {"broker": 1, "controller": 1})


def test_every_fault_is_in_one_column() -> None:
    """Shows that one which began and did nothing, or whose rules no message met, has a column of its own, and so has
    one that still waits; the columns add up to what was scheduled."""
    faults = (
        FaultOutcome("f1", "drop", "ended", ["broker-1"], 0, 1, True),
        FaultOutcome("f2", "drop", "ended", ["broker-1"], 0, 1, True, hit_nothing=True),
        FaultOutcome("f3", "drop", "in force", ["broker-1"], 0, -1, False),
        FaultOutcome("f4", "drop", "waiting", [], -1, -1, False),
        FaultOutcome("f5", "drop", "without target", [], -1, -1, False),
    )
    report = report_of(summary_of(record(1, faults=faults)))
    drop = report.faults["drop"]
    columns = (drop.took_effect, drop.no_effect, drop.without_target, drop.never_began)
    assert columns == (1, 2, 1, 1) and sum(columns) == drop.scheduled
    assert "| drop | 5 | 1 | 2 | 1 | 1 | broker 3 |" in markdown(report)


def test_losses_that_a_rule_allows_are_told() -> None:
    """Shows how many acknowledged records were lost by an unclean election, in how many runs, beside what no rule
    allows."""
    given_up = [msgspec.structs.replace(record(seed), given_up={"unclean-election": 39}) for seed in (2, 4)]
    allowed = "LOST: 78 records acknowledged with acks=all, by an unclean election, which was allowed, in 2 runs"
    told = [*headlines(report_of(summary_of(*given_up, record(5))))]
    assert told == [f"{allowed} (seeds 2, 4)", "3 runs: nothing violated"]
    beside = [*headlines(report_of(summary_of(*given_up, failed(5, GOES_BACK))))]
    assert beside[0] == f"{allowed} (seeds 2, 4)"
    assert beside[1].startswith("no record acknowledged with acks=all was lost against the rules")


def test_coverage_is_counted_in_runs() -> None:
    """Shows which steps of the protocol were taken under which fault on which role, and in how many runs."""
    points = ("fault/crash/leader", "during/crash/leader/elected")
    report = report_of(summary_of(record(1, coverage=points), record(2, coverage=points[:1])))
    [row] = report.covered
    assert (report.points, row.fault, row.role, row.runs) == (2, "crash", "leader", 2)
    assert f"| crash | leader | 2 | {', '.join(f'{step} {runs}' for step, runs in row.steps.items())} |" in markdown(
        report
    )


def test_doubts_are_told_by_their_kind() -> None:
    """Shows that doubts of many runs that differ in numbers alone are one line."""
    doubts = [record(seed, exit_code=3, undecided=(f"fault f{seed} did not take effect",)) for seed in (1, 2)]
    assert report_of(summary_of(*doubts)).doubts == {"fault f# did not take effect": 2}


def test_exit_codes() -> None:
    """Shows 4 before 1 before 3 before 0; that two engines which differ make it 4."""
    codes = {
        0: [record(1)],
        3: [record(1), record(2, exit_code=3)],
        1: [record(1, exit_code=3), failed(2, GOES_BACK)],
        4: [failed(1, GOES_BACK), record(2, "error: x", 4)],
    }
    assert {summary_of(*records).exit_code(): records for records in codes.values()} == codes
    summary = summary_of(record(1))
    summary.kept = Kept(mismatches=["H1: held in its process, violated in Spark"])
    assert summary.exit_code() == 4
    assert "Do not trust its verdicts" in markdown(report_of(summary))


def test_what_nothing_tested_is_named() -> None:
    """Shows that X9 bites: an invariant that is vacuous in every run is named, and leaves the campaign undecided,
    unless scenarios say what they expect to hold; one that was tested once is not."""
    blind = {**ALL_HELD, "P9": Tally("vacuous", 0), "H2": Tally("vacuous", 0, off=True)}
    summary = summary_of(record(1, tallies=blind), record(2, tallies=blind))
    report = report_of(summary)
    assert (report.vacuous, report.exit_code) == (["P9"], 3)
    assert "NEVER TESTED" in markdown(report)
    assert "None of 2 runs tested this promise, and the campaign says nothing about it" in markdown(report)
    assert report_of(summary_of(record(1, tallies=blind, declared=True))).exit_code == 0
    seen = report_of(summary_of(record(1, tallies=blind), record(2)))
    assert (seen.vacuous, seen.exit_code) == ([], 0)


def test_every_promise_that_nothing_tested_is_in_a_list() -> None:
    """Shows that those of a feature, of groups or of transactions that no run has are listed with that reason, and that
    the lists add up to all promises."""
    off = {name: Tally("vacuous", 0, off=True) for name in ("O1", "T4", "Q8")}
    blind = {**ALL_HELD, **off, "P9": Tally("vacuous", 0), "H2": Tally("vacuous", 0), "P1": Tally("vacuous", 0)}
    report = report_of(summary_of(record(1, tallies=blind), sources=[MINE]))
    assert (report.vacuous, set(report.untested), set(report.unconcerned)) == (["P1"], {"P9", "H2"}, {*off})
    assert report.unconcerned["O1"] == "no consumer has a group"
    assert report.unconcerned["T4"] == "no client has transactions"
    tested = len(report.invariants) - 6
    parts = (
        "not tested: 1 without a reason (NEVER TESTED), 2 as the nemesis declares, 3 because no run has their subject"
    )
    assert f"{tested} of {len(report.invariants)} promises were tested in some run; {parts}." in markdown(report)
    assert "| O1 | no consumer has a group |" in markdown(report)


def test_a_finding_is_named_where_it_shows() -> None:
    """Shows that a promise which a finding about Kafka violated says so in the table, with the finding's title, and
    that the column of failures names the defect that was planted."""
    tallies = {**ALL_HELD, "X10": Tally("violated", 5, 3)}
    met = msgspec.structs.replace(planted(2, 0), tallies=tallies, known=["finding-spinning-consumer"])
    report = report_of(summary_of(planted(1, 0), met))
    text = markdown(report)
    assert '(1 run met finding-spinning-consumer, "Consumers that spin")' in text
    assert "| 1 | finding-spinning-consumer | Consumers that spin | 2 |" in text
    assert "| by the planted defect |" in text and "| unexpected |" not in text
    assert "| unexpected |" in markdown(report_of(summary_of(failed(1, GOES_BACK))))


MINE = Source("small.yaml", [""], untested={"P9": "No log is cut.", "H2": "Nobody asks."})
"""Where the runs of these tests come from."""


def test_what_a_nemesis_is_not_after() -> None:
    """Shows that what all files say that no run tests is named with the reason and leaves nothing undecided; what one
    of them does not say, and what nothing tests beside that, does."""
    blind = {**ALL_HELD, "P9": Tally("vacuous", 0), "H2": Tally("vacuous", 0)}
    report = report_of(summary_of(record(1, tallies=blind), sources=[MINE]))
    assert (report.vacuous, report.untested, report.exit_code) == ([], MINE.untested, 0)
    assert "| P9 | No log is cut. |" in markdown(report)
    others = [Source("more.yaml", [""], untested={"H2": "Nobody does."}), MINE]
    report = report_of(summary_of(record(1, tallies=blind), sources=others))
    assert (report.vacuous, report.untested, report.exit_code) == (["P9"], {"H2": "Nobody does."}, 3)
    blind["P1"] = Tally("vacuous", 0)
    report = report_of(summary_of(record(1, tallies=blind), sources=[MINE]))
    assert (report.vacuous, report.exit_code) == (["P1"], 3)


def test_what_is_tested_although_the_file_says_no() -> None:
    """Shows that the campaign is undecided then, and says so; runs with other settings or defects, and those of other
    sources, are no runs of the file."""
    blind = {**ALL_HELD, "H2": Tally("vacuous", 0)}
    report = report_of(summary_of(record(1, tallies=blind), record(2, tallies=blind), sources=[MINE]))
    assert report.belied == ["P9 was tested by 2 of the runs of small.yaml, whose file says that none tests it"]
    assert (list(report.untested), report.vacuous, report.exit_code) == (["H2"], [], 3)
    assert report.belied[0] in markdown(report)
    plain = record(1, tallies=blind)
    for changes in ({"settings": ("duration=2s",)}, {"defects": ("raise",)}, {"source": "mutated/small.yaml"}):
        other = msgspec.structs.replace(plain, order=msgspec.structs.replace(plain.order, **changes))
        report = report_of(summary_of(other, sources=[MINE]))
        assert (report.belied, report.exit_code) == ([], 0)


def test_a_repetition_tests_x8() -> None:
    """Shows that X8, which one run cannot test, is tested by those that are done again to be kept."""
    blind = {**ALL_HELD, "X8": Tally("vacuous", 0)}
    summary = summary_of(record(1, tallies=blind))
    assert report_of(summary).vacuous == ["X8"]
    summary.repeated()
    report = report_of(summary)
    assert (report.vacuous, report.invariants["X8"].tested, report.kept.repeated) == ([], 1, 1)


def test_the_row_of_x8_agrees_with_itself() -> None:
    """Shows that a run which was done again counts as one that held X8, and no longer as one that says nothing."""
    blind = {**ALL_HELD, "X8": Tally("vacuous", 0)}
    summary = summary_of(*(record(seed, tallies=blind) for seed in range(1, 5)))
    for _ in range(3):
        summary.repeated()
    tally = report_of(summary).invariants["X8"]
    assert (tally.tested, tally.held_runs, tally.vacuous_runs) == (3, 3, 1)
    assert "| X8 | 3 | 3 | 0 | 0 | 0 | 1 | held |" in markdown(report_of(summary))


def test_the_sum_says_what_decides_it() -> None:
    """Shows that where every run was as expected and the campaign is not, the line of the outcome has the reason."""
    blind = {**ALL_HELD, "P9": Tally("vacuous", 0)}
    summary = summary_of(record(1, tallies=blind), record(2, tallies=blind))
    assert "outcome     UNDECIDED: not one run tested P9" in markdown(report_of(summary))
    summary.kept = Kept(mismatches=["run 1 came out otherwise"])
    assert "outcome     NOT CARRIED OUT: 1 mismatch, which is above" in markdown(report_of(summary))
    assert "outcome     as expected" in markdown(report_of(summary_of(record(1))))


def test_the_report_is_data() -> None:
    """Shows that --json can be read back, and has the fields that other programs rely on."""
    report = report_of(summary_of(record(1), failed(2, GOES_BACK)))
    text = msgspec.json.encode(report)
    assert msgspec.json.decode(text, type=Report) == report
    data = msgspec.json.decode(text)
    assert {"runs", "held", "violated", "inconclusive", "invariants", "signatures", "runs_per_minute"} <= data.keys()
    assert {"tested", "violated", "excused", "vacuous_runs"} <= data["invariants"]["H1"].keys()
