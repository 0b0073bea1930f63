"""Which broker coordinates a group (``AbstractCoordinator.java`` lookupCoordinator, ensureCoordinatorReady)."""

from __future__ import annotations

import msgspec

from actors.client.least_loaded_node import LeastLoadedNode
from actors.client.metadata_cache import CONNECTION, MetadataCache
from actors.node.backoff import backoff_range
from actors.node.errors import KafkaError, traits
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.spec import node_name
from actors.node.step import Step
from actors.trace.events import ErrorSeen
from krift.v1.groups import FindCoordinatorRequest, FindCoordinatorResponse

COORDINATOR = "coordinator"
"""Connection of everything that goes to a coordinator, which Kafka's consumer connects to under an id of its own."""

PURPOSE = "find-coordinator"
RETRY = "find-coordinator/retry"
CHOICE = "find-coordinator/node"

_BATCH_VERSION = 4
_GROUP = 0
"""The key type."""


class CoordinatorLookup(msgspec.Struct):
    """``broker``: id of the coordinator, -1 unknown. It is looked for as long as it is unknown and ``wanted``.
    ``awaits``: the number of refreshes of the metadata that is not enough after a failure, -1 any is. ``fatal``: code
    of an error that ends the search, 0 none."""

    group: str = ""
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    node: LeastLoadedNode = msgspec.field(default_factory=lambda: LeastLoadedNode(CHOICE, CONNECTION))
    broker: int = -1
    wanted: bool = False
    call: int = 0
    waiting: bool = False
    awaits: int = -1
    failures: int = 0
    fatal: int = 0

    @property
    def peer(self) -> str:
        """The coordinator's name, "" while it is unknown."""
        return "" if self.broker < 0 else node_name(self.broker)

    def want(self, at_once: bool) -> None:
        """A commit needs it. at_once: as ``commitAsync`` looks for itself; ``poll`` and ``commitSync`` wait for
        metadata after a failure."""
        self.wanted = True
        if at_once:
            self.awaits = -1

    def lost(self, net: NetworkClient) -> bool:
        """Whether the broker that is to be asked was lost before it could be: in Kafka that request has failed
        (``ConsumerNetworkClient.checkDisconnects``)."""
        target = self.node.target
        return not self.call and target >= 0 and not net.usable(node_name(target), CONNECTION)

    def poll(self, step: Step, net: NetworkClient, metadata: MetadataCache) -> None:
        """Ask for the coordinator if it has to be known and is not."""
        if self.broker >= 0 or not self.wanted or self.fatal or self.call or self.waiting:
            return
        if self.awaits >= metadata.updates:
            metadata.request_update()
            return
        brokers = metadata.brokers
        if not any(net.usable(node_name(broker), CONNECTION) for broker in brokers):
            brokers = metadata.bootstrap
        peer = self.node.ready(step, net, brokers)
        if peer is None:
            return
        version = net.version(peer, CONNECTION, Api.FindCoordinator)
        self.node.release()
        if version is None:
            return
        request = FindCoordinatorRequest()
        if version >= _BATCH_VERSION:
            request.coordinator_keys.append(self.group)
        else:
            request.key = self.group
        if version >= 1:
            request.key_type = _GROUP
        self.call = net.send(step, peer, CONNECTION, request, version, PURPOSE)

    def on_ended(self, step: Step, net: NetworkClient, metadata: MetadataCache, ended: Ended) -> int:
        """Take the end of a call; returns the code of its error, 0 where a coordinator was named. One that cannot be
        reached just now is asked for again, after a pause."""
        self.call = 0
        error, broker = _answer(ended.response)
        if not error and net.usable(node_name(broker), COORDINATOR):
            self.broker, self.wanted, self.failures = broker, False, 0
            return 0
        if not error:
            self._pause(step)
            return 0
        step.record(ErrorSeen("", Api.FindCoordinator.name, ended.version, error, ended.peer))
        if not traits(error).retriable:
            self.fatal = error
            return error
        self.awaits = metadata.updates
        metadata.request_update()
        self._pause(step)
        return error

    def _pause(self, step: Step) -> None:
        low, high = backoff_range(self.backoff_ms, self.backoff_max_ms, self.failures)
        self.failures += 1
        self.waiting = True
        step.set_timer(RETRY, low, high)

    def on_retry(self) -> None:
        """The pause after a failure is over."""
        self.waiting = False

    def forget(self) -> None:
        """The coordinator is another one, or cannot be reached."""
        self.broker, self.awaits = -1, -1

    def begin_anew(self, step: Step) -> None:
        """The client is another one, which has asked for nothing yet: a call of the one before is not its own."""
        self.forget()
        self.wanted, self.waiting = False, False
        self.call, self.failures, self.fatal = 0, 0, 0
        step.cancel_timer(RETRY)


def _answer(response: FindCoordinatorResponse | None) -> tuple[int, int]:
    """Error and broker."""
    if response is None:
        return KafkaError.NETWORK_EXCEPTION, -1
    if response.coordinators:
        found = response.coordinators[0]
        return found.error_code, found.node_id
    return response.error_code, response.node_id
