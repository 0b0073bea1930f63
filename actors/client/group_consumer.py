"""A consuming application that shares its topic's partitions with the others of its group (``KafkaConsumer.java``
subscribe, poll, commitSync, commitAsync, close)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.client import (
    consumer,
    consumer_coordinator,
    coordinator_lookup,
    fetcher,
    group_membership,
    offset_commits,
    offsets_for_leader_epoch,
)
from actors.client.client_base import components
from actors.client.consumer import ConsumerNode
from actors.client.consumer_coordinator import ConsumerCoordinator
from actors.client.coordinator_lookup import COORDINATOR, CoordinatorLookup
from actors.client.group_membership import GroupMembership, GroupSettings
from actors.client.offset_commits import Committed, OffsetCommits
from actors.client.offset_fetcher import Found, record_list_return
from actors.client.subscription_state import TopicPartitionState
from actors.client.workload import Every
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.events import Invoked
from actors.node.list_timestamps import LATEST
from actors.node.network_client import Ended
from actors.node.step import Step
from actors.trace.client_events import CommitHow
from actors.trace.events import ConsPos, ConsStall, MetaWait
from actors.trace.group_events import Entry

COMMIT_DUE = "group/commit-due"
STALL = "group/stall"
ABSENCE = "group/absence"
CLOSE_TIMEOUT_MS = 30000
"""Of ``KafkaConsumer.close``."""


class GroupConsumerNode(ConsumerNode):
    """Reads those partitions of its topic that its group assigns to it, from what the group committed.

    Workload, beside the consumer's: group; commit (auto: the consumer commits by itself, as enable.auto.commit says;
    sync, async: the application does, each commit_every_ms, and waits or does not; none: nobody does); stall_every_ms
    and stall_ms (so often the application does not poll for so long; 0: never), absent_every_ms and absent_ms (so often
    it closes its consumer and makes a new one so much later; 0: never). "leave" closes the consumer, "join"
    makes a new one. "stop" reads each partition that it owns to its end, as ``ConsumerNode`` does, once it has its
    assignment, commits, and leaves the group.

    present: there is a consumer, open. closing: what it does before it is closed; finishing: it will not be made anew.
    waiting_for: the sync commit that the application waits for, "" none; stalled: the application does not poll. held:
    answers of brokers that it did not take yet. committed: what was looked up, while the metadata is older than it
    (``awaited_epoch``, -1 none; kip-232: seed).
    """

    coordinator: ConsumerCoordinator = msgspec.field(default_factory=ConsumerCoordinator)
    present: bool = True
    closing: Literal["", "begin", "commit", "leave"] = ""
    closing_operation: str = ""
    finishing: bool = False
    leave_call: int = 0
    commits: Every = msgspec.field(default_factory=Every)
    absences: Every = msgspec.field(default_factory=Every)
    stalls: Every = msgspec.field(default_factory=Every)
    commit_due: bool = False
    waiting_for: str = ""
    stalled: bool = False
    held: list[Ended] = msgspec.field(default_factory=list)
    committed: dict[str, Entry] = msgspec.field(default_factory=dict)
    awaited_epoch: int = -1

    def _configure(self, step: Step) -> None:
        super()._configure(step)
        config, workload = self.spec.config, self.spec.workload
        backoff = config["retry.backoff.ms"], config["retry.backoff.max.ms"]
        settings = GroupSettings(
            workload["group"],
            config["group.instance.id"],
            config["session.timeout.ms"],
            config["max.poll.interval.ms"],
            config["heartbeat.interval.ms"],
            config["retry.backoff.ms"],
            config["request.timeout.ms"],
            config["internal.leave.group.on.close"],
        )
        automatic = workload["commit"] == "auto" and config["enable.auto.commit"]
        self.coordinator = ConsumerCoordinator(
            CoordinatorLookup(workload["group"], *backoff),
            GroupMembership(settings),
            OffsetCommits(workload["group"], config["group.instance.id"], *backoff),
            [each.strip() for each in config["partition.assignment.strategy"].split(",")],
            self._topics(),
            auto_commit_ms=config["auto.commit.interval.ms"] if automatic else 0,
        )

    def _begin(self, step: Step) -> None:
        workload = self.spec.workload
        if workload["commit"] in ("sync", "async"):
            self.commits = Every(workload["commit_every_ms"], step.now_ms)
            step.set_timer(COMMIT_DUE, workload["commit_every_ms"])
        if workload["stall_every_ms"]:
            self.stalls = Every(workload["stall_every_ms"], step.now_ms)
            step.set_timer(STALL, workload["stall_every_ms"])
        if workload["absent_every_ms"]:
            self.absences = Every(workload["absent_every_ms"], step.now_ms)
            step.set_timer(ABSENCE, workload["absent_every_ms"])

    def _end(self, step: Step) -> None:
        # The group may not know that a consumer is gone that was closed: a static member, or one whose coordinator was
        # away. What such a one owns is nobody's until it is back.
        if not self.present and not self.coordinator.fatal:
            self._join(step)

    def _on_invoked(self, step: Step, event: Invoked) -> None:
        """Beside those of every client: ``leave`` and ``join``."""
        if event.kind == "leave" and self.running and self.present and not self.closing:
            self.closing, self.closing_operation = "begin", event.operation
        elif event.kind == "join" and self.goes_on and not self.present:
            self._join(step)
            step.complete(event.operation, {})
        elif event.kind in ("leave", "join"):
            step.complete(event.operation, {})  # it is as it should be
        else:
            super()._on_invoked(step, event)

    # ---- what goes on -------------------------------------------------------------------------------------

    @property
    def goes_on(self) -> bool:
        """The application runs, and nobody has asked it to stop."""
        return self.running and not self.stopping

    @property
    def blocked(self) -> bool:
        """The application is not in poll."""
        return self.stalled or bool(self.waiting_for)

    def _work(self, step: Step) -> None:
        if not self.present:
            return
        for over in self.coordinator.poll_network(step, self):
            self._on_commit_over(over)
        if self.coordinator.fatal and not self.closing:
            self.closing = "begin"
        if self.closing:
            self._close(step)
            return
        if self.blocked:
            return
        if self.held:
            self._take_held(step)
        if self.awaited_epoch >= 0:
            self._caught_up(step)
        self.coordinator.poll(step, self)
        if self.commit_due and self.coordinator.membership.state == "STABLE":
            self.commit_due = False
            self._commit_by_hand(step, self.spec.workload["commit"])
        if self.coordinator.commits.commits:
            for over in self.coordinator.poll_network(step, self):
                self._on_commit_over(over)
        super()._work(step)

    def _commit_by_hand(self, step: Step, how: CommitHow) -> None:
        timeout = self.spec.config["default.api.timeout.ms"] if how == "sync" else 0
        deadline = step.now_ms + timeout if timeout else -1
        operation = self.coordinator.commit(step, self, how, deadline)
        if how == "sync":
            self.waiting_for = operation

    def _on_commit_over(self, over: Committed) -> None:
        if over.commit.operation == self.waiting_for:
            self.waiting_for = ""
        if over.error == KafkaError.INVALID_METADATA_EPOCH:
            self.coordinator.membership.fatal = over.error

    # ---- closing ------------------------------------------------------------------------------------------

    def _close(self, step: Step) -> None:
        """``KafkaConsumer.close``: commit, give up what it owns, leave. An application that was told of an error for
        good closes its consumer, too."""
        coordinator = self.coordinator
        if self.closing == "begin":
            self.closing = "commit"
            coordinator.record_close(step)
            commits = self.spec.workload["commit"] in ("sync", "async") or coordinator.auto_commit_ms
            if "closes-without-commit" in step.defects:
                commits = False
            if commits and coordinator.membership.state == "STABLE" and not coordinator.fatal:
                how: CommitHow = "auto" if coordinator.auto_commit_ms else "sync"
                coordinator.commit(step, self, how, step.now_ms + CLOSE_TIMEOUT_MS)
                for over in coordinator.poll_network(step, self):
                    self._on_commit_over(over)
        if self.closing == "commit" and (not coordinator.commits.commits or coordinator.fatal):
            self.closing = "leave"
            self.leave_call = coordinator.close(step, self)
        if self.closing == "leave" and not self.leave_call:
            self.present, self.closing, self.waiting_for = False, "", ""
            if self.held:
                self._take_held(step)  # nothing of it is its own any more
            if self.closing_operation:
                step.complete(self.closing_operation, {})
                self.closing_operation = ""
            if self.stopping and not self.finishing:
                self._end(step)

    def on_left(self, ended: Ended) -> None:
        """A LeaveGroup ended, one way or another."""
        if ended.call == self.leave_call:
            self.leave_call = 0

    def _stopped(self, step: Step) -> dict[str, Any] | None:
        settled = self.present and self.coordinator.membership.settled and not self.blocked
        if settled and not self.closing and all(map(self._read_out, self.positions.values())):
            self.closing, self.finishing = "begin", True
            self._close(step)
        return None if self.present else {"positions": {}}

    # ---- what it owns -------------------------------------------------------------------------------------

    def take(self, step: Step, tp: str) -> None:
        """A partition is its own from now on."""
        self.positions[tp] = TopicPartitionState(tp, "initializing")

    def drop(self, step: Step, tp: str) -> None:
        """A partition is not its own any more."""
        position = self.positions.pop(tp)
        self.offsets.forget(step, position.lookup)
        if position.end_lookup:
            self.offsets.forget(step, position.end_lookup)
            found = Found(position.end_lookup, tp, "unknown")
            record_list_return(step, position.end_operation, found, LATEST, self.fetcher.isolation)
        if position.pausing:
            step.cancel_timer(fetcher.PAUSE + tp)
        if position.validation_pausing:
            step.cancel_timer(offsets_for_leader_epoch.RETRY + tp)

    def on_offsets(self, step: Step, ended: Ended) -> None:
        """An OffsetFetch ended: partitions begin where the group was, or where auto.offset.reset says."""
        found = self.coordinator.on_offsets(step, self, ended)
        epoch = max((entry[2] for entry in found.values()), default=-1)
        waits = self.metadata.kip_232 == "seed" and "begins-with-old-metadata" not in step.defects
        if waits and epoch > self.metadata.metadata_epoch:
            self.committed.update(found)
            self.awaited_epoch = max(epoch, self.awaited_epoch)
            self.metadata.await_epoch(self.awaited_epoch)
            for tp in found:
                if tp in self.positions:
                    self.positions[tp].state = "awaiting"
            return
        self._place_all(step, ended.peer, found, "initializing")

    def _caught_up(self, step: Step) -> None:
        """Step 4 of KIP-232 as first proposed: nothing is fetched before the metadata is as new as the commits."""
        epoch = self.metadata.metadata_epoch
        if epoch < self.awaited_epoch:
            return
        step.record(MetaWait(self.awaited_epoch, epoch, epoch >= self.awaited_epoch))
        self.awaited_epoch = self.metadata.awaited_epoch = -1
        committed, self.committed = self.committed, {}
        self._place_all(step, self.spec.name, committed, "awaiting")

    def _place_all(self, step: Step, server: str, committed: dict[str, Entry], state: str) -> None:
        for tp, entry in committed.items():
            position = self.positions.get(tp)
            if position is not None and position.state == state:
                self._place_committed(step, server, position, entry)

    def _place_committed(self, step: Step, server: str, position: TopicPartitionState, entry: Entry) -> None:
        """``ConsumerUtils.refreshCommittedOffsets``: the leader epoch is offered to the metadata, and the position is
        validated where the leader's is another one."""
        offset, leader_epoch, _ = entry
        if "begins-after-committed" in step.defects and offset >= 0:
            offset += 1
        if offset < 0 or "begins-where-reset-says" in step.defects:
            position.state = "reset"
            return
        step.record(ConsPos(position.tp, position.offset, offset, leader_epoch, "committed"))
        self._place(step, position, offset, leader_epoch)
        if leader_epoch >= 0:
            self.metadata.update_last_seen_epoch(step, server, position.tp, leader_epoch)

    # ---- events -------------------------------------------------------------------------------------------

    def on_fetched(self, step: Step, ended: Ended) -> None:
        """A Fetch ended; an application that does not poll finds its records later."""
        if self.blocked and self.present:
            self.held.append(ended)
        else:
            super().on_fetched(step, ended)

    def _take_held(self, step: Step) -> None:
        """The application polls again: it hears first of what it lost meanwhile, and then gets what has arrived."""
        if self.present and not self.closing and not self.coordinator.fatal:
            self.coordinator.poll(step, self)
        held, self.held = self.held, []
        for ended in held:
            super().on_fetched(step, ended)

    def on_commit_due(self, step: Step) -> None:
        """The application is to commit."""
        if self.running:
            step.set_timer(COMMIT_DUE, self.commits.delay_ms(step.now_ms))
            self.commit_due = True

    def on_stall(self, step: Step) -> None:
        """The application begins or ends not to poll."""
        if not self.stalled and self.goes_on:
            self.stalled = True
            step.record(ConsStall(self.spec.workload["group"], "begin"))
            step.set_timer(STALL, self.spec.workload["stall_ms"])
            return
        if self.stalled:
            step.record(ConsStall(self.spec.workload["group"], "end"))
        self.stalled = False
        if not self.blocked:
            self._take_held(step)
        if self.goes_on:
            step.set_timer(STALL, self.stalls.delay_ms(step.now_ms))

    def on_absence(self, step: Step) -> None:
        """The application closes its consumer, or makes a new one."""
        if not self.present and self.goes_on:
            self._join(step)
        elif self.goes_on and not self.closing:
            self.closing = "begin"
            step.set_timer(ABSENCE, self.spec.workload["absent_ms"])
            return
        if self.goes_on:
            step.set_timer(ABSENCE, self.absences.delay_ms(step.now_ms))

    def _join(self, step: Step) -> None:
        """A new consumer. What the former one still asked of the coordinator does not hold up what it asks."""
        self.present = True
        self.net.renew(step, COORDINATOR)
        for over in self.coordinator.commits.lost_coordinator(step, KafkaError.NETWORK_EXCEPTION):
            self._on_commit_over(over)
        self.committed, self.awaited_epoch, self.metadata.awaited_epoch = {}, -1, -1
        self.coordinator.begin_anew(step, self)

    def on_committed(self, step: Step, ended: Ended) -> None:
        """An OffsetCommit ended."""
        over = self.coordinator.on_committed(step, self, ended)
        if over is not None:
            self._on_commit_over(over)
        if self.held and not self.blocked:
            self._take_held(step)

    def on_found_coordinator(self, step: Step, ended: Ended) -> None:
        """A FindCoordinator ended."""
        for over in self.coordinator.on_found(step, self, ended):
            self._on_commit_over(over)


