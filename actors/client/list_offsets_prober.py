"""An application that asks for offsets at regular intervals, as a monitoring tool does with the admin client.

It is the client of KIP-207: a leader that does not know its high watermark yet must not tell it an offset lower than
the one before, and it must get through the refusal by itself.
"""

from __future__ import annotations

import msgspec

from actors.client import offset_fetcher
from actors.client.client_base import DATA, ClientNode, components
from actors.client.offset_fetcher import CLIENT, Found, Manner, OffsetFetcher, record_list_return
from actors.client.workload import Every
from actors.node.component import Component
from actors.node.messages import Api
from actors.node.step import Step
from actors.trace.events import ListInvoke

_NEXT = "probe/"


class Probe(msgspec.Struct):
    """The operations on one partition. ``lookup`` 0: none is under way."""

    tp: str
    due: bool = False
    lookup: int = 0
    operation: str = ""
    told: int = 0
    timestamp: int = -1


class ListOffsetsNode(ClientNode):
    """Asks for the offset at ``timestamp`` of each partition every ``every_ms``, one operation at a time.

    Workload: topic, partitions, every_ms, timestamp (-1 latest, -2 earliest, ...), ago_ms (-1, or it asks for the time
    that long ago instead), isolation (0 or 1), replica_id (-1, or the broker that it asks as), client ("admin", or
    "consumer": it calls a consumer's ``offsetsForTimes``), together (whether a call is about all partitions: it has an
    operation for each). An operation lasts until it is answered or default.api.timeout.ms is over; the next, or the
    next call, begins at the next multiple of every_ms.
    "stop" is completed after the last answer: {"asked": operations, "told": offsets got}.
    """

    fetcher: OffsetFetcher = msgspec.field(default_factory=OffsetFetcher)
    probes: dict[str, Probe] = msgspec.field(default_factory=dict)
    every: Every = msgspec.field(default_factory=Every)
    timestamp: int = -1
    ago_ms: int = -1
    isolation: int = 0
    replica_id: int = CLIENT
    manner: Manner = "admin"
    together: bool = False
    asked: int = 0

    def _configure(self, step: Step) -> None:
        config = self.spec.config
        self.timestamp = self.spec.workload.get("timestamp", -1)
        self.ago_ms = self.spec.workload.get("ago_ms", -1)
        self.manner = "call" if self.spec.workload.get("client") == "consumer" else "admin"
        self.together = self.spec.workload.get("together", False)
        self.isolation = self.spec.workload.get("isolation", 0)
        self.replica_id = self.spec.workload.get("replica_id", CLIENT)
        self.fetcher = OffsetFetcher(
            DATA,
            config["retry.backoff.ms"],
            config["retry.backoff.max.ms"],
            config["request.timeout.ms"],
            self.replica_id,
            config["default.api.timeout.ms"],
        )

    def _begin(self, step: Step) -> None:
        self.every = Every(self.spec.workload["every_ms"], step.now_ms)
        self.probes = {tp: Probe(tp, due=True) for tp in self.workload_partitions()}

    def _work(self, step: Step) -> None:
        if not self.stopping:
            for probe in self.probes.values():
                if probe.due:
                    self._ask(step, probe)
        self.on_found(step, self.fetcher.poll(step, self.net, self.metadata))

    def _ask(self, step: Step, probe: Probe) -> None:
        probe.due = False
        probe.operation = self.next_operation()
        self.asked += 1
        probe.timestamp = self.timestamp if self.ago_ms < 0 else max(0, step.wall_ms - self.ago_ms)
        version = self.spec.versions[Api.ListOffsets.name][1]
        step.record(
            ListInvoke(
                probe.operation,
                probe.tp,
                timestamp=probe.timestamp,
                isolation=self.isolation,
                version=version,
                replica_id=self.replica_id,
            )
        )
        timeout = self.spec.config["default.api.timeout.ms"]
        probe.lookup = self.fetcher.begin(
            step, probe.tp, probe.timestamp, self.isolation, self.manner, timeout_ms=timeout
        )

    def on_next(self, tp: str) -> None:
        """A partition is asked about again, or all of them."""
        for probe in self.probes.values() if self.together else (self.probes[tp],):
            probe.due = True

    def on_found(self, step: Step, ended: list[Found]) -> None:
        """Lookups ended."""
        for found in ended:
            probe = self.probes[found.tp]
            probe.lookup = 0
            probe.told += found.outcome == "ok"
            record_list_return(step, probe.operation, found, probe.timestamp, self.isolation)
            if not (self.together and any(each.lookup for each in self.probes.values())):
                step.set_timer(f"{_NEXT}{found.tp}", self.every.delay_ms(step.now_ms))

    def _stopped(self, step: Step) -> dict[str, int] | None:
        if any(probe.lookup for probe in self.probes.values()):
            return None
        return {"asked": self.asked, "told": sum(probe.told for probe in self.probes.values())}


ListOffsetsNode.components = components(
    Component[ListOffsetsNode, Step](
        timers={
            _NEXT: lambda node, step, tp: node.on_next(tp),
            offset_fetcher.RETRY: lambda node, step, number: node.fetcher.on_retry(int(number)),
            offset_fetcher.DEADLINE: lambda node, step, _: node.on_found(step, node.fetcher.on_deadline(step)),
        },
        answers={
            offset_fetcher.PURPOSE: lambda node, step, ended, _: node.on_found(
                step, node.fetcher.on_ended(step, node.metadata, ended)
            )
        },
    )
)
