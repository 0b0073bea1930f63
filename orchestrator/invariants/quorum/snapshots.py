"""What snapshots of the metadata log stand for, and when they are made."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault, LogStart, NodeUp, QApply, QClean, QFreeze, QRole, QSnap, Stamped, TraceEvent
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import WIPED, LogMirror
from orchestrator.invariants.mirrors.log_prefix import Prefix
from orchestrator.invariants.quorum.snapshot_retention import MAX_BYTES, MAX_MS, Limits, Look

SNAPSHOTS_KEPT = 1 << 10

BETWEEN_SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots"
LIMITS = frozenset({MAX_BYTES, MAX_MS, BETWEEN_SNAPSHOTS})

_DID = {"create": "made", "fetch": "fetched", "load": "loaded"}


class SnapshotFact(msgspec.Struct, frozen=True):
    """What the first snapshot that ends somewhere says of all that is below: epoch of the last record, prefix hash,
    hash over the records of the log, and over those in the snapshot."""

    epoch: int
    ph: int
    digest: int
    state: int
    by: Witness


class Due(msgspec.Struct, frozen=True):
    """A snapshot that a member must begin to write in the step of an event: up to which end, and of how many bytes."""

    end: int
    size: int
    by: Witness


class Making(msgspec.Struct):
    """What the process of a member has done about its snapshots. limit: bytes that it applies, at most, before it makes
    one. since: those that it has applied since it made or loaded the last one, or started. writing: it writes one that
    it makes; fetched: one that it fetched, and may have given up. look: at what is to go, until the next event but
    those of what goes."""

    limit: int
    since: int = 0
    writing: bool = False
    fetched: bool = False
    due: Due | None = None
    look: Look | None = None

    def begins(self, body: QFreeze) -> None:
        """A snapshot is being written."""
        if body.op == "fetch":
            self.fetched = True
            return
        # None is begun while another one is being written.
        self.since, self.writing, self.fetched, self.due = 0, True, False, None

    def ends(self, body: QSnap) -> None:
        """It is durable, or one was loaded."""
        if body.op == "create":
            self.writing = False
        elif body.op == "fetch":
            self.fetched = False
        elif body.op == "load":
            self.since, self.due = 0, None

    def applies(self, event: Stamped, body: QApply, newest: int) -> Due | None:
        """Count what is applied; the snapshot that was due at the last time, and was not begun then. ``newest``: end of
        the newest snapshot that there is."""
        missed, self.due = self.due, None
        self.since += body.size
        if self.since >= self.limit and body.end > newest and not (self.writing or self.fetched):
            self.due = Due(body.end, self.since, witness(event))
        return missed


class Holder(msgspec.Struct):
    """One member. held: ends of the snapshots that it has. start: where its log begins, by which event. started: the
    newest incarnation that took up a role; what comes before that is what it found on its disk. making: since the
    process started."""

    held: set[int] = set()
    start: int = 0
    by: Witness | None = None
    started: int = -1
    making: Making | None = None


class SnapshotState(State):
    """facts: by end. members: by node. bounced: limits that a bounce has set; who was bounced when is not followed."""

    profile: Profile = Profile()
    facts: dict[int, SnapshotFact] = {}
    members: dict[str, Holder] = {}
    bounced: set[str] = set()

    @property
    def limited(self) -> bool:
        """Whether it is known how much members keep."""
        return self.bounced.isdisjoint((MAX_BYTES, MAX_MS))


class SnapshotsAreCommitted(LogInvariant[SnapshotState]):
    """A snapshot replaces the log below its end for good, and no node can look at that part again. So it may hold only
    committed records, must hold all of them, and must be named by its real end. A log gets shorter only by snapshots:
    so each member makes one as soon as it has applied metadata.log.max.record.bytes.between.snapshots since the last
    one. It looks again and again which are to go, and deletes the oldest, with the log up to the end of the next one,
    while log and snapshots are larger than metadata.max.retention.bytes, and while that snapshot is older than
    metadata.max.retention.ms; no other one, and never the newest.

    Example: controller-2 makes a snapshot up to 118 when the quorum has committed 112. It follows another leader,
    truncates its log to 112, and keeps a state that was never decided. Or a snapshot up to 118 is named as one up to
    117 (KAFKA-14618), and a member that fetches it gets the record at 117 twice. Or broker-2 omits a topic's
    configuration from its snapshot, and has lost it after a restart. Or controller-3 has applied 25 MB since it
    started, and goes on without a snapshot; or it keeps all snapshots, and its disk fills up; or it deletes all but
    the newest, and each broker that is a little behind has to fetch that one. A process that dies while it writes a
    snapshot may find it complete on its disk: it then begins there although it never reported the snapshot.
    """

    id = "Q13"
    title = (
        "A snapshot of the metadata log covers a committed prefix, is made when due and deleted when due; a log begins "
        "where one ends"
    )
    source = (
        "KIP-630; KIP-595; Kafka's RaftEventSimulationTest, SnapshotAtLogStart, LeaderNeverLoadSnapshot; KAFKA-14618"
    )
    tested_when = (
        "a member makes, fetches or loads a snapshot, begins its log at one, deletes one, has one to make, or looks "
        "which are to go"
    )
    unseen = (
        "Whether the records in a snapshot give the right state: they are compared with those of other members.",
        "The records in a snapshot if no other member has a snapshot up to the same end.",
        "A snapshot that is due by metadata.log.max.snapshot.interval.ms, or after a bounce with other limits.",
        "A snapshot that is begun and never becomes durable; until it is, its member makes no other one.",
        (
            "Whether members look at all which snapshots are to go; more than three that go at once; and all looks "
            "after a bounce with other metadata.max.retention.bytes or metadata.max.retention.ms."
        ),
    )
    types = (QSnap, QFreeze, QApply, QClean, LogStart, QRole, NodeUp)
    exemptions = {"loss-budget": WIPED}
    ghost = "prefix hash"

    def initial(self, key: str, profile: Profile) -> SnapshotState:
        return SnapshotState(key, profile=profile)

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (CtlFault,)

    def hear(self, state: SnapshotState, event: Stamped) -> Emissions:
        assert type(event.body) is CtlFault
        state.bounced.update(LIMITS.intersection(event.body.parameters.get("config", {})))
        return NOTHING

    def step(self, state: SnapshotState, event: Stamped, mirror: LogMirror) -> Emissions:
        member = state.members.get(event.node)
        if member is None:
            member = state.members[event.node] = Holder()
        kept = self._cleans(state, member.making, event) if member.making is not None else NOTHING
        found = self._take(state, member, event, mirror)
        return [*kept, *found] if kept else found

    def _take(self, state: SnapshotState, member: Holder, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is QApply:
            return self._applies(state, member, event, body)
        if type(body) is NodeUp:
            if body.wiped:
                member = state.members[event.node] = Holder()
            member.making = Making(state.profile.number(BETWEEN_SNAPSHOTS, event.node))
        elif type(body) is QRole:
            member.started = event.incarnation
        elif type(body) is LogStart:
            return self._begins(state, member, event, body, mirror)
        elif type(body) is QFreeze:
            if member.making is not None:
                member.making.begins(body)
        elif type(body) is QSnap:
            if member.making is not None:
                member.making.ends(body)
            if body.end:  # the one that ends at 0 is what a directory was formatted with
                return self._snapped(state, member, event, body, mirror)
        return NOTHING

    def _cleans(self, state: SnapshotState, making: Making, event: Stamped) -> Emissions:
        """A look at what is to go, and what the same step deletes: it is over when the member tells of something else,
        unless the process ends in the middle of it."""
        body, look = event.body, making.look
        if type(body) is NodeUp or (type(body) is QSnap and body.op == "delete"):
            return NOTHING
        if type(body) is LogStart and body.reason == "retention":
            return self._drops(state, look, event, body) if look is not None and state.limited else NOTHING
        making.look = None
        if type(body) is QClean:
            state.tested += 1
            if body.oldest[0].end < body.start:
                return self.violated(
                    state.key,
                    f"{event.node} still has its snapshot up to {body.oldest[0].end:,}, although its log begins at "
                    f"{body.start:,}",
                    event,
                )
            making.look = Look(body, Limits.of(state.profile, event.node), witness(event), body.start)
        if look is None or not state.limited or look.start >= look.due:
            return NOTHING
        kept = min(each.end for each in look.seen.oldest if each.end >= look.start)
        return self.violated(
            state.key,
            f"{event.node} kept its snapshot up to {kept:,}, although {look.why(kept)}",
            look.by,
            event,
        )

    def _drops(self, state: SnapshotState, look: Look, event: Stamped, body: LogStart) -> Emissions:
        begun, look.start = look.start, body.new
        if body.new <= look.due or not look.told_all:
            return NOTHING
        gone = min(each.end for each in look.seen.oldest if each.end >= max(begun, look.due))
        return self.violated(
            state.key,
            f"{event.node} deleted its snapshot up to {gone:,}, although {look.why(gone)}",
            look.by,
            event,
        )

    def _applies(self, state: SnapshotState, member: Holder, event: Stamped, body: QApply) -> Emissions:
        """A step that makes a snapshot due begins to write it, unless the process ends in the middle of it."""
        if member.making is None:
            return NOTHING
        missed = member.making.applies(event, body, max(member.held, default=0))
        if BETWEEN_SNAPSHOTS in state.bounced:
            return NOTHING
        state.tested += member.making.due is not None
        if missed is None:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} had applied {missed.size:,} bytes of the metadata log up to {missed.end:,} without a "
            f"snapshot, and made none; {BETWEEN_SNAPSHOTS} is {member.making.limit:,}",
            missed.by,
            event,
        )

    def _snapped(
        self, state: SnapshotState, member: Holder, event: Stamped, body: QSnap, mirror: LogMirror
    ) -> Emissions:
        state.tested += 1
        if body.op == "delete":
            return self._deleted(state, member, event, body)
        member.held.add(body.end)
        if body.leads >= 0 and body.op != "create":
            return self.violated(
                state.key,
                f"{event.node}, the active leader of epoch {body.leads}, {_DID[body.op]} a snapshot up to "
                f"{body.end:,} in place of its own state",
                event,
            )
        return self._compare(state, event, body, mirror)

    def _compare(self, state: SnapshotState, event: Stamped, body: QSnap, mirror: LogMirror) -> Emissions:
        """With what is committed, and with other snapshots that end there."""
        what = f"{event.node} {_DID[body.op]} a snapshot up to {body.end:,}"
        if body.ph is None or body.digest is None:
            return self.cannot_tell(state.key, event)
        fact = state.facts.setdefault(
            body.end, SnapshotFact(body.epoch, body.ph, body.digest, body.state, witness(event))
        )
        if len(state.facts) > SNAPSHOTS_KEPT:
            del state.facts[min(state.facts)]
        wrong = _against_committed(mirror, body.end, body.epoch, body.ph)
        if wrong:
            return self._judge(state, mirror, body.end, f"{what} {wrong}", None, event)
        if (fact.epoch, fact.ph, fact.digest) != (body.epoch, body.ph, body.digest):
            about = "another state than" if fact.ph == body.ph else "another log below it than"
            sentence = f"{what}, which has {about} the snapshot of {fact.by.node} up to the same offset"
            return self._judge(state, mirror, body.end, sentence, fact.by, event)
        if fact.state != body.state:
            sentence = (
                f"{what}, whose records differ from those in the snapshot of {fact.by.node} up to the same offset"
            )
            return self._judge(state, mirror, body.end, sentence, fact.by, event)
        return NOTHING

    def _begins(
        self, state: SnapshotState, member: Holder, event: Stamped, body: LogStart, mirror: LogMirror
    ) -> Emissions:
        state.tested += 1
        member.start, member.by = body.new, witness(event)
        what = f"{event.node} began its log at {body.new:,}"
        # What it finds on its disk it may not have had the time to tell of.
        found_on_disk = member.started != event.incarnation and body.reason == "snapshot"
        if body.new not in member.held and not found_on_disk:
            return self.violated(state.key, f"{what}, but it has no snapshot that ends there", event)
        member.held.add(body.new)
        if body.ph is None:
            return self.cannot_tell(state.key, event)
        wrong = _against_committed(mirror, body.new, body.epoch, body.ph)
        if wrong:
            return self._judge(state, mirror, body.new, f"{what} {wrong}", None, event)
        return NOTHING

    def _deleted(self, state: SnapshotState, member: Holder, event: Stamped, body: QSnap) -> Emissions:
        member.held.discard(body.end)
        if body.end < member.start:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} deleted the snapshot up to {body.end:,} while its log began at {member.start:,}",
            member.by,
            event,
        )

    def _judge(
        self, state: SnapshotState, mirror: LogMirror, end: int, sentence: str, other: Witness | None, event: Stamped
    ) -> Emissions:
        if mirror.taint_below(end) is not None:
            return self.excused("loss-budget", state.key, sentence, other, event)
        return self.violated(state.key, sentence, other, event)


def _against_committed(mirror: LogMirror, end: int, epoch: int, ph: int) -> str:
    """What is wrong with what ends there, "" nothing (or it is too long ago to say)."""
    committed = mirror.committed
    if end > committed.end:
        return f"while the metadata log was committed only up to {committed.end:,}"
    if committed.matches(end, ph) is False:
        return "that differs from the committed entries up to there"
    last = _epoch_below(committed, end)
    return "" if last in (-1, epoch) else f"as one of epoch {epoch}, where the last record is of epoch {last}"


def _epoch_below(committed: Prefix, end: int) -> int:
    """Epoch of the record before ``end``, -1 where that is forgotten."""
    if end == committed.floor:
        return committed.floor_epoch
    batch = committed.batch_at(end - 1)
    return -1 if batch is None else batch.epoch
