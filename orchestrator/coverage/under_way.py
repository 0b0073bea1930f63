"""What is under way: stretches of a run in which something of the protocol has begun and is not done. A pair of steps
that can race is such a stretch and a step that is taken in it."""

from __future__ import annotations

from actors.node.spec import METADATA_PARTITION, node_name
from actors.trace.events import (
    BrokerReg,
    ErrorSeen,
    IsrPropose,
    LogHw,
    LogTrunc,
    MetaImage,
    MetaView,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    QVoters,
    RepFetch,
    SendReturn,
    Stamped,
)
from orchestrator.coverage.buckets import kind_of
from orchestrator.coverage.points import QUORUM, Handler, Points

CHANGE = "change"
"""Who a change of the voters is under way for: there is one at a time."""


class UnderWay:
    """Begins and ends what ``points.UNDER_WAY`` lists. What an event ends is ended before its own step is noted, and
    what it begins is begun after that: no step is amid what it begins or ends itself."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._begin, self._end = points.begin, points.end
        self._epochs: dict[str, int] = {}
        """Topic partition -> leader epoch of its last change."""
        self._isr: dict[str, list[int]] = {}
        self._leads: dict[str, str] = {}
        """Topic partition -> who took up its leadership last."""
        self._until: dict[tuple[str, str], int] = {}
        """Topic partition and its leader, whose high watermark is behind -> what it has to reach."""
        self._up: dict[str, None] = {}
        self._clients: dict[str, None] = {}
        self._change = -1
        """Offset of the change of the voters that is under way, -1 none."""
        self._changed = -1
        """Offset of the last change of a topic partition."""

    def ends(self) -> dict[type, Handler]:
        """Event type -> what it ends."""
        return {
            QRole: self._role_ends,
            LogHw: self._high_watermark_ends,
            PartChange: self._change_ends,
            PartAssume: self._assume_ends,
            IsrPropose: self._proposal_ends,
            LogTrunc: self._truncation_ends,
            BrokerReg: self._registration_ends,
            NodeDown: self._down_ends,
            MetaView: self._view_ends,
            MetaImage: self._image_ends,
            SendReturn: self._return_ends,
        }

    def begins(self) -> dict[type, Handler]:
        """Event type -> what it begins."""
        return {
            QRole: self._role_begins,
            QVoters: self._voters_begin,
            PartChange: self._change_begins,
            PartAssume: self._assume_begins,
            IsrPropose: self._proposal_begins,
            RepFetch: self._fetch_begins,
            BrokerReg: self._registration_begins,
            NodeUp: self._up_begins,
            ErrorSeen: self._error_begins,
        }

    # ---- the quorum ----------------------------------------------------------------------------------------

    def _role_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is QRole
        self._end("quorum-election", QUORUM, event.node)
        if body.role in ("follower", "leader"):
            self._end("epoch-unheard", QUORUM, event.node)
            self._end("returning", "", event.node)
        if body.role == "leader" and self._change >= body.log_end:
            self._end("voter-change", QUORUM, CHANGE)

    def _role_begins(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is QRole
        if body.role in ("prospective", "candidate"):
            self._begin("quorum-election", QUORUM, event.node)
        elif body.role == "leader":
            for name in self._up:
                if name != event.node and kind_of(name) == "controller":
                    self._begin("epoch-unheard", QUORUM, name)

    def _voters_begin(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is QVoters
        if body.cause == "append":
            self._change = body.offset
            self._begin("voter-change", QUORUM, CHANGE)

    # ---- topic partitions ----------------------------------------------------------------------------------

    def _high_watermark_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is LogHw
        if body.tp == METADATA_PARTITION:
            if body.role == "leader" and 0 <= self._change < body.new:
                self._change = -1
                self._end("voter-change", QUORUM, CHANGE)
        elif self._until and body.new >= self._until.get((body.tp, event.node), body.new + 1):
            del self._until[body.tp, event.node]
            self._end("lagging", body.tp, event.node)

    def _change_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is PartChange
        tp = body.tp
        self._end("rejoining", tp, *(node_name(each) for each in body.isr))
        if body.leader >= 0:
            self._end("leaderless", tp, tp)
        if len(body.isr) == len(body.replicas):
            self._end("after-unclean", tp, tp)

    def _change_begins(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is PartChange
        tp = body.tp
        self._isr[tp], self._changed = body.isr, body.offset
        self._begin("metadata-unheard", tp, *(name for name in self._up if kind_of(name) == "broker"))
        if body.leader_epoch > self._epochs.get(tp, -1):
            self._epochs[tp] = body.leader_epoch
            before, leader = self._leads.get(tp, ""), node_name(body.leader) if body.leader >= 0 else ""
            if before in self._up and before != leader:
                self._begin("two-leaders", tp, before)
            if leader:
                self._begin("taking-over", tp, tp)
                self._begin("client-unaware", tp, *self._clients)
            else:
                self._begin("leaderless", tp, tp)
            if body.cause == "unclean":
                self._begin("after-unclean", tp, tp)

    def _assume_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is PartAssume
        tp = body.tp
        for interval in ("two-leaders", "isr-change", "lagging", "diverging"):
            self._end(interval, tp, event.node)
        self._until.pop((tp, event.node), None)
        if body.role == "leader" and body.leader_epoch >= self._epochs.get(tp, 0):
            self._end("taking-over", tp, tp)

    def _assume_begins(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is PartAssume
        if body.role != "leader":
            return
        self._leads[body.tp] = event.node
        if body.leader_epoch > 0 and body.leader_epoch_start > body.high_watermark:
            self._until[body.tp, event.node] = body.leader_epoch_start
            self._begin("lagging", body.tp, event.node)

    def _proposal_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is IsrPropose
        if body.outcome != "proposed":
            self._end("isr-change", body.tp, event.node)

    def _proposal_begins(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is IsrPropose
        if body.outcome == "proposed":
            self._begin("isr-change", body.tp, event.node)

    def _fetch_begins(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is RepFetch
        if body.diverging_end >= 0:
            self._begin("diverging", body.tp, node_name(body.follower))
        elif body.tp != METADATA_PARTITION and not body.error and body.follower not in self._isr.get(body.tp, ()):
            self._begin("rejoining", body.tp, node_name(body.follower))

    def _truncation_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is LogTrunc
        self._end("diverging", body.tp, event.node)

    # ---- nodes and clients ---------------------------------------------------------------------------------

    def _registration_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is BrokerReg
        if body.fenced:
            self._end("leaving", "", node_name(body.broker))
        else:
            self._end("returning", "", node_name(body.broker))

    def _registration_begins(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is BrokerReg
        if body.shutting_down and not body.fenced:
            self._begin("leaving", "", node_name(body.broker))

    def _up_begins(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is NodeUp
        if body.role not in ("broker", "controller"):
            self._clients[event.node] = None
            return
        self._up[event.node] = None
        if event.incarnation:
            self._begin("returning", "", event.node)

    def _down_ends(self, event: Stamped) -> None:
        self._up.pop(event.node, None)
        self._clients.pop(event.node, None)
        self._points.forget(event.node)

    def _view_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is MetaView
        for tp in body.accepted:
            if body.epochs.get(tp, -1) >= self._epochs.get(tp, 0):
                self._end("client-unaware", tp, event.node)

    def _image_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is MetaImage
        if body.offset > self._changed:
            for tp in self._epochs:
                self._end("metadata-unheard", tp, event.node)

    def _error_begins(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is ErrorSeen
        if body.api == "Produce":
            self._begin("retrying", body.tp, event.node)

    def _return_ends(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is SendReturn
        self._end("retrying", body.tp, event.node)
        self._end("retrying", "", event.node)
