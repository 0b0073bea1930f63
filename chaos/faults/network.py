"""Faults on links. They obey TCP: what crosses a partition is held, in order, and delivered when it heals; what is lost
takes its connection with it; within a connection nothing ever comes twice or in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from actors.control import CERTAIN, AnyAction, InstallRule, LinkRule, RemoveRule
from actors.trace.run_events import RuleKind
from chaos.faults.base import Aimed, Fault, Told
from chaos.nemesis.scene import slower
from chaos.scenario.durations import Malformed, format_chance, format_duration
from chaos.scenario.scalars import Chance, Duration, PositiveDuration, Selectors
from chaos.scenario.selectors import select
from chaos.scenario.yaml_tree import Path_
from chaos.view import ClusterView

if TYPE_CHECKING:
    from chaos.nemesis.scene import Part, Scene
    from chaos.scenario.references import References

_DELAYED = "added to the message's time of arrival"


class LinkFault(Fault):
    """A fault that is a rule on links. Which messages it hits: one way (from, to), both ways (between, and), or
    everything that a node exchanges with the rest (isolate)."""

    rule_kind: ClassVar[RuleKind] = "hold"

    sources: Selectors | None = Field(None, alias="from")
    targets: Selectors | None = Field(None, alias="to")
    between: Selectors | None = None
    others: Selectors | None = Field(None, alias="and")
    isolate: Selectors | None = None

    @model_validator(mode="after")
    def _one_form(self) -> LinkFault:
        given = {key for key in ("from", "to", "between", "and", "isolate") if self._at(key) is not None}
        if given not in ({"from", "to"}, {"between", "and"}, {"isolate"}):
            raise Malformed(
                f"{', '.join(sorted(given)) or 'nothing'} does not say which messages",
                "from and to, or between and and, or isolate",
            )
        return self

    def check(self, place: Path_, references: References) -> None:
        for index, api in enumerate(self._apis()):
            references.api((*place, "apis", index), api)
        super().check(place, references)

    def _apis(self) -> list[str]:
        """The APIs whose messages are hit, [] all."""
        return []

    def delays_us(self) -> tuple[int, int]:
        """Bounds of the delay a message gets."""
        return (0, 0)

    def chance_of_hit_ppm(self) -> int:
        """Parts per million of the messages that are hit."""
        return CERTAIN

    def _links(self, view: ClusterView, nodes: Sequence[str]) -> list[tuple[list[str], list[str]]]:
        """Pairs of sources and targets, one for each direction; [] if a side is empty now."""
        sources = select(self.isolate or self.between or self.sources or (), view, nodes)
        chosen = select(self.others or self.targets or (), view, nodes) if self.isolate is None else list(nodes)
        targets = [name for name in chosen if name not in sources]
        if not sources or not targets:
            return []
        return [(sources, targets), (targets, sources)] if self.sources is None else [(sources, targets)]

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        low, high = self.delays_us()
        chance_ppm, apis = self.chance_of_hit_ppm(), self._apis()
        rules = [
            LinkRule(f"{fault}/{number}", self.rule_kind, sources, targets, low, high, chance_ppm, list(apis))
            for number, (sources, targets) in enumerate(self._links(view, nodes), 1)
        ]
        if not rules:
            return None
        begin: list[AnyAction] = [InstallRule(rule) for rule in rules]
        end: list[AnyAction] = [RemoveRule(rule.id) for rule in rules]
        parameters: dict[str, Any] = {
            "from": rules[0].sources,
            "to": rules[0].targets,
            "both_ways": self.sources is None,
            "delay_min_us": low,
            "delay_max_us": high,
        }
        if chance_ppm < CERTAIN or apis:
            parameters |= {"chance_ppm": chance_ppm, "apis": list(apis)}
        targets = [*rules[0].sources, *rules[0].targets]
        silent = rules[0].sources if self.rule_kind == "hold" and self.isolate is not None else []
        return Aimed(self.kind, targets, parameters, begin, end, rules=[rule.id for rule in rules], silent=silent)

    def describe(self) -> str:
        return self._reach()

    def _reach(self) -> str:
        if self.isolate is not None:
            return f"isolating {_listed(self.isolate)}"
        if self.between is not None:
            return f"between {_listed(self.between)} and {_listed(self.others)}"
        return f"from {_listed(self.sources)} to {_listed(self.targets)}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return scene.link()


def _listed(selectors: Selectors | None) -> str:
    return ", ".join(map(str, selectors or ()))


class NetworkPartition(LinkFault):
    """Messages on the links wait until the partition heals. Connections stay open, and senders' timers continue."""

    kind = "partition"
    plainness = 2
    told = (
        Told(
            "partition: {from: A, to: B}",
            "messages from A to B, requests and replies alike, wait; messages from B to A arrive. A node of both "
            "sides belongs to A alone, so that `from` and `to` must not name the same nodes. Connections stay open, "
            "timers continue. After the heal the waiting messages are delivered in order; those of a connection "
            "that has closed meanwhile are delivered or lost, as drawn",
            "messages on the link are kept in the world's queue",
            "the target's runtime delays them",
            "`link.rule`",
        ),
        Told("partition: {between: A, and: B}", "the same both ways", "two rules", "two rules", "`link.rule`"),
        Told(
            "partition: {isolate: A}",
            "the same between A and every other node of the run, clients included",
            "two rules",
            "two rules",
            "`link.rule`",
        ),
    )


