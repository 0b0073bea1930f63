"""What transactions that read and write have of one another: C9."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from actors.trace.events import BeginInvoke, EndReturn, SendInvoke, Stamped
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    committed_alone,
    witness,
)
from orchestrator.invariants.folds.routes import RUN

REMEMBERED = 1 << 12
"""Transactions that are remembered."""
RECORDS_REMEMBERED = 1 << 16
"""Records of transactions that are remembered."""


class Reading(msgspec.Struct):
    """A transaction. ``sources``: those from whose records it has made some of its own -> how the first one was sent.
    ``committed``: how its application was told that it is, None it was not."""

    name: str
    sources: dict[str, Witness] = {}
    committed: Witness | None = None


class Histories(State):
    """``readers``: clients at read_committed. ``known``: transaction -> what is known of it; ``open``: client's
    incarnation -> its transaction; ``writers``: uid of a record -> the transaction that it was sent in."""

    readers: set[str] = set()
    known: dict[str, Reading] = {}
    open: dict[str, str] = {}
    writers: dict[str, str] = {}


class InformationFlowsOneWay(KeyedInvariant[Histories]):
    """A transaction at read_committed reads records of committed transactions only. If two transactions have each read
    from the other, each has read records that were not committed yet, and no order of the two explains that.

    Example: processor-1 reads producer-1:57 in transaction 4, and sends processor-1:12. Processor-2 reads that in its
    transaction 9, and sends processor-2:3. Processor-1 reads processor-2:3, still in transaction 4. Both transactions
    are committed.

    A transaction counts as having read a record if it sent a record that was made from it. Cycles that depend on the
    order of writes are allowed: Kafka isolates neither writes from one another nor reads of several partitions.
    """

    id = "C9"
    title = "No two committed transactions have each read from the other, directly or through further transactions"
    source = "Adya's G1c, as in Jepsen's kafka workload and Elle"
    tested_when = (
        "a transaction at read_committed is committed after it sent records that it had made from another one's records"
    )
    route = RUN
    of_transactions = True
    types = (SendInvoke, BeginInvoke, EndReturn)
    unseen = (
        "Transactions whose application did not learn the outcome.",
        "Records that a transaction reads without sending a record made from them.",
        f"Cycles of transactions that are {REMEMBERED:,} transactions apart.",
    )

    def initial(self, key: str, profile: Profile) -> Histories:
        return Histories(key, readers=committed_alone(profile))

    def step(self, state: Histories, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is SendInvoke:
            if isinstance(body.transactional_id, str):
                self._sent(state, event, body)
        elif type(body) is BeginInvoke:
            client = f"{event.node}/{event.incarnation}"
            name = f"transaction {body.transaction} of {client if event.incarnation else event.node}"
            state.open[client] = name
            state.known[name] = Reading(name)
            if len(state.known) > REMEMBERED:
                del state.known[next(iter(state.known))]
        elif type(body) is EndReturn:
            transaction = state.known.get(state.open.get(f"{event.node}/{event.incarnation}", ""))
            if transaction is not None and body.commit and body.outcome == "ok":
                transaction.committed = witness(event)
                if transaction.sources:
                    return self._committed(state, event, transaction)
        return NOTHING

    def _sent(self, state: Histories, event: Stamped, body: SendInvoke) -> None:
        name = state.open.get(f"{event.node}/{event.incarnation}", "")
        state.writers[body.uid] = name
        if len(state.writers) > RECORDS_REMEMBERED:
            del state.writers[next(iter(state.writers))]
        if isinstance(body.copy_of, str) and event.node in state.readers and name in state.known:
            source = state.writers.get(body.copy_of, "")
            if source and source != name:
                state.known[name].sources.setdefault(source, witness(event))

    def _committed(self, state: Histories, event: Stamped, last: Reading) -> Emissions:
        """The last of a cycle is committed, if there is one: see whether it has read from itself through others."""
        state.tested += 1
        through: dict[str, str] = {}
        waiting = [last.name]
        while waiting:
            reader = waiting.pop()
            for source in state.known[reader].sources:
                its = state.known.get(source)
                if source == last.name:
                    return self._cycle(state, event, last, reader, through)
                if its is not None and its.committed is not None and source not in through:
                    through[source] = reader
                    waiting.append(source)
        return NOTHING

    def _cycle(
        self, state: Histories, event: Stamped, last: Reading, reader: str, through: dict[str, str]
    ) -> Emissions:
        """``reader`` has read from ``last``; ``through``: transaction -> which one has read from it."""
        steps = [last.name, reader]
        while steps[-1] != last.name:
            steps.append(through[steps[-1]])
        proof = [state.known[reader].sources[source] for source, reader in pairwise(steps)]
        sentence = "; ".join(f"{reader} read records of {source}" for source, reader in pairwise(steps))
        return self.violated(state.key, f"{sentence}; all of them are committed", *proof[:2], event)
