"""What a partition's leaders and their controller promise one another: epochs, the ISR, and acknowledgements."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import (
    IsrPropose,
    LogAppend,
    LogHw,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    RepFetch,
    ReplyPartition,
    RpcReply,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, forget_least, remember
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.mirrors.config_records import HEARD
from orchestrator.invariants.mirrors.known_brokers import FOLLOWED, KnownBrokers
from orchestrator.invariants.mirrors.min_isr import Least, LeastIsr


class Leadership(msgspec.Struct, frozen=True):
    """A leader that a leader epoch was given to. ``quorum_epoch``: of the controller that did, -1 for a broker's
    own word."""

    leader: int
    quorum_epoch: int
    by: Witness


class Leaderships(State):
    """Leader epoch -> what controllers gave, and what a broker assumed. upto: of older ones nothing is known any
    more."""

    given: dict[int, list[Leadership]] = {}
    assumed: dict[int, Leadership] = {}
    upto: int = -1

    def forget(self) -> None:
        """Forget the oldest."""
        if len(self.given) > CHANGES_REMEMBERED:
            forget_least(self.given, CHANGES_REMEMBERED)
            self.upto = max(self.upto, min(self.given) - 1)
        forget_least(self.assumed, CHANGES_REMEMBERED)


class OneLeaderPerLeaderEpoch(KeyedInvariant[Leaderships]):
    """Two brokers that lead a partition in one leader epoch both append under it, and no follower or client can
    distinguish their records.

    Example: the controller elects broker-2 after broker-1, both in leader epoch 4. Broker-3, which followed broker-1 in
    epoch 4, continues to fetch from broker-2 and never truncates the records that broker-2 lacks. A record of a
    controller that lost its epoch before the record was committed does not count unless a broker acts on it.
    """

    id = "P1"
    title = "One leader per leader epoch, and only the broker that the controller named"
    source = "KIP-320; KIP-101"
    tested_when = "a broker becomes leader"
    unseen = (
        "leaders that a controller named and that never took over",
        f"a leader epoch that has had {CHANGES_REMEMBERED} successors when a broker takes it up",
    )
    route = PARTITION
    types = (PartChange, PartAssume)

    def initial(self, key: str, profile: Profile) -> Leaderships:
        return Leaderships(key)

    def step(self, state: Leaderships, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is PartChange:
            return self._given(state, event, body) if body.leader >= 0 else NOTHING
        assert type(body) is PartAssume
        return self._assumed(state, event, body) if body.role == "leader" else NOTHING

    def _given(self, state: Leaderships, event: Stamped, body: PartChange) -> Emissions:
        given = state.given.setdefault(body.leader_epoch, [])
        for known in given:
            if known.quorum_epoch == body.quorum_epoch:
                if known.leader == body.leader:
                    return NOTHING
                return self.violated(
                    state.key,
                    f"the controller of quorum epoch {body.quorum_epoch} gave leader epoch {body.leader_epoch} of "
                    f"{state.key} to {node_name(body.leader)}, but {node_name(known.leader)} already had it",
                    known.by,
                    event,
                )
        given.append(Leadership(body.leader, body.quorum_epoch, witness(event)))
        del given[:-CHANGES_REMEMBERED]
        state.forget()
        return NOTHING

    def _assumed(self, state: Leaderships, event: Stamped, body: PartAssume) -> Emissions:
        if body.leader_epoch <= state.upto:
            return NOTHING
        state.tested += 1
        known = state.assumed.get(body.leader_epoch)
        if known is None:
            state.assumed[body.leader_epoch] = Leadership(body.leader, -1, witness(event))
            state.forget()
        elif known.by.node != event.node:
            return self.violated(
                state.key,
                f"{event.node} took up the leadership of {state.key} in leader epoch {body.leader_epoch}, "
                f"in which {known.by.node} led the partition",
                known.by,
                event,
            )
        given = state.given.get(body.leader_epoch, [])
        if any(node_name(each.leader) == event.node for each in given):
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} took up the leadership of {state.key} in leader epoch {body.leader_epoch}, "
            + (
                f"which the controller gave to {node_name(given[-1].leader)}"
                if given
                else "which the controller gave to no broker"
            ),
            given[-1].by if given else None,
            event,
        )


class FetchWitness(msgspec.Struct, frozen=True):
    """The furthest fetch of a follower that a leader took note of in one leader epoch."""

    leader_epoch: int
    broker_epoch: int
    offset: int
    by: Witness


class Term(msgspec.Struct, frozen=True):
    """A leader epoch that a broker has taken up, in a life of its. start: where its log ended then; said: where the
    epoch starts, by its own word."""

    incarnation: int
    leader_epoch: int
    start: int
    said: int
    by: Witness


FETCH, BROKER_EPOCH_SINCE = "Fetch", 15
"""Version from which on a follower's Fetch has its broker epoch."""


