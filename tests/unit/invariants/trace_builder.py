"""Hand-written traces: one call per event, in the order of the trace, with Kafka's verbs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from actors.node.spec import METADATA_PARTITION, node_name
from actors.trace.events import (
    AnyTraceEvent,
    BrokerReg,
    ConsPos,
    CtlWindow,
    IsrPropose,
    ListInvoke,
    ListReturn,
    LogAppend,
    LogFlush,
    LogHw,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    Polled,
    PollReturn,
    QApply,
    QPersist,
    QRole,
    QVote,
    RepFetch,
    ReplyPartition,
    RepTruncate,
    RpcReply,
    RunEnd,
    RunMeta,
    SendInvoke,
    SendReturn,
    Stamped,
)
from orchestrator.engines.in_process import check
from orchestrator.invariants.folds.conclusion import InvariantResult

TP = "orders-0"
BROKERS = (1, 2, 3)
VOTERS = (101, 102, 103)


class TraceBuilder:
    """Collects events. Each comes ``apart`` microseconds after the one before; sequence numbers count by themselves.

    The methods return the id of the event (the last one, where they make several).
    """

    def __init__(self, apart: int = 1000, **profile: Any) -> None:
        self.events: list[Stamped] = []
        self.apart = apart
        self.wall = 0
        self.logical = 0
        self.cause = ""
        self.req = ""
        self.seqs: dict[tuple[str, int], int] = {}
        self.incarnations: dict[str, int] = {}
        self.logs: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self.operations = 0
        features = {"kip-207": "kafka", "kip-595.own-epoch-commit": "kafka", "kip-595.leader-progress": "kafka"}
        settings = {"voters": list(VOTERS), "features": {**features, "kip-996": "kafka"}, **profile}
        self.emit("driver", RunMeta("s", "v", "sim", 1, [], settings))

    # ---- events as such ----------------------------------------------------------------------------------

    def emit(self, node: str, body: AnyTraceEvent) -> str:
        """Any event."""
        self.wall += self.apart
        if not self.apart:
            self.logical += 1
        incarnation = self.incarnations.get(node, 0)
        seq = self.seqs.get((node, incarnation), -1) + 1
        self.seqs[node, incarnation] = seq
        self.events.append(Stamped("run", node, incarnation, seq, self.wall, self.logical, self.cause, self.req, body))
        return self.events[-1].id

    def live(self, runtime: Any = "live") -> None:
        """It is a run of real processes."""
        meta = self.events[0].body
        assert isinstance(meta, RunMeta)
        body = replace(meta, runtime=runtime)
        self.events[0] = replace(self.events[0], body=body)

    def end(self) -> TraceBuilder:
        """``run.end`` with what was written."""
        final = {f"{node}/{incarnation}": seq for (node, incarnation), seq in self.seqs.items() if node != "driver"}
        self.emit("driver", RunEnd(final))
        return self

    def up(self, node: str, role: str = "broker", wiped: bool = False, directory: str = "") -> str:
        """An incarnation begins; not the first, if the node has recorded before."""
        if (node, self.incarnations.get(node, 0)) in self.seqs:
            self.incarnations[node] = self.incarnations.get(node, 0) + 1
        return self.emit(node, NodeUp(role, 1, directory or f"dir-{node}", wiped, False))

    def down(
        self, node: str, mode: Literal["clean", "crash", "lossy", "fatal", "bug", "end"] = "crash", **fields: Any
    ) -> str:
        """An incarnation ends."""
        return self.emit(node, NodeDown(mode, **fields))

    def check(self, only: Collection[str] | None = None) -> dict[str, InvariantResult]:
        """The results by id. Without ``only`` the trace is ended first."""
        return {result.id: result for result in check(self.events, only)}

    def result(self, invariant: str) -> InvariantResult:
        """The result of one invariant."""
        return self.check([invariant])[invariant]

    # ---- quorum ------------------------------------------------------------------------------------------

    def persist(self, node: str, epoch: int, leader: int = -1, voted: int = -1) -> str:
        """quorum-state became durable."""
        return self.emit(node, QPersist(f"dir-{node}", epoch, leader, voted))

    def vote(
        self,
        node: str,
        epoch: int,
        candidate: int,
        granted: bool = True,
        pre: bool = False,
        asks: tuple[int, int] = (0, 0),
        has: tuple[int, int] = (0, 0),
        directory: str = "",
        wanted: int = -1,
    ) -> str:
        """A vote was decided; ``asks``, ``has``: (last epoch, end) of the candidate's and of the voter's log.
        ``directory``: the candidate's, by default that of its id; ``wanted``: the epoch that it asked for."""
        of = directory or f"dir-{node_name(candidate)}"
        asked = epoch if wanted < 0 else wanted
        return self.emit(node, QVote(f"dir-{node}", epoch, candidate, granted, pre, *asks, *has, of, asked))

    def role(self, node: str, epoch: int, role: Any, leader: int = -1, log_end: int = 0, directory: str = "") -> str:
        """A quorum role was taken up."""
        return self.emit(node, QRole(directory or f"dir-{node}", epoch, role, leader, log_end))

    def flush(self, node: str, end: int) -> str:
        """A member's metadata log is on its disk up to ``end``."""
        return self.emit(node, LogFlush(METADATA_PARTITION, end))

    def apply(self, node: str, start: int, end: int, ph: int | None = None) -> str:
        """A state machine was handed [start, end) of the metadata log, by default that of its own node."""
        own = dict(self.logs.get((METADATA_PARTITION, node), [(0, 0)]))
        return self.emit(node, QApply(start, end, own.get(end, 0) if ph is None else ph))

    def asked(
        self, leader: str, follower: int, offset: int, last_epoch: int, epoch: int, told: tuple[int, int] = (-1, -1)
    ) -> str:
        """A quorum leader counted a fetch, and told that the logs part where ``told`` says."""
        return self.emit(leader, RepFetch(METADATA_PARTITION, follower, epoch, epoch, -1, offset, last_epoch, *told))

    def window(self, phase: Literal["open", "close"], *core: str) -> str:
        """A stability window."""
        return self.emit("driver", CtlWindow("w", phase, list(core)))

    # ---- logs --------------------------------------------------------------------------------------------

    def append(
        self,
        node: str,
        *uids: str,
        epoch: int = 0,
        tp: str = TP,
        role: Literal["leader", "follower"] = "leader",
        producer: int = -1,
        sequence: int = -1,
        salt: int = 0,
        producer_epoch: int = 0,
        hole: int = 0,
        size: int = 0,
    ) -> str:
        """A batch at the end of a replica's log, or ``hole`` offsets behind it. Its prefix hash follows from the log
        below, epoch, uids, ``salt``."""
        log = self.logs.setdefault((tp, node), [(0, 0)])
        base, below = log[-1]
        base += hole
        ph = hash_of(below, epoch, uids, salt)
        log.append((base + len(uids), ph))
        body = LogAppend(
            tp,
            role,
            base,
            base + len(uids) - 1,
            epoch,
            epoch,
            producer,
            producer_epoch,
            sequence,
            False,
            list(uids),
            ph=ph,
            size=size,
        )
        return self.emit(node, body)

    def replicate(self, *uids: str, leader: int = 1, followers: Collection[int] = (2, 3), **how: Any) -> None:
        """The same batch on a leader and then on followers, which fetch once more to say so."""
        self.append(node_name(leader), *uids, **how)
        for follower in followers:
            how_too = {**how, "role": "follower"}
            self.append(node_name(follower), *uids, **how_too)
            self.fetched(leader, follower, self.log_end(follower), epoch=how.get("epoch", 0))

    def log_end(self, broker: int | str, tp: str = TP) -> int:
        """LEO as built so far."""
        node = broker if isinstance(broker, str) else node_name(broker)
        return self.logs.get((tp, node), [(0, 0)])[-1][0]

    def truncate(self, node: str, to: int, tp: str = TP, reason: Any = "diverge", epoch: int = 1) -> str:
        """A log is cut."""
        log = self.logs.setdefault((tp, node), [(0, 0)])
        was = log[-1][0]
        while log[-1][0] > to:
            log.pop()
        return self.emit(node, LogTrunc(tp, was, log[-1][0], reason, epoch, log[-1][1]))

    def cut_back(
        self,
        broker: int,
        epoch: int,
        end: int,
        to: int,
        *,
        keeps: int = 0,
        leader_epoch: int = 1,
        reason: Any = "diverge",
    ) -> str:
        """A follower was told that ``epoch`` ends at ``end``, and cuts its log to ``to``, where ``keeps`` is its last
        epoch."""
        node = node_name(broker)
        was = self.log_end(broker)
        if to < was:
            self.truncate(node, to, reason=reason, epoch=leader_epoch)
        return self.emit(node, RepTruncate(TP, reason, leader_epoch, epoch, end, was, to, keeps))

    def high_watermark(
        self,
        node: str,
        new: int,
        epoch: int = 0,
        tp: str = TP,
        role: Literal["leader", "follower"] = "leader",
        counted: Collection[int] | None = None,
    ) -> str:
        """A high watermark moves to a boundary of the replica's log; that of a partition by all brokers, if nothing
        else is said."""
        of_whom = (() if tp == METADATA_PARTITION else BROKERS) if counted is None else counted
        log = self.logs.get((tp, node), [(0, 0)])
        ph = dict(log).get(new, -1)
        return self.emit(node, LogHw(tp, role, epoch, new, log[-1][0], 0, sorted(of_whom), ph))

    # ---- partitions --------------------------------------------------------------------------------------

    def change(
        self,
        leader: int,
        epoch: int,
        isr: Collection[int] = BROKERS,
        cause: str = "elect",
        partition_epoch: int = -1,
        quorum_epoch: int = 1,
        node: str = "controller-1",
        **more: Any,
    ) -> str:
        """An active controller appends a partition's new state; that for which a leader asked, by broker epochs 7."""
        if cause == "alter-isr":
            more.setdefault("members", {str(member): 7 for member in isr})
        number = epoch if partition_epoch < 0 else partition_epoch
        offset, tp = more.pop("offset", 10 + number), more.pop("tp", TP)
        body = PartChange(tp, offset, quorum_epoch, leader, epoch, number, list(isr), list(BROKERS), cause, **more)
        return self.emit(node, body)

    def registered(
        self,
        *brokers: int,
        fenced: bool = False,
        epoch: int = 7,
        node: str = "controller-1",
        offset: int = 1,
        incarnation: int = 0,
    ) -> str:
        """An active controller appends what has become of brokers."""
        found = ""
        for broker in brokers:
            name = f"broker-{broker}/{incarnation}"
            found = self.emit(node, BrokerReg(broker, epoch, name, fenced, False, False, offset))
        return found

    def assume(self, broker: int, epoch: int, high_watermark: int = 0, leader: int | None = None) -> str:
        """A broker takes up leadership, or with ``leader`` follows it; -1: nobody."""
        node = node_name(broker)
        end, ph = self.logs.get((TP, node), [(0, 0)])[-1]
        leads = leader in (None, broker)
        body = PartAssume(
            TP,
            "leader" if leads else "follower",
            broker if leader is None else leader,
            epoch,
            epoch,
            end,
            end if leads else -1,
            high_watermark,
            10,
            ph,
        )
        return self.emit(node, body)

    def lead(self, broker: int, epoch: int = 0, **how: Any) -> str:
        """An election and the leader's taking up."""
        self.change(broker, epoch, **how)
        return self.assume(broker, epoch)

    def fetched(
        self, leader: int, follower: int, offset: int, epoch: int = 0, broker_epoch: int = 7, **more: Any
    ) -> str:
        """A leader takes note of a follower's fetch."""
        asked, last = more.pop("follower_epoch", epoch), more.pop("last", epoch)
        return self.emit(node_name(leader), RepFetch(TP, follower, epoch, asked, broker_epoch, offset, last, **more))

    def propose(
        self,
        leader: int,
        isr: Collection[int],
        epoch: int = 0,
        partition_epoch: int = 0,
        hw: int = 0,
        start: int = 0,
        outcome: str = "proposed",
        proposal: int = 1,
        broker_epochs: Mapping[int, int] | None = None,
    ) -> str:
        """A leader proposes an ISR, its members under broker epoch 7 or another, or learns what became of that."""
        members = {str(member): (broker_epochs or {}).get(member, 7) for member in isr}
        body = IsrPropose(TP, proposal, epoch, partition_epoch, list(isr), members, hw, start, outcome)
        return self.emit(node_name(leader), body)

    # ---- servers and clients -----------------------------------------------------------------------------

    def reply(
        self, broker: int, api: str, told: ReplyPartition, version: int = 11, replica_id: int = -1, acks: int = 0
    ) -> str:
        """A server's answer about one partition."""
        return self.emit(node_name(broker), RpcReply(api, version, "client", "c", 1, replica_id, 0, acks, [told]))

    def invoke(self, client: str, timestamp: int = -1, replica_id: int = -1, isolation: int = 0) -> str:
        """A list operation begins; returns its id."""
        self.operations += 1
        op = f"{client}:{self.operations}"
        self.emit(client, ListInvoke(op, TP, timestamp, isolation, replica_id=replica_id))
        return op

    def told(self, client: str, op: str, offset: int, broker: int, epoch: int, isolation: int = 0) -> str:
        """A list operation returns."""
        return self.emit(
            client, ListReturn(op, "ok", 0, TP, -1, isolation, offset, leader_epoch=epoch, broker=node_name(broker))
        )

    def ask(self, client: str, offset: int, broker: int, epoch: int, isolation: int = 0) -> str:
        """A list operation, from invocation to return."""
        return self.told(client, self.invoke(client, isolation=isolation), offset, broker, epoch, isolation)

    def acked(self, client: str, uid: str, offset: int, broker: int = 1, epoch: int = 0, acks: int = -1) -> str:
        """A send returns ok."""
        return self.emit(
            client,
            SendReturn(
                f"send {uid}",
                "ok",
                0,
                TP,
                uid,
                acks,
                offset=offset,
                leader_epoch=epoch,
                broker=node_name(broker),
            ),
        )

    def sends(self, client: str, uid: str, acks: int = -1, digest: int = 0) -> str:
        """A send begins."""
        return self.emit(client, SendInvoke(f"send {uid}", TP, uid, acks, digest=digest))

    def failed(
        self,
        client: str,
        uid: str,
        error: int = 19,
        outcome: Literal["fail", "unknown"] = "fail",
        broker: str = "broker-1",
    ) -> str:
        """A send returns an error."""
        body = SendReturn(f"send {uid}", outcome, error, TP, uid, -1, broker=broker)
        return self.emit(client, body)

    def moved(self, client: str, new: int, reason: Any = "seek", old: int = 0) -> str:
        """A consumer's position is moved."""
        return self.emit(client, ConsPos(TP, old, new, 0, reason))

    def polled(
        self,
        client: str,
        *records: tuple[int, str],
        broker: int = 1,
        epoch: int = -1,
        digest: int = 0,
        batch_epoch: int = 0,
        log_start: int | UnsetType = UNSET,
    ) -> str:
        """A poll returns records (offset, uid)."""
        self.operations += 1
        got = [Polled(offset, batch_epoch, uid, digest) for offset, uid in records]
        body = PollReturn(
            f"{client}:{self.operations}",
            "ok",
            0,
            TP,
            -1,
            0,
            leader_epoch=epoch,
            broker=node_name(broker),
            records=got,
            log_start=log_start,
        )
        return self.emit(client, body)


def hash_of(below: int, epoch: int, uids: Collection[str], salt: int) -> int:
    """A prefix hash that is the same in every process."""
    value = below * 31 + epoch + 1 + salt
    for uid in uids:
        for char in uid:
            value = (value * 131 + ord(char)) % (1 << 61)
    return value


__all__ = ["BROKERS", "METADATA_PARTITION", "TP", "VOTERS", "TraceBuilder"]
