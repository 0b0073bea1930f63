"""One voter's corner of a state: the voter, its timers and its disk. Each is kept once, and so is each step from it.

Most interleavings repeat the same steps of a voter: what a *place* does with an input is worked out once, from the
voter's own code, and looked up from then on. That is where the speed comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.log.batch import Batch
from actors.node.api_versions import api_versions_response
from actors.node.codec import decode, encode
from actors.node.effects import (
    AnyEffect,
    Append,
    Call,
    CancelTimer,
    Choose,
    Close,
    Delete,
    DropHead,
    Record,
    Replace,
    Reply,
    SetTimer,
    Sync,
    Truncate,
    Write,
)
from actors.node.events import (
    Answered,
    AnyEvent,
    Chosen,
    Disconnected,
    Failed,
    Invoked,
    Received,
    Started,
    Synced,
    TimedOut,
)
from actors.node.messages import AnyMessage
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
from krift.v1.api_versions import ApiVersionsRequest, ApiVersionsResponse
from orchestrator.exploration.voter import APPEND, NOW_MS, VoterNode, normalise

PAUSES = (BACKOFF, FETCH_BACKOFF, RECONNECT)
"""Timers that end a pause after something failed. With a frozen clock a pause is over at once."""

Input = tuple[Any, ...]
"""What happens to a voter: ("timer", name), ("synced", file), ("request", caller, connection, message),
("orphan", ...) the same from a connection that is gone, ("answered", call, message), ("failed", call...),
("gone", connection), ("append",), ("restart", (file, writes that survive)...)."""

Entry = tuple[int, int, int]
"""A batch: exclusive end, epoch, prefix hash at the end."""


class DiskFile(NamedTuple):
    """``contents``: (number of the write, what the file holds after it), the first of which survives power loss; the
    others are not synced. ``syncs``: the writes up to which a Sync is open, oldest first."""

    name: str
    contents: tuple[tuple[int, tuple[bytes, ...]], ...]
    syncs: tuple[int, ...] = ()


class Place(NamedTuple):
    """``node``: the voter, encoded. ``timers``: those that are set, sorted."""

    node: bytes
    timers: tuple[str, ...]
    files: tuple[DiskFile, ...]


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


class Outcome(NamedTuple):
    """What a place does with an input. ``renamed``: old -> new numbers of its calls, where they changed; ``served``:
    the name it was given for the connection of a request; ``calls``: (peer, connection, call, message); ``replies``:
    (connection, message). ``error``: a promise of one voter alone that was broken. ``marks``: what was seen.
    ``number``: of this outcome."""

    place: int
    renamed: tuple[tuple[int, int], ...]
    served: str
    calls: tuple[tuple[str, str, int, int], ...]
    replies: tuple[tuple[str, int], ...]
    error: str
    marks: tuple[str, ...]
    number: int = -1


class _Run:
    """One way that a step goes; ``todo``: events that the voter is owed at once."""

    def __init__(self, node: VoterNode, timers: set[str], files: dict[str, DiskFile], todo: list[AnyEvent]) -> None:
        self.node, self.timers, self.files, self.todo = node, timers, files, todo
        self.calls: list[Call] = []
        self.replies: list[Reply] = []
        self.records: list[AnyTraceEvent] = []
        self.error = ""

    def fork(self, value: Chosen) -> _Run:
        """The same, with this number drawn."""
        other = _Run(decode(encode(self.node), VoterNode), set(self.timers), dict(self.files), [value, *self.todo])
        other.calls, other.replies, other.records = list(self.calls), list(self.replies), list(self.records)
        return other


class Messages:
    """Messages by number: equal ones have one number, and travel as one object, which nobody changes."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self.all: list[Any] = []

    def number(self, message: AnyMessage) -> int:
        """The number of a message."""
        key = encode(message)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.all)
            self.all.append(message)
        return found


