"""KIP-232 as it was first proposed, as Kafka has it, and not at all: the incidents of the library."""

from __future__ import annotations

import pytest

from actors.trace.events import ConsPos, MetaMint
from chaos.incidents import library
from chaos.scenario.resolve import resolve
from tests.scenario.test_library_in_sim import assert_expected, play


@pytest.mark.parametrize("variant", ["off", "seed", "kafka"])
@pytest.mark.parametrize("incident", ["kip-232-external-offsets", "kip-232-rolling-bounce"])
def test_a_consumer_begins_anew_only_where_nothing_protects_it(incident: str, variant: str) -> None:
    """Shows that a consumer is sent back to a former leader and reset with ``off``, and is not with the other two; and
    that metadata epochs rise by one, over restarts of controllers."""
    plan = resolve(library.load(incident), variant=variant)
    played = play(plan)
    assert_expected(plan, played)
    bodies = [event.body for event in played.result.trace]
    resets = [body for body in bodies if isinstance(body, ConsPos) and body.reason == "reset" and body.old >= 0]
    assert len(resets) == (variant == "off")
    minted = [body.epoch for body in bodies if isinstance(body, MetaMint)]
    assert minted == list(range(1, len(minted) + 1))
