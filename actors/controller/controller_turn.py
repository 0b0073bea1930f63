"""What the parts of a controller are given while it takes one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.node.step import Step
from actors.node.turn import NodeTurn

if TYPE_CHECKING:
    from actors.controller.controller_node import ControllerNode


class ControllerTurn(NodeTurn):
    """Handed down through a controller during one step: what all nodes have, the quorum, and the controller that waits
    for what the quorum commits."""

    __slots__ = ("controller", "raft")

    def __init__(self, step: Step, node: ControllerNode) -> None:
        super().__init__(step, node.files, node.net)
        self.raft = node.raft
        self.controller = node.controller
