"""Coverage points of traces written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st

from actors.node.errors import KafkaError
from actors.node.spec import METADATA_PARTITION
from actors.trace.events import (
    AnyTraceEvent,
    CtlFault,
    IsrPropose,
    LogHw,
    LogTrunc,
    NodeDown,
    PartAssume,
    PartChange,
    QRole,
    RepFetch,
    ReplyPartition,
    RpcReply,
    Stamped,
)
from orchestrator.coverage.observer import Coverage
from orchestrator.coverage.pairs import NEVER
from orchestrator.coverage.points import LINGER_US, STEPS, UNDER_WAY
from orchestrator.coverage.table import FaultRow, fault_table, pair_table

TP = "orders-0"


def covered(*events: tuple[int, str, AnyTraceEvent]) -> list[str]:
    """The points of events, each with its time and its node."""
    coverage = Coverage()
    for seq, (wall, node, body) in enumerate(events):
        coverage(Stamped("run", node, 0, seq, wall, 0, "", "", body))
    return coverage.points()


def change(leader: int, leader_epoch: int, isr: Sequence[int], cause: str, elr: Sequence[int] = ()) -> PartChange:
    return PartChange(TP, 5, 1, leader, leader_epoch, 1, list(isr), [1, 2, 3], cause, list(elr), [], 2)


def fault(phase: str, number: int = 1, kind: str = "crash", target: str = "broker-1") -> CtlFault:
    assert phase in ("start", "stop")
    return CtlFault(f"f{number}", kind, phase, [target], {})  # type: ignore[arg-type]  # narrowed by the line above


def test_a_new_leader_is_told_apart_by_cause_isr_lag_and_elr() -> None:
    """Shows that what a leader takes up is one point: why it was elected, its ISR, how far its high watermark is
    behind, the ISR beside min.insync.replicas, and the eligible replicas."""
    points = covered(
        (1, "controller-1", change(1, 0, [1, 2, 3], "create")),
        (2, "controller-1", change(2, 1, [2], "fence", [3])),
        (3, "broker-2", PartAssume(TP, "leader", 2, 1, 2, 130, 130, 118, 9)),
    )
    assert "leader/fence/1/10/below/1" in points
    assert "isr/fence/3/1/below/1" in points
    assert [point for point in points if point.startswith("then/")] == [
        "then/elected/isr-shrunk",
        "then/eligible-replicas/lagging-leader",
        "then/isr-shrunk/under-min-isr",
        "then/start/elected",
        "then/under-min-isr/eligible-replicas",
    ]


def test_a_process_that_leads_again_is_told_apart_by_what_it_heard() -> None:
    """Shows that it matters whether a process followed between two leaderships, hears of another leader when it is none
    any more, or had no successor."""

    def leads(epoch: int) -> PartAssume:
        return PartAssume(TP, "leader", 2, epoch, epoch, 9, 9, 9, epoch)

    other = (2, "broker-1", leads(2))
    follows = (3, "broker-2", PartAssume(TP, "follower", 1, 2, 2, 9, -1, 9, 2))
    found = [
        covered((1, "broker-2", leads(1)), *between, (9, "broker-2", leads(3)))
        for between in ((other, follows), (other,), ())
    ]
    assert [[point for point in points if point.startswith("again/")] for points in found] == [
        ["again/2+/followed"],
        ["again/2+/in-place"],
        ["again/2+/alone"],
    ]


def test_a_step_is_set_against_the_faults_that_count_and_the_roles_they_hit() -> None:
    """Shows that the role is the target's at the beginning of the fault, for the topic partition of the step; that two
    faults at once are a point; and that a fault counts for a second after its end, and no longer."""
    points = covered(
        (1, "controller-1", change(1, 0, [1, 2, 3], "create")),
        (2, "driver", fault("start")),
        (3, "driver", fault("start", 2, "pause", "broker-3")),
        (4, "controller-1", change(2, 1, [2, 3], "fence")),
        (5, "driver", fault("stop")),
        (6, "driver", fault("stop", 2, "pause", "broker-3")),
        (5 + LINGER_US, "controller-1", change(2, 1, [2], "fence")),
        (6 + LINGER_US, "controller-1", change(2, 1, [2, 3], "alter-isr")),
    )
    assert [point for point in points if point.startswith(("during/", "fault"))] == [
        "during/crash/leader/elected",
        "during/crash/leader/isr-shrunk",
        "during/pause/follower/elected",
        "during/pause/follower/isr-shrunk",
        "during/pause/follower/under-min-isr",
        "fault/crash/leader",
        "fault/pause/broker",
        "faults/crash/pause",
    ]


def amid(*events: tuple[int, str, AnyTraceEvent]) -> list[str]:
    """The pairs of what was under way and a step."""
    return [point.removeprefix("amid/") for point in covered(*events) if point.startswith("amid/")]


def test_a_step_is_set_against_what_is_under_way() -> None:
    """Shows that a step counts in what has begun before it and is not done: an election of the quorum until a voter
    leads, a proposal until its answer; and that neither is amid what it begins or ends itself."""

    def role(name: str, epoch: int) -> QRole:
        return QRole("d", epoch, name, -1, 9, [])  # type: ignore[arg-type]  # a name of a role

    def proposal(outcome: str) -> IsrPropose:
        return IsrPropose(TP, 1, 1, 3, [1, 2], {}, 7, 4, outcome)

    found = amid(
        (1, "controller-1", change(1, 0, [1, 2, 3], "create")),
        (2, "controller-1", role("candidate", 2)),
        (3, "broker-1", proposal("proposed")),
        (4, "controller-1", role("leader", 2)),
        (5, "controller-1", change(1, 0, [1, 2], "alter-isr")),
        (6, "broker-1", proposal("accepted")),
        (7, "controller-1", change(1, 0, [1, 2, 3], "alter-isr")),
    )
    assert found == [
        "isr-change/isr-shrunk",
        "isr-change/quorum-elected",
        "quorum-election/proposed",
        "taking-over/isr-expanded",
        "taking-over/isr-shrunk",
        "taking-over/proposed",
        "taking-over/quorum-elected",
        "taking-over/quorum-standing",
    ]


def test_what_is_under_way_in_one_partition_races_with_no_other_one() -> None:
    """Shows that a truncation of one topic partition is not amid that of another, that what brokers and the quorum do
    is amid both, and that nothing is under way for a process that is gone."""
    parted = RepFetch(TP, 3, 2, 2, 6, 9, 1, 1, 4)
    cut = LogTrunc("orders-1", 9, 5, "diverge", 2)
    down = NodeDown("crash")
    assert amid((1, "broker-2", parted), (2, "broker-3", cut)) == []
    assert amid((1, "broker-2", parted), (2, "broker-1", down)) == ["diverging/stopped"]
    assert amid((1, "broker-2", parted), (2, "broker-3", down), (3, "broker-1", down)) == []


def test_the_table_of_pairs_has_what_was_reached_and_what_never() -> None:
    """Shows that all that can be under way is a row, with what cannot be left out of both."""
    rows = {row.under_way: row for row in pair_table({"amid/diverging/truncated": 3, "hw/0": 9})}
    assert list(rows) == list(UNDER_WAY)
    assert rows["diverging"].steps == {"truncated": 3}
    for name, row in rows.items():
        assert sorted([*row.steps, *row.never, *NEVER.get(name, ())]) == sorted(STEPS)
    assert all(set(steps) <= set(STEPS) for steps in NEVER.values()) and set(NEVER) <= set(UNDER_WAY)


def test_the_table_counts_runs_by_fault_role_and_step() -> None:
    """Shows that a fault on a role is a row, with the steps in their order and the runs in which each was taken."""
    runs = {"during/crash/leader/truncated": 2, "during/crash/leader/elected": 3, "fault/crash/leader": 9, "hw/0": 9}
    assert fault_table(runs) == [FaultRow("crash", "leader", 9, {"elected": 3, "truncated": 2})]
    assert list(fault_table(runs)[0].steps) == ["elected", "truncated"]


NUMBERS = st.integers(0, 2**40)
MEMBERS = st.lists(st.integers(1, 50), max_size=50, unique=True)
DRAWN = st.one_of(
    st.builds(
        PartChange, st.just(TP), NUMBERS, NUMBERS, st.integers(-1, 50), NUMBERS, NUMBERS, MEMBERS, MEMBERS,
        st.sampled_from(("elect", "fence", "unclean")), MEMBERS, MEMBERS, st.integers(1, 50),
    ),
    st.builds(PartAssume, st.just(TP), st.just("leader"), st.just(1), *[NUMBERS] * 7),
    st.builds(LogHw, st.sampled_from((TP, METADATA_PARTITION)), st.just("leader"), *[NUMBERS] * 4, MEMBERS),
    st.builds(LogTrunc, st.just(TP), NUMBERS, NUMBERS, st.just("diverge"), NUMBERS, NUMBERS),
    st.builds(QRole, st.just("d"), NUMBERS, st.sampled_from(("leader", "candidate")), NUMBERS, NUMBERS, MEMBERS),
    st.builds(
        RpcReply, st.sampled_from(("Produce", "ListOffsets")), st.just(11), st.just("c"), st.just("c"), NUMBERS,
        st.just(-1), st.just(0), st.just(-1),
        st.lists(st.builds(ReplyPartition, st.just(TP), st.sampled_from([int(e) for e in KafkaError]), *[NUMBERS] * 9)),
    ),
)  # fmt: skip
LARGEST = max(KafkaError)


@given(st.lists(st.tuples(NUMBERS, st.sampled_from(("broker-1", "controller-2")), DRAWN), max_size=30))
def test_nothing_without_bound_gets_into_a_point(events: list[tuple[int, str, AnyTraceEvent]]) -> None:
    """Shows that offsets, epochs and sizes are bucketed, whatever they are: the only numbers are buckets' and error
    codes. So the points of any number of runs stay few."""
    for point in covered(*events):
        numbers = [int(part) for part in point.split("/") if part.lstrip("-").isdigit()]
        assert all(number <= LARGEST for number in numbers), point


@given(st.lists(st.tuples(NUMBERS, st.just("broker-1"), DRAWN), max_size=20), st.integers(0, 20))
def test_a_prefix_covers_no_more_than_the_whole(events: list[tuple[int, str, AnyTraceEvent]], cut: int) -> None:
    """Shows that points are only ever added."""
    assert set(covered(*events[:cut])) <= set(covered(*events))
