"""Lookups of offsets by ListOffsets, retried until they succeed, fail for good or run out of time.

Sources: ``clients/.../consumer/internals/OffsetFetcher.java``, ``OffsetFetcherUtils.java`` (the consumer's resets,
``endOffsets`` and ``offsetsForTimes``), ``clients/.../admin/internals/ListOffsetsHandler.java`` (the admin client,
which the prober follows in what it does about an error).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.client.metadata_cache import Leader, MetadataCache
from actors.node.backoff import backoff_range
from actors.node.errors import KafkaError, traits
from actors.node.isolation import READ_COMMITTED
from actors.node.list_timestamps import LATEST
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.spec import split_topic_partition, topic_partition
from actors.node.step import Step
from actors.trace.events import ErrorSeen, ListReturn, Outcome
from krift.v1.list_offsets import ListOffsetsRequest, ListOffsetsResponse

CLIENT = -1
"""Replica id in the requests of clients."""

PURPOSE = "list-offsets"
RETRY = "list-offsets/retry/"
DEADLINE = "list-offsets/deadline"

_LEAST_VERSION = {-3: 7, -4: 8, -5: 9, -6: 11}
"""Special timestamps -> first version that knows them (Kafka: ListOffsetsRequest.json)."""


Manner = Literal["admin", "reset", "call"]
"""How errors are taken. admin: as the admin client takes them: retriable ones are tried again at growing pauses, and
metadata is refreshed only for those that say that it is stale, among them UNKNOWN_LEADER_EPOCH. reset: as a consumer
does that resets its position: any error but a missing version is tried again at a fixed pause, and metadata refreshed
meanwhile. call: as a call to a consumer does (``endOffsets``, ``offsetsForTimes``): the same errors, as soon as the
metadata was refreshed (``ConsumerNetworkClient.awaitMetadataUpdate``)."""


class Lookup(msgspec.Struct):
    """One partition's offset being looked up. deadline_ms: node time at which it is given up, -1 never. waiting: a
    pause is not over. awaits: the number of refreshes of the metadata that is not enough, -1 any is."""

    id: int
    tp: str
    timestamp: int
    isolation: int
    deadline_ms: int
    manner: Manner
    call: int = 0
    waiting: bool = False
    awaits: int = -1
    failures: int = 0
    last_error: int = 0
    leader_epoch: int = -1


class Found(msgspec.Struct, frozen=True):
    """How a lookup ended. outcome: as in the event op.return. ``epoch``: leader epoch in the answer, of the offset.
    ``leader_epoch``: of the leader that answered, -1 where the version has no field that tells."""

    lookup: int
    tp: str
    outcome: Outcome
    error: int = 0
    offset: int = -1
    timestamp: int = -1
    epoch: int = -1
    leader_epoch: int = -1
    broker: str = ""
    version: int = -1
    correlation_id: int = -1


class OffsetFetcher(msgspec.Struct):
    """All lookups of a client, on one connection per broker. ``calls``: call -> lookups it asks for. ``replica_id``:
    in its requests. They tell a broker for how long to look (TimeoutMs): as the admin client's, for ``api_timeout_ms``;
    as a consumer's, for ``request_timeout_ms``."""

    connection: str = ""
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    request_timeout_ms: int = 30000
    replica_id: int = CLIENT
    api_timeout_ms: int = 60000
    lookups: dict[int, Lookup] = {}
    calls: dict[int, list[int]] = {}
    count: int = 0
    deadline_armed: bool = False

    def begin(self, step: Step, tp: str, timestamp: int, isolation: int, manner: Manner, timeout_ms: int = -1) -> int:
        """Start a lookup, given up after ``timeout_ms`` (-1: never); returns its number. ``poll`` sends it."""
        self.count += 1
        deadline = step.now_ms + timeout_ms if timeout_ms >= 0 else -1
        self.lookups[self.count] = Lookup(self.count, tp, timestamp, isolation, deadline, manner)
        if deadline >= 0 and not self.deadline_armed:
            self.deadline_armed = True
            step.set_timer(DEADLINE, timeout_ms)
        return self.count

    def forget(self, step: Step, number: int) -> None:
        """Nobody waits for a lookup any more (0: there is none); its answer is ignored."""
        lookup = self.lookups.pop(number, None)
        if lookup is not None and lookup.waiting:
            step.cancel_timer(f"{RETRY}{number}")

    # ---- sending ------------------------------------------------------------------------------------------

    def poll(self, step: Step, net: NetworkClient, metadata: MetadataCache) -> list[Found]:
        """Send what can be sent, one request per broker and isolation; returns lookups that cannot be made."""
        groups: dict[tuple[int, int], list[Lookup]] = {}
        leaders: dict[str, Leader] = {}
        for lookup in self.lookups.values():
            if lookup.call or lookup.waiting or lookup.awaits >= metadata.updates:
                continue
            leader = metadata.current_leader(lookup.tp)
            if "asks-outdated-leader" in step.defects:
                leader = metadata.leader_for(lookup.tp)
            if leader is None:
                metadata.request_update()
                continue
            leaders[lookup.tp] = leader
            group = groups.setdefault((leader.node_id, lookup.isolation), [])
            if all(other.tp != lookup.tp for other in group):  # a partition named twice is an INVALID_REQUEST
                group.append(lookup)
        done: list[Found] = []
        for group in groups.values():
            peer = leaders[group[0].tp].name
            if net.ready(step, peer, self.connection):
                done += self._send(step, net, peer, group, leaders)
        return done

    def _send(
        self, step: Step, net: NetworkClient, peer: str, group: list[Lookup], leaders: dict[str, Leader]
    ) -> list[Found]:
        version = net.version(peer, self.connection, Api.ListOffsets)
        refused = [lookup for lookup in group if version is None or version < _least_version(lookup)]
        done = [self._finish(lookup, KafkaError.UNSUPPORTED_VERSION) for lookup in refused]
        wanted = [lookup for lookup in group if lookup.id in self.lookups]
        if version is None or not wanted:
            return done
        request = ListOffsetsRequest(replica_id=self.replica_id)
        if version >= 2 and "isolation-not-asked" not in step.defects:
            request.isolation_level = wanted[0].isolation
        if version >= 10 and "time-limit-untold" not in step.defects:
            asks_as_admin = wanted[0].manner == "admin"
            request.timeout_ms = self.api_timeout_ms if asks_as_admin else self.request_timeout_ms
        topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
        for lookup in wanted:
            name, index = split_topic_partition(lookup.tp)
            if name not in topics:
                topics[name] = ListOffsetsRequest.ListOffsetsTopic(name=name)
                request.topics.append(topics[name])
            partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=lookup.timestamp)
            topics[name].partitions.append(partition)
            if not lookup.failures or "retry-keeps-epoch" not in step.defects:
                lookup.leader_epoch = leaders[lookup.tp].epoch if version >= 4 else -1
            if lookup.leader_epoch >= 0 and "offsets-without-epoch" not in step.defects:
                partition.current_leader_epoch = lookup.leader_epoch
        call = net.send(step, peer, self.connection, request, version, PURPOSE)
        self.calls[call] = [lookup.id for lookup in wanted]
        for lookup in wanted:
            lookup.call = call
        return done

    # ---- answers ------------------------------------------------------------------------------------------

    def on_ended(self, step: Step, metadata: MetadataCache, ended: Ended) -> list[Found]:
        """Take the end of a call; returns the lookups that ended with it."""
        asked = self.calls.get(ended.call, [])
        if ended.response is not None or "lost-lookups-kept" not in step.defects:
            self.calls.pop(ended.call, None)
        answers: dict[str, ListOffsetsResponse.ListOffsetsPartitionResponse] = {}
        if ended.response is not None:
            for topic in ended.response.topics:
                for partition in topic.partitions:
                    answers[topic_partition(topic.name, partition.partition_index)] = partition
        else:
            step.record(ErrorSeen("", Api.ListOffsets.name, ended.version, KafkaError.NETWORK_EXCEPTION, ended.peer))
        done: list[Found] = []
        for number in asked:
            lookup = self.lookups.get(number)
            if lookup is None or lookup.call != ended.call:
                continue
            lookup.call = 0
            found = self._on_answer(step, metadata, ended, lookup, answers.get(lookup.tp))
            if found is not None:
                done.append(found)
        return done

    def _on_answer(
        self,
        step: Step,
        metadata: MetadataCache,
        ended: Ended,
        lookup: Lookup,
        answer: ListOffsetsResponse.ListOffsetsPartitionResponse | None,
    ) -> Found | None:
        refused = answer is not None and answer.error_code in (
            KafkaError.OFFSET_NOT_AVAILABLE,
            KafkaError.LEADER_NOT_AVAILABLE,
        )
        if refused and lookup.manner == "reset" and "refusal-is-offset-0" in step.defects:
            answer = ListOffsetsResponse.ListOffsetsPartitionResponse(offset=0, leader_epoch=-1)
        if answer is not None and not answer.error_code:
            if lookup.manner != "call":
                metadata.update_last_seen_epoch(step, ended.peer, lookup.tp, answer.leader_epoch)
            leader_epoch = lookup.leader_epoch
            if leader_epoch < 0 and lookup.timestamp == LATEST:
                leader_epoch = answer.leader_epoch  # the epoch of LATEST is the leader's own
            del self.lookups[lookup.id]
            return Found(
                lookup.id,
                lookup.tp,
                "ok",
                0,
                answer.offset,
                answer.timestamp,
                answer.leader_epoch,
                leader_epoch,
                ended.peer,
                ended.version,
                ended.call,
            )
        if ended.response is None:
            error: int = KafkaError.NETWORK_EXCEPTION
        else:
            error = answer.error_code if answer is not None else KafkaError.UNKNOWN_SERVER_ERROR
        behaviour = traits(error)
        if error == KafkaError.OFFSET_NOT_AVAILABLE and "refusal-is-fatal" in step.defects:
            return self._finish(lookup, error, ended)
        admin = lookup.manner == "admin"
        if not behaviour.retriable and (admin or error == KafkaError.UNSUPPORTED_VERSION):
            return self._finish(lookup, error, ended)
        if ended.response is not None:
            step.record(ErrorSeen(lookup.tp, Api.ListOffsets.name, ended.version, error, ended.peer))
        # The admin client is never told UNKNOWN_LEADER_EPOCH, as it sends none. Who does may know a topic that is gone.
        outdated = behaviour.invalid_metadata or error == KafkaError.UNKNOWN_LEADER_EPOCH
        refresh = not admin or outdated or "refusal-refreshes" in step.defects
        if refresh and "old-leader-for-ever" not in step.defects:
            metadata.request_update()
        lookup.last_error = error
        lookup.failures += 1
        if lookup.manner == "call":
            lookup.awaits = metadata.updates
            return None
        low = high = self.backoff_ms
        if admin:
            low, high = backoff_range(self.backoff_ms, self.backoff_max_ms, lookup.failures - 1)
            if "refused-look-up-at-once" in step.defects:
                low = high = 0
        lookup.waiting = True
        step.set_timer(f"{RETRY}{lookup.id}", low, high)
        return None

    def _finish(self, lookup: Lookup, error: int, ended: Ended | None = None) -> Found:
        del self.lookups[lookup.id]
        return Found(
            lookup.id,
            lookup.tp,
            "fail" if traits(error).definite else "unknown",
            error,
            broker=ended.peer if ended else "",
            version=ended.version if ended else -1,
        )

    # ---- timers -------------------------------------------------------------------------------------------

    def on_retry(self, number: int) -> None:
        """The pause of a lookup is over."""
        lookup = self.lookups.get(number)
        if lookup is not None:
            lookup.waiting = False

    def on_deadline(self, step: Step) -> list[Found]:
        """Some time is over; returns what ran out of it."""
        limited = [lookup for lookup in self.lookups.values() if lookup.deadline_ms >= 0]
        late = [lookup for lookup in limited if lookup.deadline_ms <= step.now_ms]
        left = [lookup.deadline_ms for lookup in limited if lookup.deadline_ms > step.now_ms]
        self.deadline_armed = bool(left)
        if left:
            step.set_timer(DEADLINE, min(left) - step.now_ms)
        done = []
        for lookup in late:
            del self.lookups[lookup.id]
            if lookup.waiting:
                step.cancel_timer(f"{RETRY}{lookup.id}")
            error = lookup.last_error or KafkaError.REQUEST_TIMED_OUT
            done.append(Found(lookup.id, lookup.tp, "unknown", error))
        return done


def _least_version(lookup: Lookup) -> int:
    return max(_LEAST_VERSION.get(lookup.timestamp, 1), 2 if lookup.isolation == READ_COMMITTED else 1)


def record_list_return(step: Step, operation: str, found: Found, timestamp: int, isolation: int) -> None:
    """Record what a lookup told the application (``list.return``)."""
    step.record(
        ListReturn(
            operation,
            found.outcome,
            found.error,
            found.tp,
            timestamp,
            isolation,
            found.offset,
            found.leader_epoch,
            found.broker,
            found.version,
            found.correlation_id,
        )
    )
