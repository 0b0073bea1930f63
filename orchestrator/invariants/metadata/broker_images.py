"""M8: what nodes make of the metadata log, and what brokers tell clients of it."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import node_name, partition_name
from actors.trace.events import (
    BrokerReg,
    LogHw,
    MetaImage,
    MetaState,
    MetaView,
    NodeUp,
    PartChange,
    PartRemove,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, OPEN_REMEMBERED, forget_least
from orchestrator.invariants.mirrors.leader_epochs import Taint
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import WIPED, LogMirror

NOBODY = -1


class Said(msgspec.Struct, frozen=True):
    """A record of the metadata log, in whose epoch it was written, about a partition (``tp``) or a broker. removed: the
    partition's topic is."""

    offset: int
    epoch: int
    tp: str
    leader: int
    leader_epoch: int
    broker: int
    fenced: bool
    by: Witness
    removed: bool = False


class Image(msgspec.Struct, frozen=True):
    """Up to where a broker had applied the metadata log, with its event number ``seq``."""

    offset: int
    seq: int


class Seen(msgspec.Struct):
    """The images of a broker's incarnation, in order. lost: one of them is of what no log has any more."""

    incarnation: int
    images: list[Image] = []
    lost: bool = False

    def at(self, seq: int) -> int:
        """Up to where it had applied the log when it had recorded event ``seq``, -1 nothing."""
        return next((image.offset for image in reversed(self.images) if image.seq <= seq), -1)


class Digest(msgspec.Struct, frozen=True):
    """What a broker had below an offset."""

    value: int
    by: Witness


class Made(msgspec.Struct, frozen=True):
    """What a node made of the records below an offset: their digest, and a hash over the state."""

    digest: int
    state: int
    by: Witness


class Images(State):
    """digests: offset -> what the first broker had below it. made: offset -> what the first node made of that. waiting:
    records that nobody has committed so far; partitions, brokers: the committed ones, by offset. written: partition ->
    every (leader, leader epoch) that a controller wrote. pushed: brokers are told of the cluster by UpdateMetadata, and
    tell that. lost_in: newest quorum epoch whose leader lacked, and might lack, what was committed."""

    digests: dict[int, Digest] = {}
    made: dict[int, Made] = {}
    brokers_seen: dict[str, Seen] = {}
    waiting: list[Said] = []
    partitions: dict[str, list[Said]] = {}
    brokers: dict[int, list[Said]] = {}
    written: dict[str, set[tuple[int, int]]] = {}
    pushed: bool = False
    lost_in: int = -1

    def lose(self, mirror: LogMirror) -> None:
        """Forget what a leader did not have any more; images that have it are no part of what follows."""
        for taint in mirror.taints:
            if taint.epoch <= self.lost_in:
                continue
            self.lost_in = taint.epoch
            for seen in self.brokers_seen.values():
                seen.lost = seen.lost or any(image.offset > taint.start for image in seen.images)
            self.digests = {offset: digest for offset, digest in self.digests.items() if offset <= taint.start}
            self.made = {offset: made for offset, made in self.made.items() if offset <= taint.start}
            self.waiting = [said for said in self.waiting if _outlives(said, taint)]
            for known in (*self.partitions.values(), *self.brokers.values()):
                known[:] = [said for said in known if _outlives(said, taint)]

    def settle(self, mirror: LogMirror) -> None:
        """Sort out what has become of records below what is committed: of two at an offset one is, at most."""
        left: list[Said] = []
        for said in self.waiting:
            if said.offset >= mirror.committed.end:
                left.append(said)
                continue
            batch = mirror.committed.batch_at(said.offset)
            if batch is None or batch.epoch == said.epoch:
                known = self.partitions.setdefault(said.tp, []) if said.tp else self.brokers.setdefault(said.broker, [])
                known.append(said)
                known.sort(key=_offset)
                del known[:-CHANGES_REMEMBERED]
        self.waiting = left


def _outlives(said: Said, taint: Taint) -> bool:
    """Whether a record may be committed although the leader of an epoch had lost some of what was."""
    return said.offset < taint.start or said.epoch >= taint.epoch


def _is_of_lost_log(offset: int, node: str, mirror: LogMirror) -> bool:
    """Whether an image up to an offset is of a log with something in it that the quorum has lost since."""
    taint, log = mirror.taint_below(offset), mirror.replica(node).log
    if taint is None:
        return False
    batch, committed = log.batch_at(taint.start), mirror.committed.batch_at(taint.start)
    if batch is None:  # it has none, or began with a snapshot
        return taint.start < log.floor and mirror.committed.matches(log.floor, log.floor_ph) is not True
    return batch.epoch < taint.epoch and (committed is None or committed.epoch != batch.epoch)


def _offset(said: Said) -> int:
    return said.offset


def _below(records: list[Said], offset: int) -> Said | None:
    return next((said for said in reversed(records) if said.offset < offset), None)


