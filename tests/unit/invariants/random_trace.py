"""Random traces: well-formed events in a wild order, so that folds hold, excuse, violate and miss things."""

from __future__ import annotations

from random import Random
from typing import Any

from actors.node.spec import METADATA_PARTITION, node_name
from actors.trace.events import (
    NO_ENTRY,
    BrokerReg,
    CommitInvoke,
    CommitReturn,
    CommittedInvoke,
    CommittedReturn,
    ConfigChange,
    ConsOwn,
    ConsPos,
    CtlFault,
    CtlWindow,
    ErrorSeen,
    GrpCommit,
    GrpFetch,
    GrpGen,
    GrpLoad,
    GrpOut,
    LinkRuleChange,
    MetaImage,
    MetaMint,
    MetaView,
    MetaWait,
    PartAssume,
    ReplyPartition,
    Rpc,
    SendInvoke,
    Stamped,
)
from tests.unit.invariants.trace_builder import BROKERS, TP, TraceBuilder

VOTERS = ("controller-1", "controller-2", "controller-3")
UNCLEAN = "unclean.leader.election.enable"
CLIENTS = ("list-offsets-1", "producer-1", "consumer-1")


def random_trace(random: Random, length: int) -> list[Stamped]:
    """About ``length`` events of three voters, three brokers and three clients; some are taken out again."""
    trace = TraceBuilder(
        apart=random.choice([0, 1, 1000]),
        features={
            "kip-207": random.choice(["off", "seed", "kafka"]),
            "kip-595.own-epoch-commit": "kafka",
            "kip-232": random.choice(["seed", "kafka"]),
        },
        groups={"g": {"members": ["consumer-1"], "partitions": [TP]}},
    )
    moves = [_quorum, _metadata_log, _append, _log_changes, _elections, _answers, _list, _send, _poll, _life]
    moves += [_windows, _calls, _later, _coordinators, _members, _metadata_epochs]
    while len(trace.events) < length:
        if trace.events and random.random() < 0.3:
            trace.cause = random.choice(trace.events[-20:]).id
        random.choice(moves)(random, trace)
        trace.cause = ""
    if random.random() < 0.7:
        trace.end()
    for _ in range(random.choice([0, 0, 1, 3])):
        del trace.events[random.randrange(1, len(trace.events))]
    return trace.events


def _quorum(random: Random, trace: TraceBuilder) -> None:
    node, epoch, other = random.choice(VOTERS), random.randrange(4), random.choice([101, 102, 103])
    kind = random.randrange(3)
    if kind == 0:
        trace.persist(node, epoch, random.choice([-1, other]), random.choice([-1, other]))
    elif kind == 1:
        logs = [(random.randrange(3), random.randrange(9)) for _ in range(2)]
        trace.vote(node, epoch, other, random.random() < 0.7, random.random() < 0.3, *logs)
    else:
        trace.role(node, epoch, random.choice(["follower", "leader", "candidate"]), random.choice([-1, other]))


def _metadata_log(random: Random, trace: TraceBuilder) -> None:
    node, epoch = random.choice(VOTERS), random.randrange(4)
    trace.append(node, "m", epoch=epoch, tp=METADATA_PARTITION)
    end = trace.log_end(node, METADATA_PARTITION)
    if random.random() < 0.5:
        role = random.choice(["leader", "follower"])
        trace.high_watermark(node, random.randrange(end + 1), epoch, METADATA_PARTITION, role)
    elif random.random() < 0.2:
        trace.truncate(node, random.randrange(end + 1), METADATA_PARTITION)
    elif random.random() < 0.3:
        trace.flush(node, end)
    elif random.random() < 0.3:
        trace.apply(node, random.choice([0, max(end - 1, 0)]), end)
    else:
        told = random.choice([(-1, -1), (0, 1), (1, end)])
        trace.asked(node, random.choice([101, 102, 103]), random.randrange(end + 1), random.randrange(3), epoch, told)


OFFSETS = "__consumer_offsets-0"


