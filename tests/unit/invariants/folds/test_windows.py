"""What must happen in the end, and the windows in which it is due: tests on hand-written traces."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import (
    BrokerReg,
    ConsPos,
    CtlFault,
    CtlWindow,
    IsrPropose,
    LinkRuleChange,
    MetaImage,
    NodeDown,
    NodeUp,
    PartChange,
    PartRemove,
    Rpc,
    RpcQuiet,
    RpcReply,
    RunRepeat,
    SendInvoke,
    SendReturn,
)
from orchestrator.invariants.folds.bounds import BOUNDS, bound_us, timers_of
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TP, TraceBuilder

SECOND = 1_000_000
VOTERS = ["controller-1", "controller-2", "controller-3"]
NODES = [*VOTERS, "broker-1", "broker-2", "broker-3", "producer-1", "consumer-1"]


class Run(TraceBuilder):
    """A trace with windows; ``past`` lets a bound go by, and one event more."""

    def window(self, without: tuple[str, ...] = ()) -> None:
        self.core = [name for name in NODES if name not in without]
        self.emit("driver", CtlWindow("w", "open", self.core))

    def close(self) -> None:
        self.emit("driver", CtlWindow("w", "close", self.core))

    def past(self, invariant: str, share: float = 1.0) -> None:
        self.wall += int(bound_us(Profile(), invariant) * share)
        self.emit("driver", CtlFault("f", "drop", "start", [], {"from": [], "to": [], "both_ways": False}))

    def status(self, invariant: str) -> tuple[str, int]:
        found = self.result(invariant)
        return found.status, found.tested

    def fenced(self, broker: int, fenced: bool, offset: int = 5) -> None:
        self.emit("controller-1", BrokerReg(broker, 1, "i", fenced, False, False, offset))

    def send(self, uid: str, acks: int = -1) -> str:
        op = f"send {uid}"
        self.emit("producer-1", SendInvoke(op, TP, uid, acks))
        return op

    def call(
        self, number: int = 0, dst: str = "broker-2", api: str = "Fetch", node: str = "broker-1", **how: object
    ) -> None:
        fields = {"outcome": "answered", "errors": [], "timeout_ms": 1000, "took_ms": 1, **how}
        self.req = f"{node}>{dst}:fetcher:0.0#{number}"
        self.emit(node, Rpc(api, 12, dst, "fetcher", number, **fields))  # type: ignore[arg-type]
        self.req = ""

    def insists(self, calls: int = 20, share: float = 1.0, first: int = 0, **how: Any) -> None:
        """So many calls over a share of L13's bound."""
        apart = int(bound_us(Profile(), "L13") * share / calls)
        for number in range(calls):
            self.call(first + number, **how)
            self.wall += apart


def test_a_bound_is_the_sum_of_the_timers_that_a_run_has() -> None:
    """Shows that the longest value of any node counts, that what must come before is part of it once, and the two
    seconds on top."""
    election = 2000 + 2000 + 4 * 1000 + 2 * 1000
    assert bound_us(Profile(), "L1") == (election + 2000) * 1000
    slow = Profile(config={"controller.quorum.fetch.timeout.ms": 3000}, nodes={"broker-1": {"config": {}}})
    assert bound_us(slow, "L1") - bound_us(Profile(), "L1") == SECOND
    own = Profile(nodes={"consumer-1": {"config": {"request.timeout.ms": 31000}}})
    assert bound_us(own, "L6") - bound_us(Profile(), "L6") == 2 * SECOND
    assert bound_us(own, "L5") == bound_us(Profile(), "L5"), "a consumer's timer is on no producer's path"
    assert [timer.key for timer in timers_of("L4")].count("controller.quorum.fetch.timeout.ms") == 2, "of L1 and of L3"
    assert all(timers_of(name) for name in BOUNDS if name != "P18")


def test_a_quorum_without_a_leader() -> None:
    """Shows a leader that is gone without another one, in a window that is long enough; one that comes in time; and a
    window that closes before, which says nothing."""
    run = Run()
    run.role("controller-1", 1, "leader", 101)
    run.role("controller-2", 1, "follower", 101)
    run.role("controller-3", 1, "follower", 101)
    run.window(without=("controller-1",))
    run.past("L1", 0.5)
    short = Run()
    short.events, short.wall, short.seqs = list(run.events), run.wall, dict(run.seqs)
    short.core = run.core
    short.close()
    run.past("L1")
    assert run.status("L1") == ("violated", 0)
    assert "controller-2 is follower in epoch 1" in run.result("L1").violations[0].sentence
    found = short.result("L1")
    assert (found.status, found.why.startswith("no stability window was long enough")) == ("vacuous", True)


def test_a_window_begins_when_what_was_slowed_down_has_come_through() -> None:
    """Shows that a bound counts from when the last message that a slow link has held up must have arrived."""
    for delay_us in (0, 3 * SECOND):
        run = Run()
        limits = {"from": ["controller-3"], "to": ["controller-2"], "both_ways": True, "delay_max_us": delay_us}
        for phase in ("start", "stop"):
            fault = CtlFault("f1", "delay", phase, ["controller-2"], limits)  # type: ignore[arg-type]  # a loop
            run.emit("driver", fault)
        run.role("controller-1", 1, "leader", 101)
        run.role("controller-2", 1, "follower", 101)
        run.role("controller-3", 1, "follower", 101)
        run.window(without=("controller-1",))
        run.past("L1")
        assert run.status("L1")[0] == ("vacuous" if delay_us else "violated")
        run.wall += 3 * SECOND
        run.emit("driver", CtlFault("f", "drop", "start", [], {}))
        assert run.status("L1")[0] == "violated"


