"""X6: at the end, and at the end of an office, nothing is left that waits for what cannot come."""

from __future__ import annotations

from actors.trace.events import GrpLoad, NodeDown, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State
from orchestrator.invariants.folds.routes import NODE


class EverythingDrains(KeyedInvariant[State]):
    """A forgotten entry in a purgatory or in a map of requests in flight fills it up, and blocks later entries; no
    timeout is left that would end it.

    Example: at the end of the run, consumer-1 still counts a Fetch to broker-1 as in flight although its connection was
    lost a minute ago, and so sends broker-1 no more requests. Or a Produce is parked at broker-2 long after its
    timeout, or a batch is left in the accumulator of a stopped producer. The regular requests of followers and voters
    are always in flight, and do not count. No client waits for a coordinator that has resigned either: broker-1 gives
    up __consumer_offsets-7, and leaves consumer-1's JoinGroup without an answer.
    """

    id = "X6"
    standalone = True
    title = "At the end of a run, nothing waits for an event that cannot come"
    source = "KAFKA-17190; TigerBeetle's simulator (pending requests)"
    tested_when = (
        "the runtime ends a running node at the end of the run and inspects it; or a coordinator gives up an offsets "
        "partition"
    )
    route = NODE
    types = (NodeDown, GrpLoad)
    unseen = (
        "The remains in a process that is killed, or stopped at the end.",
        "Entries that wait within their timeouts: X2 and the liveness of each client judge the time of an answer.",
        "The quorum's own requests, and a controller's operations that wait for a commit.",
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
        return self.violated(
            state.key, f"requests still waited in {event.node} at the end: {'; '.join(body.waiting)}", event
        )

    def _resigned(self, state: State, event: Stamped, body: GrpLoad) -> Emissions:
        state.tested += 1
        if not body.waiting:
            return NOTHING
        sentence = f"{event.node} gave up {body.tp}, and did not answer {', '.join(body.waiting)}"
        return self.violated(state.key, sentence, event)
