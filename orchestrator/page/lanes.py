"""Lanes of faults and of nodes: who is up, what each leads, who is paused or cut off from others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from actors.trace.events import (
    AdminInvoke,
    CtlFault,
    CtlPhase,
    LinkRuleChange,
    NodeDown,
    NodeUp,
    PartAssume,
    QRole,
    RunMeta,
    Stamped,
    TraceEvent,
)
from chaos.faults.kinds import kinds_of
from chaos.faults.operator import ADMIN
from chaos.faults.process import NodePause
from orchestrator.page.model import Bar, Lane, Style
from orchestrator.story.requests import asked_for
from orchestrator.story.words import fault_words

ALONE_MAX = 12
"""With more faults than these all of a kind share a lane."""
TITLE_MAX = 40
"""A longer title of a fault only has its kind: the bar has the whole."""

REQUESTS = "request"

DOWN = {
    "clean": "shut down",
    "crash": "killed",
    "lossy": "killed, and its disk lost data",
    "fatal": "ended itself",
    "bug": "ended in an internal error",
}
_CUTS = {"hold": "are held back", "drop": "are lost"}
_ROLES: dict[str, Style] = {"leader": "leads", "candidate": "votes", "prospective": "votes"}


class Stretch(msgspec.Struct):
    """A bar on its way: since ``us``, by the trace's clock; until ``end_us``, -1 as long as it lasts."""

    style: Style
    us: int
    label: str = ""
    hover: str = ""
    tp: str = ""
    end_us: int = -1

    def bar(self, zero_us: int, last_us: int) -> Bar:
        """As it is drawn; what has no end lasts to the end of the trace."""
        end_us = last_us if self.end_us < 0 else self.end_us
        return Bar(self.style, at(self.us, zero_us), at(end_us, zero_us), self.label, self.hover, self.tp)


def at(us: int, zero_us: int) -> float:
    """Seconds since time 0."""
    return round((us - zero_us) / 1_000_000, 6)