class IsrWitnesses(State):
    """``isrs``: partition epoch -> ISR; ``fetches``: "leader/follower" -> FetchWitness. ``known``: what brokers know of
    one another. ``judged``: leader -> what it proposed last: incarnation, number, epochs, and the members with their
    broker epochs. ``ends``: broker -> end of its log; ``terms``: leader -> its last."""

    isrs: dict[int, list[int]] = {}
    fetches: dict[str, FetchWitness] = {}
    known: KnownBrokers = msgspec.field(default_factory=KnownBrokers)
    judged: dict[str, tuple[int, int, int, int, dict[str, int]]] = {}
    ends: dict[str, int] = {}
    terms: dict[str, Term] = {}
    profile: Profile = Profile()


class JoiningTheIsrIsEarned(KeyedInvariant[IsrWitnesses]):
    """A follower that joins the ISR before it has all committed records can be elected without them.

    Example: broker-2 leads epoch 5 from log end 1,310 with a high watermark of 1,204. Broker-3 fetches at 1,250, past
    the high watermark but below the start of the epoch, and joins. If it is elected next, offsets 1,250-1,309, which
    the leader of epoch 4 had committed, are lost (KAFKA-7128).

    A leader whose metadata are late may get fetches of a process of which it has not heard. It waits for the metadata:
    until then it does not know whether the controller has unfenced that broker. The controller compares the broker
    epoch, too.

    The start of an epoch does not move while it lasts. If broker-2 took its log end for the start whenever the ISR
    changes, followers that have everything of the epoch's start would wait, and clients be refused, once more.
    """

    id = "P7"
    title = (
        "A follower joins the ISR no earlier than at the high watermark and epoch start, and not while known as fenced "
        "or under an unknown broker epoch"
    )
    source = "KAFKA-7128; KIP-841; KIP-903; Partition.scala (isReplicaIsrEligible, makeLeader)"
    tested_when = "a leader proposes an ISR with a replica that was not in it"
    unseen = (
        "whether the replica was unfenced when the proposal was accepted: P9 judges that",
        "a registration that a controller appended and lost, or a broker epoch of which the trace has none",
        "an unchanged retry of a proposal: as in Kafka, it reflects the leader's knowledge at its creation",
        "the positions that a leader may keep when it is elected again in place",
        "where a leader takes its epoch to start but for its proposals and its answers to ListOffsets",
    )
    route = PARTITION
    types = (IsrPropose, RepFetch, PartChange, LogAppend, LogTrunc, NodeDown, PartAssume, RpcReply)
    cases = {RpcReply: ("ListOffsets",)}
    exemptions = {"no-broker-epoch": "The follower's fetches carry no broker epoch (below version 15, before KIP-903)."}

    @property
    def news(self) -> tuple[type, ...]:
        return FOLLOWED

    def initial(self, key: str, profile: Profile) -> IsrWitnesses:
        return IsrWitnesses(key, profile=profile)

    def hear(self, state: IsrWitnesses, event: Stamped) -> Emissions:
        state.known.apply(event)
        return NOTHING

    def step(self, state: IsrWitnesses, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is RepFetch:
            if body.error == 0 and body.diverging_epoch < 0:
                self._fetched(state, event, body)
        elif type(body) is LogAppend:
            state.ends[event.node] = body.last + 1
        elif type(body) is LogTrunc:
            state.ends[event.node] = body.to
        elif type(body) is NodeDown:
            state.ends[event.node] = min(state.ends.get(event.node, 0), body.lost[state.key])
        elif type(body) is PartAssume:
            self._assumed(state, event, body)
        elif type(body) is PartChange:
            remember(
                state.isrs,
                body.partition_epoch,
                sorted({*state.isrs.get(body.partition_epoch, ()), *body.isr}),
                CHANGES_REMEMBERED,
            )
        elif type(body) is RpcReply:
            for told in body.partitions:
                if body.api == "ListOffsets" and told.tp == state.key:
                    return self._start_moved(state, event, told.leader_epoch, told.leader_epoch_start)
        elif type(body) is IsrPropose and body.outcome == "proposed":
            asked = (event.incarnation, body.proposal, body.leader_epoch, body.partition_epoch, body.members)
            if state.judged.get(event.node) == asked:
                return NOTHING  # sent again as it was made: what counts is what the leader knew then
            state.judged[event.node] = asked
            base = state.isrs.get(body.partition_epoch, [])
            found: list[object] = [*self._start_moved(state, event, body.leader_epoch, body.leader_epoch_start)]
            for member in body.isr:
                if member not in base and node_name(member) != event.node:
                    state.tested += 1
                    found.extend(self._judge(state, event, body, member))
            return found  # type: ignore[return-value]  # extended with emissions alone
        return NOTHING

    def _assumed(self, state: IsrWitnesses, event: Stamped, body: PartAssume) -> None:
        """Where an epoch starts the leader's log tells, and not the leader. What a process recorded last it may not
        have written any more."""
        end = state.ends[event.node] = min(state.ends.get(event.node, body.log_end), body.log_end)
        known = state.terms.get(event.node)
        if body.role != "leader":
            state.terms.pop(event.node, None)
        elif known is None or (known.incarnation, known.leader_epoch) != (event.incarnation, body.leader_epoch):
            start, by = body.leader_epoch_start, witness(event)
            state.terms[event.node] = Term(event.incarnation, body.leader_epoch, end, start, by)

    def _start_moved(self, state: IsrWitnesses, event: Stamped, leader_epoch: int, start: int) -> Emissions:
        """Whether a leader has another start of its leader epoch than when it took that up."""
        term = state.terms.get(event.node)
        if start < 0 or term is None or (term.incarnation, term.leader_epoch) != (event.incarnation, leader_epoch):
            return NOTHING
        if start == term.said:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} takes {start:,} for the start of its leader epoch {leader_epoch} of {state.key}, which it "
            f"began at {term.said:,}",
            term.by,
            event,
        )

    def _fetched(self, state: IsrWitnesses, event: Stamped, body: RepFetch) -> None:
        key = f"{event.node}/{body.follower}"
        known = state.fetches.get(key)
        if (
            known is None
            or body.leader_epoch > known.leader_epoch
            or body.broker_epoch != known.broker_epoch
            or body.offset >= known.offset
        ):
            state.fetches[key] = FetchWitness(body.leader_epoch, body.broker_epoch, body.offset, witness(event))

    def _judge(self, state: IsrWitnesses, event: Stamped, body: IsrPropose, member: int) -> Emissions:
        life = state.known.known_to(event.node, member)
        if life is not None and (life.fenced or life.leaves):
            return self.violated(
                state.key,
                f"{event.node} (leader epoch {body.leader_epoch}) proposed {node_name(member)} for the ISR of "
                f"{state.key}, although offset {life.offset:,} of the metadata log, which it had applied up to "
                f"{state.known.applied[event.node]:,}, fences that broker or begins its shutdown",
                life.by,
                event,
            )
        if unheard := self._under_unheard_epoch(state, event, body, member):
            return unheard
        term = state.terms.get(event.node)
        known = term is not None and (term.incarnation, term.leader_epoch) == (event.incarnation, body.leader_epoch)
        start = term.start if term is not None and known else body.leader_epoch_start
        needed = max(body.high_watermark, start)
        seen = state.fetches.get(f"{event.node}/{member}")
        if seen is not None and seen.leader_epoch != body.leader_epoch:
            seen = None
        member_epoch = body.members.get(str(member), -1)
        if seen is not None and seen.offset >= needed:
            told = min(member_epoch, seen.broker_epoch) >= 0
            without = state.profile.is_older(FETCH, BROKER_EPOCH_SINCE, event.node, node_name(member))
            if seen.broker_epoch == member_epoch and (told or without):
                return NOTHING
            sentence = (
                f"{event.node} proposed {node_name(member)} for the ISR of {state.key} under broker epoch "
                f"{member_epoch}, but its last fetch came under broker epoch {seen.broker_epoch}"
            )
            if without and not told:
                return self.excused("no-broker-epoch", state.key, sentence, seen.by, event)
            return self.violated(state.key, sentence, seen.by, event)
        reached = "had not fetched" if seen is None else f"had fetched up to {seen.offset:,}"
        return self.violated(
            state.key,
            f"{event.node} (leader epoch {body.leader_epoch}) proposed {node_name(member)} for the ISR of {state.key}, "
            f"which {reached} in this epoch; it had to reach the high watermark {body.high_watermark:,} and the "
            f"epoch's start {start:,}",
            None if seen is None else seen.by,
            event,
        )

    def _under_unheard_epoch(self, state: IsrWitnesses, event: Stamped, body: IsrPropose, member: int) -> Emissions:
        """Whether a follower is proposed under another broker epoch than its leader's metadata have for it."""
        life, epoch = state.known.known_to(event.node, member), body.members.get(str(member), -1)
        first = state.known.first_of(member, epoch)
        if epoch < 0 or life is None or life.broker_epoch == epoch or (first is None and life.broker_epoch < epoch):
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} (leader epoch {body.leader_epoch}) proposed {node_name(member)} for the ISR of {state.key} "
            f"under broker epoch {epoch:,}, although the metadata log, which it had applied up to "
            f"{state.known.applied[event.node]:,}, has broker epoch {life.broker_epoch:,} for that broker by then",
            life.by,
            event,
        )


