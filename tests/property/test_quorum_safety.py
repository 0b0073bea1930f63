"""A whole quorum under random faults keeps Raft's promises, and each defect of the quorum breaks one of them."""

from __future__ import annotations

import random

import pytest

from actors.log.batch import Batch
from actors.node.codec import decode
from actors.node.spec import ClusterSpec
from actors.node.turn import NodeTurn
from actors.quorum.raft_client import METADATA_LOG_FILE
from actors.quorum.roles import Leader
from actors.trace.events import LogAppend, LogHw, QPersist, QRole, QVote, TraceEvent
from krift.v1.records import MetadataRecord, NoOpRecord
from tests.datadriven.quorum.members import Quorum

VOTERS = ["controller-1", "controller-2", "controller-3"]


class Broken(Exception):
    """A promise was broken: the first argument is the invariant."""


class Watch:
    """The invariants of the quorum over its trace, and over what is durable on its disks."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        self.leaders: dict[int, str] = {}
        self.votes: dict[tuple[str, int], int] = {}
        self.persisted: set[tuple[str, int, int]] = set()
        self.epochs: dict[str, int] = {}
        self.batches: dict[tuple[int, int], int] = {}
        self.committed: dict[int, int] = {}
        self.leader_marks: list[tuple[int, int]] = []

    def take(self, name: str, event: TraceEvent) -> None:
        """Judge an event as it is recorded."""
        self._election(name, event)
        self._log(name, event)

    def _election(self, name: str, event: TraceEvent) -> None:
        if isinstance(event, QPersist):
            if event.epoch < self.epochs.get(name, -1):
                raise Broken("Q3", name, event)
            self.epochs[name] = event.epoch
            self.persisted.add((name, event.epoch, event.voted_for))
        if isinstance(event, QRole):
            if event.epoch != self.epochs.get(name):
                raise Broken("Q3", name, event)
            if event.role == "leader":
                if self.leaders.setdefault(event.epoch, name) != name:
                    raise Broken("Q1", name, event)
                if len(event.votes) < 2:
                    raise Broken("Q5", name, event)
        if isinstance(event, QVote) and event.granted and not event.pre:
            if self.votes.setdefault((name, event.epoch), event.candidate) != event.candidate:
                raise Broken("Q2", name, event)
            if (name, event.epoch, event.candidate) not in self.persisted:
                raise Broken("Q2", name, event)

    def _log(self, name: str, event: TraceEvent) -> None:
        if (
            isinstance(event, LogAppend)
            and self.batches.setdefault((event.last, event.batch_epoch), event.ph) != event.ph
        ):
            raise Broken("Q6", name, event)
        if isinstance(event, LogHw):
            if self.committed.setdefault(event.new, event.ph) != event.ph:
                raise Broken("Q10", name, event)
            if event.role == "leader":
                self._leader_high_watermark(name, event)

    def _leader_high_watermark(self, name: str, event: LogHw) -> None:
        log = self.quorum.members[name].raft.log
        if log.epochs.epoch_at(event.new - 1) != event.leader_epoch:
            raise Broken("Q8", name, event)
        for epoch, mark in self.leader_marks:
            if (epoch <= event.leader_epoch and mark > event.new) or (epoch > event.leader_epoch and mark < event.new):
                raise Broken("Q9", name, event)
        self.leader_marks.append((event.leader_epoch, event.new))
        if sum(self._has_durably(voter, event.new, event.ph) for voter in VOTERS) < 2:
            raise Broken("Q7", name, event)

    def _has_durably(self, name: str, offset: int, ph: int) -> bool:
        entries = self.quorum.durable.get(name, {}).get(METADATA_LOG_FILE, [])
        batches: list[Batch] = [decode(entry, Batch) for entry in entries]
        return any(batch.end_offset == offset and batch.ph == ph for batch in batches)


def append(quorum: Quorum, name: str, count: int) -> None:
    """Give records to a node that may lead."""
    member = quorum.members[name]
    records = [MetadataRecord(no_op=NoOpRecord()) for _ in range(count)]

    def act(turn: NodeTurn) -> None:
        member.raft.append(turn, records)

    quorum.step(member, act)


def disturb(quorum: Quorum, draw: random.Random, defects: list[str]) -> None:
    """One random fault, healing or append."""
    running, name = sorted(quorum.members), draw.choice(VOTERS)
    match draw.randrange(9):
        case 0 | 1:
            for leader in [n for n in running if isinstance(quorum.members[n].raft.quorum.role, Leader)]:
                append(quorum, leader, draw.randint(1, 3))
        case 2:
            other = draw.choice([voter for voter in VOTERS if voter != name])
            quorum.cut |= {(name, other)} if draw.random() < 0.5 else {(name, other), (other, name)}
        case 3:
            quorum.cut = set()
        case 4 if name in quorum.members:
            (quorum.crash if draw.random() < 0.5 else quorum.lose_power)(name)
        case 5 | 6:
            for down in [voter for voter in VOTERS if voter not in quorum.members]:
                quorum.start(down, defects)
        case 7 if name in quorum.members:
            member = quorum.members[name]
            member.manual_sync = True
        case _:
            release_syncs(quorum)


def release_syncs(quorum: Quorum) -> None:
    """Every disk catches up."""
    for member in list(quorum.members.values()):
        member.manual_sync = False
        held, member.held_syncs = member.held_syncs, []
        for synced in held:
            quorum.report_sync(member, synced)


def torment(seed: int, defects: list[str], features: dict[str, str], rounds: int = 60) -> Quorum:
    """A quorum after many random disturbances. Raises Broken as soon as a promise is."""
    draw = random.Random(seed)
    quorum = Quorum(ClusterSpec("krift", [101, 102, 103], [1]), features)
    quorum.observer = Watch(quorum).take
    for name in VOTERS:
        quorum.start(name, defects)
    quorum.run_for(2500)
    for _ in range(rounds):
        disturb(quorum, draw, defects)
        quorum.run_for(draw.choice([0, 5, 30, 200, 1000, 2500]))
        quorum.lines.clear()
    return quorum


@pytest.mark.parametrize("pre_vote", ["kafka", "off"])
@pytest.mark.parametrize("seed", range(12))
def test_faults_break_no_promise(seed: int, pre_vote: str) -> None:
    """Shows that cuts, crashes, power losses and slow disks break no invariant, and that a healed quorum commits."""
    quorum = torment(seed, [], {"kip-996": pre_vote})
    quorum.cut = set()
    release_syncs(quorum)
    for name in VOTERS:
        if name not in quorum.members:
            quorum.start(name, [])
    quorum.run_for(20_000)
    leaders = [name for name in VOTERS if isinstance(quorum.members[name].raft.quorum.role, Leader)]
    assert len(leaders) == 1
    append(quorum, leaders[0], 2)
    quorum.run_for(1000)
    ends = {
        (member.raft.end_offset, member.raft.high_watermark, member.raft.epoch) for member in quorum.members.values()
    }
    assert len(ends) == 1
    assert next(iter(ends))[0] == next(iter(ends))[1] > 0


CAUGHT_BY = {
    "double-vote": {"Q2"},
    "vote-before-sync": {"Q2", "Q3"},
    "same-epoch-leader": {"Q1", "Q5"},
    "epoch-reset": {"Q3"},
    "commit-old-epoch": {"Q8"},
    "quorum-hw-regress": {"Q9", "Q7"},
}


@pytest.mark.parametrize("defect", CAUGHT_BY)
def test_each_defect_breaks_its_promise(defect: str) -> None:
    """Shows that a quorum with the defect breaks the invariant that is meant to catch it within a few seeds."""
    found: set[str] = set()
    for seed in range(40):
        try:
            torment(seed, [defect], {"kip-996": "off"})
        except Broken as broken:
            found.add(broken.args[0])
        if found & CAUGHT_BY[defect]:
            break
    assert found & CAUGHT_BY[defect], found
