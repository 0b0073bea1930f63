"""The incident library, the timeline and the published schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.errors import InputError
from chaos.incidents import library
from chaos.scenario.document import PATH, document
from chaos.scenario.model import json_schema
from chaos.scenario.resolve import resolve
from chaos.scenario.schema import SCHEMA_FILE, schema_text
from chaos.scenario.triggers import TRIGGERS
from chaos.schedule import timeline

ROOT = Path(__file__).parents[3]


def test_every_entry_loads_resolves_and_says_what_it_is_for() -> None:
    """Shows that each incident is a scenario under its own name, in all its variants."""
    for incident in library.incidents():
        loaded = library.load(incident.name)
        assert loaded.scenario.name == incident.name
        assert incident.about
        for variant in incident.variants or [""]:
            plan = resolve(loaded, variant)
            assert timeline(plan)
            assert plan.expect.declared


def test_an_entry_is_found_by_its_name_alone() -> None:
    """Shows that a name never becomes a path, and that the nearest one is told."""
    with pytest.raises(InputError, match=r"no such incident; did you mean kip-207\? Expected a name that krift"):
        library.load("kip207")
    with pytest.raises(InputError, match="no such incident"):
        library.text("../library")


def test_the_timeline_of_kip_207() -> None:
    """Shows what --dry-run prints for the schedule."""
    text = timeline(resolve(library.load("kip-207"), "off"))
    assert text.partition("timeline\n")[2] == (
        "      0.000 s  steady state: every workload has succeeded once\n"
        "      3.000 s  f1 partition from leader(orders-0), followers(orders-0)[1] to followers(orders-0)[0], for 8s\n"
        "      4.500 s  f2 crash leader(orders-0), for 8s\n"
        "     11.000 s  f1 partition ends\n"
        "     12.500 s  f2 crash ends\n"
        "     16.000 s  end of the chaos: the remaining faults are healed\n"
        "  then stop producers and probers, drain consumers\n"
        "\n"
        "expect          violated H1; may H6, C6\n"
        "must happen     lagging-leader\n"
    )


def test_the_published_schema_is_fresh() -> None:
    """Shows that docs/scenario.schema.json is what the models say; ``python -m chaos.scenario.schema`` writes it."""
    assert (ROOT / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text()


def test_the_schema_is_closed() -> None:
    """Shows that an editor with the schema marks a key that does not exist."""
    schema = json_schema()
    assert schema["additionalProperties"] is False
    forms = [form for part in schema["$defs"].values() for form in part.get("anyOf", [part])]
    assert all(form.get("additionalProperties") is False for form in forms if form.get("type", "object") == "object")
    assert {"schema", "name", "duration", "cluster", "workload"} == set(schema["required"])
    json.dumps(schema)


def test_the_reference_names_every_trigger() -> None:
    """Shows that docs/scenarios.md knows all triggers and their arguments."""
    text = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    for trigger in TRIGGERS.values():
        assert f"`{trigger.name}`" in text, trigger.name


def test_the_reference_of_features_keys_and_versions_is_fresh() -> None:
    """Shows that docs/configuration.md is what the code says; ``python -m chaos.scenario.document`` writes it."""
    assert (ROOT / PATH).read_text(encoding="utf-8") == document()