class LedMark(msgspec.Struct):
    """The high watermark that a leader said it had, and where."""

    high_watermark: int
    by: Witness


class LeaderMark(msgspec.Struct):
    """What one broker's replica had when it last said so. led: leader epoch that it led -> its high watermark there;
    the last two, as an answer may be held up beyond the leadership in which it was decided. least: (its log end, the
    min.insync.replicas that holds from there on), the last ones."""

    log_end: int = 0
    by: Witness | None = None
    led: dict[int, LedMark] = {}
    least: list[tuple[int, Least]] = []

    def least_since(self, last_offset: int) -> Least:
        """The smallest min.insync.replicas that has held at this broker since it appended a record."""
        since = max((index for index, (end, _) in enumerate(self.least) if end <= last_offset), default=0)
        return min((least for _, least in self.least[since:]), key=_value, default=Least(1))


class LeaderMarks(State):
    """Per node its replica's marks. settings: what min.insync.replicas is, and who has heard of it; replicas: how many
    the partition has, 0 not known."""

    nodes: dict[str, LeaderMark] = {}
    settings: LeastIsr = msgspec.field(default_factory=LeastIsr)
    replicas: int = 0
    profile: Profile = Profile()

    def mark(self, node: str) -> LeaderMark:
        """The marks of a node."""
        found = self.nodes.get(node)
        if found is None:
            found = self.nodes[node] = LeaderMark(least=[(0, self.settings.at(node, self.key, self.profile))])
        return found


