"""What partitions know of the transactions that their coordinators have open, and have decided."""

from __future__ import annotations

import msgspec

from actors.trace.events import EndReturn, LogAppend, Stamped, TraceEvent, TxnLoad, TxnState
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.memory import forget_first
from orchestrator.invariants.mirrors.log_mirror import LogMirror

DECISIONS: dict[str, bool] = {"PrepareCommit": True, "PrepareAbort": False}
"""State of a transactional id in which its transaction is decided -> whether it is committed."""
COMPLETE = ("CompleteCommit", "CompleteAbort")
"""States of a transactional id whose last transaction is complete."""

REMEMBERED = 8
"""Decisions of a producer id that are remembered."""
UNMARKED_REMEMBERED = 1 << 10
"""Decisions of a producer id that are remembered while some replica has no marker of them."""

EPOCH_BUMP = 2
"""The transaction.version from which on each transaction has a producer epoch of its own (KIP-890)."""


MARKER_OF_FORMER = (
    "Below transaction.version 2 all transactions of a producer have the same epoch, so a late marker ends the next "
    "transaction."
)
"""When a transaction ends by a marker that was sent for an earlier one."""
EPOCH_SHARED = (
    "Below transaction.version 2 all transactions of a producer have the same epoch, so a late EndTxn of an earlier "
    "transaction, which got no answer then, ends the open one (KAFKA-17754). Each such request may do so once."
)
"""When a transaction ends by a request that was sent for an earlier one."""


def sent_by(cause: str, by: Witness) -> bool:
    """Whether a message, of which ``cause`` names its sender's last event, was sent by the process that recorded
    ``by``."""
    return cause.rpartition("/")[0] == f"{by.node}/{by.incarnation}"


def sent_before(cause: str, by: Witness) -> bool:
    """Whether it was sent before that process recorded ``by``."""
    return sent_by(cause, by) and int(cause.rpartition("/")[2]) < by.seq


class Begun(msgspec.Struct, frozen=True, gc=False):
    """The transaction that a producer id has open, or had last. ``version``: transaction.version of its producer.
    ``coordinator_epoch``: of who began it."""

    producer_epoch: int
    version: int
    by: Witness
    coordinator_epoch: int = -1


class Begins(msgspec.Struct):
    """How transactions began, by producer id: what tells their markers from those of former transactions."""

    known: dict[int, Begun] = {}

    def take(self, event: Stamped, body: TxnState) -> None:
        """A coordinator moves a transactional id on."""
        if body.to_state != "Ongoing":
            return
        known = self.known.get(body.producer_id)
        if known is not None and body.coordinator_epoch < known.coordinator_epoch:
            return  # it was replaced, and learns late of an earlier one
        if body.from_state != "Ongoing" or known is None or known.producer_epoch != body.producer_epoch:
            begun = (body.producer_epoch, body.client_version, witness(event), body.coordinator_epoch)
            self.known[body.producer_id] = Begun(*begun)

    def is_of_former(self, event: Stamped, body: LogAppend) -> bool:
        """Whether a leader appends a marker that was sent before the open transaction began, in its epoch."""
        begun = self.known.get(body.producer_id)
        if begun is None or not body.marker or begun.version >= EPOCH_BUMP:
            return False
        return begun.producer_epoch == body.producer_epoch and sent_before(event.cause, begun.by)


class LateEnds(msgspec.Struct):
    """Requests for an end that got no answer: (producer id, epoch, commit) -> how many of them may still come late."""

    left: dict[tuple[int, int, bool], int] = {}

    def note(self, body: EndReturn, most: int) -> None:
        """An application's request for an end is over. Of so many kinds at most the requests are remembered."""
        if isinstance(body.unanswered, int):
            kind = (body.producer_id, body.producer_epoch, body.commit)
            self.left[kind] = self.left.pop(kind, 0) + body.unanswered
            forget_first(self.left, most)

    def may_come(self, producer_id: int, producer_epoch: int, commit: bool) -> bool:
        """Whether one may still come late."""
        return self.left.get((producer_id, producer_epoch, commit), 0) > 0

    def take(self, producer_id: int, producer_epoch: int, commit: bool) -> bool:
        """Whether one has come late, as a decision shows that nobody else can have asked for; it comes no more."""
        may_come = self.may_come(producer_id, producer_epoch, commit)
        if may_come:
            self.left[producer_id, producer_epoch, commit] -= 1
        return may_come


