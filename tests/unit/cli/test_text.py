"""What people read: one verdict, many side by side, on wide, narrow and no terminals."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from actors.defects.catalogue import DEFECTS
from orchestrator.checked import breaks_of
from orchestrator.invariants.folds.conclusion import KEPT, KeyResult, count
from orchestrator.invariants.folds.fold import Finding, Status
from orchestrator.report.console import Page
from orchestrator.report.headline import headlines, tone
from orchestrator.report.text import one_line, print_contrast, print_verdict, title
from orchestrator.story.moments import Break, Moment, Step
from orchestrator.verdict import Excuse, Expected, Gone, InvariantVerdict, Verdict, Violation

DEFECT = DEFECTS["consumer-mislabel"]
EVENTS = ["list-offsets-1/0/479", "list-offsets-2/0/738"]
TOLD = (
    "broker-2 (leader epoch 1) reported 291 as the latest offset of orders-0 to list-offsets-2 after broker-1 "
    "(leader epoch 0) had reported 301 to list-offsets-1"
)
OFF = Verdict(
    run="r1",
    scenario="kip-207",
    variant="off",
    about="Offsets go [backwards].",
    runtime="sim",
    seed=7,
    outcome="violated",
    expected=True,
    expects=Expected(["H1"], may=["H6"]),
    must_happen={"lagging-leader": True, "offset-not-available": False},
    digest="d1",
    invariants=[
        InvariantVerdict("P1", "One leader per leader epoch", "held", 2),
        InvariantVerdict(
            "H1",
            "The latest offset never goes back",
            "violated",
            1275,
            excused={"stale-leader": 3},
            excuses=[Excuse("stale-leader", "orders-0", "list-offsets-1 asked broker-1", [], 6_100_000)],
            violated=308,
            violations=[
                Violation(
                    "orders-0",
                    TOLD,
                    EVENTS,
                    ["broker-1/0/595"],
                    164,
                    "",
                    7_874_000,
                    [Step(4_500_000, "f2 crash of broker-1 begins", "driver/0/8")],
                ),
                Violation("orders-0", "list-offsets-1 was told less", ["list-offsets-1/0/751"], [], 1, "", 8_001_000),
            ],
        ),
        InvariantVerdict("H2", "A new leader refuses", "vacuous", 0, "kip-207 is off"),
    ],
    events=11375,
    rpcs=2362,
    duration=18.0,
    defects=["consumer-mislabel"],
    setting="3 voters, 3 brokers; orders-0 on brokers [1, 2, 3], min.insync.replicas 1",
    remarks=["f3 (crash) had no target"],
    story=[
        Moment(4_500_000, "f2 crash of broker-1, until 12.500 s"),
        Moment(7_874_000, "H1 VIOLATED: The latest offset never goes back"),
    ],
)
ON = msgspec.structs.replace(
    OFF,
    variant="seed",
    outcome="held",
    defects=[],
    remarks=[],
    story=[],
    invariants=[
        OFF.invariants[0],
        InvariantVerdict("H1", "The latest offset never goes back", "held", 943),
        InvariantVerdict("H2", "A new leader refuses", "held", 10),
    ],
)


ROW = (
    "H1       violated   1,275  The latest offset never goes back (excused 3 times, first at 6.100 s: a former leader "
    "answered)"
)
PLANTED = "; planted: consumer-mislabel"
HEAD = [
    "kip-207 (off), sim, seed 7: Offsets go [backwards].",
    f"planted on purpose: {DEFECT.name} ({DEFECT.about.rstrip('.')}), NOT caught by {DEFECT.caught_by}",
    "VIOLATED with the planted defect as expected: H1 The latest offset never goes back",
    "cluster: 3 voters, 3 brokers; orders-0 on brokers [1, 2, 3], min.insync.replicas 1",
    "",
    "what happened, in seconds since time 0, when the cluster was steady (negative: before that)",
    "    4.500  f2 crash of broker-1, until 12.500 s",
    "    7.874  H1 VIOLATED: The latest offset never goes back",
    "",
    "H1 was violated 308 times (tested 1,275 times), first at 7.874 s: The latest offset never goes back",
    f"  {TOLD}",
    f"      164 times, first at 7.874 s in the events {', '.join(EVENTS)}; caused by broker-1/0/595",
    "      how it happened",
    "        4.500  f2 crash of broker-1 begins  driver/0/8",
]
FOOT = [
    "recorded    11,375 events, 2,362 RPCs in 18.0 s of virtual time",
    "trace       d1",
    "expected    H1 violated; H6 may be violated",
    "must happen lagging-leader (seen), offset-not-available (NEVER SEEN)",
    "defects     consumer-mislabel, planted on purpose",
    "outcome     violated, as expected",
    "  note: f3 (crash) had no target",
]


def test_a_verdict_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows what everybody must know: headline, story, the violation with its time and how it came about, the promises
    that the scenario names, and the number of the others. Brackets of a scenario are no markup."""
    print_verdict(Page(), OFF)
    assert capsys.readouterr().out.splitlines() == [
        *HEAD,
        "  and 144 times with other nodes or numbers (verdict.json has some of them)",
        "",
        "promise  status    tested  what is promised",
        ROW,
        "1 other held, 1 vacuous (not tested) (--full lists them)",
        "",
        *FOOT,
    ]


