"""Every API that a node says it serves has somebody who does; what was forgotten fails at once."""

from __future__ import annotations

import ast
from typing import get_args

import pytest

from actors.controller.controller import ControllerRequest
from actors.node.messages import API_OF_REQUEST
from actors.quorum.raft_client import SERVED
from actors.versions import CONTROLLER_APIS, PUSHED_BROKER_APIS
from tests.architecture.sources import ROOT

DISPATCHERS = {
    "actors/broker/broker_node.py": {api.name for api in PUSHED_BROKER_APIS},
    "actors/quorum/raft_client.py": {api.name for api in SERVED},
}


@pytest.mark.parametrize("path", DISPATCHERS)
def test_every_api_has_its_case(path: str) -> None:
    """Shows that a match over APIs names each of them, and that what it does not name is an error and no other API."""
    [found] = [
        node
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.Match) and "Api." in ast.unparse(node.cases[0].pattern)
    ]
    *cases, last = found.cases
    named = {
        value.attr
        for case in cases
        for value in ast.walk(case.pattern)
        if isinstance(value, ast.Attribute) and ast.unparse(value.value) == "Api"
    }
    assert named == DISPATCHERS[path]
    assert isinstance(last.body[0], ast.Raise), "whoever comes here was forgotten"


def test_a_controller_serves_what_it_says() -> None:
    """Shows that its APIs are those of the quorum, ApiVersions, and those whose requests the controller tells apart."""
    own = {API_OF_REQUEST[kind] for kind in get_args(ControllerRequest)}
    named = {api.name for api in {*SERVED, *own} | {api for api in CONTROLLER_APIS if api.name == "ApiVersions"}}
    assert named == {api.name for api in CONTROLLER_APIS}
    source = (ROOT / "actors" / "controller" / "controller.py").read_text(encoding="utf-8")
    told = {kind.__name__ for kind in get_args(ControllerRequest) if f"isinstance(request, {kind.__name__})" in source}
    assert told == {kind.__name__ for kind in get_args(ControllerRequest)}