def _entry(random: Random) -> list[int]:
    return [random.randrange(6), random.randrange(2), random.choice([-1, 1, 2])]


def _coordinators(random: Random, trace: TraceBuilder) -> None:
    broker, epoch, generation = f"broker-{random.choice(BROKERS)}", random.randrange(3), random.randrange(4)
    entry = _entry(random)
    kind = random.randrange(6)
    if kind == 0:
        state = random.choice(["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"])
        given = {"m1": [TP], "m2": random.choice([[], [TP]])} if state == "Stable" else {}
        members = {"m1": "consumer-1", "m2": "consumer-2"}
        trace.emit(broker, GrpGen(OFFSETS, "g", state, generation, epoch, members=members, assignment=given))
    elif kind == 1:
        error, at = random.choice([(0, random.randrange(5)), (232, -1)])
        member = random.choice(["m1", "m3"])
        trace.emit(broker, GrpCommit(TP, "g", OFFSETS, epoch, member, generation, *entry, error, at))
    elif kind == 2:
        told = {"g": {TP: entry}} if random.random() < 0.7 else {}
        loaded = random.random() < 0.8
        known = ({"g": {"m1": "consumer-1", "m2": "consumer-2"}}, {"g": {"m1": [TP], "m2": []}})
        trace.emit(broker, GrpLoad(OFFSETS, epoch, loaded, 0, told, {"g": ("Stable", generation)}, *known))
    elif kind == 3:
        trace.emit(broker, GrpFetch("g", OFFSETS, epoch, 0, {TP: entry}))
    elif kind == 4:
        why: Any = random.choice(["session", "join", "sync", "leave"])
        trace.emit(broker, GrpOut(OFFSETS, "g", epoch, "m1", "consumer-1", why, random.random() < 0.5))
    else:
        role = random.choice(["leader", "follower"])
        trace.emit(broker, PartAssume(OFFSETS, role, 1, epoch, epoch, 0, 0, 0, 1))


def _members(random: Random, trace: TraceBuilder) -> None:
    node, generation = random.choice(["consumer-1", "consumer-2"]), random.randrange(4)
    entry, op = _entry(random), f"commit {random.randrange(20)}"
    how: Any = random.choice(["auto", "sync"])
    kind = random.randrange(5)
    if kind == 0:
        trace.emit(node, CommitInvoke(op, "g", "m1", generation, {TP: entry}, how))
    elif kind == 1:
        errors = {TP: random.choice([0, 22])}
        trace.emit(node, CommitReturn(op, "ok", 0, "g", "m1", generation, {TP: entry}, how, errors))
    elif kind == 2:
        trace.emit(node, CommittedInvoke(op, "g", [TP]))
    elif kind == 3:
        trace.emit(node, CommittedReturn(op, "ok", 0, "g", [TP], {TP: random.choice([entry, NO_ENTRY])}))
    else:
        owned = random.choice([[], [TP]])
        reason: Any = random.choice(["assign", "revoke", "lost", "leave"])
        trace.emit(node, ConsOwn("g", "m1", generation, owned, revoked=[] if owned else [TP], reason=reason))
        if owned:
            trace.moved(node, random.randrange(4), random.choice(["committed", "reset", "assign"]), random.randrange(3))


def _metadata_epochs(random: Random, trace: TraceBuilder) -> None:
    epoch = random.randrange(1, 5)
    kind = random.randrange(3)
    if kind == 0:
        trace.emit(random.choice(VOTERS), MetaMint(epoch, random.randrange(3), random.randrange(2)))
    elif kind == 1:
        taken = random.random() < 0.7
        trace.emit("consumer-1", MetaView("broker-1", {}, [], metadata_epoch=epoch, metadata_accepted=taken))
    else:
        trace.emit("consumer-1", MetaWait(epoch, random.randrange(5), random.random() < 0.7))
        trace.emit("consumer-1", ConsPos(TP, -1, random.randrange(4), -1, "seek", metadata_epoch=epoch))


