"""The timeline of hand-written traces: lanes, lines, evidence, and what is left out."""

from __future__ import annotations

from actors.node.errors import KafkaError
from actors.trace.events import DRIVER, CtlFault, LinkRuleChange
from chaos.faults.process import NodePause
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.page.model import Bar, Lane, Timeline
from orchestrator.page.timeline import BARS_MAX, LANE_MAX, timeline_of
from orchestrator.story.moments import Step
from orchestrator.verdict import Excuse, Gone, InvariantVerdict, Verdict, Violation
from tests.unit.story.stage import ADMIN, TP, Stage


def verdict_with(*broken: InvariantVerdict) -> Verdict:
    """A verdict with these invariants."""
    return Verdict(
        run="run", scenario="s", variant="", runtime="sim", seed=1, outcome="violated" if broken else "held",
        expected=not broken, digest="", invariants=list(broken), events=0, rpcs=0, duration=1.0,
    )  # fmt: skip


def violated(*violations: Violation, name: str = "H1") -> InvariantVerdict:
    """A broken promise."""
    title = INVARIANTS[name].title
    return InvariantVerdict(name, title, "violated", 9, violated=len(violations), violations=list(violations))


def drawn(trace: Stage, verdict: Verdict | None = None) -> Timeline:
    """The timeline of a trace."""
    return timeline_of(trace.events, verdict or verdict_with())


def lane(timeline: Timeline, title: str) -> Lane:
    """The lane of this title."""
    return next(each for each in timeline.lanes if each.title == title)


def bars(timeline: Timeline, title: str, style: str) -> list[Bar]:
    """The bars of a style on a lane."""
    return [bar for bar in lane(timeline, title).bars if bar.style == style]


def test_a_node_is_up_leads_and_is_down() -> None:
    """Shows a broker's life, the leadership that it believes to have and that ends with it, how it ended, and its next
    life."""
    trace = Stage().begin()
    trace.up("broker-1")
    trace.assume(1, 3)
    trace.down("broker-1")
    trace.up("broker-1")
    trace.end()
    timeline = drawn(trace)
    assert [(bar.start, bar.end) for bar in bars(timeline, "broker-1", "up")] == [(0.001, 0.003), (0.004, 0.005)]
    (leads,) = bars(timeline, "broker-1", "leads")
    assert (leads.start, leads.end, leads.label) == (0.002, 0.003, f"leads {TP}, epoch 3")
    (down,) = bars(timeline, "broker-1", "down")
    assert (down.start, down.end, down.hover) == (0.003, 0.004, "killed")


def test_two_that_believe_to_lead_are_both_drawn() -> None:
    """Shows a deposed leader that goes on beside the new one, until it follows."""
    trace = Stage().begin()
    trace.assume(1, 0)
    trace.assume(2, 1)
    trace.assume(1, 1, leader=2)
    timeline = drawn(trace)
    (old,), (new,) = bars(timeline, "broker-1", "leads"), bars(timeline, "broker-2", "leads")
    assert old.start < new.start < old.end == new.end


def test_leaders_and_candidates_of_the_quorum() -> None:
    """Shows a candidate, and the leader's epoch; a follower has no bar."""
    trace = Stage().begin()
    trace.role("controller-1", 2, "candidate")
    trace.role("controller-1", 2, "leader")
    trace.role("controller-1", 3, "follower")
    timeline = drawn(trace)
    assert [bar.label for bar in bars(timeline, "controller-1", "votes")] == ["candidate, epoch 2"]
    assert [bar.label for bar in bars(timeline, "controller-1", "leads")] == ["leader, epoch 2"]


def test_faults_have_lanes_and_their_victims_are_marked() -> None:
    """Shows a fault from its start to its stop, the node that it paused, and both ends of a link that is cut."""
    trace = Stage().begin()
    trace.fault(NodePause.kind, "start", "broker-1")
    trace.fault(NodePause.kind, "stop", "broker-1")
    trace.emit(DRIVER, LinkRuleChange("f2/0", "hold", "start", ["broker-1"], ["broker-2"], 0))
    trace.emit(DRIVER, LinkRuleChange("f2/0", "hold", "stop", ["broker-1"], ["broker-2"], 3))
    timeline = drawn(trace)
    (fault,) = lane(timeline, f"f1 {NodePause.kind} of broker-1").bars
    assert (fault.style, fault.start, fault.end) == ("fault", 0.001, 0.002)
    (paused,) = bars(timeline, "broker-1", "paused")
    assert (paused.start, paused.end) == (0.001, 0.002)
    for node in ("broker-1", "broker-2"):
        (cut,) = bars(timeline, node, "cut")
        assert (cut.start, cut.end) == (0.003, 0.004)
        assert cut.hover == "f2: messages from broker-1 to broker-2 are held back"