def test_a_quorum_leader_in_time() -> None:
    """Shows that most of all voters must name it, and those of the core alone count."""
    run = Run()
    run.window(without=("controller-1",))
    run.role("controller-2", 2, "leader", 102)
    assert run.status("L1") == ("vacuous", 0)
    run.role("controller-3", 2, "follower", 102)
    assert run.status("L1") == ("held", 1)


def test_a_partition_without_its_leader() -> None:
    """Shows a leader that is not replaced; one that is; and a partition that cannot have one, which is excused."""
    run = Run()
    run.lead(1, 0)
    run.window(without=("broker-1",))
    run.past("L3")
    assert run.status("L3") == ("violated", 0)
    assert "broker-2, broker-3 could lead" in run.result("L3").violations[0].sentence
    other = Run()
    other.lead(1, 0)
    other.window(without=("broker-1",))
    other.change(2, 1, isr=(2, 3))
    other.assume(2, 1)
    other.past("L3")
    assert other.status("L3") == ("held", 1)
    alone = Run()
    alone.lead(1, 0, isr=(1,))
    alone.window(without=("broker-1",))
    alone.past("L3")
    found = alone.result("L3")
    assert (found.status, found.excused) == ("excused", {"isr-away": 1})


@pytest.mark.parametrize(("topic", "status"), [("orders", "violated"), ("__transaction_state", "excused")])
def test_where_replicas_outside_the_isr_may_lead(topic: str, status: str) -> None:
    """Shows that any replica may lead where unclean elections are allowed, but for the topic of transactions, which is
    made so that it never elects uncleanly."""
    run = Run(config={"unclean.leader.election.enable": True})
    run.change(1, 0, isr=(1,), tp=f"{topic}-0")
    run.window(without=("broker-1",))
    run.past("L3")
    assert run.result("L3").status == status


def test_a_change_that_was_lost_with_its_controller_counts_for_nothing() -> None:
    """Shows that a record which a later quorum leader lacks neither gives a partition its leader nor takes it."""
    run = Run()
    run.lead(1, 0)
    run.window()
    run.change(2, 1, quorum_epoch=1)
    run.role("controller-2", 2, "leader", 102, log_end=11)
    run.past("L3")
    assert run.status("L3")[0] == "held"


def test_a_replica_that_stays_out_of_the_isr() -> None:
    """Shows it violated, kept in time, and void while the leader is away."""
    run = Run()
    run.lead(1, 0, isr=(1, 2))
    run.window()
    run.past("L4")
    assert run.status("L4") == ("violated", 0)
    back = Run()
    back.lead(1, 0, isr=(1, 2))
    back.window()
    back.change(1, 0, partition_epoch=1)
    back.past("L4")
    assert back.status("L4") == ("held", 1)
    led_away = Run()
    led_away.lead(1, 0, isr=(1, 2))
    led_away.window(without=("broker-1",))
    led_away.past("L4")
    assert led_away.status("L4") == ("vacuous", 0)


@pytest.mark.parametrize(
    ("copied", "then", "status"),
    [((), 1.1, "violated"), ((1, 2), 0.9, "vacuous"), ((1, 2), 1.1, "violated"), ((1, 1, 1), 0.1, "violated")],
)
def test_a_replica_with_much_to_copy(copied: tuple[int, ...], then: float, status: str) -> None:
    """Shows that the bounds of L4 and L14 count from when a replica last had more than ever since it lacks something:
    none of it is violated while it gets on, and both are if it stands still, or copies the same again and again."""
    run = Run()
    run.lead(1, 0, isr=(1, 2))
    for uid in "abcd":
        run.replicate(uid, followers=(2,))
    run.high_watermark("broker-1", 4)
    run.acked("producer-1", "d", 3, broker=1, epoch=0)
    run.window()
    for end in copied:
        run.past("L4", 0.7)
        if run.log_end(3) >= end:
            run.truncate("broker-3", end - 1)
        run.append("broker-3", "abcd"[end - 1], role="follower")
    run.past("L4", then)
    assert (run.status("L4")[0], run.status("L14")[0]) == (status, status)


def test_a_send_that_stays_open() -> None:
    """Shows it violated; returned; given up without a word; and excused where too few replicas are in reach."""
    run = Run(topics={"orders": {"config": {"min.insync.replicas": 2}}})
    run.lead(1, 0)
    run.window()
    run.send("producer-1:1")
    run.past("L5")
    assert run.status("L5") == ("violated", 0)
    back = Run()
    back.lead(1, 0)
    back.window()
    back.send("producer-1:1")
    back.acked("producer-1", "producer-1:1", 0)
    assert back.status("L5") == ("held", 1)
    unknown = Run()
    unknown.lead(1, 0)
    unknown.window()
    op = unknown.send("producer-1:1")
    unknown.emit("producer-1", SendReturn(op, "unknown", 0, TP, "", 0))
    assert unknown.status("L5") == ("vacuous", 0)
    few = Run(topics={"orders": {"config": {"min.insync.replicas": 2}}})
    few.lead(1, 0)
    few.window(without=("broker-2", "broker-3"))
    few.send("producer-1:1")
    few.past("L5")
    assert few.result("L5").excused == {"isr-away": 1}


@pytest.mark.parametrize(("node", "status"), [("producer-1", "vacuous"), ("producer-2", "violated")])
def test_a_send_of_a_process_that_has_ended(node: str, status: str) -> None:
    """Shows that nobody waits for the sends of a process that has ended; those of others are judged."""
    run = Run()
    run.lead(1, 0)
    run.window()
    run.send("producer-1:1")
    run.down(node)
    run.past("L5")
    assert run.status("L5")[0] == status


