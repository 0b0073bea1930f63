"""Scenarios that a program builds."""

from __future__ import annotations

from pathlib import Path

import pytest

import krift
from chaos.sources import find


def crash() -> krift.Scenario:
    """A small scenario with a fault."""
    return (
        krift.Scenario.new(
            "crash", duration="3s", topics={"orders": {"replicas": [[1, 2, 3]]}}, seed=5, must_happen=["leader-elected"]
        )
        .client("producer", topic="orders", rate="50/s", acks="all", config={"linger.ms": 5})
        .client("list-offsets", topic="orders", every="50ms", timestamp="latest", replica_id=2)
        .fault("crash", "leader(orders-0)", "1s", lasts="1s")
        .action("elect", {"partitions": ["orders-0"], "type": "preferred"}, {"at": "2500ms"})
    )


def test_it_is_what_its_file_says(tmp_path: Path) -> None:
    """Shows that what is built, and the file that is saved of it, make the same plan; underscores become dashes."""
    built = crash().expect(may=["L1"])
    path = tmp_path / "crash.yaml"
    built.save(path)
    read = krift.Scenario.read(path)
    assert read.document == built.document
    assert read.plan() == built.plan()
    assert {"replica-id", "every"} <= set(built.document["workload"][1]["list-offsets"])
    assert built.document["must-happen"] == ["leader-elected"]
    assert (read.word, built.word) == (str(path), "")
    assert "f1 crash leader(orders-0)" in built.timeline()


def test_nothing_changes_it() -> None:
    """Shows that each method gives another scenario, and that nothing in one is the caller's."""
    topics = {"orders": {"replicas": [[1, 2, 3]]}}
    first = krift.Scenario.new("first", duration="1s", topics=topics)
    second = first.client("consumer", topic="orders")
    topics["orders"]["replicas"].append([3])
    assert first.document["workload"] == []
    assert second.document["cluster"]["topics"]["orders"]["replicas"] == [[1, 2, 3]]


def test_every_mistake_is_told_when_it_is_asked_for() -> None:
    """Shows all mistakes at once, by their keys, before anything is run."""
    wrong = crash().fault("crash", "broker-4", "1s", lasts="1s").client("consumer", topic="order")
    for ask in (wrong.check, wrong.timeline, lambda: krift.run(wrong), lambda: wrong.save("nowhere.yaml")):
        with pytest.raises(krift.InputError) as told:
            ask()
        found = [(mistake.file, mistake.line, mistake.key) for mistake in told.value.mistakes]
        assert found == [("crash", 0, "workload[2].consumer.topic"), ("crash", 0, "chaos[2].fault.crash[0]")]
    assert not Path("nowhere.yaml").exists()


def test_what_is_read_keeps_its_name_until_it_is_changed() -> None:
    """Shows that a scenario of the library can be done again by a command, and one that was changed cannot."""
    incident = krift.Scenario.read("kip-207")
    assert incident.variants == ["off", "seed", "kafka"]
    assert incident.loaded().document == find("kip-207").loaded(None).document
    changed = incident.set(duration="6s").variant("more", features={"kip-207": "seed"})
    assert (incident.word, changed.word, changed.variants[-1]) == ("kip-207", "", "more")
    drawn = krift.Scenario.read("quorum", seed=3)
    assert drawn.word == ""
    assert drawn.plan().seed == 3


def test_a_built_scenario_runs() -> None:
    """Shows a run with what it expects: the elected leader is seen."""
    run = krift.run(crash())
    assert run.verdict.must_happen == {"leader-elected": True}
    assert run.as_expected, run.report()
    assert run.again == ""


def test_cases_are_variants_of_files(tmp_path: Path) -> None:
    """Shows a case for each variant of each file, with ids that tests can have, and that an empty place is refused."""
    crash().save(tmp_path / "b.yaml")
    crash().variant("off", features={"kip-207": "off"}).variant("on", about="As it is.").save(tmp_path / "a.yml")
    found = krift.cases(tmp_path, "kip-232")
    assert [str(case) for case in found[:3]] == ["a-off", "a-on", "b"]
    assert found[0] == krift.Case(str(tmp_path / "a.yml"), "off")
    assert {case.scenario for case in found[3:]} == {"kip-232"}
    (tmp_path / "empty").mkdir()
    with pytest.raises(krift.InputError, match="no scenario is there"):
        krift.cases(tmp_path / "empty")