def test_cut_off_are_the_fewer() -> None:
    """Shows that of a broker and all that it cannot reach the broker is marked."""
    trace = Stage().begin()
    trace.up("broker-2")
    trace.emit(DRIVER, LinkRuleChange("f2/0", "drop", "start", ["broker-2", "broker-3"], ["broker-1"], 0))
    timeline = drawn(trace)
    (cut,) = bars(timeline, "broker-1", "cut")
    assert cut.hover == "f2: messages from broker-2, broker-3 to broker-1 are lost"
    assert bars(timeline, "broker-2", "cut") == []


def test_many_faults_share_lanes() -> None:
    """Shows a lane a kind where there are more faults than lanes."""
    trace = Stage().begin()
    for number in range(20):
        trace.emit(DRIVER, CtlFault(f"f{number}", "crash", "start", ["broker-1"], {}))
    (faults,) = [each for each in drawn(trace).lanes if each.group == "faults"]
    assert (faults.title, len(faults.bars)) == ("crash", 20)


def test_faults_that_overlap_are_one_tint() -> None:
    """Shows that however many faults go on at a moment, the page tints it once, and that a fault of another time has a
    tint of its own."""
    trace = Stage().begin()
    for name, phase in (("f1", "start"), ("f2", "start"), ("f1", "stop"), ("f2", "stop"), ("f3", "start")):
        trace.fault("crash", "start" if phase == "start" else "stop", "broker-1", name=name)
    trace.end()
    assert drawn(trace).bands == [(0.001, 0.004), (0.005, 0.006)]


def test_a_fault_says_whom_it_hits() -> None:
    """Shows the whole fault in its title and its bar; a long one has its kind alone in the title."""
    trace = Stage().begin()
    trace.fault("crash", "start", "broker-1")
    many = [f"controller-{number}" for number in (1, 2, 3)]
    trace.fault("partition", "start", "broker-1", name="f2", **{"from": ["broker-1"], "to": many})
    short, long = (each for each in drawn(trace).lanes if each.group == "faults")
    assert (short.title, short.bars[0].label) == ("f1 crash of broker-1", "crash of broker-1")
    assert long.title == "f2 partition"
    assert long.bars[0].label == "partition from broker-1 to controller-1, controller-2, controller-3 (one way)"


def test_replicas_lead_are_in_the_isr_or_out_of_it() -> None:
    """Shows the state of each replica by the controller's log, with the leader epoch."""
    trace = Stage().begin()
    trace.change(1, 0)
    trace.change(2, 1, [2, 3], "fence")
    timeline = drawn(trace)
    shown = {number: [bar.style for bar in lane(timeline, f"{TP} on {number}").bars] for number in (1, 2, 3)}
    assert shown == {1: ["leader", "out"], 2: ["isr", "leader"], 3: ["isr", "isr"]}
    assert lane(timeline, f"{TP} on 2").bars[1].label == "leader, epoch 1"
    assert "ISR [2, 3] (a broker is fenced)" in lane(timeline, f"{TP} on 1").bars[1].hover


def test_a_leader_by_an_unclean_election_is_marked() -> None:
    """Shows it through changes of the ISR, until there is another leader."""
    trace = Stage().begin()
    trace.change(1, 0)
    trace.change(2, 1, [2], "unclean")
    trace.change(2, 1, [2, 3], "alter-isr")
    trace.change(3, 2, [2, 3], "elect")
    timeline = drawn(trace)
    assert [bar.style for bar in lane(timeline, f"{TP} on 2").bars] == ["isr", "unclean", "unclean", "isr"]
    assert lane(timeline, f"{TP} on 2").bars[2].label == "leader, epoch 1, unclean"
    assert lane(timeline, f"{TP} on 3").bars[-1].style == "leader"


