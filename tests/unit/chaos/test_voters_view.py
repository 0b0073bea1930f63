"""What is known of the voters while a run goes on."""

from __future__ import annotations

from actors.node.spec import ClusterSpec
from actors.trace.events import AnyTraceEvent, NodeUp, QRole, QVoters, Stamped
from chaos.conductor import VIEWED
from chaos.faults.operator import VoterAddition, VoterRemoval
from chaos.view import ClusterView, new_view

NODES = ["controller-1", "controller-2", "controller-3"]


def seen(*events: tuple[str, AnyTraceEvent]) -> ClusterView:
    """The view of a cluster with two voters and a spare controller after these events."""
    view = new_view(ClusterSpec("c", [101, 102], [], [], [103]))
    for number, (node, body) in enumerate(events):
        view.fold(Stamped("r", node, 0, number, number, 0, "", "", body))
    return view


def up(node: str, directory: str) -> tuple[str, AnyTraceEvent]:
    """A node starts."""
    return node, NodeUp("controller", 101, directory, False, False)


def voters(node: str, offset: int, epoch: int, **members: str) -> tuple[str, AnyTraceEvent]:
    """A voter set is in force at a node: v101="a" stands for voter 101 with directory a."""
    ids = {name[1:]: directory for name, directory in members.items()}
    return node, QVoters("d", offset, epoch, epoch, ids, offset + 1, offset, "append")


def leads(node: str, epoch: int, log_end: int, log_epoch: int = -1) -> tuple[str, AnyTraceEvent]:
    """A leader is elected."""
    return node, QRole("d", epoch, "leader", 101, log_end, log_epoch=log_epoch)


def test_the_newest_set_counts_until_it_is_lost() -> None:
    """Shows that events may come late, and that a set which a later leader's log lacks never was."""
    assert seen().voters == ["controller-1", "controller-2"] and seen().voter_directories == {}
    first, second = voters("controller-1", 2, 1, v101="a", v102="b"), voters("controller-1", 9, 1, v101="a")
    assert seen(first, second).voters == seen(second, first).voters == ["controller-1"]
    assert seen(first, second, leads("controller-2", 2, 10)).voters == ["controller-1"]
    lost = seen(first, second, leads("controller-2", 2, 9))
    assert lost.voters == ["controller-1", "controller-2"]
    lost.fold(Stamped("r", "controller-3", 0, 9, 9, 0, "", "", second[1]))
    assert lost.voters == ["controller-1", "controller-2"], "told of late"


def test_a_set_that_the_next_leader_has_counts_again() -> None:
    """Shows that a set which the log of a leader lacked, and that of the next one has, counts, whenever it was told."""
    first, second = voters("controller-1", 2, 1, v101="a", v102="b"), voters("controller-1", 9, 1, v101="a")
    before, after = leads("controller-2", 2, 9, 1), leads("controller-1", 3, 10, 1)
    for events in ((first, second, before, after), (first, before, second, after), (first, before, after, second)):
        assert seen(*events).voters == ["controller-1"]


def test_a_voter_without_its_disk_is_none() -> None:
    """Shows that a node which came back with another directory does not count as the voter of its name, and that where
    the voters are not in the log it does."""
    sets = [voters(name, 2, 1, v101="a", v102="b", v103="c") for name in NODES]
    there = [up(name, key) for name, key in zip(NODES, "abc", strict=True)]
    assert seen(*there, *sets).has_quorum({"controller-2"})
    there[1] = up("controller-2", "x")
    assert not seen(*there, *sets).has_quorum({"controller-3"})
    assert seen(*there, *sets).has_quorum(())
    assert seen(up("controller-1", "x")).has_quorum(()) and not seen().has_quorum({"controller-1"})


def test_a_set_that_only_some_know_of() -> None:
    """Shows that most voters are needed by the set that each counts by: after a leader has removed one of three from
    the log of its own, the other two are as many as they were."""
    sets = [voters(name, 2, 1, v101="a", v102="b", v103="c") for name in NODES]
    removed = voters("controller-1", 9, 1, v102="b", v103="c")
    assert seen(*sets, removed).has_quorum({"controller-1"})
    assert not seen(*sets, removed).has_quorum({"controller-2"})
    assert not seen(*sets, removed).has_quorum({"controller-1", "controller-2"})
    both = [voters(name, 9, 1, v102="b", v103="c") for name in NODES[1:]]
    assert seen(*sets, removed, *both).has_quorum({"controller-1"})


def test_one_of_two_voters_that_removed_itself() -> None:
    """Shows that nobody can win where the newest log is of a node that counts itself out and the other one needs its
    vote, and that the other one can as soon as it knows."""
    sets = [voters(name, 2, 1, v101="a", v102="b") for name in NODES[:2]]
    assert seen(*sets).can_elect(())
    removed = voters("controller-1", 9, 1, v102="b")
    assert seen(*sets, removed).has_quorum(()) and not seen(*sets, removed).can_elect(())
    assert seen(*sets, removed, voters("controller-2", 9, 1, v102="b")).can_elect({"controller-1"})


def aimed(action: VoterAddition | VoterRemoval, view: ClusterView) -> tuple[str, str] | None:
    """Controller and directory that the operator names."""
    found = action.aim("f1", view, NODES, frozenset())
    return None if found is None else (found.parameters["controller"], found.parameters["directory"])


def test_an_operator_names_the_directory_that_is_meant() -> None:
    """Shows that what is added has the directory of now, and that what is removed has that of the voter set, if it is
    in there; whoever never started has none to name."""
    view = seen(voters("controller-1", 2, 1, v101="a", v102="b"), up("controller-2", "new"), up("controller-3", "c"))
    assert aimed(VoterAddition(controller="controller-2"), view) == ("controller-2", "new")
    assert aimed(VoterRemoval(controller="controller-2"), view) == ("controller-2", "b")
    assert aimed(VoterRemoval(controller="controller-3"), view) == ("controller-3", "c")
    assert aimed(VoterAddition(controller="controller-1"), view) is None
    assert aimed(VoterAddition(controller="active-controller"), view) is None


def test_whoever_keeps_the_view_is_told_of_voters() -> None:
    """Shows that changes of the voters are among the events that a runtime hands to the conductor."""
    assert QVoters in VIEWED
