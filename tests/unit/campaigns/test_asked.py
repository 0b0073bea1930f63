"""Which runs a campaign is made of."""

from __future__ import annotations

import msgspec

from orchestrator.campaigns.asked import Asked, Source, combinations
from tests.unit.campaigns.records import order

ASKED = Asked(
    name="two",
    krift="0.1.0",
    code="0.1.0-1",
    created="",
    sources=[Source("kip-207", ["off", "seed"]), Source("small.yaml", [""], "text")],
    seeds=(4, 5),
    settings=combinations(["duration=2s"]),
    defects=["list-log-end"],
    sample=1,
)


def test_runs_come_seed_by_seed() -> None:
    """Shows every name and variant with the first seed, then all of them with the next."""
    runs = [(each.seed, each.source, each.variant) for each in ASKED.orders()]
    assert runs == [
        (seed, source, variant)
        for seed in (4, 5)
        for source, variant in [("kip-207", "off"), ("kip-207", "seed"), ("small.yaml", "")]
    ]
    assert len(runs) == ASKED.runs
    last = list(ASKED.orders())[-1]
    assert (last.text, last.settings, last.defects) == ("text", ("duration=2s",), ("list-log-end",))


def test_what_failed_before_is_counted() -> None:
    """Shows that failures of earlier campaigns are runs of their own, in addition to those asked for."""
    again = msgspec.structs.replace(ASKED, first=[order(9)])
    assert list(again.orders()) == list(ASKED.orders())
    assert (again.runs, again.drawn) == (ASKED.runs + 1, ASKED.runs)


def test_a_setting_with_several_values() -> None:
    """Shows that a key given twice makes two campaigns of one, and that other keys go with each."""
    settings = ["features.kip-207=off", "duration=2s", "features.kip-207=seed", "duration=2s"]
    assert combinations(settings) == [
        ["features.kip-207=off", "duration=2s"],
        ["features.kip-207=seed", "duration=2s"],
    ]
    assert combinations([]) == [[]]


def test_what_makes_two_campaigns_different() -> None:
    """Shows that names, times and known failures do not, and all else does."""
    assert ASKED.differs_from(msgspec.structs.replace(ASKED, name="x", created="y", first=[order(1)])) == []
    assert ASKED.differs_from(msgspec.structs.replace(ASKED, seeds=(1, 5), sample=3)) == ["seeds", "sample"]
