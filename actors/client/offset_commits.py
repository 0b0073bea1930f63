"""Commits of a group's positions, and looking up what is committed (``ConsumerCoordinator.java``)."""

from __future__ import annotations

import msgspec

from actors.client.coordinator_lookup import COORDINATOR
from actors.client.group_membership import Generation
from actors.client.metadata_cache import MetadataCache
from actors.node.backoff import backoff_range
from actors.node.errors import KafkaError, traits
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.spec import split_topic_partition, topic_partition
from actors.node.step import Step
from actors.trace.client_events import CommitHow
from actors.trace.events import (
    CommitInvoke,
    CommitReturn,
    CommittedInvoke,
    CommittedReturn,
    ErrorSeen,
    Outcome,
)
from actors.trace.group_events import NO_ENTRY, Entry
from krift.v1.groups import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse

COMMIT = "group/commit"
FETCH = "group/fetch-offsets"
COMMIT_RETRY = "group/commit-retry"
FETCH_RETRY = "group/fetch-retry"

_TOPIC_ID_VERSION = 10
_GROUPS_VERSION = 8

E = KafkaError
_AGAIN = (E.COORDINATOR_LOAD_IN_PROGRESS, E.UNKNOWN_TOPIC_OR_PARTITION, E.REQUEST_TIMED_OUT)


class Commit(msgspec.Struct):
    """One commit under way. deadline_ms: until when it is tried again, -1: it is not. generation: in which it was
    asked for. topic_ids: by name, of the topics that the positions are of, as far as that is kept. outlives: its
    operation is over, and it is sent all the same (the defect "commits-outlive-generations")."""

    operation: str
    how: CommitHow
    offsets: dict[str, Entry]
    generation: Generation
    deadline_ms: int = -1
    topic_ids: dict[str, str] = {}
    failures: int = 0
    waiting: bool = False
    call: int = 0
    outlives: bool = False


class Committed(msgspec.Struct, frozen=True):
    """How a commit ended: ``error`` of the whole, 0 none."""

    commit: Commit
    error: int


