"""``krift k8s chaos``: the faults of a scenario as a Workflow of Chaos Mesh."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from chaos.errors import InputError
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from orchestrator.cli.k8s import command
from orchestrator.kubernetes.chaos_mesh import workflow
from orchestrator.kubernetes.pods import groups_of
from tests.k8s.schemas import mistakes

SCENARIO = Path(__file__).parent / "chaos.yaml"
DOCUMENT = Path(__file__).parents[2] / "docs" / "kubernetes.md"
CONTROLLERS = ["controller-1", "controller-2", "controller-3"]
BROKERS = ["broker-1", "broker-2", "broker-3"]

made, refused = workflow(resolve(load_file(SCENARIO)), "pods", "krift")
templates = {each["name"]: each for each in made["spec"]["templates"]}


def groups(body: dict[str, Any]) -> list[str]:
    """The groups that an experiment's selector, or its target's, has chosen."""
    (chosen,) = body["selector"]["expressionSelectors"]
    assert (chosen["key"], chosen["operator"]) == ("ray.io/group", "In")
    assert body["selector"]["namespaces"] == ["krift"]
    values: list[str] = chosen["values"]
    return values


def test_the_workflow_obeys_its_schema() -> None:
    """Shows that Chaos Mesh knows every field of it, and that the check can fail."""
    assert mistakes(made) == []
    wrong = {**made, "spec": {**made["spec"], "entrance": "chaos"}}
    assert len(mistakes(wrong)) == 1


def test_every_child_is_a_template() -> None:
    """Shows that the steps hang together, and that none is left over."""
    children = [child for each in templates.values() for child in each.get("children", [])]
    assert sorted(children) == sorted(set(templates) - {"chaos"})
    assert made["spec"]["entry"] == "chaos"


def test_faults_keep_their_times() -> None:
    """Shows that each fault waits for its moment, counted from the start of the Workflow, and ends when it should."""
    assert templates["f1"]["children"] == ["f1-wait", "f1-partition"]
    assert (templates["f1-wait"]["deadline"], templates["f1-partition"]["deadline"]) == ("2s", "3s")
    assert templates["f2-delay"]["deadline"] == "3s"
    assert templates["f3"]["children"] == ["f3-slow-disk"]
    assert templates["f3-slow-disk"]["deadline"] == "10s"


def test_a_partition_of_one_direction_is_one_experiment() -> None:
    """Shows which pods a partition is between, and in which direction."""
    body = templates["f1-partition"]["networkChaos"]
    assert (body["action"], body["mode"], body["direction"]) == ("partition", "all", "to")
    assert (groups(body), groups(body["target"])) == (["broker-1"], ["broker-2", "broker-3"])


def test_both_directions_are_two_experiments() -> None:
    """Shows that each rule of a fault has its own, at the same time, and that Chaos Mesh's jitter goes both ways from
    the middle of Krift's bounds."""
    assert templates["f2-delay"]["templateType"] == "Parallel"
    one, other = (templates[name]["networkChaos"] for name in templates["f2-delay"]["children"])
    assert (groups(one), groups(one["target"])) == (CONTROLLERS, BROKERS)
    assert (groups(other), groups(other["target"])) == (BROKERS, CONTROLLERS)
    assert one["delay"] == other["delay"] == {"latency": "25ms", "jitter": "5ms"}


def test_chances_are_percentages() -> None:
    """Shows loss, duplicates and another order of packets."""
    assert templates["f4-drop-1"]["networkChaos"]["loss"] == {"loss": "5"}
    duplicate = templates["f5-duplicate-1"]["networkChaos"]
    assert duplicate["duplicate"] == {"duplicate": "2.5"}
    assert groups(duplicate) == ["others"]
    assert templates["f6-reorder"]["networkChaos"]["delay"]["reorder"] == {"reorder": "20", "gap": 1}


