"""What proves that an oddity really occurred, where no trigger can: it takes more than one event to see it."""

from __future__ import annotations

from typing import Protocol

from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.trace.events import (
    BrokerReg,
    ConsPos,
    LogAppend,
    LogHw,
    MetaView,
    NodeUp,
    PollReturn,
    QRole,
    QVote,
    Rpc,
    RpcReply,
    SendInvoke,
    SendReturn,
    Stamped,
)

METADATA = "__cluster_metadata-0"
LASTING_US = 2_000_000


class Evidence(Protocol):
    """Looks at every event of a run in order; ``seen`` once the oddity has occurred. Its docstring says what that
    is."""

    seen: bool

    def __call__(self, event: Stamped) -> None: ...


class WatermarkFell:
    """the high watermark of a follower went down while its process lived"""

    def __init__(self) -> None:
        self.seen = False
        self._last: dict[tuple[str, str], int] = {}

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is NodeUp:
            self._last = {key: at for key, at in self._last.items() if key[0] != event.node}
        elif type(body) is LogHw and body.tp != METADATA:
            last = self._last.get((event.node, body.tp), -1)
            self.seen |= body.role == "follower" and body.new < last
            self._last[event.node, body.tp] = body.new


class FencedBrokerAnswered:
    """a client got its metadata from a broker that the controller had fenced, and that had not restarted"""

    def __init__(self) -> None:
        self.seen = False
        self._fenced: set[str] = set()

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is BrokerReg:
            (self._fenced.add if body.fenced else self._fenced.discard)(f"broker-{body.broker}")
        elif type(body) is NodeUp:
            self._fenced.discard(event.node)
        elif type(body) is Rpc and body.api == Api.Metadata.name and body.outcome == "answered":
            self.seen |= body.dst in self._fenced


class WrittenTwice:
    """a leader appended a record at two offsets"""

    def __init__(self) -> None:
        self.seen = False
        self._at: dict[str, int] = {}

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is LogAppend and body.role == "leader" and not body.control:
            for number, uid in enumerate(body.uids):
                self.seen |= self._at.setdefault(uid, body.base + number) != body.base + number


class AcknowledgedNowhere:
    """a send with acks=0 ended well, and no leader had got its record two seconds later"""

    def __init__(self) -> None:
        self.seen = False
        self._open: dict[str, int] = {}

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is SendReturn and body.acks == 0 and body.outcome == "ok":
            self._open[body.uid] = event.wall
        elif type(body) is LogAppend and body.role == "leader":
            for uid in body.uids:
                self._open.pop(uid, None)
            self.seen |= any(event.wall - since > LASTING_US for since in self._open.values())


class PreVoteRefused:
    """a voter refused a pre-vote"""

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, event: Stamped) -> None:
        body = event.body
        self.seen |= type(body) is QVote and body.pre and not body.granted


class LeadsAboveItsWatermark:
    """a voter became leader of the quorum with entries above every high watermark that anybody had told"""

    def __init__(self) -> None:
        self.seen = False
        self._committed = 0

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is LogHw and body.tp == METADATA:
            self._committed = max(self._committed, body.new)
        elif type(body) is QRole and body.role == "leader" and body.epoch > 1:
            self.seen |= body.log_end > self._committed


class TwoQuorumLeaders:
    """a voter became leader of the quorum while another one took itself to be the leader of an older epoch"""

    def __init__(self) -> None:
        self.seen = False
        self._leading: set[str] = set()

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is NodeUp:
            self._leading.discard(event.node)
        elif type(body) is QRole:
            self._leading.discard(event.node)
            if body.role == "leader":
                self.seen |= bool(self._leading)
                self._leading.add(event.node)


class UnknownYetRead:
    """a consumer got a record whose send had ended without success and without a definite error"""

    def __init__(self) -> None:
        self.seen = False
        self._unknown: set[str] = set()
        self._read: set[str] = set()

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is SendReturn and body.outcome == "unknown":
            self._unknown.add(body.uid)
            self.seen |= body.uid in self._read
        elif type(body) is PollReturn:
            uids = {record.uid for record in body.records}
            self._read |= uids
            self.seen |= not self._unknown.isdisjoint(uids)


class OlderMetadataRefused:
    """a client was told of a leader epoch below the one that it knew, and did not take it over"""

    def __init__(self) -> None:
        self.seen = False
        self._known: dict[tuple[str, str], int] = {}

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is not MetaView:
            return
        for tp, epoch in body.epochs.items():
            if tp in body.accepted:
                self._known[event.node, tp] = epoch
            else:
                self.seen |= epoch < self._known.get((event.node, tp), -1)


class PositionWentBack:
    """a consumer's position went back without having been asked to"""

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, event: Stamped) -> None:
        body = event.body
        self.seen |= type(body) is ConsPos and body.reason in ("reset", "truncation") and 0 <= body.new < body.old


class RefusedForLong:
    """a leader refused a client's ListOffsets for two seconds on end"""

    def __init__(self) -> None:
        self.seen = False
        self._since: dict[str, int] = {}

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is not RpcReply or body.api != Api.ListOffsets.name or body.replica_id >= 0:
            return
        if any(part.error == KafkaError.OFFSET_NOT_AVAILABLE for part in body.partitions):
            self.seen |= event.wall - self._since.setdefault(event.node, event.wall) >= LASTING_US
        else:
            self._since.pop(event.node, None)


class RefusedThoughWritten:
    """a producer was refused with NOT_ENOUGH_REPLICAS while a record of its was in the leader's log, and the record's
    send ended well"""

    def __init__(self) -> None:
        self.seen = False
        self._written: set[str] = set()
        self._open: dict[str, str] = {}
        self._refused: set[str] = set()

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if type(body) is LogAppend and body.role == "leader":
            self._written.update(body.uids)
        elif type(body) is SendInvoke:
            self._open[body.uid] = event.node
        elif type(body) is Rpc and KafkaError.NOT_ENOUGH_REPLICAS in body.errors:
            mine = {uid for uid, node in self._open.items() if node == event.node}
            self._refused |= mine & self._written
        elif type(body) is SendReturn:
            self._open.pop(body.uid, None)
            self.seen |= body.outcome == "ok" and body.uid in self._refused


EVIDENCE: dict[str, type[Evidence]] = {
    "acks-0-loss": AcknowledgedNowhere,
    "duplicate-without-idempotence": WrittenTwice,
    "fenced-broker-answers": FencedBrokerAnswered,
    "follower-watermark-falls": WatermarkFell,
    "older-metadata-refused": OlderMetadataRefused,
    "own-epoch-commit-waits": LeadsAboveItsWatermark,
    "position-out-of-range": PositionWentBack,
    "pre-vote-refused": PreVoteRefused,
    "refusal-lasts": RefusedForLong,
    "refused-though-written": RefusedThoughWritten,
    "two-quorum-leaders": TwoQuorumLeaders,
    "unknown-yet-written": UnknownYetRead,
}
"""Oddity -> what must be seen in its run, beside what its file says."""
