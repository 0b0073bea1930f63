"""What an invariant is: a keyed fold over the ordered trace, written once for every engine.

An engine sends each event to the keys that the fold's ``route`` names, in the order of the trace, and keeps one
state per key::

    state = fold.initial(key, profile)
    for event in events of this key:   emissions = fold.step(state, event)
    news of the whole run, in between: emissions = fold.hear(state, event)
    when a deadline is over:           emissions = fold.expire(state, at)
    at the end of the trace:           emissions = fold.finish(state, horizon)

A fold reads no clock and keeps nothing outside its states, which are ``msgspec`` Structs that ``step`` changes in
place: so the same fold gives the same findings in one process and in Spark.

Each state counts in ``tested`` how often its promise was really put to the test (the rule's condition came true and
its consequence was looked at). An invariant with a count of 0 is vacuous, never held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec

from actors.broker.coordinator_common.partitions import REMOTE_LOG_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from actors.config import CONFIG
from actors.node.spec import split_topic_partition
from actors.trace.events import LogAppend, LogHw, Rpc, RpcReply, RunMeta, Stamped, TraceEvent
from orchestrator.invariants.folds.known_findings import KNOWN_FINDINGS

CASES: Mapping[type[TraceEvent], Callable[[Any], str]] = {
    LogAppend: attrgetter("role"),
    LogHw: attrgetter("role"),
    Rpc: attrgetter("api"),
    RpcReply: attrgetter("api"),
}
"""Types of frequent events -> body -> the case it is one of, for folds that need only some cases of a type (``Cases``).
Asking once per event is cheaper than letting each fold find out that there is nothing for it."""

Cases = Mapping[type[TraceEvent], Collection[str]]
"""Type of events -> the cases of it that a fold takes; any other changes nothing for it. A type that is not there: all.
An engine may hand out the others too."""

UNCLEAN_ENABLE = "unclean.leader.election.enable"
"""Whether replicas outside the ISR may be elected."""

MADE_WITH = {
    TRANSACTION_STATE_TOPIC: "transaction.state.log.",
    REMOTE_LOG_METADATA_TOPIC: "rlmm.config.remote.log.metadata.topic.",
}
"""Topics that brokers make with a min.insync.replicas of their own -> how the keys begin that say which
(``TransactionStateManager.transactionTopicConfigs``, KIP-1235)."""

FindingStatus = Literal["violated", "excused", "regained", "lost", "inconclusive"]
Status = Literal["held", "violated", "excused", "inconclusive", "vacuous"]


TOO_SHORT = "window-too-short"
"""Why an inconclusive finding says nothing: the run had no stability window long enough. That puts nothing into doubt
that was tested elsewhere."""


CANNOT_TELL = "source-cannot-tell"
"""Why an inconclusive finding says nothing: the trace is from elsewhere, and lacks the ghost data that it takes. Then
the invariant is inconclusive, whatever else was found."""


class Witness(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event that a state remembers, for evidence: enough to name it."""

    node: str
    incarnation: int
    seq: int
    cause: str

    @property
    def id(self) -> str:
        """As ``Stamped.id``."""
        return f"{self.node}/{self.incarnation}/{self.seq}"


def witness(event: Stamped) -> Witness:
    """What a state keeps of an event."""
    return Witness(event.node, event.incarnation, event.seq, event.cause)


class Finding(msgspec.Struct, frozen=True):
    """Something that ``step`` or ``finish`` found.

    key: what it is about (a topic partition, a voter, a node). sentence: what happened, in Kafka's terms. events:
    ids of the two or three events that prove it; causes: ids of what triggered those, where known. rule: name of
    the exemption (excused; regained: what was missing by it is back; lost: ``times`` records were gone at once, "" if
    no exemption allows it), of what is missing (inconclusive), or of what
    Kafka itself gets wrong and shows here (violated; ``known_findings``). clouds: event types of which the trace
    may lack some because of this (findings of X4): what was judged on them is inconclusive. times: how often it was
    found with this very sentence; the events are those of the first time. at_us: when it was found for the first
    time, by the wall of the trace's clock: when an event showed it, a deadline was over, or the trace ended; -1 not
    told. An engine fills it in, unless the fold did: what only the end of the trace decides may have come before.
    """

    invariant: str
    key: str
    status: FindingStatus
    sentence: str
    events: list[str]
    causes: list[str] = []
    rule: str = ""
    clouds: list[str] = []
    times: int = 1
    at_us: int = -1


