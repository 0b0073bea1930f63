"""A quorum leader is removed while its follower hangs, and dies with the removal in its log alone. Both come back, and
nobody ever leads again: the follower asks for votes and is refused, as the other's log is longer; and that one never
stands, as by its log, committed or not, it is no voter. Raft lets such a server stand (dissertation, 4.2.2)."""

from __future__ import annotations

import shutil
import signal

from tests.real_kafka.findings import removed_leader
from tests.real_kafka.findings.stage import Stage

LEADERLESS_S = 60
OUTCOME = {
    f"somebody led within {LEADERLESS_S} s": False,
    f"somebody led within {LEADERLESS_S} s of a restart of both": False,
    "a topic can be created": False,
    "somebody leads once the removed one is formatted anew with its directory id": True,
}


def stage() -> Stage:
    """See Finding."""
    return removed_leader.removal_pending()


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    leader, follower = removed_leader.remove_leader(stage)
    stage.signal(signal.SIGKILL, leader)
    stage.signal(signal.SIGCONT, follower, why="the follower goes on")
    stage.start_again(leader)
    led = somebody_led(stage)
    show_votes(stage, leader, follower)
    created = removed_leader.create(stage, "before")
    stage.signal(signal.SIGKILL, leader, follower)
    stage.start_again(leader, follower)
    led_again = somebody_led(stage)
    show_votes(stage, leader, follower)
    stage.signal(signal.SIGKILL, leader)
    shutil.rmtree(stage.data(leader))
    stage.transcript.did(f"empty {stage.name(leader)}'s directory")
    stage.format(leader)
    stage.start_again(leader)
    took_s = stage.until(lambda: stage.quorum_leader() > 0, 60)
    stage.transcript.did(f"{stage.name(stage.quorum_leader())} leads after {took_s} s")
    return dict(zip(OUTCOME, (led, led_again, created, took_s is not None), strict=True))


def somebody_led(stage: Stage) -> bool:
    """Whether a controller said so, asked five times a second."""
    led = stage.until(lambda: stage.quorum_leader() > 0, LEADERLESS_S) is not None
    stage.transcript.did(
        f"{stage.name(stage.quorum_leader())} leads" if led else f"no controller has led for {LEADERLESS_S} s"
    )
    return led


def show_votes(stage: Stage, leader: int, follower: int) -> None:
    """What the two say of it."""
    stage.show_log(follower, "Completed transition to", last=2)
    stage.show_log(leader, "Completed transition to", last=1)
