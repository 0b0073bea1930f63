"""How many partitions each member of a group may have, by the rules of the assignor that it uses."""

from __future__ import annotations

from collections.abc import Iterable

from actors.node.spec import split_topic_partition
from actors.trace.events import GrpGen

COOPERATIVE_STICKY = "cooperative-sticky"


def uneven(body: GrpGen, earlier: Iterable[str]) -> str:
    """What is wrong with the shares of a stable generation, "" nothing. ``earlier``: partitions that were assigned to
    anybody before it.

    Range shares out each topic by itself among the members that read it. The others share out everything, if all
    members read the same. The cooperative one leaves out what has to be given up first, which was assigned before."""
    if body.protocol == "range":
        for topic in sorted({topic for topics in body.subscribed.values() for topic in topics}):
            readers = [member for member in body.members if topic in body.subscribed.get(member, ())]
            given = {member: _number(body.assignment.get(member, ()), topic) for member in readers}
            if wrong := _beyond(given, 0):
                return f"{wrong} of {topic}"
        return ""
    subscribed = [sorted(body.subscribed.get(member, ())) for member in body.members]
    if body.protocol not in ("roundrobin", COOPERATIVE_STICKY) or any(each != subscribed[0] for each in subscribed):
        return ""
    given = {member: len(body.assignment.get(member, ())) for member in body.members}
    if not subscribed or not subscribed[0]:
        return ""
    left_out: set[str] = set()
    if body.protocol == COOPERATIVE_STICKY:
        left_out = set(earlier).difference(*body.assignment.values())
    return _beyond(given, len(left_out))


def _number(tps: Iterable[str], topic: str) -> int:
    return sum(1 for tp in tps if split_topic_partition(tp)[0] == topic)


def _beyond(given: dict[str, int], left_out: int) -> str:
    """Who has too much, or too little. ``given``: numbers of partitions by member. ``left_out``: how many more there
    may be, of which anybody may lack some."""
    total = sum(given.values())
    least = 0 if left_out else total // len(given)
    most = -(-(total + left_out) // len(given))
    for member, number in given.items():
        if not least <= number <= most:
            share = f"{least} or {most}" if least < most else f"{most}"
            return f"{member} has {number} instead of {share} of the {total} partitions"
    return ""
