"""KIP-232 and consumers in groups: the incidents of the library, and what they leave behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ConsPos, GrpCommit
from chaos.incidents import library
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.metrics import Metrics, RunMetrics
from tests.scenario.test_library_in_sim import Played, assert_expected, play

pytestmark = pytest.mark.unhurried


def measured(incident: str, variant: str) -> tuple[Played, Metrics]:
    """A run as the incident expects it, and its measures."""
    plan = resolve(library.load(incident), variant=variant)
    played = play(plan)
    assert_expected(plan, played)
    metrics = RunMetrics(plan)
    for event in played.result.trace:
        metrics(event)
    return played, metrics.metrics()


def committed(trace: Iterable[Any]) -> list[tuple[int, int]]:
    """What was asked to be committed of orders-0, in order: position and error."""
    bodies = [event.body for event in trace]
    return [(body.offset, body.error) for body in bodies if isinstance(body, GrpCommit) and body.tp == "orders-0"]


@pytest.mark.parametrize("variant", ["off", "seed", "kafka"])
def test_a_mirror_copies_twice_only_where_nothing_protects_it(variant: str) -> None:
    """Shows that a consumer and a mirror are sent back to a former leader and begin anew with ``off``, so that what was
    copied is copied again, and that neither happens with the other two."""
    _, metrics = measured("kip-232", variant)
    bare = variant == "off"
    assert metrics.get("resets.spurious", 0) == (2 if bare else 0)
    assert metrics["commits.backward"] == (2 if bare else 0)
    assert (metrics["records.copied-twice"] > 100) == bare
    assert bare or metrics["records.copied-twice"] == 0
    assert metrics["records.copied"] > 300
    assert metrics["records.lost"] == metrics["records.duplicated"] == 0


def test_a_run_of_a_mirror_is_the_same_again() -> None:
    """Shows that what a run directory keeps of a mirror gives the same trace."""
    plan = resolve(library.load("kip-232"), "off")
    again = resolve(load_text(plan.yaml()))
    assert play(plan).result.digest == play(again).result.digest


@pytest.mark.parametrize(
    ("variant", "back", "refused"),
    [
        ("off", 1, 0),
        ("seed", 0, 0),
        ("seed-old-consumer", 0, 1),
        ("kafka", 0, 0),
        ("kafka-old-consumer", 1, 0),
    ],
)
def test_an_old_position_is_committed_over_a_newer_one(variant: str, back: int, refused: int) -> None:
    """Shows who commits an old position over the group's newer one, and that the coordinator refuses one that knows no
    metadata epoch with the proposal alone; whoever comes next begins where the group was then."""
    played, metrics = measured("kip-232-stale-commit", variant)
    assert (metrics["commits.backward"], metrics.get("commits.refused", 0)) == (back, refused)
    commits = committed(played.result.trace)
    wrong = [number for number, error in commits if error]
    assert len(wrong) == refused
    assert {error for _, error in commits} == {0, *([KafkaError.INVALID_METADATA_EPOCH] if refused else [])}
    if refused:
        bodies = [event.body for event in played.result.trace if event.node == "consumer-1"]
        begins = [body.new for body in bodies if isinstance(body, ConsPos) and body.reason == "committed"]
        assert begins[-1] > wrong[0]
