"""What DescribeQuorum tells an operator of the quorum."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from actors.client.admin import DESCRIBE_QUORUM
from actors.node.spec import node_name
from actors.trace.events import AdminInvoke, AdminReturn, LogHw, QRole, QVoters, RepFetch, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror

OWN_EPOCH_COMMIT = "kip-595.own-epoch-commit"
VALUES_KEPT = 1 << 10
OFFICES_KEPT = 1 << 5
QUESTIONS_KEPT = 1 << 5

V = TypeVar("V")


class Course(msgspec.Struct, Generic[V]):
    """The values that something had, each with the number of the event since which it had it; the most recent ones."""

    values: list[tuple[int, V]] = []

    def take(self, at: int, value: V, needed_since: int) -> None:
        """Another value; what was over at ``needed_since`` is forgotten."""
        over = sum(since <= needed_since for since, _ in self.values) - 1
        del self.values[: max(over, len(self.values) - VALUES_KEPT, 0)]
        self.values.append((at, value))

    def since(self, at: int) -> list[V]:
        """The values that it had at that event, and has had since; none if the first of them is not known."""
        before = [value for since, value in self.values if since <= at][-1:]
        return [*before, *(value for since, value in self.values if since > at)] if before else []


class Office(msgspec.Struct):
    """What the leader of a quorum epoch knows in it. began, ended: numbers of events, -1 it goes on. ends: follower ->
    up to where it has fetched; those of voters that have not are missing."""

    leader: str
    began: int
    by: Witness
    ended: int = -1
    voters: Course[list[str]] = msgspec.field(default_factory=Course[list[str]])
    watermarks: Course[int] = msgspec.field(default_factory=Course[int])
    ends: dict[str, Course[int]] = {}
    renewed: int = -1
    """When other voters came into force: where an observer that is one now had fetched to, the trace does not tell."""


class Descriptions(State):
    """number: of the event, among those that count here. asked: operation -> when it began. offices: by epoch.
    own_epochs: whether leaders know no high watermark before an entry of their own epoch is committed."""

    own_epochs: bool = True
    number: int = 0
    asked: dict[str, int] = {}
    offices: dict[int, Office] = {}

    @property
    def needed_since(self) -> int:
        """The oldest question that is open, or now."""
        return min(self.asked.values(), default=self.number)

    def office_of(self, node: str) -> Office | None:
        """The office that a node holds."""
        return next((each for each in self.offices.values() if each.leader == node and each.ended < 0), None)


class DescriptionsAreTrue(LogInvariant[Descriptions]):
    """An operator decides by this answer whom to restart, and whether a voter may be removed. Only a leader gives it,
    from what it knows: its own epoch and high watermark, the voters in force in its log, and where they have fetched
    to.

    Example: controller-3 has fetched up to offset 40 of 120. The leader answers that all voters are at 120, and the
    operator stops controller-2: what is committed is on one disk.
    """

    id = "Q21"
    title = "DescribeQuorum tells what a leader of the quorum knew between the question and the answer"
    source = "KIP-595; KIP-836; Kafka's KafkaRaftClient.handleDescribeQuorumRequest"
    tested_when = "an operator is told how the quorum is"
    unseen = (
        "The log end of the leader itself, observers, and the times of fetches.",
        "Where a voter had fetched to as an observer.",
        "The high watermark where a leader may count entries of former epochs, until it moves in its office.",
    )
    types = (AdminInvoke, AdminReturn, QRole, QVoters, LogHw, RepFetch)

    def initial(self, key: str, profile: Profile) -> Descriptions:
        switches = [profile.feature(OWN_EPOCH_COMMIT, node) for node in ("", *profile.nodes)]
        return Descriptions(key, own_epochs="off" not in switches)

    def step(self, state: Descriptions, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        state.number += 1
        if type(body) is QRole:
            self._took_role(state, event, body, mirror)
        elif type(body) is AdminInvoke:
            if body.call == DESCRIBE_QUORUM:
                state.asked[body.op] = state.number
                for oldest in list(state.asked)[:-QUESTIONS_KEPT]:
                    del state.asked[oldest]
        elif type(body) is AdminReturn:
            asked = state.asked.pop(body.op, None)
            if asked is not None and body.outcome == "ok" and "leader_epoch" in body.results:
                state.tested += 1
                return self._told(state, event, body.results, asked)
        elif (office := state.office_of(event.node)) is not None:
            _learned(state, office, event, mirror)
        return NOTHING

    def _took_role(self, state: Descriptions, event: Stamped, body: QRole, mirror: LogMirror) -> None:
        held = state.office_of(event.node)
        if held is not None:
            held.ended = state.number
        if body.role != "leader":
            return
        office = state.offices[body.epoch] = Office(event.node, state.number, witness(event))
        office.voters.take(state.number, sorted(mirror.voters.of(event.node)), state.number)
        if state.own_epochs:
            office.watermarks.take(state.number, -1, state.number)
        for epoch in sorted(state.offices)[:-OFFICES_KEPT]:
            del state.offices[epoch]

    def _told(self, state: Descriptions, event: Stamped, told: dict[str, Any], asked: int) -> Emissions:
        epoch, leader = told["leader_epoch"], node_name(told["leader"])
        said = f"{event.node} was told that {leader} leads the quorum in epoch {epoch}"
        office = state.offices.get(epoch)
        if office is None:
            forgotten = bool(state.offices) and epoch < min(state.offices)
            return NOTHING if forgotten else self.violated(state.key, f"{said}, but nobody did", event)
        if office.leader != leader:
            return self.violated(state.key, f"{said}, but {office.leader} did", office.by, event)
        if 0 <= office.ended < asked:
            sentence = f"{said}, but that was over before it asked"
            return self.violated(state.key, sentence, office.by, event)
        since = max(asked, office.began)
        if wrong := _wrong_answer(office, told, since):
            return self.violated(state.key, f"{said}{wrong}", office.by, event)
        return NOTHING


def _learned(state: Descriptions, office: Office, event: Stamped, mirror: LogMirror) -> None:
    """A leader moved its high watermark, took note of a fetch, or has other voters."""
    body, number, needed = event.body, state.number, state.needed_since
    if type(body) is LogHw:
        office.watermarks.take(number, body.new, needed)
    elif type(body) is QVoters:
        voters = mirror.voters.of(event.node)
        office.voters.take(number, sorted(voters), needed)
        office.renewed = number
        office.ends = {name: each for name, each in office.ends.items() if name in voters}
    elif type(body) is RepFetch and not body.error and body.diverging_end < 0:
        unknown: list[tuple[int, int]] = [] if office.renewed >= 0 else [(office.began, -1)]
        office.ends.setdefault(node_name(body.follower), Course(unknown)).take(number, body.offset, needed)


def _wrong_answer(office: Office, told: dict[str, Any], since: int) -> str:
    """What the leader did not know at any time since then, for the end of a sentence, or ""."""
    voters = sorted(node_name(int(voter)) for voter in told["voters"])
    if (known := office.voters.since(since)) and voters not in known:
        return f" with the voters {', '.join(voters)}; it had {', '.join(known[-1])}"
    watermarks = office.watermarks.since(since)
    if watermarks and told["high_watermark"] not in watermarks:
        return f" with the high watermark {told['high_watermark']:,}; it had {watermarks[-1]:,}"
    for voter, end in told["voters"].items():
        name = node_name(int(voter))
        unknown = [] if office.renewed >= 0 else [-1]
        ends = office.ends[name].since(since) if name in office.ends else unknown
        if name != office.leader and ends and end not in ends and since > office.renewed:
            return f", and that {name} has its log up to {end:,}; it had fetched up to {ends[-1]:,}"
    return ""
