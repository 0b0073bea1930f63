"""What the exploration knows of brokers as nodes: how they start, what the promises of transactions are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.broker.coordinator_common.partitions import TRANSACTION_STATE_TOPIC
from actors.broker.metadata_image import MetadataImage
from actors.broker.replica_fetcher import BACKOFF
from actors.broker.transaction_coordinator import loading, markers, transaction_log
from actors.broker.turn import Settings, settings_of
from actors.log.batch import Batch
from actors.log.control_records import ControlRecordType, marker_of
from actors.node.codec import decode, encode
from actors.node.events import AnyEvent, Invoked, Received, Started
from actors.node.messages import AnyRequest
from actors.node.network_client import RECONNECT
from actors.node.spec import NodeSpec
from actors.trace.events import AnyTraceEvent, LogAppend, LogTrunc, TxnLoad, TxnMarkers, TxnState
from actors.versions import BROKER_APIS
from orchestrator.exploration.broker import LEARN, ExploredBroker, normalise
from orchestrator.exploration.place import DiskFile, Entry, Input, OfTimer, entry_of, numbered_anew
from orchestrator.exploration.published import Published

PAUSES = (RECONNECT, BACKOFF)
"""Timers that end a pause after something failed. With a frozen clock a pause is over at once."""
AWAITED = (loading.LOAD, markers.RETRY)
"""Timers that a coordinator waits for. Of all others none fires: they are for what takes long."""


class Marked(NamedTuple):
    """What a marker in the log of a partition says."""

    producer_id: int
    producer_epoch: int
    commits: bool
    coordinator_epoch: int


class Kept(NamedTuple):
    """What a record of the transaction log says."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[str, ...]


class Logged(NamedTuple):
    """A batch of a log. ``said``: of a marker, or of a record of the transaction log; None of any other."""

    entry: Entry
    said: Marked | Kept | None


class Replica(NamedTuple):
    """A partition as a broker has it."""

    leads: bool
    leader_epoch: int
    high_watermark: int
    log: tuple[Logged, ...]


class Coordinated(NamedTuple):
    """A transactional id as a coordinator has it."""

    state: str
    producer_id: int
    producer_epoch: int
    pending: str | None


class BrokerFacts(NamedTuple):
    """What promises are judged by. ``metadata``: end of what the broker knows of the metadata log. ``replicas``: by
    partition. ``coordinates``: partition of the transaction log -> coordinator epoch, -1 while it is being read;
    ``ids``: by transactional id."""

    metadata: int
    replicas: tuple[tuple[str, Replica], ...]
    coordinates: tuple[tuple[str, int, bool], ...]
    ids: tuple[tuple[str, Coordinated], ...]