@pytest.mark.parametrize(("sequence", "status"), [(1, "excused"), (0, "violated")])
def test_a_send_that_another_one_overtook(sequence: int, status: str) -> None:
    """Shows a send excused whose turn is over: its leader knew nothing of the producer, and took the next batch."""
    run = Run()
    run.lead(1, 0)
    run.window()
    run.send("producer-1:0")
    run.append("broker-1", "producer-1:1", producer=7, sequence=sequence)
    run.past("L5")
    assert run.result("L5").excused == ({"no-producer-state": 1} if status == "excused" else {})
    assert run.status("L5")[0] == status


@pytest.mark.parametrize(
    ("how", "status"), [("lost", "excused"), ("truncated", "excused"), ("kept", "violated"), ("elsewhere", "excused")]
)
def test_a_send_that_another_one_overtook_after_a_loss(how: str, status: str) -> None:
    """Shows that what counts is whether the log of the leader has something of the producer when it takes the next
    batch: not what it had before a power loss or a cut, and not what another log has."""
    run = Run()
    run.lead(1, 0)
    first = "broker-2" if how == "elsewhere" else "broker-1"
    run.append(first, "producer-1:0", producer=7, sequence=0, role="leader" if first == "broker-1" else "follower")
    if how == "lost":
        run.down("broker-1", "lossy", lost={TP: 0})
        run.logs[TP, "broker-1"] = run.logs[TP, "broker-1"][:1]
        run.up("broker-1")
    elif how == "truncated":
        run.truncate("broker-1", 0)
    run.lead(1, 1)
    run.window()
    run.send("producer-1:1")
    run.append("broker-1", "producer-1:2", producer=7, sequence=2, epoch=1)
    run.past("L5")
    assert run.status("L5")[0] == status


def test_a_consumer_that_does_not_read_on() -> None:
    """Shows it violated; kept; and not asked of one that is not in the core."""
    for without, read, expected in (
        ((), False, ("violated", 0)),
        ((), True, ("held", 1)),
        (("consumer-1",), False, ("vacuous", 0)),
    ):
        run = Run()
        run.lead(1, 0)
        run.append("broker-1", "a", "b")
        run.emit("consumer-1", ConsPos(TP, -1, 0, 0, "assign"))
        run.window(without)
        run.high_watermark("broker-1", 2)
        if read:
            run.polled("consumer-1", (0, "a"), (1, "b"))
        run.past("L6")
        assert run.status("L6") == expected


@pytest.mark.parametrize(("cause", "status"), [("unclean", "vacuous"), ("elect", "violated")])
def test_nobody_reads_what_an_unclean_election_gave_up_before(cause: str, status: str) -> None:
    """Shows that in a window that opens after an unclean election a consumer need not reach the high watermark of a
    former leader: what is left of that, the new one has to tell. After another election it must."""
    run = Run()
    run.lead(1, 0)
    run.append("broker-1", "a", "b")
    run.high_watermark("broker-1", 2)
    run.emit("consumer-1", ConsPos(TP, -1, 0, 0, "assign"))
    run.lead(2, 1, isr=(2,), cause=cause)
    run.window()
    run.past("L6")
    assert run.status("L6")[0] == status


@pytest.mark.parametrize(("later", "excused"), [(False, {}), (True, {"unclean-election": 1})])
def test_only_a_later_unclean_election_gives_up_what_a_consumer_is_to_read(
    later: bool, excused: dict[str, int]
) -> None:
    """Shows that a high watermark that went back is excused by an unclean election after the leader epoch whose high
    watermark the consumer was to reach, and by none before."""
    run = Run()
    run.lead(1, 1, isr=(1,), cause="unclean")
    run.append("broker-1", "a", "b", epoch=1)
    run.emit("consumer-1", ConsPos(TP, -1, 0, 0, "assign"))
    run.window()
    run.high_watermark("broker-1", 2, 1)
    run.append("broker-2", "a", epoch=1, role="follower")
    run.lead(2, 2, isr=(2,), cause="unclean" if later else "elect")
    run.high_watermark("broker-2", 1, 2)
    run.past("L6")
    assert run.result("L6").excused == excused


@pytest.mark.parametrize(
    ("silent", "crashed", "cut", "bounds", "known"),
    [
        (("broker-3",), (), (), 1, ""),
        (("broker-2", "broker-3"), (), (), 2, "finding-hung-brokers"),
        (("broker-2", "broker-3"), ("broker-2",), (), 1, ""),
        (("broker-2", "broker-3"), ("broker-2",), ("broker-2", "consumer-1"), 2, "finding-hung-brokers"),
        (("broker-2", "broker-3"), ("broker-2",), ("broker-2", "producer-1"), 1, ""),
    ],
)
def test_a_consumer_that_has_several_silent_brokers_to_try(
    silent: tuple[str, ...], crashed: tuple[str, ...], cut: tuple[str, ...], bounds: int, known: str
) -> None:
    """Shows that the bound has time for one broker that hangs, that a consumer may take so long for each, and that it
    is a finding about Kafka if it takes longer for several. Who is dead refuses at once, unless nothing gets there."""
    run = Run(topics={"orders": {"replicas": [[1, 2, 3]]}})
    run.lead(1, 0)
    run.high_watermark("broker-1", 1)
    run.polled("consumer-1", (0, "a"))
    if crashed:
        run.emit("driver", CtlFault("f1", "crash", "start", list(crashed), {}))
    if cut:
        sides = {"from": list(cut[:1]), "to": list(cut[1:]), "both_ways": False}
        run.emit("driver", CtlFault("f2", "partition", "start", list(cut), sides))
    run.window(without=silent)
    run.high_watermark("broker-1", 2)
    for number in range(1, bounds + 1):
        run.past("L6")
        assert run.status("L6")[0] == ("violated" if number == bounds else "vacuous")
    assert run.result("L6").violations[0].rule == known


