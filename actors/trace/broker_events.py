"""Trace events of brokers: the roles of their replicas, replication, and what they told those who asked."""

from __future__ import annotations

from typing import Literal

from actors.trace.event_parts import Lag, TraceEvent


class PartAssume(TraceEvent, frozen=True, tag="part.assume"):
    """A broker took up a role for a partition. ``log_end``: its LEO; ``leader_epoch_start``: LEO with which it
    became leader of this leader epoch (-1 follower); ``ph``: prefix hash at ``log_end``."""

    tp: str
    role: Literal["leader", "follower"]
    leader: int
    leader_epoch: int
    partition_epoch: int
    log_end: int
    leader_epoch_start: int
    high_watermark: int
    metadata_offset: int
    ph: int | None = None


class PartStop(TraceEvent, frozen=True, tag="part.stop"):
    """A broker stops its replica of a partition whose topic is no longer in the metadata."""

    tp: str


OVERTAKEN = "overtaken"
"""Outcome of a proposal that its leader has given up while it was on its way, and does not know of in the end."""


class IsrPropose(TraceEvent, frozen=True, tag="isr.propose"):
    """A leader asked for an ISR (outcome "proposed"; the same number once more: it sends it again), or learned what
    became of its proposal (an error name, or "accepted"), or gave it up while it was on its way ("overtaken": the
    metadata log brought another state; that it brought the one asked for is told by nothing but ``part.change``).
    ``members``: id -> broker epoch as the leader knew it when it made the proposal. ``lagging``: id of a member that
    the proposal, when it is made, takes out -> why."""

    tp: str
    proposal: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]
    members: dict[str, int]
    high_watermark: int
    leader_epoch_start: int
    outcome: str
    lagging: dict[str, Lag] = {}


class IsrLate(TraceEvent, frozen=True, tag="isr.late"):
    """The controller's answer to a proposal that the broker had given up: it changes nothing, but no other proposal for
    the partition could be sent before. ``error``: what the answer says, 0 for none."""

    tp: str
    proposal: int
    error: int


class RepFetch(TraceEvent, frozen=True, tag="rep.fetch"):
    """A leader took note of a follower's fetch: when the position that it holds for the follower changes, and when a
    fetch diverges or is refused. Of the metadata log: each valid fetch of a voter, for it keeps the leader in office,
    and each that diverges; there is no broker epoch then (-1)."""

    tp: str
    follower: int
    leader_epoch: int
    follower_epoch: int
    broker_epoch: int
    offset: int
    last_fetched_epoch: int
    diverging_epoch: int = -1
    diverging_end: int = -1
    error: int = 0


class RepTruncate(TraceEvent, frozen=True, tag="rep.truncate"):
    """A follower of ``leader_epoch`` has acted on what its leader told it of where their logs part, whether or not that
    cut anything (``log.trunc`` came before, if so). diverge: the leader named the epoch ``told_epoch`` that ends at
    ``told_end``; high-watermark: it named none (-1, -1), or nobody was asked; out-of-range: ``told_end`` is the end of
    its log. ``was``, ``to``: the follower's log end before and after; ``epoch``: the newest leader epoch that it goes
    on with, -1 none."""

    tp: str
    reason: Literal["diverge", "high-watermark", "out-of-range"]
    leader_epoch: int
    told_epoch: int
    told_end: int
    was: int
    to: int
    epoch: int


class FetchTold(TraceEvent, frozen=True, tag="fetch.told"):
    """What a broker told a Fetch about a partition, where that needs a reason: an error, to a consumer; or ``late``, to
    anybody whose Fetch has waited until its time was over, and could be told this before: records, an error, a
    divergence, or nothing to one whose position is beyond what it may read. Of a partition that it has no more, it
    tells ``late`` alone, with -1 for what it does not have.

    ``replica_id``: -1 consumer. ``offset``, ``asked_epoch``, ``last_epoch``: as in the request. leads: whether the
    broker believes to; ``leader_epoch``, ``high_watermark``, ``log_start``, ``log_end``: of its replica.
    ``connection``, ``correlation_id``: the request."""

    tp: str
    replica_id: int
    offset: int
    asked_epoch: int
    last_epoch: int
    error: int
    late: bool
    leads: bool
    leader_epoch: int
    high_watermark: int
    log_start: int
    log_end: int
    connection: str = ""
    correlation_id: int = -1


class FetchRefused(TraceEvent, frozen=True, tag="fetch.refused"):
    """A broker refused a whole Fetch, whose session is not what its sender believes, and told of no partition."""

    connection: str
    correlation_id: int
    error: int


class EpochTold(TraceEvent, frozen=True, tag="epoch.told"):
    """A broker answered OffsetForLeaderEpoch about a partition without an error: ``epoch`` ends at ``end`` in its log,
    (-1, -1) where it cannot tell. ``replica_id``: as in the request (-1 client). ``asked_epoch``: that was asked for.
    ``leader_epoch``: of the broker; ``current_leader_epoch``: in which it was asked, -1 any."""

    tp: str
    replica_id: int
    leader_epoch: int
    current_leader_epoch: int
    asked_epoch: int
    epoch: int
    end: int


class MetaImage(TraceEvent, frozen=True, tag="meta.image"):
    """A broker applied the metadata log up to (exclusive) ``offset``. Recorded when something but a no-op was
    in it. ``digest``: hash over all records below ``offset``; ``state``: over what the broker has made of them."""

    offset: int
    digest: int | None = None
    state: int | None = None


class MetaState(TraceEvent, frozen=True, tag="meta.state"):
    """What a controller, or a broker that makes a snapshot, has made of the metadata log up to (exclusive) ``offset``.
    ``digest``, ``state``: as in ``meta.image``. of: snapshot: what goes into a snapshot; load: what a controller has
    from one; active, standby: what it begins with as the active controller, and goes on with when it is that no more.
    """

    of: Literal["snapshot", "load", "active", "standby"]
    offset: int
    digest: int | None = None
    state: int | None = None


BrokerEvent = (
    PartAssume
    | PartStop
    | IsrPropose
    | IsrLate
    | RepFetch
    | RepTruncate
    | FetchTold
    | FetchRefused
    | EpochTold
    | MetaImage
    | MetaState
)
