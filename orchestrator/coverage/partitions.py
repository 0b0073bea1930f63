"""Coverage of topic partitions: leaders, ISRs, high watermarks, what waits for them, truncations."""

from __future__ import annotations

from collections import deque

import msgspec

from actors.node.spec import METADATA_PARTITION, node_name
from actors.trace.events import IsrPropose, LogAppend, LogHw, LogTrunc, PartAssume, PartChange, RepFetch, Stamped
from orchestrator.coverage.buckets import beside_min_isr, compared, few, lag, size
from orchestrator.coverage.points import Handler, Points

EPOCHS_KEPT = 16
"""Leader epochs of a topic partition whose change is remembered, for the leader that takes them up."""


class _Change(msgspec.Struct, frozen=True):
    """What the last change of a topic partition said, bucketed."""

    cause: str
    isr: str
    beside: str
    elr: str


_NONE: deque[int] = deque()
_UNKNOWN = _Change("unknown", "?", "?", "?")


class _State(msgspec.Struct):
    """A topic partition. epochs: leader epoch -> the change that began it. now: the last change. waiting: per leader,
    last offsets of the batches that it appended and that are above its high watermark. high: per replica, its high
    watermark. led: per process, the leader epoch that it led last, and whether it leads on."""

    epochs: dict[int, _Change] = {}
    now: _Change = _UNKNOWN
    isr: int = 0
    leader: int = -2
    leader_epoch: int = -1
    elr: int = 0
    waiting: dict[str, deque[int]] = {}
    high: dict[str, int] = {}
    led: dict[tuple[str, int], tuple[int, bool]] = {}


