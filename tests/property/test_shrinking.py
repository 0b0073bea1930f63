"""Whatever a failure depends on, shrinking finds less of it, never more, and the same every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st

from chaos.scenario.durations import parse_duration_us
from chaos.scenario.loader import load_value
from chaos.shrink.measure import size_of
from tests.unit.chaos.shrink.toys import kinds, shrunk, toy

KINDS = ("crash", "partition", "power-loss", "drop", "elect", "rolling-bounce")
CLIENTS = ("producer", "consumer", "list-offsets")


class Needs(msgspec.Struct, frozen=True):
    """What a failure depends on, in place of a run: it happens where all of this is there. draws: it also needs this of
    what the seed draws for so many steps."""

    steps: frozenset[str]
    brokers: int
    voters: int
    clients: frozenset[str]
    setting: bool
    lasting_ms: int
    draws: int

    def __call__(self, document: Mapping[str, Any]) -> bool:
        cluster, clients = document["cluster"], {kind for entry in document["workload"] for kind in entry}
        longest = max((parse_duration_us(step.get("for", "0s")) for step in document["chaos"]), default=0)
        shifted = document["seed"] + len(document["chaos"])
        return (
            self.steps <= set(kinds(document))
            and cluster["brokers"] >= self.brokers
            and cluster["voters"] >= self.voters
            and self.clients <= clients
            and (not self.setting or "num.io.threads" in cluster.get("config", {}))
            and longest >= self.lasting_ms * 1_000
            and (self.draws == 0 or shifted % self.draws == (toy()["seed"] + 6) % self.draws)
        )


needs = st.builds(
    Needs,
    steps=st.frozensets(st.sampled_from(KINDS), max_size=3),
    brokers=st.integers(1, 4),
    voters=st.integers(1, 5),
    clients=st.frozensets(st.sampled_from(CLIENTS), max_size=2),
    setting=st.booleans(),
    lasting_ms=st.sampled_from((0, 5, 700, 2_345)),
    draws=st.sampled_from((0, 0, 2, 3)),
)


@settings(max_examples=8, deadline=None)
@given(fails=needs)
def test_the_outcome_still_fails_is_never_larger_and_always_the_same(fails: Needs) -> None:
    """Shows it for a failure that depends on steps, times, nodes, clients, a setting and draws, as drawn; that one by
    one and three at a time lead to the same; and that no step can be left out of the outcome."""
    assert fails(toy())
    shrinker = shrunk(fails, budget=300)
    found = shrinker.best
    assert fails(found)
    load_value(found)
    assert size_of(found) <= size_of(toy())
    again = shrunk(fails, budget=300, width=3)
    assert (again.best, again.runs, again.why) == (found, shrinker.runs, shrinker.why)
    if shrinker.why == "nothing gets smaller":
        for index in range(len(found["chaos"])):
            less = {**found, "chaos": [step for number, step in enumerate(found["chaos"]) if number != index]}
            assert not fails(less)