def test_a_verdict_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows all evidence, every promise, and what the statuses mean."""
    print_verdict(Page(), OFF, full=True)
    assert capsys.readouterr().out.splitlines() == [
        *HEAD,
        "  list-offsets-1 was told less",
        "      once at 8.001 s in the events list-offsets-1/0/751",
        "  and 143 times with other nodes or numbers (verdict.json has some of them)",
        "",
        "promise  status    tested  what is promised",
        ROW,
        "P1       held           2  One leader per leader epoch",
        "H2       vacuous        0  A new leader refuses (kip-207 is off)",
        "",
        "violated      broken; each violation names the events that prove it",
        "held          tested that often, and it held each time",
        "vacuous       not tested by this run, so nothing is known",
        "",
        *FOOT,
    ]


def test_a_story_of_what_went_well_is_told_to_who_asks(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that where nothing broke or gave way the story is printed with --story alone."""
    calm = msgspec.structs.replace(ON, story=[Moment(1_000_000, "the controller fences broker-1")])
    print_verdict(Page(), calm)
    assert "the controller fences" not in capsys.readouterr().out
    print_verdict(Page(), calm, story=True)
    assert "    1.000  the controller fences broker-1" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("rule", "lost"),
    [
        ("unclean-election", "316 records acknowledged with acks=all, by an unclean election"),
        ("loss-budget", "316 records acknowledged with acks=all, with the disks of the replicas that had to keep them"),
        ("acks<=1", "316 records acknowledged with acks=1"),
    ],
)
def test_a_loss_that_is_allowed_is_in_the_headline(rule: str, lost: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that acknowledged records that are gone are told with their number, and that nobody says that all held."""
    promise = InvariantVerdict("C1", "Acknowledged records stay", "excused", 509, excused={rule: 316})
    verdict = msgspec.structs.replace(ON, invariants=[promise])
    print_verdict(Page(), verdict)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"LOST: {lost}")
    assert lines[2].startswith(
        "nothing violated; 1 promise excused, where a rule allows a break: C1 Acknowledged records stay (316 times)"
    )
    assert "outcome     nothing violated, 1 excused, as expected" in lines
    assert f"lost: {lost}" in one_line(verdict)


def test_a_loss_that_was_made_good_is_not_called_lost() -> None:
    """Shows that records which are back at the end were missing, from when to when, and that the others are lost."""
    how = "broker-1, elected uncleanly, leader of orders-0 in leader epoch 3, has them"
    events = ["producer-1/0/9", "broker-3/1/4"]
    excuse = Excuse("loss-budget", "orders-0", "producer-1 was informed", events, 7_010_120, 300, 10_021_490, how)
    promise = InvariantVerdict("C1", "Records stay", "excused", 509, excused={"loss-budget": 318}, excuses=[excuse])
    verdict = msgspec.structs.replace(ON, invariants=[promise])
    told = "acknowledged with acks=all, with the disks of the replicas that had to keep them"
    lost = f"18 records of orders-0 {told}, first missing at 7.010 s"
    missing = f"300 records {told}; then they are back: {how}"
    assert headlines(verdict)[:2] == [f"LOST: {lost}", f"MISSING from 7.010 s to 10.021 s: {missing}"]
    assert f"lost: {lost}; missing from 7.010 s to 10.021 s: {missing}" in one_line(verdict)
    began = f"from now on: 318 records {told}; broker-3 leads orders-0 without them"
    assert breaks_of(verdict) == [
        Break(7_010_120, f"MISSING {began}", keys=("orders-0",), loss=True),
        Break(10_021_490, f"BACK: 300 records of these; {how}"),
    ]
    gone = msgspec.structs.replace(excuse, regained=0, regained_us=None, regained_how="")
    promise = msgspec.structs.replace(promise, excuses=[gone])
    assert breaks_of(msgspec.structs.replace(verdict, invariants=[promise])) == [
        Break(7_010_120, f"LOST {began}", keys=("orders-0",), loss=True)
    ]


def losing(*gone: Gone, status: Status = "excused") -> Verdict:
    """A verdict on a run that lost acknowledged records."""
    excused = {each.rule: sum(one.number for one in gone if one.rule == each.rule) for each in gone if each.rule}
    promise = InvariantVerdict("C1", "Records stay", status, 509, excused=excused, gone=list(gone))
    return msgspec.structs.replace(ON, invariants=[promise])


def test_each_election_tells_what_it_lost() -> None:
    """Shows that a loss in two elections has the number and the leader of each, over all partitions, and no total that
    was not lost by then."""
    verdict = losing(
        Gone("acks<=1", "orders-0", 18, "broker-1/0/9", 3_135_000),
        Gone("acks<=1", "orders-1", 17, "broker-1/0/11", 3_136_000),
        Gone("acks<=1", "orders-0", 168, "broker-3/1/5", 10_583_000),
    )
    told = "acknowledged with acks=1, which that setting allows"
    assert headlines(verdict)[0] == f"LOST: 203 records of orders-0 and orders-1 {told}: 35 at 3.135 s, 168 at 10.583 s"
    assert breaks_of(verdict) == [
        Break(
            3_135_000,
            f"LOST from now on: 35 records {told}; broker-1 leads without 18 of orders-0 and 17 of orders-1",
            keys=("orders-0", "orders-1"),
            loss=True,
        ),
        Break(
            10_583_000,
            f"LOST from now on: 168 records {told}; broker-3 leads orders-0 without them",
            keys=("orders-0",),
            loss=True,
        ),
    ]


def test_a_loss_in_many_steps_is_summed_up() -> None:
    """Shows that of many elections the headline has the number and the first, and that the story tells the largest."""
    gone = [Gone("acks<=1", "orders-0", number, "broker-1/0/9", number * 1_000_000) for number in range(1, 10)]
    verdict = losing(*gone)
    assert headlines(verdict)[0].endswith(", in 9 steps, the first at 1.000 s")
    assert [each.at_us for each in breaks_of(verdict)] == [number * 1_000_000 for number in range(4, 10)]


def test_a_loss_that_nothing_allows_comes_first() -> None:
    """Shows that records which acks=all had to keep are counted, in the colour of a violation, and that this promise is
    told before others that were violated."""
    verdict = losing(
        Gone("", "orders-0", 10, "broker-2/0/7", 4_002_000), Gone("acks<=1", "orders-0", 3), status="violated"
    )
    others = [OFF.invariants[1], *verdict.invariants]
    lines = headlines(msgspec.structs.replace(verdict, invariants=others, expected=False))
    lost = "LOST: 10 records of orders-0 acknowledged to producers, which no rule allows, first missing at 4.002 s"
    assert lines[:2] == ["VIOLATED: C1 Records stay; H1 The latest offset never goes back", lost]
    assert (tone(lost), tone(lines[2]), tone("cluster")) == ("violated", "excused", None)


def test_an_expected_break_is_in_the_headline() -> None:
    """Shows what a scenario is there to show, where a rule excuses it, before a violation that it merely allows."""
    sentence = "broker-3 has the transaction of producer id 0 open from 292 on"
    excuse = Excuse("kafka-7408-off", "orders-0", sentence, [], 11_030_000)
    shown = InvariantVerdict(
        "T10", "Transactions are whole", "excused", 2, excused={"kafka-7408-off": 1}, excuses=[excuse]
    )
    expects = Expected(excused=["T10"], may=["H1"])
    verdict = msgspec.structs.replace(OFF, invariants=[OFF.invariants[1], shown], expects=expects, defects=[])
    lines = headlines(verdict)
    told = f"BROKEN as expected (the feature kafka-7408 is off): T10 Transactions are whole: {sentence}"
    assert (lines[0], tone(lines[0])) == (told, "excused")
    assert lines[1].startswith("VIOLATED as expected: H1 ")


def test_a_caught_defect_is_no_bad_news(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that the outcome of a run whose planted defect was caught says so; that of one which was not stays as it
    is."""
    reasons = [f"{DEFECT.caught_by} was violated: x"]
    promise = InvariantVerdict(DEFECT.caught_by, "Caught", "violated", 5, violated=1, weight="unexpected")
    verdict = msgspec.structs.replace(OFF, invariants=[promise], unexpected=reasons, expected=False)
    print_verdict(Page(), verdict)
    lines = capsys.readouterr().out.splitlines()
    assert f"outcome     violated: the planted defect was caught by {DEFECT.caught_by}, as planned" in lines
    assert f"  with the defect: {reasons[0]}" in lines
    missed = msgspec.structs.replace(verdict, invariants=[OFF.invariants[1]])
    print_verdict(Page(), missed)
    lines = capsys.readouterr().out.splitlines()
    assert "outcome     violated, NOT as expected" in lines
    assert f"  unexpected: {reasons[0]}" in lines


def test_what_gave_way_has_its_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows the first break that a rule excuses, with its events and what the rule allows, which is said once; where
    something was violated, --full alone has it. What is left out of the story has no time."""
    excuses = [Excuse(rule, "orders-0", "broker-1 lacks it", ["broker-1/0/9"], 7_010_000) for rule in ("loss-budget",)]
    weak = [
        InvariantVerdict(n, "Stays", "excused", 1, excused={"loss-budget": 2}, excuses=excuses) for n in ("C1", "P4")
    ]
    story = [Moment(1_000_000, "the controller fences broker-1"), Moment(1_000_000, "(3 lesser events left out)")]
    verdict = msgspec.structs.replace(ON, invariants=weak, story=story)
    print_verdict(Page(), verdict)
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("C1 was excused (tested once): Stays")
    assert lines[begin + 1] == "  broker-1 lacks it"
    events = "      2 times, first at 7.010 s, in the events broker-1/0/9; "
    assert lines[begin + 2].startswith(f"{events}rule loss-budget: Power losses or wiped disks removed the record")
    assert lines[begin + 6] == f"{events}rule loss-budget: disks lost more than replication can replace"
    assert "           (3 lesser events left out)" in lines
    assert [line.split()[:2] for line in lines if " excused  " in line] == [["C1", "excused"], ["P4", "excused"]]
    path = [Step(1_000_000, "broker-1 is fenced", "controller-1/0/3")]
    lost = msgspec.structs.replace(weak[0], excuses=[msgspec.structs.replace(excuses[0], path=path)])
    print_verdict(Page(), msgspec.structs.replace(verdict, invariants=[lost, weak[1]]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("      how it happened") + 1] == "        1.000  broker-1 is fenced  controller-1/0/3"
    assert not any(line.startswith("P4 was excused") for line in lines)
    violated = msgspec.structs.replace(verdict, outcome="violated")
    print_verdict(Page(), violated)
    assert "was excused" not in capsys.readouterr().out
    print_verdict(Page(), violated, full=True)
    assert "P4 was excused (tested once): Stays" in capsys.readouterr().out


def test_a_planted_defect_says_what_it_does() -> None:
    """Shows the name of a defect with what it does; one that nobody knows any more has its name alone."""
    verdict = msgspec.structs.replace(ON, defects=["consumer-mislabel", "of-old"])
    about = DEFECTS["consumer-mislabel"].about.rstrip(".")
    told = f"consumer-mislabel ({about}), NOT caught by {DEFECTS['consumer-mislabel'].caught_by}"
    assert headlines(verdict)[0] == f"planted on purpose: {told}; of-old"


def test_a_violated_run_says_whether_records_were_lost() -> None:
    """Shows that a reader of any violation learns that no acknowledged record is gone, where that was tested, and which
    promise caught a planted defect."""
    defect = DEFECTS["consumer-mislabel"]
    caught = InvariantVerdict(defect.caught_by, "Caught", "violated", 5, violated=1)
    for status, told in (("held", True), ("vacuous", False), ("excused", False)):
        every = [caught, InvariantVerdict("C1", "Records stay", status, 9)]
        lines = headlines(msgspec.structs.replace(OFF, invariants=every, defects=[defect.name]))
        assert ("no record acknowledged with acks=all was lost (C1 held, tested 9 times)" in lines) is told
        assert (
            lines[0] == f"planted on purpose: {defect.name} ({defect.about.rstrip('.')}), caught by {defect.caught_by}"
        )


def test_other_violations_name_the_other_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows whom else a promise was broken to, and not those whom the shown violation names."""
    further = Violation("orders-0", "list-offsets-3 was told less", ["list-offsets-3/0/7", "list-offsets-1/0/8"])
    promise = msgspec.structs.replace(OFF.invariants[1], violations=[*OFF.invariants[1].violations, further])
    print_verdict(Page(), msgspec.structs.replace(OFF, invariants=[promise]))
    assert "and 144 times with other nodes (list-offsets-3) or numbers" in capsys.readouterr().out


def test_much_that_broke_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that of many promises the first to break is shown with its evidence, some others with a line each, and that
    the rest are counted; the same of promises that gave way and of reasons. --full has everything."""
    broken = [msgspec.structs.replace(OFF.invariants[1], id=f"H{number}") for number in range(1, 16)]
    weak = [InvariantVerdict(f"C{n}", "Records stay", "excused", 9, excused={"acks<=1": n}) for n in range(1, 10)]
    story = [Moment(1_000_000 * number, f"broker-{number} is fenced") for number in range(20)]
    reasons = [f"H{number} was violated: {TOLD}" for number in range(1, 16)]
    verdict = msgspec.structs.replace(
        OFF, invariants=[*broken, *weak], story=story, expects=Expected(), unexpected=reasons, expected=False
    )
    print_verdict(Page(width=160), verdict)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 60
    assert sum("how it happened" in line for line in lines) == 1
    assert sum(line.startswith("H") for line in lines) == 6
    assert "and 9 other promises (--full lists them)" in lines
    assert [line[:2] for line in lines if " excused " in line and line[0] == "C"] == ["C1", "C8", "C9"]
    assert "  unexpected: 12 more (verdict.json has them)" in lines
    assert lines[2].endswith("; and 12 more")
    print_verdict(Page(width=160), verdict, full=True)
    lines = capsys.readouterr().out.splitlines()
    assert sum("how it happened" in line for line in lines) == 15
    assert sum(line.startswith("H") for line in lines) == 30


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_it_fits_the_terminal(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that evidence and tables are laid out for the width, and that no word is lost in it."""
    print_verdict(Page(width=width), OFF)
    print_contrast(Page(width=width), [OFF, ON])
    printed = capsys.readouterr().out
    told = printed.split("first at", 1)[1]
    for word in TOLD.replace("-", " ").split():
        assert word in told, word
    laid_out = [line for line in printed.splitlines() if line.startswith(("  ", "H1", "P1", "H2", "promise"))]
    laid_out = [line for line in laid_out if not line.startswith("  note:")]
    assert all(cell_len(line) <= width for line in laid_out), laid_out


def test_runs_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that what differs is in the table, a column for each variant, and what is alike everywhere below it."""
    print_contrast(Page(), [OFF, ON])
    assert capsys.readouterr().out.splitlines() == [
        "promise       off, 1 run             as proposed (KIP text), 1 run   what is promised",
        "H1            violated (308 times)   held (943 tests)                The latest offset never goes back",
        "H2            vacuous                held (10 tests)                 A new leader refuses",
        "as expected   yes                    yes",
        "held in every run: 1 promise (--full lists them)",
    ]


def test_many_runs_of_a_variant(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows how many runs came out how, and the least number of tests, so that no average hides a vacuous run."""
    odd = msgspec.structs.replace(ON, expected=False, invariants=[*ON.invariants[:1], *OFF.invariants[1:]])
    print_contrast(Page(), [ON, ON, odd])
    assert capsys.readouterr().out.splitlines() == [
        "promise       as proposed (KIP text), 3 runs                  what is promised",
        "H1            violated 1 of 3, held 2 of 3; 943+ tests each   The latest offset never goes back",
        "H2            held 2 of 3, vacuous 1 of 3; 0+ tests each      A new leader refuses",
        "as expected   2 of 3",
        "held in every run: 1 promise (--full lists them)",
    ]


def test_a_run_as_proposed_says_so() -> None:
    """Shows that the variant named seed is not taken for the seed of a run."""
    assert title(ON) == "kip-207 (as proposed), sim, seed 7"


def test_a_run_as_a_line() -> None:
    """Shows a run among many, with the reason if it did not go as expected."""
    violated = "violated H1 The latest offset never goes back"
    assert one_line(OFF) == f"ok kip-207 (off), sim, seed 7: {violated}, held 1 of 3, 11,375 events{PLANTED}"
    failed = msgspec.structs.replace(OFF, expected=False, unexpected=["H1 was violated: x"], undecided=["y"])
    assert one_line(failed).startswith("!! ")
    assert one_line(failed).endswith(f"; H1 was violated: x; y{PLANTED}")


def test_a_text_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that control characters of a file somebody made are shown, not obeyed."""
    Page().say("a\x1b[2Jb\nc")
    assert capsys.readouterr().out == "a\\x1b[2Jb\nc\n"


def test_a_sentence_is_kept_once() -> None:
    """Shows that of many findings those that differ are kept, each with its number, and all are counted."""
    result = KeyResult("H1", "orders-0")
    for number in range(5 * KEPT):
        count(result, Finding("H1", "orders-0", "violated", f"told {number % 3}", [f"e{number}"]))
    assert [(each.sentence, each.events, each.times) for each in result.findings] == [
        ("told 0", ["e0"], 17),
        ("told 1", ["e1"], 17),
        ("told 2", ["e2"], 16),
    ]
    for number in range(5 * KEPT):
        count(result, Finding("H1", "orders-0", "violated", f"told {number + 3}", []))
        count(result, Finding("H1", "orders-0", "excused", "told 0", [], rule="stale-leader"))
    assert result.counts == {"violated": 10 * KEPT, "excused/stale-leader": 5 * KEPT}
    assert len(result.findings) == KEPT + 1