class ImagesAreOneHistory(LogInvariant[Images]):
    """Each broker builds its image of the cluster from the metadata log by itself. A broker that skips a record, or
    applies a different one, follows another leader than the rest, and gives clients a cluster that never existed. The
    same records make the same brokers, topics, partitions, configurations and features, at brokers and controllers,
    replayed or loaded from a snapshot: a part that a snapshot leaves out is missing at whoever loads it.

    Example: broker-2 and broker-3 have applied the metadata log up to 118, and their images differ; or broker-2 answers
    consumer-1 that broker-1 leads orders-0 in leader epoch 4, though offset 112 gave leader epoch 5 to broker-3; or
    broker-2 loads a snapshot up to 118, and has no eligible leader replicas any more, which broker-3 has there. A
    broker may be behind the others, but may not go back. A broker that is fenced at that offset leads no partition for
    clients. With metadata.propagation=push clients get the controllers' updates: the check is then that the controllers
    wrote them.
    """

    id = "M8"
    title = "The metadata images of all brokers are one history, and an answer to a client is in the image it came from"
    source = "kafka-tlaplus, MetadataLogMatchingProperty; KIP-630; Kafka's MetadataImage, KRaftMetadataCache"
    tested_when = (
        "a broker reaches an offset that another one has reached, or passes its former offset; a node tells its state "
        "at an offset where another one has; or a client gets a leader that it did not know"
    )
    types = (MetaImage, MetaState, MetaView, PartChange, PartRemove, BrokerReg, NodeUp, LogHw)
    cases = {LogHw: ("leader",)}
    exemptions = {"loss-budget": WIPED}
    ghost = "digest of the metadata log"
    unseen = (
        "Answers that repeat the client's knowledge: they are not in its trace.",
        "Whether a hint is as new as the image of its broker: the check is only that a controller wrote it.",
        "What all nodes make of the same records in the same wrong way.",
        "What a controller makes of records, but where it makes or loads a snapshot, or begins or ends to be active.",
        "An image that stays behind for good: L8 requires that it reaches the end of the metadata log.",
        "What a broker has from the time on when the quorum lost a record that it had applied, until it restarts.",
        "With metadata.propagation=push, whether a broker's answer is from its last update.",
        f"What a partition or a broker was before its last {CHANGES_REMEMBERED} records.",
    )

    def initial(self, key: str, profile: Profile) -> Images:
        pushed = profile.setting("metadata.propagation", default="log") == "push"
        return Images(key, pushed=pushed)

    def step(self, state: Images, event: Stamped, mirror: LogMirror) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if mirror.taints:
            state.lose(mirror)
        if kind is MetaView:
            return self._told(state, event, body, mirror) if body.source != "heard" else NOTHING
        if kind is MetaImage:
            return [*self._applied(state, event, body, mirror), *self._same(state, event, body)]
        if kind is MetaState:
            return self._same(state, event, body)
        if kind is LogHw:
            if state.waiting and mirror.newly_committed:
                state.settle(mirror)
        elif kind is PartChange:
            state.written.setdefault(body.tp, set()).add((body.leader, body.leader_epoch))
            said = Said(
                body.offset, body.quorum_epoch, body.tp, body.leader, body.leader_epoch, -1, False, witness(event)
            )
            state.waiting.append(said)
        elif kind is PartRemove:
            record = (body.offset, body.quorum_epoch, body.tp, NOBODY, -1, -1, False)
            state.waiting.append(Said(*record, witness(event), removed=True))
        elif kind is BrokerReg:
            epoch = mirror.replica(event.node).leads
            state.waiting.append(Said(body.offset, epoch, "", -1, -1, body.broker, body.fenced, witness(event)))
        elif kind is NodeUp:
            state.brokers_seen[event.node] = Seen(event.incarnation)
        return NOTHING

    # ---- images -------------------------------------------------------------------------------------------

    def _applied(self, state: Images, event: Stamped, body: MetaImage, mirror: LogMirror) -> Emissions:
        seen = state.brokers_seen.get(event.node)
        if seen is None or seen.incarnation != event.incarnation:
            seen = state.brokers_seen[event.node] = Seen(event.incarnation)
        before = seen.images[-1].offset if seen.images else -1
        seen.images.append(Image(body.offset, event.seq))
        del seen.images[:-OPEN_REMEMBERED]
        if body.digest is None:
            return self.cannot_tell(state.key, event)
        seen.lost = seen.lost or _is_of_lost_log(body.offset, event.node, mirror)
        own = Digest(body.digest, witness(event))
        known = state.digests.get(body.offset, own) if seen.lost else state.digests.setdefault(body.offset, own)
        forget_least(state.digests, OPEN_REMEMBERED)
        state.tested += before >= 0 or known.by.id != event.id
        if body.offset < before:
            wrong = f"went back to {body.offset:,} of the metadata log after it had reached {before:,}"
        elif body.offset > mirror.committed.end:
            wrong = (
                f"has applied the metadata log up to {body.offset:,}, but it is committed only up to "
                f"{mirror.committed.end:,}"
            )
        elif known.value != body.digest:
            wrong = f"has a metadata image at offset {body.offset:,} that differs from the one of {known.by.node}"
        else:
            return NOTHING
        sentence = f"{event.node} {wrong}"
        if seen.lost or mirror.loss_excuses(max(body.offset - 1, 0), mirror.budget):
            return self.excused("loss-budget", state.key, sentence, known.by, event)
        return self.violated(state.key, sentence, known.by, event)

    def _same(self, state: Images, event: Stamped, body: MetaImage | MetaState) -> Emissions:
        """With what others made of the same records, whoever lost what: there is one thing to make of them."""
        if body.digest is None or body.state is None:
            return NOTHING
        own = Made(body.digest, body.state, witness(event))
        known = state.made.setdefault(body.offset, own)
        forget_least(state.made, OPEN_REMEMBERED)
        if known is own or known.digest != own.digest:
            return NOTHING
        state.tested += 1
        if known.state == own.state:
            return NOTHING
        sentence = (
            f"{event.node} has made something else of the metadata log up to {body.offset:,} than {known.by.node}, of "
            "the same records"
        )
        return self.violated(state.key, sentence, known.by, event)

    # ---- what clients are told ----------------------------------------------------------------------------

    def _told(self, state: Images, event: Stamped, body: MetaView, mirror: LogMirror) -> Emissions:
        for tp, epoch in body.epochs.items():
            leader = body.leaders.get(tp, NOBODY)
            hinted = body.source == "hint"
            wrong = self._unwritten(state, tp, leader, epoch) if state.pushed or hinted else ""
            by: Witness | None = None
            if not state.pushed and not hinted:
                wrong, by = self._differs(state, event, tp, leader, epoch, mirror)
            if not wrong:
                continue
            sentence = f"{body.server} answered {event.node} with {_leads(leader, epoch)} {tp}, but {wrong}"
            if by is not None and self._has_lost(state, event):
                return self.excused("loss-budget", state.key, sentence, by, event)
            return self.violated(state.key, sentence, by, event)
        return NOTHING

    def _has_lost(self, state: Images, event: Stamped) -> bool:
        """Whether the broker that gave an answer has an image of what the quorum has lost."""
        seen = state.brokers_seen.get(event.cause.partition("/")[0])
        return seen is not None and seen.lost

    def _unwritten(self, state: Images, tp: str, leader: int, epoch: int) -> str:
        # A broker that gives a hint may mean another topic of that name than the client does.
        name = partition_name(tp)
        written = [each for key, known in state.written.items() if partition_name(key) == name for each in known]
        state.tested += 1
        if any((leader in (each, NOBODY)) and epoch in (of, -1) for each, of in written):
            return ""
        return "no controller wrote such a record"

    def _newest_of_name(self, state: Images, tp: str, offset: int) -> Said | None:
        """The last record about any topic of a name: a client that is told no topic ids takes it for the former one."""
        name = partition_name(tp)
        known = (_below(each, offset) for key, each in state.partitions.items() if partition_name(key) == name)
        return max((said for said in known if said is not None), key=_offset, default=None)

    def _differs(
        self, state: Images, event: Stamped, tp: str, leader: int, epoch: int, mirror: LogMirror
    ) -> tuple[str, Witness | None]:
        """How an answer differs from the image of the broker that gave it, "" if it does not or nobody can say."""
        broker, _, rest = event.cause.partition("/")
        incarnation, _, seq = rest.partition("/")
        seen = state.brokers_seen.get(broker)
        if seen is None or seen.incarnation != int(incarnation):
            return "", None
        state.settle(mirror)
        offset = seen.at(int(seq))
        said = _below(state.partitions.get(tp, []), offset)
        if said is not None and said.removed:
            said = self._newest_of_name(state, tp, offset)
        if said is None:
            return "", None
        state.tested += 1
        if said.removed:
            return f"its image, up to {offset:,}, has no such topic", said.by
        registrations = state.brokers.get(said.leader, [])
        registered = _below(registrations, offset)
        if registered is None and len(registrations) >= CHANGES_REMEMBERED:
            return "", None  # so far back it is not remembered
        right = said.leader if registered is not None and not registered.fenced else NOBODY
        if leader == right and epoch in (said.leader_epoch, -1):
            return "", None
        fenced = f", fenced at {registered.offset:,}" if right != said.leader and registered else ""
        image = f"its image, up to {offset:,}, has {_leads(said.leader, said.leader_epoch)} it{fenced}"
        return image, said.by


def _leads(leader: int, epoch: int) -> str:
    who = node_name(leader) if leader >= 0 else "nobody"
    return f"{who} in leader epoch {epoch} of" if epoch >= 0 else f"{who} as the leader of"