@pytest.mark.parametrize(
    ("silent", "features", "known"),
    [
        (("broker-3",), {}, ""),
        (("broker-2", "broker-3"), {}, "finding-hung-brokers"),
        (("broker-2", "broker-3"), {"mend.hung-brokers": "setup-timeout"}, ""),
    ],
)
def test_a_producer_that_does_not_find_its_leader_for_brokers_that_hang(
    silent: tuple[str, ...], features: dict[str, str], known: str
) -> None:
    """Shows that it is a finding about Kafka if a send does not return while several brokers hang, and nothing of the
    kind for one, or with the mend."""
    run = Run(topics={"orders": {"replicas": [[1, 2, 3]]}}, features=features)
    run.lead(1, 0, isr=(1,))
    run.window(without=silent)
    run.send("producer-1:1")
    run.past("L5")
    [violation] = run.result("L5").violations
    assert violation.rule == known
    assert violation.sentence.endswith(
        "its ISR is broker-1, led by broker-1" + (", while broker-2, broker-3 hang" if len(silent) > 1 else "")
    )


@pytest.mark.parametrize(
    ("propagation", "kind", "sides", "excused"),
    [
        ("push", "reorder", ("controller-1", "broker-1"), True),
        ("push", "delay", ("broker-1", "controller-1"), True),
        ("push", "delay", ("broker-1", "broker-2"), False),
        ("push", "partition", ("controller-1", "broker-1"), False),
        ("log", "reorder", ("controller-1", "broker-1"), False),
    ],
)
def test_a_push_that_comes_late_may_hide_the_leader(
    propagation: str, kind: str, sides: tuple[str, str], excused: bool
) -> None:
    """Shows that a send or a read which does not get to the leader is excused where a broker may have taken an older
    UpdateMetadata for the newest, and nowhere else."""
    run = Run(config={"metadata.propagation": propagation})
    run.lead(1, 0)
    run.high_watermark("broker-1", 1)
    run.polled("consumer-1", (0, "a"))
    parameters = {"from": [sides[0]], "to": [sides[1]], "both_ways": False, "delay_min_us": 0, "delay_max_us": 1}
    run.emit("driver", CtlFault("f1", kind, "start", list(sides), parameters))
    run.emit("driver", CtlFault("f1", kind, "stop", list(sides), parameters))
    run.window()
    run.high_watermark("broker-1", 2)
    run.send("producer-1:1")
    run.past("L5")
    run.past("L6")
    for name in ("L5", "L6"):
        result = run.result(name)
        assert (result.violated, result.excused) == ((0, {"late-push": 1}) if excused else (1, {}))


def test_an_operation_returns_before_its_time_out_unless_its_client_was_stopped() -> None:
    """Shows a send beyond delivery.timeout.ms; one of a client that a fault stopped; and a client that is gone."""
    run = Run()
    run.send("producer-1:1")
    run.wall += 125 * SECOND
    run.polled("producer-1")
    assert run.status("L7") == ("violated", 0)
    stopped = Run()
    op = stopped.send("producer-1:1")
    stopped.emit("driver", CtlFault("f1", "pause", "start", ["producer-1"], {}))
    stopped.wall += 125 * SECOND
    stopped.emit("driver", CtlFault("f1", "pause", "stop", ["producer-1"], {}))
    stopped.emit("producer-1", SendReturn(op, "unknown", 0, TP, "", 0))
    assert stopped.status("L7") == ("held", 1)
    gone = Run()
    gone.send("producer-1:1")
    gone.down("producer-1")
    gone.wall += 125 * SECOND
    gone.polled("producer-1")
    assert gone.status("L7") == ("vacuous", 0)


def test_a_broker_that_stays_fenced() -> None:
    """Shows it violated, kept, and started anew by a restart."""
    run = Run()
    run.window()
    run.up("broker-1")
    run.fenced(1, True)
    run.past("L12")
    assert run.status("L12") == ("violated", 0)
    back = Run()
    back.window()
    back.up("broker-1")
    back.fenced(1, True)
    back.fenced(1, False)
    assert back.status("L12") == ("held", 1)
    back.up("broker-1")
    back.past("L12")
    assert back.status("L12") == ("violated", 1)


def test_what_was_acknowledged_gets_to_all() -> None:
    """Shows a replica that never gets it; one that does; and what an unclean election gave up, which is excused."""
    run = Run()
    run.lead(1, 0)
    run.window()
    run.append("broker-1", "a")
    run.append("broker-2", "a", role="follower")
    run.acked("producer-1", "a", 0)
    behind, at = len(run.events), run.wall
    run.past("L14")
    assert run.status("L14") == ("violated", 0)
    assert "broker-3 did not get" in run.result("L14").violations[0].sentence
    del run.events[behind:]
    run.wall = at
    run.append("broker-3", "a", role="follower")
    assert run.status("L14") == ("held", 1)
    lost = Run()
    lost.lead(1, 0)
    lost.append("broker-1", "a")
    lost.acked("producer-1", "a", 0)
    lost.change(2, 1, isr=(2,), cause="unclean")
    lost.assume(2, 1)
    lost.window(without=("broker-1",))
    lost.past("L14")
    assert lost.result("L14").excused == {"unclean-election": 1}


