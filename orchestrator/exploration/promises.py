"""What must hold in every state, whatever came before: Raft's promises (section 5 of the paper) as Kafka makes them.

They are judged on a state and on the little of its history that matters (``History``), not on a trace: folds would make
a state of every path. What is found this way is then put to the folds of the quorum's invariants as a trace
(``story.evidence``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.exploration.cluster import Claim, State, Stepped
from orchestrator.exploration.judge import Broken
from orchestrator.exploration.place import Entry, Places
from orchestrator.exploration.voter import VoterNode
from orchestrator.exploration.voter_facts import Facts
from orchestrator.exploration.wire import Move

ELECTION_SAFETY = "one leader per epoch"
ONE_VOTE = "one vote per epoch"
VOTE_KEPT = "a vote that was given is kept"
LOG_MATCHING = "log matching"
COMMITTED_PREFIX = "there is one committed prefix"
COMPLETENESS = "leader completeness"
OWN_EPOCH = "commit by an entry of the own epoch"
DURABLE_MAJORITY = "every committed entry is on the disks of a majority"
SOUND_MARK = "a high watermark is not above the log end"
VOTER_SOUND = "a voter never fails, and never goes back"

QUORUM_PROMISES: dict[str, str] = {
    ELECTION_SAFETY: "Q1",
    ONE_VOTE: "Q2",
    VOTE_KEPT: "Q2",
    LOG_MATCHING: "Q6",
    COMMITTED_PREFIX: "Q9",
    COMPLETENESS: "Q10",
    OWN_EPOCH: "Q8",
    DURABLE_MAJORITY: "Q7",
    SOUND_MARK: "Q9",
    VOTER_SOUND: "Q3",
}
"""Promise -> the invariant of the trace that makes it."""


class Committed(NamedTuple):
    """A batch that was committed, and the lowest epoch whose leader did so."""

    entry: Entry
    by_epoch: int


class History(NamedTuple):
    """``leaders``: (epoch, id of the leader). ``votes``: per voter, epoch and candidate of the last vote that somebody
    was told of. ``committed``: in the order of the log."""

    leaders: tuple[tuple[int, int], ...]
    votes: tuple[tuple[int, int], ...]
    committed: tuple[Committed, ...]


class Promises:
    """Judges states of the voters ``names`` with ``ids``."""

    def __init__(self, names: Sequence[str], ids: Sequence[int]) -> None:
        self._names, self._ids = names, ids
        self._majority = len(names) // 2 + 1

    def nothing_yet(self) -> History:
        """The history of a cluster that has just been started."""
        return History((), ((0, -1),) * len(self._names), ())

    def told(self, history: History, claims: Sequence[Claim]) -> tuple[History, Broken | None]:
        """The history after votes that somebody was told of."""
        votes = list(history.votes)
        for voter, epoch, candidate in claims:
            last_epoch, last = votes[voter]
            if epoch == last_epoch and candidate != last:
                sentence = (
                    f"{self._names[voter]} gave its vote of epoch {epoch} to {self._name(last)} "
                    f"and then to {self._name(candidate)}"
                )
                return history, Broken(ONE_VOTE, sentence)
            if epoch < last_epoch:
                sentence = f"{self._names[voter]} gave a vote of epoch {epoch} after one of epoch {last_epoch}"
                return history, Broken(ONE_VOTE, sentence)
            votes[voter] = (epoch, candidate)
        return history._replace(votes=tuple(votes)), None

    def noted(self, history: History, voter: int, facts: Facts) -> tuple[History, Broken | None]:
        """The history after a step of one voter."""
        if not facts.leading:
            return history, None
        me, name = self._ids[voter], self._names[voter]
        leaders = dict(history.leaders)
        known = leaders.setdefault(facts.epoch, me)
        if known != me:
            return history, Broken(ELECTION_SAFETY, f"{self._name(known)} and {name} both lead epoch {facts.epoch}")
        committed, broken = self._commit(history.committed, name, facts)
        return History(tuple(sorted(leaders.items())), history.votes, committed), broken

    def _commit(
        self, committed: tuple[Committed, ...], name: str, facts: Facts
    ) -> tuple[tuple[Committed, ...], Broken | None]:
        passed = [entry for entry in facts.log if entry[0] <= facts.high_watermark]
        found = list(committed)
        new = passed[len(committed) :]
        for index, entry in enumerate(passed[: len(committed)]):
            if found[index].entry == entry and facts.epoch < found[index].by_epoch:
                found[index] = Committed(entry, facts.epoch)
        if new and passed[-1][1] != facts.epoch:
            sentence = (
                f"{name}, leader of epoch {facts.epoch}, committed up to {facts.high_watermark}, "
                f"where the last entry is of epoch {passed[-1][1]}: none of its own is committed with it"
            )
            return committed, Broken(OWN_EPOCH, sentence)
        return (*found, *(Committed(entry, facts.epoch) for entry in new)), None

    def restarted(self, voter: int, facts: Facts, history: History) -> Broken | None:
        """What a voter breaks that has just come back."""
        name = self._names[voter]
        epoch, candidate = history.votes[voter]
        forgot = facts.epoch < epoch or (facts.epoch == epoch and facts.leader_id < 0 and facts.voted != candidate)
        if candidate >= 0 and forgot:
            sentence = f"{name} gave {self._name(candidate)} its vote of epoch {epoch}, and no longer knows of it"
            return Broken(VOTE_KEPT, sentence)
        return None

    def alone(self, voter: int, facts: Facts, history: History) -> Broken | None:
        """What one voter breaks."""
        name = self._names[voter]
        if facts.high_watermark > facts.end:
            return Broken(
                SOUND_MARK, f"{name} has a high watermark of {facts.high_watermark} in a log up to {facts.end}"
            )
        committed = history.committed
        for (entry, _), own in zip(committed, facts.log, strict=False):
            if own[0] <= facts.high_watermark and own != entry:
                sentence = f"{name} takes for committed at {own[0] - 1} what is of epoch {own[1]}, not {entry[1]}"
                return Broken(COMMITTED_PREFIX, sentence)
        if facts.high_watermark > (committed[-1].entry[0] if committed else 0):
            sentence = f"{name} has a high watermark of {facts.high_watermark}, to which no leader committed"
            return Broken(COMMITTED_PREFIX, sentence)
        if facts.leading:
            return self._complete(name, facts, history)
        return None

    def _complete(self, name: str, facts: Facts, history: History) -> Broken | None:
        for index, (entry, by_epoch) in enumerate(history.committed):
            if by_epoch < facts.epoch and facts.log[index : index + 1] != (entry,):
                sentence = (
                    f"{name} leads epoch {facts.epoch} without the entry at {entry[0] - 1} "
                    f"that the leader of epoch {by_epoch} had committed"
                )
                return Broken(COMPLETENESS, sentence)
        return None

    def together(self, one: int, other: int, first: Facts, second: Facts) -> Broken | None:
        """Two logs that have an entry of one epoch at one offset are the same up to there."""
        there = {(end, epoch): ph for end, epoch, ph in second.log}
        for end, epoch, ph in first.log:
            if there.get((end, epoch), ph) != ph:
                sentence = (
                    f"{self._names[one]} and {self._names[other]} both have an entry of epoch {epoch} at {end - 1}, "
                    "and not the same log up to it"
                )
                return Broken(LOG_MATCHING, sentence)
        return None

    def on_disks(self, all_facts: Sequence[Facts], history: History) -> Broken | None:
        """What the disks of all voters break."""
        if not history.committed:
            return None
        entry = history.committed[-1].entry
        holders = sum(1 for facts in all_facts if entry in facts.durable)
        if holders >= self._majority:
            return None
        sentence = (
            f"the entry of epoch {entry[1]} at {entry[0] - 1} is committed, "
            f"and on the disks of {holders} of {len(all_facts)} voters"
        )
        return Broken(DURABLE_MAJORITY, sentence)

    def _name(self, voter_id: int) -> str:
        return self._names[self._ids.index(voter_id)] if voter_id in self._ids else str(voter_id)


class QuorumJudge:
    """See ``Judge``. ``epochs``: the highest one; what leads beyond it is left out."""

    sound = VOTER_SOUND

    def __init__(self, places: Places[VoterNode, Facts], epochs: int) -> None:
        self._places = places
        self._epochs = epochs
        specs = places.specs
        self._promises = Promises([spec.name for spec in specs], [spec.node_id for spec in specs])
        self._alone: dict[tuple[int, int, int], Broken | None] = {}
        self._pairs: dict[tuple[int, int], Broken | None] = {}
        self._disks: dict[tuple[int, ...], Broken | None] = {}

    def nothing_yet(self) -> History:
        """The history of a cluster that has just been started."""
        return self._promises.nothing_yet()

    def noted(self, history: History, end: Stepped, all_facts: Sequence[Facts]) -> tuple[History | None, Broken | None]:
        """The history after a move, None beyond the highest epoch; and what the move itself has broken."""
        if any(facts.epoch > self._epochs for facts in all_facts):
            return None, None
        history, broken = self._promises.told(history, end.claims)
        for voter, facts in enumerate(all_facts):
            if broken is None:
                history, broken = self._promises.noted(history, voter, facts)
        return history, broken

    def judged(self, state: State, move: Move, history: History) -> Broken | None:
        """The first promise that a new state breaks."""
        places, promises = self._places, self._promises
        voters = len(places.specs)
        if move.kind == "restart":
            voter = move.steps[0][0]
            if found := promises.restarted(voter, places.facts[state[voter]], history):
                return found
        numbers = tuple([places.facts_number[place] for place in state[:voters]])
        for voter, number in enumerate(numbers):
            key = (voter, number, state[-1])
            if key not in self._alone:
                self._alone[key] = promises.alone(voter, places.facts[state[voter]], history)
            if found := self._alone[key]:
                return found
            for other in range(voter):
                pair = (number, numbers[other])
                if pair not in self._pairs:
                    one, two = places.facts[state[voter]], places.facts[state[other]]
                    self._pairs[pair] = promises.together(voter, other, one, two)
                if found := self._pairs[pair]:
                    return found
        disks = (*numbers, state[-1])
        if disks not in self._disks:
            self._disks[disks] = promises.on_disks([places.facts[place] for place in state[:voters]], history)
        return self._disks[disks]

    def marks(self, before: History, after: History) -> list[str]:
        """What a change of history shows."""
        if len(after.leaders) <= len(before.leaders):
            return []
        marks = [("leader", "second leader", "third leader")[min(len(after.leaders), 3) - 1]]
        if len({leader for _, leader in after.leaders}) > 1:
            marks.append("leadership changed hands")
        return marks
