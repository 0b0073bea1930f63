"""What the active controller promises about eligible leader replicas (KIP-966)."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import BrokerReg, ConfigChange, NodeDown, NodeUp, PartAssume, PartChange, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.config_records import resources
from orchestrator.invariants.mirrors.loss_budget import ELR
from orchestrator.invariants.mirrors.metadata_view import MetadataView, View
from orchestrator.invariants.mirrors.min_isr import MIN_ISR, UNSET
from orchestrator.invariants.partitions.controller import ControllerInvariant, named

UNCLEAN_SHUTDOWN = "unclean-shutdown"
NOBODY_STAYS = ("unclean", "config")
"""Changes after which nobody is eligible any more: an unclean election, and another least ISR."""


REGISTRATION, PREVIOUS_EPOCH_SINCE = "BrokerRegistration", 3
"""Version from which on a registration tells the broker epoch of the process that shut down cleanly."""


class CleanEnd(msgspec.Struct, frozen=True):
    """An incarnation that had taken up its replicas, and has shut down in good order: its file says so."""

    incarnation: str
    by: Witness


class Feature(State):
    """``on``: whether there are eligible leader replicas. ``in_use``: broker -> the number of the last incarnation that
    took up replicas. ``ended``: broker -> how that one ended, if it was in good order and its disk is whole.
    ``abrupt``: the newest quorum epoch whose controller ended abruptly, maybe before it told of all that it wrote.
    ``least``: controller -> the last request by which it changed min.insync.replicas, and of what."""

    on: bool = False
    profile: Profile = Profile()
    in_use: dict[str, int] = {}
    ended: dict[str, CleanEnd] = {}
    abrupt: int = -1
    least: dict[str, tuple[str, list[str]]] = {}

    def configured(self, event: Stamped, body: ConfigChange) -> None:
        """A controller has changed a configuration."""
        if body.key == MIN_ISR:
            req, changed = self.least.get(event.node, ("", []))
            self.least[event.node] = (event.req, [*(changed if req == event.req else ()), body.resource])

    def down(self, event: Stamped, body: NodeDown, epoch: int) -> None:
        """A process has ended; ``epoch``: the quorum epoch that it led last, -1 none."""
        node, number = event.node, event.incarnation
        if body.mode not in ("clean", "end"):
            self.abrupt = max(self.abrupt, epoch)
        if body.mode == "clean" and self.in_use.get(node) == number:
            self.ended[node] = CleanEnd(f"{node}/{number}", witness(event))
        elif body.mode == "lossy" or self.in_use.get(node) == number:
            self.ended.pop(node, None)


class EligibleReplicasAreThoseWhoLeft(ControllerInvariant[Feature]):
    """A replica that leaves an ISR that is too small to commit has all committed records, and may lead when the rest of
    the ISR is gone, too. If a replica that left for another reason counts as eligible, or stays eligible while more is
    committed, an election that is called clean loses records. If an eligible replica is forgotten, a partition stays
    without a leader although a complete replica is up.

    Example: min.insync.replicas of orders-0 is 2; its ISR shrinks to 1, with 2 eligible, and grows to 1, 3. Broker-2
    stays eligible. It lacks the records that brokers 1 and 3 commit from now on; both crash, and it is elected. Or
    broker-2 shuts down in good order and is started again, and the controller takes it for one that may have lost
    records: it leaves the eligible leader replicas, and nobody can lead. Or an operator changes retention.ms of
    orders, and the controller forgets who was eligible, as it has to for another min.insync.replicas.
    """

    id = "P20"
    title = "Eligible leader replicas are exactly those that left a too small ISR, for as long as the ISR is too small"
    source = "KIP-966; Kafka's PartitionChangeBuilder; kafka-tlaplus ValidControllerIsrAndElr"
    tested_when = (
        "with eligible.leader.replicas.version 1, a controller changes a partition, or registers a broker after an "
        "unclean shutdown; with any version, a controller registers a broker after a clean shutdown"
    )
    unseen = (
        "an unclean shutdown that counts as clean: the check relies on the controller, and P5 judges the replica's log",
        "clean shutdowns of brokers that had no replicas, or whose disk has lost something since",
        "registrations below version 3, which do not tell of the shutdown",
    )
    types = (PartChange, BrokerReg, ConfigChange, PartAssume, NodeUp, NodeDown)
    before_types = (PartChange, BrokerReg)

    def initial(self, key: str, profile: Profile) -> Feature:
        return Feature(key, on=profile.feature(ELR) not in ("", "0"), profile=profile)

    def before(self, state: Feature, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        view = mirror.view_of(event)
        if type(body) is BrokerReg:
            return self._registered(state, event, body, view)
        assert type(body) is PartChange
        least, by = _least(state, event.node, body, view)
        if body.min_isr != least:
            wrong = f"the least ISR {body.min_isr}, but the log says {least}"
            return self.violated(body.tp, f"{_gave(body)} {wrong}", by, event)
        entry = view.partitions.get(body.tp)
        if entry is None or not state.on:
            return NOTHING
        before = entry.body
        assert type(before) is PartChange
        wrong = _wrong_change(before, body) or _wrong_cause(state, event, body)
        if not wrong:
            return NOTHING
        return self.violated(body.tp, f"{_said(body)}, after {_state(before)}: {wrong}", entry.by, event)

    def _registered(self, state: Feature, event: Stamped, body: BrokerReg, view: View) -> Emissions:
        """A registration after a clean shutdown of the incarnation before is no unclean one. If that is not the last
        one that took up replicas, its file is of an older one; and what a controller wrote that ended abruptly is not
        relied on, as it may have written more than it told."""
        node = node_name(body.broker)
        entry, ended = view.brokers.get(body.broker), state.ended.get(node)
        if entry is None or ended is None or entry.epoch <= state.abrupt:
            return NOTHING
        known = entry.body
        assert type(known) is BrokerReg
        is_new = body.incarnation != known.incarnation == ended.incarnation
        if not is_new or state.profile.is_older(REGISTRATION, PREVIOUS_EPOCH_SINCE, node, event.node):
            return NOTHING
        state.tested += 1
        if not body.unclean:
            return NOTHING
        return self.violated(
            state.key,
            f"the controller registered {body.incarnation} as started after an unclean shutdown, but "
            f"{known.incarnation} had shut down cleanly",
            ended.by,
            event,
        )

    def step(self, state: Feature, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if type(body) is PartAssume:
            state.in_use[event.node] = event.incarnation
            return NOTHING
        if type(body) is NodeDown:
            state.down(event, body, mirror.elections.epoch_of(event.node))
            return NOTHING
        if type(body) is ConfigChange:
            state.configured(event, body)
            return NOTHING
        if type(body) is NodeUp:
            if body.wiped or body.torn:
                state.ended.pop(event.node, None)
            return NOTHING
        if type(body) is PartChange:
            state.tested += state.on
            wrong = _wrong_state(body) if state.on else _wrong_without(body)
            return self.violated(body.tp, f"{_said(body)}: {wrong}", event) if wrong else NOTHING
        assert type(body) is BrokerReg
        if not body.unclean or not state.on:
            return NOTHING
        state.tested += 1
        for entry in mirror.view_of(event).partitions.values():
            known = entry.body
            assert type(known) is PartChange
            if body.broker in (*known.isr, *known.elr):
                return self.violated(
                    known.tp,
                    f"{node_name(body.broker)} was registered after an unclean shutdown, but {known.tp} still has "
                    f"{_state(known)}",
                    entry.by,
                    event,
                )
        return NOTHING


def _least(state: Feature, node: str, body: PartChange, view: View) -> tuple[int, Witness | None]:
    """The least ISR that a controller must go by, never more than there are replicas, and the record that says so
    (``ReplicationControlManager.getTopicEffectiveMinIsr``)."""
    for resource in resources(node, body.tp):
        entry = view.configs.get((resource, MIN_ISR))
        value = view.config(resource, MIN_ISR)
        if entry is not None and value is not None:
            return min(int(value), len(body.replicas)), entry.by
    return min(int(state.profile.setting(MIN_ISR, node, UNSET)), len(body.replicas)), None


def _said(body: PartChange) -> str:
    return f"{_gave(body)} {_state(body)}"


def _gave(body: PartChange) -> str:
    return f"the controller gave {body.tp} in partition epoch {body.partition_epoch} ({body.cause})"


def _state(body: PartChange) -> str:
    known = f", the last known leader {named(body.last_known_elr)}" if body.last_known_elr else ""
    return f"the ISR {named(body.isr)}, the eligible leader replicas {named(body.elr)}{known}"


def _wrong_state(body: PartChange) -> str:
    """What is wrong with a state by itself, or ""."""
    if both := sorted({*body.isr} & {*body.elr}):
        return f"{named(both)} are in both"
    if body.elr and len(body.isr) >= body.min_isr:
        return f"the ISR has min.insync.replicas ({body.min_isr}) members, so no other replica may be eligible"
    if body.last_known_elr and body.leader >= 0:
        return f"{node_name(body.leader)} leads, so no last known leader may be recorded"
    return ""


def _wrong_without(body: PartChange) -> str:
    """What is wrong with a state where the feature is off, or ""."""
    return "this cluster has eligible leader replicas off" if body.elr or body.last_known_elr else ""


def _wrong_change(before: PartChange, body: PartChange) -> str:
    """What is wrong with a state after the one before, or ""."""
    eligible = {*before.isr, *before.elr}
    if foreign := sorted({*body.elr} - eligible):
        return f"{named(foreign)} were neither in the ISR nor eligible"
    if before.isr and not body.isr and body.last_known_elr != [before.leader]:
        return f"the ISR is empty, so {node_name(before.leader)} must be recorded as the last known leader"
    if len(body.isr) >= body.min_isr or body.cause in NOBODY_STAYS:
        return ""
    forgotten = sorted(eligible - {*body.isr} - {*body.elr})
    allowed = 1 if body.cause == UNCLEAN_SHUTDOWN else 0
    return (
        f"{named(forgotten)} left an ISR below min.insync.replicas, so they must be eligible"
        if len(forgotten) > allowed
        else ""
    )


def _wrong_cause(state: Feature, event: Stamped, body: PartChange) -> str:
    """What is wrong with a change that the configuration entails, or "": another min.insync.replicas of the topic, or
    of all brokers, comes before it in the step."""
    if body.cause != "config":
        return ""
    req, changed = state.least.get(event.node, ("", []))
    topic, _, brokers = resources(event.node, body.tp)
    if req == event.req and (topic in changed or brokers in changed):
        return ""
    return f"no change of {MIN_ISR} of {topic.partition('/')[2]}, or of all brokers, came before it"
