"""R7: look-ups by timestamp ask remote storage, unless all copies there are earlier."""

from __future__ import annotations

from typing import TypeVar

from actors.node.spec import is_recreated
from actors.trace.events import ReplyPartition, RpcPark, RpcReply, Stamped, TierSegment, TierTask
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.log_prefix import Prefix
from orchestrator.invariants.tiers.known_copies import Copy, KnownCopies, epoch_at, of_process
from orchestrator.invariants.tiers.parked import FEATURE, LIST_OFFSETS, REMEMBERED

TIERED = "remote.storage.enable"
V = TypeVar("V")


class Known(KnownCopies):
    """asked: connection -> the last request on it for which the broker asked remote storage. decided: connection -> the
    last request that waits for other partitions, and the latest copy when this partition was decided."""

    asked: dict[str, int] = {}
    decided: dict[str, tuple[int, Copy | None]] = {}


class Consulted(State):
    """Of one partition. tiered: whether its topic was created with tiered storage. drafts: node -> whether it has the
    KIP's draft. known: node -> its knowledge."""

    tiered: bool = False
    drafts: dict[str, bool] = {}
    known: dict[str, Known] = {}
    profile: Profile = Profile()

    def of(self, event: Stamped) -> Known:
        """The knowledge of a broker in this incarnation."""
        return of_process(self.known, Known, event)

    def is_draft(self, node: str) -> bool:
        """Whether a broker has the KIP's draft."""
        if node not in self.drafts:
            self.drafts[node] = self.profile.feature(FEATURE, node) == "draft"
        return self.drafts[node]


class RemoteStorageIsConsulted(LogInvariant[Consulted]):
    """An application that looks a timestamp up does not know in which tier the record is. A broker that searches its
    local log alone finds a later record, or none, and the application skips all records in between.

    Example: broker-1 has offsets of orders-0 from 40 on locally. The copies have the earlier ones, up to 12:05:00. For
    12:01:00 broker-1 must ask remote storage first. For 12:07:00 Kafka asks remote storage, too. The KIP's draft need
    not, because no copy is as late; but it must ask while it knows no copy.
    """

    id = "R7"
    title = "A look-up by timestamp asks remote storage, unless all copies there are known to be earlier"
    source = "KIP-1075 (the draft's maxTimestamp); Kafka's UnifiedLog.fetchOffsetByTimestamp"
    tested_when = "a broker finds an offset by timestamp in a partition of a tiered topic"
    unseen = (
        "The answer of remote storage: H4 judges the offset.",
        "Look-ups that find no record: the log may be empty.",
        "Topics that get tiered storage after their creation, or are created by an operator.",
    )
    types = (TierTask, TierSegment, RpcPark, RpcReply)
    cases = {RpcReply: (LIST_OFFSETS,)}

    def initial(self, key: str, profile: Profile) -> Consulted:
        tiered = not is_recreated(key) and profile.topic_setting(key, TIERED, default=False) is True
        return Consulted(key, tiered=tiered, profile=profile)

    def step(self, state: Consulted, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is TierTask:
            if body.phase in ("enqueue", "reject") and body.kind == "list-offsets":
                _remember(state.of(event).asked, body.connection, body.correlation_id)
        elif type(body) is TierSegment:
            if body.phase == "known":
                state.of(event).consume(event, body)
        elif type(body) is RpcPark:
            if state.key in body.decided:
                known = state.of(event)
                latest = self._latest(known, event.node, mirror)
                _remember(known.decided, body.connection, (body.correlation_id, latest))
        elif type(body) is RpcReply and body.api == LIST_OFFSETS and state.tiered:
            return self._answered(state, event, body, mirror)
        return NOTHING

    def _latest(self, known: Known, node: str, mirror: LogMirror) -> Copy | None:
        """The latest copy of the broker's own log: of copies above its log start, if there are any, otherwise of all;
        None if it knows none."""
        replica = mirror.replica(node)
        own = [copy for copy in known.copies.values() if _is_of(copy, replica.log)]
        shown = [copy for copy in own if copy.end >= replica.start]
        return max(shown or own, key=lambda copy: copy.max_timestamp, default=None)

    def _answered(self, state: Consulted, event: Stamped, body: RpcReply, mirror: LogMirror) -> Emissions:
        known = state.of(event)
        asked = known.asked.get(body.connection) == body.correlation_id
        number, latest = known.decided.pop(body.connection, (-1, None))
        for told in body.partitions:
            if told.tp != state.key or told.error or told.offset < 0 or told.timestamp < 0:
                continue
            state.tested += 1
            if asked:
                continue
            if number != body.correlation_id:
                latest = self._latest(known, event.node, mirror)
            if why := self._must_ask(state.is_draft(event.node), latest, told):
                sentence = (
                    f"{event.node} answered {body.src} with offset {told.offset:,} of {told.tp} for timestamp "
                    f"{told.timestamp} without asking remote storage, {why}"
                )
                return self.violated(state.key, sentence, None if latest is None else latest.by, event)
        return NOTHING

    def _must_ask(self, draft: bool, latest: Copy | None, told: ReplyPartition) -> str:
        """Why the broker had to ask, "" if it need not."""
        if not draft:
            return "which Kafka asks every time"
        if latest is None:
            return "although it knew no copies there"
        if told.timestamp > latest.max_timestamp:
            return ""
        return f"which has records up to timestamp {latest.max_timestamp}"


def _remember(of: dict[str, V], name: str, what: V) -> None:
    of.pop(name, None)
    of[name] = what
    if len(of) > REMEMBERED:
        del of[next(iter(of))]


def _is_of(copy: Copy, log: Prefix) -> bool:
    """Whether the last record of a copy has the same leader epoch in a log, so that all earlier ones are the same,
    too. A log that began anew above the copy shares its own first leader epoch with it, or nothing
    (``RemoteLogManager.isRemoteSegmentWithinLeaderEpochs``)."""
    if copy.end >= log.end:
        return False
    own = epoch_at(log, copy.end)
    if own < 0:
        own = next((epoch for epoch, _ in log.floor_epochs if epoch >= 0), log.newest_forgotten)
    return own >= 0 and own == copy.epoch_at(copy.end)
