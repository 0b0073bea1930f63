"""What a client believes about the cluster (``clients/.../Metadata.java``, ``NetworkClient.DefaultMetadataUpdater``).

A client never goes back. With ``kip-232: kafka`` each partition of a Metadata answer is judged by its leader epoch
(``MetadataCache.update``); with ``seed``, as KIP-232 was first proposed, each answer as a whole by its metadata epoch;
with ``off`` it does, as before KIP-320. The latter two know neither leader epochs nor topic ids.
"""

from __future__ import annotations

import msgspec

from actors.client.least_loaded_node import LeastLoadedNode
from actors.node.backoff import backoff_range
from actors.node.errors import KafkaError, traits
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.spec import (
    ClusterSpec,
    node_name,
    split_topic_partition,
    topic_id_partition,
    topic_partition,
)
from actors.node.step import Step
from actors.trace.events import ErrorSeen, MetaView
from krift.v1.common import LeaderAndEpoch, NodeEndpoint
from krift.v1.metadata import MetadataRequest, MetadataResponse

CONNECTION = "metadata"
"""Connection of everything but data, so that a parked Fetch holds nothing up."""

PURPOSE = "metadata"
BACKOFF_TIMER = "metadata/backoff"
AGE_TIMER = "metadata/age"
CHOICE = "metadata/node"

STALE_LEADER = (KafkaError.NOT_LEADER_OR_FOLLOWER, KafkaError.FENCED_LEADER_EPOCH)
"""Errors of a partition whose answer may name its present leader (KIP-951)."""

_RELIABLE_EPOCHS_VERSION = 9
_TOPIC_ID_VERSION = 10


class CachedPartition(msgspec.Struct):
    """One partition as the last accepted answer had it; ``leader_epoch`` -1: the answer had none that counts."""

    error: int
    leader_id: int
    leader_epoch: int


class Leader(msgspec.Struct, frozen=True):
    """A partition's leader; ``epoch`` -1 where it is unknown."""

    node_id: int
    epoch: int

    @property
    def name(self) -> str:
        """The broker's name."""
        return node_name(self.node_id)


def refusal(tp: str, api: Api, ended: Ended, error: int, hint: LeaderAndEpoch | None, uid: str = "") -> ErrorSeen:
    """What is recorded of a partition that a broker refuses, with whom it names as the leader, if it names both leader
    and epoch."""
    seen = ErrorSeen(tp, api.name, ended.version, error, ended.peer, uid)
    if hint is None or error not in STALE_LEADER or hint.leader_id < 0 or hint.leader_epoch < 0:
        return seen
    endpoints = [node.node_id for node in ended.response.node_endpoints]
    return msgspec.structs.replace(seen, leader=hint.leader_id, leader_epoch=hint.leader_epoch, endpoints=endpoints)


