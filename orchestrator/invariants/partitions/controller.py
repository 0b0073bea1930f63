"""What the active controller promises about partitions: states that only move forward, changes that somebody asked for,
and nobody in charge who is dead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.broker.alter_partition import WAIT_FOR_METADATA
from actors.node.spec import node_name
from actors.trace.events import BrokerReg, IsrPropose, PartAssume, PartChange, Stamped
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Emissions,
    Profile,
    St,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.mirror_fold import MirrorFold, MirrorInvariant
from orchestrator.invariants.folds.routes import CONTROLLER
from orchestrator.invariants.mirrors.loss_budget import ELR
from orchestrator.invariants.mirrors.metadata_view import FOLLOWED, MetadataView, Proposal, View

OVER = frozenset(error.name for error in WAIT_FOR_METADATA)
"""What a leader is told of a proposal that rests on a state which is over, or of which nobody knows what was made: it
waits until the metadata log tells it more."""

ALTER_PARTITION, MEMBER_EPOCHS_SINCE = "AlterPartition", 3
"""From this version on the members of a proposed ISR come with their broker epochs (KIP-903)."""


class ControllerInvariant(MirrorInvariant[MetadataView, St]):
    """An invariant over the views of the active controllers."""

    mirrored = FOLLOWED


class ControllerFold(MirrorFold):
    """The invariants of the active controllers' logs."""

    def __init__(self, invariants: Sequence[ControllerInvariant[Any]]) -> None:
        super().__init__("controller", CONTROLLER, FOLLOWED, invariants)

    def mirror(self, key: str, profile: Profile) -> MetadataView:
        return MetadataView()


def named(brokers: Sequence[int]) -> str:
    """An ISR for a sentence."""
    return f"[{', '.join(str(broker) for broker in brokers)}]"


class Assumed(msgspec.Struct, frozen=True):
    """The state of a partition that a broker took up last."""

    incarnation: int
    leader_epoch: int
    partition_epoch: int
    by: Witness


class AssumedStates(State):
    """ "broker/topic partition" -> Assumed."""

    assumed: dict[str, Assumed] = {}


