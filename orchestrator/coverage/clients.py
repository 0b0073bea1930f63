"""Coverage of requests and answers, as clients and servers saw them."""

from __future__ import annotations

from actors.node.errors import error_name
from actors.trace.events import OP_RETURNS, ConsPos, ErrorSeen, MetaView, OpReturn, Rpc, RpcReply, SendReturn, Stamped
from orchestrator.coverage.buckets import beside_min_isr, compared, kind_of, lag, version_group, wait
from orchestrator.coverage.points import Handler, Points

ERROR_STEPS = {"Produce": "produce-error", "ListOffsets": "list-error", "Fetch": "fetch-error"}


class ClientCoverage:
    """Errors by API and version, how long answers were waited for, and what applications were told."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._add = points.found.add

    def handlers(self) -> dict[type, Handler]:
        """Event type -> what to do about it."""
        return {
            ErrorSeen: self._on_error,
            Rpc: self._on_rpc,
            RpcReply: self._on_reply,
            **dict.fromkeys(OP_RETURNS, self._on_return),
            ConsPos: self._on_position,
            MetaView: self._on_view,
        }

    def _on_error(self, event: Stamped) -> None:
        """``error/<API>/<version>/<error>`` that a client met and goes on after."""
        body = event.body
        assert type(body) is ErrorSeen
        self._add(("error", body.api, version_group(body.api, body.version), error_name(body.error)))
        if body.api in ERROR_STEPS:
            self._points.step(event, ERROR_STEPS[body.api], body.tp)

    def _on_rpc(self, event: Stamped) -> None:
        """``rpc/<kind of caller>/<API>/<outcome>/<first error>`` where it is not an answer without any;
        ``waited/<kind of caller>/<API>/<how long>`` of those that a purgatory may hold."""
        body = event.body
        assert type(body) is Rpc
        if body.errors or body.outcome != "answered":
            first = error_name(body.errors[0]) if body.errors else "NONE"
            self._add(("rpc", kind_of(event.node), body.api, body.outcome, first))
        elif body.api in ("Fetch", "Produce"):
            self._add(("waited", kind_of(event.node), body.api, wait(body.took_ms)))

    def _on_reply(self, event: Stamped) -> None:
        """``produced/<acks>/<error>/<beside min.insync.replicas>/<HW behind the log end>`` and
        ``listed/<version>/<error>/<whose>/<HW beside the start of the leader epoch>/<beside min.insync.replicas>``."""
        body = event.body
        assert type(body) is RpcReply
        for part in body.partitions:
            beside = beside_min_isr(part.isr, part.min_isr) if part.isr else "-"
            if body.api == "Produce":
                behind = lag(part.log_end - part.high_watermark)
                self._add(("produced", body.acks, part.error, beside, behind))
            else:
                whose = "client" if body.replica_id < 0 else "broker"
                start = compared(part.high_watermark, part.leader_epoch_start)
                group = version_group(body.api, body.version)
                self._add(("listed", group, part.error, whose, start, beside))

    def _on_return(self, event: Stamped) -> None:
        """``returned/<kind>/<outcome>/<acks>/<error>`` of what an application asked for."""
        body = event.body
        assert isinstance(body, OpReturn)
        acks = body.acks if type(body) is SendReturn else 0
        self._add(("returned", body.kind, body.outcome, acks, body.error))
        if type(body) is SendReturn and body.outcome != "ok":
            self._points.step(event, "send-lost", body.tp)

    def _on_position(self, event: Stamped) -> None:
        """``position/<reason>/<back, on or nowhere>/<how far>``."""
        body = event.body
        assert type(body) is ConsPos
        self._add(("position", body.reason, compared(body.new, body.old), lag(abs(body.new - body.old))))
        if body.reason in ("reset", "truncation"):
            self._points.step(event, "position-reset", body.tp)

    def _on_view(self, event: Stamped) -> None:
        """``view/<kind of client>/<all, some or none of it taken over>``."""
        body = event.body
        assert type(body) is MetaView
        if body.source == "heard":
            return
        taken = "all" if len(body.accepted) == len(body.epochs) else "some" if body.accepted else "none"
        self._add(("view", kind_of(event.node), taken))
