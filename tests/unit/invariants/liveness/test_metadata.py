"""L8, L16: metadata gets to whoever needs it."""

from __future__ import annotations

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ErrorSeen, MetaImage, MetaView
from tests.unit.invariants.folds.test_windows import Run
from tests.unit.invariants.trace_builder import TP

CLIENT = "consumer-1"


class Behind(Run):
    """Broker-1 leads in leader epoch 0 until broker-2 does in 1; who is up, and what clients have, is as of 0."""

    def __init__(self) -> None:
        super().__init__()
        self.role("controller-1", 1, "leader", 101)
        for broker in (1, 2):
            self.up(f"broker-{broker}")
        self.change(1, 0, offset=10)
        for broker in (1, 2):
            self.applied(broker, 11)
        self.hears(1, 0)

    def applied(self, broker: int, end: int) -> None:
        self.emit(f"broker-{broker}", MetaImage(end, end))

    def hears(self, leader: int, epoch: int, server: str = "broker-1", taken: bool = True) -> None:
        self.emit(CLIENT, MetaView(server, {TP: epoch}, [TP] if taken else [], {TP: leader}))

    def refused(self) -> None:
        error = KafkaError.NOT_LEADER_OR_FOLLOWER
        self.emit(CLIENT, ErrorSeen(TP, "Fetch", 12, error, "broker-1"))


def test_an_image_that_stays_behind() -> None:
    """Shows a broker that does not apply the last record, one that does, one that is not in the core, and a record that
    was lost with the quorum leader that had written it."""
    run = Behind()
    run.window()
    run.change(2, 1, offset=12)
    run.applied(2, 13)
    run.past("L8")
    assert run.status("L8") == ("violated", 1)
    sentence = run.result("L8").violations[0].sentence
    assert sentence.startswith("the metadata image of broker-1 did not reach offset 13") and sentence.endswith(
        "it is at 11"
    )
    run = Behind()
    run.change(2, 1, offset=12)
    run.window(without=("broker-1",))
    run.applied(2, 13)
    run.past("L8")
    assert run.status("L8") == ("held", 1)
    run = Behind()
    run.window()
    run.change(2, 1, offset=12)
    run.applied(2, 13)
    run.role("controller-2", 2, "leader", 102, log_end=12)
    run.past("L8")
    assert run.status("L8") == ("held", 1)


def test_an_image_is_asked_for_again_after_each_record() -> None:
    """Shows that a broker that has got to one record has to get to the next, too."""
    run = Behind()
    run.window()
    run.fenced(3, fenced=True, offset=12)
    run.applied(1, 13)
    run.applied(2, 13)
    run.fenced(3, fenced=False, offset=14)
    run.applied(2, 15)
    run.past("L8")
    assert run.status("L8") == ("violated", 3)


@pytest.mark.parametrize(
    ("leader", "epoch", "status"),
    [(1, 0, "violated"), (2, 1, "held"), (3, 2, "held"), (2, -1, "held"), (1, -1, "violated")],
)
def test_a_client_that_was_refused_gets_the_leader_of_now_or_later(leader: int, epoch: int, status: str) -> None:
    """Shows that a leader of the leader epoch that the log had when a client was refused ends what it waits for, or one
    of a later one; where the answer has no leader epoch the leader counts."""
    run = Behind()
    run.window()
    run.change(2, 1, offset=12)
    run.refused()
    run.change(3, 2, offset=13)
    run.hears(leader, epoch)
    run.past("L16", 0.6)
    run.refused()
    run.past("L16", 0.5)
    assert run.status("L16") == (status, status == "held")
    if status == "violated":
        assert f"it knows broker-1 in leader epoch {epoch}" in run.result("L16").violations[0].sentence


def test_a_client_of_which_nothing_is_promised() -> None:
    """Shows a client that is refused before a broker knows that it leads, one that asks no more, and one whom a broker
    outside of the core told what it had."""
    early = Behind()
    early.window()
    early.refused()
    early.past("L16")
    assert early.status("L16") == ("vacuous", 0)
    ended = Behind()
    ended.window()
    ended.change(2, 1, offset=12)
    ended.refused()
    ended.past("L16")
    assert ended.status("L16") == ("vacuous", 0)
    elsewhere = Behind()
    elsewhere.change(2, 1, offset=12)
    elsewhere.refused()
    elsewhere.window(without=("broker-3",))
    elsewhere.hears(1, 0, server="broker-3")
    elsewhere.past("L16", 0.6)
    elsewhere.refused()
    elsewhere.past("L16", 0.5)
    assert elsewhere.result("L16").excused == {"silent-brokers": 1}
