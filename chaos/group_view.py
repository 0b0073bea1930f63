"""What is known about the groups of consumers while a run goes on: the healing waits until each has got together."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from actors.node.errors import TURNED_AWAY
from actors.trace.events import ConsOwn, ErrorSeen, NodeDown, NodeUp, Stamped


class GroupView(msgspec.Struct):
    """A group as its members tell of it. members: clients that are to be in it. partitions: that they are to own.
    running: member -> its incarnation that runs. told: member -> what that one said last of what it owns. unwelcome:
    members whom a coordinator may turn away for good; out: those of them that it has."""

    name: str
    members: list[str]
    partitions: list[str]
    running: dict[str, int] = {}
    told: dict[str, ConsOwn] = {}
    unwelcome: list[str] = []
    out: set[str] = set()

    def fold(self, event: Stamped) -> None:
        """Take note of an event; those of others, and of other types, change nothing."""
        body, node = event.body, event.node
        if node not in self.members or event.incarnation < self.running.get(node, -1):
            return
        if isinstance(body, ConsOwn):
            if node in self.running:
                self.told[node] = body
            if body.reason in ("join", "assign"):
                self.out.discard(node)
        elif isinstance(body, ErrorSeen):
            if node in self.unwelcome and body.error in TURNED_AWAY:
                self.out.add(node)
        elif isinstance(body, NodeUp | NodeDown):
            self.told.pop(node, None)
            self.running.pop(node, None)
            self.out.discard(node)
            if isinstance(body, NodeUp):
                self.running[node] = event.incarnation

    def unsettled(self, living: Collection[str], away: Collection[str]) -> str:
        """Why the group has not got together, "" if it has: all members that run, are not ``away``, were not turned
        away and did not leave of themselves were assigned what they own in one generation, and somebody owns each
        partition that is ``living``."""
        silent = {*away, *self.out}
        there = [each for each in self.members if each in self.running and each not in silent and not self._left(each)]
        words = [self.told[each] for each in there if each in self.told and self.told[each].reason == "assign"]
        if len(words) < len(there):
            waits = next(each for each in there if each not in self.told or self.told[each].reason != "assign")
            return f"{waits} was assigned nothing yet"
        if len({each.generation for each in words}) > 1:
            return "its members are in more than one generation"
        owned = {tp for each in words for tp in each.owned}
        nobodys = [tp for tp in self.partitions if tp in living and tp not in owned]
        return f"nobody owns {nobodys[0]}" if there and nobodys else ""

    def _left(self, member: str) -> bool:
        return member in self.told and self.told[member].reason == "leave"


class GroupsView(msgspec.Struct):
    """All groups of a run."""

    groups: list[GroupView]

    def fold(self, event: Stamped) -> None:
        """Take note of an event."""
        for group in self.groups:
            group.fold(event)

    def is_out(self, member: str) -> bool:
        """Whether a member has been turned away for good."""
        return any(member in group.out for group in self.groups)

    def unsettled(self, living: Collection[str], away: Collection[str]) -> str:
        """Why not every group has got together, "" if each has; see ``GroupView.unsettled``."""
        whys = {group.name: group.unsettled(living, away) for group in self.groups}
        return "; ".join(f"group {name}: {why}" for name, why in whys.items() if why)


def new_groups(groups: Mapping[str, Mapping[str, list[str]]], unwelcome: list[str]) -> GroupsView:
    """The view before anything was seen; ``groups`` and ``unwelcome`` as ``Plan`` has them."""
    return GroupsView(
        [GroupView(name, each["members"], each["partitions"], unwelcome=unwelcome) for name, each in groups.items()]
    )
