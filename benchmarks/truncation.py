"""How many fetches it takes until a follower's log is a part of its leader's, by each form of ``kip-595.divergence``.

``python -m benchmarks.truncation`` prints the table of docs/studies/kip-595-divergence.md. Pairs of logs are drawn from
fixed seeds: both begin alike, then each goes on under epochs that the other one lacks or ends elsewhere, as after
elections in which either side was cut off. The rules are those that the nodes use (``actors.quorum.divergence``). "one
by one" is for comparison: refused without a word, a follower can only drop its last record and ask again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from random import Random

import msgspec

from actors.log.batch import LogRecord, make_batch
from actors.log.leader_epoch_cache import LeaderEpochCache
from actors.log.replica_log import ReplicaLog
from actors.quorum.divergence import cut_for_diverging_epoch, cut_for_next_offset, diverging_epoch

PAIRS = 300
SHAPES: dict[str, tuple[int, int, int]] = {
    "one epoch of its own": (1, 1, 40),
    "up to 3 epochs each": (3, 3, 20),
    "up to 10 epochs each": (10, 10, 10),
    "up to 40 epochs each, short": (40, 40, 3),
}
"""Name -> most epochs that the follower and the leader have of their own, most records of an epoch."""

Rule = Callable[[ReplicaLog, int, int], int]


class Rounds(msgspec.Struct, frozen=True):
    """What it took: truncations (one a fetch), records dropped, and how many of them both logs shared."""

    rounds: int
    dropped: int
    shared: int


def as_shipped(log: ReplicaLog, epoch: int, end_offset: int) -> int:
    """Told the diverging epoch and its end."""
    return cut_for_diverging_epoch(log, epoch, end_offset)


def as_proposed(log: ReplicaLog, _epoch: int, end_offset: int) -> int:
    """Told the offset alone."""
    return cut_for_next_offset(log, end_offset)


def one_by_one(log: ReplicaLog, _epoch: int, _end_offset: int) -> int:
    """Told nothing."""
    return log.end_offset - 1


RULES: dict[str, Rule] = {"kafka": as_shipped, "seed": as_proposed, "one by one": one_by_one}


def log_of(epochs: list[int]) -> ReplicaLog:
    """A log with a record of each epoch in ``epochs``, a batch each."""
    log = ReplicaLog("study-0", epochs=LeaderEpochCache([]))
    for epoch in epochs:
        batch = make_batch(log.end_ph, log.end_offset, epoch, [LogRecord(0)])
        log.epochs.assign(epoch, batch.base_offset)
        log.batches.append(batch)
    return log


def pair(random: Random, mine: int, theirs: int, longest: int) -> tuple[list[int], list[int]]:
    """Epochs of the follower's and of the leader's records, of which the leader's last is the highest."""
    epoch = random.randint(1, 3)
    both = [epoch] * random.randint(1, longest)
    follower, leader = list(both), list(both)
    if random.random() < 0.5:  # the epoch went on at one of them, unheard by the other
        random.choice((follower, leader)).extend([epoch] * random.randint(1, longest))
    turns = [follower] * random.randint(1, mine) + [leader] * random.randint(1, theirs)
    random.shuffle(turns)
    for log in (*turns, leader):
        epoch += random.randint(1, 2)
        log.extend([epoch] * random.randint(1, longest))
    return follower, leader


def reconcile(rule: Rule, follower: list[int], leader: list[int]) -> Rounds:
    """Cut the follower's log until the leader finds nothing wrong with it."""
    log, target = log_of(follower), log_of(leader)
    shared = next((at for at, (a, b) in enumerate(zip(follower, leader, strict=False)) if a != b), len(follower))
    rounds = 0
    while (answer := diverging_epoch(target, log.end_offset, max(log.last_epoch, 0))) is not None:
        rounds += 1
        cut = rule(log, *answer)
        assert cut < log.end_offset, "no progress"
        del log.batches[cut:]
        log.epochs.truncate_from_end(cut)
    return Rounds(rounds, len(follower) - log.end_offset, max(0, shared - log.end_offset))


def measure(shape: tuple[int, int, int], pairs: int = PAIRS) -> dict[str, list[Rounds]]:
    """Rule -> what each pair of logs took."""
    drawn = [pair(Random(seed), *shape) for seed in range(pairs)]
    return {name: [reconcile(rule, *each) for each in drawn] for name, rule in RULES.items()}


def table(pairs: int = PAIRS) -> list[str]:
    """The rows of the study's table."""
    lines = ["| tails | records to drop | as shipped | as proposed | one by one |", "|---|---|---|---|---|"]
    for name, shape in SHAPES.items():
        found = measure(shape, pairs)
        dropped = sum(each.dropped for each in found["kafka"]) / pairs
        cells = []
        for rounds in (sorted(each.rounds for each in some) for some in found.values()):
            p99 = rounds[math.ceil(0.99 * pairs) - 1]
            cells.append(f"{sum(rounds) / pairs:.2f} (p99 {p99}, most {rounds[-1]})")
        lines.append(f"| {name} | {dropped:.1f} | " + " | ".join(cells) + " |")
        assert not any(each.shared for some in found.values() for each in some), "a rule cut what both share"
    return lines


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
