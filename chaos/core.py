"""Who stays away when the chaos is over: faults that go on, so that a core must converge without the nodes that they
silence.

The core can still make progress: it has most of the voters, of each partition somebody who may lead it and is running,
and as many replicas as min.insync.replicas asks for. Which of the faults go on is drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from actors.node.spec import REMOTE_STORE, node_name
from chaos.scenario.selectors import Selector, select
from chaos.view import ClusterView

CHANCE = 0.8
"""Of a fault to go on, if the others can do without whom it silences."""


def staying(
    faults: Mapping[str, frozenset[str]],
    chosen: Sequence[Selector],
    view: ClusterView,
    nodes: Sequence[str],
    silent: Collection[str],
    seed: int,
) -> list[str]:
    """Ids of the faults that go on. ``faults``: id -> whom it silences, of all that do nothing else; ``chosen``: the
    core, () for one that is drawn; ``silent``: everybody who is silent now."""
    if chosen:
        core = set(select(chosen, view, nodes))
        return [fault for fault, whom in faults.items() if not whom & core]
    draw = Random(f"{seed}/core")
    order = list(faults)
    draw.shuffle(order)
    away: frozenset[str] = frozenset()
    found = []
    for fault in order:
        wanted = draw.random() < CHANCE
        if wanted and _can_do_without(away | faults[fault], view, silent):
            away |= faults[fault]
            found.append(fault)
    return sorted(found)


def _can_do_without(away: frozenset[str], view: ClusterView, silent: Collection[str]) -> bool:
    """Whether the others can still make progress. A broker that needs a copy replicates nothing from that leader until
    the remote store answers."""
    if REMOTE_STORE in away:
        return False
    hung = [name for name in view.brokers if name in away and name in view.up]
    if len(hung) > 1 or not view.can_elect(away):
        return False
    return all(_has_enough(tp, away, view, silent) for tp in view.living)


def _has_enough(tp: str, away: frozenset[str], view: ClusterView, silent: Collection[str]) -> bool:
    found = view.partitions[tp]
    replicas = [node_name(each) for each in found.replicas]
    if not away.intersection(replicas):
        return True
    newest = found.changes.newest
    needed = newest.min_isr if newest is not None else len(replicas)
    running = [name for name in view.able(tp) if name not in away and name not in silent and name in view.up]
    return bool(running) and len([name for name in replicas if name not in away]) >= needed


def stranded(away: Collection[str], view: ClusterView, unclean: Callable[[str], bool]) -> set[str]:
    """Whom the core cannot do without after all: those who may lead a partition that nobody in the core may lead, and
    voters where most of them are away. What was asked for before may be decided later: an ISR shrinks to who is away,
    or the voters become others. ``unclean``: whether a partition elects uncleanly, so that any replica may lead it."""
    found: set[str] = set()
    if not view.can_elect(away):
        found.update(name for members in view.deciding_sets(away) for name in members if name in away)
    for tp, partition in view.living.items():
        able = [node_name(each) for each in partition.replicas] if unclean(tp) else view.able(tp)
        if able and all(name in away for name in able):
            found.update(able)
    return found
