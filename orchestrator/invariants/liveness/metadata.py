"""That metadata gets to whoever needs it in the end: L8 for brokers, L16 for clients."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from actors.node.errors import traits
from actors.node.spec import is_recreated, node_name
from actors.trace.events import (
    BrokerReg,
    ConfigChange,
    ConsPos,
    ErrorSeen,
    MetaImage,
    MetaView,
    NodeDown,
    NodeUp,
    PartChange,
    PartRemove,
    QRole,
    Stamped,
)
from actors.trace.metadata_history import NOBODY, Elections, History
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.known_findings import former_epoch
from orchestrator.invariants.folds.routes import CONTROLLER
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta

KEPT = 4
"""Records about a partition that are remembered in case later ones are lost."""


class Written(msgspec.Struct, frozen=True):
    """A record of the metadata log, and who leads the partition that it is about, if it is about one."""

    quorum_epoch: int
    offset: int
    leader: int
    leader_epoch: int
    by: Witness


class Log(WindowState):
    """histories: what the metadata log says last of each partition, and under "" of anything."""

    elections: Elections = msgspec.field(default_factory=Elections)
    histories: dict[str, History[Written]] = {}

    def take(self, event: Stamped, body: PartChange | PartRemove | BrokerReg | ConfigChange) -> None:
        """A controller appended a record."""
        by = witness(event)
        if type(body) is PartChange:
            self._add("", Written(body.quorum_epoch, body.offset, NOBODY, NOBODY, by))
            self._add(body.tp, Written(body.quorum_epoch, body.offset, body.leader, body.leader_epoch, by))
        elif type(body) is PartRemove:
            self._add("", Written(body.quorum_epoch, body.offset, NOBODY, NOBODY, by))
            self.histories.pop(body.tp, None)
        else:
            epoch = self.elections.epoch_of(event.node) if isinstance(body, BrokerReg) else body.quorum_epoch
            self._add("", Written(epoch, body.offset, NOBODY, NOBODY, by))

    def _add(self, tp: str, written: Written) -> None:
        history = self.histories.get(tp)
        if history is None:
            history = self.histories[tp] = History(KEPT)
        history.add(written, self.elections)

    def last(self, tp: str = "") -> Written | None:
        """The last record about a partition, or about anything."""
        history = self.histories.get(tp)
        return history.newest if history is not None else None


L = TypeVar("L", bound=Log)


class FollowsTheLog(WindowInvariant[L]):
    """One that turns on what the metadata log says. A new quorum leader may have lost what was to be reached."""

    route = CONTROLLER

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, QRole)

    def hear(self, state: L, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is not QRole:
            return super().hear(state, event)
        if not state.elections.take(event.node, body):
            return NOTHING
        for history in state.histories.values():
            history.forget_lost(state.elections)
        state.due.clear()
        return self._look(state, event)


class BrokerImages(Log):
    """images: broker that is up -> up to where it has applied the metadata log."""

    images: dict[str, int] = {}


class ImagesGetToTheEnd(FollowsTheLog[BrokerImages]):
    """A broker that stays behind continues to lead partitions that it has lost, follows former leaders, and gives
    clients an outdated cluster, without any error.

    Example: offset 112 of the metadata log gives orders-0 to broker-3; broker-2 is up and reaches the quorum, and its
    image ends at 104 for good. The obligation is to pass the last record that is more than a no-op; then the next one
    begins.
    """

    id = "L8"
    title = "A broker's metadata image reaches the end of the metadata log"
    source = "kafka-tlaplus, EventuallyMetadataConverges; KIP-595; Kafka's MetadataLoader"
    tested_when = "a broker that was behind has applied the last record of the metadata log, in a window"
    types = (MetaImage, PartChange, PartRemove, BrokerReg, ConfigChange, NodeUp, NodeDown)
    unseen = (
        "The broker's image after applying the log: M8 compares images.",
        "With metadata.propagation=push, whether brokers receive every update: L13 and L15 find the consequences.",
    )

    def initial(self, key: str, profile: Profile) -> BrokerImages:
        return BrokerImages(key, beta_us=beta(profile, self.id))

    def step(self, state: BrokerImages, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is NodeUp:
            if body.role == "broker":
                state.images[event.node] = 0
        elif kind is NodeDown:
            state.images.pop(event.node, None)
            self.void(state, event.node)
        elif kind is MetaImage:
            state.images[event.node] = body.offset
            obligation = state.due.get(event.node)
            if obligation is not None and body.offset >= obligation.target:
                self.kept(state, event.node)
        else:
            state.take(event, body)
        self.look(state, event)
        return NOTHING if state.armed_us >= 0 else self.arm(state)

    def look(self, state: BrokerImages, event: Stamped) -> None:
        last = state.last()
        for broker, end in state.images.items():
            if broker not in state.core:
                self.void(state, broker)
            elif last is not None and end <= last.offset:
                self.oblige(state, broker, event, last.offset + 1)

    def missed(self, state: BrokerImages, name: str, obligation: Obligation) -> Emissions:
        last = state.last()
        sentence = (
            f"the metadata image of {name} did not reach offset {obligation.target:,} of the metadata log "
            f"{self.within(state)}: it is at {state.images.get(name, 0):,}"
        )
        return self.violated(state.key, sentence, obligation.by, last.by if last is not None else None)


class View(msgspec.Struct):
    """What a client has of leaders: partition -> (leader, leader epoch; -1 where its answer had none). told_by: the
    broker that told it of leaders last."""

    leaders: dict[str, tuple[int, int]] = {}
    told_by: str = ""


class ClientViews(Log):
    """views: by client. brokers: those that have replicas. refused_us: when a client was refused last, or refused what
    it was told, by obligation. pushed: nobody promises that brokers know the current metadata. ahead: of clients that
    took up a position of a later leader epoch than the partition has had, that epoch, by obligation; known: the finding
    about them, if it is one here."""

    views: dict[str, View] = {}
    brokers: list[str] = []
    refused_us: dict[str, int] = {}
    pushed: bool = False
    ahead: dict[str, int] = {}
    known: str = ""

    def view(self, client: str) -> View:
        """What a client has."""
        found = self.views.get(client)
        if found is None:
            found = self.views[client] = View()
        return found

    def has_got_to(self, client: str, tp: str, target: int) -> bool:
        """Whether a client has the leader of a leader epoch, or of a later one."""
        leader, epoch = self.view(client).leaders.get(tp, (NOBODY, NOBODY))
        if epoch >= 0:
            return epoch >= target
        records = self.histories[tp].records if tp in self.histories else ()
        return any(each.leader == leader for each in records if each.leader_epoch >= target)


class ClientsGetTheCurrentMetadata(FollowsTheLog[ClientViews]):
    """A client that has found its metadata outdated, asks repeatedly, and always gets the same answer, or ignores the
    answer, is as badly off as one that never asks.

    Example: broker-1 answers producer-1 with NOT_LEADER_OR_FOLLOWER for orders-0, which broker-3 leads since offset 112
    of the metadata log; all nodes are up and in reach, and producer-1 takes broker-1 for the leader for good. The
    obligation begins with the error, in a window or before it. It ends when the client knows the leader of the log's
    leader epoch at that time, or of a later one. It also begins when a consumer takes a position in a topic that
    succeeded another one of its name, if the position's leader epoch is later than any of the partition: the consumer
    may then take every answer for outdated.
    """

    id = "L16"
    title = "A client whose metadata proves outdated gets the current metadata"
    source = "KIP-232; KIP-320; KIP-951; Kafka's Metadata.java, Sender.java, FetchCollector.java"
    tested_when = (
        "a client gets the current leader in a window, after an error or a position that shows that it had another one"
    )
    types = (PartChange, PartRemove, MetaView, ErrorSeen, ConsPos, NodeUp, NodeDown)
    exemptions = {
        "silent-brokers": "A broker outside the core gave it its metadata, or there are several such brokers: a "
        "client waits for each, and the bound is for one.",
    }
    unseen = (
        (
            "A client that is never refused, or not any more (it may have ended): with a leader that is as outdated "
            "as the client, it needs no new metadata."
        ),
        ("With metadata.propagation=push brokers may serve old leaders for ever; then only positions are judged."),
    )

    def initial(self, key: str, profile: Profile) -> ClientViews:
        pushed = profile.setting("metadata.propagation", default="log") == "push"
        replicas = (each for topic in profile.topics.values() for each in topic.get("replicas", ()))
        brokers = sorted({node_name(each) for some in replicas for each in some})
        known = former_epoch(profile)
        return ClientViews(key, beta_us=beta(profile, self.id), brokers=brokers, pushed=pushed, known=known)

    def step(self, state: ClientViews, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PartChange or kind is PartRemove:
            state.take(event, body)
            for name in [each for each in state.due if kind is PartRemove and each.partition(" ")[2] == body.tp]:
                self.void(state, name)
        elif kind is MetaView:
            self._viewed(state, event, body)
        elif kind is ErrorSeen:
            self._refused(state, event, body)
        elif kind is ConsPos:
            self._placed(state, event, body)
        else:
            state.views.pop(event.node, None)
            state.ahead = {name: epoch for name, epoch in state.ahead.items() if name.partition(" ")[0] != event.node}
            for name in [each for each in state.due if each.partition(" ")[0] == event.node]:
                self.void(state, name)
        return NOTHING if state.armed_us >= 0 else self.arm(state)

    def _viewed(self, state: ClientViews, event: Stamped, body: MetaView) -> None:
        view = state.view(event.node)
        view.told_by = body.server
        for tp in body.accepted:
            if tp in body.leaders:
                view.leaders[tp] = body.leaders[tp], body.epochs[tp]
            self._caught_up(state, f"{event.node} {tp}")
            obligation = state.due.get(f"{event.node} {tp}")
            if obligation is not None and state.has_got_to(event.node, tp, obligation.target):
                self.kept(state, f"{event.node} {tp}")
        for tp in body.epochs if state.ahead and body.source == "metadata" else ():
            name = f"{event.node} {tp}"
            if name in state.ahead:
                self._is_ahead(state, name, event)

    def _placed(self, state: ClientViews, event: Stamped, body: ConsPos) -> None:
        """A consumer takes up a position with its leader epoch, which it may compare with that of its metadata."""
        last, name = state.last(body.tp), f"{event.node} {body.tp}"
        self._caught_up(state, name)
        if is_recreated(body.tp) and last is not None and body.epoch > last.leader_epoch:
            state.ahead[name] = body.epoch
            self._is_ahead(state, name, event)

    def _caught_up(self, state: ClientViews, name: str) -> None:
        """The client has taken over metadata, or its position is another one."""
        if state.ahead.pop(name, None) is not None and name in state.due:
            self.kept(state, name)

    def _is_ahead(self, state: ClientViews, name: str, event: Stamped) -> None:
        if state.since_us < 0 or event.node in state.core:
            state.refused_us[name] = event.wall
            self.oblige(state, name, event, state.ahead[name])

    def _refused(self, state: ClientViews, event: Stamped, body: ErrorSeen) -> None:
        last = state.last(body.tp) if body.tp else None
        if last is None or not traits(body.error).invalid_metadata or state.pushed:
            return
        if state.since_us >= 0 and event.node not in state.core:
            return
        name = f"{event.node} {body.tp}"
        state.refused_us[name] = event.wall
        if not state.has_got_to(event.node, body.tp, last.leader_epoch):
            self.oblige(state, name, event, last.leader_epoch)

    def look(self, state: ClientViews, event: Stamped) -> None:
        for name in list(state.due) if state.since_us >= 0 else ():
            if name.partition(" ")[0] not in state.core:
                self.void(state, name)

    def missed(self, state: ClientViews, name: str, obligation: Obligation) -> Emissions:
        client, _, tp = name.partition(" ")
        last = state.last(tp)
        due_us = max(obligation.since_us, state.since_us) + state.beta_us
        if last is None or state.refused_us[name] < due_us - state.beta_us // 2:
            return (
                NOTHING  # it asks no more, or what there was to know was lost with the controller that had written it
            )
        view = state.view(client)
        leader, epoch = view.leaders.get(tp, (NOBODY, NOBODY))
        if name in state.ahead:
            sentence = (
                f"{client} has a position of leader epoch {state.ahead[name]} in {tp}, which is in leader epoch "
                f"{last.leader_epoch}, and accepted no metadata of the partition {self.within(state)}"
            )
            return self.violated(state.key, sentence, obligation.by, last.by, known=state.known)
        sentence = (
            f"{client} did not learn the leader of {tp} {self.within(state)}: it knows {_who(leader)} in leader epoch "
            f"{epoch}; the leader is {_who(last.leader)} in leader epoch {last.leader_epoch}"
        )
        away = sum(each not in state.core for each in state.brokers)
        if away > 1 or (view.told_by and view.told_by not in state.core):
            return self.excused("silent-brokers", state.key, sentence, obligation.by, last.by)
        return self.violated(state.key, sentence, obligation.by, last.by)


def _who(leader: int) -> str:
    return node_name(leader) if leader >= 0 else "nobody"
