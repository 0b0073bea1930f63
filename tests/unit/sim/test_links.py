"""Link rules in the sim obey TCP."""

from __future__ import annotations

from actors.control import Crash, InstallRule, LinkRule, RemoveRule, Restart
from actors.node.effects import AnyEffect, Call, SetTimer
from actors.node.events import Answered, AnyEvent, Disconnected, Failed, Received, Started, TimedOut
from actors.trace.events import LinkRuleChange
from tests.harness.toys import Script, Stage, ask
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