class NetworkDelay(LinkFault):
    """Messages on the links take longer, ``by``, plus a part of ``jitter`` drawn for each; order on a connection is
    kept."""

    kind = "delay"
    rule_kind = "delay"
    plainness = 3
    spare = ("jitter", "apis")
    told = (
        Told(
            "delay: {..., by: 20ms, jitter: 5ms, apis: [Fetch]}",
            "messages (of `apis`, all if not given) take `by`, plus up to `jitter` as drawn, longer; order on a "
            "connection is kept. `from`, `between` and `isolate` as for `partition`",
            _DELAYED,
            "the target's runtime waits",
            "`link.rule`",
        ),
    )

    by: PositiveDuration
    jitter: Duration = 0
    apis: list[str] = Field([], description="Requests of these APIs, and their answers; of all if not given.")

    def written(self) -> Any:
        """APIs are left out where there are none, as before they could be given."""
        return {key: value for key, value in super().written().items() if key != "apis" or value}

    def _apis(self) -> list[str]:
        return self.apis

    def delays_us(self) -> tuple[int, int]:
        return (self.by, self.by + self.jitter)

    def describe(self) -> str:
        jitter = f" to {format_duration(self.by + self.jitter)}" if self.jitter else ""
        apis = f" for {', '.join(self.apis)}" if self.apis else ""
        return f"of {format_duration(self.by)}{jitter}{apis} {self._reach()}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {**scene.link(), **slower(scene)}


class _ByChance(LinkFault):
    """Each message is hit by chance."""

    spare = ("apis",)

    chance: Chance = Field(description="Chance of each message to be hit, such as 5%.")
    apis: list[str] = Field([], description="Requests of these APIs, and their answers; of all if not given.")

    def _apis(self) -> list[str]:
        return self.apis

    def chance_of_hit_ppm(self) -> int:
        return self.chance

    def describe(self) -> str:
        apis = f" of {', '.join(self.apis)}" if self.apis else ""
        return f"{format_chance(self.chance)}{apis} {self._reach()}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        apis = scene.draw.sample(scene.apis, min(len(scene.apis), scene.pick(scene.nemesis.like.apis)))
        named = {"apis": apis} if apis else {}
        return {**scene.link(), "chance": scene.pick(scene.nemesis.like.chance), **named}


class NetworkDrop(_ByChance):
    """Messages are lost, and their connections with them; whether the receiver of a request has acted is drawn."""

    kind = "drop"
    rule_kind = "drop"
    plainness = 4
    told = (
        Told(
            "drop: {..., chance: 5%, apis: [Produce]}",
            "a message that is hit is lost, and its connection breaks: the sender sees a disconnect, and it is drawn "
            "whether the receiver has acted (either the request or its answer is lost). No later message of the "
            "connection arrives. `from`, `between` and `isolate` as for `partition`",
            "the target gets the end of the connection instead of the message, and so does the source",
            "the target ends the connection's calls, or closes its socket",
            "`link.rule`; each hit: `link.hit`",
        ),
    )


class NetworkDuplicate(_ByChance):
    """Requests are served, and their connections break before the answer: the client's retry is the second copy."""

    kind = "duplicate"
    rule_kind = "duplicate"
    plainness = 5
    told = (
        Told(
            "duplicate: {..., chance: 5%, apis: [...]}",
            "a request of A to B that is hit is served, and its connection breaks before the answer: the client's "
            "retry is the second copy",
            "the connection ends instead of the answer",
            "the server ends the connection's calls instead of answering",
            "`link.rule`; each hit: `link.hit`",
        ),
    )


class NetworkReorder(_ByChance):
    """Messages that are hit take longer, a drawn part of ``by``: those of other connections overtake them."""

    kind = "reorder"
    rule_kind = "reorder"
    plainness = 6
    told = (
        Told(
            "reorder: {..., chance: 20%, apis: [...], by: 20ms}",
            "a message that is hit takes up to `by` (as drawn; 20 ms if not given) longer, and messages of other "
            "connections overtake it; order on a connection is kept. Reach as for `partition`",
            _DELAYED,
            "the target's runtime waits",
            "`link.rule`",
        ),
    )

    by: PositiveDuration = 20_000

    def delays_us(self) -> tuple[int, int]:
        return (1, self.by)

    def describe(self) -> str:
        return f"{super().describe()}, by up to {format_duration(self.by)}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {**super().draw(scene), "by": scene.duration(scene.pick(scene.nemesis.like.slower_by))}
