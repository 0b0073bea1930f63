"""IncrementalAlterConfigs: dynamic configuration on its way into the metadata log
(``ConfigurationControlManager.java``, ``ControllerConfigurationValidator.scala``; KIP-339)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.config import CONFIG, config_value
from actors.controller.changes import Change
from actors.controller.controller_config import MIN_ISR, ControllerConfig
from actors.controller.controller_state import ControllerState
from actors.log.log_validator import AS_RETENTION
from actors.node.errors import KafkaError
from krift.v1.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from krift.v1.records import ClearElrRecord, ConfigRecord, MetadataRecord

TOPIC = 2
BROKER = 4
RESOURCE_TYPES = {TOPIC: "topic", BROKER: "broker"}

SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3

UNLIMITED = -1

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource


def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest,
    state: ControllerState,
    config: ControllerConfig,
    defects: Sequence[str] = (),
) -> tuple[list[Change], IncrementalAlterConfigsResponse]:
    """The records, and the answer: one result for each resource, which is changed as a whole or not at all. A least
    ISR that is set, be it to what it was, makes void who was eligible under the former one."""
    records: list[ConfigRecord] = []
    response = IncrementalAlterConfigsResponse()
    names = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    for resource in _once_each(request):
        if names.count((resource.resource_type, resource.resource_name)) > 1:
            error = KafkaError.INVALID_REQUEST
        elif resource.resource_type not in RESOURCE_TYPES:
            error = KafkaError.UNSUPPORTED_VERSION
        else:
            error = _alter(resource, state, config.controllers, records)
        response.responses.append(
            IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                error_code=error, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
        )
    if request.validate_only or "alterations-unwritten" in defects:
        return [], response
    changes = [Change(MetadataRecord(config=record)) for record in records]
    return [*changes, *_clear_elr(state, records, config.elr_cleared, defects)], response


def _once_each(request: IncrementalAlterConfigsRequest) -> list[Resource]:
    return list({(each.resource_type, each.resource_name): each for each in request.resources}.values())


def _alter(
    resource: Resource, state: ControllerState, controllers: list[int], records: list[ConfigRecord]
) -> KafkaError:
    resource_type = RESOURCE_TYPES[resource.resource_type]
    values = dict(state.configs.get(f"{resource_type}/{resource.resource_name}", {}))
    mine: list[ConfigRecord] = []
    for config in resource.configs:
        if config.config_operation not in (SET, DELETE):
            # APPEND and SUBTRACT are for lists, and no key of Krift's is one; Kafka knows no other operation.
            known = config.config_operation in (APPEND, SUBTRACT)
            return KafkaError.INVALID_CONFIG if known else KafkaError.INVALID_REQUEST
        before = values.get(config.name)
        after = config.value if config.config_operation == SET else None
        if after == before and resource_type == "topic":
            continue
        record = ConfigRecord(resource_type=resource_type, resource_name=resource.resource_name, name=config.name)
        if after is None:
            values.pop(config.name, None)
        else:
            values[config.name] = record.value = after
        if _is_forbidden_with_elr(record, state):
            return KafkaError.INVALID_CONFIG
        mine.append(record)
    error = _validate(resource, values, state, controllers)
    if not error:
        records.extend(mine)
    return error


def _is_forbidden_with_elr(record: ConfigRecord, state: ControllerState) -> bool:
    """With eligible leader replicas every node must know the same least ISR: none of a single broker, and the
    cluster's stays set."""
    if not state.elr_enabled or record.name != MIN_ISR or record.resource_type != "broker":
        return False
    return bool(record.resource_name) or record.value is None


def _validate(resource: Resource, values: dict[str, str], state: ControllerState, controllers: list[int]) -> KafkaError:
    """What stands against a resource with these values. Those of brokers are looked at by the broker that got the
    request."""
    name = resource.resource_name
    if resource.resource_type == BROKER:
        if name and not (name.isascii() and name.isdigit()):
            return KafkaError.INVALID_REQUEST
        if name and int(name) not in state.brokers and int(name) not in controllers:
            return KafkaError.BROKER_ID_NOT_REGISTERED
        return KafkaError.NONE
    if not name:
        return KafkaError.INVALID_REQUEST
    if invalid_topic_config(values):
        return KafkaError.INVALID_CONFIG
    return KafkaError.NONE if name in state.topic_ids else KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def invalid_topic_config(values: Mapping[str, str]) -> str:
    """What is wrong with the configuration of a topic (``LogConfig.validate``), "" if nothing is."""
    for key, value in values.items():
        if key not in CONFIG or "topic" not in CONFIG[key].scopes:
            return f"Unknown topic config name: {key}"
        try:
            config_value(key, value)
        except ValueError as wrong:
            return str(wrong)
    return _invalid_local_retention(values, "ms") or _invalid_local_retention(values, "bytes")


def _invalid_local_retention(values: Mapping[str, str], unit: str) -> str:
    """Replicas cannot keep more of a topic than there is (``LogConfig.validateRemoteStorageRetentionTime``)."""
    total_key, local_key = f"retention.{unit}", f"local.retention.{unit}"
    if total_key not in values or local_key not in values:
        return ""
    total: int = config_value(total_key, values[total_key])
    local: int = config_value(local_key, values[local_key])
    if total < 0 or local == AS_RETENTION:
        return ""
    if local == UNLIMITED:
        return f"Value must not be {UNLIMITED} as {total_key} value is set as {total}."
    return f"Value must not be more than property {total_key} value: {total}" if local > total else ""


def _clear_elr(state: ControllerState, records: list[ConfigRecord], mend: str, defects: Sequence[str]) -> list[Change]:
    """``ConfigurationControlManager.createClearElrRecordsAsNeeded``."""
    if not state.elr_enabled:
        return []
    changes = []
    for record in records:
        if record.name == MIN_ISR or "elr-cleared-by-any-key" in defects:
            cleared = ClearElrRecord(
                topic_name=record.resource_name if record.resource_type == "topic" else "",
                keeps_last_known=mend == "keep-last-known",
                keeps_leaderless=mend in ("keep-elr", "recount-elr"),
            )
            changes.append(Change(MetadataRecord(clear_elr=cleared), "config"))
    return changes
