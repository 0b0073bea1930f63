"""The requests of the injector to a runtime: the vocabulary that both runtimes share with ``chaos``.

Control never travels over the links it cuts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from actors.crash_points import CrashPoint
from actors.node.errors import TURNED_AWAY
from actors.node.events import StoreRule
from actors.node.spec import NodeSpec
from actors.trace.events import AnyTraceEvent, ErrorSeen, Stamped
from actors.trace.run_events import RuleKind

CERTAIN = 1_000_000
"""A chance of one, in parts per million."""

Link = tuple[str, str]
"""Source and target node of its messages."""

Draw = Callable[[int], int]
"""A number from 0 up to, and excluding, the given one."""


def leaks(defects: list[str]) -> bool:
    """Whether the defect ``leaky-partition`` passes messages to a node that a rule of the kind hold should stop."""
    return "leaky-partition" in defects


class LinkRule(msgspec.Struct, frozen=True):
    """A rule on every message from a node of ``sources`` to a node of ``targets`` (requests and replies alike).

    hold: the message waits, in order, until the rule is removed. delay: it takes that much longer, drawn from
    [delay_min_us, delay_max_us], and order on a connection is kept.

    The others hit each message with ``chance_ppm`` (parts per million), and only those of ``apis`` (names; empty: all).
    They are drawn when the message arrives, from one stream for each pair of nodes:

    drop: the message is lost, and its connection with it; of a request that is hit it is drawn whether it is lost
    itself, or arrives and its answer is lost. duplicate: a request arrives, and its connection breaks before the
    answer; a client that tries again makes the second copy. Replies are not hit. reorder: the message takes longer, as
    under delay, so that those of other connections overtake it; none of its own does.
    """

    id: str
    kind: RuleKind
    sources: list[str]
    targets: list[str]
    delay_min_us: int = 0
    delay_max_us: int = 0
    chance_ppm: int = CERTAIN
    apis: list[str] = []

    @property
    def severs(self) -> bool:
        """Whether it severs connections."""
        return self.kind in ("drop", "duplicate")

    @property
    def slows(self) -> bool:
        """Whether it makes messages take longer."""
        return self.kind in ("delay", "reorder")

    def hits(self, api: str, draw: Draw) -> bool:
        """Whether it hits a message of this API ("": the end of a connection, which counts as none), as drawn."""
        if self.apis and api not in self.apis:
            return False
        return self.chance_ppm >= CERTAIN or draw(CERTAIN) < self.chance_ppm

    def loses(self, request: bool, draw: Draw) -> Literal["request", "reply"]:
        """What of an exchange is lost, if the rule severs connections and hits its request, or else its reply."""
        return "request" if request and self.kind == "drop" and draw(2) else "reply"


class ClockSkew(msgspec.Struct, frozen=True):
    """What is wrong with the clock of a node's machine while ``fault`` lasts: the wall clock is off by ``offset_us``,
    and both clocks run too fast by ``rate_ppm`` parts per million (negative: too slow)."""

    fault: str
    offset_us: int = 0
    rate_ppm: int = 0


class Action(msgspec.Struct, frozen=True, tag=True):
    """Base of all control actions."""


class InstallRule(Action, frozen=True):
    """Put a link rule in force."""

    rule: LinkRule


class RemoveRule(Action, frozen=True):
    """End a link rule; what it held is delivered (or lost, as drawn, where its connection has since closed)."""

    rule: str


DiskLoss = Literal["kept", "power-loss", "torn-tail", "wiped"]
"""What becomes of a node's disk when its process ends. kept: nothing, every Write is there. power-loss: what no Sync
covered is gone. torn-tail: all is there but the last entry that no Sync covered, of each file, which is cut in the
middle; its checksum shows it, and it is dropped. wiped: the directory is empty, and gets a new id."""


class Crash(Action, frozen=True):
    """End the process of a node (SIGKILL): its memory is gone; ``disk``: what of its files is gone, too."""

    node: str
    disk: DiskLoss = "kept"


class Restart(Action, frozen=True):
    """Start a node that is down again from its disk, as a new incarnation. ``spec``: what it is from now on, if that
    has changed (features, versions, configuration)."""

    node: str
    spec: NodeSpec | None = None


class DiskRule(msgspec.Struct, frozen=True):
    """A node's disk is slow: each Sync takes longer, drawn from [delay_min_us, delay_max_us]."""

    id: str
    node: str
    delay_min_us: int
    delay_max_us: int


class Arm(Action, frozen=True):
    """End the process of a node where it comes to a point, with that loss of its disk, as Crash does. Until then the
    point waits, over restarts too."""

    point: CrashPoint
    disk: DiskLoss = "kept"


class Disarm(Action, frozen=True):
    """The point waits no longer, if it still did."""

    point: str
    node: str


AnyRule = LinkRule | DiskRule | StoreRule | CrashPoint
"""What a live node's runtime keeps in force, over restarts too."""


