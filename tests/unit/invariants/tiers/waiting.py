"""Traces of a broker that looks offsets up in remote storage."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from actors.node.errors import KafkaError
from actors.trace.events import CtlFault, ReaderTaskPhase, ReplyPartition, RpcPark, RpcReply, TierTask
from chaos.faults.process import NodePause
from tests.unit.invariants.trace_builder import TP, TraceBuilder

BROKER = "broker-1"
CLIENT = "list-offsets-1"
TIMED_OUT = int(KafkaError.REQUEST_TIMED_OUT)
NOT_LEADER = int(KafkaError.NOT_LEADER_OR_FOLLOWER)
REJECTED = int(KafkaError.UNKNOWN_SERVER_ERROR)
POOL = "remote-log-reader"
THREADS = 2
MAX_PENDING = 2


def connection(number: int) -> str:
    """Of a client's request."""
    return f"{CLIENT}>{BROKER}:client:0.{number}"


class Waiting(TraceBuilder):
    """Broker-1, with two threads and a queue of two, under ``kip-1075``; request n is on connection n."""

    def __init__(self, kip_1075: str = "kafka", kip_207: str = "kafka", **profile: Any) -> None:
        features = {"kip-1075": kip_1075, "kip-207": kip_207}
        pool = {"remote.log.reader.threads": THREADS, "remote.log.reader.max.pending.tasks": MAX_PENDING}
        config = {**pool, **profile.pop("config", {})}
        super().__init__(features=features, config=config, **profile)

    def after(self, ms: int) -> None:
        """The next event comes so much later."""
        self.wall += ms * 1000 - self.apart

    def park(
        self,
        number: int = 1,
        tps: Collection[str] = (TP,),
        timeout_ms: int = 0,
        version: int = 11,
        decided: Collection[str] = (),
    ) -> str:
        """A request begins to wait."""
        body = RpcPark(
            "ListOffsets", version, CLIENT, connection(number), number, timeout_ms, 0, list(tps), list(decided)
        )
        return self.emit(BROKER, body)

    def task(
        self,
        number: int,
        phase: ReaderTaskPhase,
        request: int = 1,
        tp: str = TP,
        error: int = 0,
        threads: int = THREADS,
        kind: Any = "list-offsets",
    ) -> str:
        """A read goes on."""
        of = (connection(request), request)
        return self.emit(
            BROKER,
            TierTask(tp, POOL, number, kind, phase, *of, 0, 0, threads, MAX_PENDING, False, error, 5),
        )

    def read(self, number: int, request: int = 1, tp: str = TP) -> None:
        """A read from its beginning to its end."""
        phases: tuple[ReaderTaskPhase, ...] = ("enqueue", "start", "finish")
        for phase in phases:
            self.task(number, phase, request, tp)

    def answered(self, number: int = 1, *partitions: ReplyPartition, **how: Any) -> str:
        """The broker answers."""
        told = list(partitions or (found(TP, 3),))
        replica_id, isolation = how.get("replica_id", -1), how.get("isolation", 0)
        of = (connection(number), number)
        return self.emit(BROKER, RpcReply("ListOffsets", 11, CLIENT, *of, replica_id, isolation, 0, told))

    def paused(self, phase: Any, kind: str = NodePause.kind) -> str:
        """The process of the broker is stopped, or goes on; or something else befalls it."""
        return self.emit("driver", CtlFault("f1", kind, phase, [BROKER], {}))

    def of(self, invariant: str) -> tuple[str, int]:
        """Status of an invariant, and how often it was tested."""
        result = self.result(invariant)
        return result.status, result.tested

    def says(self, invariant: str) -> str:
        """The sentence of its only violation."""
        (finding,) = self.result(invariant).violations
        return finding.sentence


def found(tp: str, offset: int, epoch: int = 0, **fields: Any) -> ReplyPartition:
    """A partition's part of an answer: an offset."""
    return ReplyPartition(tp, 0, offset, timestamp=5, leader_epoch=epoch, **fields)


def failed(tp: str, error: int) -> ReplyPartition:
    """A partition's part of an answer: an error."""
    return ReplyPartition(tp, error, timestamp=5)