class Deadline(msgspec.Struct, frozen=True, order=True):
    """Ask for ``expire(state, at)`` once the trace has passed ``at_us`` (wall of the trace's clock)."""

    at_us: int


Emission = Finding | Deadline
Emissions = Sequence[Emission]
NOTHING: Emissions = ()


class State(msgspec.Struct):
    """Base of the states. ``tested``: how often the invariant was really tested at this key."""

    key: str
    tested: int = 0


class Profile(msgspec.Struct, frozen=True):
    """How the cluster of a run was set up: what invariants and exemptions turn on.

    ``voters``: ids of the voters that the quorum began with; ``versions``: API -> lowest and highest that servers
    speak. ``groups``: per group its ``members`` (clients, by name) and the topic ``partitions`` that they subscribe to.
    ``transactional``: clients that send in transactions. ``consumer_calls``: clients of ListOffsets that ask as a
    consumer's call does. ``stalling``: members of groups whose applications stop polling for longer than
    max.poll.interval.ms again and again. ``unwelcome``: members that a coordinator may turn away for good.
    ``features``, ``config``: of the cluster; ``topics``: per topic its own ``config``; ``nodes``: per node, what
    differs. ``bounced``: features that rolling bounces set, with the values that nodes have from some time on;
    ``bounced_versions``: the same of the versions that they speak, API -> ranges.
    ``epsilon_us``: clock uncertainty between machines; operations closer than that count as concurrent (0 on one
    clock). ``runtime``: live or sim, "" where nobody says; in the sim nothing takes longer than its timers say.
    """

    voters: list[int] = []
    versions: dict[str, list[int]] = {}
    features: dict[str, str] = {}
    config: dict[str, Any] = {}
    topics: dict[str, dict[str, Any]] = {}
    nodes: dict[str, dict[str, Any]] = {}
    bounced: dict[str, list[str]] = {}
    bounced_versions: dict[str, list[list[int]]] = {}
    groups: dict[str, dict[str, list[str]]] = {}
    transactional: list[str] = []
    consumer_calls: list[str] = []
    stalling: list[str] = []
    unwelcome: list[str] = []
    epsilon_us: int = 0
    runtime: str = ""

    def feature(self, name: str, node: str = "") -> str:
        """Value of a feature switch, of one node or of the cluster; "" where the run does not say."""
        return str(self._resolve("features", self.features, name, node, ""))

    def setting(self, name: str, node: str = "", default: Any = None) -> Any:
        """Value of a Kafka configuration key, of one node or of the cluster."""
        return self._resolve("config", self.config, name, node, default)

    def number(self, name: str, node: str = "") -> int:
        """Value of a Kafka configuration key that is a number, of one node or of the cluster; Kafka's default where the
        run does not say."""
        return int(self.setting(name, node, CONFIG[name].default))

    def topic_setting(self, tp: str, name: str, node: str = "", default: Any = None) -> Any:
        """Value of a topic-level Kafka configuration key for a topic partition. Brokers make the topic of transactions
        so that it never elects uncleanly, whatever they have themselves."""
        topic = split_topic_partition(tp)[0]
        own = self.topics.get(topic, {}).get("config", {})
        if name == UNCLEAN_ENABLE and topic == TRANSACTION_STATE_TOPIC:
            return False
        return own[name] if name in own else self.setting(name, node, default)

    def min_isr(self, tp: str) -> int:
        """``min.insync.replicas`` that a topic partition was made with; of topics that brokers make for themselves at
        most as many as they have replicas."""
        prefix = MADE_WITH.get(split_topic_partition(tp)[0])
        if prefix is None:
            return int(self.topic_setting(tp, "min.insync.replicas", default=1))
        replicas = int(self.setting(f"{prefix}replication.factor", default=3))
        return min(int(self.setting(f"{prefix}min.isr", default=2)), replicas)

    def newest_version(self, node: str, api: str, default: int) -> int:
        """The newest version of an API that a node speaks; where rolling bounces change it, the oldest of those.
        ``default``: where the run says none."""
        spoken = self._resolve("versions", self.versions, api, node, [0, default])
        return min(int(each[1]) for each in (spoken, *self.bounced_versions.get(api, [])))

    def is_older(self, api: str, since: int, *nodes: str) -> bool:
        """Whether one of these nodes speaks only versions of an API below ``since``, and with it all whom it asks."""
        return any(self.newest_version(node, api, since) < since for node in nodes)

    def _resolve(self, section: str, shared: Mapping[str, Any], name: str, node: str, default: Any) -> Any:
        if node and node in self.nodes:
            own = self.nodes[node].get(section, {})
            if name in own:
                return own[name]
        return shared.get(name, default)