class OffsetCommits(msgspec.Struct):
    """See the module. ``commits``: by operation, oldest first. fetching: the operation that looks up what is committed,
    "" none; fetched: its partitions."""

    group: str = ""
    instance: str = ""
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    commits: dict[str, Commit] = {}
    fetching: str = ""
    fetched: list[str] = []
    fetch_call: int = 0
    fetch_waiting: bool = False
    fetch_failures: int = 0

    # ---- committing ---------------------------------------------------------------------------------------

    def begin(self, step: Step, commit: Commit) -> None:
        """Commit; ``poll`` sends it."""
        generation = commit.generation
        self.commits[commit.operation] = commit
        step.record(
            CommitInvoke(
                commit.operation, self.group, generation.member, generation.id, dict(commit.offsets), commit.how
            )
        )

    def poll(
        self,
        step: Step,
        net: NetworkClient,
        metadata: MetadataCache,
        peer: str,
        stable: Generation | None,
        joining: bool,
    ) -> list[Committed]:
        """Send what can be sent to the coordinator ``peer``; returns commits that are over. ``stable``: the generation
        if the member has its assignment; ``joining``: it has not, as the group rebalances."""
        ended: list[Committed] = []
        for commit in list(self.commits.values()):
            if commit.call or commit.waiting:
                continue
            if commit.outlives:
                if stable is None:
                    continue
                commit.generation = stable
            if commit.generation != stable:
                error = E.REBALANCE_IN_PROGRESS if joining else E.UNKNOWN_MEMBER_ID
                if "commits-outlive-generations" in step.defects:
                    left = msgspec.structs.replace(commit, operation=f"{commit.operation}+", deadline_ms=-1)
                    left.outlives = True
                    self.commits[left.operation] = left
                ended.append(self._end(step, commit, error, {}, "fail"))
            elif not peer:
                if 0 <= commit.deadline_ms <= step.now_ms:
                    ended.append(self._end(step, commit, E.REQUEST_TIMED_OUT, {}, "unknown"))
            elif net.ready(step, peer, COORDINATOR):
                self._send(step, net, metadata, peer, commit)
        return ended

    def _send(self, step: Step, net: NetworkClient, metadata: MetadataCache, peer: str, commit: Commit) -> None:
        version = net.version(peer, COORDINATOR, Api.OffsetCommit)
        assert version is not None, "every broker speaks OffsetCommit"
        topic_ids = metadata.topic_ids | commit.topic_ids
        version = _without_ids(version, topic_ids, commit.offsets)
        request = OffsetCommitRequest(group_id=self.group)
        request.generation_id_or_member_epoch = commit.generation.id
        request.member_id = commit.generation.member
        if self.instance and version >= 7:
            request.group_instance_id = self.instance
        topics: dict[str, OffsetCommitRequest.OffsetCommitRequestTopic] = {}
        for tp, (offset, leader_epoch, metadata_epoch) in commit.offsets.items():
            name, index = split_topic_partition(tp)
            if name not in topics:
                topics[name] = OffsetCommitRequest.OffsetCommitRequestTopic()
                request.topics.append(topics[name])
                if version >= _TOPIC_ID_VERSION:
                    topics[name].topic_id = topic_ids[name]
                else:
                    topics[name].name = name
            partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            partition.committed_metadata = ""
            if version >= 6:
                partition.committed_leader_epoch = leader_epoch
            if version >= 4:
                partition.metadata_epoch = metadata_epoch
            topics[name].partitions.append(partition)
        commit.call = net.send(step, peer, COORDINATOR, request, version, COMMIT)

    def on_committed(self, step: Step, metadata: MetadataCache, ended: Ended) -> tuple[int, Committed | None]:
        """Take the end of an OffsetCommit. Returns the worst of its errors, and the commit if it is over."""
        commit = next((each for each in self.commits.values() if each.call == ended.call), None)
        if commit is None:
            return 0, None
        commit.call = 0
        if any(metadata.is_of_former_topic(tp, commit.topic_ids.get(_topic(tp), "")) for tp in commit.offsets):
            commit.deadline_ms = -1
        errors = {} if ended.response is None else _errors(metadata, ended.response.topics)
        if ended.response is None:
            error: int = E.NETWORK_EXCEPTION
        else:
            error = next((errors[tp] for tp in errors if errors[tp]), 0)
            if not errors:
                error = E.UNKNOWN_SERVER_ERROR
        if error:
            step.record(ErrorSeen("", Api.OffsetCommit.name, ended.version, error, ended.peer))
            if error == E.UNKNOWN_TOPIC_ID:
                metadata.request_update()
        return error, self.ended(step, commit, error, errors)

    def ended(self, step: Step, commit: Commit, error: int, errors: dict[str, int]) -> Committed | None:
        """An attempt ended; None if it is made again."""
        again = (traits(error).retriable or error in _AGAIN) and "commit-sync-tried-once" not in step.defects
        if commit.deadline_ms > step.now_ms and again:
            low, high = backoff_range(self.backoff_ms, self.backoff_max_ms, commit.failures)
            commit.failures += 1
            commit.waiting = True
            step.set_timer(COMMIT_RETRY, low, high)
            return None
        definite = not error or (errors and all(traits(each).definite for each in errors.values()))
        outcome: Outcome = "ok" if not error else "fail" if definite else "unknown"
        return self._end(step, commit, error, errors, outcome)

    def _end(self, step: Step, commit: Commit, error: int, errors: dict[str, int], outcome: Outcome) -> Committed:
        del self.commits[commit.operation]
        if commit.outlives:
            return Committed(commit, error)
        step.record(
            CommitReturn(
                commit.operation,
                outcome,
                error,
                self.group,
                commit.generation.member,
                commit.generation.id,
                dict(commit.offsets),
                commit.how,
                errors,
            )
        )
        return Committed(commit, error)

    def lost_coordinator(self, step: Step, error: int) -> list[Committed]:
        """The coordinator cannot be asked any more; returns commits that are over with that. Those that were not sent
        yet fail like those that were, but nothing can have come of them."""
        done: list[Committed] = []
        for commit in [each for each in self.commits.values() if not each.waiting]:
            if not commit.call and commit.deadline_ms < 0:
                done.append(self._end(step, commit, E.NETWORK_EXCEPTION, {}, "fail"))
            elif commit.call:
                commit.call = 0
                over = self.ended(step, commit, error, {})
                done += [over] if over is not None else []
        if self.fetch_call:
            self._fetch_again(step)
        return done

    def no_coordinator(self, step: Step, error: int) -> list[Committed]:
        """It was looked for in vain: what waited for it and is not tried again is over
        (``RetriableCommitFailedException``)."""
        waiting = [each for each in self.commits.values() if not each.call and each.deadline_ms < 0]
        return [self._end(step, commit, error, {}, "fail") for commit in waiting]

    def on_commit_retry(self) -> None:
        """Commits may be tried again."""
        for commit in self.commits.values():
            commit.waiting = False

    # ---- looking up what is committed -----------------------------------------------------------------------

    def fetch(
        self, step: Step, net: NetworkClient, metadata: MetadataCache, peer: str, tps: list[str], operation: str
    ) -> bool:
        """Look up ``tps`` at the coordinator ``peer`` unless that is under way; True if ``operation`` was taken for
        it. A lookup of other partitions is given up."""
        begun = False
        if self.fetching and self.fetched != tps:
            self._give_up(step)
        if not self.fetching:
            begun = True
            self.fetching, self.fetched = operation, list(tps)
            self.fetch_failures = 0
            step.record(CommittedInvoke(operation, self.group, list(tps)))
        if not self.fetch_call and not self.fetch_waiting and peer and net.ready(step, peer, COORDINATOR):
            self._send_fetch(step, net, metadata, peer)
        return begun

    def give_up(self, step: Step) -> None:
        """Nobody asks any more."""
        if self.fetching:
            self._give_up(step)

    def _give_up(self, step: Step) -> None:
        step.record(CommittedReturn(self.fetching, "unknown", 0, self.group, self.fetched))
        if self.fetch_waiting:
            step.cancel_timer(FETCH_RETRY)
        self.fetching, self.fetched, self.fetch_call, self.fetch_waiting = "", [], 0, False

    def _send_fetch(self, step: Step, net: NetworkClient, metadata: MetadataCache, peer: str) -> None:
        version = net.version(peer, COORDINATOR, Api.OffsetFetch)
        assert version is not None, "every broker speaks OffsetFetch"
        version = _without_ids(version, metadata.topic_ids, self.fetched)
        request = OffsetFetchRequest()
        if version >= 7 and "stable-positions-not-asked" not in step.defects:
            request.require_stable = True
        indexes: dict[str, list[int]] = {}
        for tp in self.fetched:
            name, index = split_topic_partition(tp)
            indexes.setdefault(name, []).append(index)
        if version >= _GROUPS_VERSION:
            group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group)
            for name, partitions in indexes.items():
                topic = OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=partitions)
                if version >= _TOPIC_ID_VERSION:
                    topic.topic_id = metadata.topic_ids[name]
                else:
                    topic.name = name
                group.topics.append(topic)
            request.groups.append(group)
        else:
            request.group_id = self.group
            for name, partitions in indexes.items():
                old = OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=partitions)
                request.topics.append(old)
        self.fetch_call = net.send(step, peer, COORDINATOR, request, version, FETCH)

    def on_fetched(self, step: Step, metadata: MetadataCache, ended: Ended) -> tuple[int, dict[str, Entry] | None]:
        """Take the end of an OffsetFetch. Returns its error, and what is committed if it is known now. An error that is
        not retriable is thrown at the application, for whom the lookup is over."""
        if ended.call != self.fetch_call:
            return 0, None
        self.fetch_call = 0
        error: int = E.NETWORK_EXCEPTION
        offsets: dict[str, Entry] = {}
        if ended.response is not None:
            error, offsets = _entries(metadata, ended.response)
        if error:
            step.record(ErrorSeen("", Api.OffsetFetch.name, ended.version, error, ended.peer))
        if error == E.UNKNOWN_TOPIC_ID:
            metadata.request_update()  # the topic was made anew: its name has another id by now
        again = traits(error).retriable and error != E.UNKNOWN_TOPIC_OR_PARTITION
        if error and again and "positions-looked-up-once" not in step.defects:
            self._fetch_again(step)
            return error, None
        outcome: Outcome = "fail" if error else "ok"
        found = {tp: offsets.get(tp, NO_ENTRY) for tp in self.fetched} if not error else {}
        step.record(CommittedReturn(self.fetching, outcome, error, self.group, self.fetched, found))
        self.fetching, self.fetched = "", []
        return error, None if error else found

    def _fetch_again(self, step: Step) -> None:
        self.fetch_call = 0
        low, high = backoff_range(self.backoff_ms, self.backoff_max_ms, self.fetch_failures)
        self.fetch_failures += 1
        self.fetch_waiting = True
        step.set_timer(FETCH_RETRY, low, high)

    def on_fetch_retry(self) -> None:
        """The pause after a failed lookup is over."""
        self.fetch_waiting = False


