"""Verbs of the remote store's transcripts.

The store runs alone; a verb sends it a request on the connection ``on`` and prints what comes of it: events, the
answer, a connection that is closed. Segments are named s1, s2, ..., all of orders-0 unless ``tp`` says otherwise.
"""

from __future__ import annotations

from typing import Any

from actors.control import CERTAIN
from actors.node.effects import SetTimer
from actors.node.errors import error_name
from actors.node.events import AnyEvent, Disconnected, Invoked, Received, Started, StoreRule, StoreRulesSet, TimedOut
from actors.node.messages import AnyResponse, api_of
from actors.node.spec import REMOTE_STORE, REMOTE_STORE_ID, ClusterSpec, NodeSpec, split_topic_partition
from actors.remote_store.remote_store_node import RemoteStoreNode
from actors.trace.events import StoreObject, TraceEvent
from actors.versions import default_ranges
from krift.v1.api_versions import ApiVersionsRequest, ApiVersionsResponse
from krift.v1.fetch import FetchRequest
from krift.v1.remote_storage import (
    CopyLogSegmentDataRequest,
    DeleteLogSegmentDataRequest,
    FetchIndexRequest,
    FetchIndexResponse,
    FetchLogSegmentRequest,
    FetchLogSegmentResponse,
    ListLogSegmentsRequest,
    ListLogSegmentsResponse,
    RemoteLogSegmentId,
)
from tests.datadriven.runner import Command
from tests.harness.host import Host