class Places:
    """All places of all voters by number, and the steps between them. ``looking``: a voter that knows no leader looks
    for it with a Fetch to whichever voter is drawn; else it waits to be told."""

    def __init__(self, specs: Sequence[NodeSpec], looking: bool) -> None:
        self.messages = Messages()
        self.all: list[Place] = []
        self.facts: list[Facts] = []
        self.facts_number: list[int] = []
        self._facts_numbers: dict[Facts, int] = {}
        self._outcome_numbers: dict[Outcome, int] = {}
        self.specs = specs
        self._looking = looking
        self._numbers: dict[Place, int] = {}
        self._steps: dict[tuple[int, int, Input], tuple[Outcome, ...]] = {}

    @property
    def steps(self) -> int:
        """How many steps were worked out."""
        return len(self._steps)

    def start(self, voter: int) -> tuple[Outcome, ...]:
        """The first start of a voter, with an empty disk."""
        return self._numbered(self._outcomes(self._started(voter, {}), "", None))

    def step(self, voter: int, place: int, event: Input) -> tuple[Outcome, ...]:
        """What can come of an input: one outcome for each number that is drawn."""
        key = (voter, place, event)
        found = self._steps.get(key)
        if found is None:
            run, served = self._begin(voter, self.all[place], event)
            before = None if event[0] == "restart" else self.facts[place]
            found = self._outcomes(run, served, before)
            if event[0] == "restart":
                found = tuple(self._after_restart(outcome) for outcome in found)
            found = self._steps[key] = self._numbered(found)
        return found

    def records(self, voter: int, place: int, event: Input | None) -> list[tuple[Outcome, list[AnyTraceEvent]]]:
        """The same, with the trace events; None: the first start."""
        if event is None:
            run, served, before = self._started(voter, {}), "", None
        else:
            run, served = self._begin(voter, self.all[place], event)
            before = None if event[0] == "restart" else self.facts[place]
        return [(self._outcome(done, served, before), done.records) for done in self._carry_out(run)]

    # ---- inside ------------------------------------------------------------------------------------------

    def _numbered(self, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        numbers = self._outcome_numbers
        return tuple(each._replace(number=numbers.setdefault(each, len(numbers))) for each in outcomes)

    def _begin(self, voter: int, place: Place, event: Input) -> tuple[_Run, str]:
        files = {file.name: file for file in place.files}
        if event[0] == "restart":
            kept = {name: files[name].contents[survives][1] for name, survives in event[1:]}
            return self._started(voter, kept), ""
        run = _Run(decode(place.node, VoterNode), set(place.timers), files, [])
        served = ""
        match event:
            case ("timer", str(name)):
                run.timers.discard(name)
                run.todo = [TimedOut(name)]
            case ("synced", str(name)):
                run.todo = [Synced(name, _complete(files, name))]
            case ("request" | "orphan", str(caller), str(connection), int(message)):
                name = _free_name(f"<{caller}:{connection}", place)
                run.todo = [Received(name, self.messages.all[message])]
                if event[0] == "request":
                    served = name
                else:  # nobody is there to hear the answer
                    run.todo.append(Disconnected(name))
            case ("answered", int(call), int(message)):
                run.todo = [Answered(call, self.messages.all[message])]
            case ("failed", *calls):
                run.todo = [Failed(call, "disconnect") for call in calls if isinstance(call, int)]
            case ("gone", str(name)):
                run.todo = [Disconnected(name)]
                run.timers = {timer for timer in run.timers if not timer.endswith("/" + name)}
            case _:
                run.todo = [Invoked(APPEND, APPEND)]
        return run, served

    def _started(self, voter: int, disk: dict[str, tuple[bytes, ...]]) -> _Run:
        files = {name: DiskFile(name, ((0, content),)) for name, content in disk.items() if content}
        image = {name: list(content) for name, content in disk.items() if content}
        return _Run(VoterNode(), set(), files, [Started(self.specs[voter], 0, image)])

    def _outcomes(self, run: _Run, served: str, before: Facts | None) -> tuple[Outcome, ...]:
        return tuple(dict.fromkeys(self._outcome(done, served, before) for done in self._carry_out(run)))

    def _carry_out(self, run: _Run) -> list[_Run]:
        """Give a voter what it is owed, and carry out what it asks for."""
        open_runs, done = [run], []
        while open_runs:
            run = open_runs.pop()
            while run.todo and not run.error:
                event = run.todo.pop(0)
                try:
                    effects = run.node.step(NOW_MS, event)
                except Exception as error:  # noqa: BLE001 any exception of a voter is a finding
                    run.error = f"it stopped: {str(error) or type(error).__name__}"
                    break
                drawn = 0
                for effect in effects:
                    drawn = max(drawn, self._take(run, effect))
                if drawn:
                    choice = next(effect.name for effect in effects if isinstance(effect, Choose))
                    open_runs += [run.fork(Chosen(choice, value)) for value in range(drawn)]
                    break
            else:
                done.append(run)
                continue
            if run.error:
                done.append(run)
        return done

    def _take(self, run: _Run, effect: AnyEffect) -> int:
        """Carry out one effect. Returns how many numbers may be drawn, 0 if it is no draw (or it is not answered)."""
        match effect:
            case Record(event):
                run.records.append(event)
            case SetTimer(name) if name.startswith(PAUSES):
                run.todo.append(TimedOut(name))
            case SetTimer(name):
                run.timers.add(name)
            case CancelTimer(name):
                run.timers.discard(name)
            case Write(name, number, operation):
                if isinstance(operation, Delete):
                    run.files.pop(name, None)
                else:
                    run.files[name] = _written(run.files.get(name, DiskFile(name, ((0, ()),))), number, operation)
            case Sync(name):
                file = run.files.get(name, DiskFile(name, ((0, ()),)))
                run.files[name] = file._replace(syncs=(*file.syncs, file.contents[-1][0]))
            case Call(call, peer, _, ApiVersionsRequest() as request):
                run.todo.append(Answered(call, self._versions_of(peer, request)))
            case Call(_, _, _, request):
                request.header.correlation_id = 0
                run.calls.append(effect)
            case Reply():
                run.replies.append(effect)
            case Choose(_, n):
                return n if self._looking else 0
            case Close():
                raise AssertionError("a voter closes no connection of another one")
        return 0

    def _versions_of(self, peer: str, request: ApiVersionsRequest) -> ApiVersionsResponse:
        """A connection is made in the step that needs it."""
        spec = next(spec for spec in self.specs if spec.name == peer)
        return api_versions_response(spec, CONTROLLER_APIS, request)

    def _outcome(self, run: _Run, served: str, before: Facts | None) -> Outcome:
        names = normalise(run.node)
        files = tuple(_settled(run.files[name], run.node) for name in sorted(run.files))
        place = Place(encode(run.node), tuple(sorted(run.timers)), files)
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self.all)
            self.all.append(place)
            facts = facts_of(run.node, files)
            self.facts.append(facts)
            self.facts_number.append(self._facts_numbers.setdefault(facts, len(self._facts_numbers)))
        calls = tuple(
            (call.peer, call.connection, names.get(call.call, -1), self.messages.number(call.request))
            for call in run.calls
        )
        replies = tuple(
            (reply.connection, self.messages.number(reply.response)) for reply in run.replies if reply.response
        )
        renamed = tuple((old, new) for old, new in sorted(names.items()) if old != new)
        after = self.facts[number]
        error = run.error or ("" if before is None else _stepped_back(before, after))
        return Outcome(number, renamed, served, calls, replies, error, tuple(sorted(_marks(run.records))))

    def _after_restart(self, outcome: Outcome) -> Outcome:
        facts = self.facts[outcome.place]
        if facts.epoch >= facts.stored:
            return outcome
        return outcome._replace(error=f"it started in epoch {facts.epoch}, and its disk has epoch {facts.stored}")


