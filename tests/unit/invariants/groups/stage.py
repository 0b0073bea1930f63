"""A group, in hand-written traces: its coordinator, its members, and what they tell each other."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import structs

from actors.trace.events import (
    NO_ENTRY,
    CommitInvoke,
    CommitReturn,
    CommittedInvoke,
    CommittedReturn,
    ConsOwn,
    GrpCommit,
    GrpFetch,
    GrpGen,
    GrpLoad,
    LogAppend,
    PartAssume,
    PartChange,
)
from tests.unit.invariants.trace_builder import TP, TraceBuilder, hash_of

GROUP = "g"
OFFSETS = "__consumer_offsets-0"
ONE, TWO = "consumer-1", "consumer-2"
PRODUCER = 7
MEMBERS = [ONE, TWO]
PROFILE = {"groups": {GROUP: {"members": MEMBERS, "partitions": [TP, "orders-1"]}}}


def entry(offset: int, leader_epoch: int = 0, metadata_epoch: int = -1) -> list[int]:
    """What is stored with a position."""
    return [offset, leader_epoch, metadata_epoch]


class GroupTrace(TraceBuilder):
    """``TraceBuilder`` with a group: "m1" is consumer-1 as a member, "m2" consumer-2."""

    def __init__(self, **profile: Any) -> None:
        super().__init__(**{**PROFILE, **profile})
        self.ops = 0
        self.owned: dict[str, list[str]] = {}

    # ---- the coordinator ------------------------------------------------------------------------------------

    def gen(
        self,
        state: Any,
        generation: int,
        members: str = "m1 m2",
        epoch: int = 0,
        broker: int = 1,
        **assignment: str,
    ) -> str:
        """A state of the group. ``assignment``: member id -> partitions in one word."""
        told = {member: ONE if member == "m1" else TWO for member in members.split()}
        given = {member: tps.split() for member, tps in assignment.items()}
        body = GrpGen(OFFSETS, GROUP, state, generation, epoch, members=told, assignment=given)
        return self.emit(f"broker-{broker}", body)

    def stable(self, generation: int, epoch: int = 0, broker: int = 1, **assignment: str) -> str:
        """The group is stable."""
        given = assignment or {"m1": TP, "m2": "orders-1"}
        return self.gen("Stable", generation, " ".join(given), epoch, broker, **given)

    def decides(
        self,
        offset: int,
        log_offset: int = 0,
        member: str = "m1",
        generation: int = 1,
        epoch: int = 0,
        broker: int = 1,
        error: int = 0,
        metadata_epoch: int = -1,
        asked: str = "",
        producer: int = -1,
        expires_ms: int = -1,
    ) -> str:
        """The coordinator decides on a commit, which the client asked for after its event ``asked``; ``producer``: in a
        transaction of that one."""
        place = (OFFSETS, epoch, member, generation)
        of = (0 if offset >= 0 else -1, metadata_epoch, error, log_offset, producer)
        body = GrpCommit(TP, GROUP, *place, offset, *of, expires_ms=expires_ms)
        self.cause = asked
        try:
            return self.emit(f"broker-{broker}", body)
        finally:
            self.cause = ""

    def answers(self, told: list[int] | None, epoch: int = 0, broker: int = 1, error: int = 0) -> str:
        """The coordinator answers a look-up."""
        offsets = {TP: told or NO_ENTRY}
        return self.emit(f"broker-{broker}", GrpFetch(GROUP, OFFSETS, epoch, error, offsets))

    def loads(self, end: int, told: list[int] | None = None, epoch: int = 0, broker: int = 1, **groups: Any) -> str:
        """The coordinator has read its log."""
        offsets = {GROUP: {TP: told}} if told else {}
        return self.emit(f"broker-{broker}", GrpLoad(OFFSETS, epoch, True, end, offsets, groups))

    def loads_stable(self, generation: int, epoch: int = 1, broker: int = 2, **assignment: str) -> str:
        """Its log has a generation. ``assignment``: member id -> partitions in one word."""
        given = {member: tps.split() for member, tps in assignment.items()}
        told = {member: ONE if member == "m1" else TWO for member in given}
        groups: dict[str, Any] = {GROUP: ("Stable", generation)}
        body = GrpLoad(OFFSETS, epoch, True, 5, {}, groups, {GROUP: told}, {GROUP: given})
        return self.emit(f"broker-{broker}", body)

    def unloads(self, epoch: int = 0, broker: int = 1) -> str:
        """It gives up what it had."""
        return self.emit(f"broker-{broker}", GrpLoad(OFFSETS, epoch, False))

    def elected_uncleanly(self, broker: int, epoch: int) -> str:
        """A controller elects a leader of the offsets partition from outside the ISR."""
        isr, replicas = [broker], [1, 2, 3]
        return self.emit("controller-1", PartChange(OFFSETS, 10, 1, broker, epoch, epoch, isr, replicas, "unclean"))

    # ---- members ----------------------------------------------------------------------------------------------

    def owns(self, node: str, owned: str, generation: int = 1, reason: Any = "assign", member: str = "") -> str:
        """What a member has from now on."""
        member = member or ("m1" if node == ONE else "m2")
        before, now = self.owned.get(node, []), owned.split()
        self.owned[node] = now
        added, gone = [tp for tp in now if tp not in before], [tp for tp in before if tp not in now]
        revoked, lost = ([], gone) if reason == "lost" else (gone, [])
        return self.emit(node, ConsOwn(GROUP, member, generation, now, added, revoked, lost, reason))

    def commits(self, offset: int, node: str = ONE, generation: int = 1, how: Any = "sync", **more: Any) -> str:
        """A member asks to commit; returns the operation."""
        self.ops += 1
        op = f"commit-{self.ops}"
        member = "m1" if node == ONE else "m2"
        self.emit(node, CommitInvoke(op, GROUP, member, generation, {TP: entry(offset, **more)}, how))
        return op

    def committed(
        self,
        op: str,
        offset: int,
        node: str = ONE,
        generation: int = 1,
        error: int = 0,
        answer: str = "",
        **more: Any,
    ) -> str:
        """It is told what came of it, by the event ``answer`` of a coordinator."""
        member = "m1" if node == ONE else "m2"
        outcome: Literal["ok", "fail"] = "fail" if error else "ok"
        told = (GROUP, member, generation, {TP: entry(offset, **more)}, "sync", {TP: error})
        self.cause = answer
        try:
            return self.emit(node, CommitReturn(op, outcome, error, *told))
        finally:
            self.cause = ""

    def acks(self, offset: int, log_offset: int, node: str = ONE, epoch: int = 0, broker: int = 1) -> str:
        """A whole commit that is acknowledged."""
        op = self.commits(offset, node)
        member = "m1" if node == ONE else "m2"
        self.decides(offset, log_offset, member, epoch=epoch, broker=broker, asked=self.events[-1].id)
        return self.committed(op, offset, node)

    def acks_entry(self, asked: list[int], stored: list[int], version: int = -1) -> str:
        """A whole commit of an entry, by a request of this version."""
        epochs = dict(zip(("leader_epoch", "metadata_epoch"), asked[1:], strict=True))
        op = self.commits(asked[0], **epochs)
        self.cause = self.events[-1].id
        self.emit("broker-1", GrpCommit(TP, GROUP, OFFSETS, 0, "m1", 1, *stored, log_offset=0, version=version))
        self.cause = ""
        return self.committed(op, asked[0], **epochs)

    def looks_up(self, node: str = TWO) -> str:
        """A member asks what is committed; returns the operation."""
        self.ops += 1
        self.emit(node, CommittedInvoke(f"committed-{self.ops}", GROUP, [TP]))
        return f"committed-{self.ops}"

    def is_told(self, op: str, told: list[int] | None, node: str = TWO, answer: str = "") -> str:
        """It is answered, by the event ``answer`` of a coordinator."""
        self.cause = answer
        body = CommittedReturn(op, "ok", 0, GROUP, [TP], {TP: told or NO_ENTRY})
        try:
            return self.emit(node, body)
        finally:
            self.cause = ""


class Coordinated(GroupTrace):
    """A group whose offsets partition has a log; each record is a batch of its own."""

    def leads(self, broker: int, epoch: int, end: int = 0, follows: bool = False) -> str:
        """A broker takes up a leader epoch."""
        role: Any = "follower" if follows else "leader"
        body = PartAssume(OFFSETS, role, broker, epoch, epoch, end, end if not follows else -1, 0, 1)
        return self.emit(f"broker-{broker}", body)

    def writes(self, broker: int = 1, epoch: int = 0, leads: bool = True) -> int:
        """A replica appends one record; returns its offset."""
        at = self.log_end(broker, OFFSETS)
        self.append(f"broker-{broker}", f"r{at}", epoch=epoch, tp=OFFSETS, role="leader" if leads else "follower")
        return at

    def writes_in_transaction(self, broker: int, marker: Literal["", "commit", "abort"] = "", epoch: int = 0) -> None:
        """A replica appends a record of a transaction, or its marker."""
        at, node = self.log_end(broker, OFFSETS), f"broker-{broker}"
        uid = f"r{at}"
        log = self.logs.setdefault((OFFSETS, node), [(0, 0)])
        log.append((at + 1, hash_of(log[-1][1], epoch, [uid], 0)))
        role: Any = "leader" if (broker == 1) == (epoch == 0) else "follower"
        body = LogAppend(OFFSETS, role, at, at, epoch, epoch, PRODUCER, 0, -1, bool(marker), [uid], ph=log[-1][1])
        self.emit(node, structs.replace(body, transactional=True, marker=marker))

    def commits_up_to(self, broker: int, new: int, epoch: int = 0) -> str:
        """A leader's high watermark."""
        return self.high_watermark(f"broker-{broker}", new, epoch, OFFSETS)

    def stores(self, offset: int, broker: int = 1, epoch: int = 0, commit: bool = True) -> int:
        """A commit that the coordinator appends, and the follower has; ``commit``: up to the high watermark."""
        at = self.writes(broker, epoch)
        self.decides(offset, at, epoch=epoch, broker=broker)
        if commit:
            other = 2 if broker == 1 else 1
            self.writes(other, epoch, leads=False)
            self.commits_up_to(broker, at + 1, epoch)
        return at

    def begins(self, broker: int = 1, epoch: int = 0) -> None:
        """A broker becomes the coordinator of an empty log."""
        self.leads(broker, epoch)
        self.loads(0, epoch=epoch, broker=broker)
