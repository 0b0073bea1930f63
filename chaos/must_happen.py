"""What must happen in a run, looked for in its trace."""

from __future__ import annotations

from collections.abc import Iterable

from actors.trace.events import Stamped
from chaos.plan import Plan
from chaos.scenario.selectors import meaning
from chaos.scenario.triggers import describe, matches
from chaos.view import VIEWED, new_view


class Sightings:
    """Looks at the events of a trace, in order, until all that must happen, and every answer that is expected, was
    seen. seen: by description."""

    def __init__(self, plan: Plan) -> None:
        wanted = [*plan.expect.must_happen, *plan.expect.asked]
        self.seen = {describe(predicate): False for predicate in wanted}
        self._unseen = {describe(predicate): predicate for predicate in wanted}
        self._view = new_view(plan.cluster, plan.strangers)
        self._meant = meaning(self._view, plan.names)

    @property
    def complete(self) -> bool:
        """Nothing is left to look for."""
        return not self._unseen

    def __call__(self, event: Stamped) -> None:
        if not self._unseen:
            return
        for name in [name for name, predicate in self._unseen.items() if matches(predicate, event, self._meant)]:
            self.seen[name] = True
            del self._unseen[name]
        if type(event.body) in VIEWED:
            self._view.fold(event)


def happened(plan: Plan, events: Iterable[Stamped]) -> dict[str, bool]:
    """What must happen, by description -> whether it did; reads no further than it must."""
    sightings = Sightings(plan)
    for event in () if sightings.complete else events:
        sightings(event)
        if sightings.complete:
            break
    return sightings.seen
