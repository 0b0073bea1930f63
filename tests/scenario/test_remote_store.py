"""The remote store as a node of a scenario: what hits it, and what a scenario may not say of it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.spec import REMOTE_STORE
from actors.trace.events import CtlFault, NodeDown, NodeUp, Stamped, StoreRuleChange
from chaos.errors import InputError
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.scenario.yaml_text import to_yaml
from orchestrator.sim_run import SimRun, run_in_sim


def document(*chaos: dict[str, Any], store: dict[str, Any] | None = None) -> str:
    """A small cluster with a remote store, unless it is to have none."""
    cluster: dict[str, Any] = {"voters": 1, "brokers": 1, "topics": {"orders": {"replicas": [[1]]}}}
    return to_yaml(
        {
            "schema": "krift/v1",
            "name": "stores",
            "duration": "3s",
            "cluster": {**cluster, **({"remote-store": store} if store is not None else {})},
            "workload": [{"producer": {"topic": "orders", "rate": "5/s"}}],
            "chaos": list(chaos),
        }
    )


def carried_out(*chaos: dict[str, Any]) -> tuple[SimRun, list[Stamped]]:
    """A run in the sim, and its events about the store and the faults."""
    seen: list[Stamped] = []

    def look(event: Stamped) -> None:
        if event.node == REMOTE_STORE or isinstance(event.body, CtlFault):
            seen.append(event)

    plan = resolve(load_text(document(*chaos, store={}), "test.yaml"))
    return run_in_sim(plan, [look]), seen


OWN = {
    "slow-store": {"by": "1s", "jitter": "500ms", "apis": ["FetchIndex"]},
    "failing-store": {"chance": "50%"},
    "unavailable-store": {},
    "half-copied": {"chance": "50%"},
    "stale-listing": {"by": "2s"},
}


@pytest.mark.parametrize("kind", OWN)
def test_a_fault_of_its_own_outlives_its_process(kind: str) -> None:
    """Shows that the store has the rule from its beginning on, has it again after a crash, and is rid of it at the
    end."""
    rule = {"when": {"at": "500ms"}, "fault": {kind: OWN[kind]}, "for": "2s"}
    crash = {"when": {"at": "1s"}, "fault": {"crash": REMOTE_STORE}, "for": "500ms"}
    run, seen = carried_out(rule, crash)
    assert run.verdict.outcome == "held"
    mine = [event for event in seen if isinstance(event.body, StoreRuleChange | NodeUp | NodeDown)]
    assert [event.body.phase if isinstance(event.body, StoreRuleChange) else event.type for event in mine] == [
        "node.up",
        "start",
        "node.down",
        "node.up",
        "start",
        "stop",
        "node.down",
    ]


def test_a_rule_that_changes_while_it_stands_still() -> None:
    """Shows that a store which is paused learns of its rules when it goes on, and one that is down when it starts."""
    pause = {"when": {"at": "500ms"}, "fault": {"pause": REMOTE_STORE}, "for": "500ms"}
    during = {"when": {"at": "700ms"}, "fault": {"unavailable-store": {}}, "for": "800ms"}
    crash = {"when": {"at": "1200ms"}, "fault": {"crash": REMOTE_STORE}, "for": "1s"}
    run, seen = carried_out(pause, during, crash)
    assert run.verdict.outcome == "held"
    changes = [(event.body.phase, event.wall // 100_000) for event in seen if isinstance(event.body, StoreRuleChange)]
    begin_us = next(event.wall for event in seen if isinstance(event.body, CtlFault)) - 500_000
    assert changes == [("start", (begin_us + 1_000_000) // 100_000)]


@pytest.mark.parametrize(
    ("chaos", "store", "problem"),
    [
        ({"fault": {"unavailable-store": {}}}, None, "the cluster has no remote store"),
        ({"fault": {"crash": REMOTE_STORE}}, None, "unknown node remote-store-1"),
        ({"fault": {"wipe": REMOTE_STORE}}, {}, "loses no object"),
        ({"fault": {"slow-store": {"by": "1s", "apis": ["Fetch"]}}}, {}, "unknown API of the remote store Fetch"),
        ({"action": {"controlled-shutdown": {"targets": REMOTE_STORE}}}, {}, "no controller or broker"),
        (None, {"config": {"num.io.threads": 3}}, "is no key of a remote-store"),
    ],
)
def test_what_a_scenario_may_not_say(chaos: dict[str, Any] | None, store: dict[str, Any] | None, problem: str) -> None:
    """Shows the mistakes about a remote store."""
    entry = [] if chaos is None else [{"when": {"at": "1s"}, **chaos, "for": "1s"}]
    with pytest.raises(InputError, match=problem):
        resolve(load_text(document(*entry, store=store), "test.yaml"))


def test_a_resolved_scenario_is_the_same_run() -> None:
    """Shows that the store, its configuration and its faults are in the resolved scenario."""
    chaos = [{"when": {"at": "1s"}, "fault": {kind: body}, "for": "1s"} for kind, body in OWN.items()]
    text = document(*chaos, store={"config": {"krift.remote.store.uri": "file:///tmp/x"}})
    plan = resolve(load_text(text, "test.yaml"))
    again = resolve(load_text(plan.yaml(), "again.yaml"))
    assert again.nodes == plan.nodes
    assert again.schedule == plan.schedule
