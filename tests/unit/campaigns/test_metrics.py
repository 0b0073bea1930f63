"""What a run's cost is taken to be, on traces written by hand. Time 0 is at 1 s, the chaos ends at 11 s."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.node.errors import KafkaError
from actors.quorum.quorum_state import RoleName
from actors.trace.events import (
    AnyTraceEvent,
    ConsPos,
    CtlPhase,
    ErrorSeen,
    GrpCommit,
    ListInvoke,
    ListReturn,
    LogAppend,
    LogTrunc,
    NodeDown,
    PartAssume,
    PartChange,
    Polled,
    PollReturn,
    QRole,
    QVoters,
    Rpc,
    RpcQuiet,
    SendInvoke,
    SendReturn,
    Stamped,
)
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.metrics import Metrics, RunMetrics, of_one_partition, rank, title, unit
from orchestrator.quantiles import quantile

SCENARIO = """
schema: krift/v1
name: small
cluster: {voters: 1, brokers: 2, topics: {orders: {replicas: [[1, 2]]}}}
duration: 10s
workload:
  - producer: {topic: orders, rate: 10/s, config: {linger.ms: 100}}
  - consumer: {topic: orders}
  - list-offsets: {topic: orders, every: 50ms}
  - list-offsets: {topic: orders, every: 50ms, replica-id: 2}
"""
TP = "orders-0"
At = tuple[float, str, AnyTraceEvent]
"""Seconds, node, event."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return resolve(load_text(SCENARIO))


def measured(plan: Plan, events: Sequence[At]) -> Metrics:
    """The metrics of a trace with these events, in order of their times."""
    metrics = RunMetrics(plan)
    phases: list[At] = [(1, "driver", CtlPhase("chaos")), (11, "driver", CtlPhase("healing"))]
    for seq, (at, node, body) in enumerate(sorted([*events, *phases], key=lambda each: each[0])):
        metrics(Stamped("run", node, 0, seq, round(at * 1e6), 0, "", "", body))
    return metrics.metrics()


def probe(number: int, asked: float, told: float, offset: int, node: str = "list-offsets-1") -> list[At]:
    """A prober's operation."""
    op = f"{node}/0/{number}"
    return [
        (asked, node, ListInvoke(op, TP, -1)),
        (told, node, ListReturn(op, "ok", 0, TP, -1, offset=offset)),
    ]


def probes(start: float, end: float) -> list[At]:
    """A prober's operations, one every 50 ms, of 10 ms each."""
    times = [start + 0.05 * number for number in range(round((end - start) / 0.05))]
    return [event for number, at in enumerate(times) for event in probe(round(start * 1000) + number, at, at + 0.01, 7)]


def send(uid: str, sent: float, acked: float, acks: int = -1) -> list[At]:
    return [
        (sent, "producer-1", SendInvoke(uid, TP, uid, acks)),
        (acked, "producer-1", SendReturn(uid, "ok", 0, TP, uid, acks, offset=0)),
    ]


def append(node: str, base: int, uids: list[str]) -> At:
    return (2, node, LogAppend(TP, "leader", base, base + len(uids) - 1, 0, 0, 1, 0, 0, False, uids))


def lead(node: str, at: float, epoch: int, end: int) -> At:
    return (at, node, PartAssume(TP, "leader", 1, epoch, 0, end, end, 0, 0))


def test_a_gap_beyond_the_period_is_unavailability(plan: Plan) -> None:
    """Shows that the gap from 4.96 s to 7.01 s counts less the period, that steady answers count nothing, and that who
    never got one was without for as long as the chaos lasted."""
    found = measured(plan, [*probes(1, 5), *probes(7, 11)])
    assert found["unavailable.latest-prober"] == pytest.approx(2.05 - 0.05)
    assert found["longest.latest-prober.orders-0"] == pytest.approx(2.0)
    assert found["unavailable.producer"] == pytest.approx(10 - 0.2)
    assert found["unavailable.consumer"] == pytest.approx(10 - 0.2)
    assert found["refused.latest-prober"] == 0.0