def test_a_replica_that_does_not_learn_of_the_commit() -> None:
    """Shows a replica that has all and whose high watermark stays behind its leader's: violated; kept where it follows;
    and kept where the leader itself does not know more."""
    for leader_knows, follower_knows, status in ((1, 0, "violated"), (1, 1, "held"), (0, 0, "held")):
        run = Run()
        run.lead(1, 0)
        run.window()
        for broker in (1, 2, 3):
            run.append(f"broker-{broker}", "a", role="leader" if broker == 1 else "follower")
        if leader_knows:
            run.high_watermark("broker-1", 1)
        run.acked("producer-1", "a", 0)
        run.high_watermark("broker-2", leader_knows, role="follower")
        run.high_watermark("broker-3", follower_knows, role="follower")
        run.past("L14")
        assert run.status("L14")[0] == status
        if status == "violated":
            assert (
                run.result("L14")
                .violations[0]
                .sentence.startswith(
                    "broker-3 did not learn of the commit of the acknowledged records of orders-0 below 1 within "
                )
            )


@pytest.mark.parametrize(("loses", "excused"), [(0, {"loss-budget": 1}), (1, {})])
def test_what_a_disk_lost_gets_nowhere(loses: int, excused: dict[str, int]) -> None:
    """Shows that a leader whose disk lost what was acknowledged cannot hand it on, and that one which still has it
    must."""
    run = Run()
    run.lead(1, 0, isr=(1,))
    run.append("broker-1", "a")
    run.acked("producer-1", "a", 0)
    run.down("broker-1", "lossy", lost={TP: loses})
    run.logs[TP, "broker-1"] = run.logs[TP, "broker-1"][: loses + 1]
    run.up("broker-1")
    run.lead(1, 1, isr=(1,))
    run.window()
    run.past("L14")
    result = run.result("L14")
    assert (result.excused, result.violated) == (excused, 0 if excused else 1)


def test_a_new_leader_that_does_not_catch_up() -> None:
    """Shows it violated; kept; and excused while a member of the ISR is away."""
    for without, moves, expected in (
        ((), False, ("violated", {})),
        ((), True, ("held", {})),
        (("broker-3",), False, ("excused", {"isr-away": 1})),
    ):
        run = Run()
        run.append("broker-2", "a", "b")
        run.window(without)
        run.change(2, 1)
        run.assume(2, 1)
        if moves:
            run.high_watermark("broker-2", 2, epoch=1)
        run.past("H3")
        found = run.result("H3")
        assert (found.status, found.excused) == expected


def test_a_high_watermark_that_stands_still() -> None:
    """Shows that a fetch of the last member must move it; that an ISR which is too small, or a replica that fetched
    lately, holds it back; and that a shrunk ISR must move it, too."""
    run = Run()
    run.lead(1, 0, isr=(1, 2))
    run.emit("broker-1", MetaImage(11, 0))
    run.window()
    run.append("broker-1", "a")
    run.fetched(1, 2, 1)
    run.past("P18")
    assert run.status("P18") == ("violated", 0)
    run.high_watermark("broker-1", 1)
    lately = Run()
    lately.lead(1, 0, isr=(1, 2))
    lately.emit("broker-1", MetaImage(11, 0))
    lately.window()
    lately.append("broker-1", "a")
    lately.fetched(1, 3, 0)
    lately.fetched(1, 2, 1)
    lately.past("P18")
    assert lately.status("P18") == ("vacuous", 0)
    shrunk = Run()
    shrunk.lead(1, 0, isr=(1, 2))
    shrunk.window()
    shrunk.append("broker-1", "a")
    shrunk.emit("broker-1", IsrPropose(TP, 1, 0, 0, [1], {"1": 7}, 0, 0, "accepted"))
    stood, at = len(shrunk.events), shrunk.wall
    shrunk.past("P18")
    assert shrunk.status("P18") == ("violated", 0)
    del shrunk.events[stood:]
    shrunk.wall = at
    shrunk.high_watermark("broker-1", 1)
    assert shrunk.status("P18") == ("held", 1)
    again = Run()
    again.lead(1, 0, isr=(1, 2))
    again.emit("broker-1", MetaImage(11, 0))
    again.window()
    again.append("broker-1", "a")
    again.incarnations["broker-1"] = 1
    again.emit("broker-1", NodeUp("broker", 1, "d", False, False))
    again.fetched(1, 2, 1)
    again.past("P18")
    assert again.status("P18") == ("vacuous", 0), "who starts again leads when it says so, not before"
    small = Run(topics={"orders": {"config": {"min.insync.replicas": 2}}})
    small.lead(1, 0, isr=(1,))
    small.emit("broker-1", MetaImage(11, 0))
    small.window()
    small.append("broker-1", "a")
    small.past("P18")
    assert small.status("P18") == ("vacuous", 0)


