"""The command ``krift explore``."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.cli.explore import explore
from orchestrator.exploration.models import MODELS, with_nodes
from orchestrator.exploration.search import Search
from tests.unit.cli.command import krift


def test_the_shortest_way_to_a_defect_is_told() -> None:
    """Shows 1, the promise, and the story that ends with the crash that loses the vote."""
    ended = krift("explore", "election", "--defect", "vote-before-sync", "--quiet")
    assert ended.code == 1, ended.err
    assert "broken: a vote that was given is kept (Q2): controller-2 gave controller-1 its vote of epoch 1" in ended.out
    assert "   6. controller-2 crashes and comes back with what was synced -> unattached in epoch 0" in ended.out
    assert (
        "Q2 of its trace: controller-2 granted its vote in epoch 1 to controller-1 before the vote was on its disk"
        in ended.out
    )


def test_the_object_for_programs_has_the_story_too() -> None:
    """Shows one object on stdout, with the features and budgets that were asked for."""
    ended = krift(
        *("explore", "election", "--set", "kip-996=off", "--defect", "vote-before-sync", "--json", "--quiet"),
        *("--epochs", "1", "--timeouts", "1", "--crashes", "1"),
    )
    assert ended.code == 1, ended.err
    found = msgspec.json.decode(ended.out)
    assert found["features"]["kip-996"] == "off"
    assert found["budgets"] == [{"timeouts": 1, "crashes": 1, "dropped connections": 0, "records": 0}]
    assert found["broken"]["invariant"] == "Q2"
    assert len(found["broken"]["story"]) == 4


def test_what_was_never_seen_makes_it_inconclusive() -> None:
    """Shows 3, and what is missing, where the states do not suffice for a leader."""
    ended = krift("explore", "replication", "--states", "50", "--drops", "1", "--show", "vote refused", "--quiet")
    assert ended.code == 3, ended.err
    assert "inconclusive: never seen: " in ended.out
    assert "with at most 1 dropped connection" in ended.out


def test_the_way_to_what_was_reached_is_told() -> None:
    """Shows 0 where all is seen that the bounds allow, and the story of an election."""
    ended = krift("explore", "election", "--epochs", "1", "--timeouts", "1", "--show", "leader", "--quiet")
    assert ended.code == 0, ended.err
    assert "the shortest way to leader, from empty disks:" in ended.out
    assert "   8. controller-1: quorum-state is synced -> leads, log 0@1" in ended.out
    assert ended.out.endswith("nothing is broken\n")


def test_wrong_names_are_told() -> None:
    """Shows 2 with the nearest name."""
    ended = krift("explore", "election", "--defect", "double-votes")
    assert ended.code == 2
    assert "did you mean double-vote?" in ended.err
    assert krift("explore", "election", "--defect", "list-log-end").code == 2
    assert "no value of it; expected off" in krift("explore", "election", "--set", "kip-996=on").err
    assert "did you mean kip-996?" in krift("explore", "election", "--set", "kip-99=off").err
    assert krift("explore", "elections").code == 2


def test_bounds_are_of_the_nodes_of_a_model() -> None:
    """Shows 2 where a bound is of other nodes, and the story of a marker that was sent too early where it is not."""
    ended = krift("explore", "election", "--elections", "1")
    assert ended.code == 2
    assert "no bound of election" in ended.err
    assert krift("explore", "transaction-commit", "--epochs", "1").code == 2
    assert "no defect of the brokers" in krift("explore", "transaction-commit", "--defect", "double-vote").err
    ended = krift("explore", "transaction-commit", "--defect", "transaction-before-hw", "--requests", "1", "--quiet")
    assert ended.code == 1, ended.err
    assert "broken: a marker is sent for a durable decision (T13): broker-1 sends markers for the commit" in ended.out
    assert "   1. the producer commits (EndTxn) at broker-1 -> __transaction_state-0 3@0 t PrepareCommit" in ended.out
    assert "T13 of its trace: broker-1 has t in PrepareCommit (producer id 0, epoch 1) by offset 3" in ended.out


def test_an_interrupted_exploration_tells_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows the outcome of a Ctrl-C: neither held nor inconclusive."""
    run = Search.run

    def interrupted(search: Search) -> object:
        search.stop()
        return run(search)

    monkeypatch.setattr(Search, "run", interrupted)
    explored = explore(with_nodes(MODELS["election"], {}, []), quiet=True)
    assert explored.outcome == "interrupted"
    ended = krift("explore", "election", "--quiet")
    assert ended.code == 130
    assert "interrupted; nothing is broken in what was seen" in ended.out