def test_small_delays_are_none(plan: Plan) -> None:
    """Shows that a gap within the grace counts nothing, and one at the end of the chaos does."""
    found = measured(plan, [*probes(1, 5), *probes(5.1, 10)])
    assert found["unavailable.latest-prober"] == pytest.approx(1.04 - 0.05)


def test_refusals_last_from_the_first_to_the_next_answer(plan: Plan) -> None:
    """Shows that other errors are no refusals, nor those of Produce, nor those after the chaos."""
    refused, other = KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.NOT_LEADER_OR_FOLLOWER
    errors: list[At] = [
        (at, "list-offsets-1", ErrorSeen(TP, api, 10, error, "broker-2"))
        for at, api, error in [
            (5.0, "ListOffsets", other),
            (5.1, "Produce", KafkaError.LEADER_NOT_AVAILABLE),
            (5.2, "ListOffsets", refused),
            (5.4, "ListOffsets", KafkaError.LEADER_NOT_AVAILABLE),
            (12.0, "ListOffsets", refused),
        ]
    ]
    found = measured(plan, [*probes(1, 5), *errors, *probe(1, 5.41, 6.2, 7), *probes(6.2, 11)])
    assert (found["refusals"], found["refused.latest-prober"], found["longest-refusal.latest-prober.orders-0"]) == (
        2.0,
        1.0,
        1.0,
    )


def test_answers_that_go_backwards(plan: Plan) -> None:
    """Shows that what had been told before counts, to whomever, and what was under way does not."""
    events = [*probe(1, 2.0, 2.1, 10), *probe(2, 2.05, 2.3, 4), *probe(3, 2.2, 2.4, 7, "list-offsets-9")]
    found = measured(plan, [*events, *probe(4, 2.5, 2.6, 10)])
    assert (found["backward.answers"], found["backward.depth"]) == (1.0, 3.0)
    assert found["latency.list-offsets.max"] == pytest.approx(250)


def test_latencies(plan: Plan) -> None:
    """Shows that a send lasts until its return, a read from the send to the first consumer that gets it, once, and
    what never returns until the run is over."""
    events = [*send("p:1", 2.0, 2.2), *send("p:2", 2.1, 2.2), *send("p:0", 0.5, 0.9)]
    polls: list[At] = [
        (at, "consumer-1", PollReturn(f"c/{at}", "ok", 0, TP, 0, 0, records=[Polled(1, 0, "p:1"), Polled(0, 0, "p:0")]))
        for at in (2.5, 3.0)
    ]
    open_send: At = (10.0, "producer-1", SendInvoke("p:3", TP, "p:3", -1))
    found = measured(plan, [*events, *polls, open_send])
    assert (found["latency.send.p50"], found["latency.send.max"]) == pytest.approx((200, 1000))
    assert (found["latency.read.p50"], found["latency.read.max"]) == pytest.approx((500, 500))
    assert (found["unreturned.send"], found["records.acked"]) == (1.0, 3.0)


def test_records_lost_and_duplicated(plan: Plan) -> None:
    """Shows that the log of the last leader decides, with what it cut off, lost with its disk, or had not kept; and
    that a record nobody acknowledged is not lost."""
    sends = [*send("p:1", 1.1, 1.2), *send("p:2", 1.1, 1.2), *send("p:3", 1.1, 1.2), *send("p:4", 1.1, 1.2, acks=0)]
    first = [append("broker-1", 0, ["p:1", "p:2"]), append("broker-1", 2, ["p:3"]), lead("broker-1", 3, 0, 3)]
    second = [append("broker-2", 0, ["p:1", "p:2"]), append("broker-2", 2, ["p:1"]), lead("broker-2", 4, 1, 3)]
    lost, duplicated = "records.lost", "records.duplicated"

    def of(*events: At) -> tuple[float, float]:
        found = measured(plan, [*sends, *events])
        return found[lost], found[duplicated]

    assert of(*first) == (0, 0)
    assert of(*first, *second) == (1, 1)
    assert of(*first, *second, (5, "broker-2", LogTrunc(TP, 3, 2, "diverge", 1))) == (1, 0)
    assert of(*first, (5, "broker-1", NodeDown("lossy", lost={TP: 2}))) == (1, 0)
    assert of(*first, lead("broker-1", 5, 1, 0)) == (3, 0)


