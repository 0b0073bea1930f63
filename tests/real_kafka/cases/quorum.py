"""DescribeQuorum and Vote, and how soon a dead leader of the quorum is replaced."""

from __future__ import annotations

from typing import Any

from tests.real_kafka.cluster import CONTROLLERS, Cluster, Connection, Fields, call, wait
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import METADATA_TOPIC, describe_quorum, error

FAR = 10**9
STRANGER = 77
SOON_MS = 10_000


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """Two leaders die; then nothing moves the epoch any more."""
    broker = cluster.connect(1)
    _ask_elections(cluster, broker, outcomes)
    quorum = _quorum(broker)
    leader, epoch = quorum.leader_id, quorum.leader_epoch
    voters = sorted(each.replica_id for each in quorum.current_voters)
    observers = sorted(each.replica_id for each in quorum.observers)
    outcomes.say("DescribeQuorum of a broker", f"voters={voters} observers={observers} leads={leader in CONTROLLERS}")
    follower = next(each for each in CONTROLLERS if each != leader)
    other = next(each for each in CONTROLLERS if each not in (leader, follower))
    _ask_describe(cluster, leader, follower, outcomes)
    booth = Booth(cluster, epoch, other)
    _ask_votes(booth, leader, follower, outcomes)
    outcomes.say("nothing of this moved the epoch", _quorum(broker).leader_epoch == epoch)
    voted = booth.vote(follower, epoch + 1, last_epoch=epoch, last=FAR, pre_vote=True)
    outcomes.say("PreVote to a follower, next epoch, fresh log", voted)
    outcomes.say("then Vote of the old epoch", booth.vote(follower, epoch, last_epoch=epoch - 1, last=FAR))


def _quorum(connection: Connection) -> Any:
    return describe_quorum(connection).topics[0].partitions[0]


def _ask_describe(cluster: Cluster, leader: int, follower: int, outcomes: Outcomes) -> None:
    for who, node in (("follower", follower), ("leader", leader)):
        answer = describe_quorum(cluster.connect(node))
        data = answer.topics[0].partitions[0]
        told = f"{error(answer.error_code)} {error(data.error_code)} leader known={data.leader_id == leader}"
        outcomes.say(f"DescribeQuorum at the {who}", told)
    connection = cluster.connect(1)
    for question, asked in (("topic", {"topic": "nope"}), ("partition", {"partition": 3})):
        answer = describe_quorum(connection, **asked)
        inner = [error(data.error_code) for topic in answer.topics for data in topic.partitions]
        outcomes.say(f"DescribeQuorum of another {question}", f"{error(answer.error_code)} {inner}")


class Booth:
    """Where votes are asked for: ``epoch`` is the quorum's, ``candidate`` the voter that seems to ask."""

    def __init__(self, cluster: Cluster, epoch: int, candidate: int) -> None:
        self.cluster, self.epoch, self.candidate = cluster, epoch, candidate

    def vote(
        self,
        node: int,
        epoch: int,
        *,
        candidate: int = 0,
        voter: int = 0,
        last_epoch: int = 0,
        last: int = 0,
        pre_vote: bool = False,
        version: int = 2,
        cluster_id: str | None = "",
    ) -> str:
        """Ask a node for its vote; what it said, epochs told beside the quorum's."""
        asked: Fields = {"partition_index": 0, "replica_epoch": epoch, "replica_id": candidate or self.candidate}
        asked |= {"last_offset_epoch": last_epoch, "last_offset": last}
        fields: Fields = {"cluster_id": self.cluster.cluster_id if cluster_id == "" else cluster_id}
        if version >= 1:
            fields["voter_id"] = voter or node
            asked |= {"replica_directory_id": None, "voter_directory_id": None}
        if version >= 2:
            asked["pre_vote"] = pre_vote
        fields["topics"] = [{"topic_name": METADATA_TOPIC, "partitions": [asked]}]
        answer = call(self.cluster.connect(node), "Vote", version, **fields)
        if not answer.topics:
            return error(answer.error_code)
        data = answer.topics[0].partitions[0]
        leader = "known" if data.leader_id > 0 else data.leader_id
        step = data.leader_epoch - self.epoch
        told = f"{error(answer.error_code)} {error(data.error_code)} granted={data.vote_granted}"
        return f"{told} leader={leader} epoch={'E' if not step else f'E{step:+d}'}"


def _ask_votes(booth: Booth, leader: int, follower: int, outcomes: Outcomes) -> None:
    epoch, say, vote = booth.epoch, outcomes.say, booth.vote
    fresh = {"last_epoch": epoch, "last": FAR}
    older = {"last_epoch": epoch - 1, "last": FAR}
    say("Vote to the leader, older epoch", vote(leader, epoch - 1, **fresh))
    say("Vote to the leader, its epoch", vote(leader, epoch, **older))
    say("PreVote to the leader, its epoch", vote(leader, epoch, **fresh, pre_vote=True))
    say("PreVote to a follower, its epoch, fresh log", vote(follower, epoch, **fresh, pre_vote=True))
    say("PreVote to a follower, old log", vote(follower, epoch, pre_vote=True))
    say("Vote of the asked itself", vote(follower, epoch, candidate=follower))
    say("Vote with another voter's key", vote(follower, epoch, voter=199))
    say("Vote of no voter", vote(follower, epoch, candidate=STRANGER))
    say("PreVote of no voter, fresh log", vote(follower, epoch, candidate=STRANGER, **fresh, pre_vote=True))
    say("Vote of another cluster", vote(follower, epoch, cluster_id="nope"))
    say("Vote without a cluster", vote(follower, epoch, cluster_id=None))
    say("Vote whose log is as new as its epoch", vote(follower, epoch, last_epoch=epoch, last=5))
    say("Vote 0 of an older epoch", vote(follower, epoch - 1, version=0))
    say("Vote to a follower, its epoch, fresh log", vote(follower, epoch, **older))


def _ask_elections(cluster: Cluster, broker: Connection, outcomes: Outcomes) -> None:
    """Kill the active controller, twice."""
    in_time = []
    for _ in range(2):
        quorum = _quorum(broker)
        leader, epoch = quorum.leader_id, quorum.leader_epoch
        cluster.kill(leader)

        def replaced(leader: int = leader, epoch: int = epoch) -> bool:
            others = [_quorum(cluster.connect(node)) for node in CONTROLLERS if node != leader]
            return any(
                not data.error_code and data.leader_id != leader and data.leader_epoch > epoch for data in others
            )

        in_time.append(wait(cluster, replaced, SOON_MS, 20))
        cluster.start(leader)
        cluster.sleep(6000)
        wait(cluster, lambda: len(_quorum(broker).current_voters) == len(CONTROLLERS))
    outcomes.say("a new leader within 10 s of the old one's death", in_time)