class NodeLanes:
    """Takes the events of a run in order."""

    def __init__(self) -> None:
        self.zero_us: int | None = None
        self.phases: dict[str, int] = {}
        self.faults: dict[str, tuple[str, list[Stretch]]] = {}
        self.nodes: dict[str, list[Stretch]] = {}
        self._requests: list[tuple[str, Stretch]] = []
        """Of which nobody has said so far what they ask for."""
        self._asked: list[str] = []
        """Words for requests that are still to come."""
        self.roles: dict[str, str] = {}
        self._open: dict[tuple[str, str], Stretch] = {}
        self._leading: dict[str, dict[str, int]] = {}
        self._cuts: dict[tuple[str, str], set[str]] = {}

    def __call__(self, event: Stamped) -> None:
        take = _TAKE.get(type(event.body))
        if take is not None:
            take(self, event, event.body)

    def lanes(self, zero_us: int, last_us: int) -> Iterator[Lane]:
        """Faults in the order in which they began, then nodes as the run names them."""
        if len(self.faults) <= ALONE_MAX:
            for name, (kind, stretches) in self.faults.items():
                whole = stretches[0].hover if stretches else ""
                requests = _are_requests(stretches)
                short = f"{name} {REQUESTS if requests else kind}"
                long = f"{short} of an operator" if requests else short
                title = whole if 0 < len(whole) <= TITLE_MAX else long
                yield Lane(title, "faults", [each.bar(zero_us, last_us) for each in stretches], short=short)
        else:
            kinds: dict[str, list[Stretch]] = {}
            for kind, stretches in self.faults.values():
                kinds.setdefault(REQUESTS if _are_requests(stretches) else kind, []).extend(stretches)
            for kind, stretches in kinds.items():
                yield Lane(kind, "faults", [each.bar(zero_us, last_us) for each in stretches])
        for node, stretches in self.nodes.items():
            yield Lane(node, "nodes", [each.bar(zero_us, last_us) for each in stretches], node)

    # ---- what happens -------------------------------------------------------------------------------------

    def meta(self, event: Stamped, body: RunMeta) -> None:
        """The nodes of the run, in the scenario's order."""
        for node in body.nodes:
            self.nodes.setdefault(node, [])

    def phase(self, event: Stamped, body: CtlPhase) -> None:
        """Phases, and time 0."""
        self.phases.setdefault(body.phase, event.wall)
        if body.phase == "chaos":
            self.zero_us = event.wall

    def up(self, event: Stamped, body: NodeUp) -> None:
        """A process begins."""
        self.roles[event.node] = body.role
        how = ", with an empty disk" if body.wiped else ""
        self._end(event.node, "life", event.wall)
        self._begin(event.node, "life", Stretch("up", event.wall, "", f"up{how}, life {event.incarnation}"))

    def down(self, event: Stamped, body: NodeDown) -> None:
        """A process ends, and with it all that it led."""
        node = event.node
        self._leading.pop(node, None)
        for what in ("life", "leads", "role"):
            self._end(node, what, event.wall)
        if body.mode != "end":
            detail = f": {body.detail}" if body.detail else ""
            how = f"{DOWN[body.mode]}{detail}"
            self._begin(node, "life", Stretch("down", event.wall, "down", how))

    def role(self, event: Stamped, body: QRole) -> None:
        """A voter's role."""
        self._end(event.node, "role", event.wall)
        style = _ROLES.get(body.role)
        if style is not None:
            text = f"{body.role} of the quorum in epoch {body.epoch}"
            self._begin(event.node, "role", Stretch(style, event.wall, f"{body.role}, epoch {body.epoch}", text))

    def assume(self, event: Stamped, body: PartAssume) -> None:
        """A broker leads a partition, or no longer: as it believes itself."""
        leading = self._leading.setdefault(event.node, {})
        if body.role == "leader":
            leading[body.tp] = body.leader_epoch
        elif leading.pop(body.tp, None) is None:
            return
        self._end(event.node, "leads", event.wall)
        if leading:
            told = ", ".join(f"{tp} (leader epoch {epoch})" for tp, epoch in list(leading.items())[:6])
            more = f" and {len(leading) - 6} more" if len(leading) > 6 else ""
            (tp, epoch), *others = leading.items()
            label = f"leads {len(leading)} partitions" if others else f"leads {tp}, epoch {epoch}"
            hover = f"believes that it leads {told}{more}"
            self._begin(event.node, "leads", Stretch("leads", event.wall, label, hover))

    def fault(self, event: Stamped, body: CtlFault) -> None:
        """A fault, or what an operator asks for; and who is paused by it."""
        paused = body.kind in kinds_of(NodePause)
        if body.phase == "start":
            style: Style = "request" if body.targets == [ADMIN] else "fault"
            words = fault_words(body) if style == "fault" else f"{body.fault} {REQUESTS} of an operator"
            stretch = Stretch(style, event.wall, words.removeprefix(f"{body.fault} "), words)
            if style == "request":
                stretch.end_us = event.wall
                self._requests.append((body.fault, stretch))
                self._name_requests()
            self.faults.setdefault(body.fault, (body.kind, []))[1].append(stretch)
        elif body.fault in self.faults:
            self.faults[body.fault][1][-1].end_us = event.wall
        for node in body.targets if paused else ():
            self._end(node, f"pause {body.fault}", event.wall)
            if body.phase == "start":
                words = f"paused by {body.fault}"
                self._begin(node, f"pause {body.fault}", Stretch("paused", event.wall, "paused", words))

    def asks(self, event: Stamped, body: AdminInvoke) -> None:
        """What an operator's request, which the driver calls by its kind alone, asks for."""
        self._asked.append(asked_for(body))
        self._name_requests()

    def _name_requests(self) -> None:
        """Requests are made in the order in which they are scheduled."""
        while self._requests and self._asked:
            name, stretch = self._requests.pop(0)
            stretch.label = self._asked.pop(0)
            stretch.hover = f"{name} {stretch.label}"

    def rule(self, event: Stamped, body: LinkRuleChange) -> None:
        """Messages of some nodes that do not get through to others. Cut off are the fewer: with one broker cut off from
        all others, nobody would say that of all of them."""
        if body.kind not in _CUTS:
            return
        fault = body.rule.partition("/")[0]
        least = min(len(body.sources), len(body.targets))
        for node in (node for side in (body.sources, body.targets) if len(side) == least for node in side):
            rules = self._cuts.setdefault((node, fault), set())
            told = f"{event.node} {body.rule}"
            if body.phase == "start":
                if not rules:
                    ends = f"from {', '.join(body.sources)} to {', '.join(body.targets)}"
                    hover = f"{fault}: messages {ends} {_CUTS[body.kind]}"
                    self._begin(node, f"cut {fault}", Stretch("cut", event.wall, "", hover))
                rules.add(told)
            else:
                rules.discard(told)
                if not rules:
                    self._end(node, f"cut {fault}", event.wall)

    # ---- stretches ----------------------------------------------------------------------------------------

    def _begin(self, node: str, what: str, stretch: Stretch) -> None:
        self.nodes.setdefault(node, []).append(stretch)
        self._open[node, what] = stretch

    def _end(self, node: str, what: str, us: int) -> None:
        stretch = self._open.pop((node, what), None)
        if stretch is not None:
            stretch.end_us = us


def _are_requests(stretches: Sequence[Stretch]) -> bool:
    return bool(stretches) and all(each.style == "request" for each in stretches)


_TAKE: dict[type[TraceEvent], Callable[[NodeLanes, Stamped, Any], None]] = {
    AdminInvoke: NodeLanes.asks,
    RunMeta: NodeLanes.meta,
    CtlPhase: NodeLanes.phase,
    NodeUp: NodeLanes.up,
    NodeDown: NodeLanes.down,
    QRole: NodeLanes.role,
    PartAssume: NodeLanes.assume,
    CtlFault: NodeLanes.fault,
    LinkRuleChange: NodeLanes.rule,
}
