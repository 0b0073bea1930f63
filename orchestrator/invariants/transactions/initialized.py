"""What producers are told when their transactions are initialized: T16."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.trace.events import InitReturn, NodeDown, PartChange, Stamped, TxnState
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import PRODUCER_ID
from orchestrator.invariants.mirrors.loss import LOSS
from orchestrator.invariants.mirrors.partition_losses import PartitionLosses
from orchestrator.invariants.transactions.timeouts import timeout_of

REMEMBERED = 1 << 8
"""Epochs of a producer id in which producers were initialized that are remembered."""


class Given(msgspec.Struct, frozen=True, gc=False):
    """An epoch in which a coordinator has initialized a producer. ``home``: partition of the transaction log that has
    it; ``coordinator_epoch``: in which it got it for the first time, when disks had lost some of that partition
    ``losses`` times. ``timeouts_ms``: with which; more than one if it was given again. ``told``: who was."""

    home: str
    coordinator_epoch: int
    losses: int
    timeouts_ms: tuple[int, ...]
    told: Witness | None = None


class Epochs(State):
    """Of a producer id. ``given``: by epoch; ``forgotten``: the newest one that is remembered no more, -1 there is
    none. ``timeouts_ms``: client -> its transaction.timeout.ms. ``losses``: of the transaction log."""

    given: dict[int, Given] = {}
    forgotten: int = -1
    timeouts_ms: dict[str, int] = {}
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)

    def give(self, body: TxnState) -> None:
        """A coordinator has committed an epoch for whoever asked for it."""
        known = self.given.pop(body.producer_epoch, None)
        if known is None:
            losses = self.losses.count(body.tp)
            known = Given(body.tp, body.coordinator_epoch, losses, (body.timeout_ms,))
        elif body.timeout_ms not in known.timeouts_ms:
            known = msgspec.structs.replace(known, timeouts_ms=(*known.timeouts_ms, body.timeout_ms))
        self.given[body.producer_epoch] = known
        if len(self.given) > REMEMBERED:
            oldest = next(iter(self.given))
            self.forgotten = max(self.forgotten, oldest)
            del self.given[oldest]


class EachProducerHasItsEpoch(KeyedInvariant[Epochs]):
    """A producer that begins anew fences all others with its transactional id by a new epoch. If two of them have the
    same one, neither is fenced, and both write in the same transactions. If the epoch is not in the transaction log
    when the producer is told of it, the next coordinator gives it to another one.

    Example: broker-1 gives app-1 producer 7 and epoch 4, and does not wait for its followers. It crashes, and broker-2,
    whose log ends before that, gives the next process of app-1 epoch 4, too. Or app-1 asks for a timeout of 6 s, and
    gets that of the process which had its id before.
    """

    id = "T16"
    title = (
        "A producer is initialized with its own timeout, in an epoch that no other producer was told of, and only "
        "after its coordinator has committed that"
    )
    source = (
        "KIP-98; Kafka's TransactionCoordinator.handleInitProducerId, TransactionMetadata.prepareIncrementProducerEpoch"
    )
    tested_when = "a producer is told that its transactions are initialized"
    route = PRODUCER_ID
    of_transactions = True
    types = (TxnState, InitReturn)
    news = (PartChange, NodeDown)
    exemptions = LOSS
    unseen = (
        "requests by which a producer raises its epoch: T11 judges the epochs that come of them",
        f"an answer that comes when the next {REMEMBERED} epochs of its producer id are given",
    )

    def initial(self, key: str, profile: Profile) -> Epochs:
        timeouts_ms = {client: timeout_of(profile, client) for client in profile.transactional}
        return Epochs(key, timeouts_ms=timeouts_ms, losses=PartitionLosses(profile, ("__transaction_state-",)))

    def hear(self, state: Epochs, event: Stamped) -> Emissions:
        state.losses.take(event)
        return NOTHING

    def step(self, state: Epochs, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is InitReturn:
            return self._told(state, event, body) if body.outcome == "ok" else NOTHING
        if body.to_state == "Empty":
            state.give(body)
        return NOTHING

    def _told(self, state: Epochs, event: Stamped, body: InitReturn) -> Emissions:
        given = state.given.get(body.producer_epoch)
        if given is None and body.producer_epoch <= state.forgotten:
            return NOTHING
        state.tested += 1
        sentence = (
            f"{event.node} is told that {body.transactional_id} has producer id {state.key}, epoch "
            f"{body.producer_epoch}"
        )
        if given is None:
            return self.violated(state.key, f"{sentence}, but no coordinator has committed that", event)
        own = state.timeouts_ms.get(event.node)
        state.given[body.producer_epoch] = msgspec.structs.replace(given, told=given.told or witness(event))
        if given.told is not None:
            sentence += f", as {given.told.node} was told before"
            if rule := state.losses.rule(given.home, given.coordinator_epoch, since=given.losses):
                return self.excused(rule, state.key, sentence, given.told, event)
            return self.violated(state.key, sentence, given.told, event)
        if own is not None and own not in given.timeouts_ms:
            told = " or ".join(f"{each:,} ms" for each in given.timeouts_ms)
            sentence += f", with a timeout of {told}, but it asked for {own:,} ms"
            return self.violated(state.key, sentence, event)
        return NOTHING
