"""UpdateMetadata requests that may come late: a broker takes what comes last for the newest (KIP-232)."""

from __future__ import annotations

import msgspec

from actors.trace.events import CtlFault
from chaos.faults.kinds import kinds_of
from chaos.faults.network import NetworkDelay, NetworkReorder
from orchestrator.invariants.folds.fold import Profile

HOLDS_UP = kinds_of(NetworkDelay, NetworkReorder)
"""Kinds of faults with which a request may arrive after the next one, on another connection."""

LATE_PUSH_RULE = "late-push"
LATE_PUSH = (
    "With metadata.propagation=push and links that delayed requests, a broker may have taken an older UpdateMetadata "
    "for the newest, and serve former leaders to its clients from then on."
)


class LatePushes(msgspec.Struct):
    """pushed: whether brokers are told of metadata at all. held_up: whether a request from a controller to a broker may
    have been held up so far."""

    pushed: bool = False
    held_up: bool = False

    @classmethod
    def of(cls, profile: Profile) -> LatePushes:
        """Of a run that begins."""
        return cls(profile.setting("metadata.propagation", default="log") == "push")

    @property
    def possible(self) -> bool:
        """Whether a broker may tell of former leaders for ever."""
        return self.pushed and self.held_up

    def take(self, body: CtlFault) -> None:
        """A fault begins or ends."""
        if body.kind in HOLDS_UP:
            one, other = body.parameters["from"], body.parameters["to"]
            self.held_up = self.held_up or _between(one, other) or _between(other, one)


def _between(controllers: list[str], brokers: list[str]) -> bool:
    return _has(controllers, "controller-") and _has(brokers, "broker-")


def _has(names: list[str], prefix: str) -> bool:
    return any(name.startswith(prefix) for name in names)
