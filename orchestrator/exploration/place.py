"""One node's corner of a state: the node, its timers and its disk. Each is kept once, and so is each step from it.

Most interleavings repeat the same steps of a node: what a *place* does with an input is worked out once, from the
node's own code, and looked up from then on. That is where the speed comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from actors.log.batch import Batch
from actors.node.api_versions import api_versions_response
from actors.node.codec import encode
from actors.node.effects import (
    AnyEffect,
    Append,
    Call,
    CancelTimer,
    Choose,
    Close,
    Delete,
    DropHead,
    Exit,
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
    Received,
    Synced,
    TimedOut,
)
from actors.node.files import Files
from actors.node.messages import AnyMessage, Api
from actors.node.spec import NodeSpec
from actors.trace.events import AnyTraceEvent
from krift.v1.api_versions import ApiVersionsRequest, ApiVersionsResponse

NOW_MS = 1_000
"""The clock stands still."""

Input = tuple[Any, ...]
"""What happens to a node: ("timer", name), ("synced", file), ("request", caller, connection, message),
("orphan", ...) the same from a connection that is gone, ("answered", call, message), ("failed", call...),
("gone", connection), ("restart", ...), or what its kind has besides."""

Entry = tuple[int, int, int]
"""A batch: exclusive end, epoch, prefix hash at the end."""


def entry_of(batch: Batch) -> Entry:
    """A batch of a log."""
    return (batch.end_offset, batch.epoch, batch.ph)


class DiskFile(NamedTuple):
    """``contents``: (number of the write, what the file holds after it), the first of which survives power loss; the
    others are not synced. ``syncs``: the writes up to which a Sync is open, oldest first."""

    name: str
    contents: tuple[tuple[int, tuple[bytes, ...]], ...]
    syncs: tuple[int, ...] = ()


class Place(NamedTuple):
    """``node``: the node, packed. ``timers``: those that are set, sorted."""

    node: bytes
    timers: tuple[str, ...]
    files: tuple[DiskFile, ...]


class Outcome(NamedTuple):
    """What a place does with an input. ``renamed``: old -> new numbers of its calls, where they changed; ``served``:
    the name it was given for the connection of a request; ``calls``: (peer, connection, call, message); ``replies``:
    (connection, message). ``error``: a promise of one node alone that was broken. ``marks``: what was seen.
    ``number``: of this outcome."""

    place: int
    renamed: tuple[tuple[int, int], ...]
    served: str
    calls: tuple[tuple[str, str, int, int], ...]
    replies: tuple[tuple[str, int], ...]
    error: str
    marks: tuple[str, ...]
    number: int = -1


class Steps(Protocol):
    """A node as the exploration drives it: see ``actors.node.contract.Node``. ``files``: of its writes."""

    files: Files

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Take one event."""


NodeT = TypeVar("NodeT", bound=Steps)
FactsT = TypeVar("FactsT")

OfTimer = Literal["over", "kept", "ignored"]
"""What becomes of a timer that is set: it fires at once, it may fire, or it never does."""


class Kind(Protocol[NodeT, FactsT]):
    """What the exploration has to know of a kind of nodes. ``apis``: what they serve; ``word``: what one is called."""

    word: str
    apis: tuple[Api, ...]

    def new(self) -> NodeT:
        """A node that nothing has happened to."""

    def pack(self, node: NodeT) -> bytes:
        """All of a node that can differ between two states."""

    def unpack(self, index: int, packed: bytes) -> NodeT:
        """Inverse of ``pack``, of the node with this index."""

    def started(self, index: int, disk: dict[str, tuple[bytes, ...]], event: Input | None) -> list[AnyEvent]:
        """The first events of an incarnation; ``event``: the restart, None for the first one."""

    def surviving(self, files: dict[str, DiskFile], event: Input) -> dict[str, tuple[bytes, ...]]:
        """What a restart leaves of the files."""

    def events(self, event: Input) -> list[AnyEvent]:
        """An input that only this kind has."""

    def of_timer(self, name: str) -> OfTimer:
        """What becomes of a timer."""

    def normalise(self, node: NodeT) -> dict[int, int]:
        """Bring a node into its normal form; returns old number -> new number of its calls."""

    def settled(self, file: DiskFile, node: NodeT) -> DiskFile:
        """A file in its normal form."""

    def facts(self, node: NodeT, files: tuple[DiskFile, ...]) -> FactsT:
        """What promises are judged by."""

    def wrong(self, before: FactsT | None, after: FactsT) -> str:
        """What one node breaks with a step; ``before`` None: it has just started. "" if nothing."""

    def marks(self, records: list[AnyTraceEvent]) -> set[str]:
        """What the events of a step show."""


