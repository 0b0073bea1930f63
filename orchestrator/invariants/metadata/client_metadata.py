"""What clients believe of leaders: M1. What one client believes is built from what it was told and took over."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from actors.node.messages import Api
from actors.node.spec import node_name, partition_name, split_topic_partition
from actors.trace.events import EpochTold, FetchTold, MetaView, NodeUp, PollReturn, Rpc, RpcReply, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import CLIENT
from orchestrator.invariants.metadata.adopted_leaders import (
    NOBODY,
    REMEMBERED,
    Adopted,
    asked_about,
    asked_at,
    note_keys,
)

IDENTIFIED_SINCE = 10
"""Version of Metadata that tells the ids of topics."""

NAMED_SINCE = {Api.Fetch: 9, Api.OffsetForLeaderEpoch: 3, Api.ListOffsets: 4}
"""Versions from which on a client's request names the leader epoch in which it asks."""


class Belief(msgspec.Struct):
    """What a client has of one partition. seen: the leader epoch by which it judges others, -1 none; by: that event.
    adopted: the leaders that it took over, in order. fetched: leader epoch of the last records that it got, -1 none."""

    seen: int = -1
    by: Witness | None = None
    adopted: list[Adopted] = []
    fetched: int = -1
    fetched_by: Witness | None = None


class Heard(msgspec.Struct, frozen=True):
    """A client heard of a newer leader epoch than its metadata has, with its event number ``seq``; epoch -1: its
    metadata has caught up."""

    epoch: int
    seq: int
    by: Witness


class Beliefs(State):
    """Of one client in one incarnation. keys: name of a partition -> the partition that it takes it to be. heard: the
    same -> which leader epochs it heard of, and when its metadata had caught up, in order: clients go by names here.
    topic_ids: of each topic, what it was told last. version: of the last answer. identified: topics of which the last
    answer that it took over told the id. pushed: brokers have their metadata from UpdateMetadata, which may lack ids.
    metadata_epoch: of the last answer that it took over by it, -1 none. prober: it asks as the admin client does.
    answered: broker -> request and event number of the last Fetch that brought something, before which the next one
    was not sent."""

    profile: Profile = Profile()
    prober: bool = False
    answered: dict[str, tuple[str, int]] = {}
    incarnation: int = 0
    partitions: dict[str, Belief] = {}
    keys: dict[str, str] = {}
    heard: dict[str, list[Heard]] = {}
    topic_ids: dict[str, str] = {}
    version: int = -1
    identified: set[str] = set()
    pushed: bool = False
    metadata_epoch: int = -1
    metadata_by: Witness | None = None

    def of(self, tp: str) -> Belief:
        """What it believes of a partition."""
        found = self.partitions.get(tp)
        if found is None:
            found = self.partitions[tp] = Belief()
        return found

    def begin(self, incarnation: int) -> None:
        """A client that starts believes nothing."""
        self.incarnation, self.partitions, self.keys, self.topic_ids = incarnation, {}, {}, {}
        self.heard, self.version, self.identified = {}, -1, set()
        self.metadata_epoch, self.metadata_by = -1, None
        self.answered = {}

    def hear(self, tp: str, epoch: int, event: Stamped) -> None:
        """A newer leader epoch was heard of; -1: an answer was taken over, after which none is awaited."""
        name = partition_name(tp)
        if epoch < 0 and name not in self.heard:
            return
        heard = self.heard.setdefault(name, [])
        heard.append(Heard(epoch, event.seq, witness(event)))
        del heard[:-REMEMBERED]

    def had(self, tp: str, seq: int) -> Adopted | None:
        """The leader that the client had when it had recorded event ``seq``, of the topic that it meant."""
        return asked_about(((each, belief.adopted) for each, belief in self.partitions.items()), self.keys, tp, seq)

    def awaited(self, tp: str, seq: int) -> Heard | None:
        """The newer leader epoch whose leader the client did not have yet when it had recorded event ``seq``."""
        before = (each for each in reversed(self.heard.get(partition_name(tp), [])) if each.seq <= seq)
        last = next(before, None)
        return last if last is not None and last.epoch >= 0 else None

    def note_ids(self, body: MetaView) -> None:
        """Take an answer over: of topics that it lacks, or whose ids it does not tell, the client forgets the ids. The
        view has an id only where it is another one than the client knew."""
        self.topic_ids.update(body.topic_ids)
        if body.source != "metadata" or body.metadata_accepted is False:
            return
        told = {split_topic_partition(tp)[0] for tp in (*body.epochs, *body.accepted)}
        known = {topic for topic in told if topic in body.topic_ids or topic in self.identified}
        self.identified = known if self.version >= IDENTIFIED_SINCE and not self.pushed else set()


