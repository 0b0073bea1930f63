"""Which violations say that they are what Kafka itself gets wrong: by what makes it happen, not by what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import ConsPos, MetaView, QVoters
from chaos.plan import Expectation
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.folds.fold import Finding, Profile
from orchestrator.invariants.folds.known_findings import KNOWN_FINDINGS, KnownFinding
from orchestrator.verdict import RunFacts, Verdict, judge
from tests.architecture.sources import ROOT
from tests.unit.invariants.folds.test_windows import SECOND, Run
from tests.unit.invariants.quorum.test_elections import LEADER, elected
from tests.unit.invariants.test_topics_made_anew import ANEW, made_anew
from tests.unit.invariants.trace_builder import TP, TraceBuilder

ELR = "finding-elr-cleared"
MENDED = {"mend.elr-cleared": "recount-elr"}


@pytest.mark.parametrize("known", KNOWN_FINDINGS.values(), ids=lambda known: known.name)
def test_a_finding_has_the_title_of_its_section(known: KnownFinding) -> None:
    """Shows that a reader who is told a finding's title finds it as a heading in the document that is named, too."""
    text = (ROOT / (known.study or "docs/findings.md")).read_text(encoding="utf-8")
    assert known.title in [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    assert known.told.startswith(f'"{known.title}", which ')


def rules(run: TraceBuilder, invariant: str) -> list[str]:
    """What each violation says that it is."""
    return [each.rule for each in run.result(invariant).violations]


@pytest.mark.parametrize(
    ("isr", "more", "cause", "found"),
    [
        ((), {}, "config", [ELR]),
        ((), {}, "fence", [""]),
        ((), {"last_known_elr": [2]}, "config", [""]),
        ((), {"elr": [2]}, "config", [""]),
        ((2,), {}, "config", [""]),
    ],
)
def test_a_partition_that_nobody_may_lead(
    isr: tuple[int, ...], more: dict[str, list[int]], cause: str, found: list[str]
) -> None:
    """Shows that a partition without a leader is the finding where a change of the configuration made void who was
    eligible and who led last, and a violation of another kind wherever somebody may lead, or nobody knows why not."""
    run = Run()
    run.lead(1, 0)
    run.change(-1, 1, isr=(), elr=[1, 2], last_known_elr=[1], cause="fence")
    run.change(-1, 1, partition_epoch=2, isr=isr, cause=cause, **more)
    run.window()
    run.past("L3")
    assert rules(run, "L3") == found


def test_the_last_known_leader_may_be_away() -> None:
    """Shows that a partition waits for its last known leader where nobody else may lead, and no longer than that."""
    for without, status in ((("broker-1",), "excused"), (("broker-2",), "violated")):
        run = Run()
        run.lead(1, 0)
        run.change(-1, 1, isr=(), last_known_elr=[1], cause="fence")
        run.window(without=without)
        run.past("L3")
        assert run.result("L3").status == status


def test_with_the_mend_it_is_a_failure() -> None:
    """Shows that nothing is known of a cluster that has the mend."""
    run = Run(features=MENDED)
    run.lead(1, 0)
    run.change(-1, 1, isr=(), elr=[1, 2], last_known_elr=[1], cause="fence")
    run.change(-1, 1, partition_epoch=2, isr=(), cause="config")
    run.window()
    run.past("L3")
    assert rules(run, "L3") == [""]


def stays(seconds: int) -> TraceBuilder:
    """A leader that was removed commits that so many seconds later, and appends."""
    trace = TraceBuilder()
    elected(trace)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.emit(LEADER, QVoters(f"dir-{LEADER}", 1, 1, 1, {"102": "b", "103": "c"}, 2, 1, "append"))
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.wall += seconds * SECOND
    trace.high_watermark(LEADER, 2, 1, METADATA_PARTITION)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    return trace


@pytest.mark.parametrize(("seconds", "found"), [(1, [""]), (3, ["finding-removed-leader-zombie"])])
def test_a_removed_leader_that_stays(seconds: int, found: list[str]) -> None:
    """Shows that a leader which goes on after its removal is the finding where nobody waited for the commit any more:
    controller.quorum.request.timeout.ms is 2 s."""
    assert rules(stays(seconds), "Q15") == found


def test_what_a_leader_that_stays_does_next_is_the_same_finding() -> None:
    """Shows that a leader that nobody waits for is known for what it is after it has changed the voters once more,
    which is soon committed: it is its own removal that counts."""
    trace = stays(3)
    more = {"102": "b", "103": "c", "104": "d"}
    trace.emit(LEADER, QVoters(f"dir-{LEADER}", 2, 1, 1, more, 3, 2, "append"))
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 3, 1, METADATA_PARTITION)
    trace.high_watermark(LEADER, 4, 1, METADATA_PARTITION)
    assert set(rules(trace, "Q15")) == {"finding-removed-leader-zombie"}


@pytest.mark.parametrize(("knows", "found"), [((), ["finding-removed-leader-deadlock"]), (("controller-2",), [""])])
def test_a_quorum_that_waits_for_who_removed_itself(knows: tuple[str, ...], found: list[str]) -> None:
    """Shows that a quorum without a leader is the finding where a voter cannot do without one that counts itself out,
    and none where the other one knows of the removal, and only does not stand."""
    run = Run(voters=[101, 102])
    both, other = {"101": "a", "102": "b"}, {"102": "b"}
    for name in ("controller-1", "controller-2"):
        run.emit(name, QVoters(f"dir-{name}", 2, 1, 1, both, 3, 0, "append"))
    for name in ("controller-1", *knows):
        run.emit(name, QVoters(f"dir-{name}", 9, 1, 1, other, 10, 9, "append"))
    run.role("controller-1", 2, "unattached", -1)
    run.role("controller-2", 2, "unattached", -1)
    run.window()
    run.past("L1")
    assert rules(run, "L1") == found