def _complete(files: dict[str, DiskFile], name: str) -> int:
    """The oldest open Sync of a file is done; returns the write up to which it covers."""
    file = files[name]
    upto = file.syncs[0]
    contents = file.contents
    while len(contents) > 1 and contents[1][0] <= upto:
        contents = contents[1:]
    files[name] = DiskFile(name, contents, file.syncs[1:])
    return upto


def _written(file: DiskFile, number: int, operation: Append | Truncate | DropHead | Replace) -> DiskFile:
    contents = file.contents
    last = contents[-1][1]
    match operation:
        case Append(entries):
            new = (*last, *entries)
        case Truncate(count):
            # What was cut never comes back, as in the sim.
            contents = tuple((write, content[:count]) for write, content in contents)
            new = last[:count]
        case DropHead(count):
            contents = tuple((write, content[count:]) for write, content in contents)
            new = last[count:]
        case Replace(content):
            new = (content,)
    return file._replace(contents=(*contents, (number, new)))


def _settled(file: DiskFile, node: VoterNode) -> DiskFile:
    """Where no write waits for its Sync, their numbers begin again."""
    if len(file.contents) > 1 or file.syncs or node.raft.queue:
        return file
    state = node.files.states.get(file.name)
    if state is not None:
        state.written = state.syncing = 0
    return file._replace(contents=((0, file.contents[0][1]),))


def _free_name(name: str, place: Place) -> str:
    """A name for a connection that the voter does not remember from another one."""
    while f"{name}>".encode() in place.node or any(timer.endswith(f"{name}>") for timer in place.timers):
        name += "'"
    return f"{name}>"


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
            durable = tuple(_entry(decode(entry, Batch)) for entry in content)
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
        tuple(_entry(batch) for batch in raft.log.batches),
        durable,
        stored.epoch,
        raft.quorum.waiting,
    )


def _entry(batch: Batch) -> Entry:
    return (batch.end_offset, batch.epoch, batch.ph)


def _stepped_back(before: Facts, after: Facts) -> str:
    """What never goes back within an incarnation, and did."""
    if after.epoch < before.epoch:
        return f"its epoch went back from {before.epoch} to {after.epoch}"
    if after.high_watermark < before.high_watermark:
        return f"its high watermark went back from {before.high_watermark} to {after.high_watermark}"
    return ""


def _marks(records: list[AnyTraceEvent]) -> set[str]:
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
