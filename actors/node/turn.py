"""The input of every part of a node during one step."""

from __future__ import annotations

from actors.node.files import Files
from actors.node.network_client import NetworkClient
from actors.node.step import Step


class NodeTurn:
    """The step, and the node's files and connections, which belong to its state. A turn lives no longer than its
    step."""

    __slots__ = ("files", "net", "step")

    def __init__(self, step: Step, files: Files, net: NetworkClient) -> None:
        self.step = step
        self.files = files
        self.net = net