class MetadataCache(msgspec.Struct):
    """Cluster view of a client and the refreshing of it.

    topics: those the client uses. bootstrap, brokers: ids to ask. partitions: by topic partition. names: of all topics
    that it was told of, by id; first_ids: of the scenario's topics, by name; recreated: ids of topics that are others,
    by name. last_seen_epochs: highest leader epoch heard of by any way; it outlives the partition's entry. updates:
    answers that were taken over; equivalent_answers: how many of the last ones brought nothing new, since a request
    failed.

    With ``seed``: metadata_epoch: of the last answer taken over that had one, -1 none. awaited_epoch: the application
    waits for metadata that is not older than this, -1 it does not. outdated: brokers whose answers were older than what
    there is, or is awaited; they are asked last.
    """

    topics: list[str] = []
    bootstrap: list[int] = []
    brokers: list[int] = []
    partitions: dict[str, CachedPartition] = {}
    topic_ids: dict[str, str] = {}
    names: dict[str, str] = {}
    first_ids: dict[str, str] = {}
    recreated: dict[str, str] = {}
    last_seen_epochs: dict[str, int] = {}
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    max_age_ms: int = 300000
    node: LeastLoadedNode = msgspec.field(default_factory=lambda: LeastLoadedNode(CHOICE, CONNECTION))
    wanted: bool = False
    call: int = 0
    waiting: bool = False
    refreshed: bool = False
    last_refresh_ms: int = 0
    failures: int = 0
    equivalent_answers: int = 0
    updates: int = 0
    kip_232: str = "kafka"
    former_epoch: str = "kafka"
    metadata_epoch: int = -1
    awaited_epoch: int = -1
    outdated: list[str] = []

    def configure(self, topics: list[str], cluster: ClusterSpec, config: dict[str, int], kip_232: str) -> None:
        """Set what the node was started with."""
        self.kip_232 = kip_232
        self.topics = list(topics)
        self.bootstrap = list(cluster.brokers)
        self.first_ids = {topic.name: topic.topic_id for topic in cluster.topics}
        self.backoff_ms = config["retry.backoff.ms"]
        self.backoff_max_ms = config["retry.backoff.max.ms"]
        self.max_age_ms = config["metadata.max.age.ms"]

    # ---- what is known ------------------------------------------------------------------------------------

    def knows(self, tp: str) -> bool:
        """Whether the partition is in the cluster view."""
        return tp in self.partitions

    def leader_for(self, tp: str) -> Leader | None:
        """The leader in the cluster view, or None where there is none or it is no broker of the view."""
        cached = self.partitions.get(tp)
        if cached is None or cached.leader_id not in self.brokers:
            return None
        return Leader(cached.leader_id, cached.leader_epoch)

    def current_leader(self, tp: str) -> Leader | None:
        """As ``leader_for``, but None also while a newer leader epoch was heard of than the view has."""
        cached = self.partitions.get(tp)
        if cached is None:
            return None
        seen = self.last_seen_epochs.get(tp, -1)
        if cached.leader_epoch >= 0 and cached.leader_epoch != seen:
            return None
        return self.leader_for(tp)

    def key(self, tp: str) -> str:
        """What the trace calls the partition that this client takes ``tp`` to be: with the topic id where that is not
        the scenario's."""
        if not self.recreated:
            return tp
        topic_id = self.recreated.get(split_topic_partition(tp)[0])
        return tp if topic_id is None else topic_id_partition(tp, topic_id)

    def id_to_keep(self, tp: str) -> str:
        """The id of the topic that a position in ``tp`` belongs to, "" where nobody keeps that."""
        return self.topic_ids.get(split_topic_partition(tp)[0], "") if self.former_epoch == "topic-id" else ""

    def is_of_former_topic(self, tp: str, topic_id: str) -> bool:
        """Whether a position that belongs to a topic of this id ("" unknown) is not one in ``tp`` any more."""
        current = self.id_to_keep(tp)
        return bool(topic_id and current) and topic_id != current

    def topic_name(self, topic_id: str) -> str:
        """Name of a topic that the client knows, or has known, by its id; "" where it does not."""
        return self.names.get(topic_id, "")

    def _note_ids(self, topic_ids: dict[str, str]) -> None:
        """Topics were told with these ids. One that is not told of keeps its part in the trace: what is under way to it
        is not another's."""
        for name, topic_id in topic_ids.items():
            self.names[topic_id] = name
            if self.first_ids.get(name, topic_id) == topic_id:
                self.recreated.pop(name, None)
            else:
                self.recreated[name] = topic_id

    # ---- refreshing ---------------------------------------------------------------------------------------

    def request_update(self) -> None:
        """Ask for a refresh; it goes out when the back-off after the one before is over."""
        self.wanted = True

    def poll(self, step: Step, net: NetworkClient) -> None:
        """Send a Metadata request if one is wanted and allowed."""
        if not self.wanted or self.call or self.waiting or self._backs_off(step):
            return
        brokers = self.brokers
        if not any(net.usable(node_name(broker), CONNECTION) for broker in brokers):
            brokers = self.bootstrap  # metadata.recovery.strategy=rebootstrap
        peer = self.node.ready(step, net, self._candidates(net, brokers))
        if peer is None:
            return
        version = net.version(peer, CONNECTION, Api.Metadata)
        if version is None:
            self.node.release()
            return
        request = MetadataRequest()
        for topic in self.topics:
            request.topics.append(MetadataRequest.MetadataRequestTopic(name=topic))
        self.wanted = False
        self.call = net.send(step, peer, CONNECTION, request, version, PURPOSE)
        self.node.release()

    def _candidates(self, net: NetworkClient, brokers: list[int]) -> list[int]:
        """Whom to ask: one that did not answer with outdated metadata, as long as there is any."""
        if not self.outdated:
            return brokers
        names = [(broker, node_name(broker)) for broker in brokers]
        others = [broker for broker, name in names if name not in self.outdated and net.usable(name, CONNECTION)]
        if not others:
            self.outdated = []
        return others or brokers

    def _backs_off(self, step: Step) -> bool:
        if not self.refreshed or "no-metadata-backoff" in step.defects:
            return False
        low, high = backoff_range(
            self.backoff_ms, self.backoff_max_ms, max(self.failures - 1, self.equivalent_answers - 1, 0)
        )
        elapsed = max(0, step.now_ms - self.last_refresh_ms)
        self.refreshed = False
        if elapsed >= high:
            return False
        self.waiting = True
        step.set_timer(BACKOFF_TIMER, max(0, low - elapsed), high - elapsed)
        return True

    def on_backoff_over(self) -> None:
        """Metadata may be asked for again."""
        self.waiting = False

    def on_age(self) -> None:
        """What is known is too old."""
        self.equivalent_answers = 0
        self.wanted = True

    def on_ended(self, step: Step, ended: Ended) -> None:
        """Take the end of a Metadata call."""
        self.call = 0
        self.refreshed = True
        self.last_refresh_ms = step.now_ms
        response = ended.response
        if response is None or not response.brokers or response.error_code:
            # An answer without brokers comes from a broker that is still starting up.
            if response is not None and response.error_code:
                step.record(ErrorSeen("", Api.Metadata.name, ended.version, response.error_code, ended.peer))
                self.brokers = list(self.bootstrap)
            self.failures += 1
            self.equivalent_answers = 0
            self.wanted = True
            return
        if self.kip_232 == "seed" and not self._accepts(step, ended.peer, response.metadata_epoch):
            self.failures += 1
            return
        if "metadata-failures-stay" not in step.defects:
            self.failures = 0
        if "metadata-never-too-old" not in step.defects:
            step.set_timer(AGE_TIMER, self.max_age_ms)
        self.updates += 1
        news = self.update(step, ended.peer, ended.version, response)
        if "equivalent-answers-uncounted" not in step.defects:
            self.equivalent_answers = 0 if news else self.equivalent_answers + 1

    # ---- metadata epochs ----------------------------------------------------------------------------------

    def _accepts(self, step: Step, server: str, epoch: int) -> bool:
        """Judge an answer by its metadata epoch. An outdated one is left alone, and another broker is asked after the
        back-off; so it is while the application waits for a higher one. An answer without an epoch (-1), of a broker
        that is older or was told by an older controller, is taken as before there were any (docs/decisions/0013)."""
        outdated = 0 <= epoch < self.metadata_epoch
        if outdated and "older-epoch-accepted" not in step.defects:
            step.record(MetaView(server, {}, [], metadata_epoch=epoch, metadata_accepted=False))
            self._ask_another(server)
            return False
        if epoch >= 0:
            self.metadata_epoch = epoch
        if self.metadata_epoch < self.awaited_epoch:
            self._ask_another(server)
        else:
            self.outdated = []
        return True

    def _ask_another(self, server: str) -> None:
        self.outdated.append(server)
        self.wanted = True

    def await_epoch(self, epoch: int) -> None:
        """Look for metadata whose epoch is not lower, if there is none yet."""
        self.awaited_epoch = epoch
        if self.metadata_epoch < epoch:
            self.wanted = True

    # ---- judging answers ----------------------------------------------------------------------------------

    def _refused(self, step: Step, epoch: int, seen: int, recreated: bool) -> bool:
        """Whether a leader epoch is older than one that was heard of; epochs of two topics are never compared."""
        if recreated and "epochs-outlive-topic" not in step.defects:
            return False
        return 0 <= epoch < seen and "older-metadata-taken" not in step.defects

    def update(self, step: Step, server: str, version: int, response: MetadataResponse) -> bool:
        """Take over a Metadata answer to a request for all of the client's topics; True if it brought news: a leader
        epoch that was not known, or a partition without one. Whatever else it has, brokers included, makes it the
        equivalent of the one before.

        Per partition (Metadata.java updateLatestMetadata): without a reliable epoch (version below 9) it is accepted
        and the remembered epoch forgotten, as with any answer unless kip-232 is kafka; with none remembered, with
        another topic id, or with an epoch that is not lower it is accepted; else the cached entry stays, or the
        partition stays absent. What the answer lacks disappears, but its epoch is remembered.
        """
        partitions: dict[str, CachedPartition] = {}
        topic_ids: dict[str, str] = {}
        told_ids: dict[str, str] = {}
        differing: dict[str, int] = {}
        leaders: dict[str, int] = {}
        renamed: dict[str, str] = {}
        accepted: list[str] = []
        news = False
        with_epochs = self.kip_232 == "kafka"
        for topic in response.topics:
            if topic.error_code:
                self._topic_error(step, server, version, topic.error_code)
                continue
            if topic.topic_id and version >= _TOPIC_ID_VERSION:
                told_ids[topic.name] = topic.topic_id
            topic_id = told_ids.get(topic.name, "") if with_epochs else ""
            if topic_id:
                topic_ids[topic.name] = topic_id
            recreated = bool(topic_id) and topic_id != self.topic_ids.get(topic.name, "")
            if recreated:
                renamed[topic.name] = topic_id
            for answer in topic.partitions:
                tp = topic_partition(topic.name, answer.partition_index)
                epoch = answer.leader_epoch if with_epochs and version >= _RELIABLE_EPOCHS_VERSION else -1
                seen = self.last_seen_epochs.get(tp, -1)
                cached = self.partitions.get(tp)
                news = news or epoch < 0 or epoch > seen or recreated
                if (
                    cached is None
                    or (recreated and topic.name in self.topic_ids)
                    or epoch != seen
                    or (answer.leader_id, epoch) != (cached.leader_id, cached.leader_epoch)
                ):
                    differing[tp], leaders[tp] = epoch, answer.leader_id
                refused = self._refused(step, epoch, seen, recreated)
                if refused:
                    if cached is not None and "refused-leader-taken" in step.defects:
                        cached.leader_id = answer.leader_id
                    if cached is not None:
                        partitions[tp] = cached
                else:
                    accepted.append(tp)
                    partitions[tp] = CachedPartition(answer.error_code, answer.leader_id, epoch)
                    self._remember(tp, epoch)
                if traits(answer.error_code).invalid_metadata:
                    self.wanted = True
        brokers, self.brokers = self.brokers, sorted(broker.node_id for broker in response.brokers)
        self.partitions = partitions
        self._note_ids(told_ids)
        self.topic_ids = topic_ids if "every-answer-renames" not in step.defects else {}
        if self.kip_232 == "seed":
            epoch = response.metadata_epoch
            view = MetaView(server, differing, accepted, leaders, renamed, "metadata", epoch, metadata_accepted=True)
        else:
            view = MetaView(server, differing, accepted, leaders, renamed)
        if brokers != self.brokers:
            view = msgspec.structs.replace(view, brokers=list(self.brokers))
        step.record(view)
        return news

    def _topic_error(self, step: Step, server: str, version: int, error: int) -> None:
        step.record(ErrorSeen("", Api.Metadata.name, version, error, server))
        if traits(error).invalid_metadata:
            self.wanted = True

    def _remember(self, tp: str, epoch: int) -> None:
        if epoch >= 0:
            self.last_seen_epochs[tp] = epoch
        else:
            self.last_seen_epochs.pop(tp, None)

    def update_last_seen_epoch(self, step: Step, server: str, tp: str, epoch: int) -> bool:
        """Hear of a leader epoch from another answer than Metadata's. Only a higher one than a remembered one
        counts; then the view is refreshed, and until it has caught up the partition has no current leader."""
        seen = self.last_seen_epochs.get(tp)
        if epoch < 0 or seen is None or epoch <= seen or "newer-epochs-unheeded" in step.defects:
            return False
        self.last_seen_epochs[tp] = epoch
        self.wanted = True
        step.record(MetaView(server, {tp: epoch}, [], source="heard"))
        return True

    def update_leadership(
        self, step: Step, server: str, tp: str, hint: LeaderAndEpoch, endpoints: list[NodeEndpoint]
    ) -> bool:
        """Take the leader named by a Produce or Fetch answer (KIP-951); True if it is news.

        It counts if it names both leader and epoch, the partition is cached with a lower epoch, and the leader is a
        broker of the view or of the answer's ``endpoints``. Without leader epochs nobody looks at it.
        """
        if self.kip_232 != "kafka":
            return False
        if hint.leader_id < 0 or hint.leader_epoch < 0:
            return False
        cached = self.partitions.get(tp)
        known = hint.leader_id in self.brokers or any(node.node_id == hint.leader_id for node in endpoints)
        fresh = known and hint.leader_epoch > self.last_seen_epochs.get(tp, -1)
        fresh = fresh and "newer-hints-left" not in step.defects
        if cached is None or not fresh:
            step.record(MetaView(server, {tp: hint.leader_epoch}, [], {tp: hint.leader_id}, source="hint"))
            return False
        step.record(MetaView(server, {tp: hint.leader_epoch}, [tp], {tp: hint.leader_id}, source="hint"))
        self.partitions[tp] = CachedPartition(cached.error, hint.leader_id, hint.leader_epoch)
        self.last_seen_epochs[tp] = hint.leader_epoch
        self.brokers = sorted({*self.brokers, *(node.node_id for node in endpoints)})
        return True