def test_calls_end_by_their_time_out() -> None:
    """Shows a call that ended late; one of a node that was stopped meanwhile; one that nobody answered though both were
    well; one outside a window; and calls that never ended."""
    run = Run()
    run.window()
    run.wall = 5 * SECOND
    run.call(took_ms=4000)
    assert run.status("X2") == ("violated", 1)
    stopped = Run()
    stopped.emit("driver", CtlFault("f1", "pause", "start", ["broker-1"], {}))
    stopped.wall += 4 * SECOND
    stopped.emit("driver", CtlFault("f1", "pause", "stop", ["broker-1"], {}))
    stopped.call(took_ms=4001)
    assert stopped.status("X2") == ("held", 1)
    silent = Run()
    silent.window()
    silent.wall += 2 * SECOND
    silent.call(took_ms=1000, outcome="timeout")
    assert "broker-2 did not answer the Fetch of broker-1" in silent.result("X2").violations[0].sentence
    slow = Run()
    slow.emit("driver", CtlFault("f1", "slow-disk", "stop", ["broker-2"], {"delay_max_us": 3 * SECOND}))
    slow.window()
    slow.wall += 2 * SECOND
    slow.call(took_ms=1000, outcome="timeout")
    assert slow.status("X2") == ("held", 1), "what broker-2 wrote before is not on its disk yet"
    slow.wall += 4 * SECOND
    slow.call(took_ms=1000, outcome="timeout")
    assert slow.status("X2")[0] == "violated"
    two = Run()
    for delay_s in (3, 1):
        two.emit("driver", CtlFault("f1", "slow-disk", "stop", ["broker-2"], {"delay_max_us": delay_s * SECOND}))
    two.window()
    two.wall += 2_500_000
    two.call(took_ms=1000, outcome="timeout")
    assert two.status("X2") == ("held", 1), "of two faults on a disk the slower one counts"
    for kind in ("delay", "reorder"):
        for sources, targets, answered in ((["broker-2"], ["broker-1"], 0), (["broker-2"], ["broker-3"], 1)):
            late = Run()
            limits = {"from": sources, "to": targets, "both_ways": False, "delay_max_us": 2 * SECOND}
            late.emit("driver", CtlFault("f1", kind, "start", [*sources, *targets], limits))
            late.emit("driver", CtlFault("f2", kind, "start", [*sources, *targets], {**limits, "delay_max_us": SECOND}))
            late.emit("driver", CtlFault("f2", kind, "stop", [*sources, *targets], {**limits, "delay_max_us": SECOND}))
            late.emit("driver", CtlFault("f1", kind, "stop", [*sources, *targets], limits))
            late.window()
            late.wall += 3_500_000
            late.call(took_ms=1000, outcome="timeout")
            expected = "violated" if answered else "held"
            assert late.status("X2")[0] == expected, "what broker-2 sent under both comes first, and so does its end"
            late.wall += 2 * SECOND
            late.call(took_ms=1000, outcome="timeout")
            assert late.status("X2")[0] == "violated"
    for api in ("BrokerRegistration", "BrokerHeartbeat"):
        waits = Run()
        waits.window()
        waits.wall += 2 * SECOND
        waits.call(took_ms=1000, outcome="timeout", api=api)
        assert waits.status("X2") == ("held", 1), "the quorum may take that long until it commits"
        waits.past("L1")
        waits.call(took_ms=1000, outcome="timeout", api=api)
        assert waits.status("X2")[0] == "violated"
    away = Run()
    away.window(without=("broker-2",))
    away.wall += 2 * SECOND
    away.call(took_ms=1000, outcome="timeout")
    assert away.status("X2") == ("held", 1)
    ended = Run()
    ended.wall += 10 * SECOND
    ended.emit("broker-1", NodeDown("end", overdue=["broker-1>broker-2:fetcher:0.0#7"]))
    assert ended.status("X2")[0] == "violated"


def test_retries_that_get_nowhere() -> None:
    """Shows a node that does nothing but fail for the whole bound; one that gets somewhere; and a few failures."""
    for calls, useful, expected in ((20, False, "violated"), (20, True, "held"), (5, False, "vacuous")):
        run = Run()
        run.window()
        run.insists(calls, 0.9, errors=[6])
        if useful:
            run.append("broker-1", "a")
        run.past("L13", 0.2)
        assert run.status("L13")[0] == expected


@pytest.mark.parametrize(("share", "status"), [(0.4, "vacuous"), (0.8, "violated")])
def test_who_gives_up_is_in_no_livelock(share: float, status: str) -> None:
    """Shows that a node that failed often and then stopped asking does not fail for long, as a member that was fenced
    (FENCED_INSTANCE_ID)."""
    run = Run()
    run.window()
    run.insists(share=share, errors=[82], api="JoinGroup")
    run.past("L13", 0.7)
    assert run.status("L13")[0] == status


@pytest.mark.parametrize(("unwelcome", "status"), [(["broker-1"], "excused"), ([], "violated")])
def test_who_has_no_place_in_its_group_may_ask_again(unwelcome: list[str], status: str) -> None:
    """Shows that L13 excuses a member that its coordinator may turn away, and no other one."""
    run = Run(unwelcome=unwelcome)
    run.window()
    run.insists(share=0.9, errors=[KafkaError.GROUP_MAX_SIZE_REACHED], api="JoinGroup")
    run.past("L13", 0.2)
    assert run.status("L13")[0] == status


@pytest.mark.parametrize("error", [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, 45])
def test_a_finding_reads_alike_in_both_engines(error: int) -> None:
    """Shows that an error of an answer is told by its name, whether it comes from the node itself or from a file."""
    run = Run()
    run.window()
    run.insists(errors=[error])
    run.past("L13", 0.1)
    (finding,) = run.result("L13").violations
    assert finding.sentence.endswith("the last was Fetch to broker-2 (answered, OUT_OF_ORDER_SEQUENCE_NUMBER)")


@pytest.mark.parametrize(("api", "status"), [("FindCoordinator", "violated"), ("Heartbeat", "held")])
def test_to_learn_whom_to_ask_is_no_progress(api: str, status: str) -> None:
    """Shows that a member which learns again and again who coordinates its group, and gets nothing there, gets
    nowhere; an answer of the coordinator itself is progress."""
    run = Run()
    run.window()
    for number in range(20):
        run.insists(1, 0.05, number, errors=[16], api="JoinGroup")
        run.call(number, api=api)
    run.past("L13", 0.1)
    assert run.status("L13")[0] == status


