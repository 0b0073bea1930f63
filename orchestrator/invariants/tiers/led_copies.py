"""How far the leaders of a tiered log go by copies: what they tell who asks for LATEST_TIERED or
EARLIEST_PENDING_UPLOAD."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from actors.trace.events import ConfigChange, LogStart, Stamped, TierSegment, TraceEvent
from actors.trace.tier_events import FINISHED
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State
from orchestrator.invariants.mirrors.known_limits import switches
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror

NO_COPY = -1
"""In place of the last offset that was copied."""


class Looked(msgspec.Struct, frozen=True):
    """A leader has looked how far its log is copied, in a leader epoch. ``last``: the last offset that was copied, as
    it goes by since; of several it may be any, and none is nobody's guess."""

    incarnation: int
    leader_epoch: int
    last: tuple[int, ...]


class LedCopies(msgspec.Struct):
    """Of a partition. finished: broker -> incarnation, and the last offset of all finished copies of which that process
    has consumed the metadata; their deletion changes nothing. looked: by broker. switched: an operator has changed
    whether the log is tiered, or copied, so that nothing is known any more."""

    finished: dict[str, tuple[int, int]] = {}
    looked: dict[str, Looked] = {}
    switched: bool = False

    def hear(self, profile: Profile, key: str, body: ConfigChange) -> None:
        """An operator changed something."""
        self.switched = self.switched or switches(profile, key, body)

    def take(self, event: Stamped, body: TierSegment) -> None:
        """A broker copied a segment, or consumed what became of a copy."""
        if body.phase == "known" and body.state == FINISHED:
            self.finished[event.node] = (event.incarnation, max(body.end, self._last(event)))
        elif body.phase == "copied":
            looked = self.looked.get(event.node)
            if looked is not None and looked.incarnation == event.incarnation:
                self.looked[event.node] = msgspec.structs.replace(looked, last=(body.end,))

    def look(self, event: Stamped, mirror: LogMirror) -> None:
        """A new leader looks, once in its leader epoch (``RLMCopyTask.maybeUpdateCopiedOffset``): it takes the last
        offset of the newest leader epoch of its log of which anything was copied. Records below the log start may have
        been the last ones of their leader epoch: then there is none."""
        replica, last = mirror.replica(event.node), self._last(event)
        found: tuple[int, ...] = (last,)
        if last >= replica.log.end:
            found = ()  # a copy of another log
        elif NO_COPY < last < replica.start:
            found = (last, NO_COPY)
        self.looked[event.node] = Looked(event.incarnation, replica.leads, found)

    def last(self, event: Stamped, mirror: LogMirror) -> tuple[int, ...]:
        """The last offset that was copied, as the leader goes by that records an event; () nobody can say. After an
        unclean election, or what disks have lost, a copy may be of another log."""
        looked = self.looked.get(event.node)
        now = (event.incarnation, mirror.replica(event.node).leads)
        if looked is None or (looked.incarnation, looked.leader_epoch) != now or self.switched:
            return ()
        return () if mirror.taints or mirror.unclean else looked.last

    def _last(self, event: Stamped) -> int:
        incarnation, last = self.finished.get(event.node, (event.incarnation, NO_COPY))
        return last if incarnation == event.incarnation else NO_COPY


class ByCopies(State):
    """``profile``: of the run. ``copies``: how far leaders go by copies."""

    profile: Profile = Profile()
    copies: LedCopies = msgspec.field(default_factory=LedCopies)


St = TypeVar("St", bound=ByCopies)


class CopiesInvariant(LogInvariant[St]):
    """An invariant that has to know how far the leaders of a partition go by copies."""

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (ConfigChange,)

    def hear(self, state: St, event: Stamped) -> Emissions:
        assert isinstance(event.body, ConfigChange)
        state.copies.hear(state.profile, state.key, event.body)
        return NOTHING

    def follow(self, state: St, event: Stamped, mirror: LogMirror) -> None:
        """A copy goes on, or a leader has looked for copies."""
        body = event.body
        if type(body) is TierSegment:
            state.copies.take(event, body)
        elif type(body) is LogStart and body.reason == "remote":
            state.copies.look(event, mirror)
