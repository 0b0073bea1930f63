"""Whether what a scenario says of consumers in groups makes sense."""

from __future__ import annotations

from chaos.scenario.mistakes import Mistakes
from chaos.scenario.model import Consumer
from chaos.scenario.yaml_tree import Path_

_OF_MEMBERS = ("commit", "commit_every", "stall", "absence", "copy_to", "transactional")
"""What only a member of a group has."""
_OF_OTHERS = {
    "partitions": "the group assigns partitions",
    "seek": "a group goes on where it committed",
    "rewind": "a group's consumer does not seek",
    "external_offsets": "a group keeps its offsets in Kafka",
}
"""What a member of a group cannot have, and why."""


def check_membership(path: Path_, client: Consumer, mistakes: Mistakes) -> None:
    """Keys that need a group, and keys that do not go with one."""
    if client.group is None:
        for name in _OF_MEMBERS:
            if getattr(client, name) is not None:
                key = name.replace("_", "-")
                mistakes.add((*path, key), f"{key} is for a consumer in a group", "group beside it")
        return
    for name, reason in _OF_OTHERS.items():
        if getattr(client, name) is not None:
            key = name.replace("_", "-")
            mistakes.add((*path, key), f"{key} does not go with group: {reason}", f"either group or {key}")
    if client.copy_to is not None and client.commit not in (None, "sync"):
        mistakes.add((*path, "commit"), "a mirror commits when its copies are acknowledged", "commit: sync")
    if client.transactional is not None and client.copy_to is None:
        mistakes.add((*path, "transactional"), "this consumer sends nothing", "copy-to beside it")
    if client.transactional is not None and client.transactional.transfers:
        place = (*path, "transactional", "transfers")
        mistakes.add(place, "this consumer sends the records that it reads", "it at a producer")
    if client.copy_to is not None and client.copy_to == client.topic:
        mistakes.add((*path, "copy-to"), "the mirror would copy its own copies", "another topic than topic")
    if client.commit_every is not None and client.commits not in ("sync", "async"):
        mistakes.add((*path, "commit-every"), "the application does not commit", "commit: sync or async beside it")
    if client.commits != "auto" and client.config.get("enable.auto.commit") is True:
        place = (*path, "config", "enable.auto.commit")
        mistakes.add(place, f"the consumer commits by itself, and commit is {client.commits}", "false, or commit: auto")
    session, heartbeat = (client.config.get(f"{key}.ms") for key in ("session.timeout", "heartbeat.interval"))
    if isinstance(session, int) and session <= (heartbeat if isinstance(heartbeat, int) else 3_000):
        place = (*path, "config", "session.timeout.ms")
        mistakes.add(
            place, "no heartbeat comes in this time", "more than heartbeat.interval.ms, three times it at best"
        )
