"""What the metadata epochs of KIP-232, as it was first proposed, promise: M3, M6 and M7."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from actors.trace.events import (
    CommitInvoke,
    CommittedReturn,
    ConsPos,
    CtlFault,
    ErrorSeen,
    MetaMint,
    MetaView,
    MetaWait,
    NodeUp,
    PollReturn,
    Stamped,
)
from chaos.faults.disk import DiskWipe
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import CONTROLLER, NODE

SEED = {"kip-232": "seed"}
EPOCH = 2
"""Where an entry has its metadata epoch."""


def epoch_of(body: MetaView) -> int:
    """The metadata epoch of an answer, -1 none."""
    return body.metadata_epoch if isinstance(body.metadata_epoch, int) else -1


def taken_epoch(body: MetaView) -> int:
    """The metadata epoch of an answer that was taken over, -1 if it has none, or was left alone for it."""
    return -1 if body.metadata_accepted is False else epoch_of(body)


class Minted(msgspec.Struct, frozen=True):
    """A metadata epoch, and who gave it to what."""

    epoch: int
    controller_epoch: int
    digest: int | None
    by: Witness


REMEMBERED = 1024
"""Metadata epochs of which it is remembered who minted them."""


ANSWERS = 256
"""Answers of a broker that are remembered."""


class Told(msgspec.Struct, frozen=True, gc=False):
    """What a broker told a client, after its own event ``seq``."""

    incarnation: int
    seq: int
    epoch: int
    by: Witness


class Epochs(State):
    """minted: by metadata epoch, as they came; first, last: controller epoch -> lowest and highest that it minted.
    told: by broker. wiped: a controller's disk was wiped."""

    minted: dict[int, Minted] = {}
    first: dict[int, Minted] = {}
    last: dict[int, Minted] = {}
    told: dict[str, list[Told]] = {}
    wiped: bool = False