def test_offsets_of_replicas_are_lines() -> None:
    """Shows log ends with a truncation, and the high watermark, of each replica."""
    trace = Stage().begin()
    trace.append("broker-1", "a", "b")
    trace.high_watermark("broker-1", 2)
    trace.truncate("broker-1", 0)
    lines = {(line.node, line.what): line for line in drawn(trace).series}
    assert lines["broker-1", "log end"].y == [2, 0]
    assert lines["broker-1", "log end"].x == [0.001, 0.003]
    assert lines["broker-1", "high watermark"].y == [2]


def test_turns_of_logs_are_told() -> None:
    """Shows a truncation, a new leader, and that an empty disk has no log any more: its line falls to 0 at once."""
    trace = Stage().begin()
    trace.append("broker-1", "a", "b")
    trace.high_watermark("broker-1", 2)
    trace.truncate("broker-1", 0)
    trace.assume(1, 1)
    trace.down("broker-1")
    trace.up("broker-1", wiped=True)
    timeline = drawn(trace)
    assert [(turn.kind, turn.node, turn.at, turn.y) for turn in timeline.turns] == [
        ("truncates", "broker-1", 0.003, 0),
        ("leads", "broker-1", 0.004, 0),
        ("empty", "broker-1", 0.006, 0),
    ]
    assert timeline.turns[0].text.startswith("broker-1 truncates 2 records of orders-0, from offset 0 on")
    for line in timeline.series:
        assert (line.x[-1], line.y[-1]) == (0.006, 0)


def test_refusals_are_drawn() -> None:
    """Shows an error after which a client tries again, which is the return of no operation."""
    trace = Stage().begin()
    trace.refused("producer-1", KafkaError.NOT_ENOUGH_REPLICAS)
    (refused,) = bars(drawn(trace), "producer-1", "refused")
    assert (refused.start, refused.end) == (0.001, 0.001)
    assert refused.hover == "Produce: NOT_ENOUGH_REPLICAS from broker-1: the client tries again"


def test_what_is_excused_has_its_evidence() -> None:
    """Shows when a promise gave way, the event that proves it, and when records were missing and back again."""
    trace = Stage().begin()
    proof = trace.assume(1, 1)
    how = "broker-1 has them"
    lost = Excuse("loss-budget", TP, "a record is gone", [proof], 2_000, 5, 3_000, how)
    weak = Excuse("loss-budget", TP, "the leader lacks it", [proof], 2_000)
    gone = InvariantVerdict("C1", "Records stay", "excused", 9, excused={"loss-budget": 5}, excuses=[lost])
    elected = InvariantVerdict("P4", "Leaders have all", "excused", 9, excused={"loss-budget": 1}, excuses=[weak])
    timeline = drawn(trace, verdict_with(gone, elected))
    assert [(each.promise, each.at, each.sentence) for each in timeline.breaks] == [
        ("P4 excused", 0.002, "the leader lacks it"),
        ("records missing", 0.002, "a record is gone"),
        ("records back", 0.003, how),
    ]
    assert all(each.excused for each in timeline.breaks)
    marks = [(mark.promise, mark.event, mark.proof, mark.excused) for mark in timeline.marks]
    assert sorted(marks) == [("P4 excused", proof, True, True), ("records missing", proof, True, True)]


def test_operations_are_intervals_with_their_outcome() -> None:
    """Shows the time that each took, and how it returned: as done, as failed, with no known outcome, or never."""
    trace = Stage().begin()
    trace.ask("list-1", 7, 1, 0)
    for uid, outcome in (("a:0", "fail"), ("a:1", "unknown")):
        trace.sends("producer-1", uid)
        trace.failed("producer-1", uid, outcome="fail" if outcome == "fail" else "unknown")
    trace.sends("producer-1", "a:2")
    trace.end()
    timeline = drawn(trace)
    (listed,), (answer,) = bars(timeline, "list-1", "waits"), bars(timeline, "list-1", "ok")
    assert (listed.start, listed.end, listed.tp) == (0.001, 0.002, TP)
    assert listed.hover == f"list the latest offset of {TP}: offset 7 by broker-1"
    assert (answer.start, answer.end, answer.hover) == (0.002, 0.002, f"{listed.hover}, after 0.001 s")
    shown = lane(timeline, "producer-1").bars
    assert [bar.style for bar in shown] == ["waits", "fail", "waits", "unknown", "open"]
    assert shown[-1].end == timeline.end


