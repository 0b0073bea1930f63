"""What a run cost its clients and its network: measures taken from the trace while a run goes on, to compare runs by.

Everything is measured over the chaos, from time 0 to the end of the scenario's duration, which is equally long in every
run of a scenario; only what became of records, and answers that went backwards, are looked for over the whole run.

* A client is *unavailable* at a partition while an answer that it should have had is overdue. A producer, a consumer
  and a prober have a period in which success follows success when nothing is wrong (``period_us``). A gap between two
  successes, or between one and either end of the chaos, that is longer than the period by more than ``GRACE_US``
  counts with all that exceeds the period. A producer's success is a record acknowledged, a consumer's a record got (so
  a consumer is unavailable, too, while nobody can produce), a prober's an offset told.
* The same of the consumers alone that read committed records: they wait for transactions to end, too.
* A prober is *refused* from the first answer OFFSET_NOT_AVAILABLE or LEADER_NOT_AVAILABLE to its next success.
* The *latency* of a send or a probe is the time from its begin to its return, retries included, and of a read that
  from a record's send to the moment when a consumer first has it. What never returned counts up to the end of the run.
* A record is *lost* if its send was acknowledged (acks 1 or all) and it is not in the log of the partition's last
  leader when the run is over; *duplicated* if it is there more than once.
* A record is *copied twice* for each copy of it, in the log of the last leader of where a mirror copies to, that is one
  more than needed.
* A consumer's position is *reset for nothing* if it is given up, as out of range, while the log of the partition's
  leader has it. A commit *goes back* if a coordinator appends a lower position for a partition than the group had.
* What remote storage costs, see ``orchestrator.remote_metrics``.
* A *backward answer* is a latest offset told to a client that is lower than one that had been told, to anybody, before
  the client asked: whatever the reason, excused ones included.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from actors.node.errors import KafkaError, error_name
from actors.node.list_timestamps import LATEST
from actors.node.messages import Api
from actors.node.spec import NodeSpec, split_topic_partition, topic_partition
from actors.trace.events import (
    OP_RETURNS,
    ConsPos,
    CtlPhase,
    ErrorSeen,
    GrpCommit,
    ListInvoke,
    ListReturn,
    LogAppend,
    LogStart,
    LogTrunc,
    NodeDown,
    OpReturn,
    PartAssume,
    PartChange,
    PollReturn,
    Rpc,
    RpcQuiet,
    SendInvoke,
    SendReturn,
    Stamped,
    TraceEvent,
)
from chaos.plan import Plan
from orchestrator.quantiles import QUANTILES, quantile
from orchestrator.quorum_metrics import QuorumMetrics
from orchestrator.remote_metrics import RemoteMetrics
from orchestrator.transaction_metrics import TransactionMetrics

GRACE_US = 100_000
REFUSALS = frozenset({KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.LEADER_NOT_AVAILABLE})
PROBE = "list-offsets"
PROBER = "-prober"
COMMITTED = "read_committed"
PRODUCERS = ("producer", "transactional-producer")
TIMESTAMPS = {
    -1: "latest",
    -2: "earliest",
    -3: "max-timestamp",
    -4: "earliest-local",
    -5: "latest-tiered",
    -6: "earliest-pending-upload",
}
"""What probers are called by, besides "timestamp": what they ask for is refused or not for reasons of its own."""

Metrics = dict[str, float]
"""Name -> value; ``title`` says what a name means, ``unit`` in which unit the value is."""


class Watch(msgspec.Struct):
    """One client at one partition. Times in microseconds; ``last_us``: of its last success, -1 before the chaos;
    ``refused_us`` is -1 unless it has met nothing but refusals since then. ``committed``: it is a consumer that reads
    committed records alone."""

    kind: str
    tp: str
    period_us: int
    committed: bool = False
    last_us: int = -1
    refused_since_us: int = -1
    unavailable_us: int = 0
    longest_us: int = 0
    refused_us: int = 0
    longest_refusal_us: int = 0

    def succeed(self, now_us: int) -> None:
        """An answer came, or the chaos ended."""
        excess = now_us - self.last_us - self.period_us
        if excess > GRACE_US:
            self.unavailable_us += excess
            self.longest_us = max(self.longest_us, excess)
        if self.refused_since_us >= 0:
            refused = now_us - self.refused_since_us
            self.refused_us += refused
            self.longest_refusal_us = max(self.longest_refusal_us, refused)
        self.last_us, self.refused_since_us = now_us, -1


class Replica(msgspec.Struct):
    """The records of a log: of each batch its base offset, the offset after it, and the uids."""

    bases: list[int] = []
    batches: list[tuple[int, int, list[str]]] = []

    def append(self, body: LogAppend) -> None:
        self.bases.append(body.base)
        self.batches.append((body.base, body.last + 1, body.uids))

    def cut(self, to: int) -> None:
        """Nothing at ``to`` and above is left; a batch goes as a whole."""
        if self.batches and self.batches[-1][1] > to:
            keep = bisect_left(self.bases, to)
            if keep and self.batches[keep - 1][1] > to:
                keep -= 1
            del self.bases[keep:], self.batches[keep:]


class RunMetrics:
    """Observes one run (``orchestrator.sim_run.Observer``); ask it for ``metrics`` when the run is over."""

    def __init__(self, plan: Plan) -> None:
        self._watches = _watches(plan)
        self._start_us = self._end_us = -1
        self._now_us = 0
        self._begun: dict[str, tuple[str, int]] = {}
        self._sent: dict[str, int] = {}
        self._latencies: dict[str, list[int]] = {"send": [], PROBE: [], "read": []}
        self._read: set[tuple[str, str]] = set()
        self._counts: Counter[str] = Counter()
        self._acknowledged: dict[str, list[str]] = {}
        self._replicas: dict[tuple[str, str], Replica] = {}
        self._leaders: dict[str, tuple[int, str]] = {}
        self._changes: dict[str, int] = {}
        self._told: dict[tuple[str, int], int] = {}
        self._floors: dict[str, int] = {}
        self._depth = 0
        self._copies: dict[str, str] = {}
        self._starts: dict[str, int] = {}
        self._committed: dict[tuple[str, str], int] = {}
        self._by_type: dict[type[TraceEvent], Callable[[Stamped, Any], None]] = {
            CtlPhase: self._phase,
            Rpc: self._rpc,
            RpcQuiet: self._quiet,
            ErrorSeen: self._error,
            SendInvoke: self._send,
            ListInvoke: self._list,
            **dict.fromkeys(OP_RETURNS, self._return),
            LogAppend: self._append,
            LogTrunc: self._truncate,
            LogStart: self._start,
            ConsPos: self._moved,
            GrpCommit: self._commit,
            NodeDown: self._down,
            PartAssume: self._assume,
            PartChange: self._change,
        }
        self._quorum = QuorumMetrics(plan)
        self._transactions = TransactionMetrics()
        self._remote = RemoteMetrics(plan)

    def __call__(self, event: Stamped) -> None:
        take = self._by_type.get(type(event.body))
        self._now_us = event.wall
        if self._end_us < 0 and type(event.body) in QuorumMetrics.types:
            self._quorum.take(event, event.body)
        if take is not None:
            take(event, event.body)
        of_transactions = self._transactions.by_type.get(type(event.body))
        if of_transactions is not None:
            of_transactions(event, event.body)
        of_remote = self._remote.by_type.get(type(event.body)) if self._measuring else None
        if of_remote is not None:
            of_remote(event, event.body)

    @property
    def _measuring(self) -> bool:
        """Whether the chaos goes on."""
        return self._start_us >= 0 and self._end_us < 0

    def _phase(self, event: Stamped, body: CtlPhase) -> None:
        if body.phase == "chaos":
            self._start_us = event.wall
            self._quorum.begin(event.wall)
            for watch in self._watches.values():
                watch.last_us = event.wall
        elif self._measuring:
            self._end_us = event.wall
            self._quorum.until(event.wall)
            self._remote.until(event.wall)
            for watch in self._watches.values():
                watch.succeed(event.wall)

    # ---- what goes over the network ----------------------------------------------------------------------

    def _rpc(self, event: Stamped, body: Rpc) -> None:
        if self._measuring:
            self._counts["rpcs"] += 1
            self._counts[f"rpcs.{body.api}"] += 1
            if body.outcome != "answered":
                self._counts[f"errors.{body.outcome}"] += 1
            for code in body.errors:
                self._counts[f"errors.{error_name(code)}"] += 1

    def _quiet(self, event: Stamped, body: RpcQuiet) -> None:
        if self._measuring and not body.beyond:
            self._counts["rpcs.quiet"] += body.count

    def _error(self, event: Stamped, body: ErrorSeen) -> None:
        if body.api == Api.ListOffsets.name and body.error in REFUSALS and self._measuring:
            watch = self._watches.get((event.node, body.tp))
            if watch is not None and watch.refused_since_us < 0:
                watch.refused_since_us = event.wall
            self._counts["refusals"] += watch is not None

    # ---- clients -----------------------------------------------------------------------------------------

    def _send(self, event: Stamped, body: SendInvoke) -> None:
        self._sent[body.uid] = event.wall
        if isinstance(body.copy_of, str):
            self._copies[body.uid] = body.copy_of
        if self._measuring:
            self._begun[body.op] = ("send", event.wall)

    def _list(self, event: Stamped, body: ListInvoke) -> None:
        if self._measuring:
            self._begun[body.op] = (PROBE, event.wall)
        if body.timestamp == LATEST and body.replica_id < 0:
            self._floors[body.op] = self._told.get((body.tp, body.isolation), -1)

    def _return(self, event: Stamped, body: OpReturn) -> None:
        begun = self._begun.pop(body.op, None)
        if begun is not None:
            self._latencies[begun[0]].append(event.wall - begun[1])
        if type(body) is SendReturn:
            self._counts[f"records.{'acked' if body.outcome == 'ok' else body.outcome}"] += 1
            if body.outcome == "ok" and body.acks:
                self._acknowledged.setdefault(body.tp, []).append(body.uid)
        elif type(body) is ListReturn:
            self._told_latest(body)
        elif type(body) is PollReturn:
            self._polled(event, body)
        if body.outcome == "ok" and (type(body) is not PollReturn or body.records) and self._measuring:
            watch = self._watches.get((event.node, event.tp))
            if watch is not None:
                watch.succeed(event.wall)

    def _polled(self, event: Stamped, body: PollReturn) -> None:
        for record in body.records:
            sent_us = self._sent.get(record.uid, -1)
            if (event.node, record.uid) not in self._read and 0 <= self._start_us <= sent_us:
                self._read.add((event.node, record.uid))
                if self._end_us < 0 or sent_us < self._end_us:
                    self._latencies["read"].append(event.wall - sent_us)

    def _told_latest(self, body: ListReturn) -> None:
        floor = self._floors.pop(body.op, None)
        if floor is None or body.outcome != "ok" or body.offset < 0:
            return
        if body.offset < floor:
            self._counts["backward.answers"] += 1
            self._depth = max(self._depth, floor - body.offset)
        key = (body.tp, body.isolation)
        self._told[key] = max(self._told.get(key, -1), body.offset)

    def _moved(self, _: Stamped, body: ConsPos) -> None:
        if body.reason == "reset" and body.old >= 0:
            batches = self._replica(self._leaders.get(body.tp, (-1, ""))[1], body.tp).batches
            there = self._starts.get(body.tp, 0) <= body.old <= (batches[-1][1] if batches else 0)
            self._counts["resets.spurious"] += there

    def _commit(self, _: Stamped, body: GrpCommit) -> None:
        if not body.error:
            before = self._committed.get((body.group, body.tp), -1)
            self._counts["commits.backward"] += 0 <= body.offset < before
            self._committed[body.group, body.tp] = body.offset
        else:
            self._counts["commits.refused"] += body.error == KafkaError.INVALID_METADATA_EPOCH

    # ---- logs and leaders --------------------------------------------------------------------------------

    def _append(self, event: Stamped, body: LogAppend) -> None:
        if body.uids:
            self._replica(event.node, body.tp).append(body)

    def _truncate(self, event: Stamped, body: LogTrunc) -> None:
        self._replica(event.node, body.tp).cut(body.to)

    def _start(self, _: Stamped, body: LogStart) -> None:
        self._starts[body.tp] = max(body.new, self._starts.get(body.tp, 0))

    def _down(self, event: Stamped, body: NodeDown) -> None:
        for tp, first in body.lost.items():
            self._replica(event.node, tp).cut(first)

    def _assume(self, event: Stamped, body: PartAssume) -> None:
        self._replica(event.node, body.tp).cut(body.log_end)  # what a killed process recorded last it may not have kept
        if body.role == "leader" and body.leader_epoch >= self._leaders.get(body.tp, (-1, ""))[0]:
            self._leaders[body.tp] = (body.leader_epoch, event.node)

    def _change(self, event: Stamped, body: PartChange) -> None:
        if self._measuring and body.leader >= 0 and body.leader_epoch > self._changes.get(body.tp, -1):
            self._counts["elections.unclean" if body.cause == "unclean" else "elections.clean"] += 1
        self._changes[body.tp] = max(body.leader_epoch, self._changes.get(body.tp, -1))

    def _replica(self, node: str, tp: str) -> Replica:
        return self._replicas.setdefault((node, tp), Replica())

    # ---- when all is over --------------------------------------------------------------------------------

    def metrics(self) -> Metrics:
        """The measures of a run that is over. Raises ValueError if its chaos never began."""
        if self._start_us < 0:
            raise ValueError("the run never reached its time 0: there is nothing to measure")
        if self._end_us < 0:
            self._phase(Stamped("", "", 0, 0, self._now_us, 0, "", "", CtlPhase("healing")), CtlPhase("healing"))
        found: Metrics = {name: float(number) for name, number in sorted(self._counts.items())}
        for name in ALWAYS:
            found.setdefault(name, 0.0)
        found["backward.depth"] = float(self._depth)
        found |= self._quorum.metrics() | self._remote.metrics()
        return found | self._availability() | self._latency() | self._records()

    def _availability(self) -> Metrics:
        """Per kind of client, and per kind and partition: mean over clients of the whole time, and the longest."""
        found: Metrics = {}
        groups: dict[str, list[Watch]] = {}
        for watch in self._watches.values():
            groups.setdefault(watch.kind, []).append(watch)
            groups.setdefault(f"{watch.kind}.{watch.tp}", []).append(watch)
            if watch.committed:
                groups.setdefault(f"{COMMITTED}-{watch.kind}", []).append(watch)
        for name, some in groups.items():
            found[f"unavailable.{name}"] = sum(each.unavailable_us for each in some) / len(some) / 1e6
            found[f"longest.{name}"] = max(each.longest_us for each in some) / 1e6
            if some[0].kind.endswith(PROBER):
                found[f"refused.{name}"] = sum(each.refused_us for each in some) / len(some) / 1e6
                found[f"longest-refusal.{name}"] = max(each.longest_refusal_us for each in some) / 1e6
        return found

    def _latency(self) -> Metrics:
        found: Metrics = {}
        for kind, _ in self._begun.values():
            found[f"unreturned.{kind}"] = found.get(f"unreturned.{kind}", 0.0) + 1
        for kind, began_us in self._begun.values():
            self._latencies[kind].append(self._now_us - began_us)
        for kind, some in self._latencies.items():
            if some:
                some.sort()
                found |= {f"latency.{kind}.{name}": quantile(some, share) / 1000 for name, share in QUANTILES.items()}
        return found

    def _records(self) -> Metrics:
        lost = duplicated = 0
        kept = {tp: self._kept(tp) for tp in {*self._acknowledged, *self._leaders}}
        for tp, acknowledged in self._acknowledged.items():
            lost += sum(uid not in kept[tp] for uid in acknowledged)
            duplicated += sum(number - 1 for number in kept[tp].values())
        found = {"records.lost": float(lost), "records.duplicated": float(duplicated)}
        leaders = {tp: node for tp, (_, node) in self._leaders.items()}
        found |= self._transactions.metrics(leaders, lambda tp: kept.get(tp, Counter()).keys())
        return found | (self._copied() if self._copies else {})

    def _kept(self, tp: str) -> Counter[str]:
        """Uids in the log of a partition's last leader, and how often each is there."""
        log = self._replicas.get((self._leaders.get(tp, (-1, ""))[1], tp), Replica())
        return Counter(uid for _, _, uids in log.batches for uid in uids)

    def _copied(self) -> Metrics:
        copies: Counter[tuple[str, str]] = Counter()
        for tp, (_, leader) in self._leaders.items():
            topic, _ = split_topic_partition(tp)
            for _, _, uids in self._replica(leader, tp).batches:
                copies.update((topic, self._copies[uid]) for uid in uids if uid in self._copies)
        twice = copies.total() - len(copies)
        return {"records.copied": float(len(copies)), "records.copied-twice": float(twice)}


