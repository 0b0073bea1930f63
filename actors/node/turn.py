"""What every part of a node is given while it takes one step."""

from __future__ import annotations

from actors.node.files import Files
from actors.node.network_client import NetworkClient
from actors.node.step import Step


class NodeTurn:
    """Handed down through a node during one step: the step, and the node's files and connections, which are of its
    state. It lives no longer than the step."""

    __slots__ = ("files", "net", "step")

    def __init__(self, step: Step, files: Files, net: NetworkClient) -> None:
        self.step = step
        self.files = files
        self.net = net