def test_a_violation_has_its_time_its_evidence_and_its_messages() -> None:
    """Shows when it was found, the events that prove it, those on the way, and the messages back along the causes."""
    trace = Stage().begin()
    asked = trace.append("broker-1", "a")
    trace.cause = asked
    led = trace.high_watermark("broker-2", 0)
    trace.cause = led
    proof = trace.ask("list-1", 0, 2, 1)
    step = Step(2000, "broker-2 moves", led)
    verdict = verdict_with(violated(Violation(TP, "it went back", [proof], at_us=4000, path=[step])))
    timeline = drawn(trace, verdict)
    assert [(each.promise, each.at, each.sentence) for each in timeline.breaks] == [("H1", 0.004, "it went back")]
    assert [(mark.event, mark.proof, mark.node) for mark in timeline.marks] == [
        (led, False, "broker-2"),
        (proof, True, "list-1"),
    ]
    assert [(arrow.sender, arrow.receiver) for arrow in timeline.arrows] == [
        ("broker-1", "broker-2"),
        ("broker-2", "list-1"),
    ]


def test_evidence_that_the_trace_lacks_draws_nothing() -> None:
    """Shows that ids of nothing, and a violation without a time, do no harm: it stands at the end."""
    trace = Stage().begin()
    trace.append("broker-1", "a")
    verdict = verdict_with(violated(Violation(TP, "it went back", ["x", "broker-9/0/5"], ["broker-1/0/77"])))
    timeline = drawn(trace, verdict)
    assert ([each.at for each in timeline.breaks], timeline.marks, timeline.arrows) == ([timeline.end], [], [])


def test_every_broken_promise_is_marked_before_one_is_marked_twice() -> None:
    """Shows that of very many violations each promise has its first ones, and that the rest is said to be missing."""
    many = [Violation(TP, f"sentence {number}", [], at_us=number) for number in range(60)]
    verdict = verdict_with(violated(*many), violated(Violation(TP, "another", [], at_us=1), name="H6"))
    timeline = drawn(Stage().begin(), verdict)
    assert {each.promise for each in timeline.breaks} == {"H1", "H6"}
    assert "ticks for the first 39 of 60 violations of H1" in timeline.left_out
    assert not any("H6" in each for each in timeline.left_out)


def test_the_picture_opens_on_the_evidence() -> None:
    """Shows that a long run is shown at first from its first evidence to its last, with something around it, and a
    run that is little longer than its evidence as a whole."""
    trace = Stage().begin()
    trace.wall += 60_000_000
    trace.up("broker-1")
    path = [Step(10_000_000, "f1 crash of broker-1 begins", "driver/0/0")]
    seen = Violation(TP, "it went back", [], at_us=20_000_000, path=path)
    timeline = drawn(trace, verdict_with(violated(seen)))
    assert (round(timeline.opens, 1), round(timeline.closes, 1)) == (8.8, 21.2)
    path = [Step(5_000_000, "f1 crash of broker-1 begins", "driver/0/0")]
    late = Violation(TP, "it went back", [], at_us=58_000_000, path=path)
    whole = drawn(trace, verdict_with(violated(late)))
    assert (whole.opens, whole.closes) == (whole.begin, whole.end)


def test_a_loss_is_evidence() -> None:
    """Shows that where nothing was violated the picture opens on the records that were lost."""
    trace = Stage().begin()
    trace.wall += 60_000_000
    trace.up("broker-1")
    gone = [Gone("acks<=1", TP, 3, "", at_us) for at_us in (30_000_000, 40_000_000)]
    promise = InvariantVerdict("C1", "Records stay", "excused", 9, excused={"acks<=1": 6}, gone=gone)
    timeline = drawn(trace, verdict_with(promise))
    assert (round(timeline.opens, 1), round(timeline.closes, 1)) == (28.8, 41.2)


