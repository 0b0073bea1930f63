"""Krift's sim as a cluster that the script can ask: virtual time goes on while the script waits, and stands still else.

The world runs in a thread of its own. Its conductor hands control to the script and back, so one of the two is always
at rest, and a run is the same each time.
"""

from __future__ import annotations

import base64
import threading
import uuid
from collections.abc import Sequence
from functools import cache
from typing import Any, get_args, get_type_hints

from actors import nodes
from actors.control import AnyAction, Barrier, Crash, Invoke, Restart
from actors.node.effects import AnyEffect, Call, Complete
from actors.node.events import Answered, AnyEvent, Failed, Invoked
from actors.node.messages import REQUESTS, AnyResponse, Api, check_fields
from actors.node.spec import NodeSpec, Role, node_name
from actors.sim.world import World
from actors.trace.events import Stamped
from chaos.scenario.loader import load_value
from chaos.scenario.resolve import resolve
from krift.v1.message import Message
from krift.v1.records import Record, RecordBatch
from tests.real_kafka.cluster import BROKERS, CONFIG, CONTROLLERS, Batch, CannotBeAsked, Closed, Fields, Topic, wait
from tests.real_kafka.requests import metadata

GATEWAY = "gateway"
PATIENCE_MS = 60_000
LIMIT_US = 3_600_000_000


