"""Elections that operators ask for, and that they are told nobody needs."""

from __future__ import annotations

import msgspec

from actors.client.admin import ELECT_LEADERS
from actors.node.errors import KafkaError
from actors.node.spec import partition_name
from actors.trace.events import AdminInvoke, AdminReturn, PartChange, PartRemove
from orchestrator.invariants.folds.fold import Witness
from orchestrator.invariants.folds.memory import OPEN_REMEMBERED, remember
from orchestrator.invariants.mirrors.metadata_view import Entry, MetadataView

UNCLEAN = "unclean"


class Asked(msgspec.Struct):
    """An operation that waits for its answer. leaders: partition, by its name -> the state in which it was when the
    operator asked; without those that have had the leader that was asked for since then, and those of which nobody can
    say."""

    kind: str
    leaders: dict[str, Witness]

    def is_met(self, body: PartChange) -> bool:
        """Whether a partition has the leader that it should have (``ReplicationControlManager.electLeader``)."""
        return body.leader >= 0 if self.kind == UNCLEAN else body.leader == body.replicas[0]


class AskedElections(msgspec.Struct):
    """open: operation -> what it waits for."""

    open: dict[str, Asked] = {}

    def asks(self, body: AdminInvoke, mirror: MetadataView, since: int) -> None:
        """An operator asks. Whichever controller answers, nobody has to be elected where any that was ever told of had
        such a leader last. Entries up to the quorum epoch ``since`` are not relied on."""
        if body.call != ELECT_LEADERS or not mirror.views:
            return
        asked = Asked(body.arguments.get("type", ""), {})
        newest = mirror.views[max(mirror.views)].partitions
        for tp in body.arguments.get("partitions") or ():
            known = [entry for name, entry in newest.items() if partition_name(name) == tp]
            if len(known) == 1 and known[0].epoch > since:
                asked.leaders[tp] = known[0].by
        if asked.leaders:
            remember(self.open, body.op, asked, OPEN_REMEMBERED)
            self.look(mirror)

    def look(self, mirror: MetadataView) -> None:
        """What the logs of all controllers say at this moment."""
        for asked in self.open.values():
            for view in mirror.views.values():
                for name, entry in view.partitions.items():
                    self._meets(asked, name, entry)

    @staticmethod
    def _meets(asked: Asked, name: str, entry: Entry) -> None:
        tp = partition_name(name)
        if tp in asked.leaders and type(entry.body) is PartChange and asked.is_met(entry.body):
            del asked.leaders[tp]

    def changes(self, body: PartChange | PartRemove) -> None:
        """A controller gives a partition another state, or none."""
        tp = partition_name(body.tp)
        for asked in self.open.values():
            if tp in asked.leaders and (isinstance(body, PartRemove) or asked.is_met(body)):
                del asked.leaders[tp]

    def returns(self, body: AdminReturn) -> tuple[list[tuple[str, Witness]], int]:
        """The answer, if there is one: the partitions of which it says wrongly that nobody needs to be elected, with
        the state in which they were; and of how many it says so at all."""
        asked = self.open.pop(body.op, None)
        if asked is None:
            return [], 0
        unneeded = [tp for tp, error in body.results.items() if error == KafkaError.ELECTION_NOT_NEEDED.name]
        return [(tp, asked.leaders[tp]) for tp in unneeded if tp in asked.leaders], len(unneeded)
