"""Broker registrations as the metadata log tells them (``ClusterControlManager.java``)."""

from __future__ import annotations

import msgspec

from actors.controller.changes import Change
from actors.node.errors import KafkaError
from krift.v1.controller_pb2 import BrokerRegistrationRequest
from krift.v1.records_pb2 import BrokerRegistrationChangeRecord, MetadataRecord, RegisterBrokerRecord

FENCE = 1
UNFENCE = -1


class BrokerRegistration(msgspec.Struct, frozen=True):
    """One broker. ``epoch``: broker epoch; ``offset``: of its registration record, which a broker must have replayed
    before it is unfenced. The latter is the greater one if a former incarnation had to be cleaned up after, or if the
    same incarnation has registered again."""

    id: int
    incarnation_id: str
    epoch: int
    fenced: bool
    in_controlled_shutdown: bool
    offset: int

    @property
    def active(self) -> bool:
        """Neither fenced nor shutting down: it may lead and be in an ISR."""
        return not self.fenced and not self.in_controlled_shutdown


class BrokerRegistry(msgspec.Struct):
    """All registrations, by broker id."""

    brokers: dict[int, BrokerRegistration] = {}

    # ---- questions ---------------------------------------------------------------------------------------

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered, unfenced and not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def has_epoch(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether ``broker_epoch`` is the epoch a broker is registered with; else the answer is STALE_BROKER_EPOCH."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.epoch == broker_epoch

    def is_eligible_for_isr(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker may be in an ISR, with the epoch as the leader knows it (-1: it does not, KIP-903)."""
        if not self.is_active(broker_id):
            return False
        return broker_epoch == -1 or self.brokers[broker_id].epoch == broker_epoch

    # ---- replaying ---------------------------------------------------------------------------------------

    def replay_register(self, record: RegisterBrokerRecord, offset: int) -> BrokerRegistration:
        """A new incarnation, or the same one again."""
        broker = self.brokers[record.broker_id] = BrokerRegistration(
            record.broker_id,
            record.incarnation_id,
            record.broker_epoch,
            record.fenced,
            record.in_controlled_shutdown,
            offset,
        )
        return broker

    def replay_change(self, record: BrokerRegistrationChangeRecord) -> BrokerRegistration | None:
        """A broker is fenced, unfenced or begins to shut down; None if that is what it was. Raises AssertionError
        for a registration that the log does not have."""
        broker = self.brokers.get(record.broker_id)
        if broker is None or broker.epoch != record.broker_epoch:
            raise AssertionError(f"no registration of broker {record.broker_id} with epoch {record.broker_epoch}")
        fenced = broker.fenced if record.fenced == 0 else record.fenced == FENCE
        shutting_down = broker.in_controlled_shutdown or record.in_controlled_shutdown == 1
        after = msgspec.structs.replace(broker, fenced=fenced, in_controlled_shutdown=shutting_down)
        self.brokers[broker.id] = after
        return None if after == broker else after

    # ---- making records ----------------------------------------------------------------------------------

    def register(self, request: BrokerRegistrationRequest, next_offset: int) -> Change:
        """The record that registers a broker; ``next_offset`` is where the batch with it will begin. A new incarnation
        gets that as its broker epoch and starts fenced; the same one keeps what it has."""
        existing = self.brokers.get(request.broker_id)
        record = RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=next_offset,
            fenced=True,
            in_controlled_shutdown=False,
        )
        unclean = False
        if existing is not None and existing.incarnation_id == request.incarnation_id:
            record.broker_epoch = existing.epoch
            record.fenced = existing.fenced
            record.in_controlled_shutdown = existing.in_controlled_shutdown
        elif existing is not None:
            unclean = request.previous_broker_epoch != existing.epoch
        return Change(MetadataRecord(register_broker=record), unclean=unclean)

    def change(self, broker_id: int, fenced: int = 0, in_controlled_shutdown: int = 0) -> Change:
        """The record that fences (1) or unfences (-1) a broker, or says that it begins to shut down (1)."""
        record = BrokerRegistrationChangeRecord(
            broker_id=broker_id,
            broker_epoch=self.brokers[broker_id].epoch,
            fenced=fenced,
            in_controlled_shutdown=in_controlled_shutdown,
        )
        return Change(MetadataRecord(broker_registration_change=record))


def validate_registration(
    registry: BrokerRegistry,
    request: BrokerRegistrationRequest,
    cluster_id: str,
    features: dict[str, int],
    session_valid: bool,
) -> KafkaError:
    """What stands against a registration. ``session_valid``: the incarnation that holds the id is still heard of;
    ``features``: finalized levels, 0 for one that is not on. Kafka refuses a broker that names no metadata.version;
    here only ranges that the broker does name are compared."""
    if request.cluster_id != cluster_id:
        return KafkaError.INCONSISTENT_CLUSTER_ID
    existing = registry.brokers.get(request.broker_id)
    if existing is not None and session_valid and existing.incarnation_id != request.incarnation_id:
        return KafkaError.DUPLICATE_BROKER_REGISTRATION
    if request.broker_id < 0 or not request.incarnation_id:
        return KafkaError.INVALID_REGISTRATION
    for feature in request.features:
        level = features.get(feature.name, 0)
        if not feature.min_supported_version <= level <= feature.max_supported_version:
            return KafkaError.UNSUPPORTED_VERSION
    return KafkaError.NONE
