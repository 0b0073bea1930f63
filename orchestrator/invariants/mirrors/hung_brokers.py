"""Brokers that hang: who connects to one waits for a time-out, where a process that has ended refuses at once."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actors.node.spec import node_name
from actors.trace.events import CtlFault
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodeCrash, NodeShutdown
from orchestrator.invariants.folds.broken_links import Cuts
from orchestrator.invariants.folds.fold import Profile

ENDS_PROCESS = kinds_of(NodeCrash, NodeShutdown)
"""Faults and actions that end processes: who connects to one is refused, unless nothing gets through to its host."""


class HungBrokers(msgspec.Struct):
    """brokers: those that have replicas. ended: faults that ended processes -> whose. cuts: of the network; both
    directions are needed to be refused."""

    brokers: list[str] = []
    ended: dict[str, list[str]] = {}
    cuts: Cuts = msgspec.field(default_factory=Cuts)

    @classmethod
    def among(cls, profile: Profile) -> HungBrokers:
        """Of the brokers of a run."""
        replicas = (each for topic in profile.topics.values() for each in topic.get("replicas", ()))
        return cls(sorted({node_name(each) for some in replicas for each in some}))

    def take(self, body: CtlFault, now_us: int) -> None:
        """A fault begins or ends."""
        self.cuts.take(body, now_us)
        if body.phase != "start":
            self.ended.pop(body.fault, None)
        elif body.kind in ENDS_PROCESS:
            self.ended[body.fault] = body.targets

    def of(self, client: str, core: Collection[str]) -> list[str]:
        """Brokers out of a client's reach that do not refuse its connections."""
        ended = {name for targets in self.ended.values() for name in targets}
        away = [each for each in self.brokers if each not in core]
        return [each for each in away if each not in ended or self.cuts.are_between(each, client)]
