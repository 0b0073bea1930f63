"""That clients refresh their metadata by its age (metadata.max.age.ms): a part of M2."""

from __future__ import annotations

from typing import TypeVar

from actors.node.messages import Api
from actors.trace.events import Rpc, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Deadline, Emissions, witness
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState

MAX_AGE = "metadata.max.age.ms"


class Ageing(WindowState):
    """Of a client. max_age_us: when its metadata is too old. age: since when it is, by the last answer, which it need
    not have taken over; None it has taken over none. unanswering: who is not in the core, and was asked since the last
    answer. brokers: those of the run. clock: a fault changed its clock."""

    max_age_us: int = 0
    age: Obligation | None = None
    unanswering: set[str] = set()
    brokers: list[str] = []
    clock: bool = False

    @property
    def grows_old(self) -> bool:
        """Whether its metadata has to be refreshed when it is too old."""
        return self.age is not None and self.key in self.core and not self.clock


A = TypeVar("A", bound=Ageing)


class MetadataIsRefreshedByAge(WindowInvariant[A]):
    """The part of an invariant of clients that is about the age of metadata. It is no obligation like the others: it
    lies in the future, mostly beyond the end of the run, and a window that is too short for it tells nothing."""

    def renewed(self, state: A, event: Stamped) -> Emissions:
        """An answer was taken over."""
        state.age = Obligation(event.wall + state.max_age_us, witness(event))
        return self.arm(state)

    def asked(self, state: A, event: Stamped, body: Rpc) -> None:
        """A call of the client ended."""
        if body.dst not in state.core:
            state.unanswering.add(body.dst)
        if body.api == Api.Metadata.name and body.outcome == "answered":
            if state.age is not None:
                state.tested += state.since_us >= 0 and event.wall >= state.age.since_us
                # Who does not take it over asks again after the back-off, and at the latest when this one is too old.
                state.age = Obligation(event.wall + state.max_age_us, witness(event))
            state.unanswering.clear()

    def next_due_us(self, state: A) -> int:
        due = [self.due_us(state, each) for each in state.due.values()]
        if state.grows_old and state.age is not None:
            due.append(self.due_us(state, state.age))
        return min(due)

    def arm(self, state: A) -> Emissions:
        if state.since_us < 0 or not (state.due or state.grows_old):
            return NOTHING
        due_us = self.next_due_us(state)
        if 0 <= state.armed_us <= due_us:
            return NOTHING
        state.armed_us = due_us
        return (Deadline(due_us),)

    def expire(self, state: A, at_us: int) -> Emissions:
        age = state.age
        over = at_us == state.armed_us and state.since_us >= 0 and state.grows_old
        if not over or age is None or self.due_us(state, age) > at_us:
            return super().expire(state, at_us)
        state.age = None  # said once
        return [*self._too_old(state, age, at_us), *super().expire(state, at_us)]

    def _too_old(self, state: A, age: Obligation, at_us: int) -> Emissions:
        old_ms = (at_us - age.since_us + state.max_age_us) // 1000
        sentence = (
            f"{state.key} has had its metadata for {old_ms:,} ms, and did not refresh it {self.within(state)}, although"
            f" its {MAX_AGE} is {state.max_age_us // 1000:,}"
        )
        away = [each for each in state.brokers if each not in state.core]
        if len({*state.unanswering, *away}) > 1:
            return self.excused("silent-nodes", state.key, sentence, age.by)
        return self.violated(state.key, sentence, age.by)