@pytest.mark.parametrize(
    ("stored", "how", "status"),
    [
        (True, {"api": "ListOffsets", "outcome": "timeout"}, "excused"),
        (True, {"api": "ListOffsets", "errors": [-1]}, "excused"),
        (True, {"api": "ListOffsets", "errors": [6]}, "violated"),
        (True, {"api": "Fetch", "errors": [-1]}, "violated"),
        (False, {"api": "ListOffsets", "outcome": "timeout"}, "violated"),
    ],
)
def test_look_ups_without_the_remote_store(stored: bool, how: dict[str, Any], status: str) -> None:
    """Shows that look-ups may fail for as long as the remote store is away, if there is one, and nothing else may."""
    run = Run(config={"remote.log.storage.system.enable": stored})
    run.window()
    run.insists(**how)
    run.past("L13", 0.1)
    assert run.status("L13")[0] == status


@pytest.mark.parametrize(
    ("propagation", "node", "held_up", "status"),
    [
        ("push", "consumer-1", True, "excused"),
        ("push", "consumer-1", False, "violated"),
        ("log", "consumer-1", True, "violated"),
        ("push", "broker-2", True, "violated"),
    ],
)
def test_metadata_that_was_pushed_may_be_old_for_ever(propagation: str, node: str, held_up: bool, status: str) -> None:
    """Shows that a client is excused which asks whom a broker wrongly says to lead, as an UpdateMetadata may have come
    late; a broker, which follows the metadata log, is not."""
    run = Run(config={"metadata.propagation": propagation})
    if held_up:
        parameters = {"from": ["controller-1"], "to": ["broker-3"], "both_ways": False, "delay_max_us": 1}
        run.emit("driver", CtlFault("f1", "delay", "start", ["controller-1", "broker-3"], parameters))
        run.emit("driver", CtlFault("f1", "delay", "stop", ["controller-1", "broker-3"], parameters))
    run.window()
    run.insists(node=node, errors=[75], api="ListOffsets")
    run.past("L13", 0.1)
    assert run.status("L13")[0] == status


@pytest.mark.parametrize(
    ("api", "error", "silent", "excused"),
    [
        ("Fetch", 6, ("broker-2",), {}),
        ("Fetch", 6, ("broker-2", "broker-3"), {"silent-nodes": 1}),
        ("Produce", 45, (), {"no-producer-state": 1}),
        ("Produce", KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, (), {"no-producer-state": 1}),
        ("Produce", 6, (), {}),
        ("Fetch", 45, (), {}),
    ],
)
def test_retries_that_are_no_wonder(api: str, error: int, silent: tuple[str, ...], excused: dict[str, int]) -> None:
    """Shows that who waits for several silent nodes is excused, and who is told that its batches are out of order."""
    run = Run()
    run.window(without=silent)
    for number in range(20):
        run.insists(1, 0.05, number, dst=f"broker-{2 + number % 2}", errors=[error], api=api)
    run.past("L13", 0.1)
    assert (run.result("L13").excused, run.result("L13").violated) == (excused, 0 if excused else 1)


@pytest.mark.parametrize(
    ("topic", "error", "excused"),
    [
        ("__transaction_state", KafkaError.CONCURRENT_TRANSACTIONS, {"lost-decisions": 1}),
        ("__transaction_state", KafkaError.NOT_COORDINATOR, {}),
        ("__consumer_offsets", KafkaError.CONCURRENT_TRANSACTIONS, {}),
        ("", KafkaError.CONCURRENT_TRANSACTIONS, {}),
    ],
)
@pytest.mark.parametrize("unclean", [True, False])
def test_a_transaction_log_that_lost_records(unclean: bool, topic: str, error: int, excused: dict[str, int]) -> None:
    """Shows that a producer may be told for ever that another transaction goes on, once the transaction log has lost
    records, whose coordinator may have taken up again what is long over."""
    run = Run()
    if topic and unclean:
        run.change(2, 1, isr=(2,), cause="unclean", tp=f"{topic}-0")
    elif topic:
        run.down("broker-3", "lossy", lost={f"{topic}-0": 1})
        run.up("broker-3")
    run.window()
    run.insists(node="producer-1", errors=[error], api="EndTxn")
    run.past("L13", 0.1)
    assert (run.result("L13").excused, run.result("L13").violated) == (excused, 0 if excused else 1)


@pytest.mark.parametrize(
    ("lost", "transactional", "status"),
    [(True, ["consumer-1"], "excused"), (False, ["consumer-1"], "violated"), (True, [], "violated")],
)
def test_who_waits_for_a_transaction_polls_no_more(lost: bool, transactional: list[str], status: str) -> None:
    """Shows that a consumer need not read on if it sends in transactions, and the transaction log lost records."""
    run = Run(transactional=transactional)
    run.lead(1, 0)
    run.append("broker-1", "a", "b")
    run.emit("consumer-1", ConsPos(TP, -1, 0, 0, "assign"))
    if lost:
        run.down("broker-3", "lossy", lost={"__transaction_state-0": 1})
        run.up("broker-3")
    run.window()
    run.high_watermark("broker-1", 2)
    run.past("L6")
    assert run.status("L6")[0] == status


@pytest.mark.parametrize("error", [3, 100, 6])
@pytest.mark.parametrize("removed", [True, False])
def test_there_is_nothing_to_get_of_a_topic_that_was_removed(removed: bool, error: int) -> None:
    """Shows that only who is told that there is no such topic is excused, and only where that is so."""
    run = Run()
    run.window()
    if removed:
        run.emit("controller-1", PartRemove(TP, 30, 1, "of-the-first"))
    run.call(errors=[6])
    run.insists(19, first=1, errors=[error])
    run.past("L13", 0.1)
    excused = {"removed-topic": 1} if removed and error != 6 else {}
    assert (run.result("L13").excused, run.result("L13").violated) == (excused, 0 if excused else 1)