class SlowDisk(Action, frozen=True):
    """Put a disk rule in force; it stays in force over restarts."""

    rule: DiskRule


class MendDisk(Action, frozen=True):
    """End a disk rule; a Sync that is open keeps its time."""

    rule: str
    node: str


class DegradeStore(Action, frozen=True):
    """Put a rule of the remote store in force; it stays in force over restarts."""

    rule: StoreRule


class MendStore(Action, frozen=True):
    """End a rule of the remote store."""

    rule: str
    node: str


class Pause(Action, frozen=True):
    """Stop a node's process (SIGSTOP): it takes no step; what reaches it waits."""

    node: str


class Resume(Action, frozen=True):
    """Let a paused process go on (SIGCONT); its overdue timers fire at once."""

    node: str


class SkewClock(Action, frozen=True):
    """Make the clock of a node's machine wrong; its processes find it so from now on."""

    node: str
    skew: ClockSkew


class RestoreClock(Action, frozen=True):
    """Take back what a fault did to the clock of a node's machine."""

    node: str
    fault: str


class Invoke(Action, frozen=True):
    """Give a node an operation (the event Invoked): a client ``start`` or ``stop``; a server ``shutdown``, which it
    completes at once and carries out until its process has ended (``node.down``)."""

    node: str
    operation: str
    kind: str
    arguments: dict[str, Any] = {}


class Predicate(msgspec.Struct, frozen=True):
    """A named predicate over trace events with its arguments (``chaos.scenario.triggers`` defines them)."""

    name: str
    arguments: dict[str, Any] = {}


class Barrier(msgspec.Struct, frozen=True):
    """A seen-trigger as a runtime arms it. Every event that matches stops the recording node before any later
    effect of its step until the conductor has heard of it and the actions it causes are carried out; the
    conductor decides whether this match counts (time 0 has come, it is the n-th). A match is handed over once,
    even if its type is WATCHED too."""

    id: str
    predicate: Predicate


class Watch(Action, frozen=True):
    """From now on nodes stop at these barriers, in place of those that they had. In the sim the conductor sees every
    event anyway."""

    barriers: list[Barrier]


class RecordEvent(Action, frozen=True):
    """Put an event of the driver's own (ctl.fault, ctl.window, ctl.phase) into the trace of the node "driver"."""

    event: AnyTraceEvent


AnyAction = (
    InstallRule
    | RemoveRule
    | Crash
    | Arm
    | Disarm
    | Restart
    | SlowDisk
    | MendDisk
    | DegradeStore
    | MendStore
    | SkewClock
    | RestoreClock
    | Pause
    | Resume
    | Invoke
    | Watch
    | RecordEvent
)


WATCHED = frozenset(
    {
        "part.change",
        "part.assume",
        "q.role",
        "q.voters",
        "node.up",
        "node.down",
        "node.stall",
        "broker.reg",
        "cons.own",
        "link.rule",
        "disk.rule",
        "store.rule",
        "clock.set",
        "tick",
    }
)
"""Event types of low volume that the live runtime forwards to the conductor as they happen; the ticks tell it that time
passes, and how many events each node has recorded."""


def is_watched(event: Stamped) -> bool:
    """Whether the live runtime forwards an event: of such a type, or that a member was told to go for good."""
    body = event.body
    return event.type in WATCHED or (type(body) is ErrorSeen and body.error in TURNED_AWAY)


class Conductor(Protocol):
    """What decides about a run while it goes on: start of workloads, faults, healing, drain, end
    (``chaos.conductor`` has the one implementation).

    It is sans-IO like the nodes: the runtime tells it the time and the events, and carries out the actions it
    returns, in order, at once. Times are microseconds since ``begin``.
    """

    @property
    def finished(self) -> bool:
        """The run is over: the runtime calls ``end`` and stops the nodes."""
        ...

    @property
    def barriers(self) -> list[Barrier]:
        """Predicates that each node's runtime must evaluate on its own events, from the start until a ``Watch``."""
        ...

    def begin(self) -> list[AnyAction]:
        """Every node was started."""
        ...

    def next_time_us(self) -> int | None:
        """When ``on_time`` wants to be called next, or None."""
        ...

    def on_time(self, now_us: int) -> list[AnyAction]:
        """The time it asked for has come."""
        ...

    def on_event(self, now_us: int, event: Stamped) -> list[AnyAction]:
        """An event was recorded. Sim: every event, in order, before any later effect of its step. Live: those
        that match a barrier, likewise; and a little late those that are watched (``is_watched``), and the first
        operation that returned ok of each client incarnation."""
        ...

    def on_complete(self, now_us: int, node: str, operation: str, result: dict[str, Any]) -> list[AnyAction]:
        """A node ended an operation that an Invoke gave it."""
        ...

    def end(self, now_us: int) -> list[AnyAction]:
        """The run ends, early or not: the actions that end every fault still in force (no Restart)."""
        ...
