"""Each kind of fault says all that Krift has to know of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.faults.base import Fault
from chaos.faults.document import PATH, document
from chaos.faults.kinds import ALL, KINDS, body_of, entry_of, kinds_of
from chaos.faults.network import LinkFault
from chaos.faults.process import NodeCrash
from chaos.nemesis import library
from chaos.nemesis.scene import Cast, Scene, stream
from chaos.scenario.loader import load_value
from chaos.scenario.resolve import resolve

ROOT = Path(__file__).parents[3]
CAST = Cast(
    ["controller-1", "controller-2", "controller-3"],
    ["broker-1", "broker-2", "broker-3"],
    ["producer-1", "consumer-1"],
    "orders",
    {"orders-0": 3},
    True,
    True,
    3,
    [],
)


def drawn(kind: type[Fault]) -> list[Any]:
    """Values of a kind, as a nemesis draws them."""
    nemesis = library.load("everything").nemesis
    scenes = (Scene(stream("everything", seed, kind.kind), nemesis, CAST, "orders-0", 9_000_000) for seed in range(30))
    return [kind.draw(scene) for scene in scenes]


@pytest.mark.parametrize("kind", ALL, ids=list(KINDS))
def test_what_is_drawn_is_read_and_written_again(kind: type[Fault]) -> None:
    """Shows that each kind is drawn, and that what it reads, resolves and writes is a value that it reads again as the
    same; leaner, and as people write it, too."""
    for body in drawn(kind):
        fault = kind.model_validate(body).resolved(lambda place, selectors: list(selectors))
        written = fault.written()
        for form in (written, kind.lean(written), kind.alone(written), kind.alone(kind.lean(written))):
            assert kind.model_validate(form).resolved(lambda place, selectors: list(selectors)) == fault
        assert fault.describe()


@pytest.mark.parametrize("kind", ALL, ids=list(KINDS))
def test_what_a_kind_says_of_itself_is_about_its_fields(kind: type[Fault]) -> None:
    """Shows that what may be left out can be, that a value alone stands for selectors, and that it is told."""
    optional = {field.alias for field in kind.model_fields.values() if not field.is_required()}
    assert set(kind.spare) <= optional
    assert not kind.short or kind.short in kind.selectors()
    assert kind.told and all(row.written.startswith(f"{kind.kind}: ") for row in kind.told)
    assert kind.lasts or kind.section == "action"


def test_kinds_are_asked_for_by_their_classes() -> None:
    """Shows that a kind derived from another is one of its, and that an entry has its kind under its section."""
    assert {"crash", "power-loss", "wipe"} < kinds_of(NodeCrash)
    assert {"partition", "reorder"} < kinds_of(LinkFault) and kinds_of(LinkFault).isdisjoint(kinds_of(NodeCrash))
    entry = entry_of("elect", {"partitions": "all"}, when={"at": "1s"})
    assert entry == {"action": {"elect": {"partitions": "all"}}, "when": {"at": "1s"}}
    assert body_of(entry) == (KINDS["elect"], {"partitions": "all"})


def test_selectors_stand_for_the_nodes_of_a_fault() -> None:
    """Shows that a fault which only has nodes may be given them alone or by their key, and means the same."""
    scenario = {
        "schema": "krift/v1",
        "name": "pauses",
        "duration": "9s",
        "cluster": {"topics": {"orders": {"replicas": [[1, 2, 3]]}}},
        "workload": [{"producer": {"topic": "orders", "rate": "1/s"}}],
        "chaos": [
            {"when": {"at": "1s"}, "fault": {"pause": form}, "for": "1s"}
            for form in ("broker-1", ["broker-1"], {"nodes": "broker-1"})
        ],
    }
    assert len({str(fault.fault) for fault in resolve(load_value(scenario)).schedule}) == 1


def test_the_reference_of_faults_is_fresh() -> None:
    """Shows that docs/faults.md is what the kinds say; ``python -m chaos.faults.document`` writes it."""
    assert (ROOT / PATH).read_text(encoding="utf-8") == document()