class Environment(Host):
    """One transcript's store. ``draws``: the numbers that are drawn next."""

    def __init__(self) -> None:
        super().__init__()
        self.node = RemoteStoreNode()
        self.lines: list[str] = []
        self.now_ms = 0
        self.incarnation = -1
        self.draws: list[int] = []
        self.rules: dict[str, StoreRule] = {}
        self.owed: list[AnyEvent] = []

    # ---- the host ----------------------------------------------------------------------------------------

    def owe(self, event: AnyEvent) -> None:
        self.owed.append(event)

    def drawn(self, n: int) -> int:
        return self.draws.pop(0)

    def delay_ms(self, timer: SetTimer) -> int:
        self.lines.append(f"serves it in {timer.min_ms} to {timer.max_ms} ms")
        return timer.max_ms

    def recorded(self, event: TraceEvent) -> None:
        if isinstance(event, StoreObject):
            self.lines.append(f"{event.phase} {event.object} of {event.segment}, {event.tp} ({event.size} bytes)")

    def replied(self, connection: str, response: AnyResponse | None) -> None:
        self.lines.append(f"-> {connection}: {_told(response)}")

    def closed(self, connection: str) -> None:
        self.lines.append(f"closed {connection}")

    def completed(self, complete: Any) -> None:
        self.lines.append(f"{complete.operation}: {complete.result}")

    def _take(self, event: AnyEvent) -> None:
        self.owed.append(event)
        while self.owed:
            self.carry_out(self.node.step(self.now_ms, self.owed.pop(0)), self.now_ms)

    def _told(self) -> str:
        lines, self.lines = self.lines, []
        return "\n".join(lines)

    def _ask(self, command: Command, request: Any, version: int = 0) -> str:
        request.header.api_key = int(api_of(request))
        request.header.api_version = version
        self._take(Received(command.text("on", "b1"), request))
        return self._told()

    # ---- verbs -------------------------------------------------------------------------------------------

    def verb_start(self, command: Command) -> str:
        """start: a process begins with what the disk has, and with the rules in force."""
        self.incarnation += 1
        self.node = RemoteStoreNode()
        spec = NodeSpec(
            REMOTE_STORE,
            "remote-store",
            REMOTE_STORE_ID,
            "d",
            ClusterSpec("krift", [101], [1], remote_store=True),
            versions=default_ranges(),
        )
        self._take(Started(spec, self.incarnation, self.image()))
        if self.rules:
            self._take(StoreRulesSet(list(self.rules.values())))
        return f"objects: {len(self.node.objects)}"

    def verb_crash(self, command: Command) -> str:
        """crash: the process ends; the disk stays."""
        self.timers.clear()
        self.written.clear()
        return ""

    def verb_rule(self, command: Command) -> str:
        """rule ID KIND [by=(low,high)] [chance=PPM] [apis=(A,B)]: a rule is in force from now on."""
        rule, kind = command.words
        low, high = command.numbers("by", "(0,0)")
        self.rules[rule] = StoreRule(
            rule,
            REMOTE_STORE,
            kind,  # type: ignore[arg-type]
            low * 1000,
            high * 1000,
            command.number("chance", CERTAIN),
            command.many("apis", "()"),
        )
        self._take(StoreRulesSet(list(self.rules.values())))
        return self._told()

    def verb_mend(self, command: Command) -> str:
        """mend ID: the rule is over."""
        del self.rules[command.words[0]]
        self._take(StoreRulesSet(list(self.rules.values())))
        return self._told()

    def verb_draw(self, command: Command) -> str:
        """draw N...: what is drawn next, of a million."""
        self.draws += [int(word) for word in command.words]
        return ""

    def verb_copy(self, command: Command) -> str:
        """copy SEGMENT OBJECT... [data=TEXT]: CopyLogSegmentData, once for each object."""
        segment, *objects = command.words
        data = command.text("data", "abcdefghij").encode()
        return "\n".join(
            self._ask(command, CopyLogSegmentDataRequest(segment=_segment(command, segment), object=each, data=data))
            for each in objects
        )

    def verb_fetch(self, command: Command) -> str:
        """fetch SEGMENT [from=0] [to=-1]: FetchLogSegment, from one byte to another."""
        request = FetchLogSegmentRequest(segment=_segment(command, command.words[0]))
        request.start_position, request.end_position = command.number("from", 0), command.number("to", -1)
        return self._ask(command, request)

    def verb_index(self, command: Command) -> str:
        """index SEGMENT OBJECT: FetchIndex."""
        segment, kind = command.words
        return self._ask(command, FetchIndexRequest(segment=_segment(command, segment), object=kind))

    def verb_delete(self, command: Command) -> str:
        """delete SEGMENT: DeleteLogSegmentData."""
        return self._ask(command, DeleteLogSegmentDataRequest(segment=_segment(command, command.words[0])))

    def verb_list(self, command: Command) -> str:
        """list [SEGMENT]: ListLogSegments."""
        topic, partition = split_topic_partition(command.text("tp", "orders-0"))
        request = ListLogSegmentsRequest(topic_id=f"id-of-{topic}", partition=partition)
        request.segment_id = command.words[0] if command.words else ""
        return self._ask(command, request)

    def verb_versions(self, command: Command) -> str:
        """versions: ApiVersions."""
        return self._ask(command, ApiVersionsRequest())

    def verb_kafka(self, command: Command) -> str:
        """kafka: a Fetch as brokers serve it."""
        return self._ask(command, FetchRequest(), 12)

    def verb_newer(self, command: Command) -> str:
        """newer: a list in a version that there is not."""
        return self._ask(command, ListLogSegmentsRequest(), 1)

    def verb_nameless(self, command: Command) -> str:
        """nameless: a copy that names no segment, and one whose segment has a slash in its name."""
        none = self._ask(command, CopyLogSegmentDataRequest(object="LOG"))
        slash = RemoteLogSegmentId(topic="orders", topic_id="../..", segment_id="s1")
        return "\n".join([none, self._ask(command, CopyLogSegmentDataRequest(segment=slash, object="LOG"))])

    def verb_shutdown(self, command: Command) -> str:
        """shutdown: an operation that no store knows."""
        self._take(Invoked("op1", "shutdown"))
        return self._told()

    def verb_leave(self, command: Command) -> str:
        """leave CONNECTION: it breaks."""
        self._take(Disconnected(command.words[0]))
        return f"timers: {sorted(self.timers)}"

    def verb_wait(self, command: Command) -> str:
        """wait MS: time passes; timers fire."""
        until = self.now_ms + int(command.words[0])
        while due := self.next_timer(until):
            self.now_ms, name = due
            del self.timers[name]
            self._take(TimedOut(name))
        self.now_ms = until
        return self._told()


def _segment(command: Command, name: str) -> RemoteLogSegmentId:
    topic, partition = split_topic_partition(command.text("tp", "orders-0"))
    return RemoteLogSegmentId(topic=topic, topic_id=f"id-of-{topic}", partition=partition, segment_id=name)


def _told(response: Any) -> str:
    if response.error_code:
        return error_name(response.error_code)
    match response:
        case FetchLogSegmentResponse() | FetchIndexResponse():
            return repr(response.data.decode())
        case ListLogSegmentsResponse():
            found = (f"{each.segment_id}/{each.object} ({each.size})" for each in response.objects)
            return ", ".join(found) or "nothing"
        case ApiVersionsResponse():
            return ", ".join(str(each.api_key) for each in response.api_keys)
    return "done"
