"""Coverage of the quorum, of brokers' registrations, and of nodes that go and come."""

from __future__ import annotations

from actors.node.spec import node_id
from actors.trace.events import (
    BrokerReg,
    ClockSet,
    ConfigChange,
    LinkHit,
    NodeDown,
    NodeUp,
    QRole,
    QVote,
    QVoters,
    Stamped,
)
from orchestrator.coverage.buckets import compared, few, kind_of, size
from orchestrator.coverage.points import QUORUM, Handler, Points


class QuorumCoverage:
    """Roles and transitions of each member, changes of the quorum's leader by their cause, votes, registrations."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._add = points.found.add
        self._roles: dict[str, tuple[str, int]] = {}
        self._brokers: dict[int, str] = {}
        self._down: set[str] = set()
        self._leader, self._led_epoch = "", 0

    def handlers(self) -> dict[type, Handler]:
        """Event type -> what to do about it."""
        return {
            QRole: self._on_role,
            QVote: self._on_vote,
            QVoters: self._on_voters,
            BrokerReg: self._on_registration,
            NodeUp: self._on_up,
            NodeDown: self._on_down,
            LinkHit: self._on_hit,
            ClockSet: self._on_clock,
            ConfigChange: self._on_config,
        }

    def _on_role(self, event: Stamped) -> None:
        """``role/<kind of node>/<old>/<new>/<quorum epochs apart>``."""
        body = event.body
        assert type(body) is QRole
        kind, node = kind_of(event.node), event.node
        old, epoch = self._roles.get(node, ("down", body.epoch))
        self._add(("role", kind, old, body.role, few(body.epoch - epoch)))
        self._roles[node] = (body.role, body.epoch)
        if body.role == "leader":
            self._on_leader(event, body)
        elif body.role in ("prospective", "candidate"):
            self._points.step(event, "quorum-standing", QUORUM)
        elif body.role == "resigned":
            self._points.step(event, "quorum-resigned", QUORUM)

    def _on_leader(self, event: Stamped, body: QRole) -> None:
        """``quorum-leader/<what became of the one before>/<votes>/<quorum epochs apart>``; votes: all, or some."""
        before = self._leader
        if not before:
            cause = "first"
        elif before == event.node:
            cause = "again"
        elif before in self._down:
            cause = "down"
        else:
            cause = self._roles.get(before, ("down", 0))[0]
        voters = sum(kind_of(name) == "controller" for name in self._roles)
        votes = "all" if len(body.votes) >= voters else "some"
        self._add(("quorum-leader", cause, votes, few(body.epoch - self._led_epoch)))
        self._leader, self._led_epoch = event.node, body.epoch
        self._points.controller = event.node
        self._points.step(event, "quorum-elected", QUORUM)

    def _on_vote(self, event: Stamped) -> None:
        """``vote/<pre or real>/<granted or refused>/<whose>/<candidate's log beside the voter's>``."""
        body = event.body
        assert type(body) is QVote
        self._add(
            (
                "vote",
                "pre" if body.pre else "real",
                "granted" if body.granted else "refused",
                "own" if body.candidate == node_id(event.node) else "other",
                compared((body.candidate_last_epoch, body.candidate_end), (body.voter_last_epoch, body.voter_end)),
            )
        )

        if body.granted and not body.pre and body.candidate != node_id(event.node):
            self._points.step(event, "vote-granted", QUORUM)

    def _on_voters(self, event: Stamped) -> None:
        """``voters/<cause>/<how many>``: another voter set is in force at a member."""
        body = event.body
        assert type(body) is QVoters
        self._add(("voters", body.cause, size(len(body.members))))
        if body.cause == "append":
            self._points.step(event, "voters-written", QUORUM)
        elif body.cause == "truncate":
            self._points.step(event, "voters-undone", QUORUM)

    def _on_registration(self, event: Stamped) -> None:
        """``broker/<old state>/<new state>/<clean or unclean>``."""
        body = event.body
        assert type(body) is BrokerReg
        new = ("fenced" if body.fenced else "unfenced") + ("-leaving" if body.shutting_down else "")
        old = self._brokers.get(body.broker, "unknown")
        self._brokers[body.broker] = new
        self._add(("broker", old, new, "unclean" if body.unclean else "clean"))
        if old != "unknown" and body.fenced == old.startswith("unfenced"):
            self._points.step(event, "fenced" if body.fenced else "unfenced")
        elif body.shutting_down and not old.endswith("leaving"):
            self._points.step(event, "leaving")

    def _on_up(self, event: Stamped) -> None:
        """``up/<kind>/<first, clean, torn, wiped or crashed>``."""
        body = event.body
        assert type(body) is NodeUp
        self._down.discard(event.node)
        how = "wiped" if body.wiped else "torn" if body.torn else "clean" if body.clean else "crashed"
        self._add(("up", kind_of(event.node), how if event.incarnation else "first"))
        if event.incarnation:
            self._points.step(event, "restarted")

    def _on_down(self, event: Stamped) -> None:
        """``down/<kind>/<mode>/<whether something of a log was lost>``."""
        body = event.body
        assert type(body) is NodeDown
        self._down.add(event.node)
        self._roles.pop(event.node, None)
        kind = kind_of(event.node)
        self._add(("down", kind, body.mode, "lost" if body.lost else "kept"))
        if kind in ("broker", "controller") and body.mode != "end":
            self._points.step(event, "stopped")

    def _on_hit(self, event: Stamped) -> None:
        """``hit/<kind of rule>/<API>/<request or reply>``."""
        body = event.body
        assert type(body) is LinkHit
        self._add(("hit", body.kind, body.api, body.lost))

    def _on_clock(self, event: Stamped) -> None:
        """``clock/<kind>/<wall clock ahead, right or behind>/<too fast, right or too slow>``."""
        body = event.body
        assert type(body) is ClockSet
        self._add(("clock", kind_of(event.node), compared(body.offset_us, 0), compared(body.rate_ppm, 0)))

    def _on_config(self, event: Stamped) -> None:
        """``config/<kind of resource>/<key>/<set or deleted>``."""
        body = event.body
        assert type(body) is ConfigChange
        resource = body.resource.partition("/")[0]
        self._add(("config", resource, body.key, "deleted" if body.value is None else "set"))
        self._points.step(event, "configured")
