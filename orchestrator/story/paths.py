"""How a violation came about: from the fault over what decided it to the wrong answer, by the causes in the trace."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import (
    AdminInvoke,
    BrokerReg,
    ConfigChange,
    CtlFault,
    DiskRuleChange,
    GrpGen,
    GrpLoad,
    LinkRuleChange,
    LogHw,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    QVote,
    QVoters,
    SendReturn,
    Stamped,
    TxnLoad,
    TxnMarkers,
    TxnState,
)
from chaos.faults.operator import ADMIN
from orchestrator.story.chronicle import STOPPING
from orchestrator.story.events_in_words import has_words, in_words
from orchestrator.story.line import TOGETHER_US
from orchestrator.story.moments import Step
from orchestrator.story.words import brokers, seconds

LOOKED_AT_MAX = 10_000_000
"""Events that are gone through, for all paths of a run together: it takes seconds."""

FAULTS, DECISIVE, PROOFS, AFTERMATH = 4, 7, 4, 1
"""As many of each are told, those nearest to the violation: the last are truncations that follow it."""

TELLING = (
    *(PartChange, LogTrunc, PartAssume, QRole, QVote, QVoters, AdminInvoke, ConfigChange, NodeDown, NodeUp),
    *(GrpGen, GrpLoad, TxnLoad, TxnMarkers, TxnState),
)
"""Types of which an event may be a turn on the way, or lead to a former life."""

WHOLE_LIFE = (1 << 31) - 1
NOWHERE = -1
MIN_ISR = "min.insync.replicas"
Life = tuple[str, int]
"""A node, and which of its incarnations."""


class Lost:
    """Acknowledged records of a partition that were lost, sent with the same acks. first, last: acknowledgements. isr:
    at the first one. over: whether the leader that lacks them has begun. fenced: members of the ISR that were fenced
    when another replica was elected uncleanly, the last time -> the event."""

    def __init__(self, first: Stamped, last: Stamped, isr: Sequence[int]) -> None:
        self.first, self.last, self.isr = first, last, list(isr)
        self.over = False
        self.fenced: dict[int, Stamped] = {}
        self.members: set[int] = set()
        self.elected_us = -1

    @property
    def acks(self) -> int:
        """As its producer asked for."""
        assert isinstance(self.first.body, SendReturn)
        return self.first.body.acks

    def acknowledged(self, event: Stamped, body: SendReturn) -> None:
        """Another record was acknowledged, by whatever leader; whoever lacks the first one lacks all that follow."""
        assert isinstance(self.first.body, SendReturn) and isinstance(self.last.body, SendReturn)
        same = body.outcome == "ok" and body.acks == self.acks
        if same and not self.over and body.offset > self.last.body.offset:
            self.last = event

    def wait_for(self, members: set[int], elected_us: int, fenced: Mapping[int, Stamped]) -> None:
        """An unclean election: its controller writes last that these members of the ISR are fenced, if they are not
        already."""
        self.members, self.elected_us = members, elected_us
        self.fenced = {broker: fenced[broker] for broker in members if broker in fenced}


class Paths:
    """Finds the paths in a trace, which comes in order and of which some bytes an event stay, with those that may be
    told. ``zero_us``: time 0 by its clock. ``wanted``: ids of the events that violations name."""

    def __init__(self, trace: Iterable[Stamped], zero_us: int, wanted: Collection[str]) -> None:
        self._zero_us = zero_us
        self._left = LOOKED_AT_MAX
        self._lives: dict[Life, int] = {}
        # Of each event: which life it is of and its number there, and the same of its cause.
        self._life, self._seq = array("i"), array("i")
        self._cause_life, self._cause_seq = array("i"), array("i")
        self._kept: dict[int, Stamped] = {}
        self._wanted: dict[str, int] = {}
        self._faults: list[Stamped] = []
        self._ends: dict[str, int] = {}
        """Fault -> when it ended."""
        self._marks: dict[tuple[str, str, str], Stamped] = {}
        """Node, partition and role -> the last event that moved its high watermark."""
        self._committed: dict[str, Stamped] = {}
        """Partition -> the last event that moved the high watermark of a leader."""
        self._unheard: dict[str, list[Step]] = {}
        """Event by which a leader takes up its epoch behind what was committed -> the high watermark that it knew, and
        the one that it had not heard of."""
        self._hits: dict[str, int] = {}
        """Fault -> messages and Syncs that its rules hit, of those that have ended."""
        self._lost: dict[str, list[Lost]] = {}
        """Partition -> what is known of its acknowledged records that were lost, from the first of each kind on."""
        self._changes: dict[str, PartChange] = {}
        self._fenced: dict[int, Stamped] = {}
        self._min_isr: set[str | None] = set()
        """Values of min.insync.replicas that some topic or broker was given."""
        for index, event in enumerate(trace):
            self._take(index, event, wanted)

    def _take(self, index: int, event: Stamped, wanted: Collection[str]) -> None:
        self._life.append(self._number((event.node, event.incarnation)))
        self._seq.append(event.seq)
        cause_life, cause_seq = NOWHERE, NOWHERE
        if event.cause:
            node, incarnation, seq = event.cause.rsplit("/", 2)
            cause_life, cause_seq = self._number((node, int(incarnation))), int(seq)
        self._cause_life.append(cause_life)
        self._cause_seq.append(cause_seq)
        if isinstance(event.body, LogHw):
            self._marks[event.node, event.body.tp, event.body.role] = event
            if event.body.role == "leader":
                self._committed[event.body.tp] = event
        elif isinstance(event.body, TELLING):
            self._kept[index] = event
            if isinstance(event.body, PartAssume):
                self._note_unheard(event, event.body)
        elif _hits(event):
            self._faults.append(event)
        elif isinstance(event.body, CtlFault) and event.body.phase == "stop":
            self._ends[event.body.fault] = event.wall
        name = event.id
        if name in wanted:
            self._kept[index], self._wanted[name] = event, index
        self._note(event, name in wanted)

    def _note(self, event: Stamped, wanted: bool) -> None:
        """What no message leads to a violation from: what the rules of faults hit, and how losses came about."""
        body = event.body
        match body:
            case LinkRuleChange() | DiskRuleChange():
                fault = body.rule.partition("/")[0]
                if body.phase == "stop":
                    number = body.held if isinstance(body, LinkRuleChange) else body.synced
                    self._hits[fault] = self._hits.get(fault, 0) + number
            case SendReturn():
                for lost in self._lost.get(body.tp, ()):
                    lost.acknowledged(event, body)
                if wanted:
                    change = self._changes.get(body.tp)
                    self._lost.setdefault(body.tp, []).append(Lost(event, event, [] if change is None else change.isr))
            case PartAssume():
                for lost in self._lost.get(body.tp, ()):
                    lost.over |= wanted
            case PartChange():
                before = self._changes.get(body.tp)
                self._changes[body.tp] = body
                for lost in self._lost.get(body.tp, ()):
                    if before is not None and body.cause == "unclean" and not lost.over:
                        lost.wait_for({*before.isr, before.leader} - {body.leader}, event.wall, self._fenced)
            case BrokerReg():
                self._register(event, body)
            case ConfigChange() if body.key == MIN_ISR:
                self._min_isr.add(body.value)

    def _register(self, event: Stamped, body: BrokerReg) -> None:
        if not body.fenced:
            self._fenced.pop(body.broker, None)
            return
        self._fenced.setdefault(body.broker, event)
        for lost in (each for every in self._lost.values() for each in every):
            if lost.elected_us == event.wall and body.broker in lost.members:
                lost.fenced[body.broker] = event

    def _note_unheard(self, event: Stamped, body: PartAssume) -> None:
        """A leader that takes up its epoch below the high watermark of the last one, which its log reaches."""
        last = self._committed.get(body.tp)
        if body.role != "leader" or last is None or not isinstance(last.body, LogHw):
            return
        if last.node == event.node or not body.high_watermark < last.body.new <= body.log_end:
            return
        heard = self._marks.get((event.node, body.tp, "follower"))
        told = [] if heard is None else [(heard, f", the last value that reached {event.node} before it leads")]
        told.append((last, f"; {event.node} never hears of it before it leads"))
        self._unheard[event.id] = [
            Step(each.wall - self._zero_us, f"{in_words(each)}{why}", each.id) for each, why in told
        ]

    def _number(self, life: Life) -> int:
        return self._lives.setdefault(life, len(self._lives))

    def to(self, key: str, events: Iterable[str], causes: Iterable[str]) -> list[Step]:
        """The way to a violation at a key (a topic partition, a node), which these events prove. [] if the trace does
        not have them, or if too many others were looked at for the paths before."""
        indices = [self._wanted[name] for name in events if name in self._wanted]
        if not indices or max(indices) >= self._left:
            return []
        self._left -= max(indices)
        proofs = [self._kept[index] for index in indices]
        about = {name for event in proofs for name in _names(event)} | {key}
        known = [self._kept[self._wanted[name]] for name in causes if name in self._wanted]
        about |= {name for event in known for name in _names(event, ("group", "transactional_id", "offsets_tp"))}
        causing = {event.node for event in known}
        # A cause is the last thing that a sender did before it sent, which may have to do with something else.
        known = [event for event in known if has_words(event) and (not event.tp or event.tp in about)]
        past = self._past(indices)
        decisive = [event for event in past if event.wall >= self._zero_us and _decides(event, about)]
        decisive = [self._why_down(event) for event in _without_idle_changes(decisive)]
        decisive = list({event.id: event for event in decisive}.values())
        shown = [*decisive[-DECISIVE:], *known, *proofs[-PROOFS:], *self._aftermath(indices, proofs[-1], about)]
        shown += self._hitting(max(event.wall for event in proofs), _involved(shown) | causing)
        told = {event.id: event for event in sorted(shown, key=lambda event: event.order)}
        steps = [
            Step(event.wall - self._zero_us, f"{in_words(event)}{self._until(event)}", event.id)
            for event in told.values()
        ]
        steps += [step for event in decisive[-DECISIVE:] for step in self._unheard.get(event.id, [])]
        return sorted({step.event: step for step in steps}.values(), key=lambda step: step.at_us)

    def to_loss(self, key: str, events: Sequence[str], min_isr: str) -> list[Step]:
        """The way to a loss of acknowledged records of a partition: when they were acknowledged and by whom, why nobody
        could lead who had them, and the election. ``events``: the first acknowledgement, and what shows the loss.
        ``min_isr``: min.insync.replicas, "" if that is not known."""
        lost = next((each for each in self._lost.get(key, ()) if each.first.id in events), None)
        if lost is None:
            return []
        later = {each.id for each in self._faults if each.wall >= lost.elected_us >= 0}
        told = {step.event: step for step in self.to(key, events, ()) if step.event not in later}
        shown = [(lost.first, f"; it is the first lost record{self._how_safe(lost, min_isr)}")]
        if lost.last is not lost.first:
            shown.append((lost.last, "; it is the last one"))
        shown += [(each, ", so that it cannot be elected") for each in lost.fenced.values()]
        told |= {each.id: Step(each.wall - self._zero_us, f"{in_words(each)}{more}", each.id) for each, more in shown}
        return sorted(told.values(), key=lambda step: step.at_us)

    def _how_safe(self, lost: Lost, min_isr: str) -> str:
        """``, acknowledged with ISR [1] and min.insync.replicas 1``."""
        if lost.acks >= 0:
            return f", acknowledged with acks={lost.acks}"
        if not lost.isr:
            return ""
        least = f" and min.insync.replicas {min_isr}" if min_isr and self._min_isr <= {min_isr} else ""
        return f", acknowledged with ISR {brokers(lost.isr)}{least}"

    def _past(self, proofs: Sequence[int]) -> list[Stamped]:
        """What may be told of everything that happened before the proofs by the causes in the trace, in order: what a
        node did before, and what the messages that reached it came from; of a node that came back, also its former
        lives."""
        reach = [NOWHERE] * len(self._lives)
        for index in proofs:
            reach[self._life[index]] = max(reach[self._life[index]], self._seq[index])
        found = []
        for index in range(max(proofs), -1, -1):
            if self._seq[index] > reach[self._life[index]]:
                continue
            cause = self._cause_life[index]
            if cause != NOWHERE and self._cause_seq[index] > reach[cause]:
                reach[cause] = self._cause_seq[index]
            event = self._kept.get(index)
            if event is not None:
                found.append(event)
                if isinstance(event.body, NodeUp) and event.incarnation:
                    former = self._lives.get((event.node, event.incarnation - 1))
                    if former is not None:
                        reach[former] = WHOLE_LIFE
        return found[::-1]

    def _until(self, event: Stamped) -> str:
        """When a fault was over."""
        end = self._ends.get(_fault(event))
        return "" if end is None else f", until {seconds(end - self._zero_us)}"

    def _why_down(self, event: Stamped) -> Stamped:
        """The fault that took a process down; the event itself if none did."""
        if not isinstance(event.body, NodeDown):
            return event
        faults = (each for each in reversed(self._faults) if event.node in _targets(each))
        return next((each for each in faults if _stops(each) and abs(each.wall - event.wall) <= TOGETHER_US), event)

    def _aftermath(self, proofs: Sequence[int], last: Stamped, about: set[str]) -> list[Stamped]:
        """What the node that a violation shows at drops of its log at the same moment, after it."""
        later = (event for index, event in self._kept.items() if index > max(proofs))
        cuts = (event for event in later if isinstance(event.body, LogTrunc) and event.body.tp in about)
        return [event for event in cuts if event.node == last.node and event.wall == last.wall][:AFTERMATH]

    def _hitting(self, until_us: int, nodes: set[str]) -> list[Stamped]:
        """The last faults that began before a moment and hit one of the nodes, but those whose rules nothing met. No
        message leads from a fault to what it does: it is there because of whom it hit."""
        found = [event for event in self._faults if event.wall <= until_us and not nodes.isdisjoint(_targets(event))]
        return [event for event in found if self._hits.get(_fault(event)) != 0][-FAULTS:]


def _hits(event: Stamped) -> bool:
    """Whether it is the beginning of a fault. What an operator asks for is told by the request."""
    return isinstance(event.body, CtlFault) and event.body.phase == "start" and event.body.targets != [ADMIN]


def _fault(event: Stamped) -> str:
    return event.body.fault if isinstance(event.body, CtlFault) else ""


def _targets(event: Stamped) -> list[str]:
    return event.body.targets if isinstance(event.body, CtlFault) else []


def _names(event: Stamped, fields: Sequence[str] = ("tp", "group", "transactional_id", "offsets_tp")) -> Iterator[str]:
    """The partitions, the group and the transactional id that an event is about, of these fields."""
    for name in fields:
        if isinstance(value := getattr(event.body, name, ""), str) and value:
            yield value


def _decides(event: Stamped, about: set[str]) -> bool:
    """Whether an event is a turn on the way to what broke at a partition, at a node, or in the quorum."""
    body = event.body
    match body:
        case PartChange() | LogTrunc():
            return body.tp in about
        case PartAssume():
            return body.tp in about and body.role == "leader"
        case QRole():
            return body.role == "leader" and _of_quorum(event.node, about)
        case QVote():
            return body.granted and not body.pre and _of_quorum(event.node, about)
        case QVoters():
            return _of_quorum(event.node, about)
        case GrpGen():
            return body.group in about and body.state != "PreparingRebalance"
        case TxnState() | TxnMarkers():
            return body.transactional_id in about
        case GrpLoad() | TxnLoad():
            return body.tp in about
    return isinstance(body, AdminInvoke | ConfigChange | NodeDown)


def _without_idle_changes(events: Iterable[Stamped]) -> Iterator[Stamped]:
    """All events but changes of a partition that leave its leader, its leader epoch and its ISR as they were."""
    before: dict[str, tuple[int, int, list[int]]] = {}
    for event in events:
        body = event.body
        if isinstance(body, PartChange):
            now = (body.leader, body.leader_epoch, body.isr)
            if before.get(body.tp) == now:
                continue
            before[body.tp] = now
        yield event


def _stops(event: Stamped) -> bool:
    return isinstance(event.body, CtlFault) and event.body.kind in STOPPING


def _of_quorum(node: str, about: set[str]) -> bool:
    """Whether what a voter does matters: something broke in the metadata log, at that voter, or at no partition and no
    node, as in an epoch of the quorum."""
    elsewhere = any(name.rpartition("-")[2].isdigit() for name in about if "-" in name)
    return METADATA_PARTITION in about or node in about or not elsewhere


def _involved(events: Iterable[Stamped]) -> set[str]:
    """Nodes that events are of, or name as leader or member."""
    found: set[str] = set()
    for event in events:
        found.add(event.node)
        if isinstance(event.body, PartChange):
            found.update(f"broker-{number}" for number in event.body.replicas)
    return found
