"""L5: what becomes of the sends of producers."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import is_recreated, node_name
from actors.trace.events import (
    CtlFault,
    ErrorSeen,
    LogAppend,
    LogTrunc,
    NodeDown,
    PartAssume,
    PartChange,
    SendInvoke,
    SendOffsetsInvoke,
    SendOffsetsReturn,
    SendReturn,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile
from orchestrator.invariants.folds.known_findings import known_as
from orchestrator.invariants.folds.memory import OPEN_REMEMBERED, remember
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.folds.uids import place_of
from orchestrator.invariants.folds.windows import (
    Obligation,
    PartitionInvariant,
    PartitionState,
    beta,
)
from orchestrator.invariants.liveness.cluster import TOO_FEW
from orchestrator.invariants.liveness.held_back import HELD_BACK, HELD_BACK_RULE, TELL_WHO_IS_HELD_BACK, HeldBack
from orchestrator.invariants.liveness.out_of_sequence import OutOfSequence
from orchestrator.invariants.mirrors.hung_brokers import HungBrokers
from orchestrator.invariants.mirrors.late_pushes import LATE_PUSH, LATE_PUSH_RULE, LatePushes
from orchestrator.invariants.mirrors.producer_state import NO_PRODUCER_STATE


class OpenSend(msgspec.Struct, frozen=True):
    """client: node that sends. producer, number: of the record, from its uid ``producer-1:5``. at_us: when."""

    acks: int
    client: str
    producer: str
    number: int
    at_us: int


class Sends(PartitionState):
    """sends: those that are open, by operation. min_isr: as of the topic. producers: broker -> producer id -> offset of
    its first batch in that broker's log. overtaken: producer -> up to which number its open sends have missed their
    turn. hung: what is known of brokers that hang; known: the finding about them, if it is one here. pushes: of
    UpdateMetadata. held_back: who sends no records. gaps: in the sequences of producers."""

    sends: dict[str, OpenSend] = {}
    min_isr: int = 1
    producers: dict[str, dict[int, int]] = {}
    overtaken: dict[str, int] = {}
    hung: HungBrokers = msgspec.field(default_factory=HungBrokers)
    known: str = ""
    pushes: LatePushes = msgspec.field(default_factory=LatePushes)
    held_back: HeldBack = msgspec.field(default_factory=HeldBack)
    gaps: OutOfSequence = msgspec.field(default_factory=OutOfSequence)

    def cut_log(self, broker: str, end: int) -> None:
        """The log of a broker ends at ``end`` now."""
        first = self.producers.get(broker, {})
        self.producers[broker] = {producer: base for producer, base in first.items() if base < end}


class SendsReturn(PartitionInvariant[Sends]):
    """A send that is neither acknowledged nor refused blocks all later sends to its partition.

    Example: the leader of orders-0 answered producer-1 with NOT_LEADER_OR_FOLLOWER, the new one is up and in reach with
    the whole ISR, and producer-1 never sends the batch again.

    A send whose time is up sooner is judged by what happens to the next ones. A batch that was not written leaves a gap
    in the sequence of an idempotent producer; the leader refuses those behind it, until the producer begins a new epoch
    (KIP-360). It does that once a batch is over that was refused so: none that is sent afterwards may be refused so
    until its time is up, without another cause.

    Example: batch 5-9 of producer-1 reached its delivery.timeout.ms while orders-0 had no leader. The next leader
    expects sequence 5, and refuses 10-14 until that is over, and then 15-19 likewise.
    """

    id = "L5"
    title = "A send to a partition with enough in-sync replicas is acknowledged or definitely refused"
    source = "KIP-91; Sender.java"
    tested_when = (
        "a send that is open in a window returns with ok or a definite error; or a send is acknowledged after a batch "
        "was out of sequence until its time was up"
    )
    route = PARTITION
    types = (SendInvoke, SendReturn, ErrorSeen, PartChange, PartAssume, LogAppend, LogTrunc)
    exemptions = {
        "isr-away": TOO_FEW,
        "no-producer-state": NO_PRODUCER_STATE,
        LATE_PUSH_RULE: LATE_PUSH,
        HELD_BACK_RULE: HELD_BACK,
    }
    unseen = (
        (
            "a send whose own timeout is shorter than the bound: it ends as unknown, and is judged only where its "
            "leader refuses it as out of sequence; in a transaction, and in topics that were made anew, not even then"
        ),
        "acks=0, which returns ok when it is sent",
    )

    def initial(self, key: str, profile: Profile) -> Sends:
        hung, known = HungBrokers.among(profile), known_as(profile, "finding-hung-brokers")
        pushes = LatePushes.of(profile)
        return Sends(
            key, beta_us=beta(profile, self.id), min_isr=profile.min_isr(key), hung=hung, known=known, pushes=pushes
        )

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, *TELL_WHO_IS_HELD_BACK)

    def hear(self, state: Sends, event: Stamped) -> Emissions:
        if isinstance(event.body, TELL_WHO_IS_HELD_BACK):
            state.held_back.take(event)
        if type(event.body) is NodeDown:
            self._cut(state, event.node, event.body)
            self._forget_client(state, event.node)
            state.gaps.ended(event.node)
        if isinstance(event.body, NodeDown | SendOffsetsInvoke | SendOffsetsReturn):
            return NOTHING
        if type(event.body) is CtlFault:
            state.hung.take(event.body, event.wall)
            state.pushes.take(event.body)
        return super().hear(state, event)

    def step(self, state: Sends, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PartChange:
            state.take(event, body)
            return NOTHING
        if kind is LogAppend:
            self._look_for_gap(state, event.node, body)
            return NOTHING
        if kind is LogTrunc or kind is PartAssume:
            self._cut(state, event.node, body)
            state.gaps.forget()
            return NOTHING
        if kind is ErrorSeen:
            state.gaps.error(event, body)
            return NOTHING
        if kind is SendInvoke:
            self.oblige(state, body.op, event)
            at_us = event.wall if not body.transactional_id else -1
            remember(
                state.sends, body.op, OpenSend(body.acks, event.node, *place_of(body.uid), at_us), OPEN_REMEMBERED
            )  # their clients are gone
            return NOTHING if state.armed_us >= 0 else self.arm(state)
        return self._returned(state, event, body)

    def _returned(self, state: Sends, event: Stamped, body: SendReturn) -> Emissions:
        send = state.sends.pop(body.op, None)
        before, closed = state.gaps.returned(event, body, -1 if send is None else send.at_us)
        state.tested += closed
        if body.outcome == "unknown":
            # Given up before it was due: the window was too short for it, or its time-out is.
            state.cut += body.op in state.due
            self.void(state, body.op)
        elif event.node in state.core:
            self.kept(state, body.op)
        else:
            self.void(state, body.op)
        if before is None or is_recreated(state.key) or state.is_removed:
            return NOTHING
        sentence = (
            f"{event.node} gave up record {body.uid}, which the leader of {state.key} refused as out of sequence, "
            f"though it was sent after {before.uid} had been given up for that: it began no new epoch"
        )
        return self.violated(state.key, sentence, before.by, event)

    def _cut(self, state: Sends, broker: str, body: LogTrunc | PartAssume | NodeDown) -> None:
        if type(body) is LogTrunc:
            state.cut_log(broker, body.to)
        elif type(body) is PartAssume:
            state.cut_log(broker, body.log_end)
        elif type(body) is NodeDown and state.key in body.lost:
            state.cut_log(broker, body.lost[state.key])

    def _forget_client(self, state: Sends, client: str) -> None:
        """Its process has ended, and nobody waits for its sends any more."""
        for op in [op for op, send in state.sends.items() if send.client == client]:
            del state.sends[op]
            self.void(state, op)

    def _look_for_gap(self, state: Sends, broker: str, body: LogAppend) -> None:
        """A leader whose log has nothing of a producer id takes its first batch with any sequence, so a later one of
        the producer's: what comes before that is refused as out of order until its time is up."""
        if body.producer_id < 0:
            return
        known = state.producers.setdefault(broker, {})
        if body.producer_id in known:
            return
        known[body.producer_id] = body.base
        if body.role == "leader" and body.base_sequence > 0:
            producer, first = place_of(body.uids[0])
            state.overtaken[producer] = first

    def _is_overtaken(self, state: Sends, send: OpenSend) -> bool:
        """Whether it waits for one that missed its turn, or did so itself: a producer keeps its order."""
        missed = state.overtaken.get(send.producer, -1)
        return any(each.producer == send.producer and each.number < missed for each in state.sends.values())

    def missed(self, state: Sends, name: str, obligation: Obligation) -> Emissions:
        assert obligation.by is not None
        client, send = obligation.by.node, state.sends.get(name)
        if client not in state.core:
            return NOTHING
        there = [member for member in state.isr if node_name(member) in state.core]
        record = name.removeprefix("send").lstrip("/ ")
        sentence = f"the send {record} of {client} to {state.key} did not return {self.within(state)}"
        newest = state.newest.by if state.newest is not None else None
        if len(there) < (state.needed(state.min_isr) if send is not None and send.acks == -1 else 1):
            return self.excused("isr-away", state.key, sentence, obligation.by, newest)
        if send is not None and self._is_overtaken(state, send):
            return self.excused("no-producer-state", state.key, sentence, obligation.by, newest)
        if state.pushes.possible:
            return self.excused(LATE_PUSH_RULE, state.key, sentence, obligation.by, newest)
        if state.held_back.has(client):
            return self.excused(HELD_BACK_RULE, state.key, sentence, obligation.by, newest)
        sentence += f": its ISR is {', '.join(map(node_name, state.isr))}, led by {state.leader or 'nobody'}"
        hung = state.hung.of(client, state.core)
        if len(hung) > 1:
            sentence += f", while {', '.join(hung)} hang"
        return self.violated(state.key, sentence, obligation.by, newest, known=state.known if len(hung) > 1 else "")
