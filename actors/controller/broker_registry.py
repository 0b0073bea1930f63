"""Registering brokers, and the records that fence and unfence them (``ClusterControlManager.java``)."""

from __future__ import annotations

from collections.abc import Sequence

from actors.controller.changes import Change
from actors.controller.controller_state import ControllerState
from actors.node.errors import KafkaError
from krift.v1.controller import BrokerRegistrationRequest
from krift.v1.records import BrokerRegistrationChangeRecord, MetadataRecord, RegisterBrokerRecord


def is_clean(state: ControllerState, request: BrokerRegistrationRequest) -> bool:
    """Whether the former incarnation of a broker shut down in good order: then the new one knows its epoch."""
    existing = state.brokers.get(request.broker_id)
    return existing is None or request.previous_broker_epoch == existing.epoch


def is_new_incarnation(state: ControllerState, request: BrokerRegistrationRequest) -> bool:
    """Whether this is not an incarnation that registers again."""
    existing = state.brokers.get(request.broker_id)
    return existing is None or existing.incarnation_id != request.incarnation_id


def registration(
    state: ControllerState, request: BrokerRegistrationRequest, next_offset: int, defects: Sequence[str] = ()
) -> Change:
    """The record that registers a broker; ``next_offset`` is where the batch with it will begin. A new incarnation
    gets that as its broker epoch and starts fenced; the same one keeps what it has."""
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=next_offset,
        fenced=True,
        in_controlled_shutdown=False,
    )
    if is_new_incarnation(state, request):
        if "broker-epoch-reused" in defects and request.broker_id in state.brokers:
            record.broker_epoch = state.brokers[request.broker_id].epoch
        return Change(MetadataRecord(register_broker=record), unclean=not is_clean(state, request))
    existing = state.brokers[request.broker_id]
    record.broker_epoch = existing.epoch
    record.fenced = existing.fenced
    record.in_controlled_shutdown = existing.in_controlled_shutdown
    return Change(MetadataRecord(register_broker=record))


def registration_change(
    state: ControllerState, broker_id: int, fenced: int = 0, in_controlled_shutdown: int = 0
) -> Change:
    """The record that fences (1) or unfences (-1) a broker, or says that it begins to shut down (1)."""
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=state.brokers[broker_id].epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
    return Change(MetadataRecord(broker_registration_change=record))


def validate_registration(
    state: ControllerState,
    request: BrokerRegistrationRequest,
    cluster_id: str,
    session_valid: bool,
) -> KafkaError:
    """What stands against a registration. ``session_valid``: the incarnation that holds the id is still heard of.
    Kafka refuses a broker that names no metadata.version;
    here only ranges that the broker does name are compared."""
    if request.cluster_id != cluster_id:
        return KafkaError.INCONSISTENT_CLUSTER_ID
    existing = state.brokers.get(request.broker_id)
    if existing is not None and session_valid and existing.incarnation_id != request.incarnation_id:
        return KafkaError.DUPLICATE_BROKER_REGISTRATION
    if request.broker_id < 0 or not request.incarnation_id:
        return KafkaError.INVALID_REGISTRATION
    for feature in request.features:
        level = state.features.get(feature.name, 0)
        if not feature.min_supported_version <= level <= feature.max_supported_version:
            return KafkaError.UNSUPPORTED_VERSION
    return KafkaError.NONE
