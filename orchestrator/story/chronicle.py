"""The story of a run: what was done to the cluster, what changed in it, who was refused, and when what was promised
broke. It is made from the trace alone, so that any engine and any later check tells the same one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actors.node.errors import error_name
from actors.node.spec import split_topic_partition
from actors.trace.events import (
    OP_RETURNS,
    AdminInvoke,
    AdminReturn,
    BeginInvoke,
    BrokerReg,
    ConsOwn,
    CtlFault,
    CtlPhase,
    DiskRuleChange,
    EndInvoke,
    ErrorSeen,
    GrpGen,
    GrpLoad,
    InitInvoke,
    InitReturn,
    IsrPropose,
    LinkRuleChange,
    LogAppend,
    LogHw,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    Stamped,
    TraceEvent,
    TxnLoad,
    TxnMarkers,
    TxnState,
)
from chaos.faults.kinds import kinds_of
from chaos.faults.operator import ADMIN
from chaos.faults.process import NodeBounce, NodeCrash, NodeShutdown
from chaos.words import some
from orchestrator.story.commits import Commits
from orchestrator.story.coordinators import Coordinators
from orchestrator.story.line import ALWAYS, CHANGE, DETAIL, KEY, TOGETHER_US, TURN, Line
from orchestrator.story.moments import Break, Moment, distance, place, worth_explaining
from orchestrator.story.requests import Requests
from orchestrator.story.words import (
    clock,
    cut_off,
    fault_words,
    is_from_outside,
    registration,
    seconds,
    succession,
    takes_up,
    truncation,
)

LINES_MAX = 20
"""Lines of a story."""

ROOM_MIN = 10
"""As many of them there are at least for what happened, besides those that say what broke."""

ROUTINE = (
    "NETWORK_EXCEPTION",
    "NOT_LEADER_OR_FOLLOWER",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "OPERATION_NOT_ATTEMPTED",
    "REBALANCE_IN_PROGRESS",
    "MEMBER_ID_REQUIRED",
)
"""Errors by which clients merely learn that a broker is gone, or of a new leader, or meet one that has not heard of it
yet; that the transaction of a record is aborted; that
their group rebalances; which member id they have."""

OPERATIONS = {
    "init": "initTransactions",
    "begin": "beginTransaction",
    "send-offsets": "sendOffsetsToTransaction",
    "end": "the end of a transaction",
    "committed": "a look-up of committed positions",
}
"""Kinds of operations whose names are no words for what a client does."""

KEPT_MAX = 2_000
"""Lines that a run of days keeps; what was done to the cluster is always kept."""

ABOUT = {"groups": "__consumer_offsets", "transactions": "__transaction_state"}
"""What a line can be about besides partitions -> the topic whose leaders coordinate it."""

COORDINATED = (
    BeginInvoke,
    ConsOwn,
    EndInvoke,
    GrpGen,
    GrpLoad,
    InitInvoke,
    InitReturn,
    TxnLoad,
    TxnMarkers,
    TxnState,
)
"""Types of events of groups and transactions from which ``Coordinators`` has its news."""

STOPPING = kinds_of(NodeCrash, NodeShutdown, NodeBounce)
"""Kinds of faults that take processes down."""

HEALED_US = 10_000
"""A fault that ends so short a time before the end of the chaos is noted ends because of it."""

NOTES_MAX = 6
SOON_US = 1_000_000
"""What comes of a fault so soon goes without saying."""


class Chronicle:
    """Writes down what happens from time 0 on. Takes the events of a run in order. ``zero_us``: time 0 by the trace's
    clock, None as long as it has not come. ``requests``: what an operator asked for, and was told."""

    def __init__(self) -> None:
        self.zero_us: int | None = None
        self.lines: list[Line] = []
        self.requests = Requests()
        self._parts: dict[str, PartChange] = {}
        self._changes: dict[str, Line] = {}
        """Partition -> the last line about its leader or its ISR."""
        self._asked_for: dict[str, IsrPropose] = {}
        """Partition -> the smaller ISR that its leader asked for, until the next change of the partition."""
        self._nodes: set[str] = set()
        self._coordinators = Coordinators()
        self._left: dict[tuple[str, int], Line] = {}
        """Partition and broker -> the last line that tells how this broker left its ISR."""
        self._cut_most = 0
        self._registered: dict[int, BrokerReg] = {}
        self._asked: dict[str, Line] = {}
        self._recent: dict[tuple[str, str], Line] = {}
        self._counted: dict[tuple[str, str], Line] = {}
        self._faults: dict[str, tuple[Line, list[str]]] = {}
        self._down: dict[str, Line] = {}
        self._killed: dict[str, Line] = {}
        self._ended: dict[int, int] = {}
        self._healing: Line | None = None
        self._lasting: list[str] = []
        """What of the faults ends only after the chaos, and when."""
        self._requested: dict[str, str] = {}
        """Event by which an operator was given a request -> the id of that action, while nobody has asked."""
        self._unnumbered: list[Line] = []
        """Requests that an operator has made before anybody was seen to give them."""
        self._fenced: dict[int, Line] = {}
        """Broker -> the line that tells how it was fenced, while it is."""
        self._given_up: set[tuple[int, int]] = set()
        """Time of an unclean election and a broker that could have been elected cleanly, if it were not fenced."""
        self._commits = Commits()
        self._behind: dict[str, tuple[int, Line]] = {}
        """Partition -> log end of a leader whose high watermark is behind it, and the line that says so."""
        self._dropped = 0
        self._busy_since_us = 0
        self._busy_us = 0

    def __call__(self, event: Stamped) -> None:
        tell = _TELL.get(type(event.body))
        if tell is not None:
            tell(self, event, event.body)

    # ---- how it is told ---------------------------------------------------------------------------------------

    def told(self, breaks: Sequence[Break] = (), lines: Sequence[Line] | None = None) -> list[Moment]:
        """At most LINES_MAX lines, those that matter most, nearest to what broke first, with ``breaks`` among them, by
        time; ROOM_MIN at least are not ``breaks``. Says how many are left out. ``lines``: those that there are to
        choose from, all if it is None."""
        lines = self.lines if lines is None else lines
        near = worth_explaining(breaks)
        ranked = sorted(lines, key=lambda line: (self._weight(line, breaks), distance(line.us, near)))
        room = max(LINES_MAX - len(breaks), ROOM_MIN)
        kept = {id(line) for line in (ranked if len(ranked) <= room else ranked[: room - 1])}
        told = [Break(line.us, line.told(), line.event) for line in lines if id(line) in kept]
        for each in sorted(breaks, key=lambda each: each.at_us):
            told.insert(place(each, told), each)
        moments = [Moment(each.at_us, each.text) for each in told]
        left = len(lines) - len(kept) + self._dropped
        if left:
            end_us = moments[-1].at_us if moments else 0
            moments.append(Moment(end_us, f"({some(left, 'lesser event')} left out)"))
        return moments

    def _weight(self, line: Line, breaks: Sequence[Break]) -> int:
        """How much a line matters among all: the largest truncation more than others; groups and transactions more
        where a promise about these broke, and less where another one did; less what happened to partitions at which
        nothing broke."""
        weight = min(line.weight, KEY) if line.cut and line.cut == self._cut_most else line.weight
        if weight <= KEY or not breaks:
            return weight
        concerns = {each for found in breaks for each in found.concerns}
        if line.about in ABOUT:
            return min(weight, TURN + (weight == DETAIL)) if line.about in concerns else DETAIL
        keys = {key for found in breaks for key in found.keys} & self._parts.keys()
        if not keys or not line.keys or keys & line.keys:
            return weight
        home = {split_topic_partition(key)[0] for key in line.keys}
        return weight if home & {ABOUT[each] for each in concerns} else weight + 1

    def story_of(self, failed_us: int | None, sentence: str) -> list[str]:
        """The lines up to a failure and what was done after it, with the failure among them. ``failed_us``: when it
        was, since time 0; None if that is only known at the end."""
        end_us = self.lines[-1].us if self.lines else 0
        at_us = end_us if failed_us is None else failed_us
        text = f"at the end, VIOLATED: {sentence}" if failed_us is None else f"VIOLATED: {sentence}"
        lines = [line for line in self.lines if line.us <= at_us or line.weight == ALWAYS]
        return [f"{clock(each.at_us):>8} s  {each.text}" for each in self.told([Break(at_us, text)], lines)]

    # ---- how it is written ------------------------------------------------------------------------------------

    def note(self, event: Stamped, text: str, weight: int, subject: str = "") -> Line:
        """A line of its own, or the subject added to the same line of a moment ago."""
        us = event.wall - (self.zero_us or 0)
        before = self._recent.get((event.node, text))
        if before is not None and us - before.us <= TOGETHER_US:
            before.subjects.append(subject)
            return before
        line = Line(us, text, weight, [subject] if subject else [], last_us=us, event=event.id)
        if self.zero_us is None:
            return line
        if len(self.lines) >= KEPT_MAX and weight != ALWAYS:
            self._dropped += 1
            return line
        self.lines.append(line)
        if subject:
            if len(self._recent) >= KEPT_MAX:
                self._recent.clear()
            self._recent[event.node, text] = line
        return line

    def count(self, event: Stamped, kind: str, what: str, text: str, weight: int) -> None:
        """A line for the first of its kind, and how often there are others."""
        if self.zero_us is None:
            return
        line = self._counted.get((kind, what))
        if line is None:
            self._counted[kind, what] = self.note(event, text, weight)
        else:
            line.number += 1
            line.last_us = event.wall - self.zero_us

    def phase(self, event: Stamped, body: CtlPhase) -> None:
        """Time 0, and the end of the chaos."""
        if body.phase == "chaos":
            if self.zero_us is None:
                self.zero_us = event.wall
            self._healing, self._lasting = None, []  # of the round before, as a soak has many
        elif body.phase == "healing":
            self._healing = self.note(event, "the chaos is over: all faults have ended before", ALWAYS)
            for fault, (line, _) in self._faults.items():
                if id(line) in self._ended and event.wall - self._ended[id(line)] <= HEALED_US:
                    self._heals(fault, event)
        elif body.phase == "finished" and body.detail:
            self.note(event, f"the run is aborted: {body.detail}", ALWAYS)

    def fault(self, event: Stamped, body: CtlFault) -> None:
        """A fault; what an operator asks for is told by the request."""
        if body.targets == [ADMIN]:
            if body.phase == "start":
                self._number_request(event, body.fault)
            return
        if body.by_machine:
            self._machine_is_busy(event, body)
        elif body.phase == "start":
            line = self.note(event, fault_words(body, self._nodes), ALWAYS)
            stopped = list(body.targets) if body.kind in STOPPING else []
            self._faults[body.fault] = (line, stopped)
            for node in stopped:
                self._explain(node, line)
        elif body.fault in self._faults:
            line = self._faults[body.fault][0]
            line.notes.append(f"until {self._at(event)}")
            self._ended[id(line)] = event.wall
            self._heals(body.fault, event)

    def _number_request(self, event: Stamped, action: str) -> None:
        """An operator is given a request, or was a moment ago: of two processes either may record that first."""
        us = event.wall - (self.zero_us or 0)
        self._unnumbered = [line for line in self._unnumbered if us - line.us <= TOGETHER_US]
        if self._unnumbered:
            line = self._unnumbered.pop(0)
            line.text = f"{action} {line.text}"
        else:
            self._requested[event.id] = action

    def _machine_is_busy(self, event: Stamped, body: CtlFault) -> None:
        """No fault of the schedule: one line for all of them, and how long they took."""
        if body.phase == "start":
            self.count(event, "busy", "", "the machine gives its nodes too little time", ALWAYS)
            self._busy_since_us = self._busy_since_us or event.wall
        elif self._busy_since_us:
            self._busy_us += event.wall - self._busy_since_us
            self._busy_since_us = 0

    @property
    def remarks(self) -> list[str]:
        """What did not go as it was meant to, and speaks against nothing."""
        told = self.requests.remarks
        if self._busy_us:
            seconds = self._busy_us / 1_000_000
            told.append(
                f"for {seconds:.1f} s the machine gave nodes too little time; no promise about time was judged then"
            )
        return told

    def _heals(self, fault: str, event: Stamped) -> None:
        """A fault ends because the chaos does; or later, as it goes on by itself, or stays until the cluster has got
        to its end without whom it hits."""
        healing = self._healing
        if healing is None:
            return
        if event.wall - (self.zero_us or 0) - healing.us <= HEALED_US:
            healing.subjects.append(fault)
        else:
            self._lasting.append(f"{fault} lasts until {self._at(event)}")
        heals = ": Krift heals {}" if healing.subjects else ""
        healing.text = f"the chaos is over{heals}"
        healing.notes = [f"but {' and '.join(self._lasting)}"] if self._lasting else []

    def _explain(self, node: str, fault: Line) -> None:
        """A live process may be down a moment before its fault is noted: then it went down by that fault."""
        line = self._killed.pop(node, None)
        if line is not None and fault.us - line.us <= SOON_US:
            self.lines = [each for each in self.lines if each is not line]
            self._down[node] = fault

    def rule(self, event: Stamped, rule: str, number: int, what: str) -> None:
        """How often a rule of a fault was felt."""
        fault = self._faults.get(rule.partition("/")[0])
        if fault is not None:
            fault[0].felt += number
            fault[0].felt_by = what

    def down(self, event: Stamped, body: NodeDown) -> None:
        """An end of a process: of its fault, or of its own."""
        if body.mode == "end":
            return
        if self.zero_us is not None:
            self._goes_down(event, body, event.wall - self.zero_us)
        for tp, first in body.lost.items():
            self._lose(event, tp, first)

    def _goes_down(self, event: Stamped, body: NodeDown, us: int) -> None:
        by = next((line for line, targets in reversed(self._faults.values()) if event.node in targets), None)
        detail = f": {body.detail}" if body.detail and body.mode in ("fatal", "bug") else ""
        if by is None or body.mode in ("fatal", "bug"):
            ends = {"clean": "shuts down", "fatal": "ends itself", "bug": "ends in an internal error"}
            by = self.note(event, f"{event.node} {ends.get(body.mode, 'is killed')}{detail}", TURN)
            if body.mode not in ends:
                self._killed[event.node] = by
        elif us - by.us > SOON_US and len(by.notes) < NOTES_MAX:
            by.notes.append(f"{event.node} down at {self._at(event)}")
        self._down[event.node] = by

    def _lose(self, event: Stamped, tp: str, first: int) -> None:
        """What a disk lost of a log."""
        was, committed = self._commits.lost(event.node, tp, first)
        if was > first:
            weight = TURN if committed else DETAIL
            line = self.note(event, f"the disk of {event.node} loses {{}}", weight, cut_off(tp, was, first, committed))
            line.keys.add(tp)
            line.weight = min(line.weight, weight)
            line.cut += was - first

    def up(self, event: Stamped, body: NodeUp) -> None:
        """A process that is back."""
        self._nodes.add(event.node)
        by = self._down.pop(event.node, None)
        if by is None or self.zero_us is None:
            return
        how = " with an empty disk" if body.wiped else ""
        took_us = event.wall - self._ended.get(id(by), 0)
        slow = f", as its start takes {seconds(took_us)}" if took_us > SOON_US and id(by) in self._ended else ""
        if (how or took_us > SOON_US) and len(by.notes) < NOTES_MAX:
            by.notes.append(f"{event.node} up again{how} at {self._at(event)}{slow}")

    def proposed(self, _: Stamped, body: IsrPropose) -> None:
        """An ISR that a leader asks for, and why."""
        if body.lagging:
            self._asked_for[body.tp] = body

    def part(self, event: Stamped, body: PartChange) -> None:
        """Another leader or ISR of a partition, by the controller's log."""
        before = self._parts.get(body.tp)
        self._parts[body.tp] = body
        if before is None:
            return
        leader, text = succession(before, body, self._asked_for.pop(body.tp, None))
        if not text:
            return
        unclean = body.cause == "unclean" and body.leader >= 0
        outside = unclean or is_from_outside(before, body)
        if unclean:
            self._commits.unclean(body)
        line = self.note(event, text, KEY if outside else TURN if leader else CHANGE, body.tp)
        line.about = "partition"
        line.keys.add(body.tp)
        if outside:
            # Why the new leader was not in the ISR, and why nobody else could be elected.
            could = {before.leader, *before.isr, *before.elr, *before.last_known_elr} - {body.leader}
            self._given_up.update((line.us, broker) for broker in could)
            fenced = [self._fenced.get(broker) for broker in could]
            for earlier in (self._left.get((body.tp, body.leader)), self._changes.get(body.tp), *fenced):
                if earlier is not None:
                    earlier.weight = min(earlier.weight, KEY)
        self._changes[body.tp] = line
        self._left.update({(body.tp, gone): line for gone in before.isr if gone not in body.isr})

    def assumed(self, event: Stamped, body: PartAssume) -> None:
        """A leader whose high watermark is behind, or that has nothing of what its partition had."""
        empty = body.log_end == 0
        if empty and not self._commits.has_had(body.tp):
            return
        if text := takes_up(event.node, body):
            line = self.note(event, text, TURN if empty else CHANGE)
            line.keys.add(body.tp)
            if body.high_watermark < body.log_end:
                self._behind[body.tp] = (body.log_end, line)

    def moved(self, event: Stamped, body: LogHw) -> None:
        """A leader that has caught up with the log end that it began with."""
        self._commits.moved(body)
        log_end, line = self._behind.get(body.tp, (0, None))
        if line is not None and body.role == "leader" and body.new >= log_end:
            del self._behind[body.tp]
            if event.wall - (self.zero_us or 0) - line.us > TOGETHER_US:
                line.notes.append(f"until {self._at(event)}")

    def appended(self, event: Stamped, body: LogAppend) -> None:
        """A partition that has had something."""
        self._commits.appended(event.node, body)

    def cut(self, event: Stamped, body: LogTrunc) -> None:
        """Records that a replica drops."""
        if body.was > body.to:
            dropped = cut_off(body.tp, body.was, body.to, self._commits.cut(event.node, body))
            line = self.note(event, truncation(event.node, body, "{}"), TURN, dropped)
            line.keys.add(body.tp)
            line.cut += body.was - body.to
            self._cut_most = max(self._cut_most, line.cut)

    def role(self, event: Stamped, body: QRole) -> None:
        """A leader of the quorum."""
        if body.role == "leader":
            self.note(event, f"{event.node} becomes leader of the quorum in epoch {body.epoch}", CHANGE)

    def coordinated(self, event: Stamped, _body: Any) -> None:
        """A group or a transaction that its coordinator, or its members, changed."""
        for news in self._coordinators(event):
            line = self.note(event, news.text, DETAIL if news.minor else CHANGE, news.subject)
            line.about = news.about
            line.keys.add(news.subject)

    def registered(self, event: Stamped, body: BrokerReg) -> None:
        """A broker that is fenced, or no longer, or that is about to go, or back."""
        text = registration(self._registered.get(body.broker), body)
        self._registered[body.broker] = body
        if not text:
            return
        line = self.note(event, text, DETAIL, f"broker-{body.broker}")
        if body.fenced:
            self._fenced[body.broker] = line
            # A controller writes the election that follows first.
            if (line.us, body.broker) in self._given_up:
                line.weight = min(line.weight, KEY)
        else:
            self._fenced.pop(body.broker, None)
        self._put_first(line)

    def _put_first(self, line: Line) -> None:
        """A controller writes what a registration means for partitions before the registration itself."""
        follow = [n for n, each in enumerate(self.lines) if each.us == line.us and each.about == "partition"]
        if follow and self.lines[-1] is line:
            line.event = self.lines[follow[0]].event
            self.lines.insert(follow[0], self.lines.pop())

    def asked(self, event: Stamped, body: AdminInvoke) -> None:
        """What an operator asks for."""
        request = self.requests.begin(event, body)
        given = event.cause if event.cause in self._requested else next(iter(self._requested), "")
        action = f"{self._requested.pop(given)} " if given else ""
        line = self.note(event, f"{action}an operator asks for {request.words}", TURN)
        self._asked[f"{event.node}/{body.op}"] = line
        if not action:
            self._unnumbered.append(line)

    def answered(self, event: Stamped, body: AdminReturn) -> None:
        """What the operator is told."""
        request = self.requests.end(event, body)
        line = self._asked.pop(f"{event.node}/{body.op}", None)
        if request is not None and line is not None:
            line.notes.append(f"answered after {self._since(event, line)}: {request.answer}")

    def refused(self, event: Stamped, body: ErrorSeen) -> None:
        """An error that a client goes on after."""
        name = error_name(body.error)
        weight = DETAIL if name in ROUTINE else CHANGE
        to = f" to {body.broker}" if body.broker else ""
        self.count(event, body.api, name, f"{event.node} gets {name} for its {body.api}{to} and tries again", weight)

    def returned(self, event: Stamped, body: Any) -> None:
        """An operation that failed."""
        if type(body) in COORDINATED:
            self.coordinated(event, body)
        if body.outcome != "ok":
            how = "fails" if body.outcome == "fail" else "has an unknown outcome, done or not"
            name = error_name(body.error)
            weight = DETAIL if name in ROUTINE else CHANGE
            self.count(
                event,
                body.kind,
                f"{how} {name}",
                f"{OPERATIONS.get(body.kind, f'a {body.kind}')} of {event.node} {how}: {name}",
                weight,
            )

    def _at(self, event: Stamped) -> str:
        return seconds(event.wall - (self.zero_us or 0))

    def _since(self, event: Stamped, line: Line) -> str:
        return seconds(event.wall - (self.zero_us or 0) - line.us)


_TELL: dict[type[TraceEvent], Callable[[Chronicle, Stamped, Any], None]] = {
    **dict.fromkeys(COORDINATED, Chronicle.coordinated),
    **dict.fromkeys(OP_RETURNS, Chronicle.returned),
    CtlPhase: Chronicle.phase,
    CtlFault: Chronicle.fault,
    LinkRuleChange: lambda self, event, body: self.rule(event, body.rule, body.held, "message"),
    DiskRuleChange: lambda self, event, body: self.rule(event, body.rule, body.synced, "sync"),
    NodeDown: Chronicle.down,
    NodeUp: Chronicle.up,
    IsrPropose: Chronicle.proposed,
    PartChange: Chronicle.part,
    PartAssume: Chronicle.assumed,
    LogAppend: Chronicle.appended,
    LogHw: Chronicle.moved,
    LogTrunc: Chronicle.cut,
    QRole: Chronicle.role,
    BrokerReg: Chronicle.registered,
    AdminInvoke: Chronicle.asked,
    AdminReturn: Chronicle.answered,
    ErrorSeen: Chronicle.refused,
}
