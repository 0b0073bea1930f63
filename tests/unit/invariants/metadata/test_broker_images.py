"""M8: broker images are one history."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from actors.trace.events import MetaImage, MetaState, MetaView, PartChange, PartRemove
from tests.unit.invariants.trace_builder import METADATA_PARTITION, TP, TraceBuilder

LEADER = "controller-1"
ANEW = f"{TP}@of-the-second"


class Cluster:
    """A quorum leader of epoch 1 whose log has one batch a record, and brokers that apply it."""

    def __init__(self, **profile: Any) -> None:
        self.trace = TraceBuilder(**profile)
        self.trace.role(LEADER, 1, "leader", 101)
        self.end = 0

    def writes(self, body: Any, committed: bool = True) -> None:
        """The controller writes a record at the log end: ``body`` makes the event, for an offset."""
        self.trace.append(LEADER, f"m{self.end}", epoch=1, tp=METADATA_PARTITION)
        body(self.end)
        self.end += 1
        if committed:
            self.trace.high_watermark(LEADER, self.end, epoch=1, tp=METADATA_PARTITION, counted=(101,))

    def elects(self, leader: int, epoch: int, **how: Any) -> None:
        """Orders-0 gets a leader."""
        self.writes(lambda offset: self.trace.change(leader, epoch, offset=offset, node=LEADER), **how)

    def registers(self, broker: int, fenced: bool = False) -> None:
        """A broker is fenced, or not."""
        self.writes(lambda offset: self.trace.registered(broker, fenced=fenced, offset=offset, node=LEADER))

    def applies(self, broker: int, offset: int, digest: int = 0, state: int | None = None) -> str:
        """A broker comes to an offset."""
        return self.trace.emit(f"broker-{broker}", MetaImage(offset, digest or 7 * offset, state))

    def made(self, node: str, offset: int, state: int | None, digest: int = 0) -> str:
        """A node tells what it has made of the log up to an offset."""
        return self.trace.emit(node, MetaState("load", offset, digest or 7 * offset, state))

    def removes(self, tp: str = TP, **how: Any) -> None:
        """A topic is removed."""
        self.writes(lambda offset: self.trace.emit(LEADER, PartRemove(tp, offset, 1, "id")), **how)

    def elects_anew(self, leader: int, epoch: int) -> None:
        """The next topic of its name gets a leader."""
        self.elects(leader, epoch)
        index = max(index for index, each in enumerate(self.trace.events) if type(each.body) is PartChange)
        event = self.trace.events[index]
        self.trace.events[index] = replace(event, body=replace(event.body, tp=ANEW))

    def tells(self, cause: str, leader: int, epoch: int, source: Any = "metadata", tp: str = TP) -> None:
        """A client is told of a leader by a broker that had recorded ``cause``."""
        self.trace.cause = cause
        self.trace.emit("consumer-1", MetaView(cause.partition("/")[0], {tp: epoch}, [tp], {tp: leader}, {}, source))
        self.trace.cause = ""

    def says(self) -> str:
        """What violates M8, "" nothing."""
        violations = self.trace.result("M8").violations
        return violations[0].sentence if violations else ""


def test_brokers_that_agree() -> None:
    """Shows that each image after a broker's first, or at an offset where another broker was, tests M8."""
    cluster = Cluster()
    cluster.registers(1)
    cluster.registers(2)
    cluster.applies(1, 1)
    cluster.applies(1, 2)
    cluster.applies(2, 2)
    result = cluster.trace.result("M8")
    assert (result.status, result.tested) == ("held", 2)


def test_images_that_are_no_history() -> None:
    """Shows that an image that differs from another broker's, goes back, or is ahead of the quorum violates M8; a
    process that starts anew begins anew."""
    cluster = Cluster()
    cluster.registers(1)
    cluster.registers(2)
    first = cluster.applies(1, 2)
    second = cluster.applies(2, 2, digest=5)
    assert cluster.says() == "broker-2 has a metadata image at offset 2 that differs from the one of broker-1"
    assert cluster.trace.result("M8").violations[0].events == [first, second]
    back = Cluster()
    back.registers(1)
    back.registers(2)
    back.applies(1, 2)
    back.trace.up("broker-1")
    back.applies(1, 1)
    assert back.says() == ""
    back.applies(1, 2)
    back.applies(1, 1)
    assert back.says() == "broker-1 went back to 1 of the metadata log after it had reached 2"
    ahead = Cluster()
    ahead.elects(1, 0, committed=False)
    ahead.applies(1, 1)
    assert ahead.says() == "broker-1 has applied the metadata log up to 1, but it is committed only up to 0"


