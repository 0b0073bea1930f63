"""Every fault on every role of the quorum, and a death at every point between two effects of a voter.

Each case is a run of some three virtual seconds: the leader dies and comes back, so that the quorum goes through all of
its roles, and the fault hits whoever takes up the role that it waits for.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest

from actors.crash_points import POINTS
from actors.quorum.quorum_state import RoleName
from actors.trace.events import CtlFault, QRole, Stamped
from chaos.faults.kinds import ALL
from chaos.faults.store import StoreFault
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.scenario.yaml_text import to_yaml
from orchestrator.sim_run import SimRun, run_in_sim

pytestmark = pytest.mark.unhurried

ROLES = (*get_args(RoleName), "observer")

FAULTS: dict[str, dict[str, Any]] = {
    "partition": {"isolate": "WHO"},
    "delay": {"between": "WHO", "and": "controllers", "by": "150ms", "jitter": "100ms"},
    "drop": {"between": "WHO", "and": "controllers", "chance": "60%"},
    "duplicate": {"between": "WHO", "and": "controllers", "chance": "60%"},
    "reorder": {"between": "WHO", "and": "controllers", "chance": "60%", "by": "50ms"},
    "crash": {"nodes": "WHO"},
    "power-loss": {"nodes": "WHO"},
    "torn-tail": {"nodes": "WHO"},
    "wipe": {"nodes": "WHO"},
    "pause": {"nodes": "WHO"},
    "slow-disk": {"nodes": "WHO", "by": "120ms"},
    "clock-skew": {"nodes": "WHO", "offset": "+3s", "rate": "+200%"},
    "clock-jump": {"nodes": "WHO", "by": "-3s"},
}
"""Each fault as it hits WHO. Clocks are off by far more than an election takes."""

ACTIONS = {"controlled-shutdown": {"targets": "WHO"}, "rolling-bounce": {"targets": "WHO", "timeout": "5s"}}
"""What an operator does to a voter in the same moment."""

QUORUM_APIS = ("Vote", "Fetch", "BeginQuorumEpoch", "EndQuorumEpoch")
METADATA_LOG = "__cluster_metadata-0"
SUBJECTS = {"file": ("quorum-state", METADATA_LOG), "api": QUORUM_APIS, "partition": (METADATA_LOG,)}
CRASH_POINTS = [(point, of) for point in POINTS for of in SUBJECTS[POINTS[point].subject]]

CLUSTER = {
    "voters": 3,
    "brokers": 1,
    "topics": {"orders": {"replicas": [[1]]}},
    "config": {
        "controller.quorum.election.timeout.ms": 150,
        "controller.quorum.fetch.timeout.ms": 600,
        "controller.quorum.request.timeout.ms": 600,
        "controller.quorum.election.backoff.max.ms": 150,
        "broker.session.timeout.ms": 600,
        "broker.heartbeat.interval.ms": 150,
    },
}


def carried_out(*chaos: dict[str, Any]) -> tuple[SimRun, list[Stamped]]:
    """A run in which the leader is away from 100 ms on for a second, and what else is done; its roles and faults."""
    leader_away = {"when": {"at": "100ms"}, "fault": {"crash": "active-controller"}, "for": "1s", "optional": True}
    document = {
        "schema": "krift/v1",
        "name": "voters",
        "about": "A fault on a voter.",
        "duration": "2500ms",
        "cluster": CLUSTER,
        "workload": [{"producer": {"topic": "orders", "rate": "5/s"}}, {"consumer": {"topic": "orders"}}],
        "chaos": [leader_away, *chaos],
    }
    seen: list[Stamped] = []

    def look(event: Stamped) -> None:
        if isinstance(event.body, QRole | CtlFault):
            seen.append(event)

    return run_in_sim(resolve(load_text(to_yaml(document), "voters.yaml")), [look]), seen


def aimed_at(what: dict[str, Any], role: str) -> dict[str, Any]:
    """A fault on whoever is in a role, or on an observer."""
    who = "observers[0]" if role == "observer" else f"voters({role})[0]"
    (kind, given), *_ = what.items()
    if kind == "pause":
        return {kind: who}
    return {kind: {key: who if value == "WHO" else value for key, value in given.items()}}


def moment(role: str) -> dict[str, Any]:
    """When there is somebody in a role, after the leader is gone."""
    if role == "observer":
        return {"at": "700ms"}
    return {"seen": {"quorum-role": {"role": role, "epoch": 1 if role in ("prospective", "resigned") else 2}}}


def roles_when_hit(events: list[Stamped], fault: str) -> list[str]:
    """Which roles those whom a fault hit had at that time."""
    roles: dict[str, str] = {}
    for event in events:
        if isinstance(event.body, QRole):
            roles[event.node] = event.body.role
        elif isinstance(event.body, CtlFault) and event.body.fault == fault and event.body.phase == "start":
            return [roles[name] for name in event.body.targets[:1]]
    return []


def assert_nothing_broke(run: SimRun) -> None:
    """It went its whole way, and no promise was broken but as its rules allow."""
    assert (run.status, run.verdict.unexpected, run.verdict.undecided) == ("completed", [], [])
    assert run.faults[1].took_effect


def test_every_fault_is_tried() -> None:
    """Shows that a new kind of fault cannot be forgotten here. Those of the remote store hit no voter."""
    elsewhere = {kind.kind for kind in ALL if issubclass(kind, StoreFault)}
    assert set(FAULTS) == {kind.kind for kind in ALL if kind.section == "fault"} - elsewhere


@pytest.mark.parametrize("kind", [*FAULTS, *ACTIONS])
def test_a_fault_on_each_role_breaks_no_promise(kind: str) -> None:
    """Shows for one fault that it takes effect on a node in each role, and that the quorum gets over it."""
    for role in ROLES:
        what = "action" if kind in ACTIONS else "fault"
        entry = {"when": moment(role), what: aimed_at({kind: {**FAULTS, **ACTIONS}[kind]}, role)}
        if kind != "rolling-bounce":
            entry["for"] = "400ms"
        run, events = carried_out(entry)
        hit = roles_when_hit(events, "f2")
        assert hit and (role == "observer" or hit == [role]), (role, hit)
        assert_nothing_broke(run)


@pytest.mark.parametrize("point", POINTS)
def test_a_voter_dies_at_each_point(point: str) -> None:
    """Shows that voters that lose their power between writing, syncing and telling break no promise."""
    for of in [of for each, of in CRASH_POINTS if each == point]:
        death = {"power-loss": {"nodes": "controllers", "at": point, "of": of}}
        run, _ = carried_out({"when": {"at": "50ms"}, "fault": death, "for": "300ms"})
        assert_nothing_broke(run)
