"""When clients look for newer metadata, and which leaders they use until then: M2."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from actors.node.errors import KafkaError, traits
from actors.node.messages import Api
from actors.node.spec import node_name, partition_name
from actors.trace.events import (
    ACKS_ALL,
    ConsPos,
    CtlFault,
    CtlPhase,
    CtlWindow,
    ErrorSeen,
    MetaView,
    NodeDown,
    NodeUp,
    PollReturn,
    Rpc,
    RpcReply,
    Stamped,
)
from chaos.faults.clock import ClockFault
from chaos.faults.kinds import kinds_of
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, forget_least
from orchestrator.invariants.folds.pauses import EARLY_US, StoppedProcess, late_us, shortest_us
from orchestrator.invariants.folds.routes import CLIENT
from orchestrator.invariants.folds.windows import Obligation, beta
from orchestrator.invariants.metadata.adopted_leaders import (
    NOBODY,
    REMEMBERED,
    Adopted,
    asked_about,
    asked_at,
    note_keys,
)
from orchestrator.invariants.metadata.ages import MAX_AGE, Ageing, MetadataIsRefreshedByAge
from orchestrator.invariants.metadata.due_refreshes import DueRefreshes
from orchestrator.invariants.mirrors.hung_brokers import HungBrokers

BACKOFF = ("retry.backoff.ms", "retry.backoff.max.ms")
WITH_EPOCH = ("committed", "seek")
"""Reasons of positions that may have a leader epoch which the client does not know (``ConsPos.reason``)."""

CHECKED_SINCE = 4
"""Version of ListOffsets that tells in which leader epoch a client takes the partition to be."""


class Unheard(msgspec.Struct, frozen=True):
    """A consumer took up a position whose leader epoch is above the known one, with its event number ``seq``."""

    tp: str
    epoch: int
    seen: int
    seq: int
    by: Witness


class Hinted(msgspec.Struct, frozen=True):
    """Who refused a client named a newer leader than it knew, in the answer ``req`` (KIP-951)."""

    tp: str
    leader: int
    epoch: int
    seen: int
    endpoints: list[int]
    req: str
    by: Witness


class HintedLeaders(msgspec.Struct):
    """What a client has to make of hints, by the names of partitions, as it goes by them here. seen: the newest
    leader epoch that it heard of, -1 none; viewed: what its last answer has; brokers: of its last answer, and of
    the hints that it took since. due: hints that it must take."""

    seen: dict[str, int] = {}
    viewed: set[str] = set()
    brokers: set[int] = set()
    due: dict[str, Hinted] = {}

    def view(self, body: MetaView) -> None:
        """Leaders were told of, or a leader epoch heard."""
        for tp, epoch in body.epochs.items():
            if body.source == "heard" or tp in body.accepted:
                self.seen[partition_name(tp)] = epoch
        if body.source == "metadata":
            accepted = {partition_name(tp) for tp in body.accepted}
            self.viewed = accepted | {name for name in map(partition_name, body.epochs) if name in self.viewed}
            self.brokers = self.brokers if body.brokers is UNSET else set(body.brokers)

    def is_to_take(self, event: Stamped, body: ErrorSeen) -> bool:
        """Note what a refusal hints at, if the client must take it: it is newer, of a partition that the last answer
        has, and the client knows the broker. Without a leader epoch of its own it may be one that looks at no hint."""
        name = partition_name(body.tp)
        seen = self.seen.get(name, -1)
        known = body.leader in self.brokers or body.leader in body.endpoints
        if body.leader < 0 or not 0 <= seen < body.leader_epoch or name not in self.viewed or not known:
            return False
        hint = Hinted(body.tp, body.leader, body.leader_epoch, seen, body.endpoints, event.req, witness(event))
        self.due[name] = hint
        return True

    def left(self, event: Stamped) -> Hinted | None:
        """A hint that the client did not take, as its next event shows: it takes one in the step of the answer."""
        over = next((name for name, hint in self.due.items() if hint.req != event.req), None)
        if over is not None:
            return self.due.pop(over)
        body: Any = event.body
        if type(body) is MetaView and body.source == "hint":
            for tp, epoch in body.epochs.items():
                hint = self.due.pop(partition_name(tp), None)
                if hint is None:
                    continue
                if tp not in body.accepted or (body.leaders.get(tp), epoch) != (hint.leader, hint.epoch):
                    return hint
                self.brokers.update(hint.endpoints)
        return None


class Refreshing(Ageing):
    """incarnation: the client's last one. keys: name of a partition -> the partition that it takes it to be.
    leaders: partition -> leader epoch -> who leads in it, as the client took it over. adopted: partition -> what it
    took over, in order, nobody as a leader too. seen: partition -> leader epoch by which it judges others.
    backoff_ms: the first pause after a refresh, and the longest. ended_us: when the last one ended, -1 none; by:
    that event; failures: how many in a row were not answered. taken_us: when an answer was taken over last, -1
    none; asked_us: when the last one was asked for. equivalent: how many in a row brought no news, at least and, as
    equivalent_most, at most: times are rounded, and a client forgets them once its metadata is too old. anew: names
    of partitions that are taken for those of another topic than before. unheard: what it must hear of next. hints:
    at leaders, by who refused it. metadata_epoch: of the last answer that it took over by it. silent: who was asked,
    and is not in the core. refreshes: when they are due, by which they may be late_us late; process: when it was
    stopped."""

    incarnation: int = 0
    keys: dict[str, str] = {}
    leaders: dict[str, dict[int, list[int]]] = {}
    adopted: dict[str, list[Adopted]] = {}
    seen: dict[str, int] = {}
    backoff_ms: tuple[int, int] = (0, 0)
    ended_us: int = -1
    failures: int = 0
    taken_us: int = -1
    asked_us: int = -1
    equivalent: int = 0
    equivalent_most: int = 0
    anew: set[str] = set()
    unheard: Unheard | None = None
    hints: HintedLeaders = msgspec.field(default_factory=HintedLeaders)
    by: Witness | None = None
    stopping: bool = False
    metadata_epoch: int = -1
    silent: set[str] = set()
    refreshes: DueRefreshes = msgspec.field(default_factory=DueRefreshes)
    process: StoppedProcess = msgspec.field(default_factory=StoppedProcess)
    late_us: int = 0

    def begin(self, incarnation: int) -> None:
        """A client that starts knows nothing."""
        self.incarnation, self.leaders, self.seen, self.ended_us = incarnation, {}, {}, -1
        self.adopted, self.keys, self.metadata_epoch, self.failures = {}, {}, -1, 0
        self.taken_us, self.equivalent, self.equivalent_most, self.asked_us = -1, 0, 0, -1
        self.anew, self.unheard, self.age = set(), None, None
        self.hints, self.refreshes = HintedLeaders(), self.refreshes.anew()

    def repeats_before(self, at_us: int) -> int:
        """How many answers in a row have brought no news: none any more once the metadata is too old."""
        old = self.taken_us >= 0 and at_us >= self.taken_us + self.max_age_us - EARLY_US
        return 0 if old else self.equivalent

    def take(self, event: Stamped, body: MetaView) -> None:
        """An answer is taken over. Its news are a leader epoch above the known one, none, one of a partition of which
        none was known, and another topic; whatever else is different counts as the same."""
        known = ((self.seen.get(tp, -1), body.epochs.get(tp), tp) for tp in (*body.epochs, *body.accepted))
        news = bool(body.topic_ids) or any(
            seen < 0 or partition_name(tp) in self.anew or (epoch is not None and (epoch < 0 or epoch > seen))
            for seen, epoch, tp in known
        )
        surely_old = self.taken_us >= 0 and self.asked_us >= self.taken_us + self.max_age_us + EARLY_US
        self.equivalent_most = 0 if news else (0 if surely_old else self.equivalent_most) + 1
        self.equivalent = 0 if news else self.repeats_before(event.wall) + 1
        self.taken_us = event.wall


class OutdatedMetadataIsRefetched(MetadataIsRefreshedByAge[Refreshing]):
    """A client that finds its metadata outdated has to look for newer metadata, or it asks the wrong broker for ever;
    and it has to pause, or it floods all brokers. It must not act on metadata that it ignored, and it must accept
    metadata that is as new as its own: the leader of a leader epoch may have become available only now.

    Example: list-offsets-1 knows leader epoch 5 of orders-0, and broker-3 answers that broker-1 leads in leader epoch
    4. The client does not ask broker-1. Broker-2 answers with NOT_LEADER_OR_FOLLOWER: the client asks for metadata, no
    sooner than retry.backoff.ms after the last time, and later after each answer that brings no news; nor later than
    the back-off says, in which failures do not count that came before the last answer. A consumer that
    takes up a committed position with leader epoch 6 must ask, too; and so must anybody when metadata.max.age.ms is
    over. (In KIP-232 a client asks again at once whenever an answer is older than its own metadata; Kafka's client
    keeps its metadata, and asks again when a broker refuses it or reports a newer leader epoch.) If broker-2 names
    broker-3 as the leader in leader epoch 6 when it refuses, the client takes that over at once.
    """

    id = "M2"
    title = "A client refetches metadata that proves outdated after the back-off, and keeps its leader until then"
    source = "KIP-320; KIP-232; KIP-580; Kafka's Metadata.java (requestUpdate, timeToAllowUpdate, updateLatestMetadata)"
    tested_when = (
        "a client asks a broker for offsets, sends it records or gets some; refuses an answer; accepts a hint, or "
        "is to accept one; takes up a position with a newer leader epoch than it knows; refreshes its metadata again; "
        "or, in a window, refreshes it after an error that shows that it is outdated, or by its age"
    )
    route = CLIENT
    types = (NodeUp, NodeDown, MetaView, ErrorSeen, PollReturn, ConsPos, Rpc, RpcReply)
    cases = {RpcReply: ("ListOffsets", "Produce")}
    exemptions = {
        "silent-nodes": "It asked several nodes outside the core, and waits for each; the bound is for one.",
    }
    unseen = (
        "The destination and leader epoch of a produce that is answered in a later step.",
        "A hint in the answer for which a batch fails for good, or to a Fetch from a position that was moved since.",
        "On a wrong clock any pause is accepted.",
        "A refresh that comes too late for lack of a connection, or for a reason that the trace does not tell.",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlWindow, CtlPhase, CtlFault)

    def initial(self, key: str, profile: Profile) -> Refreshing:
        first_ms, longest_ms, age_ms = (profile.number(name, key) for name in (*BACKOFF, MAX_AGE))
        backoff, brokers, beta_us = (first_ms, longest_ms), HungBrokers.among(profile).brokers, beta(profile, self.id)
        return Refreshing(
            key,
            beta_us=beta_us,
            backoff_ms=backoff,
            max_age_us=1000 * age_ms,
            brokers=brokers,
            refreshes=DueRefreshes(backoff, key in profile.transactional),
            late_us=late_us(profile),
        )

    def hear(self, state: Refreshing, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is CtlWindow:
            return super().hear(state, event)
        if type(body) is CtlFault:
            state.left.take(body, event.wall)
            state.process.take(state.key, event, body)
            state.clock = state.clock or (body.kind in kinds_of(ClockFault) and state.key in body.targets)
        elif body.phase in ("stopping", "draining", "finished"):
            state.stopping = True  # clients end, whatever they were about to do
            state.due.clear()
            state.age = None
        return NOTHING

    def step(self, state: Refreshing, event: Stamped) -> Emissions:
        if event.node != state.key or not (state.unheard or state.hints.due):
            return self._take(state, event)
        heard = self._heard(state, event, state.unheard) if state.unheard else NOTHING
        return [*heard, *self._hinted(state, event), *self._take(state, event)]

    def _take(self, state: Refreshing, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is NodeUp or kind is NodeDown:
            state.begin(event.incarnation)
            self.void(state, "refresh")
        elif kind is Rpc:
            return self._ended(state, event, body)
        elif kind is MetaView:
            for tp in (*body.epochs, *body.accepted):
                if state.keys.get(partition_name(tp), tp) != tp:
                    state.anew.add(partition_name(tp))
            note_keys(state.keys, body)
            return self._viewed(state, event, body)
        elif kind is ErrorSeen:
            state.tested += state.hints.is_to_take(event, body)
            state.refreshes.refused(event, body)
            if body.tp and traits(body.error).invalid_metadata:
                return self._wanted(state, event)
        elif kind is RpcReply:
            return self._asked(state, event, body)
        elif kind is ConsPos:
            self._placed(state, event, body)
        elif body.kind == "poll" and body.records:
            return self._used(state, event, body.broker, body.tp, body.leader_epoch, "fetched")
        return NOTHING

    # ---- what is used, and what is taken over -------------------------------------------------------------

    def _asked(self, state: Refreshing, event: Stamped, body: RpcReply) -> Emissions:
        """What a broker answers in the step in which it is asked has how far the client had come for its cause. A
        Produce with acks=all waits; it does not where the broker does not lead."""
        seq = asked_at(event, state.key, state.incarnation)
        if seq < 0 or not event.req.startswith(f"{body.connection}#"):
            return NOTHING
        for told in body.partitions:
            if body.acks == ACKS_ALL and told.error != KafkaError.NOT_LEADER_OR_FOLLOWER:
                continue
            # A Produce may name its topic by id, and be meant for the former one.
            by_name = body.api == Api.ListOffsets.name
            of_one = {told.tp: state.adopted.get(told.tp, [])}
            had = asked_about((state.adopted if by_name else of_one).items(), state.keys, told.tp, seq)
            if had is None:
                continue
            state.tested += 1
            checked = by_name and body.version >= CHECKED_SINCE
            if node_name(had.leader) == event.node and (not checked or told.asked_epoch == had.epoch):
                continue
            how = f"asked {event.node} for offsets of {told.tp} in leader epoch {told.asked_epoch}"
            if not by_name:
                how = f"sent records of {told.tp} to {event.node}"
            who = node_name(had.leader) if had.leader != NOBODY else "nobody"
            sentence = f"{state.key} {how}, although its metadata had the leader {who} in leader epoch {had.epoch}"
            return self.violated(state.key, sentence, had.by, event)
        return NOTHING

    def _used(self, state: Refreshing, event: Stamped, broker: str, tp: str, epoch: int, how: str) -> Emissions:
        if epoch < 0:
            return NOTHING
        state.tested += 1
        known = state.leaders.get(tp, {})
        had = known.get(epoch)
        if had is None and len(known) >= CHANGES_REMEMBERED and epoch < min(known):
            return NOTHING
        if had is not None and any(node_name(leader) == broker for leader in had):
            return NOTHING
        whom = f"{' and '.join(map(node_name, had))} led" if had else "it knew no leader"
        sentence = f"{state.key} {how} of {tp} at {broker} in leader epoch {epoch}, but {whom} in that epoch"
        return self.violated(state.key, sentence, event)

    def _viewed(self, state: Refreshing, event: Stamped, body: MetaView) -> Emissions:
        if body.metadata_accepted is not False:
            state.hints.view(body)
        if body.source == "heard":
            state.refreshes.want(event)
            state.seen.update(body.epochs)
            return self._wanted(state, event)
        if body.metadata_accepted is False:
            return self._left_alone(state, event, body)
        if body.metadata_epoch is not UNSET:
            state.metadata_epoch = max(state.metadata_epoch, body.metadata_epoch)
        if body.source == "metadata":
            state.refreshes.taken()
            state.take(event, body)
        armed = self.renewed(state, event) if body.source == "metadata" and not state.stopping else NOTHING
        found: Emissions = NOTHING
        for tp, epoch in body.epochs.items():
            seen = state.seen.get(tp, -1)
            if tp in body.accepted:
                leader = body.leaders.get(tp, NOBODY)
                if body.source == "hint":
                    state.tested += 1
                    if epoch <= seen:
                        sentence = (
                            f"{event.node} took over leader epoch {epoch} of {tp} from a hint of {body.server} "
                            f"although it already knew leader epoch {seen}"
                        )
                        found = self.violated(state.key, sentence, event)
                state.seen[tp] = epoch
                state.adopted.setdefault(tp, []).append(Adopted(leader, epoch, event.seq, witness(event)))
                del state.adopted[tp][:-REMEMBERED]
                if leader != NOBODY:
                    known = state.leaders.setdefault(tp, {})
                    if leader not in known.setdefault(epoch, []):
                        known[epoch].append(leader)
                    forget_least(known, CHANGES_REMEMBERED)
            elif body.source == "metadata":
                state.tested += 1
                if epoch >= seen:
                    sentence = (
                        f"{event.node} did not take over leader epoch {epoch} of {tp} from {body.server} although the "
                        f"newest that it knew was {seen}"
                    )
                    found = self.violated(state.key, sentence, event)
        return [*found, *armed]

    def _left_alone(self, state: Refreshing, event: Stamped, body: MetaView) -> Emissions:
        """A whole answer was refused: it must be older than what the client has, and another one asked for."""
        assert isinstance(body.metadata_epoch, int)
        state.tested += 1
        if body.metadata_epoch < state.metadata_epoch:
            return self._wanted(state, event)
        sentence = (
            f"{event.node} did not accept metadata epoch {body.metadata_epoch:,} from {body.server} although its own "
            f"metadata had epoch {state.metadata_epoch:,}"
        )
        return self.violated(state.key, sentence, event)

    # ---- positions with a leader epoch --------------------------------------------------------------------

    @staticmethod
    def _placed(state: Refreshing, event: Stamped, body: ConsPos) -> None:
        """A consumer goes on where its group is, or where its application has been, with the leader epoch of that."""
        seen = state.seen.get(body.tp, -1)
        if body.reason not in WITH_EPOCH or not 0 <= seen < body.epoch or partition_name(body.tp) in state.anew:
            return
        state.tested += 1
        state.unheard = Unheard(body.tp, body.epoch, seen, event.seq, witness(event))

    def _heard(self, state: Refreshing, event: Stamped, unheard: Unheard) -> Emissions:
        """What came next: the client takes the leader epoch for the newest, and its metadata for outdated."""
        state.unheard, body = None, event.body
        if type(body) is MetaView and event.seq == unheard.seq + 1:
            if body.source == "heard" and body.epochs.get(unheard.tp) == unheard.epoch:
                return NOTHING
        elif type(body) is NodeUp or type(body) is NodeDown:
            return NOTHING  # it did not get so far
        sentence = (
            f"{state.key} took up a position in {unheard.tp} with leader epoch {unheard.epoch}, and did not heed that "
            f"it knew only leader epoch {unheard.seen}"
        )
        return self.violated(state.key, sentence, unheard.by, event)

    # ---- hints ---------------------------------------------------------------------------------------------

    def _hinted(self, state: Refreshing, event: Stamped) -> Emissions:
        if type(event.body) is NodeUp or type(event.body) is NodeDown:
            return NOTHING  # it did not get so far
        hint = state.hints.left(event)
        if hint is None:
            return NOTHING
        sentence = (
            f"{state.key} did not take the hint that {node_name(hint.leader)} leads {hint.tp} in leader epoch "
            f"{hint.epoch}, although it knew only leader epoch {hint.seen}"
        )
        return self.violated(state.key, sentence, hint.by, event)

    # ---- refreshing ---------------------------------------------------------------------------------------

    def _wanted(self, state: Refreshing, event: Stamped) -> Emissions:
        if state.key not in state.core or state.stopping:
            return NOTHING
        if not state.due:
            state.silent.clear()
        self.oblige(state, "refresh", event)
        return self.arm(state)

    def _ended(self, state: Refreshing, event: Stamped, body: Rpc) -> Emissions:
        if body.dst not in state.core:
            state.silent.add(body.dst)
        self.asked(state, event, body)
        if body.api != Api.Metadata.name:
            state.refreshes.connected(event, body)
            return NOTHING
        if body.outcome == "answered":
            self.kept(state, "refresh")
        if state.refreshes.failures:
            state.equivalent = state.equivalent_most = 0  # Metadata.failedUpdate
        late = self._late(state, event, body)
        state.asked_us = event.wall - 1000 * body.took_ms
        state.refreshes.connected(event, body)
        return [*late, *self._early(state, event, body)]

    def _late(self, state: Refreshing, event: Stamped, body: Rpc) -> Emissions:
        """A refresh that was due began at the latest when the back-off was over."""
        late = state.refreshes.refreshed(event, body, state.hints.brokers, state.equivalent_most, state.process)
        # Whose topic is another one may have had news that it does not tell here.
        if late is None or state.clock or state.stopping or state.anew:
            return NOTHING
        state.tested += 1
        if late.late_us <= state.late_us:
            return NOTHING
        sentence = (
            f"{state.key} looked for newer metadata, and asked for it {late.late_us // 1000:,} ms too late for a "
            f"back-off of at most {late.pause_us // 1000:,} ms"
        )
        return self.violated(state.key, sentence, late.by, late.wanted, event)

    def _early(self, state: Refreshing, event: Stamped, body: Rpc) -> Emissions:
        """A refresh began at the earliest when the back-off was over."""
        began_us = event.wall - 1000 * body.took_ms
        ended_us, by, failures = state.ended_us, state.by, state.failures
        state.ended_us, state.by = event.wall, witness(event)
        state.failures = 0 if body.outcome == "answered" else failures + 1
        if ended_us < 0 or state.clock:
            return NOTHING
        state.tested += 1
        equivalent = state.repeats_before(began_us)
        least_us = shortest_us(*state.backoff_ms, max(failures - 1, equivalent - 1, 0))
        if began_us - ended_us >= least_us - EARLY_US:
            return NOTHING
        after = f"failure {failures} in a row" if failures else "the last answer"
        if equivalent > max(failures, 1):
            after += f", with {equivalent:,} answers in a row that brought no news"
        sentence = (
            f"{event.node} asked for metadata again {max(began_us - ended_us, 0) // 1000:,} ms after {after}, "
            f"before the back-off of {least_us // 1000:,} ms was over"
        )
        return self.violated(state.key, sentence, by, event)

    def look(self, state: Refreshing, event: Stamped) -> None:
        if state.key not in state.core:
            self.void(state, "refresh")

    def missed(self, state: Refreshing, name: str, obligation: Obligation) -> Emissions:
        sentence = f"{state.key} found its metadata outdated, and did not refresh it {self.within(state)}"
        if len(state.silent) > 1:
            return self.excused("silent-nodes", state.key, sentence, obligation.by)
        return self.violated(state.key, sentence, obligation.by)
