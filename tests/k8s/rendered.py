"""What ``kubectl kustomize`` makes of a kustomization, for the little of kustomize that the manifests use: resources,
one namespace, and patches that replace a value."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

MANIFESTS = Path(__file__).parents[2] / "k8s"
KUSTOMIZATIONS = sorted(path.parent for path in MANIFESTS.rglob("kustomization.yaml"))
_KNOWN = {"apiVersion", "kind", "namespace", "resources", "patches"}
_WITHOUT_NAMESPACE = ("Namespace",)

Document = dict[str, Any]


def rendered(folder: Path) -> list[Document]:
    """The objects of a kustomization. Raises AssertionError for what this does not know, and for a patch that hits
    nothing."""
    whole = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(whole) <= _KNOWN, set(whole) - _KNOWN
    objects: list[Document] = []
    for resource in whole["resources"]:
        path = folder / resource
        # A file's anchors stand for copies.
        loaded = rendered(path) if path.is_dir() else yaml.safe_load_all(path.read_text())
        objects += deepcopy(list(loaded))
    for patch in whole.get("patches", []):
        _apply(patch, objects)
    for each in objects:
        if each["kind"] not in _WITHOUT_NAMESPACE:
            each["metadata"]["namespace"] = whole["namespace"]
    return objects


def _apply(patch: Document, objects: list[Document]) -> None:
    hit = [each for each in objects if _is_target(patch["target"], each)]
    assert len(hit) == 1, patch["target"]
    for operation in yaml.safe_load(patch["patch"]):
        assert operation["op"] == "replace", operation
        *way, last = operation["path"].removeprefix("/").split("/")
        place: Any = hit[0]
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        assert last in place, operation["path"]
        place[last] = operation["value"]


def _is_target(target: Document, each: Document) -> bool:
    return (
        bool(each["kind"] == target["kind"])
        and target.get("name", each["metadata"]["name"]) == (each["metadata"]["name"])
    )


def pods(value: Any) -> list[Document]:
    """Every pod's specification in an object of Kubernetes or KubeRay: whatever has containers."""
    if isinstance(value, dict):
        own = [value] if "containers" in value else []
        return own + [pod for part in value.values() for pod in pods(part)]
    if isinstance(value, list):
        return [pod for part in value for pod in pods(part)]
    return []
