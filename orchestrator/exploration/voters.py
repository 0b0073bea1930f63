"""The moves of a quorum of voters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from actors.node.spec import METADATA_PARTITION, NodeSpec
from actors.quorum.quorum_state import ELECTION
from actors.quorum.quorum_state_store import QUORUM_STATE_FILE
from actors.quorum.raft_state import CONNECTION, FETCH_CONNECTION
from krift.v1.quorum import VoteRequest, VoteResponse
from orchestrator.exploration.cluster import CRASH, DROP, FIRST, LAST, Claim, Cluster, State, Step
from orchestrator.exploration.place import Input
from orchestrator.exploration.voter import APPEND, VoterNode
from orchestrator.exploration.voter_facts import Facts, Voters
from orchestrator.exploration.voter_story import VoterWords
from orchestrator.exploration.wire import FREE, Exchange, Move, Steps

TIMEOUT, APPENDED = FIRST, LAST
"""Budgets of voters: timers that fire, records that a leader appends."""

QUORUM_STATE_SYNCED: Input = ("synced", QUORUM_STATE_FILE)
NO_BUDGET_BUT_TIMEOUTS = (True, False, False, False)


class VoterCluster(Cluster[VoterNode, Facts]):
    """The moves of a quorum of ``specs``. ``fetching``: followers' Fetches arrive. ``looking``: a voter that knows no
    leader looks for it with a Fetch to whichever voter is drawn; else it waits to be told. ``led``: the search begins
    when the first voter leads.

    ``reduced``: a voter whose quorum-state is being synced puts everything into a queue, so it may as well be given
    nothing; and if none can crash any more, that Sync may as well be done before anything else happens.
    """

    def __init__(self, specs: Sequence[NodeSpec], fetching: bool, looking: bool, reduced: bool, led: bool) -> None:
        super().__init__(specs, Voters(specs), looking, reduced)
        self._fetching = fetching
        self._led = led
        self.voters = self.ids

    words = VoterWords()
    family = "Q"

    def lost(self, before: int, after: int) -> dict[str, int]:
        """Entries of the log."""
        had, has = self.places.facts[before], self.places.facts[after]
        return {METADATA_PARTITION: has.end} if has.end < had.end else {}

    def awaited(self, index: int) -> Steps:
        """Each start writes the quorum-state."""
        return ((index, QUORUM_STATE_SYNCED),)

    def opening_move(self, state: State, opening: Sequence[Step]) -> Move | None:
        """Until the first voter was elected and all others follow it; their Fetches are on the way."""
        if not self._led:
            return None
        elected = any(step.move.kind == "timer" for step in opening)
        for move in self.moves(state, NO_BUDGET_BUT_TIMEOUTS):
            timer = not elected and move.steps == ((0, ("timer", ELECTION)),)
            exchange = move.about[0] if move.kind in ("request", "response") else None
            told = isinstance(exchange, Exchange) and exchange.connection == CONNECTION
            if timer or told or move.steps[0][1] == QUORUM_STATE_SYNCED:
                return move
        return None

    def moves(self, state: State, left: Sequence[bool]) -> Iterator[Move]:
        """What can happen in a state. ``left``: which budgets are not used up."""
        voters = len(self.names)
        wire = state[voters]
        waiting = [voter for voter in range(voters) if self._reduced and self.places.facts[state[voter]].waiting]
        if waiting and not left[CRASH]:
            yield Move("synced", FREE, wire, ((waiting[0], QUORUM_STATE_SYNCED),))
            return
        for voter in range(voters):
            for kind, cost, event in self._local(state[voter]):
                if cost != FREE and not left[cost]:
                    continue
                if cost == CRASH:
                    yield self._crash(wire, voter, event)
                else:
                    yield Move(kind, cost, wire, ((voter, event),))
        for move in self.wires.moves(wire):
            if not waiting or all(voter not in waiting for voter, _ in move.steps):
                yield move
        if left[DROP]:
            yield from self.wires.drops(wire, DROP)

    def _moves_of_place(self, number: int) -> Iterator[tuple[str, int, Input]]:
        place = self.places.all[number]
        if self._reduced and self.places.facts[number].waiting:
            yield ("synced", FREE, QUORUM_STATE_SYNCED)
        else:
            for timer in place.timers:
                yield ("timer", TIMEOUT, ("timer", timer))
            for file in place.files:
                if file.syncs:
                    yield ("synced", FREE, ("synced", file.name))
        if self.places.facts[number].leading:
            yield ("append", APPENDED, (APPEND,))
        survive = [[(file.name, write) for write in range(len(file.contents))] for file in place.files]
        for kept in product(*survive):
            yield ("restart", CRASH, ("restart", *kept))

    def _travels(self, connection: str) -> bool:
        return self._fetching or connection != FETCH_CONNECTION

    def _told(self, index: int, request: int, response: int) -> list[Claim]:
        """A vote that the candidate is told of: voter, epoch, id of the candidate."""
        asked, told = self.places.messages.all[request], self.places.messages.all[response]
        if isinstance(asked, VoteRequest) and isinstance(told, VoteResponse) and told.vote_granted:
            return [] if asked.pre_vote else [(index, asked.replica_epoch, asked.replica_id)]
        return []

    def _asked(self, index: int, request: int) -> list[Claim]:
        """A candidate's vote for itself, which its request tells of."""
        asked = self.places.messages.all[request]
        if isinstance(asked, VoteRequest) and not asked.pre_vote:
            return [(index, asked.replica_epoch, asked.replica_id)]
        return []