class Decision(msgspec.Struct, frozen=True, gc=False):
    """How a transaction ends: ``producer_epoch``: of its markers. ``ends``: broker -> where its log of the partition
    ended when that was decided. ``version``: transaction.version by which its producer goes. ``coordinator_epoch``: of
    who decided so, or has read it in the log."""

    producer_epoch: int
    commits: bool
    version: int
    ends: dict[str, int]
    by: Witness
    coordinator_epoch: int

    def is_marked(self, producer_id: int, node: str, mirror: LogMirror) -> bool:
        """Whether a replica has a marker of its producer that came after it. One that was paused may have none for
        long, and its leader may append to the transaction when it goes on."""
        marker = mirror.replica(node).transactions.last_marker(producer_id)
        return marker is not None and marker.offset >= self.ends.get(node, 0)


class Producer(msgspec.Struct):
    """One producer id, as its coordinators have it of one partition. ``epoch``: in which the partition was put into a
    transaction last, -1 it was not; ``is_open``: nobody has decided that one so far. ``version``: of its
    transaction.version. ``forgotten``: the newest epoch of decisions that are remembered no more, -1 there are none.
    ``ended``: epoch -> the decision on the last transaction in it that had the partition; an older one is
    remembered while some replica has no marker of it. ``unmarked``: the newest epoch of which one is forgotten
    nevertheless, -1 there is none. ``since``: by what the coordinator that spoke last has had the partition in the open
    transaction; ``log``, ``coordinator_epoch``: the partition of the transaction log, and its leader epoch."""

    epoch: int = -1
    is_open: bool = False
    version: int = 0
    decisions: list[Decision] = []
    forgotten: int = -1
    by: Witness | None = None
    ended: dict[int, Decision] = {}
    unmarked: int = -1
    since: Witness | None = None
    log: str = ""
    coordinator_epoch: int = -1

    def open(self, event: Stamped, epoch: int) -> None:
        """A coordinator has the partition in a transaction, perhaps one that has just got more partitions."""
        body = event.body
        assert isinstance(body, TxnState | TxnLoad)
        own = self.since is not None and (self.since.node, self.since.incarnation) == (event.node, event.incarnation)
        same = own and self.is_open and (self.epoch, self.coordinator_epoch) == (epoch, body.coordinator_epoch)
        self.epoch, self.is_open, self.by = epoch, True, witness(event)
        self.log, self.coordinator_epoch = body.tp, body.coordinator_epoch
        if not same or type(body) is TxnLoad:
            self.since = self.by

    def forget(self, producer_id: int, mirror: LogMirror) -> None:
        """Forget the oldest of what ended."""
        while len(self.ended) > REMEMBERED:
            epoch, oldest = next(iter(self.ended.items()))
            if not all(oldest.is_marked(producer_id, node, mirror) for node in mirror.replicas):
                if len(self.ended) <= UNMARKED_REMEMBERED:
                    return
                self.unmarked = max(self.unmarked, epoch)
            del self.ended[epoch]


class Coordinated(msgspec.Struct):
    """By producer id, of one partition."""

    producers: dict[int, Producer] = {}

    def take(self, key: str, event: Stamped, mirror: LogMirror) -> None:
        """A coordinator has moved a transactional id on, or has read its log."""
        body = event.body
        if type(body) is TxnState:
            if key in body.partitions:
                self._put(event, body.producer_id, body.producer_epoch, body.to_state, body.client_version, mirror)
        elif type(body) is TxnLoad and body.loaded:
            for each in body.transactions.values():
                if key in each.partitions:
                    self._put(event, each.producer_id, each.producer_epoch, each.state, each.client_version, mirror)

    def _put(self, event: Stamped, producer_id: int, epoch: int, state: str, version: int, mirror: LogMirror) -> None:
        assert isinstance(event.body, TxnState | TxnLoad)
        producer = self.producers.setdefault(producer_id, Producer())
        if event.body.coordinator_epoch < producer.coordinator_epoch:
            return  # it was replaced before the last transaction began here, and learns late of one before
        producer.version = version
        if state == "Ongoing":
            producer.open(event, epoch)
        elif state in DECISIONS:
            if producer.epoch < 0:  # whoever had it open did not live to say so
                producer.epoch = epoch - 1 if version >= EPOCH_BUMP else epoch
            ends = {node: replica.log.end for node, replica in mirror.replicas.items()}
            producer.is_open = False
            decided = (epoch, DECISIONS[state], version, ends, witness(event), event.body.coordinator_epoch)
            decision = producer.ended[producer.epoch] = Decision(*decided)
            producer.forget(producer_id, mirror)
            producer.decisions.append(decision)
            for each in producer.decisions[:-REMEMBERED]:
                producer.forgotten = max(producer.forgotten, each.producer_epoch)
            del producer.decisions[:-REMEMBERED]


COORDINATED: tuple[type[TraceEvent], ...] = (TxnState, TxnLoad)
"""Types of the events that say so."""
