"""O11: that members commit what they have given to their applications before they give partitions up."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.messages import Api
from actors.trace.events import CommitInvoke, ConsOwn, ConsPos, ErrorSeen, MetaView, NodeUp, PollReturn, Rpc, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import NODE

SETTLED = 2
"""After so many polls that returned records of a partition, its position is checked against the leader that the client
knows: the Fetch of the second one was sent after the first one."""


class Given(msgspec.Struct):
    """Of a partition that a member owns. polls: how often its application was given records of it since the client
    heard of leaders, or of an error there; by: the last time. committed: the member has asked to commit that."""

    polls: int
    by: Witness
    committed: bool = False


class Owned(State):
    """Of a client. automatic: it has committed by itself in this run, and so does it always. given: by partition."""

    automatic: bool = False
    given: dict[str, Given] = {}


class RevokedIsCommitted(KeyedInvariant[Owned]):
    """Before a member joins a rebalance it gives up what it owns, and commits how far it has come, if it does so by
    itself. Otherwise whoever gets its partitions gives the same records to its application once more, as many as there
    are in auto.commit.interval.ms, in each rebalance, though nobody has died.

    Example: consumer-1 has committed 40 of orders-0, its application was given the records up to 90, and consumer-2
    comes to the group. Consumer-1 revokes orders-0 without a commit, and consumer-2 begins at 40.
    """

    id = "O11"
    title = "A member that commits by itself commits what its application was given before it revokes a partition"
    source = "Kafka's ConsumerCoordinator.onJoinPrepare, maybeAutoCommitOffsetsAsync"
    tested_when = "a member that commits by itself revokes a partition of which its application was given records"
    route = NODE
    of_groups = True
    types = (CommitInvoke, ConsOwn, ConsPos, ErrorSeen, MetaView, NodeUp, PollReturn, Rpc)
    cases = {Rpc: (Api.Metadata.name,)}
    unseen = (
        "what a member commits when it is closed",
        "members of which no automatic commit was seen yet: settings alone do not tell who commits by itself",
        (
            "a partition of which the application was given records less than twice since the client heard of leaders, "
            "or of an error there: a position that is being validated, or reset, is not committed"
        ),
        "what the position is, and what becomes of the commit: O3 judges the one, and O1 the other",
        "members that keep what they own while they join (cooperative): they commit as well, and give nothing up then",
    )

    def initial(self, key: str, profile: Profile) -> Owned:
        return Owned(key)

    def step(self, state: Owned, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PollReturn:
            self._polled(state, event, body)
        elif kind is CommitInvoke:
            state.automatic = state.automatic or body.how == "auto"
            for tp in body.offsets:
                if tp in state.given:
                    state.given[tp].committed = True
        elif kind is ConsOwn:
            found = self._revokes(state, event, body) if body.reason == "revoke" else NOTHING
            state.given = {tp: given for tp, given in state.given.items() if tp in body.owned}
            return found
        elif kind is NodeUp:
            state.given.clear()
        elif kind is MetaView or (kind is Rpc and body.api == Api.Metadata.name):
            for given in state.given.values():
                given.polls = 0
        elif kind is not Rpc:
            state.given.pop(body.tp, None)
        return NOTHING

    @staticmethod
    def _polled(state: Owned, event: Stamped, body: PollReturn) -> None:
        if body.outcome != "ok":
            state.given.pop(body.tp, None)
        elif body.records:
            before = state.given.get(body.tp)
            state.given[body.tp] = Given(1 if before is None else before.polls + 1, witness(event))

    def _revokes(self, state: Owned, event: Stamped, body: ConsOwn) -> Emissions:
        if not state.automatic:
            return NOTHING
        sure = {tp: state.given[tp] for tp in body.revoked if tp in state.given and state.given[tp].polls >= SETTLED}
        state.tested += bool(sure)
        left = [tp for tp, given in sure.items() if not given.committed]
        if not left:
            return NOTHING
        sentence = (
            f"{state.key}, as member {body.member} of group {body.group}, revoked {', '.join(left)} without a commit "
            "after the last records that its application was given"
        )
        return self.violated(state.key, sentence, sure[left[0]].by, event)
