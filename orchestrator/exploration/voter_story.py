"""What moves of voters are called, and what comes of them, as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, AnyResponse, api_of
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from orchestrator.exploration.place import Input
from orchestrator.exploration.voter_facts import Facts
from orchestrator.exploration.wire import Move


class VoterWords:
    """See ``story.Words``."""

    def moved(self, move: Move, name: str) -> str:
        """A leader's record."""
        assert move.kind == "append", move
        return f"{name}: appends a record"

    def restarted(self, name: str, event: Input) -> str:
        """What survives."""
        survived = ", ".join(f"{writes} unsynced writes of {file}" for file, writes in event[1:] if writes)
        return f"{name} crashes and comes back with what was synced" + (f" and {survived}" if survived else "")

    def asked(self, request: AnyRequest) -> str:
        """A request."""
        if isinstance(request, VoteRequest):
            return f"{'PreVote' if request.pre_vote else 'Vote'} (epoch {request.replica_epoch})"
        if isinstance(request, FetchRequest):
            fetch = request.topics[0].partitions[0]
            return f"Fetch (epoch {fetch.current_leader_epoch}, from {fetch.fetch_offset})"
        assert isinstance(request, BeginQuorumEpochRequest | EndQuorumEpochRequest)
        return f"{api_of(request).name} (epoch {request.leader_epoch})"

    def said(self, response: AnyResponse) -> str:
        """A response."""
        if isinstance(response, FetchResponse):
            return _fetched(response)
        assert isinstance(response, VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse)
        error = KafkaError(response.error_code or response.partition_error_code)
        if error:
            return f"{error.name}, epoch {response.leader_epoch}"
        if isinstance(response, VoteResponse):
            return f"{'granted' if response.vote_granted else 'refused'}, epoch {response.leader_epoch}"
        return f"heard, epoch {response.leader_epoch}"

    def changes(self, before: Facts, after: Facts) -> Iterator[str]:
        """What a step has made of a voter."""
        if (after.role, after.epoch) != (before.role, before.epoch):
            yield f"{after.role} in epoch {after.epoch}"
        if after.voted not in (before.voted, -1):
            yield f"votes for {after.voted}"
        if after.leading and not before.leading:
            yield "leads"
        if after.log != before.log:
            yield f"log {_log(after)}"
        if after.high_watermark != before.high_watermark:
            yield f"high watermark {after.high_watermark}"
        if after.waiting:
            yield "waits for quorum-state to be synced"


def _fetched(response: FetchResponse) -> str:
    data = response.responses[0].partitions[0]
    if data.error_code:
        epoch = -1 if data.current_leader is None else data.current_leader.leader_epoch
        return f"{KafkaError(data.error_code).name}, epoch {epoch}"
    if data.diverging_epoch is not None:
        return f"diverging from epoch {data.diverging_epoch.epoch}, which ends at {data.diverging_epoch.end_offset}"
    held = ", ".join(f"{batch.base_offset} of epoch {batch.partition_leader_epoch}" for batch in data.records)
    return f"{held or 'no records'}, high watermark {data.high_watermark}"


def _log(facts: Facts) -> str:
    return " ".join(f"{end - 1}@{epoch}" for end, epoch, _ in facts.log) or "empty"
