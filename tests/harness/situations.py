"""What it takes to say that a situation of a nemesis' pattern occurred: small folds over the trace of a run."""

from __future__ import annotations

from collections.abc import Callable

from actors.node.errors import KafkaError
from actors.node.spec import is_recreated, node_name
from actors.trace.events import (
    AdminInvoke,
    BrokerReg,
    ConsPos,
    CoordRefuse,
    CtlFault,
    ErrorSeen,
    GrpCommit,
    GrpGen,
    GrpLoad,
    IsrPropose,
    ListInvoke,
    LogAppend,
    LogFlush,
    LogHw,
    LogTrunc,
    MetaImage,
    MetaMint,
    MetaView,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    QVote,
    RepFetch,
    Rpc,
    RpcReply,
    Stamped,
)

MS = 1_000
FORMER = {
    int(error)
    for error in (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS)
}
"""What a call of a former generation, or of a former member, is refused with."""
VOTER_CHANGES = ("add-voter", "remove-voter")


class Situations:
    """An observer: counts by the name of a pattern how often what it is about occurred."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self._last: dict[tuple[str, str], int] = {}
        """What happened, and to whom -> when last."""
        self._led: dict[tuple[str, str, int], tuple[int, int]] = {}
        """Log, node, incarnation -> epoch that it led, and that others have led in since."""
        self._members: dict[str, list[int]] = {}
        """Topic partition -> its ISR, as it was changed last."""
        self._written: dict[int, int] = {}
        """Offset of a change of a topic partition that no broker has heard of -> when it was written."""
        self._changes: dict[str, tuple[int, ...]] = {}
        """Topic partition -> when its last two changes were."""
        self._lags: dict[str, int] = {}
        self._applied: dict[str, int] = {}
        """Broker -> up to where it has applied the metadata log."""
        self._unflushed: dict[str, int] = {}
        """Leader of the quorum -> end of what it has appended last, until that is on its disk."""
        self._given_up: set[tuple[str, str, int]] = set()
        self._voted: dict[str, int] = {}
        """Voter -> quorum epoch in which it has voted for another one."""
        self._stands: dict[str, int] = {}
        """Voter that is prospective -> in which quorum epoch."""
        self._begun: dict[tuple[str, str], tuple[int, int, int]] = {}
        """Topic partition and leader -> its leader epoch, and its high watermark and log end as it began that."""
        self._group = ("", "")
        """Who coordinates the group, and its state."""
        self._loaded: dict[tuple[str, str], int] = {}
        """Offsets partition and broker -> leader epoch in which it coordinates its groups."""
        self._gone: set[str] = set()
        """Clients that are down."""
        self._minter = -1
        """Controller epoch in which a metadata epoch was minted last."""
        self._told: dict[str, tuple[int, int]] = {}
        """Client -> its incarnation that was told the highest metadata epoch, and that one."""
        self._awaits: dict[str, int] = {}
        """Client -> its incarnation that has heard of a newer leader epoch than its metadata has."""

        self._asks: dict[str, int] = {}
        """Broker that shuts down -> how often it was told to wait."""

    def __call__(self, event: Stamped) -> None:
        handler = _HANDLERS.get(type(event.body))
        if handler is not None:
            handler(self, event)

    def _saw(self, name: str) -> None:
        self.seen[name] = self.seen.get(name, 0) + 1

    def _note(self, what: str, whom: str, event: Stamped) -> None:
        self._last[what, whom] = event.wall

    def _within(self, what: str, whom: str, event: Stamped, ms: float) -> bool:
        """Whether that happened to them no longer ago than this."""
        at = self._last.get((what, whom))
        return at is not None and event.wall - at <= ms * MS

    def _leads(self, log: str, event: Stamped, epoch: int) -> bool:
        """Whether a process leads that has led before, with somebody else in between."""
        key = (log, event.node, event.incarnation)
        for other, (led, _) in self._led.items():
            if other[0] == log and other != key:
                self._led[other] = (led, epoch)
        led, since = self._led.get(key, (-1, -1))
        self._led[key] = (epoch, -1)
        return led >= 0 and since > led

    # ---- the quorum ----------------------------------------------------------------------------------------

    def _on_role(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, QRole)
        if body.role == "leader" and self._leads("quorum", event, body.epoch):
            self._saw("quorum-leads-twice")
        stood = self._stands.pop(event.node, -1)
        if body.role == "prospective":
            self._stands[event.node] = body.epoch
        elif body.role == "unattached" and body.epoch == stood == self._voted.get(event.node):
            self._saw("stands-in-vain")
        if body.role in ("prospective", "candidate") or (body.role == "leader" and body.epoch > 1):
            self._note("election", "", event)

    def _on_vote(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, QVote)
        if body.granted and not body.pre and node_name(body.candidate) != event.node:
            self._note("vote", event.node, event)
            self._voted[event.node] = body.epoch

    def _on_invoke(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, AdminInvoke)
        if body.call in VOTER_CHANGES and self._within("election", "", event, 300):
            self._saw("change-at-election")

    def _on_fault(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, CtlFault)
        if body.kind == "delay" and body.phase == "start" and "UpdateMetadata" in body.parameters.get("apis", ()):
            self._note("pushes-held", "", event)
        if body.kind == "rolling-bounce" and body.phase == "start" and self._within("election", "", event, 300):
            self._saw("bounce-at-election")

    # ---- brokers -------------------------------------------------------------------------------------------

    def _on_up(self, event: Stamped) -> None:
        self._gone.discard(event.node)
        if event.incarnation:
            self._note("up", event.node, event)

    def _on_down(self, event: Stamped) -> None:
        node = event.node
        coordinator, state = self._group
        if state in ("PreparingRebalance", "CompletingRebalance"):
            if node == coordinator:
                self._saw("failover-in-rebalance")
            elif node.startswith("consumer"):
                self._saw("dies-in-rebalance")
        if node.startswith("consumer"):
            self._gone.add(node)
            self._note("lost", node, event)
        elif node == coordinator and any(self._within("lost", member, event, 3_000) for member in self._gone):
            self._saw("lost-member")
        if self._within("mint", node, event, 2_000) and self._within("pushes-held", "", event, 1_500):
            self._note("minter-gone", "", event)
        if self._within("mint", node, event, 60):
            self._saw("failover-at-mint")
        self._loaded = {key: epoch for key, epoch in self._loaded.items() if key[1] != node}
        for pattern, what, whom, ms in (
            ("struck-voter", "vote", node, 5),
            ("again-in-recovery", "up", node, 200),
            ("again-in-truncation", "truncation", "", 30),
            ("again-in-rejoin", "grows", "", 60),
            ("again-unclean", "unclean", "", 400),
            ("unanswered", "appended", node, 1),
            ("again-in-retry", "refused", "", 100),
        ):
            if self._within(what, whom, event, ms) and (node.startswith("broker") or pattern == "struck-voter"):
                self._saw(pattern)
        if self._lags and node.startswith("broker"):
            self._saw("again-lagging")
        self._lags.pop(node, None)
        self._unflushed.pop(node, None)

    def _on_change(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, PartChange)
        self._members[body.tp] = body.isr
        self._written[body.offset] = event.wall
        self._changes[body.tp] = (*self._changes.get(body.tp, ())[-1:], event.wall)
        if body.cause == "unclean":
            self._note("unclean", "", event)
        if body.cause == "create" and is_recreated(body.tp):
            self._saw("made-anew")

    def _on_assume(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, PartAssume)
        self._lags.pop(event.node, None)
        if body.role != "leader" or not body.leader_epoch:
            return
        if self._leads(body.tp, event, body.leader_epoch):
            self._saw("leads-twice")
            if self._within("late-metadata", "", event, 10_000):
                self._saw("stale-client")
        self._begun[body.tp, event.node] = (body.leader_epoch, body.high_watermark, body.log_end)
        if body.leader_epoch_start > body.high_watermark:
            self._lags[event.node] = body.leader_epoch_start

    def _on_high_watermark(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, LogHw)
        if body.new >= self._lags.get(event.node, body.new + 1):
            del self._lags[event.node]

    def _on_append(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, LogAppend)
        if body.role == "leader" and event.node.startswith("broker"):
            self._note("appended", event.node, event)
        elif body.role == "leader":
            if event.node in self._unflushed:
                self._saw("busy-slow-leader")
            self._unflushed[event.node] = body.last + 1

    def _on_flush(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, LogFlush)
        if body.end >= self._unflushed.get(event.node, body.end + 1):
            del self._unflushed[event.node]

    def _on_truncation(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, LogTrunc)
        if event.node.startswith("broker"):
            self._note("truncation", "", event)
            if body.was - body.to >= 5:
                self._saw("long-tail")

    def _on_followed(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, RepFetch)
        led, _ = self._led.get((body.tp, event.node, event.incarnation), (-1, -1))
        if body.error == KafkaError.FENCED_LEADER_EPOCH and led == body.leader_epoch:
            self._saw("fetches-on")
        if body.error == KafkaError.NOT_LEADER_OR_FOLLOWER and body.follower_epoch == body.leader_epoch:
            self._saw("late-fetch")
        if body.diverging_end >= 0 and event.node.startswith("broker"):
            self._note("truncation", "", event)
        epoch, committed, end = self._begun.get((body.tp, event.node), (-1, 0, 0))
        out = body.follower not in self._members.get(body.tp, ())
        if out and body.leader_epoch == epoch and committed <= body.offset < end and body.diverging_end < 0:
            self._saw("restarts-alone")
        if out and not body.error and body.broker_epoch >= self._applied.get(event.node, body.broker_epoch + 1):
            self._saw("unheard-life")
        self._note("fetched", f"{body.tp}/{body.follower}", event)

    def _on_image(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, MetaImage)
        self._applied[event.node] = body.offset
        for offset in [offset for offset in self._written if offset < body.offset]:
            if event.wall - self._written.pop(offset) >= 60 * MS:
                self._saw("slow-commits")

    def _on_proposal(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, IsrPropose)
        if body.outcome == KafkaError.INELIGIBLE_REPLICA.name:
            self._saw("asks-late")
        if body.outcome == "proposed" and len(body.isr) > len(self._members.get(body.tp, ())):
            self._note("grows", "", event)
        gone = [each for each in self._members.get(body.tp, ()) if each not in body.isr]
        if any(self._within("fetched", f"{body.tp}/{each}", event, 450) for each in gone):
            self._saw("keeps-behind")

    # ---- requests ------------------------------------------------------------------------------------------

    def _on_registration(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, BrokerReg)
        self._asks.pop(node_name(body.broker), None)
        if body.shutting_down and not body.fenced:
            self._asks[node_name(body.broker)] = 0

    def _on_rpc(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, Rpc)
        if body.api == "BrokerHeartbeat" and body.outcome == "answered" and event.node in self._asks:
            self._asks[event.node] += 1
            if self._asks[event.node] > 2:
                self._saw("waits-to-stop")
        late = body.took_ms >= 200
        if body.api == "BeginQuorumEpoch" and (late or body.errors):
            self._saw("late-begin")
        if body.api == "UpdateMetadata" and late:
            self._saw("late-push")
            self._saw("stale-push")
        if body.api == "SyncGroup" and (late or not FORMER.isdisjoint(body.errors)):
            self._saw("late-join")
        if body.api == "OffsetCommit" and late:
            self._saw("commits-wait")
        if body.api == "Metadata" and late:
            self._note("late-metadata", "", event)
        if body.api == "AlterPartition" and body.took_ms >= 50:
            began = event.wall - body.took_ms * MS
            if any(len(walls) == 2 and walls[0] >= began for walls in self._changes.values()):
                self._saw("late-answer")
        if body.api == "Produce" and body.outcome != "answered":
            self._given_up.add((event.node, body.dst, body.correlation_id))

    def _on_reply(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, RpcReply)
        if (body.src, event.node, body.correlation_id) in self._given_up:
            self._saw("old-producer")
        if body.api == "Produce":
            self._note("appended", event.node, event)

    def _on_error(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, ErrorSeen)
        if body.api == "Produce":
            self._note("refused", "", event)

    def _on_position(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, ConsPos)
        if body.reason in ("truncation", "reset") and body.new < body.old:
            self._saw("divergent-reader")

    # ---- groups, and metadata epochs -----------------------------------------------------------------------

    def _on_group(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, GrpGen)
        self._group = (event.node, body.state)

    def _on_load(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, GrpLoad)
        if any(client in self._gone for members in body.members.values() for client in members.values()):
            self._saw("dies-unheard")
        if not body.loaded:
            self._loaded.pop((body.tp, event.node), None)
            return
        if any(tp == body.tp and node != event.node for tp, node in self._loaded):
            self._saw("former-coordinator")
        self._loaded[body.tp, event.node] = body.coordinator_epoch

    def _on_commit(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, GrpCommit)
        if body.error in (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID):
            self._saw("late-commit")
        if body.offset < 0 and not body.error:
            self._saw("all-away")

    def _on_refusal(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, CoordRefuse)
        if body.api == "Heartbeat" and body.holder not in ("", body.member):
            self._saw("late-beat")

    def _on_mint(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, MetaMint)
        if body.controller_epoch > self._minter and self._within("minter-gone", "", event, 3_000):
            self._saw("former-push")
        self._minter = body.controller_epoch
        self._note("mint", event.node, event)

    def _on_view(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, MetaView)
        if body.source == "heard":
            self._awaits[event.node] = event.incarnation
        elif body.accepted:
            self._awaits.pop(event.node, None)
        if not isinstance(body.metadata_epoch, int):
            return
        incarnation, highest = self._told.get(event.node, (0, -1))
        if event.incarnation > incarnation and body.metadata_epoch < highest:
            self._saw("starts-behind")
        if body.metadata_epoch >= highest:
            self._told[event.node] = (event.incarnation, body.metadata_epoch)

    def _on_look_up(self, event: Stamped) -> None:
        if self._awaits.get(event.node) == event.incarnation:
            self._saw("goes-back-behind")


_HANDLERS: dict[type, Callable[[Situations, Stamped], None]] = {
    QRole: Situations._on_role,
    QVote: Situations._on_vote,
    AdminInvoke: Situations._on_invoke,
    CtlFault: Situations._on_fault,
    NodeUp: Situations._on_up,
    NodeDown: Situations._on_down,
    MetaImage: Situations._on_image,
    PartChange: Situations._on_change,
    PartAssume: Situations._on_assume,
    LogHw: Situations._on_high_watermark,
    LogAppend: Situations._on_append,
    LogFlush: Situations._on_flush,
    LogTrunc: Situations._on_truncation,
    RepFetch: Situations._on_followed,
    IsrPropose: Situations._on_proposal,
    BrokerReg: Situations._on_registration,
    Rpc: Situations._on_rpc,
    RpcReply: Situations._on_reply,
    ErrorSeen: Situations._on_error,
    ConsPos: Situations._on_position,
    GrpGen: Situations._on_group,
    GrpLoad: Situations._on_load,
    GrpCommit: Situations._on_commit,
    CoordRefuse: Situations._on_refusal,
    MetaMint: Situations._on_mint,
    MetaView: Situations._on_view,
    ListInvoke: Situations._on_look_up,
}
