"""What members are told of committed positions: O1 and M5, by the order in which coordinators appended them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from actors.node.errors import KafkaError
from actors.node.spec import partition_name
from actors.trace.events import (
    NO_ENTRY,
    CommitInvoke,
    CommitReturn,
    CommittedInvoke,
    CommittedReturn,
    Entry,
    GrpCommit,
    GrpFetch,
    GrpLoad,
    MetaImage,
    NodeDown,
    PartChange,
    PartRemove,
    SendOffsetsInvoke,
    SendOffsetsReturn,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import GROUP
from orchestrator.invariants.groups.losses import OFFSETS_LOSSES, offsets_losses
from orchestrator.invariants.mirrors.partition_losses import PartitionLosses

REMEMBERED = 256
"""Commits of a partition that are remembered."""
EPOCH_SINCE = 4
"""Version of OffsetCommit that has a metadata epoch."""
EPOCH = 2
"""Where an entry has its metadata epoch."""
_SAME_STEP = 64
"""Answers of a coordinator that are remembered until they have arrived."""


class Carried(msgspec.Struct, frozen=True, gc=False):
    """What of an entry, beside the offset, a version of a message has room for."""

    leader_epoch: bool = True
    metadata_epoch: bool = True

    @classmethod
    def by(cls, api: str, version: int) -> Carried:
        """That of a version; -1: nothing is on its way, and nothing gets lost."""
        if version < 0:
            return cls()
        leader_epoch, metadata_epoch = _SINCE[api]
        return cls(version >= leader_epoch, 0 <= metadata_epoch <= version)

    def of(self, entry: Entry) -> Entry:
        """As much of an entry as comes through."""
        offset, leader_epoch, metadata_epoch = entry
        return [offset, leader_epoch if self.leader_epoch else -1, metadata_epoch if self.metadata_epoch else -1]


_SINCE = {"OffsetCommit": (6, EPOCH_SINCE), "OffsetFetch": (5, 4), "TxnOffsetCommit": (2, -1)}
"""The first versions that have a leader epoch (KIP-320), and a metadata epoch (KIP-232, version 16); -1: none has."""
EVERY_WAY = [Carried(first, second) for first in (False, True) for second in (False, True)]


class Commit(msgspec.Struct, frozen=True, gc=False):
    """A commit that a coordinator appended. carried: what of an entry the request had room for. who: the client
    whose request it was, "" unknown; asked: the client's last
    event then, its incarnation and number. removals: of topics of this name, that the coordinator had heard of.
    losses: how often disks had lost something of the offsets partition. in_transaction: it takes effect with one."""

    offsets_tp: str
    coordinator_epoch: int
    log_offset: int
    member: str
    generation: int
    entry: Entry
    carried: Carried
    who: str
    asked: tuple[int, int]
    by: Witness
    removals: int = 0
    losses: int = 0
    in_transaction: bool = False

    def after(self, other: Commit) -> bool:
        """Whether it is later in the log."""
        return self.coordinator_epoch >= other.coordinator_epoch and self.log_offset > other.log_offset

    def is_told_as(self, entry: Entry, carries: Iterable[Carried]) -> bool:
        """Whether an answer can say so of it that carries as much as one of ``carries``."""
        return any(entry == each.of(self.entry) for each in carries)


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """A commit that its client was told to be committed, when."""

    wall_us: int
    commit: Commit
    by: Witness


class Register(msgspec.Struct):
    """One partition's. appended: as coordinators did, in the order of the trace; forgotten: the newest commit that is
    remembered no more; number: how many there were. floor: the newest commit that is acknowledged so far, but for
    ``fresh``, which no operation has come after yet."""

    appended: list[Commit] = []
    forgotten: Commit | None = None
    number: int = 0
    floor: Acknowledged | None = None
    fresh: list[Acknowledged] = []

    def append(self, commit: Commit) -> None:
        """A coordinator did."""
        self.appended.append(commit)
        self.number += 1
        if len(self.appended) > REMEMBERED:
            oldest = self.appended.pop(0)
            if self.forgotten is None or oldest.after(self.forgotten):
                self.forgotten = oldest

    def since(self, number: int) -> list[Commit] | None:
        """What was appended since there were so many; None if some of that is forgotten."""
        new = self.number - number
        return None if new > len(self.appended) else self.appended[len(self.appended) - new :]

    def is_known_since(self, floor: Acknowledged | None) -> bool:
        """Whether all commits are remembered that came after an acknowledged one; None: after the beginning."""
        forgotten = self.forgotten
        return forgotten is None or (floor is not None and not forgotten.after(floor.commit))

    def newest_before(self, now_us: int) -> Acknowledged | None:
        """What is acknowledged for certain before an operation that begins now; for all later ones, too."""
        late: list[Acknowledged] = []
        for each in self.fresh:
            if each.wall_us >= now_us:
                late.append(each)
            elif self.floor is None or each.commit.after(self.floor.commit):
                self.floor = each
        self.fresh = late
        return self.floor

    def acknowledged(self, event: Stamped, body: CommitReturn, tp: str, begun: Begun | None) -> Commit | None:
        """The oldest commit in the log that an acknowledgement can be of. A coordinator answers for its own log; one
        that was deposed may have appended the same before."""
        server = event.cause.partition("/")[0]
        for each in self.appended:
            if server and each.by.node != server:
                continue
            if each.who not in ("", event.node) or (each.member, each.generation) != (body.member, body.generation):
                continue
            if begun is not None and each.who and each.asked < (begun.by.incarnation, begun.by.seq):
                continue
            if each.entry == each.carried.of(body.offsets[tp]):
                return each
        return None


class Begun(msgspec.Struct, frozen=True, gc=False):
    """An operation that has not returned. floors: of a look-up: what was acknowledged when it began. member, numbers:
    of positions for a transaction: whose, and how many commits of each partition there were."""

    by: Witness
    floors: dict[str, Acknowledged] = {}
    member: str = ""
    numbers: dict[str, int] = {}


class Answer(msgspec.Struct, frozen=True, gc=False):
    """That a coordinator answered a look-up, with its event number ``seq``. image: up to where it had applied the
    metadata log. carried: what of an entry the answer had room for."""

    seq: int
    coordinator_epoch: int
    image: int
    carried: Carried


class Registers(State):
    """tps: topic partition -> its register. begun: operation -> its beginning. answers: broker -> incarnation -> what
    it answered last. removed: topic partition -> where the metadata log has removals of topics of its name; images:
    broker -> up to where it has applied that. epsilon_us: how far clocks may be apart."""

    tps: dict[str, Register] = {}
    begun: dict[str, Begun] = {}
    answers: dict[str, dict[int, list[Answer]]] = {}
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    removed: dict[str, list[int]] = {}
    images: dict[str, int] = {}
    epsilon_us: int = 0

    def register(self, tp: str) -> Register:
        """That of a partition."""
        found = self.tps.get(tp)
        if found is None:
            found = self.tps[tp] = Register()
        return found

    def answer_to(self, event: Stamped) -> Answer | None:
        """That of the coordinator which led to an event, None unknown."""
        node, _, rest = event.cause.partition("/")
        if not rest:
            return None
        incarnation, seq = map(int, rest.split("/"))
        known = self.answers.get(node, {}).get(incarnation, [])
        return next((each for each in reversed(known) if each.seq <= seq), None)

    def removals(self, tp: str, image: int) -> int:
        """How many topics of a partition's name are removed in an image of the metadata log."""
        return sum(offset < image for offset in self.removed.get(tp, ()))


