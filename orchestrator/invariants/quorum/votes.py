"""How voters decide on the votes that they are asked for."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import LogAppend, NodeUp, QPersist, QRole, QSnapFetch, QVote, RepFetch, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, remember
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror

CANDIDACIES_REMEMBERED = 4 * CHANGES_REMEMBERED

UNKNOWN = "?"
"""Directory of a candidate of whom only the id is known."""


class Vote(msgspec.Struct, frozen=True):
    """Whom a voter voted for in an epoch."""

    epoch: int
    candidate: int
    directory_id: str
    by: Witness


class Voter(msgspec.Struct):
    """What the trace says of one voter: its role, since which event, the vote that it gave last, and whether its leader
    has served it in this role. ``heard``: its leader counted a fetch of its; the answer may have been that it
    leads no more, or got lost."""

    directory_id: str = ""
    role: QRole | None = None
    since: Witness | None = None
    vote: Vote | None = None
    served: bool = False
    heard: bool = False

    def begin(self, body: NodeUp) -> None:
        """Another incarnation: the vote stays on the disk, if the disk is the same."""
        if body.wiped or body.directory_id != self.directory_id:
            self.vote = None
        self.directory_id, self.role, self.since = body.directory_id, None, None
        self.served = self.heard = False

    def vote_of(self, epoch: int) -> Vote | None:
        """The vote that it gave in an epoch."""
        return self.vote if self.vote is not None and self.vote.epoch == epoch else None


class Voters(State):
    """voters: by node. stood: "node epoch" of a candidacy, or of one beforehand -> where logs ended with which the node
    took it up, by directory: after a restart there may be several."""

    voters: dict[str, Voter] = {}
    stood: dict[str, list[tuple[str, int]]] = {}

    def stands(self, node: str, body: QRole) -> None:
        """A node begins to ask for votes, with the log that it has now."""
        name = _candidacy(node, body.epoch, body.role == "prospective")
        own, known = (body.directory_id, body.log_end), self.stood.get(name, [])
        remember(self.stood, name, [*(each for each in known if each != own), own], CANDIDACIES_REMEMBERED)

    def log_ends(self, body: QVote) -> list[int]:
        """What the candidate may name as the end of its log; nothing if that is not known."""
        known = self.stood.get(_candidacy(node_name(body.candidate), body.candidate_epoch, body.pre), [])
        return [end for directory, end in known if body.candidate_directory in ("", directory)]

    def voter(self, node: str) -> Voter:
        """What is known of a voter; nothing at first."""
        return self.voters.setdefault(node, Voter())


def _candidacy(node: str, epoch: int, pre: bool) -> str:
    return f"{node} {epoch}{' beforehand' if pre else ''}"


class VotesFollowTheRule(LogInvariant[Voters]):
    """A voter decides on a vote by its epoch, its role, its granted vote, its known leader and its log. A voter that
    grants more makes a second leader possible, or lets a node depose a leader from which it only hears late. A voter
    that refuses more may leave the quorum without a leader although a majority is available.

    The rule: the voter first adopts the requested epoch. It grants a PreVote to a candidate whose log is not behind its
    own, unless it leads, or follows a leader that has served it. Only unattached and prospective voters grant votes:
    again to the candidate that already has the vote, identified by id and directory; otherwise, if they know no leader
    of the epoch, to a candidate whose log is not behind their own.

    A candidate names the end of its own log. One that names a higher one may win although it lacks committed records.

    Example: controller-2 has heard that controller-1 leads epoch 7, cannot reach it and waits unattached; controller-3
    stands in epoch 7, too, and gets the vote of controller-2.
    """

    id = "Q20"
    title = (
        "A voter grants or refuses votes by its own epoch, role, vote, leader and log; a candidate names its own log"
    )
    source = "KafkaRaftClient.handleVoteRequest, EpochState.canGrantVote; KIP-595; KIP-853; KIP-996"
    tested_when = "a voter decides on another voter's request for a vote or a PreVote"
    unseen = (
        "Requests that are answered with an error: they decide nothing.",
        "A PreVote of a follower whose leader has received its Fetch and sent no records: it may have been served.",
        "The directory of a vote that a process stored without answering any more.",
    )
    types = (QVote, QRole, QPersist, NodeUp, LogAppend, RepFetch, QSnapFetch)
    cases = {LogAppend: ("follower",)}

    def initial(self, key: str, profile: Profile) -> Voters:
        return Voters(key)

    def step(self, state: Voters, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is QVote:
            return self._decided(state, event, body, mirror)
        if type(body) is RepFetch or type(body) is QSnapFetch:
            follower = state.voter(node_name(body.follower))
            if follower.role is not None and follower.role.epoch == body.leader_epoch:
                follower.heard = True
            return NOTHING
        voter = state.voter(event.node)
        if type(body) is QRole:
            voter.role, voter.since = body, witness(event)
            voter.served = voter.heard = False
            if body.role in ("prospective", "candidate"):
                state.stands(event.node, body)
        elif type(body) is NodeUp:
            voter.begin(body)
        elif type(body) is LogAppend:
            voter.served = voter.served or body.role == "follower"
        elif type(body) is QPersist and body.voted_for >= 0 and voter.vote_of(body.epoch) is None:
            voter.vote = Vote(body.epoch, body.voted_for, UNKNOWN, witness(event))
        return NOTHING

    def _decided(self, state: Voters, event: Stamped, body: QVote, mirror: LogMirror) -> Emissions:
        voter = state.voter(event.node)
        before = voter.vote_of(body.epoch)
        own = node_name(body.candidate) == event.node and body.candidate_directory == body.directory_id
        if body.granted and not body.pre and (before is None or before.directory_id == UNKNOWN):
            voter.vote = Vote(body.epoch, body.candidate, body.candidate_directory, witness(event))
        if own or voter.role is None:
            return NOTHING
        state.tested += 1
        ends = state.log_ends(body)
        what, candidate = "a pre-vote" if body.pre else "its vote", node_name(body.candidate)
        if ends and body.candidate_end not in ends:
            sentence = (
                f"{candidate} asked {event.node} for {what} in epoch {body.candidate_epoch} with a log up to "
                f"{body.candidate_end:,}, but its log ended at {ends[-1]:,}"
            )
            return self.violated(state.key, sentence, state.voter(candidate).since, event)
        sentence, proof = _wrong(voter, before, body, mirror, event.node)
        if not sentence:
            return NOTHING
        did = f"{event.node} {'granted' if body.granted else 'refused'} {node_name(body.candidate)} {what}"
        return self.violated(state.key, f"{did} in epoch {body.epoch}; {sentence}", proof, event)


def _wrong(voter: Voter, before: Vote | None, body: QVote, mirror: LogMirror, node: str) -> tuple[str, Witness | None]:
    """What is wrong with a decision, and by which event; "" if nothing is."""
    role = voter.role
    assert role is not None
    if body.candidate_epoch not in (-1, body.epoch):
        return f"the candidate had asked for a vote in epoch {body.candidate_epoch}", voter.since
    if role.epoch != body.epoch:
        return f"the voter was {role.role} in epoch {role.epoch}", voter.since
    log = mirror.replica(node).log
    another = body.voter_end != log.end or max(log.last_epoch, 0) not in (0, body.voter_last_epoch)
    if role.role != "leader" and another:
        return (
            f"the vote counts on a log of the voter up to {body.voter_end:,} with epoch {body.voter_last_epoch}, but "
            f"its log ends at {log.end:,} with epoch {log.last_epoch}"
        ), None
    expected, why, proof = _rule(voter, role, before, body)
    return ("", None) if expected == body.granted else (why, proof)


def _rule(voter: Voter, role: QRole, before: Vote | None, body: QVote) -> tuple[bool, str, Witness | None]:
    """Whether the vote is to be granted, why, and by which event."""
    has_all = (body.candidate_last_epoch, body.candidate_end) >= (body.voter_last_epoch, body.voter_end)
    logs = (
        f"the candidate's log ends at {body.candidate_end:,} with epoch {body.candidate_last_epoch}, the voter's at "
        f"{body.voter_end:,} with epoch {body.voter_last_epoch}"
    )
    if body.pre:
        if role.role == "leader" or (role.role == "follower" and voter.served):
            if role.role == "leader":
                return False, "the voter leads this epoch itself", voter.since
            return False, f"the voter follows {node_name(role.leader_id)}, which has answered it", voter.since
        return has_all and (body.granted or not voter.heard), logs, None
    if role.role not in ("unattached", "prospective"):
        return False, f"the voter is {role.role} in this epoch", voter.since
    if before is not None:
        same = before.candidate == body.candidate and before.directory_id in (UNKNOWN, "", body.candidate_directory)
        of = f" with directory {before.directory_id}" if before.directory_id not in (UNKNOWN, "") else ""
        return same, f"the voter had voted for {node_name(before.candidate)}{of}", before.by
    if role.leader_id >= 0:
        return False, f"the voter knew that {node_name(role.leader_id)} leads this epoch", voter.since
    return has_all, logs, None
