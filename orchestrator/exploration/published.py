"""What the controller publishes, drawn: elections, and what becomes of a broker that comes back. All elections
are clean: the next leader is in the ISR."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.log.batch import Batch, make_batch
from actors.metadata.metadata_state import TRANSACTION_FEATURE, MetadataState
from actors.metadata.registrations import PartitionRegistration
from actors.node.codec import decode, encode
from actors.trace.events import AnyTraceEvent, PartChange
from krift.v1.records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    TopicRecord,
)
from krift.v1.wire import to_bytes

QUORUM_EPOCH = 1


class Planned(msgspec.Struct, frozen=True):
    """A partition that there is from the start. ``replicas``: the first one leads."""

    topic: str
    index: int
    replicas: tuple[int, ...]


class Published:
    """Metadata logs by number, each a log before and one batch more; number 0 has the brokers with these ``ids`` and
    ``partitions``."""

    def __init__(self, ids: Sequence[int], partitions: Sequence[Planned], transaction_version: int) -> None:
        self.batches: list[Batch] = []
        self.states: list[MetadataState] = []
        self._logs: list[tuple[int, ...]] = []
        self._elections: dict[int, list[tuple[PartitionRegistration, int, int]]] = {}
        self._numbers: dict[tuple[int, ...], int] = {}
        feature = FeatureLevelRecord(name=TRANSACTION_FEATURE, feature_level=transaction_version)
        records = [MetadataRecord(feature_level=feature), *(_registered(broker, 1) for broker in ids)]
        topics = dict.fromkeys(each.topic for each in partitions)
        records += [MetadataRecord(topic=TopicRecord(name=topic, topic_id=f"id-{topic}")) for topic in topics]
        records += [_created(each) for each in partitions]
        self._add((), MetadataState(), records)

    def batches_of(self, number: int) -> list[Batch]:
        """A whole log."""
        return [self.batches[batch] for batch in self._logs[number]]

    def next_batch(self, number: int, offset: int) -> int | None:
        """The number of the batch that begins at an offset of a log, None: there it ends."""
        return next((batch for batch in self._logs[number] if self.batches[batch].base_offset == offset), None)

    def elections(self, number: int) -> list[tuple[PartitionRegistration, int, int]]:
        """Each partition whose leadership can move, to whom, and the log with that."""
        known = self._elections.get(number)
        if known is not None:
            return known
        found = self._elections[number] = []
        for state in self.states[number].partitions.values():
            for broker in state.isr:
                if broker != state.leader:
                    change = _change(state, leader=broker)
                    found.append((state, broker, self._extend(number, [MetadataRecord(partition_change=change)])))
        return found

    def after_crash(self, number: int, broker: int) -> int:
        """The log once a broker has died and registered again: it left every ISR that has somebody else, and others
        lead; where it was the only one, it leads again."""
        before = self.states[number]
        records = [_registered(broker, before.brokers[broker].epoch + 1)]
        for state in before.partitions.values():
            isr = [member for member in state.isr if member != broker]
            if broker in state.isr and isr:
                leader = isr[0] if state.leader == broker else None
                records.append(MetadataRecord(partition_change=_change(state, leader, isr)))
            elif state.leader == broker:
                records.append(MetadataRecord(partition_change=_change(state, broker)))
        return self._extend(number, records)

    def events(self, before: int, after: int) -> list[AnyTraceEvent]:
        """What the controller records of the partitions that differ between two logs; ``before`` -1: none."""
        known = {} if before < 0 else self.states[before].partitions
        return [
            PartChange(
                *(tp, self._end(after) - 1, QUORUM_EPOCH, state.leader, state.leader_epoch, state.partition_epoch),
                *(list(state.isr), list(state.replicas), "elect" if tp in known else "create"),
            )
            for tp, state in self.states[after].partitions.items()
            if known.get(tp) != state
        ]

    def _end(self, number: int) -> int:
        return self.batches[self._logs[number][-1]].end_offset

    def _extend(self, number: int, records: list[MetadataRecord]) -> int:
        return self._add(self._logs[number], self.states[number], records)

    def _add(self, log: tuple[int, ...], before: MetadataState, records: list[MetadataRecord]) -> int:
        last = self.batches[log[-1]] if log else None
        base, ph = (0, 0) if last is None else (last.end_offset, last.ph)
        batch = make_batch(ph, base, QUORUM_EPOCH, [Record(value=to_bytes(record)) for record in records])
        key = next((number for number, known in enumerate(self.batches) if known == batch), len(self.batches))
        if key == len(self.batches):
            self.batches.append(batch)
        found = self._numbers.setdefault((*log, key), len(self._logs))
        if found == len(self._logs):
            self._logs.append((*log, key))
            state: MetadataState = decode(encode(before), MetadataState)
            for index, record in enumerate(records):
                state.replay(record, base + index)
            self.states.append(state)
        return found


def _registered(broker: int, epoch: int) -> MetadataRecord:
    record = RegisterBrokerRecord(broker_id=broker, incarnation_id=f"{broker}.{epoch}", broker_epoch=epoch)
    return MetadataRecord(register_broker=record)


def _created(planned: Planned) -> MetadataRecord:
    replicas = list(planned.replicas)
    record = PartitionRecord(
        topic_id=f"id-{planned.topic}",
        partition_id=planned.index,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
    )
    return MetadataRecord(partition=record)


def _change(state: PartitionRegistration, leader: int | None, isr: list[int] | None = None) -> PartitionChangeRecord:
    change = PartitionChangeRecord(topic_id=state.topic_id, partition_id=state.partition)
    if leader is not None:
        change.leader = leader
    change.isr.extend(isr or ())
    return change
