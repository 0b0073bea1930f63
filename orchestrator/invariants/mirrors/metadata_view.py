"""What the active controllers' logs said, built from the trace: one view per quorum epoch.

A controller records what it appends. If it then loses its epoch, some of that may never be committed, and the next
controller's log goes on without it: so each quorum epoch has a view of its own, which begins with what the log of its
leader had when it was elected. Two controllers that both believe to be active do not get into each other's view.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import node_name, partition_name, split_topic_partition
from actors.trace.events import (
    BrokerReg,
    ConfigChange,
    IsrPropose,
    PartChange,
    PartRemove,
    QRole,
    QVote,
    Stamped,
    TraceEvent,
)
from actors.trace.metadata_history import Elections
from orchestrator.invariants.folds.fold import Witness, witness

FOLLOWED: tuple[type[TraceEvent], ...] = (QVote, QRole, PartChange, PartRemove, BrokerReg, ConfigChange, IsrPropose)
"""Types of the events that a view is built from."""

EPOCHS_KEPT = 16
ENTRIES_KEPT = 1 << 8
"""Entries of a view that are kept one by one: more than the log of a new leader lacks of them. Of what is before these,
the last one of each subject is kept."""
PROPOSALS_KEPT = 64


class Entry(msgspec.Struct, frozen=True):
    """A record of the metadata log as the trace tells it. ``epoch``: quorum epoch of the controller that wrote it."""

    offset: int
    body: PartChange | PartRemove | BrokerReg | ConfigChange
    by: Witness
    epoch: int


class Proposal(msgspec.Struct, frozen=True):
    """An ISR that a leader asked for."""

    node: str
    body: IsrPropose
    by: Witness


class View(msgspec.Struct):
    """The log of one quorum epoch's leader. ``partitions``, ``brokers``, ``configs``: the last entry of each, by topic
    partition, broker id, and (resource, key). ``settled``: of the entries the first ones, one of each subject."""

    entries: list[Entry] = []
    settled: int = 0
    partitions: dict[str, Entry] = {}
    brokers: dict[int, Entry] = {}
    configs: dict[tuple[str, str], Entry] = {}

    def add(self, entry: Entry) -> None:
        """Replay an entry."""
        self.entries.append(entry)
        if len(self.entries) > 2 * ENTRIES_KEPT + self.settled:
            self.settle()
        body = entry.body
        if type(body) is PartChange:
            self.partitions[body.tp] = entry
        elif type(body) is PartRemove:
            self.partitions.pop(body.tp, None)
            _forget_configs(self.configs, body)
        elif type(body) is BrokerReg:
            self.brokers[body.broker] = entry
        else:
            assert type(body) is ConfigChange
            self.configs[body.resource, body.key] = entry

    def settle(self) -> None:
        """Keep the newest entries, and of those before them the last one of each subject."""
        old, new = self.entries[:-ENTRIES_KEPT], self.entries[-ENTRIES_KEPT:]
        last: dict[object, Entry] = {}
        for entry in old:
            body = entry.body
            subject = _subject(body)
            last.pop(subject, None)
            if type(body) is PartRemove:
                _forget_configs(last, body)
            else:
                last[subject] = entry
        self.entries, self.settled = [*last.values(), *new], len(last)

    def partition(self, tp: str) -> PartChange | None:
        """The present state of a partition."""
        entry = self.partitions.get(tp)
        return None if entry is None else entry.body  # type: ignore[return-value]  # partitions hold these alone

    def broker(self, broker_id: int) -> BrokerReg | None:
        """The present registration of a broker."""
        entry = self.brokers.get(broker_id)
        return None if entry is None else entry.body  # type: ignore[return-value]  # brokers hold these alone

    def is_unfenced(self, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        broker = self.broker(broker_id)
        return broker is not None and not broker.fenced

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered, not fenced, and not about to shut down."""
        broker = self.broker(broker_id)
        return broker is not None and not broker.fenced and not broker.shutting_down

    def config(self, resource: str, key: str) -> str | None:
        """A dynamic configuration value as text; None where it is not set."""
        entry = self.configs.get((resource, key))
        return None if entry is None else entry.body.value  # type: ignore[union-attr]  # configs hold these alone


def _forget_configs(known: dict[Any, Entry], body: PartRemove) -> None:
    """What a topic was set to goes with it."""
    topic = f"topic/{split_topic_partition(partition_name(body.tp))[0]}"
    for subject in [each for each in known if isinstance(each, tuple) and each[0] == topic]:
        del known[subject]


