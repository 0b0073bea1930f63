"""Mistakes of shape and mistakes of names in one file, told together."""

from __future__ import annotations

import pytest

from chaos.errors import InputError
from chaos.scenario.loader import load_text

HEAD = """\
schema: krift/v1
name: wrong
duration: 10s
cluster: {brokers: 2, topics: {orders: {replicas: [[1, 2]]}}}
"""
CLIENTS = """\
workload:
  - producer: {topic: orders, rate: 50/s}
  - consumer: {topic: orders}
"""


def told(text: str) -> list[str]:
    """Line, key and problem of each mistake."""
    with pytest.raises(InputError) as caught:
        load_text(text)
    return [f"{each.line} {each.key}: {each.problem}" for each in caught.value.mistakes]


def test_one_round() -> None:
    """Shows that an unknown key, an unknown node behind it, a time beyond the end, and names elsewhere come at once,
    each with the number that its entry has in the file."""
    assert told(
        HEAD
        + "features: {kip-20: on}\n"
        + CLIENTS
        + "chaos:\n"
        + "  - {when: {at: 1s}, fault: {crsh: broker-1}, for: 1s}\n"
        + "  - {when: {at: 1s}, fault: {crash: broker-9}, for: 1s}\n"
        + "  - {when: {at: 12s}, fault: {crash: consumer-2}, for: 1s}\n"
        + "expect: {held: [C99], hold: [H1]}\n"
    ) == [
        "5 features.kip-20: unknown feature kip-20",
        "10 chaos[0].fault.crsh: unknown key",
        "11 chaos[1].fault.crash[0]: unknown node broker-9",
        "12 chaos[2].when.at: the fault begins after the chaos",
        "12 chaos[2].fault.crash[0]: unknown node consumer-2",
        "13 expect.hold: unknown key",
        "13 expect.held[0]: C99 is not an invariant",
    ]


def test_nothing_is_told_that_may_not_be_so() -> None:
    """Shows that what malformed parts may have named is left alone: clients where one of them is malformed, nodes and
    topics where the cluster is."""
    fault = "chaos: [{when: {at: 1s}, fault: {crash: [consumer-1, broker-3]}, for: 1s}]\n"
    clients = CLIENTS.replace("consumer: {topic", "consumer: {topics")
    assert told(HEAD + clients + fault) == [
        "7 workload[1].consumer.topics: unknown key",
        "8 chaos[0].fault.crash[1]: unknown node broker-3",
    ]
    assert told(HEAD.replace("brokers: 2", "brokers: two") + CLIENTS + fault) == [
        "4 cluster.brokers: 'two' is of the wrong type",
    ]
    assert told(HEAD.replace("duration: 10s", "duration: 10") + CLIENTS + fault)[1:] == [
        "8 chaos[0].fault.crash[1]: unknown node broker-3",
    ]


def test_no_name_is_suggested_that_is_refused() -> None:
    """Shows that for an id that is no invariant's no other is suggested: which one is meant nobody can tell from two
    characters, and one that is not checked would be refused."""
    with pytest.raises(InputError) as caught:
        load_text(HEAD + CLIENTS + "expect: {held: [C99]}\n")
    assert "did you mean" not in str(caught.value)
