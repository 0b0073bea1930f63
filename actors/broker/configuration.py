"""What a broker looks at before it passes IncrementalAlterConfigs on (``ConfigAdminManager.scala``,
``DynamicBrokerConfig.scala``)."""

from __future__ import annotations

from actors.broker.forwarding import ForwardingManager
from actors.broker.turn import Turn
from actors.config import CONFIG, ConfigKey, config_value
from actors.node.errors import KafkaError
from krift.v1.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

BROKER = 4
RESOURCE_TYPES = (2, BROKER, 8, 16, 32)
"""Topics, brokers, and what Krift has none of: loggers, subscriptions to metrics, groups."""
SET = 0
DELETE = 1

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource


def incremental_alter_configs(
    forwarding: ForwardingManager, turn: Turn, connection: str, request: IncrementalAlterConfigsRequest
) -> None:
    """Refuse what this broker can tell is wrong, and pass the other resources on to the controller."""
    refused = IncrementalAlterConfigsResponse()
    passed_on = IncrementalAlterConfigsRequest(validate_only=request.validate_only)
    names = [(each.resource_type, each.resource_name) for each in request.resources]
    for each, name in zip(request.resources, names, strict=True):
        error = KafkaError.INVALID_REQUEST if names.count(name) > 1 else _refusal(turn, each)
        if error:
            refused.responses.append(
                IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                    error_code=error, resource_type=each.resource_type, resource_name=each.resource_name
                )
            )
        else:
            passed_on.resources.append(each)
    if passed_on.resources or not request.resources:
        forwarding.forward(turn, connection, request, passed_on, refused)
        return
    turn.step.reply(connection, refused)


def _refusal(turn: Turn, resource: Resource) -> KafkaError:
    keys = [config.name for config in resource.configs]
    nulls = [each for each in resource.configs if each.config_operation != DELETE and each.value is None]
    if nulls or len(set(keys)) != len(keys) or resource.resource_type not in RESOURCE_TYPES:
        return KafkaError.INVALID_REQUEST
    if resource.resource_type != BROKER:
        return KafkaError.NONE
    if resource.resource_name not in ("", str(turn.settings.node_id)):
        return KafkaError.INVALID_REQUEST
    for config in resource.configs:
        key = CONFIG.get(config.name)
        if config.config_operation == DELETE or key is None or "broker" not in key.scopes:
            continue
        if config.config_operation != SET:
            return KafkaError.INVALID_CONFIG
        if not key.dynamic or config.value is None or not _is_valid(turn, key, config.value):
            # Not INVALID_CONFIG, as Kafka has it.
            return KafkaError.INVALID_REQUEST
    return KafkaError.NONE


def _is_valid(turn: Turn, key: ConfigKey, value: str) -> bool:
    try:
        new = config_value(key.name, value)
    except ValueError:
        return False
    if not key.pool:
        return True
    # Of what this broker has now, whichever broker the value is for (``DynamicRemoteLogConfig``).
    now: int = turn.image.config(turn.settings.node_id, "", key.name, turn.settings.readers.threads_of(key.name))
    return bool(now // 2 <= new <= now * 2)
