"""Link rules in the sim obey TCP."""

from __future__ import annotations

import msgspec

from actors.control import CERTAIN, Crash, InstallRule, LinkRule, RemoveRule, Restart
from actors.node.effects import AnyEffect, Call, Reply, SetTimer
from actors.node.events import Answered, AnyEvent, Disconnected, Failed, Received, Started, TimedOut
from actors.trace.events import LinkHit, LinkRuleChange
from actors.trace.run_events import RuleKind
from tests.harness.toys import Script, Stage, ask, say
from tests.unit.sim.test_network import calls, echo, letters, on_start, silent


def hold(source: str, target: str, name: str = "cut") -> InstallRule:
    """Hold what goes from source to target."""
    return InstallRule(LinkRule(name, "hold", [source], [target]))


def test_what_crosses_a_partition_waits_and_keeps_its_order() -> None:
    """Shows that held requests are delivered, in order, when the rule is removed."""
    script = Script(200_000, {0: [hold("client", "server")], 100_000: [RemoveRule("cut")]})
    stage = Stage({"client": on_start(*calls("abcde", 500)), "server": echo}, script)
    stage.world.run(1_000_000)
    assert letters(stage) == "abcde"
    assert min(now for now, event in stage.seen["server"] if isinstance(event, Received)) >= 100
    assert [answer.call for answer in stage.events("client", Answered)] == [1, 2, 3, 4, 5]


def test_a_partition_may_cut_one_direction_only() -> None:
    """Shows that a rule from server to client lets requests through and holds their answers, while the client's own
    time-outs run on."""
    script = Script(200_000, {0: [hold("server", "client")]})
    stage = Stage({"client": on_start(*calls("a", 50)), "server": echo}, script)
    stage.world.run(1_000_000)
    assert letters(stage) == "a"
    assert [f.reason for f in stage.events("client", Failed)] == ["timeout"]
    assert not stage.events("client", Answered)


def test_a_held_answer_arrives_at_the_heal() -> None:
    """Shows that an answer outlives the partition if the client still waits for it."""
    script = Script(200_000, {0: [hold("server", "client")], 50_000: [RemoveRule("cut")]})
    stage = Stage({"client": on_start(*calls("a", 150)), "server": echo}, script)
    stage.world.run(1_000_000)
    assert [now for now, event in stage.seen["client"] if isinstance(event, Answered)] in ([50], [51])


def outcomes(seed: int) -> str:
    """What a server is given of three held requests whose connection timed out before the heal."""
    script = Script(200_000, {0: [hold("client", "server")], 100_000: [RemoveRule("cut")]})
    stage = Stage({"client": on_start(*calls("abc", 50)), "server": echo}, script, seed=seed)
    stage.world.run(1_000_000)
    assert len(stage.events("client", Failed)) == 3
    received = letters(stage)
    assert len(stage.events("server", Disconnected)) == bool(received)
    return received


def test_a_held_request_of_a_closed_connection_is_delivered_or_lost() -> None:
    """Shows that the draw decides how many of them still arrive, and that only a tail is ever lost."""
    assert {outcomes(seed) for seed in range(40)} == {"", "a", "ab", "abc"}
    assert outcomes(3) == outcomes(3)


def test_a_crash_behind_a_partition_is_noticed_at_the_heal() -> None:
    """Shows that the end of a connection crosses a link like data: a client cut off from a crashed server hears of it
    only when the link lets it."""
    at = {10_000: [hold("server", "client")], 20_000: [Crash("server")], 100_000: [RemoveRule("cut")]}
    stage = Stage({"client": on_start(*calls("a", 5000)), "server": silent}, Script(200_000, at))
    stage.world.run(1_000_000)
    ((now, failed),) = [(now, event) for now, event in stage.seen["client"] if isinstance(event, Failed)]
    assert failed.reason == "disconnect"
    assert 100 <= now <= 101


