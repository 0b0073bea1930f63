"""API versions: what a node speaks, and who serves what.

The ranges are those of Kafka 4.3.1 (``clients/src/main/resources/common/message``); they are options of the service's
methods in ``proto/krift/v1/node_service.proto``, and the fields' ranges the ``versions`` option of fields.
"""

from __future__ import annotations

from actors.node.messages import API_NAMES, APIS, Api

API_VERSIONS: dict[Api, tuple[int, int]] = {api: spec.versions for api, spec in APIS.items()}
"""What Krift emulates of each API: lowest and highest version."""


def _served_by(*servers: str) -> tuple[Api, ...]:
    return tuple(api for api, spec in APIS.items() if any(server in servers for server in spec.servers))


BROKER_APIS = _served_by("broker")
PUSHED_BROKER_APIS = _served_by("broker", "pushed-broker")
"""Of a broker that is told of the cluster as before KRaft (``metadata.propagation=push``)."""
CONTROLLER_APIS = _served_by("controller")
REMOTE_STORE_APIS = _served_by("remote-store")

Ranges = dict[str, list[int]]
"""API name -> [lowest, highest]."""


def default_ranges() -> Ranges:
    """Everything that Krift emulates, at Kafka's present versions."""
    return {api.name: list(bounds) for api, bounds in API_VERSIONS.items()}


def negotiate(mine: Ranges, theirs: Ranges, api: Api) -> int | None:
    """The highest version of ``api`` that both ranges hold, or None."""
    name = API_NAMES[api]
    a, b = mine.get(name), theirs.get(name)
    if a is None or b is None:
        return None
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return high if low <= high else None