def test_records_copied_twice(plan: Plan) -> None:
    """Shows that copies count by what they are copies of, in the log of the last leader, and that nobody else's records
    are copies."""
    copies = {"m:0": "p:1", "m:1": "p:2", "m:2": "p:1", "m:3": "p:1"}
    sends: list[At] = [(1.5, "consumer-1", SendInvoke(uid, TP, uid, -1, copy_of=of)) for uid, of in copies.items()]
    log = [append("broker-1", 0, ["p:7", *copies]), append("broker-2", 0, ["m:0"]), lead("broker-2", 3, 0, 1)]
    found = measured(plan, [*sends, *log, lead("broker-1", 4, 1, 5)])
    assert (found["records.copied"], found["records.copied-twice"]) == (2, 2)
    found = measured(plan, [*sends, *log])
    assert (found["records.copied"], found["records.copied-twice"]) == (1, 0)
    assert "records.copied" not in measured(plan, log)


def test_positions_reset_for_nothing_and_commits_that_go_back(plan: Plan) -> None:
    """Shows that a reset counts if the leader's log has the position, and one that was none before does not; and that
    commits are compared by group, with those that were taken."""

    def reset(at: float, old: int) -> At:
        return (at, "consumer-1", ConsPos(TP, old, 0, -1, "reset"))

    def commit(at: float, offset: int, group: str = "g", error: int = 0) -> At:
        member = ("m", 1, offset, -1, -1, error, 0)
        return (at, "broker-1", GrpCommit(TP, group, "__consumer_offsets-0", 0, *member))

    log = [append("broker-1", 0, ["p:1", "p:2"]), lead("broker-1", 3, 0, 2)]
    found = measured(plan, [*log, reset(4, 2), reset(5, 3), reset(6, -1)])
    assert found["resets.spurious"] == 1
    refused = commit(5.5, 8, error=KafkaError.INVALID_METADATA_EPOCH)
    found = measured(plan, [commit(4, 5), commit(5, 9), refused, commit(6, 8), commit(7, 3, "h"), commit(8, -1)])
    assert (found["commits.backward"], found["commits.refused"]) == (1, 1)


def test_what_went_over_the_network_and_who_was_elected(plan: Plan) -> None:
    """Shows that exchanges count by API and by error, elections by kind, and only while the chaos lasts."""

    def rpc(at: float, outcome: str, errors: list[int]) -> At:
        return (at, "producer-1", Rpc("Produce", 9, "broker-1", "c", 1, outcome, errors))  # type: ignore[arg-type]

    def change(at: float, leader: int, epoch: int, cause: str) -> At:
        return (at, "controller-1", PartChange(TP, 1, 1, leader, epoch, epoch, [1], [1, 2], cause))

    events = [rpc(0.5, "answered", []), rpc(2, "answered", [6, 6]), rpc(3, "timeout", []), change(0.5, 1, 0, "create")]
    changes = [change(2, -1, 1, "fence"), change(3, 2, 2, "unclean"), change(4, 2, 2, "alter-isr")]
    found = measured(plan, [*events, *changes, change(5, 1, 3, "preferred")])
    assert (found["rpcs"], found["rpcs.Produce"], found["errors.NOT_LEADER_OR_FOLLOWER"]) == (2, 2, 2)
    assert (found["errors.timeout"], found["elections.unclean"], found["elections.clean"]) == (1, 1, 1)


def test_fetches_that_bring_nothing_are_counted_apart(plan: Plan) -> None:
    """Shows that they count while the chaos lasts, each once, though the trace tells of some twice."""
    at = [(0.5, "consumer-1", RpcQuiet(50)), (2, "consumer-1", RpcQuiet(50)), (3, "consumer-1", RpcQuiet(50))]
    found = measured(plan, [*at, (3, "consumer-1", RpcQuiet(50, TP))])
    assert (found["rpcs.quiet"], found["rpcs"]) == (100, 0)


def test_who_asks_as_a_broker_is_not_watched(plan: Plan) -> None:
    """Shows that the unavailability of probers is that of list-offsets-1 alone; the other asks as broker-2."""
    assert measured(plan, probes(1, 11))["unavailable.latest-prober"] == 0.0


