"""Consumers in groups, from the scenario to what they delivered."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from actors.trace.event_parts import TraceEvent
from actors.trace.events import CommitReturn, ConsOwn, ConsPos, PollReturn, SendReturn
from chaos.errors import InputError
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.shrink.lean import lean
from chaos.sources import find
from tests.scenario.test_library_in_sim import assert_expected, play

GROUPS = Path(__file__).parent.parent / "data/groups/groups.yaml"
Body = TypeVar("Body", bound=TraceEvent)


def planned(seed: int, strategy: str) -> Plan:
    """The scenario with another assignor."""
    plan = resolve(find(str(GROUPS)).loaded(seed), seed=seed)
    for node in plan.clients:
        if node.role == "group-consumer":
            node.config["partition.assignment.strategy"] = strategy
    return plan


def of(kind: type[Body], bodies: Iterable[TraceEvent]) -> list[Body]:
    """Those of one type."""
    return [body for body in bodies if isinstance(body, kind)]


@pytest.mark.parametrize(
    ("seed", "strategy"),
    [
        pytest.param(1, "range", marks=pytest.mark.further),
        pytest.param(2, "roundrobin", marks=pytest.mark.further),
        (3, "cooperative-sticky"),
    ],
)
def test_a_group_delivers_everything_whoever_dies_or_leaves(seed: int, strategy: str) -> None:
    """Shows that members that die, pause, leave, come back or do not poll, and a coordinator that crashes, cost a group
    no record, that commits go on afterwards, and that members begin where the group was."""
    plan = planned(seed, strategy)
    played = play(plan)
    assert_expected(plan, played)
    bodies = [event.body for event in played.result.trace]
    acked = {body.uid for body in of(SendReturn, bodies) if body.outcome == "ok"}
    polled = {record.uid for body in of(PollReturn, bodies) for record in body.records}
    assert acked <= polled
    owns = of(ConsOwn, bodies)
    assert {body.reason for body in owns} >= {"assign", "lost", "leave"}
    assert any(body.revoked for body in owns if body.reason in ("assign", "revoke"))
    commits = of(CommitReturn, bodies)
    assert {body.how for body in commits if body.outcome == "ok"} == {"auto", "sync", "async"}
    assert commits[-1].outcome == "ok"
    assert any(body.reason == "committed" and body.new > 0 for body in of(ConsPos, bodies))
    kept = strategy == "cooperative-sticky"
    assert any(body.reason == "revoke" for body in owns) != kept, "cooperative members revoke what the leader says"


def test_a_resolved_scenario_and_a_lean_one_say_the_same() -> None:
    """Shows that what is kept of a run, and what shrinking makes of that, resolve to the same nodes."""
    plan = resolve(find(str(GROUPS)).loaded(7), seed=7)
    for document in (plan.document, lean(plan.document)):
        again = resolve(load_text(yaml.safe_dump(document)), seed=7)
        assert again.nodes == plan.nodes


WRONG = {
    "commit: sync": "commit is for a consumer in a group; expected group beside it",
    "group: g, seek: 3": "seek does not go with group: a group goes on where it committed; expected either group",
    "group: g, partitions: [0]": "partitions does not go with group: the group assigns partitions",
    "group: g, commit-every: 1s": "the application does not commit; expected commit: sync or async beside it",
    "group: g, config: {session.timeout.ms: 3000}": "no heartbeat comes in this time; expected more than heartbeat",
    "group: g, commit: none, config: {enable.auto.commit: true}": "the consumer commits by itself, and commit is none",
    "group: g, config: {partition.assignment.strategy: best}": "'best' is not a value of partition.assignment.strategy",
    "config: {session.timeout.ms: 9000}": "session.timeout.ms is no key of a consumer",
    "group: a b": "group",
    "copy-to: orders": "copy-to is for a consumer in a group",
    "group: g, copy-to: orders": "the mirror would copy its own copies",
    "group: g, copy-to: copies": "copies",
    "group: g, copy-to: copies, commit: auto": "a mirror commits when its copies are acknowledged",
}


@pytest.mark.parametrize("given", WRONG)
def test_what_makes_no_sense_of_a_group_is_told(given: str, tmp_path: Path) -> None:
    """Shows that what cannot be meant of a consumer is told with its place, and with what was expected."""
    text = GROUPS.read_text(encoding="utf-8")
    head, _, rest = text.partition("workload:\n")
    file = tmp_path / "wrong.yaml"
    chaos = rest[rest.index("chaos:") :]
    file.write_text(f"{head}workload:\n  - consumer: {{topic: orders, {given}}}\n{chaos}", encoding="utf-8")
    with pytest.raises(InputError) as told:
        find(str(file)).loaded(1)
    assert WRONG[given] in str(told.value)
    assert f"{file}:" in str(told.value)