class Former(Run):
    """A topic in leader epoch 1, whose high watermark gets to ``end``, and a consumer that takes up position 5 with a
    leader epoch and is told of the topic three times."""

    def __init__(self, epoch: int, *, end: int, anew: bool = True, **profile: object) -> None:
        super().__init__(**profile)
        tp = ANEW if anew else TP
        self.role("controller-1", 1, "leader", 101)
        self.change(1, 1, offset=10)
        self.told(tp, True)
        self.emit("consumer-1", ConsPos(TP, -1, 5, epoch, "seek"))
        self.window()
        self.high_watermark("broker-1", end, 1)
        for _ in range(3):
            self.wall += bound_us(Profile(), "L16") // 2
            self.told(tp, False)
        if anew:
            made_anew(self, 0)

    def told(self, tp: str, taken: bool) -> None:
        self.emit("consumer-1", MetaView("broker-1", {tp: 1}, [tp] if taken else [], {tp: 1}))


FORMER = "finding-former-epoch"


@pytest.mark.parametrize(
    ("epoch", "how", "found"),
    [
        (4, {}, ([], [FORMER])),
        (4, {"end": 9}, ([FORMER], [FORMER])),
        (4, {"end": 9, "features": {"mend.former-epoch": "topic-id"}}, ([""], [""])),
        (4, {"end": 9, "config": {"metadata.propagation": "push"}}, ([FORMER], [FORMER])),
        (1, {"end": 9}, ([""], [])),
        (4, {"end": 9, "anew": False}, ([""], [])),
    ],
)
def test_a_position_of_a_former_topic(epoch: int, how: dict[str, Any], found: tuple[list[str], list[str]]) -> None:
    """Shows that a consumer which does not take what it is told of a topic that was made anew is the finding where its
    position has a later leader epoch than that topic, whether or not it has anything to read there; and with the mend,
    with an earlier leader epoch or in a first topic of that name it is none."""
    run = Former(epoch, **{"end": 5, **how})
    assert (rules(run, "L6"), rules(run, "L16")) == found


# ---- verdicts --------------------------------------------------------------------------------------------------


NOTHING_EXPECTED = Expectation()


def verdict(*results: InvariantResult, expectation: Expectation = NOTHING_EXPECTED, stalled: bool = True) -> Verdict:
    """On a run that did not heal."""
    facts = RunFacts(run="r", scenario="s", runtime="sim", seed=1)
    doubts = ["the cluster did not heal: healing: without its leader: orders-0"] if stalled else []
    return judge(facts, results, expectation, doubts=doubts)


def violated(invariant: str, key: str = "orders-0", rule: str = "") -> InvariantResult:
    """A result with one violation."""
    finding = Finding(invariant, key, "violated", f"{invariant} of {key}", ["n/0/1"], rule=rule)
    return InvariantResult(invariant, invariant, "violated", 1, violated=1, violations=[finding])


def test_what_follows_from_a_finding_is_known_with_it() -> None:
    """Shows that a run is as expected in which nothing is violated but what shows a finding and what follows from it:
    of its kind, and about the same partition; and that it did not heal is no doubt then."""
    found = verdict(violated("L3", rule=ELR), violated("L5"), violated("L13", "producer-1"))
    assert (found.exit_code, found.expected, found.outcome, found.known) == (0, True, "violated", [ELR])
    for other in (violated("L5", "orders-1"), violated("C1")):
        found = verdict(violated("L3", rule=ELR), other)
        assert (found.exit_code, found.unexpected) == (1, [f"{other.id} was violated: {other.violations[0].sentence}"])
    assert verdict(violated("L5")).exit_code == 1, "nothing shows the finding"


def test_one_violation_does_not_hide_another_of_the_same_promise() -> None:
    """Shows that a promise of which one violation is known and another one is not is a failure, with the other's
    words."""
    both = violated("L3", rule=ELR)
    both.violations += violated("L3", "orders-1").violations
    assert verdict(both).unexpected == ["L3 was violated: L3 of orders-1"]


def test_who_expects_a_promise_to_hold_is_told_that_it_does_not() -> None:
    """Shows that a scenario which says that a promise holds is not content with a finding; and that one which says that
    it is broken is as expected, and knows of nothing."""
    held = Expectation(True, held=["L3"])
    assert verdict(violated("L3", rule=ELR), expectation=held).exit_code == 1
    broken = verdict(violated("L3", rule=ELR), expectation=Expectation(True, violated=["L3"]))
    assert (broken.exit_code, broken.known) == (0, [])


def test_a_run_that_does_not_heal_is_in_doubt_otherwise() -> None:
    """Shows that not to heal stays a doubt where no finding and no expectation is about what does not happen."""
    safety = violated("P10", rule="finding-reelected-in-place")
    assert verdict(safety).exit_code == 3
    assert verdict(safety, stalled=False).exit_code == 0


@pytest.mark.parametrize(
    ("invariant", "rule", "exit_code"),
    [("L13", "lost-decisions", 0), ("L5", "late-push", 0), ("L6", "isr-away", 3), ("T9", "lost-decisions", 3)],
)
def test_a_client_that_may_get_nowhere_keeps_its_cluster_from_draining(
    invariant: str, rule: str, exit_code: int
) -> None:
    """Shows that not to heal, or to drain, is no doubt where a promise of progress is excused for good."""
    excused = InvariantResult(invariant, invariant, "excused", 1, excused={rule: 1})
    assert verdict(excused).exit_code == exit_code
