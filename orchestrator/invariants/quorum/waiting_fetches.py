"""Fetches of the metadata log that wait at a leader."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import LogAppend, LogHw, LogStart, QFreeze, QRole, QWaited, Stamped, Waited
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror

OFFICES_KEPT = 1 << 4
"""Offices of a node that are remembered: more than it can hold while a Fetch waits."""

DOES_NOT_ASK = 2**63 - 1
"""The high watermark in a Fetch below version 18."""


class Office(msgspec.Struct):
    """What the leader of a quorum epoch has in it, or had at its end: where its log ends, and its high watermark, -1
    it has not moved; and by which events."""

    end: int
    appended: Witness
    high_watermark: int = -1
    moved: Witness | None = None


class Reached(msgspec.Struct):
    """The highest high watermark that a node has ever had, and by which event."""

    end: int
    by: Witness


class Offices(State):
    """offices: node -> quorum epoch -> office. reached: node -> its highest high watermark, which a process that starts
    on a snapshot has without a further event."""

    offices: dict[str, dict[int, Office]] = {}
    reached: dict[str, Reached] = {}

    def of(self, node: str, epoch: int) -> Office | None:
        """That of a node in an epoch."""
        return self.offices.get(node, {}).get(epoch)


class FetchesWaitForNews(LogInvariant[Offices]):
    """A member fetches the metadata log all the time. Its Fetch waits at the leader while there is nothing to tell: no
    record behind the member's log, and no high watermark that it does not know. Whatever comes ends the wait at once:
    each commit takes two such answers, one with the records and one with the high watermark.

    Example: controller-1 appends offset 118, and leaves the Fetch of controller-2, which is at 118, where it is. That
    ends after 500 ms, with no records. The next one brings them, and a topic takes half a second to create.

    What the member knows is what its Fetch says. If controller-2, at 118, calls that its high watermark while that is
    117, the leader never wakes it for 118: a Fetch may name a high watermark only that its sender has had once.

    A leader that loses its office by a Vote leaves Fetches where they are until their time is over: what counts is what
    it had and knew at the end of the office in which the Fetch came.
    """

    id = "Q22"
    title = "A Fetch of the metadata log waits at the leader only while there is nothing new for it"
    source = "KIP-595; KIP-1166; Kafka's KafkaRaftClient.handleFetchRequest, ThresholdPurgatory"
    tested_when = "a leader answers a Fetch that has waited"
    types = (QWaited, QRole, LogAppend, LogHw, LogStart, QFreeze)
    cases = {LogAppend: ("leader",)}
    unseen = (
        "A Fetch that is answered before there is anything for it.",
        "A Fetch whose connection ends while it waits.",
        "A high watermark that a leader takes over from its time as a follower without moving it.",
        "A Fetch that names a high watermark which its sender had once, and not at that moment.",
    )

    def initial(self, key: str, profile: Profile) -> Offices:
        return Offices(key)

    def step(self, state: Offices, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is QWaited:
            state.tested += len(body.fetches)
            return [found for fetch in body.fetches for found in self._judge(state, event, fetch, body.by)]
        if type(body) is QRole:
            if body.role == "leader":
                held = state.offices.setdefault(event.node, {})
                held[body.epoch] = Office(body.log_end, witness(event))
                for epoch in sorted(held)[:-OFFICES_KEPT]:
                    del held[epoch]
        elif type(body) is LogAppend:
            if (office := state.of(event.node, body.leader_epoch)) is not None:
                office.end, office.appended = body.last + 1, witness(event)
        elif type(body) is LogHw:
            self._reaches(state, event, body.new)
            if body.role == "leader" and (office := state.of(event.node, body.leader_epoch)) is not None:
                office.high_watermark, office.moved = body.new, witness(event)
        elif type(body) is LogStart:
            self._reaches(state, event, body.new)
        elif type(body) is QFreeze:
            self._reaches(
                state, event, body.end
            )  # the next process may find it, where this one ends before it can say so
        return NOTHING

    @staticmethod
    def _reaches(state: Offices, event: Stamped, end: int) -> None:
        reached = state.reached.get(event.node)
        if reached is None or reached.end < end:
            state.reached[event.node] = Reached(end, witness(event))

    def _judge(self, state: Offices, event: Stamped, fetch: Waited, by: str) -> Emissions:
        """What ends the wait now is new, and no reason to have ended it before."""
        who = node_name(fetch.follower) if fetch.follower >= 0 else "a client"
        what = f"{event.node} let the Fetch of {who} at {fetch.offset:,} wait in quorum epoch {fetch.epoch}"
        if fetch.end > fetch.offset:
            return self.violated(state.key, f"{what}, although it had records for it up to {fetch.end:,}", event)
        if fetch.told > fetch.known:
            sentence = f"{what}, although its high watermark was {fetch.told:,} and that of {who} {fetch.known:,}"
            return self.violated(state.key, sentence, event)
        reached = state.reached.get(who)
        if reached is not None and DOES_NOT_ASK > fetch.known > reached.end:
            sentence = (
                f"{what}, which named {fetch.known:,} as its high watermark, but that had come to {reached.end:,}"
            )
            return self.violated(state.key, sentence, reached.by, event)
        office = state.of(event.node, fetch.epoch)
        if office is None:
            return NOTHING
        if by != "append" and office.end > fetch.offset:
            sentence = f"{what} after it had appended records up to {office.end:,}"
            return self.violated(state.key, sentence, office.appended, event)
        if by != "commit" and office.high_watermark > fetch.told:
            sentence = f"{what} after its high watermark had moved from {fetch.told:,} to {office.high_watermark:,}"
            return self.violated(state.key, sentence, office.moved, event)
        return NOTHING
