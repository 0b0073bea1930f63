"""What the exploration knows of voters as nodes: how they start, what their promises are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.log.batch import Batch
from actors.node.codec import decode, encode
from actors.node.events import AnyEvent, Invoked, Started
from actors.node.network_client import RECONNECT
from actors.node.spec import NodeSpec
from actors.quorum.follower_fetches import FETCH_BACKOFF
from actors.quorum.quorum_state import role_name
from actors.quorum.quorum_state_store import QUORUM_STATE_FILE, ElectionState, read_election_state
from actors.quorum.raft_client import METADATA_LOG_FILE
from actors.quorum.raft_state import BACKOFF
from actors.quorum.roles import Candidate, Leader, Resigned
from actors.trace.events import AnyTraceEvent, LogHw, LogTrunc, QRole, QVote
from actors.versions import CONTROLLER_APIS
from orchestrator.exploration.place import DiskFile, Entry, Input, OfTimer, entry_of, numbered_anew
from orchestrator.exploration.voter import APPEND, VoterNode, normalise

PAUSES = (BACKOFF, FETCH_BACKOFF, RECONNECT)
"""Timers that end a pause after something failed. With a frozen clock a pause is over at once."""


class Facts(NamedTuple):
    """What promises are judged by. ``voted``: id this voter knows it voted for in its epoch, -1 none. ``log`` and
    ``durable``: the log as the voter has it, and as power loss would leave it. ``stored``: epoch on its disk.
    ``waiting``: for its quorum-state to be synced."""

    role: str
    epoch: int
    leading: bool
    leader_id: int
    voted: int
    high_watermark: int
    epoch_start: int
    log: tuple[Entry, ...]
    durable: tuple[Entry, ...]
    stored: int
    waiting: bool

    @property
    def end(self) -> int:
        """Log end offset."""
        return self.log[-1][0] if self.log else 0


class Voters:
    """See ``Kind``. An input of voters alone is ("append",); ("restart", (file, writes that survive)...)."""

    word = "voter"
    apis = CONTROLLER_APIS

    def __init__(self, specs: Sequence[NodeSpec]) -> None:
        self._specs = specs

    def new(self) -> VoterNode:
        """A voter that nothing has happened to."""
        return VoterNode()

    def pack(self, node: VoterNode) -> bytes:
        """All of it."""
        return encode(node)

    def unpack(self, index: int, packed: bytes) -> VoterNode:
        """Inverse of ``pack``."""
        return decode(packed, VoterNode)

    def started(self, index: int, disk: dict[str, tuple[bytes, ...]], event: Input | None) -> list[AnyEvent]:
        """The start with what is on the disk."""
        return [Started(self._specs[index], 0, {name: list(content) for name, content in disk.items()})]

    def surviving(self, files: dict[str, DiskFile], event: Input) -> dict[str, tuple[bytes, ...]]:
        """What is synced, and the writes that the restart names."""
        return {name: files[name].contents[survives][1] for name, survives in event[1:]}

    def events(self, event: Input) -> list[AnyEvent]:
        """A leader has a record to append."""
        assert event == (APPEND,), event
        return [Invoked(APPEND, APPEND)]

    def of_timer(self, name: str) -> OfTimer:
        """Pauses are over at once."""
        return "over" if name.startswith(PAUSES) else "kept"

    def normalise(self, node: VoterNode) -> dict[int, int]:
        """See ``voter.normalise``."""
        return normalise(node)

    def settled(self, file: DiskFile, node: VoterNode) -> DiskFile:
        """Where no write waits for its Sync, their numbers begin again."""
        if len(file.contents) > 1 or file.syncs or node.raft.queue:
            return file
        return numbered_anew(file, node.files, file.contents[0][1])

    def facts(self, node: VoterNode, files: tuple[DiskFile, ...]) -> Facts:
        """What promises are judged by."""
        return facts_of(node, files)

    def wrong(self, before: Facts | None, after: Facts) -> str:
        """What never goes back within an incarnation, or with a restart, and did."""
        if before is None:
            if after.epoch < after.stored:
                return f"it started in epoch {after.epoch}, and its disk has epoch {after.stored}"
            return ""
        if after.epoch < before.epoch:
            return f"its epoch went back from {before.epoch} to {after.epoch}"
        if after.high_watermark < before.high_watermark:
            return f"its high watermark went back from {before.high_watermark} to {after.high_watermark}"
        return ""

    def marks(self, records: list[AnyTraceEvent]) -> set[str]:
        """What the events of a step show."""
        marks = set()
        for event in records:
            match event:
                case QVote(granted=granted, pre=pre):
                    marks.add(f"{'pre-vote' if pre else 'vote'} {'granted' if granted else 'refused'}")
                case QRole(role=("resigned" | "candidate") as role):
                    marks.add("leader resigned" if role == "resigned" else "candidate")
                case LogTrunc(reason="diverge"):
                    marks.add("divergence truncated")
                case LogHw(role="leader"):
                    marks.add("committed")
        return marks


def facts_of(node: VoterNode, files: tuple[DiskFile, ...]) -> Facts:
    """What promises are judged by."""
    raft = node.raft
    role = raft.quorum.role
    me = raft.config.node_id
    voted = getattr(role, "voted", None)
    own = isinstance(role, Candidate | Leader | Resigned)
    durable: tuple[Entry, ...] = ()
    stored = ElectionState()
    for file in files:
        content = file.contents[0][1]
        if file.name == METADATA_LOG_FILE:
            durable = tuple(entry_of(decode(entry, Batch)) for entry in content)
        elif file.name == QUORUM_STATE_FILE and content:
            stored = read_election_state(content[0])
    return Facts(
        role_name(role),
        role.epoch,
        isinstance(role, Leader) and role.started,
        raft.quorum.leader_id,
        me if own else -1 if voted is None else voted.id,
        raft.log.high_watermark,
        role.epoch_start if isinstance(role, Leader) else -1,
        tuple(entry_of(batch) for batch in raft.log.batches),
        durable,
        stored.epoch,
        raft.quorum.waiting,
    )