def _uids(random: Random, trace: TraceBuilder) -> list[str]:
    return [f"producer-1:{trace.operations + index}" for index in range(random.randrange(1, 4))]


def _append(random: Random, trace: TraceBuilder) -> None:
    trace.operations += 1
    how = {"epoch": random.randrange(3), "producer": 7, "sequence": random.choice([0, trace.log_end(1)])}
    trace.replicate(*_uids(random, trace), leader=random.choice(BROKERS), followers=random.sample(BROKERS, 2), **how)


def _log_changes(random: Random, trace: TraceBuilder) -> None:
    node, epoch = node_name(random.choice(BROKERS)), random.randrange(3)
    end = trace.log_end(node)
    if random.random() < 0.8:
        trace.high_watermark(node, random.randrange(end + 1), epoch, role=random.choice(["leader", "follower"]))
    else:
        trace.truncate(node, random.randrange(end + 1), reason=random.choice(["diverge", "recovery"]))


def _elections(random: Random, trace: TraceBuilder) -> None:
    broker, epoch = random.choice(BROKERS), random.randrange(4)
    if random.random() < 0.3:
        outcome = random.choice(["proposed", "proposed", "accepted", "INELIGIBLE_REPLICA"])
        at = (random.randrange(5), random.randrange(5))
        trace.propose(broker, random.sample(BROKERS, 2), epoch, epoch, *at, outcome, random.randrange(3))
        return
    if random.random() < 0.3:
        how = {"epoch": random.randrange(5, 9), "node": random.choice(VOTERS), "offset": random.randrange(50)}
        trace.registered(broker, fenced=random.random() < 0.3, **how)
        trace.fetched(broker, random.choice(BROKERS), random.randrange(9), epoch, follower_epoch=random.randrange(3))
        return
    if random.random() < 0.1:
        value = random.choice(["true", "false", None])
        change = ConfigChange(random.randrange(50), 1, random.choice(["topic/orders", "broker/"]), UNCLEAN, value)
        trace.emit(random.choice(VOTERS), change)
        return
    cause = random.choice(["elect", "elect", "alter-isr", "unclean"])
    how = {"elr": random.choice([[], [], [2]]), "offset": random.randrange(50), "node": random.choice(VOTERS)}
    quorum_epoch = random.choice([1, 1, 1, 2, 3])
    trace.change(broker, epoch, random.sample(BROKERS, 2), cause, random.randrange(9), quorum_epoch, **how)
    trace.assume(broker, epoch, random.randrange(4), random.choice([-1, -1, 1]))


def _answers(random: Random, trace: TraceBuilder) -> None:
    high_watermark = random.randrange(10)
    told = ReplyPartition(
        random.choice([TP, "orders-1"]),
        random.choice([0, 0, 5, 6, 78]),
        random.randrange(10),
        random.randrange(10),
        random.choice([-1, -2, 99]),
        random.randrange(4),
        high_watermark,
        random.randrange(-1, 10),
        20,
        random.randrange(4),
        1,
    )
    api = random.choice(["Produce", "ListOffsets"])
    answer = trace.reply(random.choice(BROKERS), api, told, random.choice([3, 11]), random.choice([-1, 2]), -1)
    errors = random.choice([[], [78], [74], [-1]])
    trace.emit("list-offsets-1", Rpc("ListOffsets", 3, "broker-1", "c", 1, "answered", errors))
    trace.cause = random.choice(["", answer])


def _list(random: Random, trace: TraceBuilder) -> None:
    op = trace.invoke("list-offsets-1", random.choice([-1, -1, -1, -2]))
    if random.random() < 0.5:
        _answers(random, trace)
    if random.random() < 0.9:
        trace.told("list-offsets-1", op, random.randrange(30), random.choice(BROKERS), random.randrange(-1, 4))


