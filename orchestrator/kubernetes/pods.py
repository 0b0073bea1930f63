"""The pods of a live run on Kubernetes (``k8s/base/run.yaml``): one for each server, and one for all the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GROUP_LABEL = "ray.io/group"
"""KubeRay puts the name of its worker group on each pod. The groups of the manifests have the names of the nodes."""

SHARED = "others"
"""The group whose pod has the clients, and every node without a group of its own."""

SCRATCH = "/scratch"
"""Where a pod's nodes keep their logs: a volume of its own, so that a fault of the disk hits nothing else."""

_SERVERS = ("broker-", "controller-")
_OPERATOR = "admin-"


def groups_of(targets: Iterable[str], nodes: Sequence[str]) -> list[str]:
    """The groups whose pods have these nodes, each once. Raises ValueError for some of the clients in the shared pod,
    but not all: a fault hits whole pods. The operator's own client is hit with the others."""
    chosen = set(targets)
    shared = {name for name in nodes if not name.startswith(_SERVERS)}
    hit = chosen & shared
    spared = {name for name in shared - hit if not name.startswith(_OPERATOR)}
    if hit and spared:
        raise ValueError(f"{', '.join(sorted(hit))} is in one pod with {', '.join(sorted(spared))}")
    return [*sorted(chosen - shared), *([SHARED] if hit else [])]
