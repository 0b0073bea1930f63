"""R14: a Fetch that waits for remote storage is answered when its reads are done, or its time is over."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.trace.events import (
    CtlFault,
    MetaImage,
    NodeDown,
    NodeUp,
    PartAssume,
    PartRemove,
    RemoteFetchEnd,
    Stamped,
    TierTask,
    TraceEvent,
)
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fold import NOTHING, Deadline, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.memory import OPEN_REMEMBERED, remember
from orchestrator.invariants.folds.routes import NODE
from orchestrator.invariants.mirrors.config_records import HEARD_OF_OTHERS, BrokerSettings, broker_settings
from orchestrator.invariants.tiers.lookups import TICK_US
from orchestrator.invariants.tiers.parked import Timed, TimedInvariant

MAX_WAIT = "remote.fetch.max.wait.ms"


class RemoteFetch(msgspec.Struct):
    """A Fetch that waits. wait_ms: for how long it may, -1 if the setting was about to change. ``open``: read ->
    partition, of those that are neither done nor given up; ``given_up``: likewise, of those that were. ``done``: the
    event that ended the last one. ``lost``: partitions that the broker took a role of while a read of theirs was open.
    """

    correlation_id: int
    client: str
    since_us: int
    wait_ms: int
    by: Witness
    open: dict[int, str] = {}
    given_up: dict[int, str] = {}
    done: Witness | None = None
    lost: set[str] = set()


class RemoteFetches(Timed):
    """Of one broker. ``waiting``: by connection; each connection has one request at a time. late_us: by how much an
    answer may come late. ``removed``: partitions whose topic was removed."""

    late_us: int = SLACK_US
    waiting: dict[str, RemoteFetch] = {}
    removed: dict[str, bool] = {}
    settings: BrokerSettings = msgspec.field(default_factory=BrokerSettings)

    def of(self, body: TierTask | RemoteFetchEnd) -> RemoteFetch | None:
        """The Fetch that an event is about, if it waits."""
        found = self.waiting.get(body.connection)
        return found if found is not None and found.correlation_id == body.correlation_id else None


class RemoteFetchesEnd(TimedInvariant[RemoteFetches]):
    """A consumer that reads old records waits for remote storage. The operator sets for how long: a consumer whose
    Fetch is answered later has given up, or is behind without need. One whose Fetch is answered before its reads are
    done takes nothing, asks again, and has the same records read another time.

    Example: consumer-1 fetches orders-0 and orders-1 of broker-1, which has the next records of both in remote storage
    alone. The read of orders-0 is done after 100 ms, that of orders-1 after 300 ms. Broker-1 must then answer with the
    records of both. If the read of orders-1 takes longer than remote.fetch.max.wait.ms, it is given up at that time,
    and the answer has the records of orders-0.
    """

    id = "R14"
    title = (
        "A Fetch that waits for remote storage is answered when its reads are done, and at the latest after "
        "remote.fetch.max.wait.ms"
    )
    source = "KIP-405; KIP-1018; Kafka's DelayedRemoteFetch and ReplicaManager.processRemoteFetches"
    tested_when = "a broker answers a Fetch that waited for remote storage, or should have"
    route = NODE
    types = (TierTask, RemoteFetchEnd, PartAssume, MetaImage, NodeUp, NodeDown)
    exemptions = {"clock": "A fault stopped the broker or changed its clock while the Fetch waited."}
    unseen = (
        "The time of a Fetch that begins to wait in the step in which the broker takes over new metadata.",
        "What the answer says: X1 and P26 judge its errors, C3 compares the records.",
        "Reads that are not given up when the broker lost a partition of the Fetch: in Kafka they go on.",
    )

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (CtlFault, PartRemove, *HEARD_OF_OTHERS)

    def initial(self, key: str, profile: Profile) -> RemoteFetches:
        late_us = TICK_US if profile.runtime == "sim" else SLACK_US
        return RemoteFetches(key, late_us=late_us, settings=broker_settings(profile, key, MAX_WAIT))

    def hear(self, state: RemoteFetches, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is CtlFault:
            return super().hear(state, event)
        if type(body) is PartRemove:
            remember(state.removed, body.tp, True, OPEN_REMEMBERED)
        else:
            state.settings.hear(event)
        return NOTHING

    def step(self, state: RemoteFetches, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is TierTask:
            return self._moved(state, event, body) if body.kind == "fetch" else NOTHING
        if type(body) is RemoteFetchEnd:
            fetch = state.of(body)
            if fetch is None:
                return NOTHING
            del state.waiting[body.connection]
            return self._judge(state, event, body, fetch)
        if type(body) is PartAssume:
            for fetch in state.waiting.values():
                if body.tp in fetch.open.values():
                    fetch.lost.add(body.tp)
            return NOTHING
        state.settings.hear(event)
        if type(body) is not MetaImage:
            state.waiting = {}
        return NOTHING

    def _moved(self, state: RemoteFetches, event: Stamped, body: TierTask) -> Emissions:
        found: Emissions = NOTHING
        fetch = state.of(body)
        if body.phase in ("enqueue", "reject"):
            if fetch is None:
                wait_ms = -1 if state.settings.is_changing(event) else state.settings.at(MAX_WAIT)
                client = body.connection.partition(">")[0]
                fetch = RemoteFetch(body.correlation_id, client, event.wall, wait_ms, witness(event))
                remember(state.waiting, body.connection, fetch, OPEN_REMEMBERED)
                found = (Deadline(self._due_us(state, fetch)),) if wait_ms >= 0 else NOTHING
            if body.phase == "enqueue":
                fetch.open[body.task] = body.tp
            else:
                fetch.done = witness(event)
        elif fetch is not None and body.task in fetch.open:
            if body.phase == "finish":
                del fetch.open[body.task]
                fetch.done = witness(event)
            elif body.phase in ("cancel", "expire"):
                fetch.given_up[body.task] = fetch.open.pop(body.task)
        return found

    def _due_us(self, state: RemoteFetches, fetch: RemoteFetch) -> int:
        return fetch.since_us + 1000 * fetch.wait_ms + state.late_us

    def _judge(self, state: RemoteFetches, event: Stamped, body: RemoteFetchEnd, fetch: RemoteFetch) -> Emissions:
        waited_for = {**fetch.given_up, **fetch.open}
        by, wrong = fetch.by, ""
        if body.expired and not waited_for:
            by, wrong = fetch.done or by, "only when its time was over, although all its reads had ended"
        elif body.expired and fetch.open:
            task, tp = next(iter(fetch.open.items()))
            wrong = f"as its time was over, but did not give up its read {task} of {tp}"
        elif not body.expired and waited_for and not self._has_lost(state, fetch, waited_for):
            task, tp = next(iter(waited_for.items()))
            wrong = f"before its read {task} of {tp} had ended"
        if wrong:
            state.tested += 1
            return self.violated(
                state.key, f"{event.node} answered the remote Fetch of {fetch.client} {wrong}", by, event
            )
        took_us = event.wall - fetch.since_us
        early = body.expired and took_us < 1000 * fetch.wait_ms - TICK_US
        if fetch.wait_ms < 0 or not (early or event.wall > self._due_us(state, fetch)):
            state.tested += 1
            return NOTHING
        sentence = (
            f"{event.node} answered the remote Fetch of {fetch.client} after {took_us // 1000:,} ms, with {MAX_WAIT} = "
            f"{fetch.wait_ms:,}"
        )
        if state.frozen_since(fetch.since_us):
            return self.excused("clock", state.key, sentence, by, event)
        state.tested += 1
        return self.violated(state.key, sentence, by, event)

    def _has_lost(self, state: RemoteFetches, fetch: RemoteFetch, waited_for: dict[int, str]) -> bool:
        """Whether the broker need not wait any more: it has another role of a partition, or its topic was removed."""
        return any(tp in fetch.lost or tp in state.removed for tp in waited_for.values())

    def expire(self, state: RemoteFetches, at_us: int) -> Emissions:
        found: list[Emissions] = []
        for connection, fetch in list(state.waiting.items()):
            if fetch.wait_ms < 0 or self._due_us(state, fetch) > at_us or state.frozen_since(fetch.since_us):
                continue  # in the last case judged by its answer, if one comes
            del state.waiting[connection]
            state.tested += 1
            sentence = (
                f"{state.key} had not answered the remote Fetch of {fetch.client} {state.late_us // 1000:,} ms after "
                f"{MAX_WAIT} = {fetch.wait_ms:,}"
            )
            found.append(self.violated(state.key, sentence, fetch.by))
        return [each for emissions in found for each in emissions]
