"""Which voters count in whose log: the set that a quorum was formatted with, and what ``q.voters`` says of others."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from actors.node.spec import node_name
from actors.trace.events import QVoters, Stamped
from orchestrator.invariants.folds.fold import Profile

KRAFT_VERSION = "kraft.version"


class VoterSets(msgspec.Struct):
    """Names of voters -> their directory ids, "" where nobody knows them: at kraft.version 0 ids alone count.

    first: before any record; sets: by member, the one in force in its log; newest: that of the newest record, which is
    at newest_at, an (epoch, offset).
    """

    first: dict[str, str] = {}
    sets: dict[str, dict[str, str]] = {}
    newest: dict[str, str] = {}
    newest_at: tuple[int, int] = (-1, -1)

    @staticmethod
    def starting_with(voters: Collection[int]) -> VoterSets:
        """Of a run's first voters."""
        first = {node_name(voter): "" for voter in voters}
        return VoterSets(first, {}, first)

    def take(self, event: Stamped, body: QVoters) -> None:
        """Another set is in force at a member."""
        told = self.sets[event.node] = named(body.members)
        if told and (body.epoch, body.offset) >= self.newest_at:
            self.newest, self.newest_at = told, (body.epoch, body.offset)

    def of(self, node: str) -> dict[str, str]:
        """The set in force in a member's log; empty where the trace does not say."""
        return self.sets.get(node, self.first)

    @property
    def with_directories(self) -> bool:
        """Whether a voter is known by its directory, too: a wiped one is another one."""
        return any(self.newest.values())


def by_directory(profile: Profile) -> bool:
    """Whether the run begins with voters that are known by their directories."""
    return profile.feature(KRAFT_VERSION) not in ("", "0")


def named(members: Mapping[str, str]) -> dict[str, str]:
    """Members by name instead of id."""
    return {node_name(int(voter)): directory for voter, directory in members.items()}


def is_majority(some: int, voters: Collection[str]) -> bool:
    """Whether so many of the voters are more than half of them."""
    return 2 * some > len(voters)
