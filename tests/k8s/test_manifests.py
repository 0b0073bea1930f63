"""The manifests: valid, closed, and of one piece with the image, the library and the command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from chaos.sources import find
from orchestrator.cli.main import cli
from orchestrator.kubernetes.pods import SCRATCH, SHARED
from orchestrator.version import __version__
from tests.k8s.rendered import KUSTOMIZATIONS, MANIFESTS, Document, pods, rendered
from tests.k8s.schemas import mistakes

ROOT = MANIFESTS.parent
IMAGE = f"krift:{__version__}"
OWN = {"app.kubernetes.io/part-of": "krift"}
WRITABLE = ["/runs", "/scratch", "/tmp"]

every_kustomization = pytest.mark.parametrize(
    "folder", KUSTOMIZATIONS, ids=lambda path: str(path.relative_to(MANIFESTS))
)


def named(folder: str, kind: str) -> Document:
    """The object of a kind in a kustomization."""
    (found,) = [each for each in rendered(MANIFESTS / folder) if each["kind"] == kind]
    return found


@every_kustomization
def test_every_object_obeys_its_schema(folder: Path) -> None:
    """Shows that no object has a field that its schema does not know, and none is of an unknown kind."""
    found = {f"{each['kind']} {each['metadata']['name']}": mistakes(each) for each in rendered(folder)}
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.parametrize(
    ("folder", "kind", "path"),
    [
        ("run", "RayJob", ["spec", "entryPoint"]),
        ("run", "RayJob", ["spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containerz"]),
        ("check", "SparkApplication", ["spec", "driver", "core"]),
        ("monitoring", "PodMonitor", ["spec", "endpoints"]),
        ("overlays/campaign", "CronJob", ["spec", "jobTemplate", "spec", "backofLimit"]),
    ],
)
def test_a_misspelt_field_is_found(folder: str, kind: str, path: list[str]) -> None:
    """Shows that the check of the schemas can fail, at any depth."""
    document = named(folder, kind)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = 1
    assert any(path[-1] in problem for problem in mistakes(document)), mistakes(document)


def test_a_kind_without_a_schema_is_found() -> None:
    """Shows that nothing passes because nobody knows it."""
    assert mistakes({"apiVersion": "ray.io/v1", "kind": "RayService"}) == [
        "kind: there is no schema of RayService in ray.io/v1"
    ]


@every_kustomization
def test_pods_have_no_rights_that_they_do_not_need(folder: Path) -> None:
    """Shows that each pod satisfies the standard "restricted" of pod security, has a read-only root, and no token of
    Kubernetes."""
    for pod in (pod for each in rendered(folder) for pod in pods(each)):
        context = pod["securityContext"]
        assert context["runAsNonRoot"] and context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("krift", False)
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        assert all(set(volume) <= {"name", "emptyDir", "persistentVolumeClaim"} for volume in pod["volumes"])
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["image"] == IMAGE
            assert "memory" in container["resources"]["limits"]
            assert {mount["mountPath"] for mount in container["volumeMounts"]} <= set(WRITABLE)


def test_pods_of_spark_have_the_same_rights() -> None:
    """Shows the same of the pods that Spark makes, and that only the driver may ask Kubernetes for others."""
    spec = named("check", "SparkApplication")["spec"]
    for role in ("driver", "executor"):
        assert spec[role]["securityContext"]["readOnlyRootFilesystem"]
        assert spec[role]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert spec[role]["podSecurityContext"]["runAsNonRoot"]
        assert spec[role]["labels"] == OWN
    assert (spec["driver"]["serviceAccount"], spec["executor"]["serviceAccount"]) == ("krift-spark", "krift")
    assert spec["image"] == IMAGE


def test_spark_may_manage_pods_of_its_namespace_and_nothing_else() -> None:
    """Shows the least privilege: no cluster role, no secret, no wildcard, and only Spark's account has a role."""
    objects = rendered(MANIFESTS / "base")
    kinds = {each["kind"] for each in objects}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding"}
    rules = named("base", "Role")["rules"]
    assert {resource for rule in rules for resource in rule["resources"]} == {
        "pods",
        "services",
        "configmaps",
        "persistentvolumeclaims",
    }
    assert all("*" not in rule["verbs"] for rule in rules)
    assert named("base", "RoleBinding")["subjects"] == [{"kind": "ServiceAccount", "name": "krift-spark"}]


