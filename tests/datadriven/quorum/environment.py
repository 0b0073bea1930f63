"""Verbs of the quorum's transcripts.

Nodes are named c1, c2, ... (controllers) and b1, ... (brokers). What a verb prints is every trace event of the quorum
and every message, in order; a line ``a -> b =Vote ...`` is an answer. A voter that was never started is scripted:
requests to it wait for the verb ``answer``. Messages move with ``stabilize`` or ``run`` only.
"""

from __future__ import annotations

from typing import Any

from actors.log.batch import EMPTY_PREFIX_HASH, Batch, LogRecord, make_batch
from actors.node.codec import decode, encode
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, AnyResponse
from actors.node.spec import METADATA_TOPIC, METADATA_TOPIC_ID, ClusterSpec
from actors.node.step import Step
from actors.node.turn import NodeTurn
from actors.quorum.quorum_state import role_name
from actors.quorum.quorum_state_store import QUORUM_STATE_FILE, ElectionState, write_election_state
from actors.quorum.raft_client import METADATA_LOG_FILE
from actors.quorum.roles import Follower, Prospective, Unattached
from actors.quorum.snapshots import CHECKPOINT_SUFFIX, Snapshot, write_snapshot
from actors.quorum.voter_set import ReplicaKey, endpoint
from krift.v1.common import LeaderAndEpoch
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.quorum import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveRaftVoterRequest,
    SnapshotId,
    SnapshotId as WireSnapshotId,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoteRequest,
    VoteResponse,
)
from krift.v1.records import MetadataRecord, NoOpRecord, Record, RecordBatch
from krift.v1.wire import to_bytes
from tests.datadriven.quorum.members import Letter, Member, Quorum
from tests.datadriven.quorum.rendering import describe_message, short, who
from tests.datadriven.runner import Command

TIMERS = {
    "election": "raft/election",
    "fetch": "raft/fetch-timeout",
    "check-quorum": "raft/check-quorum",
    "begin-quorum": "raft/begin-quorum",
    "linger": "raft/append-linger",
    "fetch-backoff": "raft/fetch-backoff",
    "update-voter": "raft/update-voter",
    "voter-change": "raft/voter-change",
    "clean": "raft/clean-snapshots",
}


def full_name(name: str) -> str:
    """``controller-1`` for c1."""
    return f"{ {'c': 'controller', 'b': 'broker'}[name[0]] }-{name[1:]}"


def node_id(name: str) -> int:
    """The id of c1, b1, or of a plain number."""
    if name == "none":
        return -1
    if name[0] not in "cb":
        return int(name)
    return int(name[1:]) + (100 if name[0] == "c" else 0)


def log_entries(batches: list[str]) -> list[bytes]:
    """A log's file with batches ``epoch:records``."""
    entries, ph, base = [], EMPTY_PREFIX_HASH, 0
    for batch in batches:
        epoch, count = (int(part) for part in batch.split(":"))
        made = make_batch(ph, base, epoch, [LogRecord(0) for _ in range(count)])
        entries.append(encode(made))
        ph, base = made.ph, made.end_offset
    return entries


def snapshot_of(entries: list[bytes], end: int, epoch: int) -> Snapshot:
    """A snapshot that stands for what these batches have below ``end``, or for something else if they have less."""
    batches: list[Batch] = [decode(entry, Batch) for entry in entries]
    ph = next((batch.ph for batch in batches if batch.end_offset == end), end)
    return Snapshot(end, epoch, 0, ph, 0, [], [NO_OP] * 4)


NO_OP = to_bytes(MetadataRecord(no_op=NoOpRecord()))