def _send(random: Random, trace: TraceBuilder) -> None:
    acks = random.choice([-1, -1, 1])
    uid = f"producer-1:{random.randrange(trace.operations + 1)}"
    if random.random() < 0.7:
        trace.sends("producer-1", uid, acks, random.choice([0, 0, 0, 7]))
    if random.random() < 0.1:
        trace.failed("producer-1", uid, outcome=random.choice(["fail", "unknown"]))
        return
    trace.req = random.choice(["", "c#1", "c#2"])
    trace.acked("producer-1", uid, random.randrange(12), random.choice(BROKERS), random.randrange(-1, 3), acks)
    trace.req = ""


def _poll(random: Random, trace: TraceBuilder) -> None:
    start = random.randrange(10)
    records = [(start + index, f"producer-1:{random.randrange(9)}") for index in range(random.randrange(4))]
    if random.random() < 0.2:
        del records[1:2]
    client = random.choice(["consumer-1", "consumer-2"])
    if random.random() < 0.3:
        trace.moved(client, start, random.choice(["assign", "reset"]))
    trace.polled(client, *records, broker=random.choice(BROKERS), epoch=random.randrange(-1, 3))


def _life(random: Random, trace: TraceBuilder) -> None:
    node = random.choice([*VOTERS, "broker-1", "broker-2"])
    if random.random() < 0.2:
        trace.down(node, random.choice(["crash", "bug", "clean"]))
    elif random.random() < 0.2:
        trace.down(node, "lossy", lost={TP: random.randrange(5), METADATA_PARTITION: random.randrange(5)})
    elif random.random() < 0.5:
        trace.up(node, "controller" if node in VOTERS else "broker", random.random() < 0.2)
    elif random.random() < 0.5:
        trace.emit(random.choice(CLIENTS), MetaView("broker-1", random.choice([{}, {}, {TP: 1}]), []))
    else:
        api, error = random.choice([("Produce", 6), ("ListOffsets", 78), ("ListOffsets", 78), ("ListOffsets", 6)])
        trace.emit(random.choice(CLIENTS), ErrorSeen(TP, api, 9, error, "broker-1"))


NODES = [*VOTERS, "broker-1", "broker-2", "broker-3", *CLIENTS]


def _windows(random: Random, trace: TraceBuilder) -> None:
    """Windows, faults and cuts, which every key hears of."""
    kind = random.randrange(4)
    if kind < 2:
        core = random.sample(NODES, random.randrange(5, len(NODES) + 1))
        trace.emit("driver", CtlWindow("w", "open" if random.random() < 0.7 else "close", core))
    elif kind == 2:
        trace.emit("driver", CtlFault("f1", "pause", random.choice(["start", "stop"]), [random.choice(NODES)], {}))
    else:
        sides = random.sample(["broker-1", "broker-2", "broker-3"], 2)
        trace.emit("driver", LinkRuleChange("f2/1", "hold", random.choice(["start", "stop"]), sides[:1], sides[1:], 0))


def _calls(random: Random, trace: TraceBuilder) -> None:
    """Calls of brokers, operations of clients, and what brokers know of the metadata log."""
    node, peer = random.sample(["broker-1", "broker-2", "broker-3"], 2)
    trace.req = f"{node}>{peer}:fetcher:0.{random.randrange(2)}#{random.randrange(50)}"
    outcome = random.choice(["answered", "answered", "answered", "disconnect", "timeout"])
    errors = random.choice([[], [6]])
    trace.emit(node, Rpc("Fetch", 17, peer, "fetcher", 1, outcome, errors, 1000, random.choice([1, 1000, 4000])))
    trace.req = ""
    trace.emit(node, MetaImage(random.randrange(9, 16), 0))
    trace.operations += 1
    trace.emit("producer-1", SendInvoke(f"send producer-1:{trace.operations}", TP, "", -1))
    trace.emit("controller-1", BrokerReg(random.choice(BROKERS), 1, "i", random.random() < 0.5, False, False, 9))
    trace.emit("consumer-1", ConsPos(TP, -1, random.randrange(5), 0, "assign"))


def _later(random: Random, trace: TraceBuilder) -> None:
    """Bounds go by."""
    if random.random() < 0.1:
        trace.wall += random.choice([1, 20, 200]) * 1_000_000
