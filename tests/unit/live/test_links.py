"""Link rules where messages arrive: held and delayed, and always in the order of their connection."""

from __future__ import annotations

import random

from actors.control import CERTAIN, LinkRule
from actors.live.links import Links, Lost, Severable
from actors.trace.events import LinkHit
from actors.trace.run_events import RuleKind
from tests.unit.live.loop import HandLoop

HOLD = LinkRule("cut", "hold", ["a"], ["b"])
DELAY = LinkRule("slow", "delay", ["a"], ["b"], 10_000, 20_000)
BACK = LinkRule("back", "hold", ["b"], ["a"])


class Arrivals:
    """The links of node b, and what came through."""

    def __init__(self, node: str = "b") -> None:
        self.loop = HandLoop()
        self.hits: list[LinkHit] = []
        self.links = Links(node, self.loop, random.Random, self.hits.append)
        self.through: list[str] = []
        self.lost: list[tuple[int, str]] = []

    def send(self, what: str, connection: str = "c", *links: tuple[str, str]) -> bool:
        """Something of a reaches b, unless the links are others."""
        return self.links.arrive(links or (("a", "b"),), connection, lambda: self.through.append(what))

    def send_message(self, number: int, api: str, request: bool = True, whole: bool = True) -> None:
        """A request of a, or its answer to b, which reaches b unless a rule hits it."""

        def sever(rule: str, lost: Lost) -> bool:
            assert rule == "hit"
            if whole:
                self.lost.append((number, lost))
            return whole

        severable = Severable(number, api, request, sever)
        self.links.arrive((("a", "b"),), "c", lambda: self.through.append(str(number)), severable)


def test_without_rules_everything_arrives_at_once() -> None:
    """Shows that links are no hindrance by themselves."""
    arrivals = Arrivals()
    assert arrivals.send("1")
    assert arrivals.through == ["1"]


def test_a_hold_keeps_its_direction_only_until_it_is_removed() -> None:
    """Shows that what is held arrives in order after the removal, that others pass, and that the held are counted."""
    arrivals = Arrivals()
    arrivals.links.install(HOLD)
    assert [arrivals.send(str(number)) for number in (1, 2)] == [False, False]
    assert arrivals.send("other source", "d", ("x", "b"))
    assert arrivals.send("other way", "e", ("b", "a"))
    arrivals.loop.pass_time(100)
    assert arrivals.through == ["other source", "other way"]
    assert arrivals.links.held("cut") == 2
    assert arrivals.links.remove("cut") == HOLD
    assert arrivals.through[2:] == ["1", "2"]
    assert arrivals.links.remove("cut") is None
    assert arrivals.send("3")


def test_a_refused_connection_takes_both_ways() -> None:
    """Shows that an event that had to travel there and back is held by a rule on either way."""
    for rule in (HOLD, BACK):
        arrivals = Arrivals("a")
        arrivals.links.install(rule)
        assert not arrivals.send("refused", "c", ("b", "a"), ("a", "b"))
        arrivals.links.remove(rule.id)
        assert arrivals.through == ["refused"]


def test_two_rules_hold_until_both_are_removed() -> None:
    """Shows that overlapping partitions do not end each other."""
    arrivals = Arrivals()
    arrivals.links.install(HOLD)
    arrivals.links.install(LinkRule("too", "hold", ["a"], ["b"]))
    arrivals.send("1")
    arrivals.links.remove("cut")
    assert not arrivals.through
    arrivals.links.remove("too")
    assert arrivals.through == ["1"]
    assert (arrivals.links.held("cut"), arrivals.links.held("too")) == (1, 1)


def test_a_delay_draws_from_its_range_and_keeps_each_connection_in_order() -> None:
    """Shows that a delayed message arrives within the bounds, and never before one that its connection brought
    earlier, while connections may overtake each other."""
    arrivals = Arrivals()
    arrivals.links.install(DELAY)
    sent = [(connection, number) for number in range(20) for connection in ("c", "d")]
    for connection, number in sent:
        assert not arrivals.send(f"{connection}{number}", connection)
    arrivals.loop.pass_time(0.0099)
    assert not arrivals.through
    arrivals.loop.pass_time(0.0101)
    for connection in ("c", "d"):
        assert [what for what in arrivals.through if what[0] == connection] == [f"{connection}{n}" for n in range(20)]
    assert arrivals.through != [f"{connection}{number}" for connection, number in sent]
    assert arrivals.links.held("slow") == 40


