"""The remote store: an object store with the calls of Kafka's RemoteStorageManager (``RemoteStorageManager.java``).

It keeps each object as a file of its own, and answers a copy when the object is durable. Its faults are rules that its
runtime hands to it; they outlive its processes, as a bad day of a storage service does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from actors.log.segment_objects import LOG, OBJECTS
from actors.node.api_versions import api_versions_response, speaks
from actors.node.effects import AnyEffect
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.events import (
    AnyEvent,
    Chosen,
    Disconnected,
    DiskImage,
    Invoked,
    Received,
    Started,
    StoreRule,
    StoreRulesSet,
    Synced,
    TimedOut,
)
from actors.node.files import Files
from actors.node.messages import API_NAMES, AnyRequest, Api, api_of
from actors.node.spec import ClusterSpec, NodeSpec, topic_partition
from actors.node.step import Step
from actors.trace.events import StoreObject
from actors.versions import REMOTE_STORE_APIS
from krift.v1.api_versions import ApiVersionsRequest
from krift.v1.remote_storage import (
    CopyLogSegmentDataRequest,
    CopyLogSegmentDataResponse,
    DeleteLogSegmentDataResponse,
    FetchIndexRequest,
    FetchIndexResponse,
    FetchLogSegmentRequest,
    FetchLogSegmentResponse,
    ListLogSegmentsRequest,
    ListLogSegmentsResponse,
    RemoteLogSegmentId,
)

CERTAIN = 1_000_000
DELETED_KEPT = 1000
"""Deleted objects that a stale listing may still show."""


class StoredObject(msgspec.Struct, frozen=True):
    """An object, and when it was stored: -1 before this process began."""

    segment: RemoteLogSegmentId
    object: str
    data: bytes
    stored_ms: int = -1


class Ticket(msgspec.Struct):
    """A request that is being served. segment: that it is about; of a list, the partition. draws: what decides, by
    rule, whether it is hit; waits: the rules whose draw has not come."""

    connection: str
    request: Any
    segment: RemoteLogSegmentId
    draws: dict[str, int] = {}
    waits: list[str] = []


class Storing(msgspec.Struct, frozen=True):
    """A copy that is answered when the write of that number is durable."""

    number: int
    connection: str


class RemoteStoreNode(msgspec.Struct):
    """objects: by the names of their files. deleted: name -> what it was, and when it was deleted, the last ones.
    tickets: requests that are being served. storing: file -> copies that wait for it. refused: segments of which only
    the log data is stored (half-copied)."""

    spec: NodeSpec = NodeSpec("", "remote-store", -1, "", ClusterSpec("", [], []))
    files: Files = msgspec.field(default_factory=Files)
    objects: dict[str, StoredObject] = {}
    deleted: dict[str, tuple[StoredObject, int]] = {}
    rules: list[StoreRule] = []
    tickets: dict[int, Ticket] = {}
    taken: int = 0
    storing: dict[str, list[Storing]] = {}
    refused: dict[str, str] = {}

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """See ``actors.node.contract.Node``."""
        step = Step(now_ms, self.spec.defects)
        match event:
            case Started():
                self.spec = event.spec
                self._load(event.disk)
            case StoreRulesSet():
                self.rules = list(event.rules)
                in_force = {rule.id for rule in self.rules}
                self.refused = {segment: rule for segment, rule in self.refused.items() if rule in in_force}
            case Received():
                self._receive(step, event.connection, event.request)
            case Chosen():
                self._draw(step, event)
            case TimedOut():
                self._serve(step, self.tickets.pop(int(event.timer.partition("/")[2])))
            case Synced():
                self._synced(step, event)
            case Disconnected():
                self._forget(step, event.connection)
            case Invoked():
                step.complete(event.operation, {"error": f"a remote store knows no operation {event.kind}"})
            case _:
                pass  # it asks nobody, and reads no wall clock
        return step.effects

    def _load(self, disk: DiskImage) -> None:
        for name, entries in disk.items():
            if entries:
                topic, topic_id, partition, segment_id, kind = name.split("/")
                segment = RemoteLogSegmentId(
                    topic=topic, topic_id=topic_id, partition=int(partition), segment_id=segment_id
                )
                self.objects[name] = StoredObject(segment, kind, entries[0])

    # ---- the door ----------------------------------------------------------------------------------------

    def _receive(self, step: Step, connection: str, request: AnyRequest) -> None:
        api = api_of(request)
        hit = [rule for rule in self.rules if not rule.apis or API_NAMES[api] in rule.apis]
        if api not in REMOTE_STORE_APIS or any(rule.kind == "unavailable" for rule in hit):
            step.close(connection)
        elif isinstance(request, ApiVersionsRequest):
            step.reply(connection, api_versions_response(self.spec, REMOTE_STORE_APIS, request))
        elif not speaks(self.spec.versions, request):
            step.close(connection)
        elif (segment := segment_of(request)) is None:
            step.reply(connection, error_response(request, KafkaError.INVALID_REQUEST))
        else:
            self.taken += 1
            drawn = [rule.id for rule in hit if rule.kind in ("failing", "half-copied") and rule.chance_ppm < CERTAIN]
            ticket = self.tickets[self.taken] = Ticket(connection, request, segment, waits=drawn)
            for rule in drawn:
                step.choose(f"{self.taken}/{rule}", CERTAIN)
            if not drawn:
                self._delay(step, self.taken, ticket)

    def _draw(self, step: Step, event: Chosen) -> None:
        number, _, rule = event.choice.partition("/")
        ticket = self.tickets.get(int(number))
        if ticket is None:
            return
        ticket.draws[rule] = event.value
        ticket.waits.remove(rule)
        if not ticket.waits:
            self._delay(step, int(number), ticket)

    def _delay(self, step: Step, number: int, ticket: Ticket) -> None:
        """Serve it after the time that a slow store takes."""
        slow = [rule for rule in self._hitting(ticket) if rule.kind == "slow"]
        if not slow:
            self._serve(step, self.tickets.pop(number))
            return
        low, high = sum(rule.delay_min_us for rule in slow), sum(rule.delay_max_us for rule in slow)
        step.set_timer(f"serve/{number}", low // 1000, high // 1000)

    def _hitting(self, ticket: Ticket) -> list[StoreRule]:
        """The rules that hit a request, as drawn; one that came later hits it as well if it needs no draw."""
        name = API_NAMES[api_of(ticket.request)]
        return [
            rule
            for rule in self.rules
            if (not rule.apis or name in rule.apis)
            and (rule.chance_ppm >= CERTAIN or ticket.draws.get(rule.id, CERTAIN) < rule.chance_ppm)
        ]

    def _forget(self, step: Step, connection: str) -> None:
        """Whoever asked is gone: what was not begun is not done."""
        for number in [number for number, ticket in self.tickets.items() if ticket.connection == connection]:
            del self.tickets[number]
            step.cancel_timer(f"serve/{number}")

    # ---- requests ----------------------------------------------------------------------------------------

    def _serve(self, step: Step, ticket: Ticket) -> None:
        hitting = self._hitting(ticket)
        if any(rule.kind == "unavailable" for rule in hitting):
            step.close(ticket.connection)
        elif any(rule.kind == "failing" for rule in hitting):
            step.reply(ticket.connection, error_response(ticket.request, KafkaError.KAFKA_STORAGE_ERROR))
        else:
            HANDLERS[api_of(ticket.request)](self, step, ticket)

    def _copy(self, step: Step, ticket: Ticket) -> None:
        request: CopyLogSegmentDataRequest = ticket.request
        segment_id, name = ticket.segment.segment_id, file_of(ticket.segment, request.object)
        half = [rule for rule in self._hitting(ticket) if rule.kind == "half-copied"]
        if request.object == LOG and half:
            self.refused[segment_id] = half[0].id
        elif segment_id in self.refused:
            step.reply(ticket.connection, CopyLogSegmentDataResponse(error_code=KafkaError.KAFKA_STORAGE_ERROR))
            return
        stored = StoredObject(ticket.segment, request.object, request.data, step.now_ms)
        self.objects[name] = stored
        self.deleted.pop(name, None)
        number = self.files.replace(step, name, request.data)
        self.files.sync(step, name)
        self.storing.setdefault(name, []).append(Storing(number, ticket.connection))
        _record(step, stored, "stored")

    def _synced(self, step: Step, event: Synced) -> None:
        waiting = self.storing.pop(event.file, [])
        for each in waiting:
            if each.number <= event.upto:
                step.reply(each.connection, CopyLogSegmentDataResponse())
        left = [each for each in waiting if each.number > event.upto]
        if left:
            self.storing[event.file] = left

    def _fetch(self, step: Step, ticket: Ticket) -> None:
        request: FetchLogSegmentRequest = ticket.request
        found = self.objects.get(file_of(ticket.segment, LOG))
        if found is None:
            response = FetchLogSegmentResponse(error_code=KafkaError.RESOURCE_NOT_FOUND)
        elif not 0 <= request.start_position <= len(found.data):
            response = FetchLogSegmentResponse(error_code=KafkaError.INVALID_REQUEST)
        else:
            end = len(found.data) if request.end_position < 0 else request.end_position + 1
            response = FetchLogSegmentResponse(data=found.data[request.start_position : end])
        step.reply(ticket.connection, response)

    def _fetch_index(self, step: Step, ticket: Ticket) -> None:
        request: FetchIndexRequest = ticket.request
        found = self.objects.get(file_of(ticket.segment, request.object))
        if found is None:
            response = FetchIndexResponse(error_code=KafkaError.RESOURCE_NOT_FOUND)
        else:
            response = FetchIndexResponse(data=found.data)
        step.reply(ticket.connection, response)

    def _delete(self, step: Step, ticket: Ticket) -> None:
        for name, _ in self._listed(step, ticket):
            found = self.objects.pop(name, None)
            if found is None:
                continue
            self.deleted[name] = (found, step.now_ms)
            while len(self.deleted) > DELETED_KEPT:
                del self.deleted[next(iter(self.deleted))]
            # Whoever copied it is not waited for: the copy is as if it had come before.
            for each in self.storing.pop(name, []):
                step.reply(each.connection, CopyLogSegmentDataResponse(error_code=KafkaError.KAFKA_STORAGE_ERROR))
            self.files.delete(step, name)
            _record(step, found, "deleted")
        step.reply(ticket.connection, DeleteLogSegmentDataResponse())

    def _list(self, step: Step, ticket: Ticket) -> None:
        response = ListLogSegmentsResponse()
        for _, found in self._listed(step, ticket):
            response.objects.append(
                ListLogSegmentsResponse.SegmentObject(
                    segment_id=found.segment.segment_id, object=found.object, size=len(found.data)
                )
            )
        step.reply(ticket.connection, response)

    def _listed(self, step: Step, ticket: Ticket) -> list[tuple[str, StoredObject]]:
        """The objects of a partition, or of one of its segments, as the store lists them now, by name."""
        stale_ms = max(
            (rule.delay_max_us // 1000 for rule in self._hitting(ticket) if rule.kind == "stale-listing"), default=0
        )
        as_of_ms = step.now_ms - stale_ms
        known = dict(self.objects)
        if stale_ms:
            known = {name: each for name, each in known.items() if each.stored_ms <= as_of_ms}
            known |= {
                name: each
                for name, (each, deleted_ms) in self.deleted.items()
                if deleted_ms > as_of_ms and each.stored_ms <= as_of_ms
            }
        asked = ticket.segment
        return [
            (name, known[name])
            for name in sorted(known)
            if known[name].segment.topic_id == asked.topic_id
            and known[name].segment.partition == asked.partition
            and asked.segment_id in ("", known[name].segment.segment_id)
        ]


def segment_of(request: Any) -> RemoteLogSegmentId | None:
    """The segment that a request is about, of a list the partition; None: it names nothing that a store can have."""
    if isinstance(request, ListLogSegmentsRequest):
        return RemoteLogSegmentId(topic_id=request.topic_id, partition=request.partition, segment_id=request.segment_id)
    segment: RemoteLogSegmentId | None = request.segment
    if segment is None or not (segment.topic and segment.topic_id and segment.segment_id):
        return None
    if any("/" in part for part in (segment.topic, segment.topic_id, segment.segment_id)):
        return None
    return segment if getattr(request, "object", LOG) in OBJECTS else None


def file_of(segment: RemoteLogSegmentId, kind: str) -> str:
    """The name of an object's file."""
    return f"{segment.topic}/{segment.topic_id}/{segment.partition}/{segment.segment_id}/{kind}"


def _record(step: Step, stored: StoredObject, phase: Any) -> None:
    segment = stored.segment
    tp = topic_partition(segment.topic, segment.partition)
    step.record(StoreObject(tp, segment.topic_id, segment.segment_id, stored.object, phase, len(stored.data)))


HANDLERS: dict[Api, Callable[[RemoteStoreNode, Step, Ticket], None]] = {
    Api.CopyLogSegmentData: lambda node, *given: node._copy(*given),
    Api.FetchLogSegment: lambda node, *given: node._fetch(*given),
    Api.FetchIndex: lambda node, *given: node._fetch_index(*given),
    Api.DeleteLogSegmentData: lambda node, *given: node._delete(*given),
    Api.ListLogSegments: lambda node, *given: node._list(*given),
}
"""Every API that the store serves, but for ApiVersions."""