def _topic(tp: str) -> str:
    return split_topic_partition(tp)[0]


def _without_ids(version: int, topic_ids: dict[str, str], tps: dict[str, Entry] | list[str]) -> int:
    """The version to use where the ids of some topics are unknown."""
    known = all(_topic(tp) in topic_ids for tp in tps)
    return version if known else min(version, _TOPIC_ID_VERSION - 1)


def _errors(metadata: MetadataCache, topics: list[OffsetCommitResponse.OffsetCommitResponseTopic]) -> dict[str, int]:
    names = {topic_id: name for name, topic_id in metadata.topic_ids.items()}
    if metadata.former_epoch == "topic-id":
        names = metadata.names | names
    found: dict[str, int] = {}
    for topic in topics:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            found[topic_partition(name, partition.partition_index)] = partition.error_code
    return found


def _entries(metadata: MetadataCache, response: OffsetFetchResponse) -> tuple[int, dict[str, Entry]]:
    """The first error, and what is committed."""
    names = {topic_id: name for name, topic_id in metadata.topic_ids.items()}
    found: dict[str, Entry] = {}
    error = response.error_code
    for old in response.topics:
        for each in old.partitions:
            error = error or each.error_code
            entry = [each.committed_offset, each.committed_leader_epoch, each.metadata_epoch]
            found[topic_partition(old.name, each.partition_index)] = entry
    for group in response.groups:
        error = error or group.error_code
        for topic in group.topics:
            name = topic.name or names.get(topic.topic_id, "")
            for partition in topic.partitions:
                error = error or partition.error_code
                entry = [partition.committed_offset, partition.committed_leader_epoch, partition.metadata_epoch]
                found[topic_partition(name, partition.partition_index)] = entry
    return error, found