def test_what_comes_behind_a_delayed_message_waits_for_it() -> None:
    """Shows that a message without a delay of its own keeps its place on its connection."""
    arrivals = Arrivals()
    arrivals.links.install(LinkRule("slow", "delay", ["a"], ["b"], 10_000, 10_000))
    arrivals.send("first")
    arrivals.links.remove("slow")
    assert not arrivals.send("second")
    assert arrivals.send("elsewhere", "d")
    arrivals.loop.pass_time(0.010)
    assert arrivals.through == ["elsewhere", "first", "second"]


def test_delay_and_hold_add_up() -> None:
    """Shows that a delayed message that is held arrives when both are over."""
    arrivals = Arrivals()
    arrivals.links.install(LinkRule("slow", "delay", ["a"], ["b"], 10_000, 10_000))
    arrivals.links.install(HOLD)
    arrivals.send("1")
    arrivals.links.remove("cut")
    assert not arrivals.through
    arrivals.loop.pass_time(0.010)
    assert arrivals.through == ["1"]
    arrivals.links.install(HOLD)
    arrivals.send("2")
    arrivals.loop.pass_time(1)
    assert arrivals.through == ["1"]
    arrivals.links.remove("cut")
    assert arrivals.through == ["1", "2"]


def test_the_target_enforces() -> None:
    """Shows who keeps messages back and so tells of the rule: the end at which they arrive."""
    assert Arrivals("b").links.enforces(HOLD)
    assert not Arrivals("a").links.enforces(HOLD)


def hit(kind: RuleKind, chance_ppm: int = CERTAIN, *apis: str) -> LinkRule:
    """A rule that hits what a sends to b, as drawn."""
    return LinkRule("hit", kind, ["a"], ["b"], 1, 20_000, chance_ppm, list(apis))


def test_a_drop_hits_when_the_message_arrives_and_draws_what_is_lost() -> None:
    """Shows that a message of a named API is lost in place of its delivery, once it is let through, that both outcomes
    are drawn for a request and one for an answer, and that each is told and counted."""
    arrivals = Arrivals()
    arrivals.links.install(hit("drop", CERTAIN, "Fetch"))
    arrivals.links.install(HOLD)
    for number in range(20):
        arrivals.send_message(number, "Fetch")
    arrivals.send_message(20, "Produce")
    arrivals.send_message(21, "Fetch", request=False)
    assert not arrivals.hits
    arrivals.links.remove("cut")
    assert arrivals.through == ["20"]
    assert {lost for number, lost in arrivals.lost if number < 20} == {"request", "reply"}
    assert arrivals.lost[-1] == (21, "reply")
    assert [(each.number, each.lost) for each in arrivals.hits] == arrivals.lost
    assert arrivals.links.held("hit") == 21


def test_a_duplicate_hits_requests_and_loses_their_answers() -> None:
    """Shows that answers pass a duplicate rule, and that of a request it is always the answer that is lost."""
    arrivals = Arrivals()
    arrivals.links.install(hit("duplicate"))
    for number in range(20):
        arrivals.send_message(number, "Fetch")
    arrivals.send_message(20, "Fetch", request=False)
    assert arrivals.lost == [(number, "reply") for number in range(20)]
    assert arrivals.through == ["20"]


def test_a_connection_that_is_severed_already_is_not_hit_again() -> None:
    """Shows that nothing is told or counted where there was nothing left to break."""
    arrivals = Arrivals()
    arrivals.links.install(hit("drop"))
    arrivals.send_message(0, "Fetch", whole=False)
    assert (arrivals.through, arrivals.hits, arrivals.links.held("hit")) == (["0"], [], 0)


def test_a_reorder_slows_down_some_and_keeps_each_connection_in_order() -> None:
    """Shows that by chance messages of one connection overtake those of another, and none of their own."""
    arrivals = Arrivals()
    arrivals.links.install(hit("reorder", CERTAIN // 2))
    sent = [(number, connection) for number in range(20) for connection in ("c", "d")]
    for number, connection in sent:
        arrivals.send(f"{connection}{number}", connection)
    arrivals.loop.pass_time(0.021)
    for connection in ("c", "d"):
        assert [what for what in arrivals.through if what[0] == connection] == [f"{connection}{n}" for n in range(20)]
    assert arrivals.through != [f"{connection}{number}" for number, connection in sent]
    assert 0 < arrivals.links.held("hit") < 40