@pytest.mark.parametrize(("share", "violated"), [(0.5, 0), (1.0, 1)])
def test_a_topic_that_is_made_anew_is_to_be_got_at(share: float, violated: int) -> None:
    """Shows that the bound begins anew with the second topic, and that the removal excuses nothing from then on."""
    run = Run()
    run.window()
    run.emit("controller-1", PartRemove(TP, 30, 1, "of-the-first"))
    run.insists(share=0.8, errors=[3])
    run.emit("controller-1", PartChange(f"{TP}@of-the-second", 40, 1, 1, 0, 0, [1, 2, 3], [1, 2, 3], "create"))
    run.insists(share=share, first=20, errors=[3])
    run.past("L13", 0.1)
    assert (run.result("L13").excused, run.result("L13").violated) == ({}, violated)


@pytest.mark.parametrize(("requests", "useful", "status"), [(600, 10, "violated"), (600, 200, "held"), (90, 0, "held")])
def test_storms(requests: int, useful: int, status: str) -> None:
    """Shows how many requests a second what comes of them justifies, in a whole second of a window."""
    run = Run(apart=1000)
    run.window()
    run.wall = 2 * SECOND
    for number in range(requests):
        run.call(number)
        run.wall -= 999 if number % 4 else 0
    for number in range(useful):
        run.append("broker-1", f"{number}")
        run.wall -= 999
    run.wall = 4 * SECOND
    run.call(requests)
    assert run.status("X10")[0] == status


def test_fetches_that_bring_nothing_count_too() -> None:
    """Shows a storm of Fetches that are answered with nothing, of which the trace has the number alone."""
    for told, status in ((3, "violated"), (2, "held")):
        run = Run(apart=1000)
        run.window()
        run.wall = 2 * SECOND
        for _ in range(told):
            run.emit("consumer-1", RpcQuiet(50))
        run.wall = 4 * SECOND
        run.emit("consumer-1", RpcQuiet(50))
        assert run.status("X10")[0] == status


def test_many_calls_that_end_together_after_a_long_time_are_no_storm() -> None:
    """Shows that requests count where they were sent: those that a broker hung with for 30 s all time out at once."""
    run = Run(apart=1000)
    run.window()
    run.wall = 2 * SECOND
    for number in range(600):
        run.call(number, took_ms=30_000, outcome="timeout")
        run.wall -= 999
    run.wall = 4 * SECOND
    run.call(600)
    assert run.status("X10") == ("vacuous", 0)


def test_what_physics_forbid() -> None:
    """Shows an answer that is taken twice, one on a closed connection, a request answered twice, and a deed of the
    dead."""
    run = Run()
    run.call(1)
    run.call(2)
    assert run.status("X5") == ("held", 2)
    run.call(2)
    assert "received the answer to request 2" in run.result("X5").violations[0].sentence
    closed = Run()
    closed.call(1, outcome="timeout")
    closed.call(2)
    assert "which had already been closed" in closed.result("X5").violations[0].sentence
    served = Run()
    for _ in range(2):
        served.emit("broker-1", RpcReply("Produce", 9, "producer-1", "c", 4, -1, 0, -1, []))
    assert "answered call 4 of c twice" in served.result("X5").violations[0].sentence
    dead = Run()
    dead.down("broker-1")
    dead.call(1)
    assert "recorded an event after its end" in dead.result("X5").violations[0].sentence


def test_what_crosses_a_cut() -> None:
    """Shows that what was sent before the cut may arrive in it, and what was sent in it may not; after it all may."""
    run = Run()
    run.call(1, dst="broker-3")
    before = run.events[-1].id
    run.emit("driver", LinkRuleChange("f1/1", "hold", "start", ["broker-1"], ["broker-2"], 0))
    run.call(2, dst="broker-3")
    within = run.events[-1].id

    def acts(cause: str) -> None:
        run.cause = cause
        run.emit("broker-2", RpcReply("Produce", 9, "broker-1", "c", run.wall, -1, 0, -1, []))
        run.cause = ""

    acts(before)
    assert run.status("X5")[0] == "held"
    crossed = len(run.events)
    acts(within)
    found = run.result("X5").violations[0]
    assert f"broker-2 acted on message {within} of broker-1, sent while a fault was to hold" in found.sentence
    del run.events[crossed:]
    run.emit("driver", LinkRuleChange("f1/1", "hold", "stop", ["broker-1"], ["broker-2"], 1))
    acts(within)
    assert run.status("X5")[0] == "held"


def test_a_cut_ends_with_the_process_that_enforces_it() -> None:
    """Shows that a live node which is killed within a cut, and comes back after it, may act on what was sent meanwhile:
    nobody could say that the cut was over."""
    for comes_back, status in ((False, "violated"), (True, "held")):
        run = Run()
        run.emit("broker-2", LinkRuleChange("f1/1", "hold", "start", ["broker-1"], ["broker-2"], 0))
        run.call(1, dst="broker-3")
        sent = run.events[-1].id
        if comes_back:
            run.down("broker-2")
            run.up("broker-2")
        run.cause = sent
        run.emit("broker-2", RpcReply("Produce", 9, "broker-1", "c", 1, -1, 0, -1, []))
        run.cause = ""
        assert run.status("X5")[0] == status


def test_a_run_that_was_repeated() -> None:
    """Shows two digests compared."""
    for second, expected in (("a", ("held", 1)), ("b", ("violated", 1))):
        run = Run()
        run.emit("driver", RunRepeat("a", second))
        assert run.status("X8") == expected