class Brokers:
    """See ``Kind``. Inputs of brokers alone: ("learn", number of a batch of the metadata log), ("ask", name of the
    request of a client). ("restart", number of what the controller has published by then)."""

    word = "broker"
    apis = BROKER_APIS

    def __init__(self, specs: Sequence[NodeSpec], published: Published, requests: dict[str, AnyRequest]) -> None:
        self._specs = specs
        self._settings: list[Settings] = [settings_of(spec) for spec in specs]
        self._published = published
        self._requests = requests
        self._images: list[bytes] = []
        self._image_numbers: dict[bytes, int] = {}

    def new(self) -> ExploredBroker:
        """A broker that nothing has happened to."""
        return ExploredBroker()

    def pack(self, node: ExploredBroker) -> bytes:
        """What it was started with does not change; few images are different."""
        image = encode(node.image)
        number = self._image_numbers.setdefault(image, len(self._images))
        if number == len(self._images):
            self._images.append(image)
        spec, settings, known = node.spec, node.settings, node.image
        node.spec, node.settings, node.image = _NO_SPEC, _NO_SETTINGS, _NO_IMAGE
        packed = number.to_bytes(4, "big") + encode(node)
        node.spec, node.settings, node.image = spec, settings, known
        return packed

    def unpack(self, index: int, packed: bytes) -> ExploredBroker:
        """Inverse of ``pack``."""
        node: ExploredBroker = decode(packed[4:], ExploredBroker)
        node.spec, node.settings = self._specs[index], self._settings[index]
        node.image = decode(self._images[int.from_bytes(packed[:4], "big")], MetadataImage)
        return node

    def started(self, index: int, disk: dict[str, tuple[bytes, ...]], event: Input | None) -> list[AnyEvent]:
        """The start with what is on the disk, and with what the controller has published."""
        control = 0 if event is None else event[1]
        image = {name: list(content) for name, content in disk.items()}
        batches = self._published.batches_of(control)
        return [Started(self._specs[index], 0, image), Invoked(LEARN, LEARN, {"batches": batches})]

    def surviving(self, files: dict[str, DiskFile], event: Input) -> dict[str, tuple[bytes, ...]]:
        """The process dies, not its machine: all that was written stays."""
        return {name: file.contents[-1][1] for name, file in files.items()}

    def events(self, event: Input) -> list[AnyEvent]:
        """News of the metadata log, or a client that asks."""
        match event:
            case ("learn", int(batch)):
                return [Invoked(LEARN, LEARN, {"batches": [self._published.batches[batch]]})]
            case ("ask", str(name)):
                return [Received(client(name), self._requests[name])]
        raise AssertionError(event)

    def of_timer(self, name: str) -> OfTimer:
        """Pauses are over at once."""
        if name.startswith(PAUSES):
            return "over"
        return "kept" if name.startswith(AWAITED) else "ignored"

    def normalise(self, node: ExploredBroker) -> dict[int, int]:
        """See ``broker.normalise``."""
        return normalise(node)

    def settled(self, file: DiskFile, node: ExploredBroker) -> DiskFile:
        """Nothing that was written is lost with the process, synced or not."""
        return numbered_anew(file, node.files, file.contents[-1][1])

    def facts(self, node: ExploredBroker, files: tuple[DiskFile, ...]) -> BrokerFacts:
        """What promises are judged by."""
        shards = node.transactions.shards.values()
        replicas = [
            (
                tp,
                Replica(
                    partition.is_leader,
                    partition.leader_epoch,
                    partition.log.high_watermark,
                    tuple(_logged(partition.topic, batch) for batch in partition.log.batches),
                ),
            )
            for tp, partition in sorted(node.replicas.partitions.items())
        ]
        ids = [
            (each.transactional_id, Coordinated(each.state, each.producer_id, each.producer_epoch, each.pending))
            for shard in shards
            for each in shard.transactions.values()
        ]
        coordinates = tuple((shard.tp, shard.epoch, not shard.loading) for shard in shards)
        return BrokerFacts(node.image.offset, tuple(replicas), coordinates, tuple(sorted(ids)))

    def wrong(self, before: BrokerFacts | None, after: BrokerFacts) -> str:
        """What never goes back within an incarnation, and did."""
        if before is None:
            return ""
        were, coordinated = dict(before.replicas), {tp: epoch for tp, epoch, _ in before.coordinates}
        for tp, epoch, _ in after.coordinates:
            if epoch < coordinated.get(tp, -1):
                return f"its coordinator epoch of {tp} went back from {coordinated[tp]} to {epoch}"
        for tp, replica in after.replicas:
            was = were.get(tp)
            if was is None:
                continue
            if replica.leader_epoch < was.leader_epoch:
                return f"its leader epoch of {tp} went back from {was.leader_epoch} to {replica.leader_epoch}"
            if was.leads and replica.leads and replica.high_watermark < was.high_watermark:
                return f"its high watermark of {tp} went back from {was.high_watermark} to {replica.high_watermark}"
        return ""

    def marks(self, records: list[AnyTraceEvent]) -> set[str]:
        """What the events of a step show."""
        marks = set()
        for event in records:
            match event:
                case TxnLoad(loaded=True, transactions=found) if event.coordinator_epoch > 0:
                    marks.add("coordinator failed over")
                    if any(each.state.startswith("Prepare") for each in found.values()):
                        marks.add("markers resumed")
                case TxnMarkers(outcome="again"):
                    marks.add("markers sent again")
                case TxnMarkers(outcome="cancelled"):
                    marks.add("markers given up")
                case TxnState(to_state=("CompleteCommit" | "CompleteAbort" | "PrepareCommit" | "PrepareAbort") as to):
                    marks.add(STATE_MARKS[to])
                case LogAppend(role="leader", marker=marker) if marker:
                    marks.add(f"{marker} marker")
                case LogTrunc(reason="diverge"):
                    marks.add("divergence truncated")
        return marks


STATE_MARKS = {
    "PrepareCommit": "commit decided",
    "PrepareAbort": "abort decided",
    "CompleteCommit": "commit completed",
    "CompleteAbort": "abort completed",
}
_NO_SPEC, _NO_SETTINGS, _NO_IMAGE = ExploredBroker().spec, ExploredBroker().settings, MetadataImage()


def client(name: str) -> str:
    """The connection on which a client asks this."""
    return f"<producer:{name}>"


def _logged(topic: str, batch: Batch) -> Logged:
    return Logged(entry_of(batch), _said(topic, batch))


def _said(topic: str, batch: Batch) -> Marked | Kept | None:
    if batch.is_control:
        marker = marker_of(batch.records)
        if marker is None:
            return None
        commits = marker.type == ControlRecordType.COMMIT
        return Marked(batch.producer_id, batch.producer_epoch, commits, marker.coordinator_epoch)
    if topic != TRANSACTION_STATE_TOPIC:
        return None
    transactional_id, metadata = transaction_log.read(batch.records[0])
    if metadata is None:
        return None
    partitions = tuple(sorted(metadata.partitions))
    return Kept(transactional_id, metadata.state, metadata.producer_id, metadata.producer_epoch, partitions)
