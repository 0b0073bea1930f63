"""Situations of tiered storage: look-ups that a slow store keeps waiting while the cluster goes on."""

from __future__ import annotations

from chaos.nemesis.parts import Pattern, entry, lasting, later
from chaos.nemesis.scene import Part, Scene


def slow_lookups(scene: Scene, at_us: int) -> list[Part]:
    """The store is slow, so that look-ups wait for it and for a thread. Meanwhile a leader hears nothing from the
    controllers, is replaced, and hears of that when they can reach it again; or leadership goes back to whom it was
    given first; or the operator changes how long a look-up may wait."""
    tp = f"leader({scene.tp})"
    slow: Part = {"by": scene.duration(lasting(scene, 300_000, 2_500_000))}
    slow["jitter"] = scene.duration(lasting(scene, 100_000, 1_500_000))
    found = [entry(scene, at_us, {"slow-store": slow}, lasting(scene, 4_000_000, 8_000_000))]
    for _ in range(scene.draw.choice((1, 2))):
        at_us = later(scene, at_us, 400_000, 1_800_000)
        deaf: Part = {"partition": {"between": [tp], "and": ["controllers"]}}
        found.append(entry(scene, at_us, deaf, lasting(scene, 1_000_000, 4_000_000)))
    again_us = later(scene, at_us, 1_000_000, 3_000_000)
    found.append(
        {"when": {"at": scene.duration(again_us)}, "action": {"elect": {"partitions": "all", "type": "preferred"}}}
    )
    if scene.draw.random() < 0.5:
        wait: Part = {"remote.list.offsets.request.timeout.ms": scene.draw.choice((200, 800, 3000))}
        then_us = later(scene, again_us, 10_000, 500_000)
        found.append({"when": {"at": scene.duration(then_us)}, "action": {"configure": {"cluster": True, "set": wait}}})
    return found


TIERS: dict[str, Pattern] = {"slow-lookups": slow_lookups}
"""What a cluster with a remote store alone has."""