class Gateway:
    """A node that makes the script's requests."""

    def __init__(self) -> None:
        self.operations: dict[int, str] = {}

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Make a call, or tell what came of one."""
        match event:
            case Invoked(operation, "call", arguments):
                number = int(operation)
                self.operations[number] = operation
                return [Call(number, arguments["peer"], arguments["lane"], arguments["request"], PATIENCE_MS)]
            case Answered(call, response):
                return [Complete(self.operations.pop(call), {"response": response})]
            case Failed(call, _):
                return [Complete(self.operations.pop(call), {})]
        return []


class Handover:
    """The conductor: at each turn it lets the script go on until that waits again."""

    finished = False
    barriers: Sequence[Barrier] = ()

    def __init__(self) -> None:
        self.now_us = 0
        self.wake_us: int | None = None
        self.actions: list[AnyAction] = []
        self.results: dict[str, dict[str, Any]] = {}
        self.awaited = ""
        self.for_script, self.for_world = threading.Semaphore(0), threading.Semaphore(0)
        self.over = False

    def begin(self) -> list[AnyAction]:
        """The script may begin."""
        return self._turn(0)

    def next_time_us(self) -> int | None:
        """When the script wants to go on at the latest."""
        return self.wake_us

    def on_time(self, now_us: int) -> list[AnyAction]:
        """The script has waited for long enough."""
        return self._turn(now_us)

    def on_event(self, now_us: int, event: Stamped) -> list[AnyAction]:
        """The script does not look into the trace."""
        return []

    def on_complete(self, now_us: int, node: str, operation: str, result: dict[str, Any]) -> list[AnyAction]:
        """A request is over, perhaps the one that the script waits for."""
        self.results[operation] = result
        return self._turn(now_us) if operation == self.awaited else []

    def end(self, now_us: int) -> list[AnyAction]:
        """Nothing to end."""
        return []

    def _turn(self, now_us: int) -> list[AnyAction]:
        self.now_us = now_us
        self.for_script.release()
        self.for_world.acquire()
        actions, self.actions = self.actions, []
        return actions

    def pause(self, until_us: int | None, operation: str = "") -> None:
        """For the script: let time go on, until then or until a request is over."""
        self.wake_us, self.awaited = until_us, operation
        self.for_world.release()
        self.for_script.acquire()
        if self.over:
            raise AssertionError("the run ended before the script did")


class SimCluster:
    """See the module. Each section has a cluster of its own."""

    cluster_id = ""

    def __init__(self, seed: int = 1) -> None:
        self.seed = seed
        self.lanes = self.calls = 0
        self.running: dict[int, bool] = {}
        self.handover = Handover()
        self.failures: list[Any] = []
        self._thread: threading.Thread | None = None

    def begin(self, topics: dict[str, Topic]) -> None:
        """Start the world, with these topics."""
        topics = topics or {"unused": Topic([[1, 2, 3]])}
        plan = resolve(load_value(_scenario(topics)), seed=self.seed)
        servers = [node for node in plan.nodes if node.role in ("controller", "broker")]
        self.cluster_id = plan.cluster.cluster_id
        self.running = {node.node_id: True for node in servers}
        gateway = NodeSpec(GATEWAY, "admin", -1, "", plan.cluster, servers[-1].config, plan.features, plan.versions)
        world = World([*servers, gateway], self.handover, self.seed, "beside-kafka", new_node=_new_node)
        self._thread = threading.Thread(target=self._run, args=(world,), daemon=True)
        self._thread.start()
        self.handover.for_script.acquire()
        for name, topic in topics.items():
            assert wait(self, lambda name=name, topic=topic: _is_up(self, name, len(topic.replicas[0])))
        self.sleep(500)

    def _run(self, world: World) -> None:
        self.failures = world.run(LIMIT_US).failures
        self.handover.over = True
        self.handover.for_script.release()

    def end(self) -> None:
        """Stop the world; a node that failed fails the test."""
        if self._thread is not None:
            self.handover.finished = True
            self.handover.for_world.release()
            self._thread.join()
        assert not self.failures, self.failures[0].traceback

    # ---- what the script asks for --------------------------------------------------------------------------

    def connect(self, node: int) -> SimConnection:
        """A new connection, as soon as it is used."""
        if not self.running[node]:
            raise Closed
        self.lanes += 1
        return SimConnection(self, node_name(node), f"lane-{self.lanes}")

    def now_ms(self) -> int:
        """Virtual time."""
        return self.handover.now_us // 1000

    def wall_ms(self) -> int:
        """The clocks of the nodes are right."""
        return self.now_ms()

    def sleep(self, ms: int) -> None:
        """Let virtual time go on."""
        self.handover.pause(self.handover.now_us + ms * 1000)

    def kill(self, *nodes: int) -> None:
        """Crash processes; their disks stay."""
        for node in nodes:
            self.running[node] = False
            self.handover.actions.append(Crash(node_name(node)))
        self.sleep(0)

    def start(self, *nodes: int) -> None:
        """Start processes."""
        for node in nodes:
            self.running[node] = True
            self.handover.actions.append(Restart(node_name(node)))


class SimPending:
    """A call of the gateway."""

    def __init__(self, cluster: SimCluster, operation: str) -> None:
        self.cluster, self.operation = cluster, operation

    def get(self) -> Any:
        """Let time go on until the call is over."""
        handover = self.cluster.handover
        if self.operation not in handover.results:
            handover.pause(handover.now_us + 2 * PATIENCE_MS * 1000, self.operation)
        response = handover.results.pop(self.operation).get("response")
        if response is None:
            raise Closed
        return _nested_votes(_with_parts(response))


class SimConnection:
    """A connection of the gateway to a server."""

    def __init__(self, cluster: SimCluster, peer: str, lane: str) -> None:
        self.cluster, self.peer, self.lane = cluster, peer, lane

    def send(self, api: str, version: int, fields: Fields) -> SimPending:
        """Have the gateway make the call."""
        kind = Api[api]
        request: Any = REQUESTS[kind]()
        _fill(request, _flat_votes(fields) if kind == Api.Vote else fields)
        if kind == Api.Metadata and fields["topics"] is None:
            request.all_topics = True
        if kind == Api.ElectLeaders and fields["topic_partitions"] is None:
            request.all_partitions = True
        check_fields(request, version)
        return self._call(request, kind, version)

    def _call(self, request: Any, kind: Api, version: int) -> SimPending:
        request.header.api_key, request.header.api_version, request.header.client_id = int(kind), version, "script"
        cluster = self.cluster
        cluster.calls += 1
        operation = str(cluster.calls)
        arguments = {"peer": self.peer, "lane": self.lane, "request": request}
        cluster.handover.actions.append(Invoke(GATEWAY, operation, "call", arguments))
        return SimPending(cluster, operation)

    def unsupported(self, api: str, version: int) -> str:
        """See Connection."""
        answer = self._call(REQUESTS[Api[api]](), Api[api], version).get()
        return f"error={answer.error_code} apis={len(answer.api_keys)}"


def _new_node(role: Role) -> Any:
    return Gateway() if role == "admin" else nodes.new_node(role)


def _is_up(cluster: SimCluster, topic: str, replicas: int) -> bool:
    answer = metadata(cluster.connect(1), topic).topics[0]
    return not answer.error_code and all(
        len(data.isr_nodes) == replicas and data.leader_id > 0 for data in answer.partitions
    )


def _scenario(topics: dict[str, Topic]) -> dict[str, Any]:
    named = {
        name: {"replicas": topic.replicas, "config": {key: int(value) for key, value in topic.config.items()}}
        for name, topic in topics.items()
    }
    return {
        "schema": "krift/v1",
        "name": "beside-kafka",
        "about": "Asked what Kafka is asked.",
        "duration": "1h",
        "cluster": {"voters": len(CONTROLLERS), "brokers": len(BROKERS), "topics": named, "config": CONFIG},
        "workload": [{"consumer": {"topic": next(iter(named))}}],
    }


# ---- messages --------------------------------------------------------------------------------------------------


@cache
def _types(kind: type) -> dict[str, Any]:
    """Of a message's fields."""
    return get_type_hints(kind)


