"""Where the leader listens, in the answers to those who lead no more or not yet."""

from __future__ import annotations

import pytest

from actors.node.effects import Reply
from actors.node.step import Step
from actors.node.turn import NodeTurn
from krift.v1.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from tests.datadriven.quorum.environment import Environment
from tests.datadriven.runner import parse_command


@pytest.mark.parametrize("kind", [BeginQuorumEpochRequest, EndQuorumEpochRequest])
@pytest.mark.parametrize(("version", "told"), [(0, []), (1, [(102, "controller-2")])])
def test_a_refused_leader_is_told_where_the_next_one_listens(
    kind: type[BeginQuorumEpochRequest | EndQuorumEpochRequest], version: int, told: list[tuple[int, str]]
) -> None:
    """Shows the node endpoints from version 1 on, in the answer to a leader of an earlier epoch."""
    environment = Environment()
    environment.verb_start(parse_command(["start c1"], 1))
    environment.verb_begin(parse_command(["begin to=c1 from=c2 epoch=5"], 1))
    member, step = environment.quorum.members["controller-1"], Step(0)
    request = kind(cluster_id="krift", leader_id=103, leader_epoch=4)
    request.header.api_version = version
    member.raft.on_request(NodeTurn(step, member.files, member.net), "test", request)
    [reply] = [effect for effect in step.effects if isinstance(effect, Reply)]
    response = reply.response
    assert isinstance(response, BeginQuorumEpochResponse | EndQuorumEpochResponse)
    assert [(each.node_id, each.host) for each in response.node_endpoints] == told