COMPONENT: Component[GroupConsumerNode, Step] = Component(
    timers={
        COMMIT_DUE: lambda node, step, _: node.on_commit_due(step),
        ABSENCE: lambda node, step, _: node.on_absence(step),
        STALL: lambda node, step, _: node.on_stall(step),
        coordinator_lookup.RETRY: lambda node, step, _: node.coordinator.lookup.on_retry(),
        consumer_coordinator.AUTO_COMMIT: lambda node, step, _: node.coordinator.on_auto_commit(),
        consumer_coordinator.BEAT: lambda node, step, _: node.coordinator.on_awake(),
        group_membership.REJOIN: lambda node, step, _: node.coordinator.membership.on_pause_over(),
        offset_commits.COMMIT_RETRY: lambda node, step, _: node.coordinator.commits.on_commit_retry(),
        offset_commits.FETCH_RETRY: lambda node, step, _: node.coordinator.commits.on_fetch_retry(),
    },
    answers={
        coordinator_lookup.PURPOSE: lambda node, step, ended, _: node.on_found_coordinator(step, ended),
        group_membership.JOIN: lambda node, step, ended, _: node.coordinator.on_joined(step, node, ended),
        group_membership.SYNC: lambda node, step, ended, _: node.coordinator.on_synced(step, node, ended),
        group_membership.HEARTBEAT: lambda node, step, ended, _: node.coordinator.on_heartbeat(step, ended),
        group_membership.LEAVE: lambda node, step, ended, _: node.on_left(ended),
        offset_commits.COMMIT: lambda node, step, ended, _: node.on_committed(step, ended),
        offset_commits.FETCH: lambda node, step, ended, _: node.on_offsets(step, ended),
    },
    choices={
        coordinator_lookup.CHOICE: lambda node, step, value, _: node.coordinator.lookup.node.on_chosen(node.net, value)
    },
)
"""What every consumer in a group has."""

GroupConsumerNode.components = components(COMPONENT)
GroupConsumerNode.components.add(consumer.COMPONENT, lambda node: node)