def _fill(message: Any, fields: Fields) -> None:
    """Set a message's fields from plain data; AttributeError for one that it lacks, None leaves its default."""
    kinds = _types(type(message))
    for name, value in fields.items():
        if name == "records":
            message.records = _batch(value)
        elif value is None:
            getattr(message, name)
        elif isinstance(value, dict):
            setattr(message, name, _made(kinds[name], value))
        elif isinstance(value, list):
            for item in value:
                getattr(message, name).append(_made(kinds[name], item) if isinstance(item, dict) else item)
        elif isinstance(value, uuid.UUID):
            setattr(message, name, base64.urlsafe_b64encode(value.bytes).decode().rstrip("="))
        else:
            setattr(message, name, value)


def _made(annotation: Any, fields: Fields) -> Any:
    """A part of a message, of the one class in the annotation of its field."""
    part = next(kind for kind in get_args(annotation) if kind is not type(None))()
    _fill(part, fields)
    return part


def _batch(batch: Batch | list[Batch] | None) -> RecordBatch | None:
    if batch is None:
        return None
    if isinstance(batch, list) or batch.corrupt:
        raise CannotBeAsked
    return RecordBatch(
        base_offset=batch.base_offset,
        is_control=batch.is_control,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        records=[
            Record(timestamp_ms=batch.timestamp(index, 0), value=value) for index, value in enumerate(batch.values)
        ],
    )


def _flat_votes(fields: Fields) -> Fields:
    """Krift's Vote is of the one partition that there is."""
    inner = {key: value for key, value in fields["topics"][0]["partitions"][0].items() if key != "partition_index"}
    return {key: value for key, value in fields.items() if key != "topics"} | inner


def _with_parts(message: Any) -> Any:
    """A message as Kafka has it: a part that is absent has defaults."""
    if isinstance(message, list):
        return [_with_parts(each) for each in message]
    if not isinstance(message, Message):
        return message
    parts: dict[str, Any] = {}
    for name, annotation in _types(type(message)).items():
        value, kinds = getattr(message, name), [kind for kind in get_args(annotation) if kind is not type(None)]
        absent = value is None and kinds and issubclass(kinds[0], Message)
        parts[name] = kinds[0]() if absent else _with_parts(value)
    return type(message)(**parts)


class _Nested:
    """A flat answer to Vote as Kafka has it, with a topic and a partition."""

    def __init__(self, response: Any) -> None:
        self.error_code = response.error_code
        self.leader_id, self.leader_epoch = response.leader_id, response.leader_epoch
        self.vote_granted = response.vote_granted
        self.topics: list[_Nested] = []
        self.partitions = [self]


def _nested_votes(response: AnyResponse) -> Any:
    if not hasattr(response, "partition_error_code"):
        return response
    whole, inner = _Nested(response), _Nested(response)
    inner.error_code = response.partition_error_code  # type: ignore[attr-defined]
    whole.topics = [] if whole.error_code else [inner]
    return whole
