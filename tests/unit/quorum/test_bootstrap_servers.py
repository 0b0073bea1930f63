"""Whom a member asks for the leader."""

from __future__ import annotations

import pytest

from actors.node.spec import ClusterSpec, NodeSpec
from actors.quorum.raft_config import raft_config


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("", [101, 102, 103]),
        (" , ", [101, 102, 103]),
        ("controller-2", [102]),
        (" controller-3 ,controller-1,", [103, 101]),
    ],
)
def test_the_names_that_are_configured(text: str, asked: list[int]) -> None:
    """Shows that blanks and empty parts do not count, and that without a name all controllers are asked."""
    cluster = ClusterSpec("krift", [101, 102], [1], spare_controllers=[103])
    config = {"controller.quorum.bootstrap.servers": text}
    spec = NodeSpec("broker-1", "broker", 1, "d", cluster, config, features={"kraft.version": "1"})
    assert raft_config(spec).bootstrap == asked