class _Run(Generic[NodeT]):
    """One way that a step goes; ``todo``: events that the node is owed at once."""

    def __init__(self, node: NodeT, timers: set[str], files: dict[str, DiskFile], todo: list[AnyEvent]) -> None:
        self.node, self.timers, self.files, self.todo = node, timers, files, todo
        self.calls: list[Call] = []
        self.replies: list[Reply] = []
        self.records: list[AnyTraceEvent] = []
        self.error = ""

    def fork(self, node: NodeT, value: Chosen) -> _Run[NodeT]:
        """The same with a copy of the node, and this number drawn."""
        other = _Run(node, set(self.timers), dict(self.files), [value, *self.todo])
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


class Places(Generic[NodeT, FactsT]):
    """All places of all nodes by number, and the steps between them. ``choosing``: numbers that a node asks for are
    drawn; else it gets none."""

    def __init__(self, specs: Sequence[NodeSpec], kind: Kind[NodeT, FactsT], choosing: bool = False) -> None:
        self.messages = Messages()
        self.all: list[Place] = []
        self.facts: list[FactsT] = []
        self.facts_number: list[int] = []
        self._facts_numbers: dict[FactsT, int] = {}
        self._outcome_numbers: dict[Outcome, int] = {}
        self.specs = specs
        self.kind = kind
        self._choosing = choosing
        self._numbers: dict[Place, int] = {}
        self._steps: dict[tuple[int, int, Input], tuple[Outcome, ...]] = {}

    @property
    def steps(self) -> int:
        """How many steps were worked out."""
        return len(self._steps)

    def start(self, index: int) -> tuple[Outcome, ...]:
        """The first start of a node, with an empty disk."""
        return self._numbered(self._outcomes(index, self._started(index, {}, None), "", None))

    def step(self, index: int, place: int, event: Input) -> tuple[Outcome, ...]:
        """What can come of an input: one outcome for each number that is drawn."""
        key = (index, place, event)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._numbered(self._outcomes(*self._begun(index, place, event)))
        return found

    def records(self, index: int, place: int, event: Input | None) -> list[tuple[Outcome, list[AnyTraceEvent]]]:
        """The same, with the trace events; None: the first start."""
        if event is None:
            run, served, before = self._started(index, {}, None), "", None
        else:
            _, run, served, before = self._begun(index, place, event)
        return [(self._outcome(done, served, before), done.records) for done in self._carry_out(index, run)]

    # ---- inside ------------------------------------------------------------------------------------------

    def _numbered(self, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        numbers = self._outcome_numbers
        return tuple(each._replace(number=numbers.setdefault(each, len(numbers))) for each in outcomes)

    def _begun(self, index: int, place: int, event: Input) -> tuple[int, _Run[NodeT], str, FactsT | None]:
        run, served = self._begin(index, self.all[place], event)
        return index, run, served, None if event[0] == "restart" else self.facts[place]

    def _begin(self, index: int, place: Place, event: Input) -> tuple[_Run[NodeT], str]:
        files = {file.name: file for file in place.files}
        if event[0] == "restart":
            return self._started(index, self.kind.surviving(files, event), event), ""
        run = _Run(self.kind.unpack(index, place.node), set(place.timers), files, [])
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
                run.todo = self.kind.events(event)
        return run, served

    def _started(self, index: int, disk: dict[str, tuple[bytes, ...]], event: Input | None) -> _Run[NodeT]:
        left = {name: content for name, content in disk.items() if content}
        files = {name: DiskFile(name, ((0, content),)) for name, content in left.items()}
        return _Run(self.kind.new(), set(), files, self.kind.started(index, left, event))

    def _outcomes(self, index: int, run: _Run[NodeT], served: str, before: FactsT | None) -> tuple[Outcome, ...]:
        return tuple(dict.fromkeys(self._outcome(done, served, before) for done in self._carry_out(index, run)))

    def _carry_out(self, index: int, run: _Run[NodeT]) -> list[_Run[NodeT]]:
        """Give a node what it is owed, and carry out what it asks for."""
        open_runs, done = [run], []
        while open_runs:
            run = open_runs.pop()
            while run.todo and not run.error:
                event = run.todo.pop(0)
                try:
                    effects = run.node.step(NOW_MS, event)
                except Exception as error:  # noqa: BLE001 any exception of a node is a finding
                    run.error = f"it stopped: {str(error) or type(error).__name__}"
                    break
                drawn = 0
                for effect in effects:
                    drawn = max(drawn, self._take(run, effect))
                if drawn:
                    choice = next(effect.name for effect in effects if isinstance(effect, Choose))
                    packed = self.kind.pack(run.node)
                    nodes = [self.kind.unpack(index, packed) for _ in range(drawn)]
                    open_runs += [run.fork(node, Chosen(choice, value)) for value, node in enumerate(nodes)]
                    break
            else:
                done.append(run)
                continue
            if run.error:
                done.append(run)
        return done

    def _take(self, run: _Run[NodeT], effect: AnyEffect) -> int:
        """Carry out one effect. Returns how many numbers may be drawn, 0 if it is no draw (or it is not answered)."""
        match effect:
            case Record(event):
                run.records.append(event)
            case SetTimer(name):
                of_timer = self.kind.of_timer(name)
                if of_timer == "over":
                    run.todo.append(TimedOut(name))
                elif of_timer == "kept":
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
                return n if self._choosing else 0
            case Exit(_, detail):
                run.error = f"it stopped: {detail}"
            case Close(connection):
                raise AssertionError(f"it closed the connection {connection}")
        return 0

    def _versions_of(self, peer: str, request: ApiVersionsRequest) -> ApiVersionsResponse:
        """A connection is made in the step that needs it."""
        spec = next(spec for spec in self.specs if spec.name == peer)
        return api_versions_response(spec, self.kind.apis, request)

    def _outcome(self, run: _Run[NodeT], served: str, before: FactsT | None) -> Outcome:
        kind = self.kind
        names = kind.normalise(run.node)
        files = tuple(kind.settled(run.files[name], run.node) for name in sorted(run.files))
        place = Place(kind.pack(run.node), tuple(sorted(run.timers)), files)
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self.all)
            self.all.append(place)
            facts = kind.facts(run.node, files)
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
        error = run.error or kind.wrong(before, self.facts[number])
        return Outcome(number, renamed, served, calls, replies, error, tuple(sorted(kind.marks(run.records))))


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


def numbered_anew(file: DiskFile, files: Files, content: tuple[bytes, ...]) -> DiskFile:
    """A file of which no write waits for its Sync: their numbers begin again."""
    state = files.states.get(file.name)
    if state is not None:
        state.written = state.syncing = 0
    return file._replace(contents=((0, content),), syncs=())


def _free_name(name: str, place: Place) -> str:
    """A name for a connection that the node does not remember from another one."""
    while f"{name}>".encode() in place.node or any(timer.endswith(f"{name}>") for timer in place.timers):
        name += "'"
    return f"{name}>"