class Environment:
    """One transcript's quorum."""

    def __init__(self) -> None:
        self.quorum = Quorum(ClusterSpec("krift", [101, 102, 103], [1]))
        self.requests = 0

    def _told(self) -> str:
        lines, self.quorum.lines = self.quorum.lines, []
        return "\n".join(lines)

    def _member(self, command: Command, word: int = 0) -> Member:
        return self.quorum.members[full_name(command.words[word])]

    # ---- the cluster -----------------------------------------------------------------------------------------

    def verb_cluster(self, command: Command) -> str:
        """cluster voters=3 [spare=1] features=(kip-996=off) config=(metadata.max.retention.ms=5) [timers]: the shape
        of the quorum."""
        voters = list(range(101, 101 + command.number("voters", 3)))
        spare = [voters[-1] + 1 + number for number in range(command.number("spare", 0))]
        directories = {voter: f"dir-{who(voter)}" for voter in voters}
        self.quorum.cluster = ClusterSpec("krift", voters, [1], [], spare, directories)
        self.quorum.features = dict(item.split("=") for item in command.many("features", "()"))
        pairs = (item.split("=") for item in command.many("config", "()"))
        self.quorum.config = {key: int(value) for key, value in pairs}
        self.quorum.show_timers = command.has("timers")
        return ""

    def verb_cluster_id(self, command: Command) -> str:
        """cluster-id c3 other: what is in the meta.properties of a node."""
        name, cluster_id = command.words
        self.quorum.cluster_ids[full_name(name)] = cluster_id
        return ""

    def verb_versions(self, command: Command) -> str:
        """versions c2 Vote=0-1: what a node speaks."""
        api = next(iter(command.arguments))
        bounds = [int(part) for part in command.text(api).split("-")]
        self.quorum.versions.setdefault(full_name(command.words[0]), {})[api] = bounds
        return ""

    def verb_configure(self, command: Command) -> str:
        """configure c4 advertised.listeners=elsewhere [auto-join]: what a node is configured with, from its next start
        on."""
        given: dict[str, Any] = {key: command.text(key) for key in command.arguments}
        if command.has("auto-join"):
            given["controller.quorum.auto.join.enable"] = True
        self.quorum.configs[full_name(command.words[0])] = given
        return ""

    def verb_disk(self, command: Command) -> str:
        """disk c1 epoch=3 leader=c2 voted=c1 log=(1:3,2:1) snapshots=(3:1) start=3: what a node will find when it
        starts. A snapshot is end:epoch; what the log has before ``start`` is gone."""
        disk = self.quorum.disks.setdefault(full_name(command.words[0]), {})
        if "epoch" in command.arguments:
            voted = node_id(command.text("voted", "none"))
            key = None if voted < 0 else ReplicaKey(voted)
            election = ElectionState(command.number("epoch"), node_id(command.text("leader", "none")), key)
            disk[QUORUM_STATE_FILE] = [write_election_state(election, self.quorum.cluster.voters, 0)]
        entries = log_entries(command.many("log", "()"))
        for file in [file for file in disk if file.endswith(CHECKPOINT_SUFFIX)]:
            del disk[file]
        for name in command.many("snapshots", "()"):
            made = snapshot_of(entries, *(int(part) for part in name.split(":")))
            disk[made.id.file] = [write_snapshot(made)]
        batches: list[Batch] = [decode(entry, Batch) for entry in entries]
        start = command.number("start", 0)
        disk[METADATA_LOG_FILE] = [encode(batch) for batch in batches if batch.base_offset >= start]
        return ""

    def verb_start(self, command: Command) -> str:
        """start c1 c2 defects=(double-vote): begin incarnations."""
        for name in command.words:
            self.quorum.start(full_name(name), command.many("defects", "()"))
        return self._told()

    def verb_crash(self, command: Command) -> str:
        """crash c1: kill a node; its disk stays."""
        self.quorum.crash(full_name(command.words[0]))
        return self._told()

    def verb_wipe(self, command: Command) -> str:
        """wipe c1 [directory=dir-new]: kill a node and empty its disk."""
        name = full_name(command.words[0])
        if "directory" in command.arguments:
            self.quorum.directories[name] = command.text("directory")
        self.quorum.crash(name)
        self.quorum.disks[name], self.quorum.durable[name] = {}, {}
        return self._told()

    def verb_power_loss(self, command: Command) -> str:
        """power-loss c1: kill a node, and with it all that no finished Sync covers."""
        self.quorum.lose_power(full_name(command.words[0]))
        return self._told()

    def verb_hold_syncs(self, command: Command) -> str:
        """hold-syncs c1: its Syncs stay open until ``sync c1``."""
        self._member(command).manual_sync = True
        return ""

    def verb_sync(self, command: Command) -> str:
        """sync c1: the open Syncs are done."""
        member = self._member(command)
        held, member.held_syncs = member.held_syncs, []
        for synced in held:
            self.quorum.report_sync(member, synced)
        return self._told()

    def verb_cut(self, command: Command) -> str:
        """cut c1 c2: nothing gets from the first to the second node, nor back."""
        one, other = (full_name(name) for name in command.words)
        self.quorum.cut |= {(one, other), (other, one)}
        return ""

    def verb_heal(self, command: Command) -> str:
        """heal: no cut is left."""
        self.quorum.cut = set()
        return ""

    # ---- moving on -------------------------------------------------------------------------------------------

    def verb_stabilize(self, command: Command) -> str:
        """stabilize: deliver messages until there are none. quiet: without a word."""
        self.quorum.stabilize()
        told = self._told()
        return "" if command.has("quiet") else told

    def verb_run(self, command: Command) -> str:
        """run ms=1000 [quiet | roles]: let time pass, timers fire and messages arrive."""
        self.quorum.run_for(command.number("ms"))
        told = self._told()
        if command.has("roles"):
            return "\n".join(line for line in told.splitlines() if line.split()[1] in ("role", "vote", "high"))
        return "" if command.has("quiet") else told

    def verb_timeout(self, command: Command) -> str:
        """timeout c1 election: a timer fires now."""
        self.quorum.fire(self._member(command), TIMERS[command.words[1]])
        return self._told()

    def verb_lose(self, command: Command) -> str:
        """lose c1 [fetch|piece] to=c2 reason=timeout: the newest request (Fetch, FetchSnapshot) gets no answer."""
        source, target = full_name(command.words[0]), full_name(command.text("to"))
        letter = self._take(source, target, command)
        self.quorum.fail(letter.source, letter.call, command.text("reason", "timeout"))
        return self._told()

    def verb_append(self, command: Command) -> str:
        """append c1 n=2: the leader is given records; prints the offset of the last."""
        member = self._member(command)
        records = [MetadataRecord(no_op=NoOpRecord()) for _ in range(command.number("n", 1))]
        offsets: list[int | None] = []
        self.quorum.step(member, lambda turn: offsets.append(member.raft.append(turn, records)))
        return f"offset {offsets[0]}\n{self._told()}"

    def verb_shutdown(self, command: Command) -> str:
        """shutdown c1: a member is asked to stop; it says when it may."""
        member = self._member(command)
        self.quorum.step(member, member.raft.begin_shutdown)
        return self._told()

    def verb_snapshot(self, command: Command) -> str:
        """snapshot c1: its state machine takes what is committed and makes a snapshot, or is told that none is due."""
        member, told = self._member(command), self.verb_commits(command)
        due: list[bool] = []

        def make(turn: NodeTurn) -> None:
            due.append(member.raft.is_snapshot_due(turn))
            if due[0]:
                member.raft.create_snapshot(turn, [NO_OP] * 4, 0)

        self.quorum.step(member, make)
        return "\n".join([told, self._told() if due[0] else "none is due"])

    def verb_snapshots(self, command: Command) -> str:
        """snapshots c1: those that it has, and where its log starts."""
        raft = self._member(command).raft
        names = " ".join(f"({stored.id.end},{stored.id.epoch})" for stored in raft.snapshots.stored)
        on_disk = sum(file.endswith(CHECKPOINT_SUFFIX) for file in self._member(command).disk)
        return f"start={raft.log.start_offset} end={raft.end_offset} snapshots={names or 'none'} files={on_disk}"

    # ---- looking ---------------------------------------------------------------------------------------------

    def verb_state(self, command: Command) -> str:
        """state [c1 ...]: role, epoch, leader, log end and high watermark."""
        names = [full_name(name) for name in command.words] or sorted(self.quorum.members)
        lines = []
        for name in names:
            raft = self.quorum.members[name].raft
            role = raft.quorum.role
            voted = role.voted if isinstance(role, Unattached | Prospective | Follower) else None
            extra = "" if voted is None else f" voted={who(voted.id)}"
            leader = f"leader={who(raft.quorum.leader_id)}{extra}"
            lines.append(
                f"{short(name)} {role_name(role)} epoch={role.epoch} {leader} end={raft.end_offset} "
                f"hw={raft.high_watermark}"
            )
        return "\n".join(lines)

    def verb_log(self, command: Command) -> str:
        """log c1: its batches."""
        batches = self._member(command).raft.log.batches
        return "\n".join(
            f"{batch.base_offset}-{batch.last_offset} epoch={batch.epoch}{' control' if batch.is_control else ''}"
            for batch in batches
        )

    def verb_file(self, command: Command) -> str:
        """file c1: what is in its quorum-state."""
        return self.quorum.disks[full_name(command.words[0])][QUORUM_STATE_FILE][0].decode()

    def verb_timers(self, command: Command) -> str:
        """timers c1: those that run, with the ranges they were set with."""
        member = self._member(command)
        ranges = ((name, *member.ranges[name]) for name in sorted(member.timers))
        return "\n".join(f"{name} {low}" + (f"-{high}" if high != low else "") for name, low, high in ranges)

    def verb_replicas(self, command: Command) -> str:
        """replicas c1: what the leader knows of the others."""
        role = self._member(command).raft.quorum.role
        replicas = getattr(role, "replicas", {})
        observers = getattr(role, "observers", {})
        lines = [f"{who(replica)} end={replicas[replica].end_offset}" for replica in sorted(replicas)]
        for key in sorted(observers):
            replica, _, directory = key.partition("/")
            lines.append(f"observer {who(int(replica))} {directory} end={observers[key].end_offset}")
        return "\n".join(lines)

    def verb_voters(self, command: Command) -> str:
        """voters c1: those in force in its log, and the level of kraft.version."""
        records = self._member(command).raft.quorum.records
        entry, level = records.last_voters, records.kraft_version
        where = "" if entry is None else f" offset={entry.offset}"
        named = (f"{who(voter)}/{records.voters.node(voter).directory_id or '?'}" for voter in records.voters.ids)
        hosts = {node.host for node in records.voters.nodes.values()} - {full_name(who(v)) for v in records.voters.ids}
        return f"{','.join(named)}{where} kraft.version={level}" + "".join(f" host={host}" for host in sorted(hosts))

    def verb_commits(self, command: Command) -> str:
        """commits c1: what the state machine is given, and who it hears is leader."""
        member = self._member(command)
        raft, turn = member.raft, NodeTurn(Step(self.quorum.now_ms), member.files, member.net)
        loaded = raft.take_snapshot(turn)
        lines = [] if loaded is None else [f"load ({loaded.end},{loaded.epoch})"]
        lines += [f"commit {batch.base_offset}-{batch.last_offset}" for batch in raft.take_commits(turn)]
        changes = raft.take_leader_changes()
        return "\n".join(
            lines
            + [f"leader {who(change.leader_id)} epoch={change.epoch} start={change.epoch_start}" for change in changes]
        )

    def verb_waiting(self, command: Command) -> str:
        """waiting: the requests that scripted peers have not answered."""
        return "\n".join(
            describe_message(letter.source, letter.target, letter.message) or "ApiVersions"
            for letter in self.quorum.queue
        )

    # ---- scripted peers --------------------------------------------------------------------------------------

    def _request(self, command: Command, request: AnyRequest, version: int) -> str:
        """Send a request of the transcript's own; prints what it leads to."""
        request.header.api_version = version  # type: ignore[attr-defined]
        self.requests += 1
        member = self.quorum.members[full_name(command.text("to"))]
        self.quorum.request(member, f"test>{self.requests}", request)
        return self._told()

    def verb_vote(self, command: Command) -> str:
        """vote to=c1 from=c2 epoch=2 last=(1,4) [pre] [voter=c1] [directory=..] [voter-directory=..] [cluster=..]."""
        version = command.number("version", 2)
        last_epoch, last_offset = command.numbers("last", "(0,0)")
        request = VoteRequest(
            cluster_id=command.text("cluster", "krift"),
            replica_epoch=command.number("epoch"),
            replica_id=node_id(command.text("from")),
            last_offset_epoch=last_epoch,
            last_offset=last_offset,
        )
        if version >= 1:
            request.replica_directory_id = command.text("directory", f"dir-{command.text('from')}")
            request.voter_id = node_id(command.text("voter", command.text("to")))
            request.voter_directory_id = command.text("voter-directory", "")
        if version >= 2:
            request.pre_vote = command.has("pre")
        return self._request(command, request, version)

    def verb_begin(self, command: Command) -> str:
        """begin to=c1 from=c2 epoch=2 [voter=c1] [version=1]."""
        version = command.number("version", 1)
        request = BeginQuorumEpochRequest(
            cluster_id=command.text("cluster", "krift"),
            leader_id=node_id(command.text("from")),
            leader_epoch=command.number("epoch"),
        )
        if version >= 1:
            request.voter_id = node_id(command.text("voter", command.text("to")))
        return self._request(command, request, version)

    def verb_end(self, command: Command) -> str:
        """end to=c1 from=c2 epoch=2 preferred=(c1,c3) [directory=..] [version=1]: the directory is that of all."""
        version = command.number("version", 1)
        preferred = [node_id(name) for name in command.many("preferred", "()")]
        request = EndQuorumEpochRequest(
            cluster_id=command.text("cluster", "krift"),
            leader_id=node_id(command.text("from")),
            leader_epoch=command.number("epoch"),
        )
        if version == 0:
            request.preferred_successors.extend(preferred)
        else:
            request.preferred_candidates.extend(
                EndQuorumEpochRequest.ReplicaInfo(
                    candidate_id=voter, candidate_directory_id=command.text("directory", "")
                )
                for voter in preferred
            )
        return self._request(command, request, version)

    def verb_fetch(self, command: Command) -> str:
        """fetch to=c1 from=c2 epoch=2 offset=6 last-epoch=2 [wait=500] [hw=..] [version=18 | seed]."""
        seed = command.has("seed")
        version = 12 if seed else command.number("version", 18)
        request = FetchRequest(max_wait_ms=command.number("wait", 500), max_bytes=1 << 20)
        topic = FetchRequest.FetchTopic()
        request.topics.append(topic)
        replica = node_id(command.text("from"))
        partition = FetchRequest.FetchPartition(
            current_leader_epoch=command.number("epoch"),
            fetch_offset=command.number("offset"),
        )
        topic.partitions.append(partition)
        cluster_id, last_epoch = command.text("cluster", "krift"), command.number("last-epoch")
        if seed:
            request.seed_cluster_id, partition.seed_last_fetched_epoch = cluster_id, last_epoch
        else:
            partition.last_fetched_epoch = last_epoch
            if version >= 12:
                request.cluster_id = cluster_id
        if version >= 13:
            topic.topic_id = METADATA_TOPIC_ID
        else:
            topic.topic = METADATA_TOPIC
        if version >= 15:
            request.replica_state = FetchRequest.ReplicaState(replica_id=replica)
        else:
            request.replica_id = replica
        if version >= 17:
            partition.replica_directory_id = command.text("directory", f"dir-{command.text('from')}")
        if "hw" in command.arguments:
            partition.high_watermark = command.number("hw")
        return self._request(command, request, version)

    def verb_add_voter(self, command: Command) -> str:
        """add-voter to=c1 voter=c4 [directory=..] [host=..] [no-ack] [version=1]: an operator adds a voter."""
        version, voter = command.number("version", 1), node_id(command.text("voter"))
        request = AddRaftVoterRequest(
            cluster_id=command.text("cluster", "krift"),
            timeout_ms=1000,
            voter_id=voter,
            voter_directory_id=command.text("directory", f"dir-{command.text('voter')}"),
        )
        if not command.has("no-listeners"):
            request.listeners.append(endpoint(max(voter, 0), command.text("host", "")))
        if version >= 1:
            request.ack_when_committed = not command.has("no-ack")
        return self._request(command, request, version)

    def verb_remove_voter(self, command: Command) -> str:
        """remove-voter to=c1 voter=c4 [directory=..]: an operator removes a voter."""
        request = RemoveRaftVoterRequest(
            cluster_id=command.text("cluster", "krift"),
            voter_id=node_id(command.text("voter")),
            voter_directory_id=command.text("directory", f"dir-{command.text('voter')}"),
        )
        return self._request(command, request, 0)

    def verb_update_voter(self, command: Command) -> str:
        """update-voter to=c1 voter=c2 epoch=1 [directory=..] [host=..] [supports=(0,1)]: a voter says what it is."""
        voter = node_id(command.text("voter"))
        low, high = command.numbers("supports", "(0,1)")
        request = UpdateRaftVoterRequest(
            cluster_id=command.text("cluster", "krift"),
            current_leader_epoch=command.number("epoch"),
            voter_id=voter,
            voter_directory_id=command.text("directory", f"dir-{command.text('voter')}"),
            min_supported_k_raft_version=low,
            max_supported_k_raft_version=high,
        )
        if not command.has("no-listeners"):
            request.listeners.append(endpoint(max(voter, 0), command.text("host", "")))
        return self._request(command, request, 0)

    def verb_leave(self, command: Command) -> str:
        """leave 3: whoever sent the transcript's third request hangs up."""
        connection = f"test>{command.words[0]}"
        for member in self.quorum.members.values():
            member.raft.on_disconnected(connection)
        return ""

    def verb_fetch_snapshot(self, command: Command) -> str:
        """fetch-snapshot to=c1 from=c2 epoch=2 id=(3,2) position=0 [max=100] [topic=..] [partition=..] [version=1]."""
        end, epoch = command.numbers("id")
        request = FetchSnapshotRequest(
            cluster_id=command.text("cluster", "krift"),
            replica_id=node_id(command.text("from")),
            max_bytes=command.number("max", 2**31 - 1),
            topic=command.text("topic", METADATA_TOPIC),
            partition=command.number("partition", 0),
            current_leader_epoch=command.number("epoch"),
            snapshot_id=SnapshotId(end_offset=end, epoch=epoch),
            position=command.number("position", 0),
        )
        return self._request(command, request, command.number("version", 1))

    def _take(self, source: str, target: str, command: Command) -> Letter:
        """The newest request from ``source`` to ``target``: a Fetch, a FetchSnapshot ("piece"), or another one."""
        fetch, piece = command.has("fetch"), command.has("piece")
        for letter in reversed(self.quorum.queue):
            if (letter.source, letter.target, letter.is_reply) == (source, target, False):
                kinds = isinstance(letter.message, FetchRequest), isinstance(letter.message, FetchSnapshotRequest)
                if kinds == (fetch, piece):
                    self.quorum.queue.remove(letter)
                    return letter
        raise AssertionError(f"no such request from {source} to {target} is under way")

    def verb_answer(self, command: Command) -> str:
        """answer c2 to=c1 [granted] [error=..] [top-error=..] epoch=.. leader=..: answer the newest request of c1
        (endpoint: to BeginQuorumEpoch, EndQuorumEpoch or UpdateRaftVoter, and say where the leader listens);
        answer c2 fetch to=c1 ... [hw=..] [diverging=(3,2)] [next=2] [snapshot=(9,3)] [records=(3:2)] [base=4]: its
        newest Fetch;
        answer c2 piece to=c1 ... id=(9,3) bytes=(0,20): its newest FetchSnapshot, with a part of it (-1: the end), or
        of none (unnamed)."""
        source, target = full_name(command.text("to")), full_name(command.words[0])
        letter = self._take(source, target, command)
        error = KafkaError[command.text("error", "NONE")]
        top = KafkaError[command.text("top-error", "NONE")]
        leader, epoch = node_id(command.text("leader", "none")), command.number("epoch", 0)
        endpoints = [endpoint(leader)] if command.has("endpoint") else []
        response: AnyResponse
        match letter.message:
            case VoteRequest():
                response = VoteResponse(
                    error_code=top,
                    partition_error_code=error,
                    leader_id=leader,
                    leader_epoch=epoch,
                    vote_granted=command.has("granted"),
                )
            case BeginQuorumEpochRequest():
                response = BeginQuorumEpochResponse(partition_error_code=error, leader_id=leader, leader_epoch=epoch)
                response.node_endpoints.extend(endpoints)
            case EndQuorumEpochRequest():
                response = EndQuorumEpochResponse(partition_error_code=error, leader_id=leader, leader_epoch=epoch)
                response.node_endpoints.extend(endpoints)
            case UpdateRaftVoterRequest():
                told = UpdateRaftVoterResponse.CurrentLeader(leader_id=leader, leader_epoch=epoch)
                for each in endpoints:
                    told.host = each.host
                response = UpdateRaftVoterResponse(error_code=error, current_leader=told)
            case FetchSnapshotRequest():
                response = self._fetch_snapshot_response(command, error, leader, epoch)
            case _:
                response = self._fetch_response(command, error, leader, epoch)
        reply = Letter(letter.target, letter.source, letter.connection, letter.call, response, True)
        self.quorum.deliver(reply)
        return self._told()

    def _fetch_snapshot_response(self, command: Command, error: int, leader: int, epoch: int) -> FetchSnapshotResponse:
        known = LeaderAndEpoch(leader_id=leader, leader_epoch=epoch)
        response = FetchSnapshotResponse(partition_error_code=error, current_leader=known)
        if command.has("unnamed"):
            response.snapshot_id = WireSnapshotId(end_offset=-1, epoch=-1)
        elif not error:
            end, last_epoch = command.numbers("id")
            content = write_snapshot(snapshot_of([], end, last_epoch))
            first, last = command.numbers("bytes")
            response.snapshot_id = WireSnapshotId(end_offset=end, epoch=last_epoch)
            response.size, response.position = len(content), first
            response.unaligned_records = content[first : len(content) if last < 0 else last]
        return response

    def _fetch_response(self, command: Command, error: int, leader: int, epoch: int) -> FetchResponse:
        data = FetchResponse.PartitionData(error_code=error, high_watermark=command.number("hw", -1))
        data.current_leader = LeaderAndEpoch(leader_id=leader, leader_epoch=epoch)
        if "diverging" in command.arguments:
            parts, ends = command.numbers("diverging")
            data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=parts, end_offset=ends)
        if "next" in command.arguments:
            data.error_code, data.seed_next_fetch_offset = KafkaError.OFFSET_OUT_OF_RANGE, command.number("next")
        if "snapshot" in command.arguments:
            end, last = command.numbers("snapshot")
            data.snapshot_id = FetchResponse.SnapshotId(end_offset=end, epoch=last)
        base = command.number("base", 0)
        for batch in command.many("records", "()"):
            batch_epoch, count = (int(part) for part in batch.split(":"))
            data.records.append(
                RecordBatch(base_offset=base, partition_leader_epoch=batch_epoch, records=[Record()] * count)
            )
            base += count
        return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[data])])