def role(at: float, controller: int, epoch: int, role: RoleName, leader: int) -> At:
    """A controller takes up a role."""
    return at, f"controller-{controller}", QRole("d", epoch, role, leader, 0)


def follow(at: float, epoch: int, leader: int, *followers: int) -> list[At]:
    """A controller leads and others follow it, from that time on."""
    others = [role(at, each, epoch, "follower", 100 + leader) for each in followers]
    return [role(at, leader, epoch, "leader", 100 + leader), *others]


@pytest.fixture(scope="module")
def quorum() -> Plan:
    """Three voters and a spare controller."""
    voters = SCENARIO.replace("voters: 1", "voters: 3, spare-controllers: 1")
    return resolve(load_text(voters + "features: {kraft.version: '1'}\n"))


def test_time_without_a_quorum_leader(quorum: Plan) -> None:
    """Shows that a leader counts while most of the voters know it as theirs, and a replaced one that leads on as a
    zombie."""
    found = measured(
        quorum,
        [
            *follow(0.5, 1, 1, 2, 3),
            role(3, 2, 2, "candidate", -1),
            role(3, 3, 2, "unattached", -1),
            *follow(5, 2, 2, 3),
            (6, "controller-1", NodeDown("crash")),
        ],
    )
    assert (found["leaderless.quorum"], found["longest-leaderless.quorum"]) == (2, 2)
    assert (found["zombie.quorum"], found["quorum.elections"], found["quorum.epochs"]) == (1, 1, 1)


def test_voters_come_and_go(quorum: Plan) -> None:
    """Shows that the voters in the leader's own log are those that count, and that one which was added may lead."""
    four = {str(100 + each): f"d{each}" for each in (1, 2, 3, 4)}
    changed: list[At] = [
        (2, f"controller-{each}", QVoters("d", 5, 1, 1, four, 6, 5, "append")) for each in (1, 2, 3, 4)
    ]
    found = measured(
        quorum,
        [
            *follow(0.5, 1, 1, 2, 3),
            *changed,
            role(3, 3, 2, "unattached", -1),  # two of four are left to the leader
            *follow(4, 2, 4, 2, 3),
        ],
    )
    assert (found["leaderless.quorum"], found["quorum.elections"]) == (1, 1)


def test_a_run_that_never_began_has_no_metrics(plan: Plan) -> None:
    """Shows that asking all the same is an error, and that a run cut short in its chaos has metrics."""
    with pytest.raises(ValueError, match="never reached its time 0"):
        RunMetrics(plan).metrics()
    metrics = RunMetrics(plan)
    metrics(Stamped("run", "driver", 0, 0, 1_000_000, 0, "", "", CtlPhase("chaos")))
    metrics(Stamped("run", "broker-1", 0, 0, 3_000_000, 0, "", "", NodeDown("end")))
    assert metrics.metrics()["unavailable.latest-prober"] == pytest.approx(2 - 0.05)


def test_names() -> None:
    """Shows how metrics are called, and in which order they stand."""
    assert title("latency.send.p99") == "latency: send, p99"
    assert title("refused.latest-prober") == "latest-prober refused, in all"
    assert title("longest.producer.orders-0") == "producer, orders-0 without answer, longest"
    assert [unit(name) for name in ("longest.producer", "latency.read.p50", "rpcs.Fetch")] == ["s", "ms", ""]
    names = ["errors.timeout", "findings.H1", "rpcs", "backward.answers"]
    assert sorted(names, key=rank) == ["findings.H1", "backward.answers", "rpcs", "errors.timeout"]
    detailed = [
        "unavailable.producer.orders-0",
        "refused.latest-prober.orders-0",
        "latency.send.p99",
        "unavailable.producer",
    ]
    assert [of_one_partition(name) for name in detailed] == [True, True, False, False]


def test_quantiles() -> None:
    """Shows the nearest rank."""
    assert [quantile([1, 2, 3, 4], share) for share in (0.0, 0.5, 0.51, 0.99, 1.0)] == [1, 2, 3, 4, 4]
