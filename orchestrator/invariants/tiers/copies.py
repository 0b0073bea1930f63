"""R10 and R12: the segments that leaders copy to the remote store and delete there, and copies that break off."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.coordinator_common.partitions import REMOTE_LOG_METADATA_TOPIC
from actors.broker.remote_log.reader_config import STORE_TIMEOUT
from actors.broker.remote_log.remote_log_config import CONSUME_WAIT
from actors.log.segment_objects import LEADER_EPOCH, LOG, OFFSET, PRODUCER_SNAPSHOT, TIMESTAMP
from actors.node.spec import REMOTE_STORE
from actors.trace.events import (
    ClockSet,
    ConfigChange,
    CtlFault,
    LogHw,
    LogLocalStart,
    LogStart,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    PartRemove,
    Stamped,
    StoreObject,
    TierSegment,
)
from actors.trace.tier_events import DELETED, FINISHED
from chaos.faults.kinds import kinds_of
from chaos.faults.store import StaleListing
from orchestrator.invariants.folds.bounds import NEVER_US, longest_ms
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.routes import PARTITION, SEGMENT
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.mirrors.log_mirror import ANEW
from orchestrator.invariants.mirrors.partition_losses import PartitionLosses
from orchestrator.invariants.tiers.known_copies import (
    KEPT,
    KnownCopies,
    Life,
    copy_of,
    may_lose_metadata,
    of_process,
)
from orchestrator.invariants.tiers.reach import Reach

NEEDED = frozenset({LOG, OFFSET, TIMESTAMP, PRODUCER_SNAPSHOT, LEADER_EPOCH})
"""Objects without which a copy is of no use."""
GONE = "gone"
"""Name of the obligation that an abandoned copy is deleted."""
DELETION = "deletion/"
"""How the names of obligations begin that a broker comes to the end of a deletion."""
TIERED = "remote.storage.enable"
STALE = kinds_of(StaleListing)


class Knowledge(KnownCopies):
    """Of one process. high_watermark: its own, -1 none yet, from the event ``by``. looked: the
    copies that it knew when it looked where the log starts and is copied up to, None it has not since its last copy in
    another leader epoch. begun: the leader epoch in which it copies, -1 none. behind: the copies that it knew when it
    looked, or at its first copy in that epoch, and its own: it continues after them, whatever a former leader still
    copies."""

    high_watermark: int = -1
    by: Witness | None = None
    looked: list[str] | None = None
    begun: int = -1
    behind: list[str] = []


class Copied(State):
    """end: the end of all copies that ever were (exclusive). deleted: the highest log start that retention or an
    operator gave a replica. known: by broker."""

    end: int = 0
    deleted: int = 0
    known: dict[str, Knowledge] = {}

    def of(self, event: Stamped) -> Knowledge:
        """Of the process that recorded an event."""
        return of_process(self.known, Knowledge, event)


class CopiesMakeOneLog(KeyedInvariant[Copied]):
    """Consumers read copies in remote storage as a part of the log, long after the replicas have deleted their own
    segments. A copy of uncommitted records gives them records that may never exist. A gap between two copies, or the
    deletion of a copy that the log still needs, hides acknowledged records.

    Example: broker-1, leader of orders-0, copies the segment with offsets 40 to 59 while its high watermark is 52. Or
    it deletes the copy of offsets 0 to 19 while its log starts at 10. Or it copies offsets 40 to 59 again, although it
    knew a copy of them before its first copy as the leader. Or it deletes its local segment with offsets 40 to 59,
    which no broker has copied.
    """

    id = "R10"
    title = "Remote storage has copies of committed records alone, without a gap, for as long as the log needs them"
    source = "KIP-405; KAFKA-15272; KAFKA-15241; Kafka's RemoteLogManager.java"
    tested_when = (
        "a leader begins to copy a segment, or to delete a finished copy; or a replica deletes segments by its local "
        "retention"
    )
    route = PARTITION
    unseen = (
        "Leader epochs, where it compares offsets to judge gaps and local retention: R7 judges look-ups.",
        "A gap below a log start from before an unclean election, in the log that the election gave up.",
    )
    types = (TierSegment, LogHw, LogStart, LogLocalStart)

    def initial(self, key: str, profile: Profile) -> Copied:
        return Copied(key)

    def step(self, state: Copied, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is LogHw:
            # Of a follower, too: a new leader begins with the high watermark that it had.
            known = state.of(event)
            known.high_watermark, known.by = body.new, witness(event)
        elif kind is LogStart:
            if body.reason == "remote":
                known = state.of(event)
                known.looked = list(known.copies)
            elif body.reason not in (*ANEW, "load", "leader"):  # by retention, or at the request of an operator
                state.deleted = max(state.deleted, body.new)
        elif kind is LogLocalStart:
            return self._dropped(state, event, body)
        elif body.phase == "known":
            state.of(event).consume(event, body)
            if body.state == FINISHED:
                # The process that copied it may have ended before it recorded the end of the copy.
                state.end = max(state.end, body.end + 1)
        elif body.phase == "copied":
            state.end = max(state.end, body.end + 1)
            known = state.of(event)
            if known.begun == body.leader_epoch:
                known.behind = [*known.behind, body.segment][-KEPT:]
        elif body.phase == "copying":
            state.tested += 1
            return self._copies(state, event, body)
        elif body.phase == "deleting" and body.state == FINISHED:
            state.tested += 1
            if body.within and body.end >= body.log_start:
                sentence = (
                    f"{event.node} deletes the copy of offsets {body.start:,} to {body.end:,} of {state.key}, but its "
                    f"log starts at {body.log_start:,}"
                )
                return self.violated(state.key, sentence, event)
        return NOTHING

    def _dropped(self, state: Copied, event: Stamped, body: LogLocalStart) -> Emissions:
        if body.reason not in ("retention-ms", "retention-bytes"):
            return NOTHING
        state.tested += 1
        if body.new <= state.end:
            return NOTHING
        sentence = (
            f"{event.node} deleted its segments of {state.key} below {body.new:,}, but the offsets from {state.end:,} "
            f"on were never copied, and its log starts at {body.log_start:,}"
        )
        return self.violated(state.key, sentence, event)

    def _copies(self, state: Copied, event: Stamped, body: TierSegment) -> Emissions:
        what = f"{event.node} copies offsets {body.start:,} to {body.end:,} of {state.key}"
        known = state.of(event)
        watermark = body.high_watermark if known.by is None else known.high_watermark
        limit = min(watermark, body.last_stable_offset)
        if body.end >= limit:
            sentence = (
                f"{what}, but its high watermark is {watermark:,} and its last stable offset "
                f"{body.last_stable_offset:,}"
            )
            return self.violated(state.key, sentence, known.by, event)
        # A leader that lost the checkpoint of its log start begins with an older one, and has no local segment there.
        first = max(state.end, body.log_start, state.deleted)
        if body.start > first:
            sentence = f"{what}, but no copy has offsets {first:,} to {body.start - 1:,}"
            return self.violated(state.key, sentence, event)
        mine = copy_of(event, body)
        if known.begun != body.leader_epoch:
            known.behind = list(known.copies) if known.looked is None else known.looked
            known.begun, known.looked = body.leader_epoch, None
        for each in (known.copies[segment] for segment in known.behind if segment in known.copies):
            inside = each.start <= body.start and body.end <= each.end
            if inside and each.same_at(mine, body.start, body.end):
                return self.violated(state.key, f"{what}, although it knows a copy of these offsets", each.by, event)
        return NOTHING


class Consumed(Life):
    """The states of one copy that one process has consumed, whether they followed from the one before or not."""

    states: list[str] = []


class Deletion(msgspec.Struct):
    """Of a copy, by one broker, in a leader epoch. begun_us: when it began. left: the objects that the store had then,
    and has since. first: no deletion of that copy had begun before. stored: the store has deleted objects for it, so
    that all is done but what comes after."""

    begun_us: int
    left: list[str]
    leader_epoch: int
    first: bool
    stored: bool = False


class OneCopy(WindowState):
    """One copy of a segment, of partition tp. copier: the broker that copies it, as leader of leader_epoch. orphaned:
    the copier went down or does not lead any more, so that nobody will finish the copy. objects: those that the store
    has. told: a broker has consumed the copy's metadata; finished: and they say that it is finished. deleting: the
    last deletion that each broker began. untold: all objects were in the store when the copier failed to report that.
    stale_us: until then the store's lists of objects may be out of date. shortened: the metadata topic may have lost
    records. consumed: by broker; losses: of the metadata topic. unread: a broker may be past records of that topic that
    it has not consumed: lower offsets are given again after such a loss, and retention takes what is slowly read.
    deletion_us: how long a deletion may take once it is told that it begins, or that was given up; wait_us: after which
    that is; answer_us: how long one waits for an answer of the store that was lost. reach: what keeps brokers from
    deleting. skewed: brokers whose clocks were set. untiered: a topic's tiered storage was switched off, which ends
    deletions."""

    tp: str = ""
    copier: str = ""
    leader_epoch: int = -1
    orphaned: bool = False
    objects: list[str] = []
    told: bool = False
    finished: bool = False
    deleting: dict[str, Deletion] = {}
    shortened: bool = False
    untold: bool = False
    stale_us: int = -1
    consumed: dict[str, Consumed] = {}
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    unread: bool = False
    deletion_us: int = 0
    wait_us: int = 0
    answer_us: int = 0
    reach: Reach = msgspec.field(default_factory=Reach)
    skewed: set[str] = set()
    untiered: bool = False

    def takes_us(self, node: str) -> int:
        """How long the last deletion of a broker may take once it is told of."""
        lost = self.reach.loses_since(node, self.deleting[node].begun_us)
        return self.deletion_us + (self.answer_us if lost else 0)


class HalfCopiesGoAway(WindowInvariant[OneCopy]):
    """An abandoned copy takes room for ever if nobody deletes it. A copy that is reported as finished before all of its
    objects are in the store cannot be read.

    Example: the store fails while broker-1 copies a segment. The log data stay in the store, and no other object of the
    copy ever follows. Or the metadata report a copy as finished although its index was never stored, or as deleted
    although its log data are still in the store. Or broker-1 gives up a copy and does not try to delete its objects.
    Or it takes a copy for finished, or for deleted, and the metadata do not say so: no other broker learns of that.
    The obligation begins with the first object in the store. It ends when the copy is reported as finished, or when the
    last of its objects is deleted.

    A broker that begins to delete a copy comes to an end, too: it reports the copy as deleted, or gives that up for
    now. If broker-1 does not take the store's answer, it never deletes anything of that partition again.
    """

    id = "R12"
    title = (
        "A copy is complete when it is reported as finished, its metadata say what is reported, and an abandoned copy "
        "is deleted; who deletes a copy comes to an end"
    )
    source = "KAFKA-17062; KAFKA-17428; Kafka's RemoteLogManager.java"
    tested_when = (
        "a copy is reported as finished or deleted, or is given up, or its deletion fails; or, in a window, the last "
        "object of an abandoned copy is deleted"
    )
    unseen = (
        "The content of a copy's objects: the check only sees that the store has them.",
        "what a former leader's late request adds to a copy between the beginning of its deletion and the report of it",
        "how long deletions take where an operator switches tiered storage off, or after the broker's clock was set",
    )
    exemptions = {
        "orphaned": "The broker that copied it went down or no longer leads the partition, or the topic was deleted. "
        "Kafka deletes such an incomplete copy together with expired ones, or never.",
        "untold": "All objects were in the store, and the broker gave up because it could not report that in time. "
        "Kafka "
        "deletes such a copy together with expired ones, or never.",
        "deleted-by-another": "The next leader deleted the copy as expired, and the broker that copied it did not know "
        "yet that it had been replaced.",
        "late-object": "The next leader deleted the copy as expired, which the former leader still copied: what is "
        "left came into the store after the deletion had begun. Kafka's leaders spare only copies that they make "
        "themselves.",
        "metadata-lost": "An unclean election shortened the metadata topic. The broker has consumed former records at "
        "the offsets of the new ones, so it does not wait for these (TopicBasedRemoteLogMetadataManager). What is "
        "reported without metadata is excused, too, if disks lost more of that topic than its replicas allow, or if "
        "retention deleted some of it: a broker that had not read that goes on where the topic begins.",
        "outdated-list": "While the copy was deleted, the store's list of its objects was out of date, and the store "
        "deletes the objects in its list.",
    }
    route = SEGMENT
    types = (TierSegment, StoreObject)

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, ClockSet, ConfigChange, NodeUp, NodeDown, PartAssume, PartChange, PartRemove, LogStart)

    def initial(self, key: str, profile: Profile) -> OneCopy:
        losses = PartitionLosses(profile, (f"{REMOTE_LOG_METADATA_TOPIC}-",))
        return OneCopy(
            key,
            beta_us=beta(profile, self.id),
            losses=losses,
            deletion_us=beta(profile, f"{self.id}/deletion"),
            wait_us=1000 * longest_ms(profile, CONSUME_WAIT),
            answer_us=1000 * longest_ms(profile, STORE_TIMEOUT),
        )

    def hear(self, state: OneCopy, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind in (NodeUp, NodeDown, ClockSet):
            self.void(state, f"{DELETION}{event.node}")
            if event.node == REMOTE_STORE:
                state.reach.touches(event.node, event.wall)
        if kind is ClockSet:
            state.skewed.add(event.node)
            return NOTHING
        if kind is NodeUp:
            state.orphaned |= event.node == state.copier
            return NOTHING
        if kind is PartRemove:
            state.orphaned |= body.tp == state.tp
            for node in state.deleting if body.tp == state.tp else ():
                self.void(state, f"{DELETION}{node}")
            return NOTHING
        if kind is ConfigChange:
            state.untiered |= body.key == TIERED and str(body.value).lower() != "true"
            return NOTHING
        if kind is PartChange or kind is NodeDown:
            state.shortened |= kind is PartChange and may_lose_metadata(body)
            state.unread |= bool(state.losses.take(event))
            return NOTHING
        if kind is LogStart:
            state.unread |= may_lose_metadata(body)
            return NOTHING
        if kind is PartAssume:
            left = body.role != "leader" or body.leader_epoch != state.leader_epoch
            state.orphaned |= event.node == state.copier and body.tp == state.tp and left
            self._assumed(state, event, body)
            return NOTHING
        if kind is CtlFault:
            state.reach.take(body, event.wall)
        if kind is CtlFault and body.kind in STALE:
            lag_us = int(body.parameters["delay_max_us"])
            state.stale_us = NEVER_US if body.phase == "start" else event.wall + lag_us
        return [*super().hear(state, event), *self.arm(state)]

    def step(self, state: OneCopy, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is StoreObject:
            found = self._stored(state, event, body)
        else:
            found = self._told(state, event, body)
        return [*found, *self.arm(state)]

    @staticmethod
    def _assumed(state: OneCopy, event: Stamped, body: PartAssume) -> None:
        """A broker drops its tasks with its leader epoch."""
        deletion = state.deleting.get(event.node)
        if deletion is None or body.tp != state.tp:
            return
        if body.role != "leader" or body.leader_epoch != deletion.leader_epoch:
            state.due.pop(f"{DELETION}{event.node}", None)

    def _stored(self, state: OneCopy, event: Stamped, body: StoreObject) -> Emissions:
        if body.phase == "deleted":
            for there in (state.objects, *(each.left for each in state.deleting.values())):
                if body.object in there:
                    there.remove(body.object)
            if not state.objects:
                self.kept(state, GONE)
            self._progresses(state, event)
            return NOTHING
        if body.object not in state.objects:
            state.objects = [*state.objects, body.object]
        if not state.finished:
            self.oblige(state, GONE, event)
        if not state.told:
            sentence = f"{body.object} of a copy of {body.tp} was stored, but no metadata record named that copy"
            if state.shortened:
                return self.excused("metadata-lost", state.key, sentence, event)
            return self.violated(state.key, sentence, event)
        return NOTHING

    def _told(self, state: OneCopy, event: Stamped, body: TierSegment) -> Emissions:
        if body.phase == "copying":
            state.tp, state.copier, state.leader_epoch = body.tp, event.node, body.leader_epoch
        elif body.phase == "known":
            state.told = True
            state.finished = body.state == FINISHED
            of_process(state.consumed, Consumed, event).states.append(body.state)
        elif body.phase == "refused":
            of_process(state.consumed, Consumed, event).states.append(body.state)
        elif body.phase == "copied":
            return self._finished(state, event, body)
        elif body.phase == "deleting":
            self._deletes(state, event, body)
        elif body.phase == "delete-failed":
            state.tested += f"{DELETION}{event.node}" in state.due
            self.void(state, f"{DELETION}{event.node}")
        elif body.phase == "copy-failed":
            return self._gave_up(state, event, body)
        elif body.phase == "deleted":
            return self._deleted(state, event, body)
        return NOTHING

    def _finished(self, state: OneCopy, event: Stamped, body: TierSegment) -> Emissions:
        state.finished = True
        self.void(state, GONE)
        state.tested += 1
        told = self._untold(state, event, f"its copy of {body.tp} as finished", FINISHED, DELETED)
        if missing := sorted(NEEDED.difference(state.objects)):
            sentence = f"{event.node} reported its copy of {body.tp} as finished without {', '.join(missing)}"
            if any(each != event.node for each in state.deleting):
                return [*told, *self.excused("deleted-by-another", state.key, sentence, event)]
            return [*told, *self.violated(state.key, sentence, event)]
        return told

    def _untold(self, state: OneCopy, event: Stamped, what: str, *states: str) -> Emissions:
        """Whether who reports something has consumed no metadata that say so: one of these states. Of what is deleted
        already no later state is known."""
        if not set(states).isdisjoint(of_process(state.consumed, Consumed, event).states):
            return NOTHING
        sentence = f"{event.node} reported {what}, but it has consumed no metadata record that says so"
        if state.unread:
            return self.excused("metadata-lost", state.key, sentence, event)
        return self.violated(state.key, sentence, event)

    def _deletes(self, state: OneCopy, event: Stamped, body: TierSegment) -> None:
        state.tp = body.tp
        first = not state.deleting
        state.deleting[event.node] = Deletion(event.wall, list(state.objects), body.leader_epoch, first)
        self.void(state, f"{DELETION}{event.node}")
        if not state.untiered and event.node not in state.skewed:
            self.oblige(state, f"{DELETION}{event.node}", event)

    @staticmethod
    def _progresses(state: OneCopy, event: Stamped) -> None:
        """The store deletes an object: for whom is certain if only one deletion was ever begun. It has told of that
        by now."""
        for node, deletion in state.deleting.items() if len(state.deleting) == 1 else ():
            obligation = state.due.get(f"{DELETION}{node}")
            if obligation is not None and deletion.first:
                deletion.stored, obligation.since_us = True, event.wall

    def _deleted(self, state: OneCopy, event: Stamped, body: TierSegment) -> Emissions:
        self.void(state, f"{DELETION}{event.node}")
        state.tested += 1
        return [
            *self._untold(state, event, f"a copy of {body.tp} as deleted", DELETED),
            *self._left(state, event, body),
        ]

    def _left(self, state: OneCopy, event: Stamped, body: TierSegment) -> Emissions:
        if not state.objects:
            return NOTHING
        left = ", ".join(state.objects)
        sentence = f"{event.node} reported a copy of {body.tp} as deleted, but the store still has {left}"
        deletion = state.deleting.get(event.node) or Deletion(event.wall, list(state.objects), -1, False)
        # The report comes after the list was asked for, perhaps when the fault is over.
        if deletion.begun_us <= state.stale_us:
            return self.excused("outdated-list", state.key, sentence, event)
        if event.node != state.copier and not deletion.left:
            return self.excused("late-object", state.key, sentence, event)
        return self.violated(state.key, sentence, event)

    def _gave_up(self, state: OneCopy, event: Stamped, body: TierSegment) -> Emissions:
        state.tested += 1
        state.untold = NEEDED.issubset(state.objects)
        if not state.objects or state.untold or event.node in state.deleting:
            return NOTHING
        sentence = f"{event.node} gave up its copy of {body.tp}, but left {', '.join(state.objects)} in the store"
        return self.violated(state.key, sentence, event)

    # ---- when it is due ---------------------------------------------------------------------------------------

    def due_us(self, state: OneCopy, obligation: Obligation) -> int:
        """A deletion needs no window, but its broker and the store alone: what it tells before and after is given up
        after a time. For the former, that goes on whatever happens."""
        if obligation is state.due.get(GONE):
            return super().due_us(state, obligation) if super().judges(state) else NEVER_US
        by = obligation.by
        assert by is not None, "an event opens it"
        told_us = obligation.since_us + (0 if state.deleting[by.node].stored else state.wait_us)
        return max(told_us, state.reach.free_us(by.node)) + state.takes_us(by.node)

    def judges(self, state: OneCopy) -> bool:
        return True

    def next_due_us(self, state: OneCopy) -> int:
        return min(self.due_us(state, each) for each in state.due.values())

    def missed(self, state: OneCopy, name: str, obligation: Obligation) -> Emissions:
        if name.startswith(DELETION):
            node = name.removeprefix(DELETION)
            seconds = state.takes_us(node) / 1_000_000
            sentence = (
                f"{node} deletes a copy of {state.tp}, and did not come to an end of that within {seconds:g} s without "
                "a fault that could prevent it"
            )
            return self.violated(state.key, sentence, obligation.by)
        if REMOTE_STORE not in state.core:
            return NOTHING
        objects = ", ".join(state.objects)
        sentence = f"the store still has {objects} of a copy of {state.tp} that {state.copier} never finished"
        if state.orphaned or state.copier not in state.core:
            return self.excused("orphaned", state.key, sentence, obligation.by)
        if state.untold:
            return self.excused("untold", state.key, sentence, obligation.by)
        sentence = f"{sentence}, and did not remove {self.within(state)}"
        return self.violated(state.key, sentence, obligation.by, state.window)
