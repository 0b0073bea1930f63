"""What ListOffsets promises (KIP-207): the latest offset that clients are told never goes backwards."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError, error_name
from actors.node.list_timestamps import EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED
from actors.node.spec import is_recreated, node_name
from actors.trace.events import (
    ListInvoke,
    ListReturn,
    LogLocalStart,
    LogStart,
    NodeDown,
    PartChange,
    PartRemove,
    ReplyPartition,
    RpcPark,
    RpcReply,
    Stamped,
    TierSegment,
)
from actors.trace.metadata_history import NewestController
from orchestrator.invariants.folds.fold import (
    NOTHING,
    UNCLEAN_ENABLE,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, OPEN_REMEMBERED, remember
from orchestrator.invariants.folds.routes import LIST_OFFSETS
from orchestrator.invariants.mirrors.hidden_transactions import HIDDEN, Stand, why_lower
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import ANEW, LogMirror, Served
from orchestrator.invariants.mirrors.loss import LOST
from orchestrator.invariants.mirrors.loss_budget import LossBudget, loss_budget
from orchestrator.invariants.tiers.led_copies import NO_COPY, ByCopies, CopiesInvariant

FEATURE = "kip-207"
FROM_THE_START = (EARLIEST, EARLIEST_LOCAL)
OF_COPIES = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)

UNREFUSED_FROM = 5
"""ListOffsets version with OFFSET_NOT_AVAILABLE."""


class Told(msgspec.Struct, frozen=True, gc=False):
    """The highest latest offset that was told under one leader epoch. ``wall_us``: when the answer returned. stand: of
    the log of the leader that told the last stable offset, None also where the trace does not say."""

    leader_epoch: int
    offset: int
    client: str
    broker: str
    wall_us: int
    by: Witness
    stand: Stand | None = None


class Asked(msgspec.Struct, frozen=True, gc=False):
    """An open LATEST operation, with all that had been told before it was invoked: one Told per leader epoch."""

    floor: tuple[Told, ...]
    by: Witness


class DiskLoss(msgspec.Struct):
    """What a disk lost, from ``first`` on, when ``leader_epoch`` was the newest. ``alone``: while it was missing the
    ISR was this replica and no other. ``whole``: that was all of the log, which then begins at 0 again, be it that
    nothing was in it any more."""

    node: str
    first: int
    leader_epoch: int
    alone: bool
    whole: bool


class Answers(State):
    """Of one partition. ``floors``: isolation -> Told per leader epoch, rising; ``fresh``: answers that returned too
    recently to come before anything (clock uncertainty); ``served``: id of a server's answer -> what the server knew,
    its leader epoch for wire versions without the field: the answer is the cause of the client's return. removed_in:
    quorum epoch in which the topic was removed, -1 it was not, as far as the newest controller tells. ``starts``: node
    -> incarnation, and where the log on its own disk begins then; a process whose log begins at 0 does not tell."""

    floors: dict[int, tuple[Told, ...]] = {}
    fresh: list[tuple[int, Told]] = []
    open: dict[str, Asked] = {}
    served: dict[str, Served] = {}
    unclean: dict[int, Witness] = {}
    newest: int = -1
    controller: NewestController = msgspec.field(default_factory=NewestController)
    isr: list[int] = []
    starts: dict[str, tuple[int, int]] = {}
    losses: list[DiskLoss] = []
    budget: LossBudget = LossBudget()
    epsilon_us: int = 0
    unclean_allowed: bool = False
    removed_in: int = -1

    def start_of(self, event: Stamped) -> int:
        """Where the log begins that the process has which an event is of."""
        incarnation, start = self.starts.get(event.node, (-1, 0))
        return start if incarnation == event.incarnation else 0


class LatestNeverGoesBack(LogInvariant[Answers]):
    """A new leader learns the high watermark one fetch late. If it answers ListOffsets before it has caught up with its
    own log, clients see the end of the partition move backwards: a negative consumer lag, or an application that takes
    known records for new (KAFKA-2334).

    Example: broker-1 (leader epoch 4) reports 1,310 to list-offsets-1. Broker-1 crashes, broker-2 takes over with log
    end 1,310 and high watermark 1,204, and reports 1,204 to list-offsets-1 (leader epoch 5).

    Two answers to clients are compared only if the first had returned before the request of the second, whichever
    client asked (a client that asks as a broker gets the log end, which may go back). An answer at read_committed, the
    last stable offset, is a lower bound for later ones at both isolation levels. An answer under a lower leader epoch
    than the first's is excused: a leader that does not know of its replacement may answer a client that does not know
    of it either.
    """

    id = "H1"
    title = "The latest offset reported to clients never goes backwards, not even across leader changes"
    source = "KIP-207; KAFKA-2334"
    unseen = ("An answer at read_committed after a higher one at read_uncommitted: a transaction may be open.",)
    tested_when = "a client gets a latest offset, and another one had been reported before it asked"
    types = (ListInvoke, ListReturn, RpcReply, PartChange, PartRemove, LogStart, LogLocalStart, NodeDown)
    cases = {RpcReply: ("ListOffsets",)}
    exemptions = {
        "loss-budget": LOST,
        "stale-leader": "The second answer came from a leader of an older leader epoch than the first.",
        "unclean-election": "There was an unclean election between the leader epochs of the two answers.",
        "unclean-enabled": "As the KIP is written, it does not apply where unclean election is enabled.",
        **HIDDEN,
    }

    REMEMBERED = 4096

    def initial(self, key: str, profile: Profile) -> Answers:
        unclean = profile.topic_setting(key, UNCLEAN_ENABLE, default=False) is True
        seed = "seed" in (profile.feature(FEATURE), *profile.bounced.get(FEATURE, []))
        budget = loss_budget(profile, key)
        return Answers(key, budget=budget, epsilon_us=profile.epsilon_us, unclean_allowed=unclean and seed)

    def step(self, state: Answers, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is ListInvoke:
            if body.timestamp == LATEST and body.replica_id < 0:
                self._settle(state, event.wall)
                remember(
                    state.open, body.op, Asked(state.floors.get(body.isolation, ()), witness(event)), OPEN_REMEMBERED
                )  # their clients are gone
        elif type(body) is ListReturn:
            asked = state.open.pop(body.op, None)
            if asked is not None and body.outcome == "ok" and body.error == 0:
                return self._returned(state, asked, event, body)
        elif type(body) is RpcReply:
            if body.replica_id == -1:
                self._served(state, event.id, body, mirror)
        elif type(body) is PartChange:
            if body.cause == "unclean":
                state.unclean[body.leader_epoch] = witness(event)
            if not state.controller.says(body.quorum_epoch):
                return NOTHING
            if body.quorum_epoch > state.removed_in:
                state.removed_in = -1
            state.newest, state.isr = body.leader_epoch, body.isr
            for loss in state.losses:
                loss.alone = loss.alone or [node_name(member) for member in body.isr] == [loss.node]
        elif type(body) is PartRemove:
            if state.controller.says(body.quorum_epoch):
                state.removed_in = body.quorum_epoch
        elif type(body) is LogStart or type(body) is LogLocalStart:
            anew = type(body) is LogLocalStart or body.reason in ANEW or body.reason == "load"
            start = body.new if anew else max(state.start_of(event), body.new)
            state.starts[event.node] = (event.incarnation, start)
        elif type(body) is NodeDown:
            first = body.lost[state.key]
            alone = [node_name(member) for member in state.isr] == [event.node]
            state.losses.append(DiskLoss(event.node, first, state.newest, alone, first <= state.start_of(event)))
        return NOTHING

    def _lost(self, state: Answers, known: Told, told: Told) -> bool:
        """Whether disks lost between two leader epochs as much of what the first answer told as they may."""
        lost = [
            loss
            for loss in state.losses
            if (loss.first < known.offset or loss.whole) and known.leader_epoch <= loss.leader_epoch < told.leader_epoch
        ]
        nodes = {loss.node for loss in lost}
        return len(nodes) >= state.budget.min_isr or (not state.budget.elr and any(loss.alone for loss in lost))

    def _served(self, state: Answers, answer: str, body: RpcReply, mirror: LogMirror) -> None:
        served = mirror.answers.get(f"{body.connection}/{body.correlation_id}")
        if served is not None and any(told.tp == state.key and not told.error for told in body.partitions):
            state.served[answer] = served
        if len(state.served) > self.REMEMBERED:  # answers that never arrived
            del state.served[next(iter(state.served))]

    def _settle(self, state: Answers, now_us: int) -> None:
        """Answers that returned strictly before ``now_us`` (by more than the clocks' uncertainty) become floors."""
        if not state.fresh or state.fresh[0][1].wall_us + state.epsilon_us >= now_us:
            return
        waiting: list[tuple[int, Told]] = []
        for isolation, told in state.fresh:
            if told.wall_us + state.epsilon_us < now_us:
                # The last stable offset is not above the high watermark.
                for level in range(isolation + 1):
                    state.floors[level] = _raised(state.floors.get(level, ()), told)
            else:
                waiting.append((isolation, told))
        state.fresh = waiting

    def _returned(self, state: Answers, asked: Asked, event: Stamped, body: ListReturn) -> Emissions:
        served = state.served.pop(event.cause, None)
        joined = -1 if served is None else served.leader_epoch
        leader_epoch = body.leader_epoch if body.leader_epoch >= 0 else joined
        # A later topic of this name answered, or an earlier one, at a broker that has not heard of this one.
        another = joined < 0 and (state.removed_in >= 0 or is_recreated(state.key))
        if body.offset < 0 or another:
            return NOTHING
        stand = None if served is None else served.stand
        told = Told(leader_epoch, body.offset, event.node, body.broker, event.wall, witness(event), stand)
        state.fresh.append((body.isolation, told))
        if not asked.floor:
            return NOTHING
        state.tested += 1
        above = [known for known in asked.floor if known.offset > told.offset]
        return self._judge(state, above, told) if above else NOTHING

    def _judge(self, state: Answers, above: list[Told], told: Told) -> Emissions:
        """The worst that can be said: of all higher earlier answers, one that nothing excuses, if there is one."""
        excuse: tuple[str, Told] | None = None
        doubt: Told | None = None
        for known in sorted(above, key=_by_offset, reverse=True):
            sentence = _sentence(state.key, known, told)
            if known.leader_epoch < 0 or told.leader_epoch < 0:
                doubt = doubt or known
            elif told.leader_epoch < known.leader_epoch:
                excuse = excuse or ("stale-leader", known)
            elif any(known.leader_epoch < epoch <= told.leader_epoch for epoch in state.unclean):
                excuse = excuse or ("unclean-election", known)
            elif self._lost(state, known, told):
                excuse = excuse or ("loss-budget", known)
            elif state.unclean_allowed:
                excuse = excuse or ("unclean-enabled", known)
            elif known.stand is not None and (rule := why_lower(known.offset, known.stand, told.offset, told.stand)):
                excuse = excuse or (rule, known)
            else:
                return self.violated(state.key, sentence, known.by, told.by)
        if doubt is not None:
            sentence = _sentence(state.key, doubt, told)
            return self.inconclusive("leader-epoch-unknown", state.key, sentence, doubt.by, told.by)
        assert excuse is not None
        rule, known = excuse
        return self.excused(rule, state.key, _sentence(state.key, known, told), known.by, told.by)


def _raised(floor: tuple[Told, ...], told: Told) -> tuple[Told, ...]:
    """One Told per leader epoch: the highest offset."""
    for index, known in enumerate(floor):
        if known.leader_epoch == told.leader_epoch:
            if known.offset >= told.offset:
                return floor
            return (*floor[:index], told, *floor[index + 1 :])
    return (*floor[-CHANGES_REMEMBERED:], told)


def _by_offset(told: Told) -> int:
    return told.offset


def _sentence(tp: str, first: Told, second: Told) -> str:
    return (
        f"{_who(second)} reported {second.offset:,} as the latest offset of {tp} to {second.client} "
        f"after {_who(first)} had reported {first.offset:,} to {first.client}"
    )


def _who(told: Told) -> str:
    epoch = told.leader_epoch if told.leader_epoch >= 0 else "unknown"
    return f"{told.broker or 'a broker'} (leader epoch {epoch})"


def must_refuse(profile: Profile, tp: str, broker: str) -> bool:
    """Whether KIP-207 has a broker refuse clients while it catches up: as proposed (``seed``) not where unclean
    elections are allowed."""
    value = profile.feature(FEATURE, broker)
    allowed = profile.topic_setting(tp, UNCLEAN_ENABLE, broker, False) is True
    return value not in ("", "off") and not (value == "seed" and allowed)


class Waited(msgspec.Struct, frozen=True, gc=False):
    """A request that waits for remote storage, and in which leader epoch and with which high watermark the broker led
    when it came: by that it is refused. ``copied``: the last offset that it went by as copied, of several any."""

    correlation_id: int
    leads: int
    high_watermark: int
    copied: tuple[int, ...] = ()


class Refusals(ByCopies):
    """waiting: connection -> the last request on it that waits."""

    waiting: dict[str, Waited] = {}


def _refused(error: int) -> bool:
    return error in (KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.LEADER_NOT_AVAILABLE)


def _answered_as_leader(told: ReplyPartition) -> bool:
    """Whether the answer is a leader's own: refusals of any other kind come before KIP-207's."""
    return told.leader_epoch_start >= 0 and (told.error == 0 or _refused(told.error))


def _knows_no_copy(told: ReplyPartition, copied: tuple[int, ...]) -> bool:
    """Whether an answer is that nothing was copied, by a leader that may believe so."""
    return told.timestamp in OF_COPIES and told.offset < 0 and (not copied or NO_COPY in copied)


class NewLeaderRefusesUntilCaughtUp(CopiesInvariant[Refusals]):
    """H2 is the guard of H1. While a leader's high watermark is below the log end at which its leader epoch began, it
    does not know its predecessor's high watermark, and must not answer.

    Example: broker-2 leads epoch 5 from log end 1,310 with high watermark 1,204. To a request for the latest offset it
    must answer OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE below version 5); once its high watermark is 1,310 it must
    not.

    kip-207=seed: as the KIP is written, every timestamp is refused, but not where unclean election is enabled.
    kip-207=kafka: EARLIEST is answered, and a timestamp if its record is below the high watermark. LATEST_TIERED and
    EARLIEST_PENDING_UPLOAD have no answer where the leader knows of no copy, which is told at once.
    """

    id = "H2"
    title = "A new leader refuses ListOffsets until its high watermark reaches its leader epoch's start, and no longer"
    source = "KIP-207; Kafka's Partition.fetchOffsetForTimestamp"
    unseen = (
        "Clusters in which a rolling bounce changes kip-207: the value for an answer is unknown.",
        "The broker's own report of its high watermark: P10 judges that. The start of its epoch is taken from its log.",
    )
    tested_when = (
        "a leader whose high watermark is below its leader epoch's start answers or refuses a client's ListOffsets, "
        "or any leader refuses it"
    )
    types = (RpcPark, RpcReply, LogStart, TierSegment)
    cases = {RpcReply: ("ListOffsets",)}
    requires = (FEATURE,)

    def initial(self, key: str, profile: Profile) -> Refusals:
        return Refusals(key, profile=profile)

    def step(self, state: Refusals, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is RpcReply:
            return self._replied(state, event, body, mirror)
        if type(body) is RpcPark:
            self._wait(state, event, body, mirror)
        else:
            self.follow(state, event, mirror)
        return NOTHING

    def _replied(self, state: Refusals, event: Stamped, body: RpcReply, mirror: LogMirror) -> Emissions:
        waited = state.waiting.pop(body.connection, None)
        if body.api != "ListOffsets" or body.replica_id != -1 or FEATURE in state.profile.bounced:
            return NOTHING  # (or which value held when it answered is not known)
        value = state.profile.feature(FEATURE, event.node)
        if not must_refuse(state.profile, state.key, event.node):
            return NOTHING
        for told in body.partitions:
            if told.tp == state.key and _answered_as_leader(told):
                high_watermark, copied = told.high_watermark, state.copies.last(event, mirror)
                if waited is not None and waited.correlation_id == body.correlation_id:
                    if waited.leads != told.leader_epoch:
                        continue  # it led again, and R8 and R9 judge what it found before
                    high_watermark, copied = waited.high_watermark, waited.copied
                if value != "seed" and not told.error and _knows_no_copy(told, copied):
                    continue
                start = mirror.epoch_start(event, told)
                if wrong := self._judge(state, value, body.version, told, start, high_watermark):
                    return self.violated(state.key, f"{event.node} {wrong}", event)
        return NOTHING

    def _wait(self, state: Refusals, event: Stamped, body: RpcPark, mirror: LogMirror) -> None:
        if state.key in body.tps:
            replica = mirror.replica(event.node)
            remember(
                state.waiting,
                body.connection,
                Waited(body.correlation_id, replica.leads, replica.high_watermark, state.copies.last(event, mirror)),
                OPEN_REMEMBERED,
            )

    def _judge(
        self, state: Refusals, value: str, version: int, told: ReplyPartition, start: int, high_watermark: int
    ) -> str:
        """What is wrong with an answer of a leader whose epoch began at ``start``, and whose high watermark was that
        when it was asked, or ""."""
        refused = _refused(told.error)
        if high_watermark >= start and not refused:
            return ""
        state.tested += 1
        state_of = f"(leader epoch {told.leader_epoch} from log end {start:,}, high watermark {high_watermark:,})"
        asked = f"ListOffsets for timestamp {told.timestamp} of {state.key}"
        if high_watermark >= start:
            return (
                f"{state_of} refused {asked} with {error_name(told.error)} although it had caught up with its epoch's "
                "start"
            )
        if refused and version >= UNREFUSED_FROM and told.error == KafkaError.LEADER_NOT_AVAILABLE:
            return f"{state_of} refused {asked}, version {version}, with LEADER_NOT_AVAILABLE, not OFFSET_NOT_AVAILABLE"
        if value != "seed" and told.timestamp in FROM_THE_START:
            return (
                f"{state_of} refused {asked} with {error_name(told.error)}, not needed for earliest" if refused else ""
            )
        if refused:
            return ""
        if value != "seed" and told.timestamp != LATEST and 0 <= told.offset < high_watermark:
            return ""
        return f"{state_of} answered {asked} with {told.offset:,} before it had caught up with its epoch's start"


class BrokersAreNotRefused(KeyedInvariant[State]):
    """Brokers ask the leader for its log end when they follow it. Refusing them would stop the very fetches that raise
    the high watermark, and the refusal of clients would never end.

    Example: broker-3 asks broker-2, which leads with high watermark 1,204 from log end 1,310, for the latest offset and
    gets OFFSET_NOT_AVAILABLE. A follower asks only after OFFSET_OUT_OF_RANGE; a list-offsets client with a replica-id
    asks like a follower.
    """

    id = "H5"
    standalone = True
    title = "ListOffsets from a broker is never refused for a lagging high watermark"
    source = "KIP-207 (no impact on replica fetchers)"
    unseen = ("Followers themselves, mostly: they ask only after OFFSET_OUT_OF_RANGE.",)
    tested_when = (
        "a leader whose high watermark is below its leader epoch's start answers a ListOffsets with a replica id, "
        "or any leader refuses it"
    )
    route = LIST_OFFSETS
    types = (RpcReply,)
    requires = (FEATURE,)

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def step(self, state: State, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is RpcReply
        if body.replica_id < 0:
            return NOTHING
        for told in body.partitions:
            if told.tp == state.key and _answered_as_leader(told):
                if told.high_watermark < told.leader_epoch_start or _refused(told.error):
                    state.tested += 1
                if _refused(told.error):
                    return self.violated(
                        state.key,
                        f"{event.node} (leader epoch {told.leader_epoch}) answered the ListOffsets "
                        f"that {body.src} sent as a replica for {state.key} with {error_name(told.error)}",
                        event,
                    )
        return NOTHING
