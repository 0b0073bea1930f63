"""Scenarios that kill one node's process after another, at moments drawn from a seed."""

from __future__ import annotations

import random

import yaml

VICTIMS = [
    "broker-1",
    "broker-2",
    "broker-3",
    "controller-1",
    "controller-2",
    "controller-3",
    "producer-1",
    "consumer-1",
    "list-offsets-1",
]
EVERY_MS = 2500
DOWN_MS = 1200


def kill_scenario(seed: int, kills: int) -> str:
    """A scenario file with ``kills`` crashes, one node at a time: who and when is drawn, to the millisecond."""
    draw = random.Random(f"kills/{seed}")
    chaos = []
    for number in range(kills):
        at = 300 + number * EVERY_MS + draw.randrange(EVERY_MS - DOWN_MS - 300)
        victim = draw.choice(VICTIMS)
        chaos.append({"when": {"at": f"{at}ms"}, "fault": {"crash": victim}, "for": f"{DOWN_MS}ms"})
    return yaml.safe_dump(
        {
            "schema": "krift/v1",
            "name": f"kills-{seed}",
            "about": "Processes are killed at drawn moments; each comes back from its disk.",
            "seed": seed,
            "duration": f"{kills * EVERY_MS + 1000}ms",
            "cluster": {
                "voters": 3,
                "brokers": 3,
                "topics": {"orders": {"replicas": [[1, 2, 3], [2, 3, 1]], "config": {"min.insync.replicas": 2}}},
                "config": {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 400},
            },
            "workload": [
                {"producer": {"topic": "orders", "rate": "100/s", "acks": "all", "idempotent": True}},
                {"consumer": {"topic": "orders"}},
                {"list-offsets": {"topic": "orders", "every": "50ms", "timestamp": "latest"}},
            ],
            "chaos": chaos,
            "expect": {"held": ["C1", "C3", "P17", "Q2", "Q3", "X3", "X4"]},
            "must-happen": ["node-restarted"],
        },
        sort_keys=False,
    )
