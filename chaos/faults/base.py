"""What a fault is: a small frozen value that is aimed when it fires and then knows how it begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from actors.config import CONFIG
from actors.control import AnyAction
from actors.node.spec import NodeSpec
from chaos.view import ClusterView


class Bounce(msgspec.Struct, frozen=True):
    """How nodes are bounced: what is otherwise for them afterwards, and how long one may take to stop, or come back."""

    timeout_us: int
    features: dict[str, str] = {}
    versions: dict[str, list[int]] = {}
    config: dict[str, Any] = {}

    def after(self, spec: NodeSpec) -> NodeSpec:
        """A node with its new settings; of the configuration those that its role reads."""
        config = {key: value for key, value in self.config.items() if spec.role in CONFIG[key].scopes}
        return msgspec.structs.replace(
            spec,
            features={**spec.features, **self.features},
            versions={**spec.versions, **self.versions},
            config={**spec.config, **config},
        )


class Aimed(msgspec.Struct, frozen=True):
    """A fault with its targets chosen, compiled to what a runtime is asked for.

    targets: all nodes it concerns. parameters: for the trace. begin, end: actions, in order. Its effect is seen
    when every rule in ``rules`` was installed (a clock's is ``fault/node``), every node in ``stopped`` went down, and
    every operation in ``operations`` (id -> node that it was given to) has returned; what nothing else ends is over
    then. silent: nodes of which the others hear nothing while it is in force, if that is all it does; [] for a fault
    that does anything else. points: where nodes are to go down (id of the point -> node): one that does is restarted at
    the end, which is counted from the first one on, and whose effect is seen then. bounce: the
    nodes in ``targets`` are stopped and started one after the other.
    """

    kind: str
    targets: list[str]
    parameters: dict[str, Any]
    begin: list[AnyAction]
    end: list[AnyAction]
    rules: list[str] = []
    stopped: list[str] = []
    silent: list[str] = []
    points: dict[str, str] = {}
    operations: dict[str, str] = {}
    bounce: Bounce | None = None


class Fault(msgspec.Struct, frozen=True, tag=True):
    """Base of all faults."""

    kind: ClassVar[str] = ""

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        """Choose the targets now. ``fault`` is its id, ``nodes`` all of the run's, ``busy`` those that another
        fault has stopped. None: there is nothing to hit (a partition without a leader)."""
        raise NotImplementedError

    def describe(self) -> str:
        """What it hits, in the scenario's words."""
        raise NotImplementedError