def test_the_network_is_closed_by_default() -> None:
    """Shows that all pods of the namespace are cut off, but for what another policy opens, and that no policy opens a
    way in for everybody."""
    policies = {each["metadata"]["name"]: each["spec"] for each in rendered(MANIFESTS / "base")
                if each["kind"] == "NetworkPolicy"}  # fmt: skip
    assert policies["krift-nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, policy in policies.items():
        assert all(rule.get("from") for rule in policy.get("ingress", [])), name
    assert policies["krift-one-another"]["podSelector"] == {"matchLabels": OWN}


def test_each_server_has_a_pod_of_its_own() -> None:
    """Shows that a group is set apart for each broker and controller under its name, by which faults find the pod, and
    that another one takes the rest."""
    groups = named("run", "RayJob")["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    plan_nodes = [f"{role}-{number}" for role in ("controller", "broker") for number in (1, 2, 3)]
    assert [group["groupName"] for group in groups] == [*plan_nodes, SHARED]
    for group in groups:
        name = group["groupName"]
        wanted = None if name == SHARED else f'"{{\\"krift-node-{name}\\": 1}}"'
        assert group["rayStartParams"].get("resources") == wanted
        assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (1, 1, 1)
        assert group["template"]["metadata"]["labels"] == OWN


def test_a_violation_is_not_buried_by_another_try() -> None:
    """Shows that neither the job nor the campaign nor the checks are tried again."""
    assert named("run", "RayJob")["spec"]["backoffLimit"] == 0
    assert named("overlays/campaign", "CronJob")["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert named("check", "SparkApplication")["spec"]["restartPolicy"] == {"type": "Never"}


def test_versions_are_those_of_the_image() -> None:
    """Shows that Ray, Spark and Python are those that the tests run with."""
    pinned = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text()))
    assert named("run", "RayJob")["spec"]["rayClusterSpec"]["rayVersion"] == pinned["ray"]
    assert named("check", "SparkApplication")["spec"]["sparkVersion"] == pinned["pyspark"]
    python = re.search(r"\(Python (\d+\.\d+),", (ROOT / "constraints.txt").read_text())
    assert python is not None
    dockerfile = (MANIFESTS / "image" / "Dockerfile").read_text()
    assert re.findall(r"(?m)^FROM python:([\d.]+)-", dockerfile) == [python[1], python[1]]


def commands() -> list[list[str]]:
    """Every command that a manifest has Krift carry out."""
    jobs = [named(folder, "RayJob")["spec"]["entrypoint"] for folder in ("run", "overlays/kind", "overlays/soak")]
    (container,) = [each for pod in pods(named("overlays/campaign", "CronJob")) for each in pod["containers"]]
    application = named("check", "SparkApplication")["spec"]
    return [
        *(shlex.split(job.replace("$RAY_ADDRESS", "10.0.0.1:6379")) for job in jobs),
        container["args"],
        ["krift", *application["arguments"]],
    ]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_of_a_manifest_is_one(words: list[str]) -> None:
    """Shows that the subcommand, its options and their values, and the scenario or nemesis exist."""
    krift, name, *arguments = words
    assert krift == "krift"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    if name == "soak":
        assert isinstance(command, click.Group)
        command = command.commands["start"]
    context = command.make_context(name, list(map(str, arguments)))
    if name != "check":
        given: Any = context.params["names" if name == "campaign" else "scenario"]
        subjects = [given] if isinstance(given, str) else list(given)
        assert [find(subject).name for subject in subjects] == subjects != []


def test_every_path_of_a_manifest_is_in_the_image() -> None:
    """Shows that what Spark starts is copied into the image, that what the image copies is there and is sent to its
    build, and that the volumes are mounted where the image expects them."""
    dockerfile = (MANIFESTS / "image" / "Dockerfile").read_text()
    (sources, target) = re.findall(r"(?m)^COPY (k8s/\S+(?: k8s/\S+)*) (\S+)$", dockerfile)[0]
    main = named("check", "SparkApplication")["spec"]["mainApplicationFile"].removeprefix("local://")
    assert main in {f"{target}{Path(source).name}" for source in sources.split()}
    entry = re.search(r'ENTRYPOINT \[.*"(/opt\S+)"\]', dockerfile)
    assert entry is not None and entry[1] in {f"{target}{Path(source).name}" for source in sources.split()}
    sent = re.findall(r"(?m)^!(\S+)$", (MANIFESTS / "image" / "Dockerfile.dockerignore").read_text())
    assert all((ROOT / source).exists() for source in [*sources.split(), *sent])
    assert all(any(source.startswith(way) for way in sent) for source in sources.split())
    assert f"TMPDIR={SCRATCH}" in dockerfile and f"mkdir -p /runs {SCRATCH}" in dockerfile


def test_what_the_wheel_is_built_from_is_sent_to_the_build() -> None:
    """Shows that every file that the build of the package reads is in the image's build."""
    sent = set(re.findall(r"(?m)^!(\S+)$", (MANIFESTS / "image" / "Dockerfile.dockerignore").read_text()))
    listed = re.search(
        r"(?ms)^\[tool.hatch.build.targets.sdist\]\ninclude = \[(.*?)\]", (ROOT / "pyproject.toml").read_text()
    )
    assert listed is not None
    wanted = {word.strip('" /') for word in listed[1].split(",")} - {"*.md"}
    assert wanted <= sent | {"pyproject.toml"}, wanted - sent
