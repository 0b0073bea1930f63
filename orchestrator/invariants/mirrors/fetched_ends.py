"""What leaders of the quorum know of the logs of the voters."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import QVoters, RepFetch, Stamped
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.mirrors.voter_sets import named


class Fetched(msgspec.Struct):
    """What a leader knows of the voters in its epoch: up to where each has fetched. changed: whether other voters came
    into force meanwhile, of whose fetches as observers the trace does not tell."""

    epoch: int
    ends: dict[str, tuple[int, Witness]] = {}
    changed: bool = False


class FetchedEnds(msgspec.Struct):
    """Leader -> Fetched."""

    leaders: dict[str, Fetched] = {}

    def of(self, leader: str, epoch: int) -> Fetched:
        """What a leader knows in an epoch; nothing at first."""
        found = self.leaders.get(leader)
        if found is None or found.epoch != epoch:
            found = self.leaders[leader] = Fetched(epoch)
        return found

    def take(self, event: Stamped, body: RepFetch | QVoters) -> None:
        """A leader took note of a fetch, or has other voters. Who is a voter no more fetches on as an observer, of
        which the trace does not tell: a leader that makes it a voter again counts it with that."""
        if isinstance(body, RepFetch):
            if not body.error and body.diverging_end < 0:
                ends = self.of(event.node, body.leader_epoch).ends
                ends[node_name(body.follower)] = (body.offset, witness(event))
            return
        known, members = self.of(event.node, body.leader_epoch), named(body.members)
        known.changed = True
        known.ends = {name: each for name, each in known.ends.items() if name in members}
