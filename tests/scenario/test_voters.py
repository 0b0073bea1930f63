"""Changes of the voter set while the cluster runs and things break (KIP-853)."""

from __future__ import annotations

from pathlib import Path

from actors.trace.events import AdminReturn, QRole, QVoters, Rpc, Stamped
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from tests.scenario.test_library_in_sim import assert_expected, play

SCENARIOS = Path(__file__).parent / "voters"


def trace_of(name: str) -> list[Stamped]:
    """The trace of one of the scenarios here, of which all takes effect and nothing is violated; what each expects to
    hold is put to the test."""
    plan = resolve(load_file(SCENARIOS / f"{name}.yaml"))
    played = play(plan)
    assert_expected(plan, played)
    return played.result.trace


def appended(trace: list[Stamped]) -> list[str]:
    """Ids of the voters in each set that a leader wrote, in order."""
    sets = [event.body for event in trace if isinstance(event.body, QVoters) and event.body.cause == "append"]
    return [" ".join(body.members) for body in sets]


def told(trace: list[Stamped]) -> list[object]:
    """What the operator was told, operation by operation."""
    ends = [event.body for event in trace if isinstance(event.body, AdminReturn)]
    return [body.results for body in ends]


def test_a_quorum_becomes_another_one() -> None:
    """Shows that voters come and go one by one through crashes, and that a leader goes too."""
    trace = trace_of("another-quorum")
    sets = appended(trace)
    assert sets == ["101 102 103", "101 102 103 104", "101 102 104", "101 102 104 105", "101 104 105"]
    *changes, quorum = told(trace)
    assert changes == [
        {"controller-4": "NONE"},
        {"controller-3": "NONE"},
        {"controller-5": "NONE"},
        {"controller-2": "NONE"},
    ]
    assert isinstance(quorum, dict) and list(quorum["voters"]) == ["101", "104", "105"]
    roles = [event.body.role for event in trace if isinstance(event.body, QRole) and event.node == "controller-3"]
    assert roles[-4:] == ["leader", "resigned", "unattached", "follower"], "removed, it only follows"


def test_a_voter_with_another_disk_is_another_voter() -> None:
    """Shows that the old directory is removed and the new one added, and that a voter tells where it listens now."""
    trace = trace_of("replaced-disk")
    assert appended(trace) == ["101 102 103", "102 103", "101 102 103", "101 102 103"]
    first, *_, last = (e.body.members for e in trace if isinstance(e.body, QVoters) and e.body.cause == "append")
    assert first["101"] != last["101"] and first["102"] == last["102"]
    asked = [event.body.api for event in trace if isinstance(event.body, Rpc) and event.body.api.endswith("RaftVoter")]
    assert asked == ["RemoveRaftVoter", "AddRaftVoter", "UpdateRaftVoter"]


def test_a_change_that_no_majority_has_is_cut_off() -> None:
    """Shows that a voter set which is in force in two of four logs decides nothing, and is undone."""
    trace = trace_of("change-that-is-lost")
    assert told(trace) == [{"controller-4": "REQUEST_TIMED_OUT"}]
    undone = {event.node for event in trace if isinstance(event.body, QVoters) and event.body.cause == "truncate"}
    assert {"controller-3", "controller-4"} <= undone
    assert appended(trace) == ["101 102 103", "101 102 103 104"]
