"""What must hold of a transaction in every state, whoever coordinates it.

They are judged on a state and on the little of its history that matters (``TransactionHistory``), not on a trace: folds
would make a state of every path. What is found this way is then put to the folds of the transactions' invariants as a
trace (``story.evidence``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from actors.broker.coordinator_common.partitions import TRANSACTION_STATE_TOPIC
from actors.node.spec import topic_partition
from orchestrator.exploration.broker_facts import BrokerFacts, Kept, Logged, Marked, Replica
from orchestrator.exploration.cluster import Claim, State, Stepped
from orchestrator.exploration.judge import Broken
from orchestrator.exploration.transactions import MARKERS, TOLD, TransactionCluster
from orchestrator.exploration.wire import Move

LOG = topic_partition(TRANSACTION_STATE_TOPIC, 0)
DECISIONS = {"PrepareCommit": True, "PrepareAbort": False}
COMPLETIONS = {"CompleteCommit": True, "CompleteAbort": False}

DECIDED_FIRST = "a marker is sent for a durable decision"
TOLD_WHAT_HOLDS = "a producer is answered after a durable decision"
ONE_OUTCOME = "one outcome on all partitions"
DECISION_KEPT = "a decision survives a failover"
COORDINATORS_IN_ORDER = "coordinator epochs of markers never fall"
ALL_TOLD = "a complete transaction has its marker on every partition"
ONE_HISTORY = "there is one committed prefix"
BROKER_SOUND = "a broker never fails, and never goes back"

TRANSACTION_PROMISES: dict[str, str] = {
    DECIDED_FIRST: "T13",
    TOLD_WHAT_HOLDS: "T12",
    ONE_OUTCOME: "T5",
    DECISION_KEPT: "T11",
    COORDINATORS_IN_ORDER: "T4",
    ALL_TOLD: "T4",
    ONE_HISTORY: "P4",
    BROKER_SOUND: "X3",
}
"""Promise -> the invariant of the trace that makes it."""


class TransactionHistory(NamedTuple):
    """``committed``: partition -> what was committed there, in the order of the log. ``outcomes``: (producer id, epoch)
    -> whether a marker has committed it, of all that leaders have appended."""

    committed: tuple[tuple[str, tuple[Logged, ...]], ...]
    outcomes: tuple[tuple[tuple[int, int], bool], ...]


class TransactionJudge:
    """See ``Judge``."""

    sound = BROKER_SOUND

    def __init__(self, cluster: TransactionCluster) -> None:
        self._cluster = cluster
        self._names, self._ids = cluster.names, cluster.ids

    def nothing_yet(self) -> TransactionHistory:
        """The history of brokers that have just been started."""
        return TransactionHistory((), ())

    # ---- of a move ---------------------------------------------------------------------------------------

    def noted(
        self, history: TransactionHistory, end: Stepped, all_facts: Sequence[BrokerFacts]
    ) -> tuple[TransactionHistory, Broken | None]:
        """The history after a move, and what the move itself has broken."""
        for claim in sorted(end.claims):
            if broken := self._claimed(claim, end.control, all_facts):
                return history, broken
        committed, outcomes = dict(history.committed), dict(history.outcomes)
        for index, facts in enumerate(all_facts):
            for tp, replica in facts.replicas:
                if broken := self._commit(committed, index, tp, replica) or self._end(outcomes, index, tp, replica):
                    return history, broken
        return TransactionHistory(tuple(sorted(committed.items())), tuple(sorted(outcomes.items()))), None

    def _claimed(self, claim: Claim, control: int, all_facts: Sequence[BrokerFacts]) -> Broken | None:
        """Markers, and answers to producers, go by a decision that every member of the ISR has."""
        kind, index, producer_id, producer_epoch, commits, *_ = claim
        lacking, otherwise = [], False
        for member in self._in_sync(LOG, control):
            of_producer = [each for each in _kept(all_facts[member]) if each.producer_id == producer_id]
            decided = {DECISIONS[each.state] for each in of_producer if _is_decision(each, producer_epoch)}
            otherwise = otherwise or (not commits) in decided
            if commits not in decided:
                lacking.append(self._names[member])
        if not lacking:
            return None
        what = f"{'commit' if commits else 'abort'} of producer id {producer_id}, epoch {producer_epoch}"
        why = "which was decided otherwise"
        if not otherwise:
            why = f"and the decision is not in the log of {', '.join(lacking)}, which may lead next"
        if kind == MARKERS:
            return Broken(DECIDED_FIRST, f"{self._names[index]} sends markers for the {what}, {why}")
        assert kind == TOLD, kind
        return Broken(TOLD_WHAT_HOLDS, f"{self._names[index]} tells the producer of the {what}, {why}")

    def _commit(self, committed: dict[str, tuple[Logged, ...]], index: int, tp: str, replica: Replica) -> Broken | None:
        if not replica.leads:
            return None
        passed = tuple(each for each in replica.log if each.entry[0] <= replica.high_watermark)
        known = committed.get(tp, ())
        common = min(len(passed), len(known))
        if passed[:common] != known[:common]:
            where = next(at for at in range(common) if passed[at] != known[at])
            sentence = f"{self._names[index]} commits another batch of {tp} at {where} than was committed there"
            return Broken(ONE_HISTORY, sentence)
        if len(passed) > len(known):
            committed[tp] = passed
        return None

    def _end(self, outcomes: dict[tuple[int, int], bool], index: int, tp: str, replica: Replica) -> Broken | None:
        for logged in replica.log:
            if isinstance(logged.said, Marked):
                producer = (logged.said.producer_id, logged.said.producer_epoch)
                if outcomes.setdefault(producer, logged.said.commits) != logged.said.commits:
                    sentence = (
                        f"{self._names[index]} has {_kind(logged.said.commits)} in {tp} of producer id {producer[0]}, "
                        f"epoch {producer[1]}, and {_kind(not logged.said.commits)} is in another log"
                    )
                    return Broken(ONE_OUTCOME, sentence)
        return None

    def _in_sync(self, tp: str, control: int) -> list[int]:
        """Indices of those in the ISR."""
        return [self._ids.index(broker) for broker in self._cluster.metadata.states[control].partitions[tp].isr]

    # ---- of a state --------------------------------------------------------------------------------------

    def judged(self, state: State, move: Move, history: TransactionHistory) -> Broken | None:
        """The first promise that a new state breaks."""
        nodes = len(self._names)
        all_facts = [self._cluster.places.facts[place] for place in state[:nodes]]
        control = state[nodes + 1]
        for index, facts in enumerate(all_facts):
            for tp, replica in facts.replicas:
                broken = self._complete(history, control, index, tp, replica) or self._in_order(index, tp, replica)
                if broken:
                    return broken
            if broken := self._goes_by_it(history, control, index, facts):
                return broken
        return self._all_know(history, control, all_facts)

    def _complete(
        self, history: TransactionHistory, control: int, index: int, tp: str, replica: Replica
    ) -> Broken | None:
        """The newest leader has all that was committed."""
        if not replica.leads or not self._is_newest(tp, replica.leader_epoch, control):
            return None
        committed = dict(history.committed).get(tp, ())
        if replica.log[: len(committed)] == committed:
            return None
        sentence = f"{self._names[index]} leads {tp} in epoch {replica.leader_epoch} without all that was committed"
        return Broken(ONE_HISTORY, sentence)

    def _is_newest(self, tp: str, leader_epoch: int, control: int) -> bool:
        return self._cluster.metadata.states[control].partitions[tp].leader_epoch == leader_epoch

    def _in_order(self, index: int, tp: str, replica: Replica) -> Broken | None:
        newest = -1
        for logged in replica.log:
            if isinstance(logged.said, Marked):
                if logged.said.coordinator_epoch < newest:
                    epochs = f"coordinator epoch {logged.said.coordinator_epoch} in {tp} after one of {newest}"
                    sentence = f"{self._names[index]} has a marker of {epochs}"
                    return Broken(COORDINATORS_IN_ORDER, sentence)
                newest = logged.said.coordinator_epoch
        return None

    def _goes_by_it(self, history: TransactionHistory, control: int, index: int, facts: BrokerFacts) -> Broken | None:
        """The newest coordinator that has read its log goes by what was decided before."""
        if not any(loaded and self._is_newest(tp, epoch, control) for tp, epoch, loaded in facts.coordinates):
            return None
        ids = dict(facts.ids)
        for decision in _decisions(history):
            known = ids.get(decision.transactional_id)
            if known is None or known.producer_id != decision.producer_id:
                continue
            undecided = known.state in ("Ongoing", "Empty") and known.producer_epoch < decision.producer_epoch
            outcome = (DECISIONS | COMPLETIONS).get(known.state)
            same = known.producer_epoch == decision.producer_epoch
            if undecided or (same and outcome is not None and outcome != DECISIONS[decision.state]):
                sentence = (
                    f"{self._names[index]} has {decision.transactional_id} in {known.state}, producer epoch "
                    f"{known.producer_epoch}, after {decision.state}, epoch {decision.producer_epoch}, was committed"
                )
                return Broken(DECISION_KEPT, sentence)
        return None

    def _all_know(self, history: TransactionHistory, control: int, all_facts: Sequence[BrokerFacts]) -> Broken | None:
        """Of a transaction that is complete, every member of the ISR of each partition has the marker."""
        kept = [each.said for tp, log in history.committed if tp == LOG for each in log]
        complete = {(each.producer_id, each.producer_epoch) for each in kept if _is(each, COMPLETIONS)}  # type: ignore[union-attr]
        for decision in _decisions(history):
            producer = (decision.producer_id, decision.producer_epoch)
            if producer not in complete:
                continue
            for tp in decision.partitions:
                for member in self._in_sync(tp, control):
                    if not _is_told(all_facts[member], tp, producer):
                        sentence = (
                            f"the transaction of producer id {producer[0]}, epoch {producer[1]}, is complete, and its "
                            f"marker is not in the log of {tp} at {self._names[member]}, which may lead next"
                        )
                        return Broken(ALL_TOLD, sentence)
        return None

    def marks(self, before: TransactionHistory, after: TransactionHistory) -> list[str]:
        """Nothing that a step does not show."""
        return []


def _kept(facts: BrokerFacts) -> Iterator[Kept]:
    """What the transaction log says, as a broker has it."""
    for tp, replica in facts.replicas:
        if tp == LOG:
            yield from (each.said for each in replica.log if isinstance(each.said, Kept))


def _decisions(history: TransactionHistory) -> Iterator[Kept]:
    """All that were committed."""
    for tp, log in history.committed:
        if tp == LOG:
            yield from (each.said for each in log if isinstance(each.said, Kept) and each.said.state in DECISIONS)


def _is_decision(kept: Kept, producer_epoch: int) -> bool:
    return kept.state in DECISIONS and kept.producer_epoch == producer_epoch


def _is(said: Marked | Kept | None, states: dict[str, bool]) -> bool:
    return isinstance(said, Kept) and said.state in states


def _is_told(facts: BrokerFacts, tp: str, producer: tuple[int, int]) -> bool:
    return any(
        isinstance(each.said, Marked) and (each.said.producer_id, each.said.producer_epoch) == producer
        for each in dict(facts.replicas)[tp].log
    )


def _kind(commits: bool) -> str:
    return "a commit marker" if commits else "an abort marker"
