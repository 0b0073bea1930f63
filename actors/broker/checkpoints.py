"""The checkpoint files of a broker: offsets by partition (``OffsetCheckpointFile.java``)."""

from __future__ import annotations

from actors.log.segments import LogBase
from actors.node.spec import split_topic_partition


def render_checkpoint(offsets: dict[str, int]) -> bytes:
    """Kafka's text form: version, number of lines, then topic, partition, offset. The topic has its id with it where it
    is not the first one of its name."""
    return _render({tp: str(offset) for tp, offset in offsets.items()})


def parse_checkpoint(content: bytes) -> dict[str, int]:
    """Inverse of ``render_checkpoint``; an empty file has no offsets."""
    return {tp: int(values[0]) for tp, values in _parse(content).items()}


def render_starts(starts: dict[str, LogBase]) -> bytes:
    """Where logs begin. Behind the offset stands the prefix hash there, or at the boundary below (ghost data)."""
    return _render({tp: f"{start.offset} {start.ph}" for tp, start in starts.items()})


def parse_starts(content: bytes) -> dict[str, LogBase]:
    """Inverse of ``render_starts``."""
    return {tp: LogBase(int(offset), int(ph)) for tp, (offset, ph) in _parse(content).items()}


def _render(values: dict[str, str]) -> bytes:
    lines = ["0", str(len(values))]
    for tp in sorted(values):
        topic, partition = split_topic_partition(tp)
        _, at, topic_id = tp.partition("@")
        lines.append(f"{topic}{at}{topic_id} {partition} {values[tp]}")
    return ("\n".join(lines) + "\n").encode()


def _parse(content: bytes) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for line in content.decode().splitlines()[2:]:
        label, partition, *rest = line.split()
        topic, at, topic_id = label.partition("@")
        values[f"{topic}-{partition}{at}{topic_id}"] = rest
    return values
