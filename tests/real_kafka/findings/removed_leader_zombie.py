"""A quorum leader is removed while its follower hangs, and the request times out before the follower goes on. The
removal commits, and yet the leader leads on: it is no voter and never resigns, and the brokers, who look the leader up
among the voters, lose it. RemoveVoterHandler.java has the leader resign only while the request is pending."""

from __future__ import annotations

import signal

from tests.real_kafka.findings import removed_leader
from tests.real_kafka.findings.stage import Stage

REIGN_S = 90
OUTCOME = {
    "the removal committed": True,
    f"the removed leader leads {REIGN_S} s later": True,
    "its high watermark moves": True,
    "the broker was fenced": True,
    "a topic can be created": False,
    "a topic can be created after SIGTERM of the removed leader": True,
}


def stage() -> Stage:
    """See Finding."""
    return removed_leader.removal_pending()


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    leader, follower = removed_leader.remove_leader(stage)
    end = removed_leader.log_end(stage, leader)
    stage.signal(signal.SIGCONT, follower, why="the follower goes on")
    committed = stage.until(lambda: int(stage.quorum(leader).high_watermark) > end, 30) is not None
    stage.transcript.did(f"{stage.name(leader)} answers DescribeQuorum", removed_leader.told(stage, leader))
    before = int(stage.quorum(leader).high_watermark)
    stage.sleep(REIGN_S * 1000)
    stage.transcript.did(
        f"{stage.name(leader)} answers DescribeQuorum {REIGN_S} s later", removed_leader.told(stage, leader)
    )
    reigns = stage.quorum_leader(leader) == leader and removed_leader.voters(stage, leader) == [follower]
    moves = int(stage.quorum(leader).high_watermark) > before
    stage.show_log(1, "Unable to send a heartbeat", last=1)
    stage.show_log(leader, r"Fencing broker 1 ", last=1)
    fenced = bool(stage.logged(leader, r"Fencing broker 1 "))
    stage.tool("kafka-metadata-quorum", "describe --status", ask=leader, keep="^java")
    created = removed_leader.create(stage, "before")
    stage.signal(signal.SIGTERM, leader)
    took_s = stage.until(lambda: stage.quorum_leader(follower) == follower, 60)
    stage.transcript.did(f"{stage.name(follower)} leads, {took_s} s after {stage.name(leader)} had ended")
    mended = stage.until(lambda: removed_leader.create(stage, "after"), 60) is not None
    return dict(zip(OUTCOME, (committed, reigns, moves, fenced, created, mended), strict=True))