def test_a_hint_that_nobody_wrote() -> None:
    """Shows that a hint has leader and leader epoch as some controller wrote them together."""
    cluster = Cluster()
    for broker in (1, 2):
        cluster.registers(broker)
    cluster.elects(1, 4)
    cluster.elects(2, 5)
    cluster.tells(cluster.applies(1, 4), 2, 4, source="hint")
    told = "broker-1 answered consumer-1 with broker-2 in leader epoch 4 of orders-0"
    assert cluster.says() == f"{told}, but no controller wrote such a record"


def test_what_clients_are_told() -> None:
    """Shows that an answer is judged by the image that its broker had when it gave it."""
    cluster = Cluster()
    cluster.registers(1)
    cluster.registers(2)
    cluster.elects(1, 4)
    before = cluster.applies(1, 3)
    cluster.elects(2, 5)
    after = cluster.applies(1, 4)
    cluster.tells(before, 1, 4)
    cluster.tells(after, 2, 5)
    cluster.tells(after, 2, -1)
    cluster.tells(before, 2, 5, source="hint")
    cluster.tells(after, 9, 9, source="heard")
    assert cluster.says() == ""
    cluster.tells(after, 1, 4)
    assert cluster.says() == (
        "broker-1 answered consumer-1 with broker-1 in leader epoch 4 of orders-0, but its image, up to 4, has "
        "broker-2 in leader epoch 5 of it"
    )


def test_a_leader_that_is_fenced() -> None:
    """Shows that a leader which is fenced in the image is none for clients."""
    cluster = Cluster()
    cluster.registers(1)
    cluster.elects(1, 4)
    cluster.registers(1, fenced=True)
    image = cluster.applies(2, 3)
    cluster.tells(image, -1, 4)
    assert cluster.says() == ""
    cluster.tells(image, 1, 4)
    assert cluster.says().endswith("has broker-1 in leader epoch 4 of it, fenced at 2")


def test_what_was_pushed() -> None:
    """Shows that where metadata is pushed to brokers, what clients are told must have been written by a controller."""
    cluster = Cluster(config={"metadata.propagation": "push"})
    cluster.registers(1)
    cluster.elects(1, 4)
    image = cluster.applies(2, 2)
    cluster.elects(2, 5)
    for leader, epoch in ((1, 4), (2, 5), (-1, 5), (2, -1)):
        cluster.tells(image, leader, epoch)
    assert cluster.says() == ""
    cluster.tells(image, 1, 5)
    assert cluster.says().endswith("but no controller wrote such a record")


def two_topics(**profile: Any) -> tuple[Cluster, str, str, str]:
    """Broker-1 leads the first topic in leader epoch 4, broker-2 the second one in leader epoch 0. Images of broker-1:
    with the first, with neither, with the second."""
    cluster = Cluster(**profile)
    cluster.registers(1)
    cluster.registers(2)
    cluster.elects(1, 4)
    first = cluster.applies(1, 3)
    cluster.removes()
    neither = cluster.applies(1, 4)
    cluster.elects_anew(2, 0)
    return cluster, first, neither, cluster.applies(1, 5)


@pytest.mark.parametrize("tp", [TP, ANEW])
def test_who_leads_the_second_topic(tp: str) -> None:
    """Shows that a client is told of the second topic where its broker's image has that, be it that the client takes it
    for the first, as it is told no topic ids; and that the leader of the first one is none of the second."""
    cluster, first, _, second = two_topics()
    cluster.tells(second, 2, 0, tp=tp)
    cluster.tells(first, 1, 4)
    assert (cluster.says(), cluster.trace.result("M8").tested) == ("", 4)
    cluster.tells(second, 1, 4, tp=tp)
    assert cluster.says().endswith("but its image, up to 5, has broker-2 in leader epoch 0 of it")


def test_who_leads_a_removed_topic() -> None:
    """Shows that a broker whose image has no topic of that name tells of none; that a removal which nobody has
    committed removes nothing; and that of another topic neither."""
    cluster, _, neither, _ = two_topics()
    cluster.tells(neither, 1, 4)
    assert cluster.says().endswith("but its image, up to 4, has no such topic")
    for tp, committed in ((TP, False), ("orders-1", True)):
        cluster = Cluster()
        cluster.registers(1)
        cluster.elects(1, 4)
        cluster.removes(tp, committed=committed)
        cluster.tells(cluster.applies(2, 2 + committed), 1, 4)
        assert cluster.says() == ""