def test_a_slow_disk_hits_the_volume_of_the_logs() -> None:
    """Shows an IOChaos for each node, on its syncs alone."""
    bodies = [templates[name]["ioChaos"] for name in templates["f3-slow-disk"]["children"]]
    assert [groups(body) for body in bodies] == [["broker-1"], ["broker-2"]]
    assert {(body["volumePath"], *body["methods"], body["delay"]) for body in bodies} == {
        ("/scratch", "fsync", "200ms")
    }


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("f7", "it belongs to Krift's processes"),
        ("f8", "leader(orders-0) depends on the run"),
        ("f9", "it hits Fetch alone"),
        ("f10", "consumer-1 is in one pod with producer-1"),
        ("f11", "it waits for an event of the run"),
        ("f12", "its end waits for an event of the run"),
    ],
)
def test_what_has_no_counterpart_is_refused(fault: str, why: str) -> None:
    """Shows the reason for each fault that is left out, and that no step of it is there."""
    (refusal,) = [each for each in refused if each.fault == fault]
    assert refusal.why.startswith(why)
    assert not [name for name in templates if name == fault or name.startswith(f"{fault}-")]


def test_a_fault_hits_whole_pods() -> None:
    """Shows that all nodes of the shared pod may be hit together, and none of them alone."""
    nodes = ["broker-1", "producer-1", "consumer-1", "admin-1"]
    assert groups_of(nodes, nodes) == groups_of(nodes[:3], nodes) == ["broker-1", "others"]
    with pytest.raises(ValueError, match="consumer-1 is in one pod with producer-1"):
        groups_of(["consumer-1"], nodes)


def test_the_command_names_every_fault_that_it_cannot_write() -> None:
    """Shows all of them in one error, and what to do."""
    with pytest.raises(InputError) as told:
        CliRunner().invoke(command, ["chaos", str(SCENARIO)], catch_exceptions=False, standalone_mode=False)
    assert [mistake.key.split()[0] for mistake in told.value.mistakes] == [f"f{number}" for number in range(7, 13)]
    assert "--skip" in str(told.value)


def test_the_command_of_the_document_prints_a_workflow() -> None:
    """Shows that what docs/kubernetes.md has its reader copy writes experiments that Chaos Mesh takes."""
    (words,) = re.findall(r"(?m)^krift k8s (chaos .*?) \|", DOCUMENT.read_text(encoding="utf-8"))
    done = CliRunner().invoke(command, words.split(), catch_exceptions=False)
    document = yaml.safe_load(done.stdout)
    assert mistakes(document) == []
    assert [each for each in document["spec"]["templates"] if each["templateType"].endswith("Chaos")]


def test_the_command_leaves_out_what_it_is_told_to() -> None:
    """Shows that --skip prints the Workflow on stdout and the rest on stderr, in the namespace that was asked for."""
    done = CliRunner().invoke(command, ["chaos", str(SCENARIO), "--skip", "--namespace", "chaos-of-mine"])
    assert yaml.safe_load(done.stdout)["metadata"] == {
        "name": "pods",
        "namespace": "chaos-of-mine",
        "labels": {"app.kubernetes.io/part-of": "krift"},
    }
    assert "left out  f7 crash: it belongs to Krift's processes" in done.stderr
    assert "chaos-of-mine" in done.stdout and "namespaces:\n        - chaos-of-mine" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["kip-207", "--skip"], "no fault is left for Chaos Mesh"),
        ([str(SCENARIO), "--namespace", "Krift"], "'Krift' is no namespace"),
        (["everything"], "everything is a nemesis, which draws a scenario from a seed"),
        ([str(SCENARIO), "--variant", "of"], "of"),
    ],
)
def test_wrong_input_is_one_clear_error(arguments: list[str], problem: str) -> None:
    """Shows that nothing is printed for what cannot be written."""
    with pytest.raises(InputError, match=problem):
        CliRunner().invoke(command, ["chaos", *arguments], catch_exceptions=False, standalone_mode=False)