class EpochsAreMintedOnce(KeyedInvariant[Epochs]):
    """The metadata epoch tells clients which of two answers is newer. If two controllers give one epoch to two updates,
    or a new controller begins below the old one, clients take newer metadata for older, and refuse it.

    Example: controller-1 mints 7 for an update and is deposed; controller-2 has not heard of it and mints 7 for another
    one. Or a client gets metadata with epoch 9 when 8 is the last one that any controller has minted. Or broker-3
    serves 7 after it served 8, because it accepts updates of a deposed controller.
    """

    id = "M3"
    title = "Each metadata epoch is minted once, epochs rise from controller to controller, and clients see no others"
    source = "KIP-232 (version 16), Proposed Changes 1"
    tested_when = "a controller mints a metadata epoch after another one, or a client gets one"
    route = CONTROLLER
    types = (MetaMint, MetaView)
    at = SEED
    exemptions = {
        "wiped": "A controller's disk was wiped before: the quorum may have lost the last metadata epochs.",
    }
    unseen = (
        f"the minting of epochs in answers to clients that are more than {REMEMBERED:,} epochs old",
        (
            "a broker that goes back to a former controller between two of its events, or within the updates of one "
            "controller"
        ),
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlFault,)

    def initial(self, key: str, profile: Profile) -> Epochs:
        return Epochs(key)

    def hear(self, state: Epochs, event: Stamped) -> Emissions:
        body: Any = event.body
        if body.kind == DiskWipe.kind and body.phase == "start":
            state.wiped = state.wiped or any(name.startswith("controller-") for name in body.targets)
        return NOTHING

    def step(self, state: Epochs, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is MetaMint:
            return self._minted(state, event, body)
        epoch = epoch_of(body)
        if epoch < 0 or (epoch not in state.minted and len(state.minted) == REMEMBERED and epoch < min(state.minted)):
            return NOTHING
        state.tested += 1
        if found := self._told(state, event, body.server, epoch):
            return found
        if epoch in state.minted:
            return NOTHING
        sentence = f"{body.server} gave {event.node} metadata epoch {epoch:,}, but no controller has minted it"
        return self._found(state, sentence, None, event)

    def _told(self, state: Epochs, event: Stamped, server: str, epoch: int) -> Emissions:
        """The finding if a broker went back to what a former controller sent. Its answers are in the order of its own
        events. What one controller sends may arrive in another order, on another connection, and brokers take that."""
        node, _, rest = event.cause.partition("/")
        if node != server:
            return NOTHING
        incarnation, seq = map(int, rest.split("/"))
        known = state.told.setdefault(server, [])
        for each in known:
            earlier, later = sorted(((each.seq, each.epoch), (seq, epoch)))
            ordered = each.incarnation == incarnation and earlier[0] < later[0]
            if ordered and self._controller(state, earlier[1]) > self._controller(state, later[1]) >= 0:
                sentence = (
                    f"{server} gave {event.node} metadata epoch {later[1]:,} after it had given {earlier[1]:,}"
                    if later == (seq, epoch)
                    else f"{server} gave {event.node} metadata epoch {earlier[1]:,} before it gave {later[1]:,}"
                )
                return self._found(state, sentence, each.by, event)
        known.append(Told(incarnation, seq, epoch, witness(event)))
        del known[:-ANSWERS]
        return NOTHING

    def _controller(self, state: Epochs, epoch: int) -> int:
        """The controller epoch in which a metadata epoch was minted, -1 unknown."""
        return state.minted[epoch].controller_epoch if epoch in state.minted else -1

    def _minted(self, state: Epochs, event: Stamped, body: MetaMint) -> Emissions:
        own = Minted(body.epoch, body.controller_epoch, body.digest, witness(event))
        known = state.minted.get(body.epoch)
        older = [each for of, each in state.last.items() if of < body.controller_epoch]
        newer = [each for of, each in state.first.items() if of > body.controller_epoch]
        before = max(older, key=_epoch, default=None)
        after = min(newer, key=_epoch, default=None)
        last = state.last.get(body.controller_epoch)
        state.tested += bool(state.minted)
        state.minted.setdefault(body.epoch, own)
        if len(state.minted) > REMEMBERED:
            del state.minted[min(state.minted)]
        state.first.setdefault(body.controller_epoch, own)
        if last is None or own.epoch > last.epoch:
            state.last[body.controller_epoch] = own
        sentence = f"{event.node} minted metadata epoch {body.epoch:,} in controller epoch {body.controller_epoch}"
        if known is not None:
            another = "" if known.digest == body.digest else " for another cluster"
            sentence += f", which {known.by.node} had minted{another} in controller epoch {known.controller_epoch}"
            return self._found(state, sentence, known.by, event)
        if last is not None and body.epoch < last.epoch:
            return self._found(state, f"{sentence}, after {last.epoch:,}", last.by, event)
        if before is not None and body.epoch <= before.epoch:
            sentence += f", after {before.epoch:,} in controller epoch {before.controller_epoch}"
            return self._found(state, sentence, before.by, event)
        if after is not None and body.epoch >= after.epoch:
            sentence += f", although {after.epoch:,} was minted in controller epoch {after.controller_epoch}"
            return self._found(state, sentence, after.by, event)
        return NOTHING

    def _found(self, state: Epochs, sentence: str, by: Witness | None, event: Stamped) -> Emissions:
        if state.wiped:
            return self.excused("wiped", state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)


def _epoch(minted: Minted) -> int:
    return minted.epoch


class Demand(msgspec.Struct, frozen=True):
    """A metadata epoch that a client has to have before it reads a partition."""

    epoch: int
    by: Witness


class Waiting(State):
    """Of one client in one incarnation. epoch: of the metadata that it took over last, -1 none; by: that event.
    demands: by topic partition."""

    epoch: int = -1
    by: Witness | None = None
    demands: dict[str, Demand] = {}


FETCH = "Fetch"


class ConsumptionWaitsForMetadata(KeyedInvariant[Waiting]):
    """A committed position belongs to the cluster as of the commit's metadata epoch. A consumer that begins there with
    older metadata asks a replaced leader, which does not have the position: it is out of range, and is reset.

    Example: consumer-2 looks up its position and gets 40 of orders-0, committed with metadata epoch 7. Its own metadata
    has epoch 5, and it fetches.

    For that each commit carries the metadata epoch that its consumer has: without it the next member does not wait.
    """

    id = "M6"
    title = "A consumer begins at a committed position only with metadata that is no older than the commit's"
    source = "KIP-232 (version 16), Proposed Changes 3 and 4; KAFKA-6262"
    tested_when = "a consumer reads a partition for the first time after it looked up a position with a metadata epoch"
    route = NODE
    types = (NodeUp, CommitInvoke, CommittedReturn, MetaView, PollReturn, ConsPos, ErrorSeen)
    of_groups = True
    at = SEED
    unseen = (
        (
            "the time at which a Fetch was sent: only its result shows that it was, and metadata may have arrived in "
            "between"
        ),
    )

    def initial(self, key: str, profile: Profile) -> Waiting:
        return Waiting(key)

    def step(self, state: Waiting, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is NodeUp:
            state.epoch, state.by, state.demands = -1, None, {}
        elif kind is MetaView:
            if taken_epoch(body) >= 0:
                state.epoch, state.by = taken_epoch(body), witness(event)
        elif kind is CommitInvoke:
            return self._commits(state, event, body)
        elif kind is CommittedReturn:
            for tp, entry in body.offsets.items() if body.outcome == "ok" else ():
                state.demands.pop(tp, None)
                if entry[EPOCH] >= 0:
                    state.demands[tp] = Demand(entry[EPOCH], witness(event))
        elif _has_fetched(body) and body.tp in state.demands:
            return self._fetched(state, event, body.tp)
        elif kind is ConsPos and body.reason in ("seek", "assign"):
            state.demands.pop(body.tp, None)
        return NOTHING

    def _commits(self, state: Waiting, event: Stamped, body: CommitInvoke) -> Emissions:
        for tp, entry in body.offsets.items():
            if entry[EPOCH] != state.epoch:
                sentence = (
                    f"{event.node} commits {tp} with metadata epoch {entry[EPOCH]:,} while its own metadata has epoch "
                    f"{state.epoch:,}"
                )
                return self.violated(state.key, sentence, state.by, event)
        return NOTHING

    def _fetched(self, state: Waiting, event: Stamped, tp: str) -> Emissions:
        demand = state.demands.pop(tp)
        state.tested += 1
        if state.epoch >= demand.epoch:
            return NOTHING
        sentence = (
            f"{event.node} read {tp} from an offset committed with metadata epoch {demand.epoch} while its own "
            f"metadata had epoch {state.epoch}"
        )
        return self.violated(state.key, sentence, demand.by, event)


def _has_fetched(body: Any) -> bool:
    """Whether an event shows that a consumer has asked the leader of a partition for records."""
    if type(body) is ErrorSeen:
        return body.api == FETCH and bool(body.tp)
    if type(body) is ConsPos:
        return body.reason in ("reset", "truncation") and body.old >= 0
    return type(body) is PollReturn


class Reached(msgspec.Struct, frozen=True):
    """Up to where a consumer came in a partition, and the metadata epoch that it had then."""

    position: int
    epoch: int
    by: Witness


POSITIONS = 1024
"""Positions of a partition that are remembered, of the incarnation before."""


class External(State):
    """Of one client. epoch: of the metadata that it took over last; waited: the highest that it waited for with
    success; both of this incarnation. reached: topic partition -> where polls left it, of all incarnations."""

    epoch: int = -1
    waited: int = -1
    reached: dict[str, list[Reached]] = {}


class ExternalPositionsWait(KeyedInvariant[External]):
    """Positions that an application stores outside Kafka are no safer than committed ones: the application has to store
    the metadata epoch with them, and to wait for that epoch before it seeks to one.

    Example: the application has stored 40 of orders-0 with metadata epoch 7, restarts, and seeks there when its
    consumer has metadata with epoch 5. Or it reached 40 with metadata epoch 7, and stored an older epoch with it.
    """

    id = "M7"
    title = "A consumer seeks to a position kept outside Kafka only with metadata that is no older than the position's"
    source = "KIP-232 (version 16), Proposed Changes 5"
    tested_when = "an application seeks to a position that it has stored with a metadata epoch"
    route = NODE
    types = (NodeUp, MetaView, MetaWait, PollReturn, ConsPos)
    at = SEED
    unseen = (f"the epoch that was stored with a position from more than {POSITIONS:,} polls ago",)

    def initial(self, key: str, profile: Profile) -> External:
        return External(key)

    def step(self, state: External, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is NodeUp:
            state.epoch = state.waited = -1
        elif kind is MetaView:
            if taken_epoch(body) >= 0:
                state.epoch = taken_epoch(body)
        elif kind is MetaWait:
            return self._waited(state, event, body)
        elif kind is PollReturn:
            if body.outcome == "ok" and body.records:
                known = state.reached.setdefault(body.tp, [])
                known.append(Reached(body.records[-1].offset + 1, state.epoch, witness(event)))
                del known[:-POSITIONS]
        elif body.metadata_epoch is not UNSET:
            return self._sought(state, event, body)
        return NOTHING

    def _waited(self, state: External, event: Stamped, body: MetaWait) -> Emissions:
        state.tested += 1
        if body.reached:
            state.waited = max(state.waited, body.epoch)
        has = state.epoch >= body.epoch
        if has == body.reached:
            return NOTHING
        said = "reached" if body.reached else "not reached"
        sentence = (
            f"the wait of {event.node} for metadata epoch {body.epoch} ended as {said}, but its metadata had epoch "
            f"{state.epoch}"
        )
        return self.violated(state.key, sentence, event)

    def _sought(self, state: External, event: Stamped, body: ConsPos) -> Emissions:
        kept = body.metadata_epoch
        assert isinstance(kept, int)
        there = [each for each in state.reached.get(body.tp, ()) if each.position == body.new]
        least = there[0] if there else None
        needed = max(kept, -1 if least is None else least.epoch)
        if needed < 0:
            return NOTHING
        state.tested += 1
        if max(state.epoch, -1) >= needed and (kept < 0 or state.waited >= kept):
            return NOTHING
        had = (
            f"its metadata has epoch {state.epoch}"
            if state.epoch < needed
            else f"it has waited for metadata epoch {state.waited} at most"
            if state.waited >= 0
            else "it has waited for no metadata epoch"
        )
        sentence = (
            f"{event.node} seeks to the external offset {body.new:,} of {body.tp}, stored with metadata epoch {kept}"
            + (f" and reached with metadata epoch {least.epoch}" if least is not None else "")
            + f", but {had}"
        )
        return self.violated(state.key, sentence, None if least is None else least.by, event)
