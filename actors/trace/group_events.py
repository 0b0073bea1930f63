"""Trace events of groups: what their coordinators decided and told, and what their members own.

A *group* is named by its id. ``offsets_tp``: the partition of ``__consumer_offsets`` that holds it, whose leader
coordinates it; ``coordinator_epoch``: the leader epoch in which that broker did. An *entry* is what is stored with a
committed position: ``[offset, leader_epoch, metadata_epoch]``, -1 for what it has none of.
"""

from __future__ import annotations

from typing import Literal

from actors.trace.event_parts import TraceEvent

Entry = list[int]
"""``[offset, leader_epoch, metadata_epoch]``; ``[-1, -1, -1]``: nothing is committed."""
NO_ENTRY: Entry = [-1, -1, -1]

GroupState = Literal["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
"""As Kafka's classic groups have them (``ClassicGroupState``)."""


MEMBERS_LEFT = "explicit LeaveGroup request for"
"""How the reason of a ``GrpGen`` begins where members asked to leave, in Kafka's words."""

GROUP_EXPIRED = "it has neither members nor offsets"
"""The reason of a ``GrpGen`` where a coordinator removes a group."""

REBALANCE_TIMEOUT = "rebalance timeout"
"""The reason of a ``GrpGen`` where a coordinator goes on without members that did not join in time."""


class GrpGen(TraceEvent, frozen=True, tag="grp.gen"):
    """A coordinator moved a group into a state. ``tp``: the offsets partition. ``leader``: member id of who assigns, ""
    none. ``protocol``: name of the assignor chosen, "" none yet. ``members``: member id -> client id.
    ``assignment``: member id -> topic partitions, of state Stable alone. ``reason``: why, in Kafka's words. That a
    group is stable is recorded when the offsets partition has committed its assignment. ``absent``: of state
    CompletingRebalance alone: members of the new generation that have not joined for it. ``subscribed``: of state
    Stable alone: member id -> topics that it names for that assignor. ``rewritten``: the leader's assignment was
    written a second time before the first was committed, which counts: the next coordinator reads the last one."""

    tp: str
    group: str
    state: GroupState
    generation: int
    coordinator_epoch: int
    leader: str = ""
    protocol: str = ""
    members: dict[str, str] = {}
    assignment: dict[str, list[str]] = {}
    reason: str = ""
    absent: list[str] = []
    subscribed: dict[str, list[str]] = {}
    rewritten: bool = False


OutReason = Literal["session", "join", "sync", "leave"]


class GrpOut(TraceEvent, frozen=True, tag="grp.out"):
    """A coordinator puts a member out of its group. ``tp``: the offsets partition. ``client``: client id of the member.
    why: session (nothing was heard of it for its session time-out), join (it did not join a rebalance in time), sync
    (it did not ask in time what it is assigned), leave (it, or somebody for it, asked to leave). ``waits``: nobody has
    answered its JoinGroup or SyncGroup yet. ``is_new``: it has never been in a generation."""

    tp: str
    group: str
    coordinator_epoch: int
    member: str
    client: str
    why: OutReason
    waits: bool = False
    is_new: bool = False


class GrpCommit(TraceEvent, frozen=True, tag="grp.commit"):
    """A coordinator decided on one partition of an OffsetCommit, or of the offsets that it removes. ``tp``: that was
    committed. ``member``, ``generation``: as the request names them ("" and -1: a group without members).
    ``offset``, ``leader_epoch``, ``metadata_epoch``: the entry. ``error``: 0: appended, which is not yet committed.
    ``log_offset``: of the record in ``offsets_tp``, -1 refused. A tombstone, by expiry or deletion, has offset -1 and
    no member. ``producer_id``, ``producer_epoch``: of a TxnOffsetCommit, which takes effect when its transaction is
    committed: -1 of all others. ``version``: of the request, -1 of none: lower ones carry less of the entry.
    ``expires_ms``: when the position expires, by the coordinator's wall clock, as old requests may say; -1 it does so
    as the broker is configured."""

    tp: str
    group: str
    offsets_tp: str
    coordinator_epoch: int
    member: str
    generation: int
    offset: int
    leader_epoch: int = -1
    metadata_epoch: int = -1
    error: int = 0
    log_offset: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    version: int = -1
    expires_ms: int = -1


class GrpLoad(TraceEvent, frozen=True, tag="grp.load"):
    """A broker has loaded the offsets partition ``tp``, as its leader in ``coordinator_epoch``, or gave up what it had
    of it (``loaded`` False). ``end``: the log was read up to here. ``offsets``: group -> topic partition -> entry;
    ``groups``: group -> its state and generation; ``members``, ``assignment``, ``subscribed``: group -> what
    ``GrpGen`` has under these names; all as they are in memory afterwards (not told when given up). ``waiting``: member
    ids whose JoinGroup or SyncGroup nobody has answered when it was given up."""

    tp: str
    coordinator_epoch: int
    loaded: bool
    end: int = -1
    offsets: dict[str, dict[str, Entry]] = {}
    groups: dict[str, tuple[GroupState, int]] = {}
    members: dict[str, dict[str, str]] = {}
    assignment: dict[str, dict[str, list[str]]] = {}
    waiting: list[str] = []
    subscribed: dict[str, dict[str, list[str]]] = {}


class GrpFetch(TraceEvent, frozen=True, tag="grp.fetch"):
    """A coordinator answered an OffsetFetch of one group. ``error``: of the group. ``offsets``: topic partition ->
    entry, ``NO_ENTRY`` where nothing is committed; partitions with an error of their own are left out, and those
    of which something is committed for another topic of their name. ``stable_end``: with RequireStable: what was
    written below this offset of ``offsets_tp`` is told, as it was when that was asked; -1 without. ``version``: of the
    request: answers of lower ones carry less of an entry."""

    group: str
    offsets_tp: str
    coordinator_epoch: int
    error: int
    offsets: dict[str, Entry]
    stable_end: int = -1
    version: int = -1


OwnReason = Literal["assign", "revoke", "lost", "leave", "join"]


class ConsOwn(TraceEvent, frozen=True, tag="cons.own"):
    """What a member of a group owns changed. ``owned``: from now on; ``added``, ``revoked``, ``lost``: what differs.
    ``member``, ``generation``: as the member knows them. reason: assign (a SyncGroup answer), revoke (before it joins
    again), lost (it was fenced, or its session is over), leave (the application closes it, whatever it owned), join
    (the application makes a new consumer after it closed one)."""

    group: str
    member: str
    generation: int
    owned: list[str]
    added: list[str] = []
    revoked: list[str] = []
    lost: list[str] = []
    reason: OwnReason = "assign"


class ConsStall(TraceEvent, frozen=True, tag="cons.stall"):
    """The application of a group's member does not poll from now on (begin), or polls again (end)."""

    group: str
    phase: Literal["begin", "end"]


class ConsClose(TraceEvent, frozen=True, tag="cons.close"):
    """The application begins to close the consumer, which commits first, and then leaves (``cons.own``). ``member``,
    ``generation``: as the member knows them. ``stable``: it has its assignment, and is not joining. ``error``: code of
    the error that ended the membership for good, 0 none. Applications that commit in transactions record none."""

    group: str
    member: str
    generation: int
    stable: bool
    error: int = 0


GroupEvent = GrpGen | GrpOut | GrpCommit | GrpLoad | GrpFetch | ConsOwn | ConsStall | ConsClose