def committed_alone(profile: Profile) -> set[str]:
    """The clients that read committed records alone. Of who waits for the end of the first transaction no poll has
    returned that would say so."""
    return {
        name
        for name, section in profile.nodes.items()
        if section.get("config", {}).get("isolation.level") == "read_committed"
    }


def profile_of(settings: Mapping[str, Any]) -> Profile:
    """The profile of a plan; what it does not have is taken to be empty."""
    known = {name: settings[name] for name in Profile.__struct_fields__ if name in settings}
    return msgspec.convert(known, Profile)


def profile_of_run(meta: RunMeta) -> Profile:
    """The profile of a run, with its runtime."""
    return msgspec.structs.replace(profile_of(meta.profile), runtime=meta.runtime)


class Kind(NamedTuple):
    """What the columns of a trace say of an event: its type, the partition that it is about ("" none), the node that
    recorded it, and the node of the event that caused it ("" none)."""

    type: type[TraceEvent]
    tp: str
    node: str
    origin: str


def _any_key(_: Kind) -> Collection[str] | None:
    return None


def _all_news(_: Stamped) -> bool:
    return True


class Route(msgspec.Struct, frozen=True):
    """A way of cutting the trace by key. Folds that share a route share a shuffle in Spark.

    ``keys``: event -> keys, each once; a pure function. ``reads``: types of the events whose body the folds look at
    (None: all); of the others they need the envelope alone, and a shuffle may leave the body behind. ``about``: what a
    key is. ``keys_of_kind``: what ``keys`` may give for any event of a kind, which a shuffle can tell without reading
    its body; None: any key. ``hears``: whether news concerns all keys of the route; it may be frequent news of single
    keys, as changes of partitions are.
    """

    name: str
    keys: Callable[[Stamped], Sequence[str]]
    reads: tuple[type[TraceEvent], ...] | None = None
    about: str = ""
    keys_of_kind: Callable[[Kind], Collection[str] | None] = _any_key
    hears: Callable[[Stamped], bool] = _all_news


class Invariant:
    """A promise. The docstring of a class says what goes wrong when it is broken, with one worked example.

    id: as in the reference. title: the promise, in Kafka's words. source: where Kafka, or the literature, makes it.
    tested_when: what counts as a test. requires: features that must not be off for it to mean anything (else it is
    vacuous); at: features, with the value that they must have somewhere; of_groups, of_transactions: it is about
    those, and a run without any does not concern it. promised_by: the feature without which nobody promises it, though
    it is judged.
    types: the events it judges or remembers; cases: which of them. exemptions: rule -> when it excuses. not_promised:
    rules among them for what nobody promised; an invariant that gave way by any other one has not held. unseen: what
    the promise says, or a
    reader would take it to say, and the code does not look at, a sentence each with the reason; for the document.
    standalone: each event is judged by itself, so that a violation proves itself even in a trace with gaps.
    ghost: the ghost data that it cannot do without, such as "prefix hash"; a trace from elsewhere may have none.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    tested_when: ClassVar[str]
    types: ClassVar[tuple[type[TraceEvent], ...]]
    cases: Cases = {}
    requires: ClassVar[tuple[str, ...]] = ()
    at: ClassVar[Mapping[str, str]] = {}
    of_groups: ClassVar[bool] = False
    of_transactions: ClassVar[bool] = False
    promised_by: ClassVar[str] = ""
    standalone: ClassVar[bool] = False
    ghost: ClassVar[str] = ""
    exemptions: ClassVar[Mapping[str, str]] = {}
    not_promised: ClassVar[tuple[str, ...]] = ()
    unseen: ClassVar[tuple[str, ...]] = ()

    @property
    def depends_on(self) -> tuple[type[TraceEvent], ...]:
        """Types of all events that its judgement rests on: if one may be missing, the judgement is in doubt."""
        return self.types

    def violated(self, key: str, sentence: str, *proof: Stamped | Witness | None, known: str = "") -> Emissions:
        """The promise was broken; ``proof`` in the order of the sentence. ``known``: the finding about Kafka itself
        that shows here, "" if none does."""
        assert not known or self.id in KNOWN_FINDINGS[known].shows, f"{known} does not show in {self.id}"
        return (_finding(self.id, key, "violated", sentence, known, proof),)

    def excused(self, rule: str, key: str, sentence: str, *proof: Stamped | Witness | None) -> Emissions:
        """The promise was broken in a way that ``rule`` (one of ``exemptions``) allows."""
        assert rule in self.exemptions, f"{self.id} has no exemption {rule}"
        return (_finding(self.id, key, "excused", sentence, rule, proof),)

    def regained(self, rule: str, key: str, sentence: str, at_us: int, *proof: Stamped | Witness | None) -> Emissions:
        """At the end of the trace, something is there again that was missing, which ``rule`` excused. ``at_us``: since
        when, by the wall of the trace's clock; -1 nobody knows."""
        assert rule in self.exemptions, f"{self.id} has no exemption {rule}"
        found = _finding(self.id, key, "regained", sentence, rule, proof)
        return (msgspec.structs.replace(found, at_us=at_us),)

    def lost(self, rule: str, key: str, number: int, at_us: int, proof: Witness | None) -> Emissions:
        """At the end of the trace: so many records were found to be gone by one event. ``rule``: which allows it, "" if
        none does. ``at_us``: when, by the wall of the trace's clock; -1 at the end."""
        found = _finding(self.id, key, "lost", proof.id if proof is not None else "", rule, (proof,))
        return (msgspec.structs.replace(found, times=number, at_us=at_us),)

    def inconclusive(self, why: str, key: str, sentence: str, *proof: Stamped | Witness | None) -> Emissions:
        """It cannot be said whether the promise was kept."""
        return (_finding(self.id, key, "inconclusive", sentence, why, proof),)

    def cannot_tell(self, key: str, event: Stamped) -> Emissions:
        """An event lacks the ghost data that the promise is judged by. Said of each, and counted as one finding."""
        assert self.ghost, f"{self.id} needs no ghost data"
        return self.inconclusive(CANNOT_TELL, key, f"this source cannot tell: {event.type} has no {self.ghost}", event)


