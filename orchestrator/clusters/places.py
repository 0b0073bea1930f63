"""Where the nodes of a run go: over Ray nodes in turn, or each to the Ray node that was set apart for it.

A Ray node with the custom resource ``krift-node-NAME`` is set apart for the node of that name. On Kubernetes each pod
has one, so that a fault that hits the pod of broker-1 hits broker-1 alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from chaos.errors import RunError
from chaos.words import some

APART = "krift-node-"


class Place(msgspec.Struct, frozen=True):
    """A Ray node: its id, the address that nodes serve on there, and the node that it was set apart for, "" none."""

    ray_node: str
    host: str
    apart_for: str = ""


def set_apart(resources: Mapping[str, float]) -> str:
    """The node that a Ray node with these resources was set apart for; "" none. Raises RunError if several are."""
    names = sorted(name.removeprefix(APART) for name in resources if name.startswith(APART))
    if len(names) > 1:
        raise RunError(f"a Ray node has the resources of several nodes, {', '.join(names)}: it takes one of them alone")
    return names[0] if names else ""


def distributed(nodes: Iterable[str], places: Sequence[Place]) -> dict[str, int]:
    """Node -> index of its place. A node with a place of its own goes there; the others go, in turn, to the places
    that were not set apart. Raises RunError if there is none of those, or if two places were set apart for a node."""
    own: dict[str, int] = {}
    for index, place in enumerate(places):
        if place.apart_for in own:
            hosts = f"{places[own[place.apart_for]].host} and {place.host}"
            raise RunError(f"{hosts} are both set apart for {place.apart_for}: {APART}{place.apart_for} goes on one")
        if place.apart_for:
            own[place.apart_for] = index
    shared = [index for index, place in enumerate(places) if not place.apart_for]
    names = list(nodes)
    others = [name for name in names if name not in own]
    if others and not shared:
        raise RunError(
            f"no Ray node is left for {', '.join(others)}: "
            f"{some(len(places), 'Ray node')} of the cluster, each set apart for another node; "
            f"add one without a resource that begins with {APART}"
        )
    turn = {name: shared[number % len(shared)] for number, name in enumerate(others)}
    return {name: own[name] if name in own else turn[name] for name in names}