def test_a_hint_about_the_second_topic() -> None:
    """Shows a hint that a client takes to be about the first topic, as it asked by the name: a controller wrote it of
    the second one. What none wrote of either, or of another partition alone, is wrong."""
    cluster, _, _, second = two_topics()
    cluster.tells(second, 2, 0, source="hint")
    assert cluster.says() == ""
    cluster.tells(second, 2, 4, source="hint")
    assert cluster.says().endswith("but no controller wrote such a record")
    cluster, _, _, second = two_topics()
    cluster.tells(second, 2, 0, source="hint", tp="orders-1")
    assert cluster.says().endswith("but no controller wrote such a record")
    pushed, _, _, second = two_topics(config={"metadata.propagation": "push"})
    pushed.tells(second, 2, 0)
    assert pushed.says() == ""
    pushed.tells(second, 1, 0)
    assert pushed.says().endswith("but no controller wrote such a record")


def wiped() -> Cluster:
    """The one controller that had the log has lost it, after broker-1 had applied two records; the next one, of epoch
    2, writes two others."""
    cluster = Cluster()
    cluster.registers(1)
    cluster.registers(2)
    cluster.applies(1, 2)
    trace = cluster.trace
    trace.flush(LEADER, 2)
    trace.down(LEADER, "lossy", lost={METADATA_PARTITION: 0})
    trace.role("controller-2", 2, "leader", 102)
    for number in (1, 2):
        trace.append("controller-2", f"n{number}", epoch=2, tp=METADATA_PARTITION)
        trace.append("controller-3", f"n{number}", epoch=2, tp=METADATA_PARTITION, role="follower")
        trace.high_watermark("controller-2", number, epoch=2, tp=METADATA_PARTITION, counted=(102, 103))
    return cluster


def test_an_image_of_a_log_that_the_quorum_lost() -> None:
    """Shows that a broker whose image has what the quorum lost may go back, and differ from others."""
    cluster = wiped()
    cluster.applies(1, 1)
    cluster.applies(2, 2, digest=5)
    cluster.applies(1, 2)
    result = cluster.trace.result("M8")
    assert (result.violated, result.excused) == (0, {"loss-budget": 2})


def test_a_loss_excuses_no_later_image() -> None:
    """Shows that images of what the quorum wrote since it lost a log violate M8 where they differ, where one goes back,
    and where one is ahead of the quorum."""
    cluster = wiped()
    cluster.applies(2, 2, digest=5)
    cluster.applies(3, 2, digest=6)
    assert cluster.says() == "broker-3 has a metadata image at offset 2 that differs from the one of broker-2"
    cluster = wiped()
    cluster.applies(2, 2, digest=5)
    cluster.applies(2, 1, digest=6)
    assert cluster.says() == "broker-2 went back to 1 of the metadata log after it had reached 2"
    cluster = wiped()
    cluster.applies(2, 3)
    assert cluster.says() == "broker-2 has applied the metadata log up to 3, but it is committed only up to 2"


def test_states_of_the_same_records() -> None:
    """Shows that brokers and controllers that tell the same state of the same records test M8; and that nothing is held
    against who tells none, or has other records."""
    cluster = Cluster()
    cluster.registers(1)
    cluster.registers(2)
    cluster.applies(1, 2, state=5)
    cluster.made(LEADER, 2, 5)
    cluster.made("broker-2", 2, 5)
    cluster.made(LEADER, 2, None)
    cluster.made("controller-2", 2, 6, digest=1)
    cluster.made("controller-2", 1, 6)
    result = cluster.trace.result("M8")
    assert (result.status, result.tested) == ("held", 2)


@pytest.mark.parametrize("node", [LEADER, "broker-1", "broker-2"])
def test_another_state_of_the_same_records(node: str) -> None:
    """Shows that a state which differs from what any node made of the same records violates M8, be it the same node
    that had replayed them before."""
    cluster = Cluster()
    cluster.registers(1)
    replayed = cluster.applies(1, 1, state=5)
    loaded = cluster.made(node, 1, 6)
    (found,) = cluster.trace.result("M8").violations
    assert found.events == [replayed, loaded]
    assert found.sentence == (
        f"{node} has made something else of the metadata log up to 1 than broker-1, of the same records"
    )


def test_a_loss_excuses_no_other_state() -> None:
    """Shows that what the quorum lost is compared with nothing that it wrote later, and that a loss is no reason to
    make something else of the same records."""
    cluster = wiped()
    cluster.applies(1, 2, state=4)
    cluster.made("broker-2", 2, 5, digest=5)
    cluster.made("broker-3", 2, 6, digest=6)
    assert cluster.says() == ""
    cluster.made("controller-2", 2, 6)
    assert "has made something else of the metadata log up to 2 than broker-1" in cluster.says()
