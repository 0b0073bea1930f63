"""A scenario with some of everything, and predicates in place of runs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.shrink.lean import lean
from chaos.shrink.passes import PASSES, Pass
from chaos.shrink.shrinker import Shown, Shrinker, Try

TEXT = """
schema: krift/v1
name: toy
seed: 9
duration: 20s
cluster:
  voters: 5
  brokers: 4
  topics:
    orders: {replicas: [[1, 2, 3], [2, 3, 4]], config: {min.insync.replicas: 2}}
    other: {replicas: [[4]]}
  config: {broker.session.timeout.ms: 2000, num.io.threads: 2}
features: {kip-207: seed}
versions: {Fetch: 4-12}
nodes:
  broker-3: {versions: {ListOffsets: 1-7}}
  producer-2: {config: {linger.ms: 50}}
workload:
  - producer: {topic: orders, rate: 100/s, config: {linger.ms: 5}}
  - producer: {topic: orders, rate: 50/s, count: 2}
  - consumer: {topic: orders, partitions: [1]}
  - consumer: {topic: other}
  - list-offsets: {topic: orders, every: 20ms, replica-id: 3}
chaos:
  - when: {at: 1234ms}
    fault: {crash: leader(orders-0)}
    for: 2345ms
  - when: {at: 3s}
    fault: {partition: {between: [broker-2, controller-4], and: [clients]}}
    until: {seen: {committed: {tp: orders-1, offset: 40}}}
  - when: {seen: {leader-elected: {tp: orders-1}}, nth: 2, delay: 70ms}
    fault: {power-loss: {nodes: ["followers(orders-1)[0]", broker-3], at: after-write, of: orders-1, nth: 2}}
    for: 1s
  - when: {at: 9s}
    fault: {drop: {isolate: producer-3, chance: 3%, apis: [Produce]}}
    for: 4s
  - when: {at: 10s}
    action: {elect: {partitions: [orders-1, other-0]}}
  - when: {at: 12s}
    action: {rolling-bounce: {targets: [broker-4, broker-3], versions: {Fetch: 4-16}}}
"""

Predicate_ = Callable[[Mapping[str, Any]], bool]


def toy() -> dict[str, Any]:
    """The scenario, lean."""
    return lean(resolve(load_text(TEXT)).document)


def fails_if(predicate: Predicate_, asked: list[Mapping[str, Any]] | None = None) -> Try:
    """Runs that show what a predicate says of their scenario. ``asked``: gets every candidate."""

    def fails(documents: Sequence[Mapping[str, Any]]) -> Iterator[Shown]:
        for document in documents:
            if asked is not None:
                asked.append(copy.deepcopy(document))
            yield Shown(predicate(document))

    return fails


def shrunk(predicate: Predicate_, passes: Iterable[Pass] = PASSES, **options: Any) -> Shrinker:
    """A shrinker that has done its work on the toy."""
    shrinker = Shrinker(
        toy(), fails_if(predicate), passes=tuple(passes), **{"budget": 5_000, "stall": 5_000, **options}
    )
    shrinker.run()
    return shrinker


def only(name: str) -> list[Pass]:
    """One pass, by its name."""
    return [each for each in PASSES if each.name == name]


def kinds(document: Mapping[str, Any]) -> list[str]:
    """Of the steps, in their order."""
    return [kind for step in document["chaos"] for kind in step.get("fault", step.get("action"))]