class PartitionStatesMoveForward(ControllerInvariant[AssumedStates]):
    """Brokers order the states of a partition by its partition epoch, and its leaders by their leader epochs. An epoch
    that is used twice, or that goes back, makes a broker keep an outdated state.

    Example: the controller removes broker-3 from the ISR of orders-0 without a new partition epoch. Broker-1 sends
    AlterPartition for the state that it knows, in which broker-3 is a member, and the controller accepts it. A leader
    epoch that rises without another leader makes the leader and its clients begin anew for nothing.
    """

    id = "P2"
    title = "Partition epochs rise with each change and leader epochs with each leader, one by one; no broker goes back"
    source = "KIP-497; KIP-320; KAFKA-12367; Kafka's PartitionChangeBuilder"
    tested_when = "a controller changes a partition with a known state, or a broker adopts a state after another one"
    unseen = (
        "states that no broker adopted and that were lost with their controller",
        "epochs that rise by more than one when a new controller makes its first change of a partition",
    )
    types = (PartChange, PartAssume)
    before_types = (PartChange, PartAssume)

    def initial(self, key: str, profile: Profile) -> AssumedStates:
        return AssumedStates(key)

    def before(self, state: AssumedStates, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if type(body) is PartAssume:
            return self._assumed(state, event, body)
        assert type(body) is PartChange
        entry = mirror.view_of(event).partitions.get(body.tp)
        if entry is None:
            return NOTHING
        known = entry.body
        assert type(known) is PartChange
        state.tested += 1
        # A controller that ends within a step does not tell of all that its successor has in the log: what an older
        # quorum epoch changed may not be the last that was changed.
        same_term = known.quorum_epoch == body.quorum_epoch
        wrong = _backwards(known, body) or (_skipped(known, body) if same_term else "")
        if not wrong:
            return NOTHING
        return self.violated(
            body.tp,
            f"the controller of quorum epoch {body.quorum_epoch} changed {body.tp} ({body.cause}): {wrong}",
            entry.by,
            event,
        )

    def _assumed(self, state: AssumedStates, event: Stamped, body: PartAssume) -> Emissions:
        name = f"{event.node}/{body.tp}"
        known = state.assumed.get(name)
        state.assumed[name] = Assumed(event.incarnation, body.leader_epoch, body.partition_epoch, witness(event))
        if known is None or known.incarnation != event.incarnation:
            return NOTHING
        state.tested += 1
        if body.leader_epoch >= known.leader_epoch and body.partition_epoch >= known.partition_epoch:
            return NOTHING
        return self.violated(
            body.tp,
            f"{event.node} took up {body.tp} in leader epoch {body.leader_epoch}, partition epoch "
            f"{body.partition_epoch}, after leader epoch {known.leader_epoch}, partition epoch {known.partition_epoch}",
            known.by,
            event,
        )


def _backwards(known: PartChange, body: PartChange) -> str:
    """Which epoch of a change does not move forward, or ""."""
    if body.partition_epoch <= known.partition_epoch:
        return f"partition epoch {body.partition_epoch} follows partition epoch {known.partition_epoch}"
    if body.leader_epoch < known.leader_epoch:
        return f"leader epoch {body.leader_epoch} follows leader epoch {known.leader_epoch}"
    if body.leader != known.leader and body.leader_epoch == known.leader_epoch:
        return f"{_leader(body.leader)} replaces {_leader(known.leader)} within leader epoch {body.leader_epoch}"
    return ""


def _skipped(known: PartChange, body: PartChange) -> str:
    """Which epoch of a change that moves forward rises without need, or ""."""
    if body.partition_epoch > known.partition_epoch + 1:
        return f"partition epoch {body.partition_epoch} follows partition epoch {known.partition_epoch}, not one by one"
    if body.leader == known.leader and body.leader_epoch > known.leader_epoch:
        return (
            f"leader epoch {body.leader_epoch} follows leader epoch {known.leader_epoch}, although "
            f"{_leader(body.leader)} stays"
        )
    if body.leader_epoch > known.leader_epoch + 1:
        return f"leader epoch {body.leader_epoch} follows leader epoch {known.leader_epoch}, not one by one"
    return ""


def _leader(broker: int) -> str:
    return node_name(broker) if broker >= 0 else "no leader"


class Outstanding(msgspec.Struct, frozen=True):
    """The proposal that a leader made last, and the (leader epoch, partition epoch) that it rests on. over: what it was
    told, if that is that this state is over."""

    incarnation: int
    proposal: int
    base: tuple[int, int]
    by: Witness
    over: str = ""


class Newest(msgspec.Struct, frozen=True):
    """The newest state of a partition that a process has shown to know in a leader epoch."""

    incarnation: int
    leader_epoch: int
    partition_epoch: int
    by: Witness


class Proposals(State):
    """outstanding: "broker/topic partition" -> Outstanding; newest: the same -> Newest. accepted: topic partition -> of
    the changes that controllers made of proposals, the most recent: (leader epoch, partition epoch) that they were made
    on, and ISR."""

    profile: Profile = Profile()
    outstanding: dict[str, Outstanding] = {}
    newest: dict[str, Newest] = {}
    accepted: dict[str, list[tuple[int, int, frozenset[int]]]] = {}

    def knows(self, event: Stamped, body: IsrPropose | PartAssume, partition_epoch: int) -> Newest | None:
        """The event's process knows that state: the newer one of the same leader epoch that it knew, if any."""
        name = f"{event.node}/{body.tp}"
        known = self.newest.get(name)
        term = (event.incarnation, body.leader_epoch)
        same_term = known is not None and (known.incarnation, known.leader_epoch) == term
        if known is not None and same_term and known.partition_epoch > partition_epoch:
            return known
        self.newest[name] = Newest(*term, partition_epoch, witness(event))
        return None


class IsrChangesAreCompareAndSet(ControllerInvariant[Proposals]):
    """A leader decides who is in sync by the ISR that it knows. If the controller accepts a proposal that was made for
    an older state, it undoes the changes in between. If the leader takes an answer for that to another proposal, it
    relies on an ISR that is not the controller's. If it proposes again for an outdated state, or goes back to one, it
    makes no progress. The proposal has the broker epochs of the members, so that none joins by what a former
    incarnation of it held.

    Example: broker-1 proposes the ISR [1, 2, 3] on partition epoch 4. Meanwhile the controller fences broker-3, which
    makes partition epoch 5 with ISR [1, 2]. The controller accepts the proposal all the same, and the dead broker-3 is
    back in the ISR.
    """

    id = "P8"
    title = "An ISR changes as its leader proposed, and on the state for which it was proposed"
    source = "KIP-497; KIP-903; KAFKA-12686; KAFKA-14144"
    tested_when = "a controller changes an ISR for a proposal, or a leader learns the outcome of a proposal"
    unseen = ("needless refusals by the controller: P31 sees them",)
    types = (PartChange, IsrPropose, PartAssume)
    before_types = (PartChange, IsrPropose, PartAssume)

    REMEMBERED = 64

    def initial(self, key: str, profile: Profile) -> Proposals:
        return Proposals(key, profile=profile)

    def before(self, state: Proposals, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if type(body) is PartAssume:
            state.knows(event, body, body.partition_epoch)
            return NOTHING
        if type(body) is IsrPropose:
            return self._proposed(state, event, body) if body.outcome == "proposed" else self._told(state, event, body)
        assert type(body) is PartChange
        return self._changed(state, event, body, mirror) if body.cause == "alter-isr" else NOTHING

    def _changed(self, state: Proposals, event: Stamped, body: PartChange, mirror: MetadataView) -> Emissions:
        known = mirror.view_of(event).partition(body.tp)
        base = (body.leader_epoch, body.partition_epoch - 1)
        if known is not None:
            base = (known.leader_epoch, known.partition_epoch)
        accepted = state.accepted.setdefault(body.tp, [])
        accepted.append((*base, frozenset(body.isr)))
        del accepted[: -self.REMEMBERED]
        if known is None:
            return NOTHING
        state.tested += 1
        if asked_for := mirror.proposals_for(body, known):
            return self._epochs(state, event, body, asked_for)
        latest = next(
            (each for each in reversed(mirror.proposals.get(body.tp, ())) if set(each.body.isr) == set(body.isr)), None
        )
        asked = (
            "no leader had proposed that"
            if latest is None
            else f"{latest.node} had proposed that for partition epoch {latest.body.partition_epoch} of leader epoch "
            f"{latest.body.leader_epoch}"
        )
        return self.violated(
            body.tp,
            f"the controller changed the ISR of {body.tp} from {named(known.isr)} to {named(body.isr)} in partition "
            f"epoch {known.partition_epoch}, leader epoch {known.leader_epoch}, but {asked}",
            None if latest is None else latest.by,
            event,
        )

    def _epochs(self, state: Proposals, event: Stamped, body: PartChange, asked_for: Sequence[Proposal]) -> Emissions:
        """The broker epochs that the controller went by are those of a proposal, where requests have them."""
        latest = asked_for[-1]
        without = state.profile.is_older(ALTER_PARTITION, MEMBER_EPOCHS_SINCE, event.node, latest.node)
        if without or any(each.body.members == body.members for each in asked_for):
            return NOTHING
        return self.violated(
            body.tp,
            f"the controller changed the ISR of {body.tp} to {named(body.isr)} by broker epochs {_epochs_of(body)}; "
            f"{latest.node} had proposed it with {_epochs_of(latest.body)}",
            latest.by,
            event,
        )

    def _proposed(self, state: Proposals, event: Stamped, body: IsrPropose) -> Emissions:
        name, base = f"{event.node}/{body.tp}", (body.leader_epoch, body.partition_epoch)
        last = state.outstanding.get(name)
        state.outstanding[name] = Outstanding(event.incarnation, body.proposal, base, witness(event))
        again = last is not None and (last.incarnation, last.proposal) == (event.incarnation, body.proposal)
        newer = None if again else state.knows(event, body, body.partition_epoch)
        if newer is not None:
            return self.violated(
                body.tp,
                f"{event.node} proposed the ISR {named(body.isr)} of {body.tp} for partition epoch "
                f"{body.partition_epoch}, leader epoch {body.leader_epoch}, but knew partition epoch "
                f"{newer.partition_epoch} of it already",
                newer.by,
                event,
            )
        if last is None or not last.over or (last.incarnation, last.base) != (event.incarnation, base):
            return NOTHING
        return self.violated(
            body.tp,
            f"{event.node} proposed the ISR {named(body.isr)} of {body.tp} for partition epoch {body.partition_epoch}, "
            f"leader epoch {body.leader_epoch}, although an earlier proposal for these had been refused with "
            f"{last.over}",
            last.by,
            event,
        )

    def _told(self, state: Proposals, event: Stamped, body: IsrPropose) -> Emissions:
        state.tested += 1
        waiting = state.outstanding.get(f"{event.node}/{body.tp}")
        if waiting is None or (waiting.incarnation, waiting.proposal) != (event.incarnation, body.proposal):
            other = "no answer" if waiting is None else f"one to proposal {waiting.proposal}"
            return self.violated(
                body.tp,
                f"{event.node} took an answer to its proposal {body.proposal} for the ISR of {body.tp} while it waited "
                f"for {other}",
                None if waiting is None else waiting.by,
                event,
            )
        if body.outcome in OVER:
            state.outstanding[f"{event.node}/{body.tp}"] = msgspec.structs.replace(waiting, over=body.outcome)
        made = (body.leader_epoch, body.partition_epoch, frozenset(body.isr))
        if body.outcome != "accepted":
            return NOTHING
        if made in state.accepted.get(body.tp, ()):
            state.knows(event, body, body.partition_epoch + 1)
            return NOTHING
        return self.violated(
            body.tp,
            f"the controller accepted proposal {body.proposal} of {event.node}, the ISR {named(body.isr)} of {body.tp} "
            f"for partition epoch {body.partition_epoch}, but no controller made that change",
            waiting.by,
            event,
        )


class Standing(State):
    """elr: whether the cluster has eligible leader replicas, from its beginning to its end."""

    elr: bool = False


def _epochs_of(body: PartChange | IsrPropose) -> str:
    """Under which broker epochs a change, or a proposal, has its members, for a sentence."""
    return ", ".join(f"{epoch} of {node_name(int(member))}" for member, epoch in sorted(body.members.items())) or "none"


class TheDeadAreNotInCharge(ControllerInvariant[Standing]):
    """A fenced broker serves no client and copies no record. If it stays in an ISR, the high watermark waits for it; if
    it leads, the partition is unavailable until it comes back.

    Example: broker-3 is fenced at offset 120 of the metadata log and stays in the ISR of orders-0; broker-1 crashes,
    and the controller elects broker-3, which is dead, too. Or broker-1 proposes broker-3, which has caught up under
    broker epoch 40; meanwhile broker-3 loses its log, restarts under broker epoch 97, and joins the ISR by its former
    position (KAFKA-14139). A new incarnation that keeps broker epoch 40 joins by that position unnoticed. A broker that
    shuts down is still unfenced, but whoever waits for it soon waits in vain: the controller says so in its
    registration before it moves the leaderships away, and takes it into no ISR any more.
    """

    id = "P9"
    title = (
        "Leaders and ISR members are registered, unfenced brokers, under their current broker epochs, which every "
        "incarnation gets anew"
    )
    source = "KIP-841; KIP-903; KAFKA-13916"
    tested_when = "a controller changes a partition, or fences or registers a broker"
    unseen = (
        "brokers that are shutting down and are still in an ISR: they leave it by a separate change",
        "shutdowns of brokers whose registration an earlier controller wrote last, as it may not have told of all",
    )
    types = (PartChange, BrokerReg)
    before_types = (PartChange, BrokerReg)
    exemptions = {
        "last-member": "Without eligible leader replicas an ISR never becomes empty: its last member stays, without "
        "a leader.",
    }

    def initial(self, key: str, profile: Profile) -> Standing:
        return Standing(key, elr=profile.feature(ELR) not in ("", "0") and ELR not in profile.bounced)

    def before(self, state: Standing, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        view = mirror.view_of(event)
        if type(body) is PartChange:
            return self._leaving(body, event, view, mirror.epoch_of(event))
        assert type(body) is BrokerReg
        known = view.brokers.get(body.broker)
        if known is None:
            return NOTHING
        before = known.body
        assert type(before) is BrokerReg
        if body.broker_epoch < before.broker_epoch:
            wrong = (
                f"gave {node_name(body.broker)} broker epoch {body.broker_epoch} after broker epoch "
                f"{before.broker_epoch}: broker epochs must rise"
            )
        else:
            # A controller that ends within a step does not tell of all that its successor has in the log: what an older
            # quorum epoch wrote may not be the last that was written.
            same_term = known.epoch == mirror.epoch_of(event)
            wrong = _wrong_registration(before, body) if same_term else ""
        return self.violated(state.key, f"the controller {wrong}", known.by, event) if wrong else NOTHING

    def step(self, state: Standing, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        view = mirror.view_of(event)
        if type(body) is PartChange:
            state.tested += 1
            epoch = mirror.epoch_of(event)
            asked = (*self._judge_members(view, body, event), *self._judge_asked(view, body, event, epoch))
            return [*self._judge(state, view, body, event, None), *asked]
        assert type(body) is BrokerReg
        if not body.fenced:
            return NOTHING
        state.tested += 1
        found: list[Any] = []
        for entry in view.partitions.values():
            change = entry.body
            assert type(change) is PartChange
            if body.broker in change.isr or body.broker == change.leader:
                found.extend(self._judge(state, view, change, event, entry.by))
        return found

    def _judge(self, state: Standing, view: View, change: PartChange, event: Stamped, by: Witness | None) -> Emissions:
        """A partition's state against the registrations; ``by``: the change, where the event is a registration."""
        assert isinstance(event.body, PartChange | BrokerReg)
        where = f"at offset {event.body.offset} of the metadata log"
        if change.leader >= 0 and not view.is_unfenced(change.leader):
            return self.violated(
                change.tp,
                f"{node_name(change.leader)} leads {change.tp} in leader epoch {change.leader_epoch}, but is "
                f"{standing(view, change.leader)} {where}",
                by,
                event,
            )
        dead = [member for member in change.isr if not view.is_unfenced(member)]
        if not dead:
            return NOTHING
        sentence = (
            f"{node_name(dead[0])} is in the ISR {named(change.isr)} of {change.tp}, but is "
            f"{standing(view, dead[0])} {where}"
        )
        if not state.elr and change.leader < 0 and change.isr == dead[:1]:
            return self.excused("last-member", change.tp, sentence, by, event)
        return self.violated(change.tp, sentence, by, event)

    def _judge_members(self, view: View, change: PartChange, event: Stamped) -> Emissions:
        """The broker epochs by which a leader asked for an ISR against the registrations."""
        for member, epoch in change.members.items():
            entry = view.brokers.get(int(member))
            registered = view.broker(int(member))
            if epoch < 0 or entry is None or registered is None or registered.broker_epoch == epoch:
                continue  # before KIP-903 a request names no broker epochs
            return self.violated(
                change.tp,
                f"the ISR {named(change.isr)} of {change.tp} took in {node_name(int(member))} under broker epoch "
                f"{epoch}, but that broker is registered under broker epoch {registered.broker_epoch}",
                entry.by,
                event,
            )
        return NOTHING

    def _judge_asked(self, view: View, change: PartChange, event: Stamped, epoch: int) -> Emissions:
        """An ISR that a leader asked for: nobody in it shuts down, not even its former members."""
        for member in change.isr if change.cause == "alter-isr" else ():
            entry = view.brokers.get(member)
            registered = view.broker(member)
            if entry is not None and registered is not None and entry.epoch == epoch and registered.shutting_down:
                return self.violated(
                    change.tp,
                    f"the controller accepted the ISR {named(change.isr)} of {change.tp}, but {node_name(member)} is "
                    f"registered as shutting down",
                    entry.by,
                    event,
                )
        return NOTHING

    def _leaving(self, change: PartChange, event: Stamped, view: View, epoch: int) -> Emissions:
        """Who leaves an ISR, or loses the leadership, by a controlled shutdown: its registration says so before."""
        known = view.partition(change.tp)
        if known is None or change.cause != "controlled-shutdown":
            return NOTHING
        left = {*known.isr} - {*change.isr}
        if not left and change.leader != known.leader >= 0:
            left = {known.leader}
        for broker in sorted(left):
            entry, registered = view.brokers.get(broker), view.broker(broker)
            if entry is not None and registered is not None and entry.epoch == epoch and not registered.shutting_down:
                return self.violated(
                    change.tp,
                    f"the controller took {node_name(broker)} out of {change.tp} for its controlled shutdown, but had "
                    f"not registered it as shutting down",
                    entry.by,
                    event,
                )
        return NOTHING


def _wrong_registration(before: BrokerReg, body: BrokerReg) -> str:
    """What a controller did wrong with a broker's registration, after the one before it, or ""."""
    broker, epoch = node_name(body.broker), body.broker_epoch
    if body.incarnation == before.incarnation:
        return (
            ""
            if epoch == before.broker_epoch
            else f"gave {body.incarnation} broker epoch {epoch} in place of its own, {before.broker_epoch}"
        )
    if epoch == before.broker_epoch:
        return f"gave {body.incarnation} broker epoch {epoch}, which {before.incarnation} had"
    if body.fenced and not body.shutting_down:
        return ""
    state = "shutting down" if body.fenced else "unfenced"
    return f"registered {body.incarnation}, a new incarnation of {broker}, as {state}: it begins as fenced"


def standing(view: View, broker: int) -> str:
    """What keeps a broker from leading, for a sentence."""
    return "not registered" if view.broker(broker) is None else "fenced"