def _epochs(entry: Entry) -> str:
    if entry[0] < 0:
        return ""
    leader_epoch, metadata_epoch = (str(epoch) if epoch >= 0 else "none" for epoch in entry[1:])
    return f" (leader epoch {leader_epoch}, metadata epoch {metadata_epoch})"


def commit_of(event: Stamped, body: GrpCommit, removals: int = 0, losses: int = 0) -> Commit:
    """What is remembered of one."""
    who, _, rest = event.cause.partition("/")
    incarnation, seq = map(int, rest.split("/")) if rest else (0, 0)
    entry = [body.offset, body.leader_epoch, body.metadata_epoch]
    carried = Carried.by("TxnOffsetCommit" if body.producer_id >= 0 else "OffsetCommit", body.version)
    place = (body.offsets_tp, body.coordinator_epoch, body.log_offset)
    asked, by = (incarnation, seq), witness(event)
    found = Commit(*place, body.member, body.generation, entry, carried, who, asked, by, removals, losses)
    return msgspec.structs.replace(found, in_transaction=True) if body.producer_id >= 0 else found


class AcknowledgedCommitsAreFetched(KeyedInvariant[Registers]):
    """A consumer whose commit is acknowledged relies on it: the next owner begins there. If an older position comes
    back, records are delivered twice; if a position comes back that no member committed, some are skipped.

    Example: consumer-1's commit of 40 of orders-0 is acknowledged, consumer-2 joins after that, looks up the committed
    position, and gets 25. An answer may be later than the last acknowledged commit: later commits may be under way, or
    have an unknown outcome. The log of the offsets partition defines the order.

    Positions that an application sends to its transaction are stored as they are sent, with their leader epochs. If
    app-1 sends 40 of orders-0 with leader epoch 3, and the coordinator stores 40 without one, the next owner does not
    see that the log was truncated below it.
    """

    id = "O1"
    title = "A look-up of a committed position returns the last position acknowledged before it, or a later one"
    source = "Jepsen's kafka workload; KAFKA-8069; Kafka's OffsetMetadataManager"
    tested_when = (
        "a position is looked up after an acknowledged commit, or the answer is a committed position; a coordinator "
        "loads the acknowledged commits of another one; a commit is acknowledged, or positions for a transaction"
    )
    route = GROUP
    types = (
        *(GrpCommit, GrpFetch, GrpLoad, CommitInvoke, CommitReturn, CommittedInvoke, CommittedReturn),
        *(SendOffsetsInvoke, SendOffsetsReturn),
    )
    of_groups = True
    exemptions = {
        "zombie": "A replaced coordinator that does not know of its replacement answered: it does not know later "
        "commits.",
        **OFFSETS_LOSSES,
    }
    unseen = (
        "Commits for another topic of that name, if the answer is empty: they are hidden by its id, not by its name.",
        f"Acknowledgements from more than {REMEMBERED} commits ago.",
        (
            f"Look-ups after more than {REMEMBERED} commits of which none is acknowledged: if their transactions were "
            "aborted, one that is remembered no more is still stored."
        ),
        "An acknowledgement before the commit is on all in-sync replicas, unless the commit is lost afterwards.",
        "A coordinator that has loaded no state of the group: O7 judges that.",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (NodeDown, PartChange, PartRemove, MetaImage)

    def initial(self, key: str, profile: Profile) -> Registers:
        return Registers(key, losses=offsets_losses(profile), epsilon_us=profile.epsilon_us)

    def hear(self, state: Registers, event: Stamped) -> Emissions:
        state.losses.take(event)
        body = event.body
        if type(body) is PartRemove:
            state.removed.setdefault(partition_name(body.tp), []).append(body.offset)
        elif type(body) is MetaImage:
            state.images[event.node] = body.offset
        elif type(body) is NodeDown:
            for name in [name for name, begun in state.begun.items() if begun.by.node == event.node]:
                del state.begun[name]
        return NOTHING

    def step(self, state: Registers, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is GrpCommit:
            if not body.error:
                removals = state.removals(body.tp, state.images.get(event.node, 0))
                losses = state.losses.count(body.offsets_tp)
                state.register(body.tp).append(commit_of(event, body, removals, losses))
        elif kind is GrpFetch:
            known = state.answers.setdefault(event.node, {}).setdefault(event.incarnation, [])
            carried = Carried.by("OffsetFetch", body.version)
            known.append(Answer(event.seq, body.coordinator_epoch, state.images.get(event.node, 0), carried))
            del known[:-_SAME_STEP]
        elif kind is GrpLoad:
            return self._loaded(state, event, body)
        elif kind is CommitInvoke:
            state.begun[body.op] = Begun(witness(event))
        elif kind is SendOffsetsInvoke:
            numbers = {tp: state.register(tp).number for tp in body.offsets}
            state.begun[body.op] = Begun(witness(event), member=body.member, numbers=numbers)
        elif kind is CommittedInvoke:
            floors = {tp: state.register(tp).newest_before(event.wall - state.epsilon_us) for tp in body.tps}
            state.begun[body.op] = Begun(witness(event), {tp: each for tp, each in floors.items() if each is not None})
        else:
            begun = state.begun.pop(body.op, None)
            if kind is SendOffsetsReturn:
                return self._sent(state, event, body, begun) if body.outcome == "ok" and begun is not None else NOTHING
            if kind is CommitReturn:
                return self._acknowledged(state, event, body, begun)
            if body.outcome == "ok" and begun is not None:
                return self._told(state, event, body, begun)
        return NOTHING

    def _acknowledged(self, state: Registers, event: Stamped, body: CommitReturn, begun: Begun | None) -> Emissions:
        found: list[Any] = []
        for tp in body.offsets:
            if body.errors.get(tp, KafkaError.UNKNOWN_SERVER_ERROR):
                continue
            register = state.register(tp)
            state.tested += 1
            commit = register.acknowledged(event, body, tp, begun)
            if commit is not None:
                register.fresh.append(Acknowledged(event.wall, commit, witness(event)))
                if len(register.fresh) > REMEMBERED:
                    register.newest_before(event.wall)  # whoever looks it up comes later
                continue
            sentence = (
                f"{event.node} was answered that group {state.key} has committed {body.offsets[tp][0]:,} for {tp}, but "
                "no coordinator has appended this commit"
            )
            found.extend(self.violated(state.key, sentence, None if begun is None else begun.by, event))
        return found

    def _sent(self, state: Registers, event: Stamped, body: SendOffsetsReturn, begun: Begun) -> Emissions:
        """Positions are in a transaction as they were sent: of attempts at that, one suffices."""
        found: list[Any] = []
        for tp, entry in body.offsets.items():
            appended = state.register(tp).since(begun.numbers.get(tp, 0))
            if appended is None:
                continue
            state.tested += 1
            own = [each for each in appended if each.in_transaction and each.member in ("", begun.member)]
            if any(each.entry == each.carried.of(entry) for each in own):
                continue
            sent = (
                f"{event.node} was answered that {entry[0]:,} of {tp}{_epochs(entry)} for group {state.key} is in its"
            )
            alike = [each for each in own if each.entry[0] == entry[0]]
            has = "no coordinator has appended that since it was sent"
            if alike:
                has = f"{alike[-1].by.node} appended it as {entry[0]:,}{_epochs(alike[-1].entry)}"
            found.extend(self.violated(state.key, f"{sent} transaction, but {has}", begun.by, event))
        return found

    def _told(self, state: Registers, event: Stamped, body: CommittedReturn, begun: Begun) -> Emissions:
        found: list[Any] = []
        answer = state.answer_to(event)
        carries = [answer.carried] if answer is not None else EVERY_WAY
        for tp, entry in body.offsets.items():
            floor = begun.floors.get(tp)
            register = state.register(tp)
            commits = register.appended
            state.tested += (floor is not None or entry[0] >= 0) and register.is_known_since(floor)
            if floor is None and (entry == NO_ENTRY or any(each.is_told_as(entry, carries) for each in commits)):
                continue
            if floor is not None and floor.commit.is_told_as(entry, carries):
                continue
            later = [] if floor is None else [each for each in commits if each.after(floor.commit)]
            if any(each.is_told_as(entry, carries) for each in later):
                continue
            if not register.is_known_since(floor):
                continue
            if floor is not None and entry == NO_ENTRY and self._of_another(state, event, tp, [floor.commit, *later]):
                continue
            found.extend(self._lacks(state, event, "was answered that", tp, entry, floor))
        return found

    def _of_another(self, state: Registers, event: Stamped, tp: str, commits: list[Commit]) -> bool:
        """Whether something that may be stored was committed for another topic of its name than the one that a
        coordinator was asked for."""
        answer = state.answer_to(event)
        if answer is None:
            return tp in state.removed
        removals = state.removals(tp, answer.image)
        return any(each.removals != removals for each in commits)

    def _loaded(self, state: Registers, event: Stamped, body: GrpLoad) -> Emissions:
        """What a new coordinator has is what it will tell."""
        found: list[Any] = []
        for tp, register in state.tps.items():
            floor = register.newest_before(event.wall - state.epsilon_us)
            if floor is None or (floor.commit.offsets_tp, body.loaded) != (body.tp, True):
                continue
            if floor.commit.coordinator_epoch >= body.coordinator_epoch or not register.is_known_since(floor):
                continue
            state.tested += 1
            entry = body.offsets.get(state.key, {}).get(tp, NO_ENTRY)
            later = (each.entry for each in register.appended if each.after(floor.commit))
            if entry not in (floor.commit.entry, *later):
                found.extend(self._lacks(state, event, "loaded that", tp, entry, floor))
        return found

    def _lacks(
        self, state: Registers, event: Stamped, did: str, tp: str, entry: Entry, floor: Acknowledged | None
    ) -> Emissions:
        what = f"group {state.key} has committed {f'{entry[0]:,}' if entry[0] >= 0 else 'nothing'} for {tp}"
        alike = [each.entry for each in state.register(tp).appended if each.entry[0] == entry[0]]
        if alike and entry not in alike:
            what += _epochs(entry)
        since = ", although no member committed it"
        if floor is not None:
            own = _epochs(floor.commit.entry) if floor.commit.entry[0] == entry[0] else ""
            since = f", after the commit of {floor.commit.entry[0]:,}{own} had been acknowledged"
        sentence = f"{event.node} {did} {what}{since}"
        by = None if floor is None else floor.by
        if rule := self._rule(state, event, floor):
            return self.excused(rule, state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)

    def _rule(self, state: Registers, event: Stamped, floor: Acknowledged | None) -> str:
        if floor is None:
            return ""
        commit = floor.commit
        answer = state.answer_to(event)
        if answer is not None and 0 <= answer.coordinator_epoch < commit.coordinator_epoch:
            return "zombie"
        return state.losses.rule(commit.offsets_tp, commit.coordinator_epoch, commit.log_offset, commit.losses)


class MetadataTime(msgspec.Struct):
    """One partition's. register: what was appended; durable: the newest commit that its client was told of."""

    register: Register = msgspec.field(default_factory=Register)
    durable: Commit | None = None

    def stored(self, coordinator_epoch: int) -> Commit | None:
        """What a coordinator of that leader epoch has, at least: what it appended last, or else what an earlier one
        told somebody of."""
        own = [each for each in self.register.appended if each.coordinator_epoch == coordinator_epoch]
        if own:
            return max(own, key=_log_offset)
        durable = self.durable
        if durable is None or durable.coordinator_epoch >= coordinator_epoch:
            return None
        removed = any(each.entry[0] < 0 and each.after(durable) for each in self.register.appended)
        return None if removed else durable  # if its removal was lost, it is there again: nobody was told of that


def _log_offset(commit: Commit) -> int:
    return commit.log_offset


class MetadataTimes(State):
    """tps: by topic partition. asked: client -> topic partition -> entries that it last asked to be committed. older:
    clients whose OffsetCommit has no metadata epoch."""

    older: list[str] = []
    tps: dict[str, MetadataTime] = {}
    asked: dict[str, dict[str, list[Entry]]] = {}
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)

    def of(self, tp: str) -> MetadataTime:
        """That of a partition."""
        found = self.tps.get(tp)
        if found is None:
            found = self.tps[tp] = MetadataTime()
        return found


class CommitsGoForwardInMetadataTime(KeyedInvariant[MetadataTimes]):
    """A member whose metadata is older than that of the last commit may not know the current partition, and its
    position means something else there. In KIP-232 the coordinator refuses the commit, for that partition alone.

    Example: 40 of orders-0 is committed with metadata epoch 7. Consumer-2, whose metadata has epoch 5, commits 12; the
    coordinator appends it, and the next owner of the partition begins at 12. Or the coordinator refuses a commit with
    epoch 7.
    """

    id = "M5"
    title = "A commit has no lower metadata epoch than the stored one; otherwise it is refused and changes nothing"
    source = "KIP-232 (version 16), Proposed Changes 3; KAFKA-7437"
    tested_when = "a coordinator decides on a commit when one with a metadata epoch is stored"
    route = GROUP
    types = (GrpCommit, CommitInvoke, CommitReturn)
    of_groups = True
    at = {"kip-232": "seed"}
    exemptions = {
        "no-epoch": "The client sent none: it is older than metadata epochs, or has not heard of any. The commit is "
        "treated as before KIP-232.",
        **OFFSETS_LOSSES,
    }
    unseen = (
        "unacknowledged appends of an earlier coordinator: they may be lost",
        "removals by an earlier coordinator, with a topic or by expiry: they may be lost as well",
    )

    def initial(self, key: str, profile: Profile) -> MetadataTimes:
        spoken = ((node, own.get("versions", {}).get("OffsetCommit")) for node, own in profile.nodes.items())
        older = [node for node, range_ in spoken if range_ and range_[1] < EPOCH_SINCE]
        return MetadataTimes(key, older=older, losses=offsets_losses(profile))

    @property
    def news(self) -> tuple[type, ...]:
        return (NodeDown, PartChange)

    def hear(self, state: MetadataTimes, event: Stamped) -> Emissions:
        state.losses.take(event)
        return NOTHING

    def step(self, state: MetadataTimes, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is CommitInvoke:
            for tp, entry in body.offsets.items():
                known = state.asked.setdefault(event.node, {}).setdefault(tp, [])
                known.append(entry)
                del known[:-REMEMBERED]
        elif type(body) is CommitReturn:
            self._acknowledged(state, event, body)
        elif body.error in (0, KafkaError.INVALID_METADATA_EPOCH):
            return self._decided(state, event, body)
        return NOTHING

    def _acknowledged(self, state: MetadataTimes, event: Stamped, body: CommitReturn) -> None:
        for tp in body.offsets:
            times = state.of(tp)
            if body.errors.get(tp, KafkaError.UNKNOWN_SERVER_ERROR) == 0:
                commit = times.register.acknowledged(event, body, tp, None)
                if commit is not None and (times.durable is None or commit.after(times.durable)):
                    times.durable = commit

    def _decided(self, state: MetadataTimes, event: Stamped, body: GrpCommit) -> Emissions:
        times = state.of(body.tp)
        commit = commit_of(event, body, losses=state.losses.count(body.offsets_tp))
        epoch, refused = body.metadata_epoch, bool(body.error)
        stored = times.stored(body.coordinator_epoch)
        if not refused:
            times.register.append(commit)
        if body.offset < 0 and not refused:
            return NOTHING  # a tombstone: nothing is stored after it
        state.tested += refused or (stored is not None and stored.entry[EPOCH] >= 0)
        what = f"{event.node} {{}} a commit of {body.tp} for group {state.key} with metadata epoch {epoch}"
        if refused:
            if any(each.entry[EPOCH] > epoch for each in times.register.appended):
                return NOTHING
            by = None if stored is None else stored.by
            return self.violated(
                state.key, f"{what.format('refused')}, although no commit with a higher one is stored", by, event
            )
        if stored is None or epoch >= stored.entry[EPOCH]:
            return NOTHING
        sentence = f"{what.format('accepted')}, although one with {stored.entry[EPOCH]} is stored"
        asked = state.asked.get(commit.who, {}).get(body.tp, [])
        unsaid = commit.who in state.older or any(each[EPOCH] < 0 and each[0] == body.offset for each in asked)
        if epoch < 0 and (unsaid or not asked):
            return self.excused("no-epoch", state.key, sentence, stored.by, event)
        rule = state.losses.rule(body.offsets_tp, stored.coordinator_epoch, stored.log_offset, stored.losses)
        if rule and stored.coordinator_epoch < body.coordinator_epoch:
            return self.excused(rule, state.key, sentence, stored.by, event)
        return self.violated(state.key, sentence, stored.by, event)