def test_a_request_held_for_a_dead_incarnation_is_not_delivered_to_its_successor() -> None:
    """Shows that a restarted server knows nothing of connections that its predecessor had accepted."""

    def client(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            return [*calls("a", 5000), SetTimer("go", 20, 20)]
        return [Call(2, "server", "c", ask("b"), 5000)] if isinstance(event, TimedOut) else []

    at = {
        10_000: [hold("client", "server")],
        30_000: [Crash("server"), Restart("server")],
        100_000: [RemoveRule("cut")],
    }
    stage = Stage({"client": client, "server": echo}, Script(200_000, at))
    stage.world.run(1_000_000)
    assert letters(stage) == "a"
    assert [f.call for f in stage.events("client", Failed)] == [2]


def test_two_rules_hold_until_both_are_gone() -> None:
    """Shows that overlapping faults do not heal each other."""
    at = {
        0: [hold("client", "server", "one"), hold("client", "server", "two")],
        50_000: [RemoveRule("one")],
        100_000: [RemoveRule("two")],
    }
    stage = Stage({"client": on_start(*calls("a", 500)), "server": echo}, Script(200_000, at))
    stage.world.run(1_000_000)
    assert [now >= 100 for now, event in stage.seen["server"] if isinstance(event, Received)] == [True]


def test_a_delay_keeps_the_order_of_a_connection() -> None:
    """Shows that a delay rule slows messages down, by its own draw each, and reorders nothing on a connection."""
    rule = LinkRule("slow", "delay", ["client"], ["server"], 10_000, 60_000)
    stage = Stage({"client": on_start(*calls("abcdefgh")), "server": echo}, Script(200_000, {0: [InstallRule(rule)]}))
    client = on_start(SetTimer("go", 1, 1))
    stage = Stage(
        {
            "client": lambda now, event: calls("abcdefgh") if isinstance(event, TimedOut) else client(now, event),
            "server": echo,
        },
        Script(200_000, {0: [InstallRule(rule)]}),
    )
    stage.world.run(1_000_000)
    assert letters(stage) == "abcdefgh"
    assert min(now for now, event in stage.seen["server"] if isinstance(event, Received)) >= 11


def test_the_trace_says_when_a_rule_began_and_ended_and_what_it_held() -> None:
    """Shows the runtime's own record of a link rule."""
    script = Script(200_000, {0: [hold("client", "server")], 100_000: [RemoveRule("cut")]})
    stage = Stage({"client": on_start(*calls("abc", 500)), "server": echo}, script)
    result = stage.world.run(1_000_000)
    changes = [event.body for event in result.trace if isinstance(event.body, LinkRuleChange)]
    assert [(change.phase, change.held) for change in changes] == [("start", 0), ("stop", 3)]


def break_rule(kind: RuleKind, source: str, target: str, chance_ppm: int = CERTAIN, *apis: str) -> InstallRule:
    """Hit what goes from source to target, as drawn."""
    return InstallRule(LinkRule("hit", kind, [source], [target], 1, 20_000, chance_ppm, list(apis)))


def fates(stage: Stage) -> list[tuple[str, int, str]]:
    """Connections that a rule broke: name, number of the request, and what was lost."""
    hits = [event.body for event in stage.world.trace if isinstance(event.body, LinkHit)]
    return [(hit.connection.split(":")[1], hit.number, hit.lost) for hit in hits]


def counts(stage: Stage) -> list[int]:
    """What the rules that ended had hit."""
    changes = [event.body for event in stage.world.trace if isinstance(event.body, LinkRuleChange)]
    return [change.held for change in changes if change.phase == "stop"]


def drop_one(seed: int) -> tuple[str, list[tuple[str, int, str]]]:
    """Three calls under a rule that drops all that goes to the server: what it was asked, and what was lost."""
    script = Script(200_000, {0: [break_rule("drop", "client", "server")], 100_000: [RemoveRule("hit")]})
    stage = Stage({"client": on_start(*calls("abc", 500)), "server": echo}, script, seed)
    stage.world.run(1_000_000)
    assert [(f.call, f.reason) for f in stage.events("client", Failed)] == [(n, "disconnect") for n in (1, 2, 3)]
    assert len(stage.events("server", Disconnected)) == len(letters(stage))
    assert counts(stage) == [1]
    return letters(stage), fates(stage)


def test_a_dropped_request_was_served_or_not_and_its_connection_breaks() -> None:
    """Shows both outcomes of a drop: the request is lost, or its answer is. Either way all calls of the connection
    end in a disconnect, nothing behind the loss arrives, and both ends hear of the end."""
    outcomes = [drop_one(seed) for seed in range(12)]
    assert all(outcome in outcomes for outcome in (("", [("c", 0, "request")]), ("a", [("c", 0, "reply")])))


def test_a_dropped_answer_takes_its_connection_with_it() -> None:
    """Shows that under a rule from server to client the request is served, and the client sees a disconnect."""
    script = Script(200_000, {0: [break_rule("drop", "server", "client")]})
    stage = Stage({"client": on_start(*calls("a", 500)), "server": echo}, script)
    stage.world.run(1_000_000)
    assert letters(stage) == "a"
    assert [f.reason for f in stage.events("client", Failed)] == ["disconnect"]
    assert len(stage.events("server", Disconnected)) == 1
    assert fates(stage) == [("c", 0, "reply")]


def test_a_duplicate_is_the_clients_own_retry() -> None:
    """Shows that a request is served although its connection breaks before the answer, so that a client that tries
    again has it served twice, on two connections."""
    script = Script(200_000, {0: [break_rule("duplicate", "client", "server")], 20_000: [RemoveRule("hit")]})

    def persistent(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Failed):
            return [SetTimer("again", 30, 30)]
        return calls("a") if isinstance(event, Started | TimedOut) else []

    stage = Stage({"client": persistent, "server": echo}, script)
    stage.world.run(1_000_000)
    assert letters(stage) == "aa"
    assert len({event.connection for event in stage.events("server", Received)}) == 2
    assert [answer.call for answer in stage.events("client", Answered)] == [1]
    assert fates(stage) == [("c", 0, "reply")]


def test_a_duplicate_hits_no_answers() -> None:
    """Shows that what the server sends under a duplicate rule is let through: the second copy is the client's."""
    stage = Stage(
        {"client": on_start(*calls("a")), "server": echo},
        Script(50_000, {0: [break_rule("duplicate", "server", "client")]}),
    )
    stage.world.run(1_000_000)
    assert [answer.call for answer in stage.events("client", Answered)] == [1]


def test_the_end_of_a_rule_severs_what_it_was_about_to() -> None:
    """Shows that a client whose request is being served when the rule ends is told then, not at the answer: a fault
    that is over breaks nothing any more. The server hears of the end after it has answered."""

    def slow(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Received):
            return [SetTimer(event.connection, 100, 100)]
        return [Reply(event.timer, say())] if isinstance(event, TimedOut) else []

    script = Script(200_000, {0: [break_rule("duplicate", "client", "server")], 50_000: [RemoveRule("hit")]})
    stage = Stage({"client": on_start(*calls("a", 500)), "server": slow}, script)
    stage.world.run(1_000_000)
    assert [(now, f.reason) for now, f in stage.seen["client"] if isinstance(f, Failed)] == [(50, "disconnect")]
    assert [now for now, event in stage.seen["server"] if isinstance(event, Disconnected)] == [100]


def test_only_the_apis_that_are_named_are_hit() -> None:
    """Shows that a rule about Produce lets ApiVersions through."""
    script = Script(50_000, {0: [break_rule("drop", "client", "server", CERTAIN, "Produce")]})
    stage = Stage({"client": on_start(*calls("abc")), "server": echo}, script)
    stage.world.run(1_000_000)
    assert letters(stage) == "abc"
    assert not fates(stage)


def test_reorder_lets_connections_overtake_but_not_messages() -> None:
    """Shows that requests of two connections arrive in another order than they were sent, and those of each in
    theirs, and that the rule counts what it slowed down."""
    sent = [call for letter in "abcdefgh" for call in (calls(letter, 500, "c") + calls(letter.upper(), 500, "d"))]
    numbered = [msgspec.structs.replace(call, call=number) for number, call in enumerate(sent)]
    rule = break_rule("reorder", "client", "server", CERTAIN // 2)
    script = Script(200_000, {0: [rule], 100_000: [RemoveRule("hit")]})

    def after_a_while(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            return [SetTimer("go", 10, 10)]
        return list(numbered) if isinstance(event, TimedOut) else []

    stage = Stage({"client": after_a_while, "server": echo}, script)
    stage.world.run(1_000_000)
    heard = letters(stage)
    assert [letter for letter in heard if letter.islower()] == list("abcdefgh")
    assert [letter for letter in heard if letter.isupper()] == list("ABCDEFGH")
    assert heard != "aAbBcCdDeEfFgGhH"
    assert 0 < counts(stage)[0] < 16


def test_a_connection_leads_to_one_process() -> None:
    """Shows that the first request of a connection that a cut has kept back is refused by a process that was started
    meanwhile: it was sent to the one before."""
    script = Script(
        200_000,
        {
            0: [hold("client", "server")],
            20_000: [Crash("server")],
            40_000: [Restart("server")],
            60_000: [RemoveRule("cut")],
        },
    )
    stage = Stage({"client": on_start(*calls("a", 500)), "server": echo}, script)
    stage.world.run(1_000_000)
    assert letters(stage) == ""
    assert [(now // 10, f.reason) for now, f in stage.seen["client"] if isinstance(f, Failed)] == [(6, "disconnect")]
