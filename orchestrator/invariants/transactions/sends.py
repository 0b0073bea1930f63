"""What an application is promised of the records that it has sent in a transaction: T17."""

from __future__ import annotations

import msgspec

from actors.trace.events import EndReturn, SendInvoke, SendReturn, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import NODE


class Lost(msgspec.Struct, frozen=True, gc=False):
    """A send that returned without an acknowledgement."""

    tp: str
    outcome: str
    by: Witness


class Sending(State):
    """Of a client. ``transaction``: the one that it has sent in last, by incarnation and number; ``sends``: how many;
    ``open``: uid of a record of it -> topic partition and witness, as long as its send has not returned. ``lost``: uid
    -> the same of sends of it that returned without an acknowledgement."""

    transaction: tuple[int, int] = (-1, -1)
    sends: int = 0
    open: dict[str, tuple[str, Witness]] = {}
    lost: dict[str, Lost] = {}


class CommitsCoverTheirSends(KeyedInvariant[Sending]):
    """An application that is told that its transaction is committed takes all records for written that it sent in it.
    If the producer asks for the end while a send is under way, that record comes too late, and is refused; the
    transaction is committed without it.

    Example: producer-1 sends producer-1:7 to orders-0 in transaction 3, and commits. It asks broker-2 for the end
    before broker-1 has acknowledged the record. Transaction 3 is committed, and producer-1:7 is not in it.

    A record whose topic was made anew while it was under way is sent again, to the new topic: that send counts.
    """

    id = "T17"
    title = "A transaction is committed only when all records that were sent in it are acknowledged"
    source = "KafkaProducer.commitTransaction; KIP-98"
    tested_when = "an application is told that a transaction with records is committed"
    route = NODE
    of_transactions = True
    types = (SendInvoke, SendReturn, EndReturn)
    unseen = (
        "transactions whose application does not learn that they are committed",
        "whether an acknowledged record is in the transaction: C1 and T5 check that",
    )

    def initial(self, key: str, profile: Profile) -> Sending:
        return Sending(key)

    def step(self, state: Sending, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is SendInvoke:
            if isinstance(body.transaction, int):
                self._sent(state, event, body, body.transaction)
        elif type(body) is SendReturn:
            before = state.open.pop(body.uid, None)
            if before is not None and body.outcome != "ok":
                state.lost[body.uid] = Lost(body.tp, body.outcome, witness(event))
        elif type(body) is EndReturn and state.transaction == (event.incarnation, body.transaction):
            return self._ended(state, event, body)
        return NOTHING

    def _sent(self, state: Sending, event: Stamped, body: SendInvoke, number: int) -> None:
        if state.transaction != (event.incarnation, number):
            state.transaction = (event.incarnation, number)
            state.sends, state.open, state.lost = 0, {}, {}
        state.lost.pop(body.uid, None)  # it is sent again, to the topic that has the name now
        state.sends += 1
        state.open[body.uid] = (body.tp, witness(event))

    def _ended(self, state: Sending, event: Stamped, body: EndReturn) -> Emissions:
        if not body.commit or body.outcome != "ok" or not state.sends:
            return NOTHING
        state.tested += 1
        told = f"{event.node} was told that its transaction {body.transaction} is committed, but "
        for uid, lost in state.lost.items():
            how = "failed" if lost.outcome == "fail" else "returned without an acknowledgement"
            sentence = f"{told}its send of {uid} to {lost.tp} had {how}"
            return self.violated(state.key, sentence, lost.by, event)
        for uid, (tp, by) in state.open.items():
            sentence = f"{told}its send of {uid} to {tp} had not returned"
            return self.violated(state.key, sentence, by, event)
        return NOTHING
