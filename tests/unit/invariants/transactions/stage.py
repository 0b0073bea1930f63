"""Hand-written traces of transactions."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from actors.node.errors import KafkaError
from actors.node.spec import node_name
from actors.trace.events import (
    BeginInvoke,
    EndInvoke,
    EndReturn,
    InitReturn,
    LogAppend,
    Polled,
    PollReturn,
    TxnAdded,
    TxnGuard,
    TxnLoad,
    TxnLoaded,
    TxnMarkers,
    TxnState,
    TxnTakenBack,
    TxnVerify,
)
from actors.trace.transaction_events import TransactionStateName
from tests.unit.invariants.trace_builder import TP, TraceBuilder, hash_of

STATE = "__transaction_state-0"
APP = "app-1"
PRODUCER = 7
OTHER_TP = "copies-1"


def producers(**timeouts_ms: int) -> dict[str, Any]:
    """A profile in which clients have the transactional id app-1, and these timeouts."""
    config = {name: {"transactional.id": APP, "transaction.timeout.ms": each} for name, each in timeouts_ms.items()}
    return {"transactional": list(config), "nodes": {name: {"config": each} for name, each in config.items()}}


class TransactionTrace(TraceBuilder):
    """With the verbs of transactions. The producer's id is 7, its transactional id app-1, transaction.version 2; the
    coordinator is broker-1."""

    def __init__(self, **profile: Any) -> None:
        super().__init__(**profile)
        self.record = -1

    def write(
        self,
        *uids: str,
        epoch: int = 3,
        tp: str = TP,
        broker: int = 1,
        marker: Literal["", "commit", "abort"] = "",
        coordinator_epoch: int = 0,
        role: Literal["leader", "follower"] = "leader",
        producer: int = PRODUCER,
        led: int = 0,
        sequence: int = 0,
    ) -> str:
        """A batch of the transaction, or a marker, at the end of a leader's log; ``led``: the leader epoch;
        ``sequence``: number of the first record."""
        node = node_name(broker)
        names = [f"m{self.wall}"] if marker else list(uids)
        log = self.logs.setdefault((tp, node), [(0, 0)])
        base, below = log[-1]
        log.append((base + len(names), hash_of(below, led, uids or [marker], 0)))
        end, ph = log[-1]
        body = LogAppend(
            *(tp, role, base, end - 1, led, led, producer, epoch, -1 if marker else sequence, bool(marker), names),
            ph=ph,
            transactional=True,
            marker=marker,
            coordinator_epoch=coordinator_epoch if marker else -1,
        )
        return self.emit(node, body)

    def ends(self, kind: Literal["commit", "abort"], epoch: int = 4, **where: Any) -> str:
        """A marker comes to a leader's log."""
        return self.write(marker=kind, epoch=epoch, **where)

    def state(
        self,
        before: TransactionStateName,
        after: TransactionStateName,
        epoch: int = 3,
        partitions: tuple[str, ...] = (TP,),
        *,
        offset: int = -1,
        version: int = 2,
        node: str = "broker-1",
        coordinator_epoch: int = 0,
        timeout_ms: int = 1000,
        start_ms: int = 0,
        asked: tuple[int, int] = (-1, -1),
        update_ms: int = -1,
        timed_out: bool = False,
    ) -> str:
        """The coordinator moves app-1 on; ``offset``: of the record, the next one if not given. ``asked``: producer id
        and epoch of the request."""
        self.record = self.record + 1 if offset < 0 else offset
        body = TxnState(
            *(STATE, APP, PRODUCER, epoch, before, after, list(partitions), coordinator_epoch, self.record),
            *(PRODUCER, epoch, version, timeout_ms, start_ms, *asked, update_ms, timed_out),
        )
        return self.emit(node, body)

    def initializes(
        self,
        epoch: int,
        former: tuple[int, int] = (PRODUCER, -1),
        *,
        asked: tuple[int, int] = (-1, -1),
        producer: int = PRODUCER,
        timeout_ms: int = 1000,
        coordinator_epoch: int = 0,
        update_ms: int = 5,
    ) -> str:
        """The coordinator gives app-1 an epoch after the ``former`` producer id and epoch, for who asked for it."""
        self.record += 1
        body = TxnState(
            *(STATE, APP, producer, epoch, "CompleteCommit", "Empty", [], coordinator_epoch, self.record),
            *(*former, 2, timeout_ms, -1, *asked, update_ms),
        )
        return self.emit("broker-1", body)

    def begins(self, epoch: int = 3, partitions: tuple[str, ...] = (TP,), **how: Any) -> str:
        """A transaction is open with these partitions."""
        return self.state("Empty", "Ongoing", epoch, partitions, **how)

    def decides(self, commits: bool, epoch: int = 4, partitions: tuple[str, ...] = (TP,), **how: Any) -> str:
        """It is decided, and its markers have this epoch."""
        return self.state("Ongoing", "PrepareCommit" if commits else "PrepareAbort", epoch, partitions, **how)

    def completes(self, commits: bool, epoch: int = 4, **how: Any) -> str:
        """All its partitions know."""
        kind: Literal["Commit", "Abort"] = "Commit" if commits else "Abort"
        return self.state(f"Prepare{kind}", f"Complete{kind}", epoch, (), **how)  # type: ignore[arg-type]

    def takes_back(self, state: TransactionStateName, epoch: int = 4) -> str:
        """The coordinator could not commit a record, the next one in its log, in time."""
        self.record += 1
        error = int(KafkaError.REQUEST_TIMED_OUT)
        return self.emit("broker-1", TxnTakenBack(STATE, APP, PRODUCER, epoch, state, 0, self.record, error))

    def counted(
        self,
        commits: bool,
        epoch: int = 4,
        partitions: tuple[str, ...] = (TP,),
        outcome: Any = "done",
        errors: dict[str, int] | None = None,
        node: str = "broker-1",
        coordinator_epoch: int = 0,
        producer: int = PRODUCER,
    ) -> str:
        """The coordinator counts partitions as told."""
        names = list(partitions)
        body = TxnMarkers(STATE, APP, producer, epoch, commits, coordinator_epoch, 1, names, outcome, errors or {})
        return self.emit(node, body)

    def tells(self, commits: bool, epoch: int = 4, **how: Any) -> str:
        """The coordinator sends markers."""
        return self.counted(commits, epoch, outcome="sent", **how)

    def resigns(self, node: str = "broker-1", coordinator_epoch: int = 0) -> str:
        """A broker gives up what it had of the transaction log."""
        return self.emit(node, TxnLoad(STATE, coordinator_epoch, False, self.record + 1))

    def loads(
        self,
        state: TransactionStateName,
        epoch: int,
        end: int,
        partitions: tuple[str, ...] = (TP,),
        node: str = "broker-2",
        coordinator_epoch: int = 1,
        version: int = 2,
        timeout_ms: int = 1000,
        start_ms: int = 0,
    ) -> str:
        """Another broker has read the transaction log."""
        loaded = {APP: TxnLoaded(state, PRODUCER, epoch, list(partitions), version, timeout_ms, start_ms)}
        return self.emit(node, TxnLoad(STATE, coordinator_epoch, True, end, loaded))

    def says_added(
        self, epoch: int = 3, partitions: tuple[str, ...] = (TP,), node: str = "broker-1", coordinator_epoch: int = 0
    ) -> str:
        """The coordinator answers a producer that these partitions are in its transaction."""
        return self.emit(node, TxnAdded(STATE, APP, PRODUCER, epoch, list(partitions), coordinator_epoch))

    # ---- leaders that ask the coordinator ----------------------------------------------------------------

    def waits(
        self, sequence: int = 0, epoch: int = 3, node: str = "broker-2", *, adds: bool = False, guard: int = 1
    ) -> str:
        """A batch waits at a leader for the coordinator."""
        return self.emit(node, TxnGuard(TP, PRODUCER, epoch, sequence, guard, adds))

    def verified(self, answer: str, error: int = 0, epoch: int = 3, node: str = "broker-2", adds: bool = False) -> str:
        """The leader is answered, by who recorded ``answer`` last."""
        self.cause = answer
        event = self.emit(node, TxnVerify(TP, APP, PRODUCER, epoch, adds, int(error)))
        self.cause = ""
        return event

    # ---- the application ---------------------------------------------------------------------------------

    def app_initialized(self, epoch: int, node: str = "producer-1", outcome: Any = "ok") -> str:
        """It is told that its transactions are initialized."""
        return self.emit(node, InitReturn("i", outcome, 0, APP, PRODUCER, epoch))

    def app_begins(self, number: int = 1, epoch: int = 3, version: int = 2) -> str:
        """It begins a transaction."""
        return self.emit("producer-1", BeginInvoke(f"b{number}", APP, number, PRODUCER, epoch, version))

    def app_asks(self, commit: bool, number: int = 1, epoch: int = 3) -> str:
        """It asks for its end."""
        return self.emit("producer-1", EndInvoke(f"e{number}", APP, number, PRODUCER, epoch, commit))

    def app_told(
        self, commit: bool, outcome: Any = "ok", number: int = 1, epoch: int = 3, unanswered: int | UnsetType = UNSET
    ) -> str:
        """It is told of it, after so many requests without an answer."""
        body = EndReturn(
            f"e{number}", outcome, 0, APP, number, PRODUCER, epoch, commit, asked=True, unanswered=unanswered
        )
        return self.emit("producer-1", body)

    def reads(self, *records: tuple[int, str], isolation: int = 1, epoch: int = 0) -> str:
        """A consumer gets records of broker-1."""
        got = [Polled(offset, 0, uid, 0) for offset, uid in records]
        body = PollReturn("consumer-1:1", "ok", 0, TP, -1, isolation, epoch, "broker-1", records=got)
        return self.emit("consumer-1", body)
