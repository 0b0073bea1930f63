"""L9: a change of the voter set comes to an end."""

from __future__ import annotations

from typing import Any

from actors.node.spec import METADATA_PARTITION, node_name
from actors.trace.events import CtlFault, QVoters
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TraceBuilder

IDS = (101, 102, 103, 104)
NODES = [node_name(each) for each in IDS]
THREE, FOUR = IDS[:3], IDS


class Quorum(TraceBuilder):
    """controller-1 leads epoch 1, and everybody has three voters, at offset 2, committed."""

    def __init__(self) -> None:
        super().__init__()
        for node in NODES:
            self.voters(node, THREE, 2)
        self.role(NODES[0], 1, "leader", 101)
        self.commit(3)

    def voters(self, node: str, ids: tuple[int, ...], offset: int, cause: Any = "fetch", directory: str = "") -> str:
        """Another set is in force at a member."""
        members = {str(each): f"dir-{node_name(each)}" for each in ids}
        own = directory or f"dir-{node}"
        return self.emit(node, QVoters(own, offset, 1, 1, members, offset + 1, 2, cause))

    def commit(self, new: int, node: str = NODES[0], epoch: int = 1) -> str:
        """A leader commits."""
        return self.high_watermark(node, new, epoch, METADATA_PARTITION)

    def opens(self, *without: str) -> None:
        """A window with all controllers but some."""
        self.core = [each for each in NODES if each not in without]
        self.window("open", *self.core)

    def past(self) -> None:
        """The bound goes by, and one event more."""
        self.wall += bound_us(Profile(), "L9")
        self.emit("driver", CtlFault("f", "drop", "start", [], {}))

    def status(self) -> tuple[str, int]:
        """And how often it was tested."""
        found = self.result("L9")
        return found.status, found.tested


def test_a_change_that_is_committed_and_copied() -> None:
    """Shows that a change is over when it is committed and in force at all members in the core, in time; and that
    without a change there is nothing to test."""
    trace = Quorum()
    trace.opens()
    trace.past()
    assert trace.status() == ("vacuous", 0)
    trace.voters(NODES[0], FOUR, 5, "append")
    for node in NODES[1:]:
        trace.voters(node, FOUR, 5)
    assert trace.status() == ("vacuous", 0), "not committed yet"
    trace.commit(6)
    trace.past()
    assert trace.status() == ("held", 1)


def test_a_change_that_is_not_committed() -> None:
    """Shows one that a leader with a majority of the new voters in the core does not commit."""
    trace = Quorum()
    trace.opens()
    appended = trace.voters(NODES[0], FOUR, 5, "append")
    for node in NODES[1:]:
        trace.voters(node, FOUR, 5)
    trace.commit(5)
    trace.past()
    (found,) = trace.result("L9").violations
    assert found.events[0] == appended
    assert found.sentence.startswith(
        "the voter set controller-1, controller-2, controller-3, controller-4, which controller-1, leader of epoch 1, "
        "wrote at offset 5, was not committed within"
    )


def test_a_change_that_is_undone() -> None:
    """Shows a member that goes on with voters that the leader never had, one that is told in time, and one that is
    outside of the core, of which nothing is expected; and a window that is too short."""
    for cut, without in ((False, ()), (True, ()), (False, (NODES[3],))):
        trace = Quorum()
        trace.voters(NODES[3], FOUR, 5)
        trace.opens(*without)
        if cut:
            trace.voters(NODES[3], THREE, 2, "truncate")
        trace.past()
        if cut or without:
            assert trace.status() == (("held", 1) if cut else ("vacuous", 0))
        else:
            (found,) = trace.result("L9").violations
            assert "wrote at offset 2, was not adopted by every voter within" in found.sentence
            assert found.sentence.endswith(
                "it: controller-4 still has controller-1, controller-2, controller-3, controller-4"
            )
    short = Quorum()
    short.voters(NODES[3], FOUR, 5)
    short.opens()
    short.window("close", *short.core)
    assert short.result("L9").why.startswith("no stability window was long enough")


def test_who_can_commit_nothing() -> None:
    """Shows that nothing is expected of a leader without most of its voters in the core, of which one with another
    directory is none, nor where nobody leads there; and that another leader has time of its own."""
    for number, without in enumerate(((NODES[1], NODES[2]), (NODES[1],), (NODES[0],))):
        trace = Quorum()
        if number == 1:
            trace.voters(NODES[2], THREE, 2, directory="another")
        trace.opens(*without)
        trace.voters(NODES[0], FOUR, 5, "append")
        trace.past()
        assert trace.status() == ("vacuous", 0), without
    trace = Quorum()
    trace.opens()
    trace.voters(NODES[0], FOUR, 5, "append")
    trace.wall += bound_us(Profile(), "L9") // 2
    trace.role(NODES[0], 2, "follower", 102)
    trace.role(NODES[1], 2, "leader", 102)
    trace.commit(6, NODES[1], 2)
    trace.wall += bound_us(Profile(), "L9") * 2 // 3
    trace.voters(NODES[0], THREE, 2, "truncate")
    trace.past()
    assert trace.status() == ("held", 1)
    trace.voters(NODES[1], FOUR, 7, "append")
    trace.down(NODES[1])
    trace.past()
    assert trace.status() == ("held", 1), "its leader is down"