def test_the_picture_of_a_loss_has_its_whole_path() -> None:
    """Shows that it opens on the span from the first step to a loss that a rule allows to the truncation by which a
    replica gives the records up; the steps are marked as those of an excused break."""
    trace = Stage().begin()
    trace.append("broker-1", "a", "b")
    trace.wall += 45_000_000
    trace.truncate("broker-1", 0)
    trace.wall += 55_000_000
    trace.up("broker-1")
    path = [Step(20_000_000, "f1 partition begins", "driver/0/0"), Step(30_000_000, "elected", "controller-1/0/9")]
    excuse = Excuse("unclean-election", TP, "it lacks it", [], 40_000_000, path=path)
    gone = [Gone("unclean-election", TP, 3, "", 40_000_000)]
    promise = InvariantVerdict(
        "C1", "Records stay", "excused", 9, excused={"unclean-election": 3}, excuses=[excuse], gone=gone
    )
    timeline = drawn(trace, verdict_with(promise))
    assert (round(timeline.opens, 1), round(timeline.closes, 1)) == (17.5, 47.5)
    assert [(mark.at, mark.excused, mark.proof) for mark in timeline.marks] == [(20, True, False), (30, True, False)]


def test_the_picture_does_not_begin_long_before_the_first_event() -> None:
    """Shows that evidence that takes most of a run is shown from just before its first moment, too."""
    trace = Stage().begin()
    trace.wall += 100_000_000
    trace.up("broker-1")
    path = [Step(25_000_000, "f1 crash of broker-1 begins", "driver/0/0")]
    late = Violation(TP, "it went back", [], at_us=99_000_000, path=path)
    timeline = drawn(trace, verdict_with(violated(late)))
    assert (round(timeline.opens, 1), timeline.closes) == (17.6, timeline.end)


def test_a_request_says_what_it_asks_for() -> None:
    """Shows an operator's request by its words, whichever of driver and operator is recorded first; one with too many
    words says so in its bar, and one that was never made has its number alone."""
    trace = Stage().begin()
    trace.fault("elect", "start", ADMIN, name="f1")
    trace.asks("elect-leaders", type="unclean", partitions=["orders-1"])
    trace.asks("elect-leaders", type="preferred", partitions=["orders-0", "orders-1", "orders-2", "orders-3"])
    trace.fault("elect", "start", ADMIN, name="f2")
    trace.fault("elect", "start", ADMIN, name="f3")
    one, many, never = (each for each in drawn(trace).lanes if each.group == "faults")
    assert (one.title, one.short, one.bars[0].label) == (
        ("f1 an unclean election of orders-1", "f1 request", "an unclean election of orders-1")
    )
    assert many.title == "f2 request of an operator"
    assert many.bars[0].hover == "f2 a preferred election of orders-0, orders-1, orders-2, orders-3"
    assert (never.title, never.short) == ("f3 request of an operator", "f3 request")


def test_the_start_of_processes_is_passed_over() -> None:
    """Shows that a picture begins shortly before time 0 where it took long to come there, unless something broke in
    that time, and with the trace where it did not."""
    trace = Stage()
    trace.up("broker-1")
    trace.wall += 60_000_000
    trace.begin()
    trace.wall += 20_000_000
    trace.up("broker-2")
    timeline = drawn(trace)
    assert (round(timeline.begin), round(timeline.opens)) == (-60, -1)
    early = Violation(TP, "it went back", [], at_us=-30_000_000)
    assert round(drawn(trace, verdict_with(violated(early))).opens) == -31
    trace = Stage().begin()
    trace.wall += 20_000_000
    trace.up("broker-1")
    soon = drawn(trace)
    assert soon.opens == soon.begin


def test_a_long_run_is_thinned_and_says_so() -> None:
    """Shows that thousands of operations become few bars, in which each failure is still there, and that the page tells
    how many are no longer drawn alone."""
    trace = Stage().begin()
    for number in range(3_000):
        trace.sends("producer-1", f"a:{number}")
        if number == 1_500:
            trace.failed("producer-1", f"a:{number}")
        else:
            trace.acked("producer-1", f"a:{number}", number)
    timeline = drawn(trace)
    shown = lane(timeline, "producer-1").bars
    assert len(shown) <= LANE_MAX
    assert sum(bar.number for bar in shown if bar.style != "waits") == 3_000
    assert [bar.style for bar in shown].count("fail") == 1
    assert any("operations of clients drawn together" in each for each in timeline.left_out)


def test_very_many_lanes_share_what_a_page_has_room_for() -> None:
    """Shows that the bars of a page are bounded, however many nodes there are."""
    trace = Stage().begin()
    for client in range(50):
        for number in range(100):
            trace.sends(f"producer-{client}", f"{client}:{number}")
            trace.acked(f"producer-{client}", f"{client}:{number}", number)
    timeline = drawn(trace)
    assert sum(len(each.bars) for each in timeline.lanes) <= BARS_MAX