def _adopt(state: Beliefs, event: Stamped, tp: str, leader: int, epoch: int) -> None:
    belief = state.of(tp)
    belief.seen, belief.by = epoch, witness(event)
    state.hear(tp, -1, event)
    if leader != NOBODY:
        belief.adopted.append(Adopted(leader, epoch, event.seq, witness(event)))
        del belief.adopted[:-REMEMBERED]


class OlderMetadataIsNotAdopted(KeyedInvariant[Beliefs]):
    """Brokers learn of a new leader one after the other. A client that believes the last broker that it asked goes back
    to a replaced leader, writes to it, reads from it, and alternates between the two.

    Example: consumer-1 knows broker-2 as the leader of orders-0 in leader epoch 5. It asks broker-3, which has not
    heard of that leader; the answer is broker-1 in leader epoch 4, and the consumer fetches from broker-1. Leader
    epochs are compared within one topic id: a topic that was created again starts from 0. An answer below version 9 has
    no reliable leader epoch, and makes a client forget its known one. A consumer that hears of leader epoch 6 with a
    position asks nobody for offsets until its metadata has it, too. And a consumer that knows the leader epoch names it
    in Fetch, OffsetForLeaderEpoch and ListOffsets: a former leader cannot refuse who names none. With metadata epochs
    (kip-232: seed) whole answers are compared; those without one are not judged.
    """

    id = "M1"
    title = (
        "A client never goes back to an older leader epoch of a partition, or to an older metadata epoch, and names "
        "the leader epoch that it has"
    )
    source = "KIP-320; KIP-232; KAFKA-6262; KAFKA-7738; Kafka's Metadata.updateLatestMetadata"
    tested_when = "a client that knows a leader epoch accepts another answer, or asks for offsets or records"
    route = CLIENT
    types = (NodeUp, MetaView, PollReturn, Rpc, RpcReply, EpochTold, FetchTold)
    cases = {Rpc: ("Metadata",), RpcReply: ("ListOffsets",)}
    exemptions = {
        "topic-forgotten": "The answer before lacked the topic or its id: Kafka takes the next answer for another "
        "topic.",
    }
    unseen = (
        "A Fetch without a leader epoch that is answered with nothing: no event tells what it named.",
        "A producer's use of its leader: a Produce has no leader epoch.",
        "Whether another topic id belongs to a newer topic of its name, or to an older one: Kafka accepts any.",
    )

    def initial(self, key: str, profile: Profile) -> Beliefs:
        return Beliefs(key, profile=profile, pushed=profile.setting("metadata.propagation", default="log") == "push")

    def step(self, state: Beliefs, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is NodeUp:
            state.begin(event.incarnation)
            state.prober = body.role == "list-offsets"
        elif kind is MetaView:
            return self._viewed(state, event, body)
        elif kind is EpochTold:
            return self._names(state, event, body.tp, body.current_leader_epoch, Api.OffsetForLeaderEpoch)
        elif kind is FetchTold:
            own = event.req == f"{body.connection}#{body.correlation_id}"  # not of one that it completed
            return self._names(state, event, body.tp, body.asked_epoch, Api.Fetch) if own else NOTHING
        elif kind is RpcReply:
            return self._asked(state, event, body) if body.api == Api.ListOffsets.name else NOTHING
        elif kind is Rpc:
            if body.api == Api.Metadata.name and body.outcome == "answered":
                state.version = body.version
        elif body.outcome == "ok":
            named = body.leader_epoch >= 0
            found = self._fetched(state, event, body) if named else self._unnamed(state, event, body)
            if event.req and state.answered.get(body.broker, ("", 0))[0] != event.req:
                state.answered[body.broker] = (event.req, event.seq)
            return found
        return NOTHING

    def _viewed(self, state: Beliefs, event: Stamped, body: MetaView) -> Emissions:
        found: list[Any] = [*self._as_a_whole(state, event, body)]
        note_keys(state.keys, body)
        for tp, epoch in body.epochs.items():
            belief = state.of(tp)
            if body.source == "heard":
                belief.seen, belief.by = epoch, witness(event)
                state.hear(tp, epoch, event)
            elif tp in body.accepted:
                found.extend(self._accepted(state, event, body, tp, epoch, belief))
                _adopt(state, event, tp, body.leaders.get(tp, NOBODY), epoch)
            else:
                state.tested += belief.seen >= 0
        state.note_ids(body)
        return found

    def _as_a_whole(self, state: Beliefs, event: Stamped, body: MetaView) -> Emissions:
        """With metadata epochs, each answer that has one is newer or older than another one."""
        if body.metadata_epoch is UNSET or body.metadata_epoch < 0:
            return NOTHING
        epoch, before, by = body.metadata_epoch, state.metadata_epoch, state.metadata_by
        state.tested += before >= 0
        if not body.metadata_accepted:
            return NOTHING
        state.metadata_epoch, state.metadata_by = epoch, witness(event)
        if epoch >= before:
            return NOTHING
        sentence = (
            f"{event.node} accepted metadata epoch {epoch:,} from {body.server} although its own metadata had epoch "
            f"{before:,}"
        )
        return self.violated(state.key, sentence, by, event)

    def _accepted(
        self, state: Beliefs, event: Stamped, body: MetaView, tp: str, epoch: int, belief: Belief
    ) -> Emissions:
        if epoch < 0 or belief.seen < 0:
            return NOTHING
        topic = split_topic_partition(tp)[0]
        known, told = state.topic_ids.get(topic, ""), body.topic_ids.get(topic, "")
        if told and known and told != known:
            return NOTHING
        state.tested += 1
        if epoch >= belief.seen:
            return NOTHING
        sentence = (
            f"{event.node} took over leader epoch {epoch} of {tp} from {body.server} although it knew leader "
            f"epoch {belief.seen}"
        )
        if told and topic not in state.identified:
            belief.fetched = -1
            return self.excused("topic-forgotten", state.key, sentence, belief.by, event)
        return self.violated(state.key, sentence, belief.by, event)

    def _asked(self, state: Beliefs, event: Stamped, body: RpcReply) -> Emissions:
        """A broker answers what this client asked when it had come to the event that is the cause."""
        seq = asked_at(event, state.key, state.incarnation)
        found: list[Any] = []
        for told in body.partitions if seq >= 0 else ():
            had = state.had(told.tp, seq)
            if had is None or had.epoch < 0:
                continue
            awaited = state.awaited(told.tp, seq)
            if told.asked_epoch < 0 and awaited is None:
                found.extend(self._names(state, event, told.tp, told.asked_epoch, Api.ListOffsets))
                continue
            state.tested += 1
            asked = f"{state.key} asked {event.node} for offsets of {told.tp}"
            if told.asked_epoch >= 0:
                asked += f" in leader epoch {told.asked_epoch}"
            if 0 <= told.asked_epoch < had.epoch:
                sentence = f"{asked} although it had taken over leader epoch {had.epoch}"
                return self.violated(state.key, sentence, had.by, event)
            if awaited is not None and max(told.asked_epoch, had.epoch) < awaited.epoch:
                sentence = (
                    f"{asked} although it had heard of leader epoch {awaited.epoch}, and its metadata had only leader "
                    f"epoch {had.epoch}"
                )
                return self.violated(state.key, sentence, awaited.by, event)
        return found

    def _names(self, state: Beliefs, event: Stamped, tp: str, asked_epoch: int, api: Api) -> Emissions:
        """A consumer names the leader epoch that it has of the broker that it asks. The admin client names none."""
        seq = asked_at(event, state.key, state.incarnation)
        had = state.had(tp, seq) if seq >= 0 and not state.prober else None
        if had is None or had.epoch < 0 or node_name(had.leader) != event.node:
            return NOTHING
        if state.profile.is_older(api.name, NAMED_SINCE[api], state.key, event.node):
            return NOTHING
        state.tested += 1
        if asked_epoch >= 0:
            return NOTHING
        sentence = (
            f"{state.key} named no leader epoch in {api.name} of {tp} to {event.node} although it had taken over "
            f"leader epoch {had.epoch}"
        )
        return self.violated(state.key, sentence, had.by, event)

    def _unnamed(self, state: Beliefs, event: Stamped, body: PollReturn) -> Emissions:
        """A Fetch without a leader epoch has brought records. It was sent after the answer to the one before it."""
        req, seq = state.answered.get(body.broker, (event.req, -1))
        if req == event.req or not event.req or body.version < NAMED_SINCE[Api.Fetch]:
            return NOTHING
        adopted = state.of(body.tp).adopted
        known = [number for number, each in enumerate(adopted) if each.seq <= seq]
        had = adopted[known[-1]] if known else None
        if had is None or node_name(had.leader) != body.broker:
            return NOTHING
        if any(each.epoch < 0 for each in adopted[known[-1] :]):
            return NOTHING
        state.tested += 1
        sentence = (
            f"{event.node} named no leader epoch in Fetch of {body.tp} to {body.broker} although it had taken over "
            f"leader epoch {had.epoch}"
        )
        return self.violated(state.key, sentence, had.by, event)

    def _fetched(self, state: Beliefs, event: Stamped, body: PollReturn) -> Emissions:
        """What a Fetch brought is taken in the leader epoch in which it was asked for: none before the last one in
        which something was taken."""
        belief = state.of(body.tp)
        last, by = belief.fetched, belief.fetched_by
        state.tested += last >= 0
        belief.fetched, belief.fetched_by = body.leader_epoch, witness(event)
        if body.leader_epoch >= last:
            return NOTHING
        sentence = f"{event.node} fetched {body.tp} in leader epoch {body.leader_epoch} after it had fetched in {last}"
        return self.violated(state.key, sentence, by, event)