def _value(least: Least) -> int:
    return least.value


class AcksTellTheTruth(KeyedInvariant[LeaderMarks]):
    """A producer with acks=all that gets an acknowledgement before the ISR has the record relies on a durability that
    does not exist: the next leader may lack the record. If a leader appends a record although the ISR is too small, the
    producer gets an error or no answer, and finds the record committed later.

    Example: broker-1 acknowledges offset 41 of orders-0 with acks=all while its high watermark is 38. Or it appends the
    record while it is alone in the ISR, and min.insync.replicas is 2.
    """

    id = "P17"
    title = "acks=all is answered once the high watermark has passed the records and the ISR is large enough"
    source = "Kafka's Partition.checkEnoughReplicasReachOffset; min.insync.replicas"
    tested_when = "a broker answers a Produce of acks=1 or acks=all without error"
    unseen = (
        "acks=0, which is not answered",
        "the ISR after the answer: the check uses the leader's ISR at the append and at the answer",
        "the larger value of a min.insync.replicas that changes between append and answer",
        "records appended below min.insync.replicas by a leader that dies before it answers",
    )
    route = PARTITION
    types = (RpcReply, LogHw, LogAppend, LogTrunc, PartAssume, PartChange)
    cases = {RpcReply: ("Produce",), LogHw: ("leader",)}

    CHANGES_KEPT = 64

    @property
    def news(self) -> tuple[type, ...]:
        return HEARD

    def initial(self, key: str, profile: Profile) -> LeaderMarks:
        return LeaderMarks(key, profile=profile)

    def hear(self, state: LeaderMarks, event: Stamped) -> Emissions:
        if state.settings.hear(event):
            mark, least = state.mark(event.node), state.settings.at(event.node, state.key, state.profile)
            if type(event.body) is NodeUp:
                mark.least = [(0, least)]
            elif mark.least[-1][1] != least:
                mark.least = [*mark.least[-self.CHANGES_KEPT :], (mark.log_end, least)]
        return NOTHING

    def step(self, state: LeaderMarks, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is PartChange:
            state.replicas = len(body.replicas)
            return NOTHING
        mark = state.mark(event.node)
        if type(body) is LogAppend:
            mark.log_end = body.last + 1
        elif type(body) is LogHw:
            if body.role == "leader":
                mark.led[body.leader_epoch] = LedMark(body.new, witness(event))
        elif type(body) is RpcReply:
            if body.api == "Produce" and body.acks:
                for told in body.partitions:
                    if told.tp == state.key:
                        return self._answered(state, mark, event, body, told)
        elif type(body) is LogTrunc:
            mark.log_end = body.to
        elif type(body) is PartAssume:
            mark.log_end, mark.by = body.log_end, witness(event)
            if body.role == "leader":
                mark.led[body.leader_epoch] = LedMark(body.high_watermark, mark.by)
                for epoch in sorted(mark.led)[:-2]:
                    del mark.led[epoch]
        return NOTHING

    def _answered(
        self, state: LeaderMarks, mark: LeaderMark, event: Stamped, body: RpcReply, told: ReplyPartition
    ) -> Emissions:
        """A leader must refuse a batch while its ISR is too small: else, whatever it answers, the record may be
        committed later."""
        least = mark.least_since(told.last_offset).up_to(state.replicas)
        if 0 < told.appended_isr < least.value:
            state.tested += 1
            return self.violated(
                state.key,
                f"{event.node} appended a batch that {body.src} sent for {state.key} with acks=all while the ISR had "
                f"{told.appended_isr} members, below min.insync.replicas {least.value}",
                least.by,
                event,
            )
        if told.error:
            return NOTHING
        return self._acknowledged(state, mark, event, body, told, least)

    def _acknowledged(
        self,
        state: LeaderMarks,
        mark: LeaderMark,
        event: Stamped,
        body: RpcReply,
        told: ReplyPartition,
        least: Least,
    ) -> Emissions:
        state.tested += 1
        source = body.src
        if body.acks > 0:
            if told.last_offset < mark.log_end:
                return NOTHING
            return self.violated(
                state.key,
                f"{event.node} acknowledged offset {told.last_offset:,} of {state.key} to {source} "
                f"while its log ended at {mark.log_end:,}",
                mark.by,
                event,
            )
        led = mark.led.get(told.leader_epoch)
        high_watermark = 0 if led is None else max(led.high_watermark, 0)
        if told.last_offset >= high_watermark:
            return self.violated(
                state.key,
                f"{event.node} (leader epoch {told.leader_epoch}) acknowledged offset {told.last_offset:,} of "
                f"{state.key} to {source} with acks=all while its high watermark was {high_watermark:,}",
                mark.by if led is None else led.by,
                event,
            )
        if told.isr < least.value:
            return self.violated(
                state.key,
                f"{event.node} acknowledged offset {told.last_offset:,} of {state.key} to {source} with acks=all "
                f"while its ISR had {told.isr} members, below min.insync.replicas {least.value}",
                least.by,
                event,
            )
        return NOTHING
