"""The conductor of a soak: rounds of chaos and healing in one cluster, with calm in between, until its time is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

import msgspec

from actors.control import AnyAction, Watch
from chaos.conductor import Progress, ScenarioConductor
from chaos.injector import Injector
from chaos.rounds import Round, Rounds

Halted = Literal["interrupted", "stopped at a violation"]

Begun = Callable[[Round], None]
"""Is told of a round that begins."""


def tell_nobody(begun: Round) -> None:
    """Whoever wants to know asks."""


class SoakConductor(ScenarioConductor):
    """Conducts a soak. ``duration_us``: after that no round begins; the one that goes on is carried to its end.
    ``calm_us``: how long the healed cluster is left alone before the next round: promises of progress are judged then.

    round: the one that goes on. ``faults``: kind -> how many have taken effect, in the rounds before it.
    """

    def __init__(self, rounds: Rounds, duration_us: int, calm_us: int, begun: Begun = tell_nobody) -> None:
        super().__init__(rounds.plan)
        self.round = rounds.round(0)
        self.faults: Counter[str] = Counter()
        self.soak_us = duration_us
        self._rounds = rounds
        self._calm_us = calm_us
        self._calm_until_us = -1
        self._begun_round = begun
        self._halted: tuple[Halted, str] | None = None
        self._inject(self.round)

    def halt(self, status: Halted, detail: str) -> None:
        """Be over at once: faults are ended, and nothing is healed."""
        self._halted = (status, detail)

    @property
    def finished(self) -> bool:
        """As of a run."""
        return self._halted is not None or super().finished

    def end(self, now_us: int) -> list[AnyAction]:
        """As of a run."""
        actions = super().end(now_us)
        if self._halted is not None:
            self.status, self.detail = self._halted
        return actions

    def _inject(self, round_: Round) -> None:
        before = self.injector
        self.injector = Injector(round_.schedule, self.plan.nodes, self.view)
        self.injector.specs.update(before.specs)

    def _begin_chaos(self, now_us: int) -> list[AnyAction]:
        self._begun_round(self.round)
        return super()._begin_chaos(now_us)

    def _step(self, now_us: int) -> list[AnyAction]:
        if self.phase != "healing":
            return super()._step(now_us)
        if self._waits():
            return []
        if self._calm_until_us < 0:
            self._calm_until_us = self._deadline_us = now_us + self._calm_us
        return [] if now_us < self._calm_until_us else self._go_on(now_us)

    def _late(self, now_us: int) -> list[AnyAction]:
        if self.phase != "healing":
            return super()._late(now_us)
        if not self._unhealed():  # groups are waited for no longer than that
            return self._go_on(now_us)
        if self._calm_until_us < 0:
            return self._give_up()
        # It was steady once, and is not any more.
        self._calm_until_us, self._deadline_us = -1, now_us + self.plan.budgets.heal_us
        return []

    def _go_on(self, now_us: int) -> list[AnyAction]:
        """The next round, or the end."""
        self._calm_until_us = -1
        self.faults.update(each.kind for each in self.injector.outcomes() if each.took_effect)
        assert self.zero_us is not None, "it has begun"
        if now_us - self.zero_us >= self.soak_us:
            return self._stop(now_us, "stopping")
        self.round = self._rounds.round(self.round.number + 1)
        self._inject(self.round)
        self._types = self._interesting()
        event = self._enter("chaos", now_us + self.round.plan.duration_us)
        self._begun_round(self.round)
        return [Watch(self.barriers), event, *self.injector.start(now_us)]

    def progress(self) -> Progress:
        """As of a run, with the time of the whole soak."""
        return msgspec.structs.replace(super().progress(), duration_us=self.soak_us)
