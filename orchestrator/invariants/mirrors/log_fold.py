"""The fold of the invariants that compare replicas' logs: one mirror per partition, and they all look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.features import KAFKA_7408
from actors.node.spec import METADATA_PARTITION
from actors.trace.events import LogStart, Stamped, TraceEvent
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Route, St
from orchestrator.invariants.folds.mirror_fold import MirrorFold, MirrorInvariant, MirrorState
from orchestrator.invariants.mirrors.log_mirror import LOGS, LogMirror
from orchestrator.invariants.mirrors.loss_budget import loss_budget
from orchestrator.invariants.mirrors.voter_sets import VoterSets


class LogInvariant(MirrorInvariant[LogMirror, St]):
    """An invariant over the logs of one partition."""

    mirrored = LOGS

    def forget(self, state: St, offset: int) -> None:
        """Records below an offset were deleted long ago: nobody reads them, and nobody asks for them."""


class LogFold(MirrorFold):
    """The invariants of a partition's logs."""

    def __init__(
        self,
        name: str,
        route: Route,
        leadership: tuple[type[TraceEvent], ...],
        invariants: Sequence[LogInvariant[Any]],
    ) -> None:
        """``leadership``: types of the events that say who leads this kind of log."""
        super().__init__(name, route, (*LOGS, *leadership), invariants)
        self._logs = tuple(invariants)

    def step(self, state: MirrorState, event: Stamped) -> Emissions:
        if state.mirror.is_of_another(event):
            return NOTHING
        found = super().step(state, event)
        if type(event.body) is LogStart and (offset := state.mirror.deleted_long_ago(event.wall)):
            state.mirror.records.forget(offset)
            for part, each in zip(state.parts, self._logs, strict=True):
                each.forget(part, offset)
        return found

    def mirror(self, key: str, profile: Profile) -> LogMirror:
        voters = VoterSets.starting_with(profile.voters if key == METADATA_PARTITION else ())
        cut_to_stable = key != METADATA_PARTITION and profile.feature(KAFKA_7408) not in ("", "off")
        return LogMirror(tp=key, budget=loss_budget(profile, key), voters=voters, cut_to_stable=cut_to_stable)
