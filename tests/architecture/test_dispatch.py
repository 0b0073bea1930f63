"""Every API of the registry has somebody who serves it, and a transcript; what was forgotten fails by name."""

from __future__ import annotations

import pytest

from actors.broker import broker_node
from actors.controller import controller
from actors.node.errors import KafkaError
from actors.node.messages import APIS, Api
from actors.quorum import raft_client
from actors.versions import CONTROLLER_APIS, PUSHED_BROKER_APIS
from krift.v1 import node_service_pb2
from tests.architecture.sources import ROOT


@pytest.mark.parametrize("api", Api, ids=lambda api: api.name)
def test_every_api_has_its_handler(api: Api) -> None:
    """Shows that whoever serves an API, by its option in node_service.proto, has a handler for it, and nobody else."""
    assert (api in PUSHED_BROKER_APIS) == (api in broker_node.HANDLERS)
    of_a_controller = {*raft_client.HANDLERS, *controller.HANDLERS, Api.ApiVersions}
    assert (api in CONTROLLER_APIS) == (api in of_a_controller)


@pytest.mark.parametrize("api", Api, ids=lambda api: api.name)
def test_every_api_has_a_transcript(api: Api) -> None:
    """Shows that some data-driven test speaks of the API: by the name of the file, or of a request in it."""
    words = "".join(api.name[:1].lower() + api.name[1:])
    verb = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in words)
    scripts = list((ROOT / "tests" / "datadriven").rglob("*.txt"))
    assert any(
        verb.replace("-", "_") in path.stem or verb in text or api.name in text
        for path in scripts
        for text in [path.read_text(encoding="utf-8")]
    )


@pytest.mark.parametrize("api", Api, ids=lambda api: api.name)
def test_the_registry_is_whole(api: Api) -> None:
    """Shows that an API has its messages under Kafka's names, a range of versions, and errors that there are."""
    spec = APIS[api]
    assert (spec.request.__name__, spec.response.__name__) == (f"{api.name}Request", f"{api.name}Response")
    assert 0 <= spec.versions[0] <= spec.versions[1]
    unknown = [name for name in spec.errors if name not in KafkaError.__members__]
    assert not unknown, "no such errors"
    assert sorted(spec.errors, key=KafkaError.__getitem__) == list(spec.errors), "in the order of their codes"
    assert spec.errors, "every API of Kafka's has errors"


def test_the_registry_has_every_method() -> None:
    """Shows that what gRPC serves is what the registry has."""
    [service] = node_service_pb2.DESCRIPTOR.services_by_name.values()
    assert {method.name for method in service.methods} == {api.name for api in Api}
