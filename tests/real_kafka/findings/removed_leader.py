"""What both findings on a removed quorum leader begin with: a removal that cannot commit while the follower hangs."""

from __future__ import annotations

import signal

from tests.real_kafka.findings.stage import Stage

CONFIG = {"controller.quorum.fetch.timeout.ms": 15_000}
"""So that the leader does not resign for want of fetches before the tool, a Java process, has asked."""
IMPATIENT = {"request.timeout.ms": 8000, "default.api.timeout.ms": 8000}


def removal_pending() -> Stage:
    """Two controllers of dynamic voters and a broker."""
    return Stage(1, 2, CONFIG, dynamic=True)


def remove_leader(stage: Stage) -> tuple[int, int]:
    """Stop the follower in its tracks and remove the leader; the two, leader first. The tool runs into its time-out."""
    assert stage.until(lambda: stage.quorum_leader() > 0) is not None
    leader = stage.quorum_leader()
    follower = next(node for node in stage.controllers if node != leader)
    caught_up = stage.until(lambda: lags(stage, leader)[follower] == 0)
    assert caught_up is not None, "the follower does not fetch"
    stage.transcript.did(f"{stage.name(leader)} leads the quorum, {stage.name(follower)} follows")
    stage.signal(signal.SIGSTOP, follower, why="the follower hangs")
    stage.tool(
        "kafka-metadata-quorum",
        f"remove-controller --controller-id {leader} --controller-directory-id {stage.directory_id(leader)}",
        ask=leader,
        keep="^Caused|^Removed",
        config=IMPATIENT,
    )
    assert stage.quorum_leader(leader) == leader, "it leads no more"
    assert voters(stage, leader) == [follower], "the removal is not in its log"
    stage.transcript.did(f"{stage.name(leader)} answers DescribeQuorum", told(stage, leader))
    return leader, follower


def create(stage: Stage, topic: str) -> bool:
    """Whether a topic can be created within the patience of a client."""
    words = f"--create --topic {topic}"
    return "Created topic" in stage.tool("kafka-topics", words, ask=1, keep="^Error|^Created", config=IMPATIENT)


def lags(stage: Stage, leader: int) -> dict[int, int]:
    """By voter, how far its log is behind the leader's."""
    voters = {int(each.replica_id): int(each.log_end_offset) for each in stage.quorum(leader).current_voters}
    return {node: voters[leader] - end for node, end in voters.items()}


def voters(stage: Stage, node: int) -> list[int]:
    """The voters of which the leader says where they are."""
    return [int(each.replica_id) for each in stage.quorum(node).current_voters]


def told(stage: Stage, node: int) -> str:
    """The answer in a line."""
    found = stage.quorum(node)
    return (
        f"leader {found.leader_id}, epoch {found.leader_epoch}, high watermark {found.high_watermark}, "
        f"voters {voters(stage, node)}, observers {[int(each.replica_id) for each in found.observers]}"
    )


def log_end(stage: Stage, leader: int) -> int:
    """The end of the leader's log, in which the removal is."""
    found = stage.quorum(leader)
    return next(
        int(each.log_end_offset) for each in [*found.current_voters, *found.observers] if each.replica_id == leader
    )
