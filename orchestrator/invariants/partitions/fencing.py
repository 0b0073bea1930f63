"""Who may be answered by a leader: whoever knows its leader epoch, and is no process that is gone."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError, error_name
from actors.node.spec import node_name
from actors.trace.events import (
    EpochTold,
    NodeUp,
    PartAssume,
    PollReturn,
    RepFetch,
    RpcPark,
    RpcReply,
    Stamped,
    TierTask,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, OPEN_REMEMBERED, remember
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.mirrors.known_brokers import FOLLOWED, KnownBrokers

BY_ID = 13
"""First version of Fetch that names topics by their ids: before, another topic of the name may answer."""
DEBUGGING = -2
"""Replica id of who asks any replica for offsets, be it a leader or not."""


class TakenUp(msgspec.Struct, frozen=True):
    """A role that a broker took up, in a leader epoch."""

    leads: bool
    leader_epoch: int
    by: Witness


FETCH, LEADER_EPOCH_SINCE = "Fetch", 9
"""Version from which on a Fetch has a leader epoch."""


class Lives(State):
    """``known``: what brokers know of one another. ``roles``: broker -> what its process took up last; ``led``: broker
    -> the leader epochs that it has led, the newest ones. decided: (broker, connection) -> the last ListOffsets on it
    that waits for remote storage, and what the broker was when it knew what it would say of this partition. fenced:
    (broker, connection) -> the same, and the leader epoch of the broker when it came, with which the client's was
    compared."""

    known: KnownBrokers = msgspec.field(default_factory=KnownBrokers)
    roles: dict[str, TakenUp] = {}
    led: dict[str, list[int]] = {}
    decided: dict[tuple[str, str], tuple[int, TakenUp | None]] = {}
    fenced: dict[tuple[str, str], tuple[int, int]] = {}
    profile: Profile = Profile()

    def take_up(self, node: str, role: TakenUp) -> None:
        """A broker leads, or follows, in a leader epoch."""
        self.roles[node] = role
        if role.leads:
            led = self.led.setdefault(node, [])
            led.append(role.leader_epoch)
            del led[:-CHANGES_REMEMBERED]


class ReplicaFetchesAreFenced(KeyedInvariant[Lives]):
    """A follower that fetches in another leader epoch than its leader's may have a divergent log. If its position
    counts, the high watermark covers records that the follower lacks.

    Example: broker-1 leads orders-0 in leader epoch 5. Broker-2, which knows only epoch 4 and holds other records from
    1,204 on, fetches at 1,310, and broker-1 takes it for caught up (KAFKA-6880). Or broker-2 has lost its disk and is
    back, as broker-1 knows, when the last fetch of the former process arrives, from 1,310. Or broker-1 answers
    ListOffsets or OffsetForLeaderEpoch to a client that knows only leader epoch 4; or broker-2, a follower, answers it.
    A result from the time in which the broker led may be sent later, together with the last look-up of the request.
    """

    id = "P16"
    title = "Only a leader answers, in its own leader epoch; it counts no fetch of a process that is gone"
    source = "KIP-320; KAFKA-6880; KAFKA-9338"
    tested_when = (
        "a leader counts a follower's fetch, finds that it diverges, or fences it for its leader epoch; or a broker "
        "answers ListOffsets or OffsetForLeaderEpoch without an error, or a consumer's Fetch with records"
    )
    unseen = (
        (
            "answers without records to Fetches of consumers, and any answers to Fetches that name the topic (below "
            "version 13)"
        ),
        "other effects of a fetch: P3 and P12 judge the records in the answer",
        (
            "UNKNOWN_LEADER_EPOCH in the right leader epoch: it is also the answer to a replica that the broker does "
            "not know yet"
        ),
    )
    route = PARTITION
    types = (RepFetch, EpochTold, RpcReply, RpcPark, TierTask, PartAssume, PollReturn)
    cases = {RpcReply: ("ListOffsets",)}
    exemptions = {"no-leader-epoch": "The follower's Fetch carries no leader epoch (below version 9)."}

    @property
    def news(self) -> tuple[type, ...]:
        return FOLLOWED

    def initial(self, key: str, profile: Profile) -> Lives:
        return Lives(key, profile=profile)

    def hear(self, state: Lives, event: Stamped) -> Emissions:
        state.known.apply(event)
        if type(event.body) is NodeUp:
            state.roles.pop(event.node, None)
        return NOTHING

    def step(self, state: Lives, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is PartAssume:
            state.take_up(event.node, TakenUp(body.role == "leader", body.leader_epoch, witness(event)))
            return NOTHING
        if type(body) is PollReturn:
            return self._polled(state, event, body)
        if type(body) is EpochTold:
            epochs = (body.current_leader_epoch, body.leader_epoch)
            role = state.roles.get(event.node)
            return self._answered(state, event, "OffsetForLeaderEpoch", body.replica_id, *epochs, role)
        if type(body) is RpcReply:
            return self._listed(state, event, body)
        if type(body) is RpcPark:
            if state.key in body.decided:
                self._decided(state, event, body.connection, body.correlation_id)
            role = state.roles.get(event.node)
            if role is not None and state.key in body.tps:
                remember(
                    state.fenced,
                    (event.node, body.connection),
                    (body.correlation_id, role.leader_epoch),
                    OPEN_REMEMBERED,
                )
            return NOTHING
        if type(body) is TierTask:
            if body.phase == "finish" and body.kind == "list-offsets":
                self._decided(state, event, body.connection, body.correlation_id)
            return NOTHING
        assert type(body) is RepFetch
        newer = body.follower_epoch > body.leader_epoch
        if body.error and body.error not in (KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH):
            return NOTHING
        state.tested += 1
        if not body.error:
            if body.follower_epoch == body.leader_epoch:
                return self._alive(state, event, body)
            sentence = (
                f"{event.node} (leader epoch {body.leader_epoch}) counted a fetch of {node_name(body.follower)} "
                f"at {body.offset:,} of {state.key} in leader epoch {body.follower_epoch}"
            )
            without = state.profile.is_older(FETCH, LEADER_EPOCH_SINCE, event.node, node_name(body.follower))
            if body.follower_epoch < 0 and without:
                return self.excused("no-leader-epoch", state.key, sentence, event)
            return self.violated(state.key, sentence, event)
        # UNKNOWN_LEADER_EPOCH is also told a replica of which this broker's metadata does not know yet.
        fenced = body.error == KafkaError.FENCED_LEADER_EPOCH
        if (fenced and 0 <= body.follower_epoch < body.leader_epoch) or (not fenced and body.follower_epoch >= 0):
            if fenced or newer or body.follower_epoch == body.leader_epoch:
                return NOTHING
        return self.violated(
            state.key,
            f"{event.node} (leader epoch {body.leader_epoch}) answered a fetch of {node_name(body.follower)} for "
            f"{state.key} in leader epoch {body.follower_epoch} with {error_name(body.error)}",
            event,
        )

    def _alive(self, state: Lives, event: Stamped, body: RepFetch) -> Emissions:
        """A fetch that is noted was sent by the process of which the leader has heard last."""
        known = state.known.known_to(event.node, body.follower)
        if known is None or known.fenced or body.diverging_epoch >= 0:
            return NOTHING
        if not 0 <= body.broker_epoch < known.broker_epoch:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} (leader epoch {body.leader_epoch}) counted a fetch of {node_name(body.follower)} at "
            f"{body.offset:,} of {state.key} under broker epoch {body.broker_epoch}, but knew its broker epoch "
            f"{known.broker_epoch}",
            known.by,
            event,
        )

    def _listed(self, state: Lives, event: Stamped, body: RpcReply) -> Emissions:
        if body.api != "ListOffsets":
            return NOTHING
        number, role = state.decided.pop((event.node, body.connection), (-1, None))
        if number != body.correlation_id:
            role = state.roles.get(event.node)
        fenced = state.fenced.pop((event.node, body.connection), None)
        for told in body.partitions:
            if told.tp == state.key and not told.error:
                was_compared = fenced == (body.correlation_id, told.asked_epoch)
                epochs = (-1 if was_compared else told.asked_epoch, told.leader_epoch)
                return self._answered(state, event, body.api, body.replica_id, *epochs, role)
        return NOTHING

    def _decided(self, state: Lives, event: Stamped, connection: str, correlation_id: int) -> None:
        """A broker knows what it will say of this partition, once it knows it of others."""
        remember(
            state.decided, (event.node, connection), (correlation_id, state.roles.get(event.node)), OPEN_REMEMBERED
        )

    def _polled(self, state: Lives, event: Stamped, body: PollReturn) -> Emissions:
        """Records that a consumer got in a leader epoch: of who has led it, and of no later one."""
        asked_epoch = body.leader_epoch
        if asked_epoch < 0 or not body.records or body.version < BY_ID:
            return NOTHING
        state.tested += 1
        led, newest = state.led.get(body.broker, []), max(record.leader_epoch for record in body.records)
        forgotten = len(led) >= CHANGES_REMEMBERED and asked_epoch < min(led)
        why = ""
        if newest > asked_epoch:
            why = f", although one of them is of leader epoch {newest}"
        elif asked_epoch not in led and not forgotten:
            why = ", which it has never led"
        if not why:
            return NOTHING
        sentence = f"{body.broker} gave {event.node} records of {state.key} in leader epoch {asked_epoch}{why}"
        return self.violated(state.key, sentence, event)

    def _answered(
        self,
        state: Lives,
        event: Stamped,
        api: str,
        replica_id: int,
        asked_epoch: int,
        leader_epoch: int,
        role: TakenUp | None,
    ) -> Emissions:
        """An answer without an error, of a broker that was in ``leader_epoch`` and had that role."""
        state.tested += 1
        who = node_name(replica_id) if replica_id >= 0 else "a client"
        why = ""
        if asked_epoch not in (-1, leader_epoch):
            why = f"in leader epoch {leader_epoch}, although the request named leader epoch {asked_epoch}"
        elif replica_id != DEBUGGING and not (role is not None and role.leads and role.leader_epoch == leader_epoch):
            why = f"in leader epoch {leader_epoch}, which it did not lead"
        if not why:
            return NOTHING
        sentence = f"{event.node} answered the {api} of {who} for {state.key} {why}"
        return self.violated(state.key, sentence, None if role is None else role.by, event)
