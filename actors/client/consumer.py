"""A consuming application with assigned partitions (``KafkaConsumer.java`` assign, seek, poll, offsetsForTimes)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET

from actors.client import external_offsets, fetcher, offset_fetcher, offsets_for_leader_epoch
from actors.client.client_base import ClientNode, components
from actors.client.external_offsets import ExternalOffsets
from actors.client.fetcher import Delivery, Fetcher
from actors.client.metadata_cache import CONNECTION
from actors.client.offset_fetcher import (
    Found,
    OffsetFetcher,
    record_list_return,
)
from actors.client.offsets_for_leader_epoch import PositionValidator, Truncation
from actors.client.subscription_state import TopicPartitionState
from actors.client.workload import Every
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.events import DiskImage, Invoked
from actors.node.isolation import READ_COMMITTED, READ_UNCOMMITTED
from actors.node.list_timestamps import EARLIEST, LATEST
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.step import Step
from actors.trace.events import ConsPos, ListInvoke, PollInvoke, PollReturn

_RESETS = {"earliest": EARLIEST, "latest": LATEST}
REWIND = "rewind"


class ConsumerNode(ClientNode):
    """Reads its partitions from where auto.offset.reset says.

    Workload: topic, partitions, seek (the offset to begin each partition at, -1: where auto.offset.reset says),
    rewind_every_ms and rewind_by_ms (so often it asks ``offsetsForTimes`` where the records begin that are so old, and
    seeks there; 0: never), external_every_ms and external_wait_ms (see ``ExternalOffsets``; 0: it keeps no positions).
    "stop" looks up the end of each partition, as ``endOffsets`` does, reads until it is reached and is completed with
    {"positions": partition -> offset}; partitions that are ``gone``, with their topics, are not waited for. An
    application's poll returns what one Fetch answer brought for one partition; it is invoked and returns in the step
    that handles the answer, as a poll that finds its records already fetched.
    """

    fetcher: Fetcher = msgspec.field(default_factory=Fetcher)
    offsets: OffsetFetcher = msgspec.field(default_factory=OffsetFetcher)
    validator: PositionValidator = msgspec.field(default_factory=PositionValidator)
    positions: dict[str, TopicPartitionState] = msgspec.field(default_factory=dict)
    rewinds: Every = msgspec.field(default_factory=Every)
    external: ExternalOffsets = msgspec.field(default_factory=ExternalOffsets)
    delivered: int = 0
    gone: list[str] = msgspec.field(default_factory=list)

    def _configure(self, step: Step) -> None:
        config = self.spec.config
        backoff = config["retry.backoff.ms"], config["retry.backoff.max.ms"]
        self.fetcher = Fetcher(
            READ_COMMITTED if config["isolation.level"] == "read_committed" else READ_UNCOMMITTED,
            config["fetch.max.wait.ms"],
            config["fetch.min.bytes"],
            config["fetch.max.bytes"],
            config["max.partition.fetch.bytes"],
            *backoff,
        )
        self.offsets = OffsetFetcher(CONNECTION, *backoff, config["request.timeout.ms"])
        self.validator = PositionValidator(CONNECTION, config["retry.backoff.ms"])
        workload = self.spec.workload
        self.external = ExternalOffsets(workload.get("external_every_ms", 0), workload.get("external_wait_ms", 0))

    def _restore(self, disk: DiskImage) -> None:
        self.external.restore(disk)

    def _begin(self, step: Step) -> None:
        self.positions = {tp: TopicPartitionState(tp) for tp in self.workload_partitions()}
        offset, every_ms = self.spec.workload.get("seek", -1), self.spec.workload.get("rewind_every_ms", 0)
        for position in self.positions.values():
            if offset >= 0:
                self._seek(step, position, offset)
            elif position.tp in self.external.saved:
                position.state = "external"
        self.external.begin(step)
        if every_ms:
            self.rewinds = Every(every_ms, step.now_ms)
            step.set_timer(REWIND, every_ms)

    def _work(self, step: Step) -> None:
        if self.metadata.former_epoch == "topic-id":
            self._give_up_former()
        kept = [position for position in self.positions.values() if position.state == "external"]
        if kept or self.external.wait.operation:
            self._go_back(step, kept)
        for position in self.positions.values():
            if position.state == "reset" and not position.lookup:
                self._reset(step, position)
            if self.stopping and not self._read_out(position) and position.end < 0 and not position.end_lookup:
                self._look_up_end(step, position)
        self.on_found(step, self.offsets.poll(step, self.net, self.metadata))
        self.validator.poll(step, self.net, self.metadata, self.positions)
        self.fetcher.poll(step, self.net, self.metadata, self.positions)

    # ---- positions ----------------------------------------------------------------------------------------

    def _reset(self, step: Step, position: TopicPartitionState) -> None:
        timestamp = _RESETS.get(self.spec.config["auto.offset.reset"])
        if timestamp == EARLIEST and "reset-to-the-other-end" in step.defects:
            timestamp = LATEST
        if timestamp is not None:
            isolation = self.fetcher.isolation
            position.lookup = self.offsets.begin(step, position.tp, timestamp, isolation, "reset")
            return
        self._fail(step, position)

    def _seek(self, step: Step, position: TopicPartitionState, offset: int) -> None:
        """The application moves the position, whatever becomes of it just now. Nobody knows the epoch of what it comes
        after, so it is not validated."""
        step.record(ConsPos(position.tp, position.offset, offset, -1, "seek"))
        self.offsets.forget(step, position.lookup)
        position.lookup = 0
        self._place(step, position, offset)

    def _go_back(self, step: Step, waiting: list[TopicPartitionState]) -> None:
        """The application seeks to where it was when it ran before (``seek(tp, OffsetAndMetadata)``), as soon as it
        may. If the leader epoch that it has with it is news the view hears of it, and the position is validated."""
        if self.external.wait.operation:
            self.external.wait.poll(step, self.metadata)
            return
        for position in self.external.may_seek(step, self.metadata, waiting):
            saved = self.external.saved[position.tp]
            if self.metadata.is_of_former_topic(position.tp, saved.topic_id or ""):
                position.state = "reset"
                continue
            kept = saved.metadata_epoch if self.metadata.kip_232 == "seed" else UNSET
            step.record(ConsPos(position.tp, position.offset, saved.offset, saved.leader_epoch, "seek", kept))
            self.metadata.update_last_seen_epoch(step, self.spec.name, position.tp, saved.leader_epoch)
            self._place(step, position, saved.offset, saved.leader_epoch)

    def _on_invoked(self, step: Step, event: Invoked) -> None:
        """Beside those of every client: ``metadata-epoch`` (-1 before the first answer, and where answers have none)
        and ``wait-for-metadata-update`` (epoch, timeout_ms), which tells whether such metadata came in time."""
        wait = self.external.wait
        if event.kind == "stop":
            self.gone = event.arguments.get("gone", [])
        if event.kind == "metadata-epoch":
            step.complete(event.operation, {"metadata_epoch": self.metadata.metadata_epoch})
        elif event.kind != "wait-for-metadata-update":
            super()._on_invoked(step, event)
        elif wait.epoch >= 0:
            step.complete(event.operation, {"error": "the application waits already"})
        else:
            wait.begin(step, self.metadata, event.arguments["epoch"], event.arguments["timeout_ms"], event.operation)

    def _place(self, step: Step, position: TopicPartitionState, offset: int, epoch: int = -1) -> None:
        """A position. Without an epoch it is fetched from whoever leads, without a question."""
        if epoch >= 0 or "position-keeps-epoch" not in step.defects:
            position.epoch = -1 if "position-loses-epoch" in step.defects else epoch
        position.offset = offset
        position.state, position.leader = "fetching", None
        position.validation = 0
        position.topic_id = self.metadata.id_to_keep(position.tp)

    def _give_up_former(self) -> None:
        """A topic has come after another one of its name: positions in that one are none in it. They are not compared
        with what it has, but begin anew (``mend.former-epoch``)."""
        for position in self.positions.values():
            moves = position.state in ("fetching", "validating")
            if moves and self.metadata.is_of_former_topic(position.tp, position.topic_id):
                position.state, position.topic_id, position.validation = "reset", "", 0

    def _fail(self, step: Step, position: TopicPartitionState, end: int = -1, epoch: int = -1) -> None:
        """NoOffsetForPartitionException, OffsetOutOfRangeException, LogTruncationException (which says where the logs
        part, if that is known): the application is told, and nothing more is read before it seeks."""
        position.state = "failed"
        operation = self.next_operation()
        key = self.metadata.key(position.tp)
        step.record(PollInvoke(operation, key, position.offset, self.fetcher.isolation))
        step.record(
            PollReturn(
                operation,
                "fail",
                KafkaError.OFFSET_OUT_OF_RANGE,
                key,
                position.offset,
                self.fetcher.isolation,
                divergent_offset=end,
                divergent_epoch=epoch,
            )
        )

    def _look_up_end(self, step: Step, position: TopicPartitionState) -> None:
        position.end_operation, position.end_lookup = self._call(step, position.tp, LATEST)

    def on_rewind(self, step: Step) -> None:
        """Ask where what was written some time ago begins."""
        step.set_timer(REWIND, self.rewinds.delay_ms(step.now_ms))
        for position in self.positions.values():
            if not position.rewind_lookup and not self.stopping:
                position.rewind_to = max(0, step.wall_ms - self.spec.workload["rewind_by_ms"])
                asked = self._call(step, position.tp, position.rewind_to)
                position.rewind_operation, position.rewind_lookup = asked

    def _call(self, step: Step, tp: str, timestamp: int) -> tuple[str, int]:
        """``endOffsets`` or ``offsetsForTimes``: the application's operation, and its lookup."""
        operation, isolation = self.next_operation(), self.fetcher.isolation
        version = self.spec.versions[Api.ListOffsets.name][1]
        step.record(ListInvoke(operation, tp, timestamp, isolation, version))
        timeout = self.spec.config["default.api.timeout.ms"]
        return operation, self.offsets.begin(step, tp, timestamp, isolation, "call", timeout_ms=timeout)

    def on_found(self, step: Step, ended: list[Found]) -> None:
        """Lookups ended."""
        for found in ended:
            position = self.positions.get(found.tp)
            if position is None:
                continue
            if found.lookup == position.end_lookup:
                position.end_lookup = 0
                record_list_return(step, position.end_operation, found, LATEST, self.fetcher.isolation)
                if found.outcome == "ok":
                    position.end = found.offset
            elif found.lookup == position.rewind_lookup:
                position.rewind_lookup = 0
                record_list_return(step, position.rewind_operation, found, position.rewind_to, self.fetcher.isolation)
                if found.outcome == "ok" and found.offset >= 0 and not self.stopping:
                    self._seek(step, position, found.offset)
            elif found.lookup == position.lookup:
                position.lookup = 0
                if found.outcome == "ok" and found.offset >= 0:
                    reason: Literal["assign", "reset"] = "assign" if position.offset < 0 else "reset"
                    step.record(ConsPos(found.tp, position.offset, found.offset, -1, reason))
                    self._place(step, position, found.offset)

    def _truncated(self, step: Step, truncation: Truncation) -> None:
        """What the position comes after is not in the leader's log: go back to where they part, or start anew."""
        position = self.positions[truncation.tp]
        if self.spec.config["auto.offset.reset"] not in _RESETS:
            self._fail(step, position, truncation.end, truncation.epoch)
        elif truncation.end < 0:
            position.state = "reset"
        else:
            step.record(ConsPos(position.tp, position.offset, truncation.end, truncation.epoch, "truncation"))
            position.offset, position.epoch = truncation.end, truncation.epoch

    # ---- events -------------------------------------------------------------------------------------------

    def on_fetched(self, step: Step, ended: Ended) -> None:
        """A Fetch ended."""
        for delivery in self.fetcher.on_ended(step, self.metadata, self.positions, ended):
            self._poll_returns(step, delivery, ended)

    def on_validated(self, step: Step, ended: Ended) -> None:
        """An OffsetForLeaderEpoch ended."""
        for truncation in self.validator.on_ended(step, self.metadata, self.positions, ended):
            self._truncated(step, truncation)

    def on_pause_over(self, tp: str) -> None:
        """A partition may be fetched again."""
        if tp in self.positions:
            self.positions[tp].pausing = False

    def on_validation_pause_over(self, tp: str) -> None:
        """A position may be validated again."""
        if tp in self.positions:
            self.positions[tp].validation_pausing = False

    def _poll_returns(self, step: Step, delivery: Delivery, ended: Ended) -> None:
        operation = self.next_operation()
        isolation = self.fetcher.isolation
        self.delivered += len(delivery.records)
        step.record(PollInvoke(operation, delivery.key, delivery.offset, isolation))
        step.record(
            PollReturn(
                operation,
                "ok",
                KafkaError.NONE,
                delivery.key,
                delivery.offset,
                isolation,
                leader_epoch=delivery.leader_epoch,
                broker=ended.peer,
                version=ended.version,
                records=delivery.records,
                log_start=delivery.log_start if delivery.log_start > 0 else UNSET,
            )
        )

    def _read_out(self, position: TopicPartitionState) -> bool:
        """Whether there is nothing left that the drain asks for."""
        return position.drained or position.tp in self.gone

    def _stopped(self, step: Step) -> dict[str, Any] | None:
        if not all(self._read_out(position) and not position.rewind_lookup for position in self.positions.values()):
            return None
        return {"positions": {tp: position.offset for tp, position in self.positions.items()}}


COMPONENT: Component[ConsumerNode, Step] = Component(
    timers={
        fetcher.PAUSE: lambda node, step, tp: node.on_pause_over(tp),
        offsets_for_leader_epoch.RETRY: lambda node, step, tp: node.on_validation_pause_over(tp),
        offset_fetcher.RETRY: lambda node, step, number: node.offsets.on_retry(int(number)),
        offset_fetcher.DEADLINE: lambda node, step, _: node.on_found(step, node.offsets.on_deadline(step)),
        REWIND: lambda node, step, _: node.on_rewind(step),
        external_offsets.SAVE: lambda node, step, _: node.external.save(step, node.metadata, node.positions),
        external_offsets.WAIT: lambda node, step, _: node.external.wait.on_timeout(step, node.metadata),
    },
    answers={
        fetcher.PURPOSE: lambda node, step, ended, _: node.on_fetched(step, ended),
        offsets_for_leader_epoch.PURPOSE: lambda node, step, ended, _: node.on_validated(step, ended),
        offset_fetcher.PURPOSE: lambda node, step, ended, _: node.on_found(
            step, node.offsets.on_ended(step, node.metadata, ended)
        ),
    },
)
"""What every consumer has."""

ConsumerNode.components = components(COMPONENT)
