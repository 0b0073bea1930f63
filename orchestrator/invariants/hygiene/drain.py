"""X6: at the end, and at the end of an office, nothing is left that waits for what cannot come."""

from __future__ import annotations

from actors.trace.events import GrpLoad, NodeDown, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State
from orchestrator.invariants.folds.routes import NODE


class EverythingDrains(KeyedInvariant[State]):
    """What is forgotten in a purgatory or in a map of requests in flight fills it up, and holds up whatever comes
    behind it; no time-out is left that would end it.

    Example: at the end of the run consumer-1 still keeps a Fetch to broker-1 for under way whose connection was lost a
    minute ago, and so asks broker-1 for nothing more. Or a Produce is parked at broker-2 long after its time, a batch
    is left in the accumulator of a producer that has stopped. What a follower or a voter asks again and again is under
    way at any time, and is not meant. Nor does anybody wait for a coordinator that has resigned: broker-1 gives up
    __consumer_offsets-7, and leaves consumer-1's JoinGroup without an answer.
    """

    id = "X6"
    standalone = True
    title = "At the end of a run, nothing waits for an event that cannot come"
    source = "KAFKA-17190; TigerBeetle's simulator (pending requests)"
    tested_when = (
        "the runtime ends a node that is up at the end of the run, and looks into it; or a coordinator gives up an "
        "offsets partition"
    )
    route = NODE
    types = (NodeDown, GrpLoad)
    unseen = (
        "What is left in a process that is killed, or stands still at the end.",
        "What waits within its time: how long an answer may take is for X2 and the liveness of each client.",
        "The quorum's own requests, and what a controller has parked until it commits.",
    )

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def step(self, state: State, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is GrpLoad:
            return NOTHING if body.loaded else self._resigned(state, event, body)
        assert type(body) is NodeDown
        if body.mode != "end":
            return NOTHING
        state.tested += 1
        if not body.waiting:
            return NOTHING
        return self.violated(state.key, f"{event.node} still kept at the end: {'; '.join(body.waiting)}", event)

    def _resigned(self, state: State, event: Stamped, body: GrpLoad) -> Emissions:
        state.tested += 1
        if not body.waiting:
            return NOTHING
        sentence = f"{event.node} gave up {body.tp}, and left {', '.join(body.waiting)} without an answer"
        return self.violated(state.key, sentence, event)
