"""How people read the values of switches."""

from __future__ import annotations

import pytest

from chaos.words import ordinal, switched, switched_in_full, varied
from orchestrator.campaigns.comparison import Side


@pytest.mark.parametrize(
    ("value", "name", "in_full"),
    [
        ("off", "off", "off"),
        ("seed", "as proposed", "as proposed (KIP text)"),
        ("kafka", "as shipped", "as shipped (Kafka)"),
        ("kafka-old-consumer", "as shipped, old consumer", "as shipped, old consumer"),
        ("every-epoch", "every-epoch", "every-epoch"),
        ("seeded", "seeded", "seeded"),
    ],
)
def test_a_switch_has_a_name_for_people(value: str, name: str, in_full: str) -> None:
    """Shows that nobody reads of a variant named seed beside the seed of a run, and that other names stay."""
    assert (switched(value), switched_in_full(value)) == (name, in_full)
    assert varied("kip-207", value) == f"kip-207 ({name})"


def test_ordinals_end_as_they_are_spoken() -> None:
    """Shows the endings of numbers that count."""
    told = [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111, 1_003)]
    assert told == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th", "1,003rd"]


def test_a_scenario_without_variants_has_its_name() -> None:
    """Shows that there are no empty brackets."""
    assert varied("baseline", "") == "baseline"


def test_a_side_names_its_settings_and_what_they_mean() -> None:
    """Shows that a comparison prints what to type, with its meaning where the two differ; a value of something else
    that is spelled alike stays as it is."""
    settings = ["features.kip-207=seed", "features.kip-232=off", "config.broker.rack=kafka"]
    assert Side("kafka", settings).label == (
        "variant as shipped, features.kip-207=seed (as proposed), features.kip-232=off, config.broker.rack=kafka"
    )
