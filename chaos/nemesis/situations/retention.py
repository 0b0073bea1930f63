"""Situations of logs that shrink: records are deleted that somebody still wanted."""

from __future__ import annotations

from chaos.nemesis.parts import Pattern, entry, lasting, later
from chaos.nemesis.scene import Part, Scene


def passed_reader(scene: Scene, at_us: int) -> list[Part]:
    """An operator deletes what consumers have not read, because they do not hear from the brokers for a moment. When
    they fetch again, the log starts above their positions, and the segment may still have what they ask for."""
    readers = [name for name in scene.cast.clients if name.startswith("consumer-")] or ["clients"]
    lasts_us = lasting(scene, 200_000, 1_200_000)
    deaf: Part = {"partition": {"from": ["brokers"], "to": readers}}
    deleted_us = later(scene, at_us, lasts_us // 2, lasts_us)
    deletes: Part = {"delete-records": {"partitions": "all", "offset": "high-watermark"}}
    return [
        entry(scene, at_us, deaf, lasts_us),
        {"when": {"at": scene.duration(deleted_us)}, "action": deletes},
    ]


RETENTION: dict[str, Pattern] = {"passed-reader": passed_reader}
"""Name, as in a nemesis file -> pattern."""
