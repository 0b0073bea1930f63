"""Produces with acks=0: that a producer hears of a failure by the end of its connection (a part of X2)."""

from __future__ import annotations

import msgspec

from actors.node.messages import Api
from actors.trace.events import LogAppend, Rpc, Stamped
from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.folds.memory import OPEN_REMEMBERED, forget_first

SERVICE = "krift.request.service.us"
REMOTE_STORAGE = "remote.log.storage.system.enable"
"""With one of these a request may wait at its broker: for a handler, so that the trace does not tell which request an
append is of, or for the remote store."""


class WithoutAnswer(msgspec.Struct):
    """Of one node. waits: whether it waits for answers to its Produces, as all but producers with acks=0 do. appended:
    its requests of which a leader has appended something, and which have not ended."""

    waits: bool = True
    appended: dict[str, None] = {}

    @classmethod
    def of(cls, profile: Profile, node: str) -> WithoutAnswer:
        """What is known of a node at first."""
        return cls(str(profile.setting("acks", node, "all")) != "0")

    def append(self, event: Stamped, body: LogAppend) -> None:
        """A leader appended what the node sent."""
        if not self.waits and body.role == "leader":
            self.appended[event.req] = None
            forget_first(self.appended, OPEN_REMEMBERED)

    def ended(self, profile: Profile, event: Stamped, body: Rpc) -> bool:
        """Whether a call of the node ended in a way in which it must not: as if all had been appended, though nothing
        was."""
        if self.waits or body.api != Api.Produce.name:
            return False
        known = event.req in self.appended
        self.appended.pop(event.req, None)
        if known or body.outcome != "answered" or not event.req.startswith(f"{event.node}>{body.dst}:"):
            return False
        return not (profile.number(SERVICE, body.dst) or profile.setting(REMOTE_STORAGE, body.dst))