ALWAYS = ("rpcs", "refusals", "backward.answers", "elections.clean", "elections.unclean", "records.acked")
"""Measured as 0 where nothing of the kind was seen."""


def _watches(plan: Plan) -> dict[tuple[str, str], Watch]:
    """Who is watched: clients with a period, at each of their partitions, and not those that ask as brokers."""
    producing = _producing(plan)
    watches: dict[tuple[str, str], Watch] = {}
    for client in plan.clients:
        for tp in _partitions(client):
            kind, period_us = str(client.role), 0
            if client.role in PRODUCERS:
                kind, period_us = "producer", _period_us(client)
            elif client.role == "consumer":
                period_us = producing.get(tp, 0)
            elif "group" in client.workload:
                continue  # which partitions it should have something of its group says
            elif client.workload.get("replica_id", -1) < 0:
                kind = TIMESTAMPS.get(client.workload["timestamp"], "timestamp") + PROBER
                period_us = client.workload["every_ms"] * 1000
            if period_us:
                committed = client.config.get("isolation.level") == COMMITTED
                watches[client.name, tp] = Watch(kind, tp, period_us, committed)
    return watches


def _producing(plan: Plan) -> dict[str, int]:
    """Partition -> the shortest period of those who produce to it."""
    found: dict[str, int] = {}
    for client in plan.clients:
        period_us = _period_us(client) if client.role in PRODUCERS else 0
        for tp in _partitions(client) if period_us else ():
            found[tp] = min(period_us, found.get(tp, period_us))
    return found


