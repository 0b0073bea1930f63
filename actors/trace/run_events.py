"""Trace events of the run and of what drives nodes; ``actors.trace.events`` has them all."""

from __future__ import annotations

from typing import Any, Literal

from actors.trace.event_parts import TraceEvent

DRIVER = "driver"
"""Under this name the driver of a run records what no node can: ``run.meta``, ``run.end``, link rules, and the
conductor's events."""


class RunMeta(TraceEvent, frozen=True, tag="run.meta"):
    """First event of a run, by the driver ("driver" is the node's name). ``profile``: features, config and
    versions as resolved, whole cluster."""

    scenario: str
    variant: str
    runtime: Literal["live", "sim"]
    seed: int
    nodes: list[str]
    profile: dict[str, Any]


class RunEnd(TraceEvent, frozen=True, tag="run.end"):
    """Last event of a run: for each "node/incarnation" the last sequence number it is known to have written,
    or -1 where the incarnation was killed and nobody can say."""

    final_seq: dict[str, int]


class RunRepeat(TraceEvent, frozen=True, tag="run.repeat"):
    """A run was carried out again: digests of the two traces. In no trace: it is made where traces are compared."""

    first: str
    second: str


class CtlFault(TraceEvent, frozen=True, tag="ctl.fault"):
    """The injector started or stopped a fault. ``targets`` are node names after selection."""

    fault: str
    kind: str
    phase: Literal["start", "stop"]
    targets: list[str]
    parameters: dict[str, Any]

    @property
    def by_machine(self) -> bool:
        """Whether no schedule has it (``BUSY_MACHINE``)."""
        return self.parameters == BUSY_MACHINE


BUSY_MACHINE: dict[str, Any] = {"by": "machine"}
"""Parameters of a fault that nobody asked for: a live machine gave its targets too little time."""


class CtlWindow(TraceEvent, frozen=True, tag="ctl.window"):
    """A stability window opens or closes. While one is open the members of ``core`` are up, run, and reach one another,
    nothing is done to them, and who is not in it is silent: stopped, or cut off from everybody."""

    window: str
    phase: Literal["open", "close"]
    core: list[str]


class CtlPhase(TraceEvent, frozen=True, tag="ctl.phase"):
    """The run entered a phase (``chaos.conductor``): starting, warming, chaos (its beginning is time 0 of the
    scenario), healing, stopping, draining, finished. ``detail``: of a run that was given up how it ended and why ("did
    not converge: healing: ..."), else empty."""

    phase: str
    detail: str = ""


RuleKind = Literal["hold", "delay", "drop", "duplicate", "reorder"]
"""What a link rule does to messages (``actors.control.LinkRule``)."""


class LinkRuleChange(TraceEvent, frozen=True, tag="link.rule"):
    """The runtime that enforces a link rule installed or removed it. ``held``: messages that it has held back, slowed
    down or hit so far."""

    rule: str
    kind: RuleKind
    phase: Literal["start", "stop"]
    sources: list[str]
    targets: list[str]
    held: int


class LinkHit(TraceEvent, frozen=True, tag="link.hit"):
    """A link rule broke a connection, by whoever enforces the rule. ``number``: of the request on the connection that
    is lost, or whose answer is (``lost``); neither arrives, ever, nor does anything behind it. A request whose answer
    is lost is served, unless its server ends first."""

    rule: str
    kind: Literal["drop", "duplicate"]
    connection: str
    number: int
    api: str
    lost: Literal["request", "reply"]


class DiskRuleChange(TraceEvent, frozen=True, tag="disk.rule"):
    """The runtime of a node installed a disk rule, or removed it: Syncs take between ``delay_min_us`` and
    ``delay_max_us`` longer. ``synced``: Syncs that this incarnation has asked for under it so far."""

    rule: str
    phase: Literal["start", "stop"]
    delay_min_us: int
    delay_max_us: int
    synced: int


class StoreRuleChange(TraceEvent, frozen=True, tag="store.rule"):
    """The runtime of a remote store installed a rule, or removed it (``actors.node.events.StoreRule``)."""

    rule: str
    kind: str
    phase: Literal["start", "stop"]


class ClockSet(TraceEvent, frozen=True, tag="clock.set"):
    """A fault made the clock of a node's machine wrong, or no longer does, by the node's runtime. What follows is the
    sum of all faults in force. offset_us: of the wall clock to the monotonic one that ``step`` is given. rate_ppm: how
    much too fast both run. Events are stamped with the true time, always."""

    fault: str
    phase: Literal["start", "stop"]
    offset_us: int
    rate_ppm: int


class NodeUp(TraceEvent, frozen=True, tag="node.up"):
    """An incarnation begins. ``wiped``: it came back with an empty disk; ``clean``: after a clean shutdown;
    ``torn``: files whose torn tail was dropped."""

    role: str
    node_id: int
    directory_id: str
    wiped: bool
    clean: bool
    torn: int = 0


class NodeDown(TraceEvent, frozen=True, tag="node.down"):
    """An incarnation ended. Written at collection for a killed one, one tick after its last event.
    mode: clean (it shut itself down), crash (process killed), lossy (something of its disk is gone, too), fatal (its
    fault handler ended it: ``detail``), bug (it raised an exception: ``detail``), end (the run ended). ``lost``: tp ->
    first lost offset (lossy only). ``overdue``: its calls ("connection#number") that were open beyond their time-out
    then, as far as its runtime can say (end). ``waiting``: what it keeps for something that cannot come
    any more (end; ``actors.leftovers``)."""

    mode: Literal["clean", "crash", "lossy", "fatal", "bug", "end"]
    detail: str = ""
    lost: dict[str, int] = {}
    overdue: list[str] = []
    waiting: list[str] = []


class Tick(TraceEvent, frozen=True, tag="tick"):
    """Once a second, by every runtime: it is alive and its clock has come this far."""


class Stall(TraceEvent, frozen=True, tag="node.stall"):
    """In the last ``of_ms`` until now, the process of a node waited ``ms`` for its turn: its machine was busy, one of
    its steps took so long, or a fault stopped it. Live only. What no fault explains, the driver tells as one
    (``orchestrator.clusters.driver_log``)."""

    ms: int
    of_ms: int


RunEvent = (
    RunMeta
    | RunEnd
    | RunRepeat
    | CtlFault
    | CtlWindow
    | CtlPhase
    | LinkRuleChange
    | LinkHit
    | DiskRuleChange
    | StoreRuleChange
    | ClockSet
    | NodeUp
    | NodeDown
    | Stall
    | Tick
)