def _subject(body: PartChange | PartRemove | BrokerReg | ConfigChange) -> object:
    """What an entry is about; the next one about it takes its place."""
    if type(body) is BrokerReg:
        return body.broker
    if type(body) is ConfigChange:
        return body.resource, body.key
    assert isinstance(body, PartChange | PartRemove)
    return body.tp


class Candidacy(msgspec.Struct, frozen=True):
    """With what log a node stood for election in an epoch."""

    last_epoch: int
    log_end: int


class MetadataView(msgspec.Struct):
    """Quorum epoch -> View, for the newest epochs; and what leaders of partitions have asked for.

    candidacies: epoch -> the log of the voter that voted for itself.
    proposals: topic partition -> the most recent ones.
    """

    views: dict[int, View] = {}
    elections: Elections = msgspec.field(default_factory=Elections)
    candidacies: dict[int, dict[str, Candidacy]] = {}
    proposals: dict[str, list[Proposal]] = {}

    # ---- reading -----------------------------------------------------------------------------------------

    def view_of(self, event: Stamped) -> View:
        """The view into which an event belongs, that of the quorum epoch its node leads."""
        body = event.body
        end: int = body.offset  # type: ignore[union-attr]  # only events with an offset belong into a view
        return self._view(self.epoch_of(event), event.node, end)

    def proposals_for(self, change: PartChange, before: PartChange) -> list[Proposal]:
        """The proposals that a change of an ISR may answer: of the leader, on the state before it, of that ISR."""
        return [
            each
            for each in self.proposals.get(change.tp, ())
            if each.body.partition_epoch == before.partition_epoch
            and each.body.leader_epoch == before.leader_epoch
            and each.node == node_name(before.leader)
            and set(each.body.isr) == set(change.isr)
        ]

    # ---- following the trace -----------------------------------------------------------------------------

    def apply(self, event: Stamped) -> None:
        """Take an event of the types in ``FOLLOWED``."""
        body = event.body
        if type(body) is QVote:
            if not body.pre and body.granted and node_name(body.candidate) == event.node:
                logs = self.candidacies.setdefault(body.epoch, {})
                logs[event.node] = Candidacy(body.candidate_last_epoch, body.candidate_end)
        elif type(body) is QRole:
            if self.elections.take(event.node, body):
                # Even if it appends nothing that is followed here: the next one's log goes on from its, and lacks
                # what a former leader had beyond that.
                self._view(body.epoch, event.node, body.log_end)
        elif type(body) is IsrPropose:
            if body.outcome == "proposed":
                known = self.proposals.setdefault(body.tp, [])
                known.append(Proposal(event.node, body, witness(event)))
                del known[:-PROPOSALS_KEPT]
        else:
            assert isinstance(body, PartChange | PartRemove | BrokerReg | ConfigChange)
            self.view_of(event).add(Entry(body.offset, body, witness(event), self.epoch_of(event)))

    def epoch_of(self, event: Stamped) -> int:
        """The quorum epoch of the controller that wrote what an event tells."""
        body = event.body
        if isinstance(body, PartChange | PartRemove | ConfigChange):
            return body.quorum_epoch
        return self.elections.epoch_of(event.node)

    def _view(self, epoch: int, leader: str, end: int) -> View:
        found = self.views.get(epoch)
        if found is not None:
            return found
        found = self.views[epoch] = self._inherited(epoch, leader, end)
        for older in self.views.values():
            older.settle()
        while len(self.views) > EPOCHS_KEPT:
            del self.views[min(self.views)]
        for old in [known for known in self.candidacies if known < min(self.views)]:
            del self.candidacies[old]
        return found

    def _inherited(self, epoch: int, leader: str, end: int) -> View:
        """What the log of an epoch's leader began with: of the newest epoch that is in it, what came before its end.
        Where the trace does not tell how it ended, all that is known of older epochs, up to ``end``."""
        candidacy = self.candidacies.get(epoch, {}).get(leader, Candidacy(epoch - 1, end))
        older = max((known for known in self.views if known <= candidacy.last_epoch), default=None)
        inherited = View()
        for entry in () if older is None else self.views[older].entries:
            if entry.offset < candidacy.log_end:
                inherited.add(entry)
        return inherited