def _period_us(producer: NodeSpec) -> int:
    """How far apart acknowledgements of a partition are at most: records go round robin and wait linger.ms for company.
    0 if it sends nothing."""
    rate: float = producer.workload["rate"]
    if not rate:
        return 0
    return round(1e6 / rate * len(producer.workload["partitions"])) + 1000 * int(producer.config["linger.ms"])


def _partitions(client: NodeSpec) -> list[str]:
    return [topic_partition(client.workload["topic"], number) for number in client.workload["partitions"]]


# ---- names for people ------------------------------------------------------------------------------------

_TITLES = {
    "backward.answers": "reported latest offsets that are lower than before",
    "backward.depth": "... by how many records, at most",
    "refusals": "refusals of ListOffsets to probers",
    "records.acked": "records acknowledged",
    "records.fail": "records whose send failed for good",
    "records.unknown": "records whose send has no known outcome",
    "records.lost": "records acknowledged and lost",
    "records.duplicated": "records duplicated",
    "records.cut-open": "records of open transactions cut off at an unclean election",
    "records.cut-of-others": "records of others cut off with them",
    "records.cut-internal": "records of internal topics cut off at an unclean election",
    "transactions.committed": "transactions committed",
    "transactions.dangling": "transactions that nobody ends",
    "transactions.halved": "committed transactions of which a part is left",
    "transactions.halved-in-log": "logs that have a part of a committed transaction",
    "transactions.lost": "committed transactions of which nothing is left",
    "records.copied": "records copied",
    "records.copied-twice": "records copied twice",
    "resets.spurious": "positions reset for no reason",
    "commits.backward": "commits that go back",
    "commits.refused": "commits refused for their metadata epoch",
    "leaderless.quorum": "quorum without a leader, in all",
    "leaderless.quorum.healed": "... after the last fault",
    "longest-leaderless.quorum": "... longest",
    "zombie.quorum": "a replaced quorum leader still leads",
    "quorum.elections": "leaders of the quorum elected",
    "quorum.epochs": "quorum epochs used up",
    "elections.clean": "leaders elected cleanly",
    "elections.unclean": "leaders elected uncleanly",
    "expired.lookups": "look-ups in remote storage that expired",
    "rejected.reads": "reads from remote storage that were rejected",
    "rpcs": "RPCs",
    "rpcs.quiet": "RPCs: empty Fetches, in seconds with 50 or more of one client",
}
_FAMILIES = {
    "unavailable": "{} without answer, in all",
    "longest": "{} without answer, longest",
    "refused": "{} refused, in all",
    "longest-refusal": "{} refused, longest",
    "latency": "latency: {}",
    "request": "requests: {}",
    "request-queue": "request queue time: {}",
    "timeouts": "requests without an answer in time: {}",
    "task-queue": "task queue of {}, longest",
    "idle": "threads of {} that are idle, in per cent",
    "unreturned": "operations that never returned: {}",
    "rpcs": "RPCs: {}",
    "errors": "errors: {}",
    "findings": "violations of {} found in a run",
    "excused": "excused findings of {} in a run",
}
_SECONDS = ("unavailable", "longest", "refused", "longest-refusal", "leaderless", "longest-leaderless", "zombie")
ORDER = (
    *("findings", "excused", "backward", "refusals", "refused", "longest-refusal", "unavailable", "longest"),
    *("leaderless", "longest-leaderless", "zombie", "quorum"),
    *("timeouts", "request", "request-queue", "expired", "rejected", "task-queue", "idle"),
    *("transactions", "resets", "commits", "latency", "unreturned", "records", "elections", "rpcs", "errors"),
)
"""Families in the order in which they are shown."""


def title(name: str) -> str:
    """What a metric is, in words: ``latency.send.p99`` -> ``latency: send, p99``."""
    if name in _TITLES:
        return _TITLES[name]
    family, _, rest = name.partition(".")
    return _FAMILIES[family].format(rest.replace(".", ", "))


def unit(name: str) -> Literal["", "s", "ms"]:
    """``s``, ``ms``, or "" for a number of things."""
    family = name.partition(".")[0]
    return "ms" if family in ("latency", "request", "request-queue") else "s" if family in _SECONDS else ""


def of_one_partition(name: str) -> bool:
    """Whether a metric is about one partition, and another one sums up over all of them."""
    return name not in _TITLES and name.partition(".")[0] in _SECONDS and name.count(".") > 1


def rank(name: str) -> tuple[int, str]:
    """Sorts names by family."""
    return ORDER.index(name.partition(".")[0]), name
