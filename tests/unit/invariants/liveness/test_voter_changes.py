"""L9: a change of the voter set comes to an end."""

from __future__ import annotations

from typing import Any

from actors.node.spec import METADATA_PARTITION, node_name
from actors.trace.events import ClockSet, CtlFault, QVoters
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TraceBuilder

IDS = (101, 102, 103, 104)
NODES = [node_name(each) for each in IDS]
THREE, FOUR = IDS[:3], IDS


class Quorum(TraceBuilder):
    """controller-1 leads epoch 1, and everybody has three voters, at offset 2, committed."""

    def __init__(self, **profile: Any) -> None:
        super().__init__(**profile)
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


class Joining(Quorum):
    """The same, and controller-4 is to become a voter by itself."""

    def __init__(self, joins: bool = True, level: str = "1", **more: Any) -> None:
        own = {"config": {"controller.quorum.auto.join.enable": joins}, **more}
        super().__init__(features={"kraft.version": level}, nodes={NODES[3]: own})

    def passes(self, bounds: float = 1.0) -> None:
        """So much of the bound goes by, and one event more."""
        self.wall += round(bounds * bound_us(Profile(), "L9/join"))
        self.emit("driver", CtlFault("f", "drop", "start", [], {}))

    def changed(self, ids: tuple[int, ...], offset: int) -> None:
        """The leader writes other voters, and all copy and commit them."""
        for node in NODES:
            self.voters(node, ids, offset, "append" if node == NODES[0] else "fetch")
        self.commit(offset + 1)


def test_who_is_to_join_becomes_a_voter() -> None:
    """Shows one that becomes a voter in time, and again after it was removed; and one that never does, told with the
    leader and the voters, but not before it has asked three times."""
    trace = Joining()
    trace.opens()
    trace.passes(0.9)
    assert trace.status() == ("vacuous", 0)
    trace.changed(FOUR, 5)
    assert trace.status() == ("held", 2)  # the change itself, too
    trace.changed(THREE, 7)
    trace.changed(FOUR, 9)
    trace.passes()
    assert trace.status() == ("held", 5)
    trace.changed(THREE, 11)
    trace.passes()
    (found,) = trace.result("L9").violations
    assert found.sentence.startswith("controller-4 is to become a voter by itself, and has not within ")
    assert found.sentence.endswith(
        " s, in which controller-1 led in epoch 1 and the voters stayed controller-1, controller-2, controller-3"
    )


def test_time_to_join_is_counted_anew() -> None:
    """Shows that another change, another leader and another copy of the voters give it all of its time again; and that
    it is over for one that was a voter with another disk, as for any other."""
    for number in range(3):
        trace = Joining()
        trace.opens()
        trace.passes(0.6)
        if number == 0:
            trace.changed((*THREE, 105), 5)
        elif number == 1:
            trace.role(NODES[0], 2, "follower", 102)
            trace.role(NODES[1], 2, "leader", 102)
            trace.commit(4, NODES[1], 2)
        else:
            trace.voters(NODES[3], (101, 102), 5)
            trace.voters(NODES[3], THREE, 2, "truncate")
        trace.passes(0.6)
        assert trace.result("L9").status != "violated", number
        trace.passes(0.6)
        assert trace.result("L9").status == "violated", number
    trace = Joining()
    trace.changed(FOUR, 5)
    trace.voters(NODES[3], FOUR, 5, "start", directory="another")
    trace.opens()
    trace.passes()
    assert trace.result("L9").status == "violated"


def test_who_need_not_join() -> None:
    """Shows that one which is not told to join, knows of a level without it, or has the disk of another cluster becomes
    no voter; nor who is not in the core, or has not copied the leader's voters; nor while the leader can change nothing
    as it has committed nothing; nor a broker."""
    for kind in ("joins", "untold", "level", "stranger", "away", "behind", "uncommitted"):
        more: dict[str, Any] = {"cluster_id": "another"} if kind == "stranger" else {}
        trace = Joining(kind != "untold", "0" if kind == "level" else "1", **more)
        if kind == "behind":
            trace.voters(NODES[3], (101, 102), 5)
        trace.opens(*[NODES[3]][: kind == "away"])
        if kind == "uncommitted":
            trace.role(NODES[0], 2, "leader", 101)
        trace.passes()
        joins = [each for each in trace.result("L9").violations if "by itself" in each.sentence]
        assert len(joins) == (kind == "joins"), kind
    trace = Joining()
    trace.down(NODES[3])
    trace.voters("broker-4", THREE, 2)
    trace.core = [*NODES, "broker-4"]
    trace.window("open", *trace.core)
    trace.passes()
    assert trace.result("L9").status == "vacuous"


def test_what_is_not_known_of_when_it_asks() -> None:
    """Shows that a controller whose clock was set may come late until it starts anew, and that nothing is expected once
    a bounce changes what controllers are told of joining, and is after any other."""
    for again in (False, True):
        trace = Joining()
        trace.opens()
        trace.emit(NODES[3], ClockSet("f", "start", 5_000_000, 0))
        if again:
            trace.down(NODES[3])
            trace.up(NODES[3], "controller")
            trace.voters(NODES[3], THREE, 2, "start")
        trace.passes()
        assert trace.result("L9").status == ("violated" if again else "vacuous")
    for key, judged in (
        ("controller.quorum.auto.join.enable", False),
        ("controller.quorum.fetch.timeout.ms", False),
        ("controller.quorum.request.timeout.ms", True),
    ):
        trace = Joining()
        trace.opens()
        trace.emit("driver", CtlFault("g", "rolling-bounce", "start", [], {"config": {key: 1}}))
        trace.passes()
        assert trace.result("L9").status == ("violated" if judged else "vacuous"), key