def _finding(
    invariant: str, key: str, status: FindingStatus, sentence: str, rule: str, proof: Sequence[Stamped | Witness | None]
) -> Finding:
    seen = [event for event in proof if event is not None]
    causes = dict.fromkeys(event.cause for event in seen if event.cause)
    return Finding(invariant, key, status, sentence, [event.id for event in seen], list(causes), rule)


S = TypeVar("S", bound=msgspec.Struct)


class Fold(Generic[S]):
    """What an engine runs: one invariant, or several that look at the same mirror of the logs."""

    route: ClassVar[Route]
    cases: Cases = {}

    @property
    def name(self) -> str:
        """Unique among the folds of a run."""
        raise NotImplementedError

    @property
    def invariants(self) -> Sequence[Invariant]:
        """The promises it judges."""
        raise NotImplementedError

    @property
    def event_types(self) -> tuple[type[TraceEvent], ...]:
        """The events it takes."""
        raise NotImplementedError

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        """Events that concern every key, at most a few hundred in a run (windows, elections): each state hears of all
        of them, those from before its first event too."""
        return ()

    def initial(self, key: str, profile: Profile) -> S:
        """The state before the first event of a key."""
        raise NotImplementedError

    def step(self, state: S, event: Stamped) -> Emissions:
        """Take the next event of the key."""
        raise NotImplementedError

    def hear(self, state: S, event: Stamped) -> Emissions:
        """Take an event of ``news``, in the order of the trace."""
        raise NotImplementedError

    def expire(self, state: S, at_us: int) -> Emissions:
        """A deadline that ``step`` or ``hear`` asked for is over."""
        raise NotImplementedError

    def finish(self, state: S, horizon_us: int) -> Emissions:
        """The trace is over; ``horizon_us`` is the wall of its last event."""
        raise NotImplementedError

    def tested(self, state: S) -> dict[str, int]:
        """Invariant id -> how often it was tested at this key."""
        raise NotImplementedError


St = TypeVar("St", bound=State)


class KeyedInvariant(Fold[St], Invariant):
    """An invariant that is a fold of its own: a subclass writes ``initial`` and ``step``, and sets ``route``."""

    @property
    def name(self) -> str:
        return self.id

    @property
    def invariants(self) -> Sequence[Invariant]:
        return (self,)

    @property
    def event_types(self) -> tuple[type[TraceEvent], ...]:
        return self.types

    @property
    def depends_on(self) -> tuple[type[TraceEvent], ...]:
        return (*self.types, *self.news)

    def expire(self, state: St, at_us: int) -> Emissions:
        return NOTHING

    def finish(self, state: St, horizon_us: int) -> Emissions:
        return NOTHING

    def tested(self, state: St) -> dict[str, int]:
        return {self.id: state.tested}
