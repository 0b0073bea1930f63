"""A consuming application with assigned partitions (``KafkaConsumer.java`` assign and poll)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.client.client_base import ClientNode
from actors.client.fetcher import PAUSE, Delivery, Fetcher
from actors.client.metadata_cache import CONNECTION
from actors.client.offset_fetcher import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    Found,
    OffsetFetcher,
    record_list_return,
)
from actors.client.offsets_for_leader_epoch import PositionValidator, Truncation
from actors.client.subscription_state import TopicPartitionState
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.step import Step
from actors.trace.events import ConsPos, OpInvoke, OpReturn

_RESETS = {"earliest": EARLIEST, "latest": LATEST}


class ConsumerNode(ClientNode):
    """Reads its partitions from where auto.offset.reset says.

    Workload: topic, partitions, seek (the offset to begin each partition at, -1: where auto.offset.reset says). "stop"
    looks up the end of each partition, as ``endOffsets`` does, reads until it is reached and is completed with
    {"positions": partition -> offset}. An application's poll returns what one Fetch answer brought for one partition;
    it is invoked and returns in the step that handles the answer, as a poll that finds its records already fetched.
    """

    fetcher: Fetcher = msgspec.field(default_factory=Fetcher)
    offsets: OffsetFetcher = msgspec.field(default_factory=OffsetFetcher)
    validator: PositionValidator = msgspec.field(default_factory=PositionValidator)
    positions: dict[str, TopicPartitionState] = msgspec.field(default_factory=dict)
    delivered: int = 0

    def _configure(self, step: Step) -> None:
        config = self.spec.config
        backoff = config["retry.backoff.ms"], config["retry.backoff.max.ms"]
        self.fetcher = Fetcher(
            READ_COMMITTED if config["isolation.level"] == "read_committed" else 0,
            config["fetch.max.wait.ms"],
            config["fetch.min.bytes"],
            config["fetch.max.bytes"],
            config["max.partition.fetch.bytes"],
            *backoff,
        )
        self.offsets = OffsetFetcher(CONNECTION, *backoff, config["request.timeout.ms"])
        self.validator = PositionValidator(CONNECTION, config["retry.backoff.ms"])

    def _begin(self, step: Step) -> None:
        self.positions = {tp: TopicPartitionState(tp) for tp in self.workload_partitions()}
        offset = self.spec.workload.get("seek", -1)
        for position in self.positions.values():
            if offset >= 0:
                step.record(ConsPos(position.tp, -1, offset, -1, "seek"))
                position.state, position.offset = "fetching", offset

    def _work(self, step: Step) -> None:
        for position in self.positions.values():
            if position.state == "reset" and not position.lookup:
                self._reset(step, position)
            if self.stopping and position.end < 0 and not position.end_lookup and position.state != "failed":
                self._look_up_end(step, position)
        self._found(step, self.offsets.poll(step, self.net, self.metadata))
        self.validator.poll(step, self.net, self.metadata, self.positions)
        self.fetcher.poll(step, self.net, self.metadata, self.positions)

    # ---- positions ----------------------------------------------------------------------------------------

    def _reset(self, step: Step, position: TopicPartitionState) -> None:
        timestamp = _RESETS.get(self.spec.config["auto.offset.reset"])
        if timestamp is not None:
            isolation = self.fetcher.isolation
            position.lookup = self.offsets.begin(step, position.tp, timestamp, isolation, consumer=True)
            return
        self._fail(step, position)

    def _fail(self, step: Step, position: TopicPartitionState) -> None:
        """NoOffsetForPartitionException, OffsetOutOfRangeException, LogTruncationException: the application is told,
        and nothing more is read."""
        position.state = "failed"
        operation = self.next_operation()
        step.record(OpInvoke(operation, "poll", position.tp, offset=position.offset, isolation=self.fetcher.isolation))
        step.record(
            OpReturn(
                operation,
                "poll",
                position.tp,
                "fail",
                error=KafkaError.OFFSET_OUT_OF_RANGE,
                offset=position.offset,
                isolation=self.fetcher.isolation,
            )
        )

    def _look_up_end(self, step: Step, position: TopicPartitionState) -> None:
        position.end_operation = self.next_operation()
        isolation = self.fetcher.isolation
        version = self.spec.versions[Api.ListOffsets.name][1]
        step.record(
            OpInvoke(
                position.end_operation,
                "list",
                position.tp,
                timestamp=LATEST,
                isolation=isolation,
                version=version,
            )
        )
        timeout = self.spec.config["default.api.timeout.ms"]
        tp = position.tp
        position.end_lookup = self.offsets.begin(step, tp, LATEST, isolation, consumer=True, timeout_ms=timeout)

    def _found(self, step: Step, ended: list[Found]) -> None:
        for found in ended:
            position = self.positions[found.tp]
            if found.lookup == position.end_lookup:
                position.end_lookup = 0
                record_list_return(step, position.end_operation, found, LATEST, self.fetcher.isolation)
                if found.outcome == "ok":
                    position.end = found.offset
            elif found.lookup == position.lookup:
                position.lookup = 0
                if found.outcome == "ok" and found.offset >= 0:
                    reason: Literal["assign", "reset"] = "assign" if position.offset < 0 else "reset"
                    step.record(ConsPos(found.tp, position.offset, found.offset, found.epoch, reason))
                    position.offset, position.epoch = found.offset, found.epoch
                    position.state, position.leader = "fetching", None

    def _truncated(self, step: Step, truncation: Truncation) -> None:
        """What the position comes after is not in the leader's log: go back to where they part, or start anew."""
        position = self.positions[truncation.tp]
        if self.spec.config["auto.offset.reset"] not in _RESETS:
            self._fail(step, position)
        elif truncation.end < 0:
            position.state = "reset"
        else:
            step.record(ConsPos(position.tp, position.offset, truncation.end, truncation.epoch, "truncation"))
            position.offset, position.epoch = truncation.end, truncation.epoch

    # ---- events -------------------------------------------------------------------------------------------

    def _ended(self, step: Step, ended: Ended) -> None:
        found = self.offsets.on_ended(step, self.metadata, ended)
        if found is not None:
            self._found(step, found)
            return
        truncations = self.validator.on_ended(step, self.metadata, self.positions, ended)
        if truncations is not None:
            for truncation in truncations:
                self._truncated(step, truncation)
            return
        for delivery in self.fetcher.on_ended(step, self.metadata, self.positions, ended) or []:
            self._poll_returns(step, delivery, ended)

    def _poll_returns(self, step: Step, delivery: Delivery, ended: Ended) -> None:
        operation = self.next_operation()
        isolation = self.fetcher.isolation
        self.delivered += len(delivery.records)
        step.record(OpInvoke(operation, "poll", delivery.tp, offset=delivery.offset, isolation=isolation))
        step.record(
            OpReturn(
                operation,
                "poll",
                delivery.tp,
                "ok",
                offset=delivery.offset,
                leader_epoch=delivery.leader_epoch,
                broker=ended.peer,
                isolation=isolation,
                version=ended.version,
                records=delivery.records,
            )
        )

    def _timer(self, step: Step, name: str) -> None:
        if name.startswith(PAUSE):
            self.positions[name.removeprefix(PAUSE)].pausing = False
        elif not self.validator.on_timer(self.positions, name):
            self._found(step, self.offsets.on_timer(step, name) or [])

    def _stopped(self, step: Step) -> dict[str, Any] | None:
        if not all(position.drained for position in self.positions.values()):
            return None
        return {"positions": {tp: position.offset for tp, position in self.positions.items()}}