class PartitionCoverage:
    """What becomes of topic partitions, and of the metadata log as a log."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._add = points.found.add
        self._states: dict[str, _State] = {}

    def handlers(self) -> dict[type, Handler]:
        """Event type -> what to do about it."""
        return {
            PartChange: self._on_change,
            PartAssume: self._on_assume,
            LogAppend: self._on_append,
            LogHw: self._on_high_watermark,
            LogTrunc: self._on_truncation,
            IsrPropose: self._on_proposal,
            RepFetch: self._on_fetch,
        }

    def _state(self, tp: str) -> _State:
        found = self._states.get(tp)
        if found is None:
            found = self._states[tp] = _State()
        return found

    def _on_change(self, event: Stamped) -> None:
        """``isr/<cause>/<size before>/<size>/<beside min.insync.replicas>/<size of the ELR>``."""
        body = event.body
        assert type(body) is PartChange
        state = self._state(body.tp)
        beside = beside_min_isr(len(body.isr), body.min_isr)
        new = _Change(body.cause, size(len(body.isr)), beside, few(len(body.elr)))
        self._add(("isr", body.cause, size(state.isr), new.isr, beside, new.elr))
        for step in _steps(state, body):
            self._points.step(event, step, body.tp)
        if body.leader_epoch not in state.epochs:
            state.epochs[body.leader_epoch] = new
            if len(state.epochs) > EPOCHS_KEPT:
                del state.epochs[next(iter(state.epochs))]
        state.now, state.isr, state.elr = new, len(body.isr), len(body.elr)
        state.leader, state.leader_epoch = body.leader, body.leader_epoch
        self._points.leaders[body.tp] = node_name(body.leader) if body.leader >= 0 else ""

    def _on_assume(self, event: Stamped) -> None:
        """``leader/<cause>/<ISR>/<HW behind the log end>/<beside min.insync.replicas>/<ELR>`` of a new leader,
        ``again/<leader epochs apart>/<followed, in-place or alone>`` of a process that has led before, and
        ``deposed/<batches that waited>/<HW behind the log end>`` of one that becomes a follower."""
        body = event.body
        assert type(body) is PartAssume
        state = self._state(body.tp)
        behind = lag(body.log_end - body.high_watermark)
        waited = state.waiting.pop(event.node, None)
        state.high[event.node] = body.high_watermark
        if body.role == "leader":
            change = state.epochs.get(body.leader_epoch, _UNKNOWN)
            self._add(("leader", change.cause, change.isr, behind, change.beside, change.elr))
            self._on_leader_again(state, event, body.leader_epoch)
            if body.leader_epoch > 0 and body.leader_epoch_start > body.high_watermark:
                self._points.step(event, "lagging-leader", body.tp)
            return
        if waited is not None:
            self._add(("deposed", lag(len(waited)), behind))
        epoch, leads = state.led.get((event.node, event.incarnation), (0, False))
        if leads:
            state.led[event.node, event.incarnation] = (epoch, False)
            self._points.step(event, "demoted", body.tp)

    def _on_leader_again(self, state: _State, event: Stamped, leader_epoch: int) -> None:
        """in-place: somebody else led in between, and it heard of that only now; alone: nobody did."""
        process = (event.node, event.incarnation)
        epoch, leads = state.led.get(process, (leader_epoch, True))
        if leader_epoch > epoch:
            others = any(epoch < other < leader_epoch for other, _ in state.led.values())
            how = "followed" if not leads else "in-place" if others else "alone"
            self._add(("again", few(leader_epoch - epoch), how))
        state.led[process] = (leader_epoch, True)

    def _on_append(self, event: Stamped) -> None:
        """``producer-epoch/<number>`` of a batch, and ``batch/<records>`` as a leader appends it."""
        body = event.body
        assert type(body) is LogAppend
        if body.role != "leader" or body.tp == METADATA_PARTITION:
            return
        state = self._state(body.tp)
        waiting = state.waiting.get(event.node)
        if waiting is None:
            waiting = state.waiting[event.node] = deque()
        waiting.append(body.last)
        if body.producer_epoch > 0:
            self._add(("producer-epoch", few(body.producer_epoch)))
        self._add(("batch", lag(body.last - body.base + 1)))

    def _on_high_watermark(self, event: Stamped) -> None:
        """``hw/<behind the log end>/<ISR>/<beside min.insync.replicas>/<batches that wait>/<counted>`` of a leader;
        ``quorum-hw/<behind the log end>/<counted>``."""
        body = event.body
        assert type(body) is LogHw
        state = self._state(body.tp)
        state.high[event.node] = body.new
        if body.role != "leader":
            return
        behind = lag(body.log_end - body.new)
        if body.tp == METADATA_PARTITION:
            self._add(("quorum-hw", behind, size(len(body.counted))))
            return
        waiting = state.waiting.get(event.node, _NONE)
        while waiting and waiting[0] < body.new:
            waiting.popleft()
        now = state.now
        self._add(("hw", behind, now.isr, now.beside, lag(len(waiting)), size(len(body.counted))))

    def _on_truncation(self, event: Stamped) -> None:
        """``truncated/<data or metadata>/<reason>/<offsets cut>/<where it ends beside the high watermark>``."""
        body = event.body
        assert type(body) is LogTrunc
        high = self._state(body.tp).high.get(event.node, 0)
        log = "metadata" if body.tp == METADATA_PARTITION else "data"
        self._add(("truncated", log, body.reason, lag(body.was - body.to), compared(body.to, high)))
        self._points.step(event, "truncated", body.tp)

    def _on_proposal(self, event: Stamped) -> None:
        """``proposal/<outcome>/<ISR asked for, beside the present one>``."""
        body = event.body
        assert type(body) is IsrPropose
        self._add(("proposal", body.outcome, compared(len(body.isr), self._state(body.tp).isr)))
        if body.outcome == "proposed":
            self._points.step(event, "proposed", body.tp)

    def _on_fetch(self, event: Stamped) -> None:
        """``followed/<error>/<diverging or not>/<follower's last epoch beside the leader's>``."""
        body = event.body
        assert type(body) is RepFetch
        diverging = body.diverging_end >= 0
        beside = compared(body.last_fetched_epoch, body.leader_epoch)
        self._add(("followed", body.error, "diverging" if diverging else "", beside))
        if diverging:
            self._points.step(event, "diverging", body.tp)


def _steps(state: _State, body: PartChange) -> list[str]:
    """The steps that a change of a topic partition takes."""
    if state.leader == -2:
        return []
    steps = []
    if body.leader < 0 <= state.leader:
        steps.append("leaderless")
    elif body.leader >= 0 and body.leader_epoch > state.leader_epoch:
        steps.append("elected-unclean" if body.cause == "unclean" else "elected")
    if len(body.isr) < state.isr:
        steps.append("isr-shrunk")
    elif len(body.isr) > state.isr:
        steps.append("isr-expanded")
    if len(body.isr) < body.min_isr <= state.isr:
        steps.append("under-min-isr")
    if len(body.elr) > state.elr:
        steps.append("eligible-replicas")
    return steps
