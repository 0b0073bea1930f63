"""A broker answers every version that it says it speaks, with what that version can say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.node.messages import Api
from actors.versions import API_VERSIONS
from tests.datadriven.broker.environment import Environment
from tests.datadriven.runner import execute, parse_command

COMMANDS = {
    Api.Produce: ("produce orders-0 n=1 v={}", "p1 <- 0: offset 2"),
    Api.Fetch: ("fetch orders-0 at=0 v={}", "c1 <- 0: 0-1e0 hw=2"),
    Api.ListOffsets: ("list orders-0 v={}", "l1 <- 0: offset 2 timestamp -1 epoch "),
    Api.Metadata: ("metadata orders v={}", "m1 <- brokers [1, 2, 3]; orders-0: leader=1 epoch="),
    Api.OffsetForLeaderEpoch: ("epoch-end orders-0 of=0 v={}", "e1 <- 0: epoch 0 ends at 2"),
}
"""API -> a command of the transcripts, and how the line of its answer begins."""


def versions() -> Iterator[tuple[Api, int]]:
    """Every version of those APIs."""
    for api in COMMANDS:
        low, high = API_VERSIONS[api]
        yield from ((api, version) for version in range(low, high + 1))


@pytest.fixture
def environment() -> Environment:
    """A broker that leads a partition with two committed records."""
    environment = Environment()
    for line in ("start", "topic orders leader=1 replicas=(1) isr=(1)", "produce orders-0 n=2"):
        execute(environment, parse_command([line], 1))
    return environment


@pytest.mark.parametrize(("api", "version"), list(versions()))
def test_a_broker_answers_every_version(environment: Environment, api: Api, version: int) -> None:
    """Shows that no version fails, and that none has a field that it lacks, which the sender's check would not pass."""
    line, answer = COMMANDS[api]
    told = execute(environment, parse_command([line.format(version)], 1))
    assert told.splitlines()[-1].startswith(answer)
