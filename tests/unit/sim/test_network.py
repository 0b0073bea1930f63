"""Connections in the sim: order, muting, time-outs, refusals, resets."""

from __future__ import annotations

from typing import Any

from actors.control import Crash, Restart
from actors.node.effects import AnyEffect, Call, Close, Reply, SetTimer
from actors.node.events import Answered, AnyEvent, Disconnected, Failed, Received, Started, TimedOut
from krift.v1.produce import ProduceRequest, ProduceResponse
from tests.harness.toys import Script, Stage, ask, say


def calls(texts: str, timeout_ms: int = 1000, connection: str = "c") -> list[AnyEffect]:
    """One Call per letter to the server; the call's number is the letter's place, from 1."""
    return [Call(n, "server", connection, ask(letter), timeout_ms) for n, letter in enumerate(texts, 1)]


def on_start(*effects: AnyEffect) -> Any:
    """A behaviour: these effects at Started, none later."""
    return lambda now_ms, event: list(effects) if isinstance(event, Started) else []


def echo(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
    """A behaviour: answer at once with the code of the letter asked for."""
    if isinstance(event, Received):
        return [Reply(event.connection, say(ord(event.request.client_software_name)))]  # type: ignore[attr-defined]
    return []


def silent(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
    """A behaviour: do nothing."""
    return []


def letters(stage: Stage, name: str = "server") -> str:
    """What the requests that a node was given said."""
    return "".join(event.request.client_software_name for event in stage.events(name, Received))


def test_answers_come_in_the_order_of_the_calls() -> None:
    """Shows that pipelined requests of a connection arrive, and are answered, in the order in which they left."""
    stage = Stage({"client": on_start(*calls("abcdefgh")), "server": echo}, Script(100_000))
    stage.world.run(1_000_000)
    assert letters(stage) == "abcdefgh"
    answers = stage.events("client", Answered)
    assert [answer.call for answer in answers] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [chr(answer.response.error_code) for answer in answers] == list("abcdefgh")


def test_a_connection_is_muted_until_its_request_is_answered() -> None:
    """Shows that a parked request holds up its own connection and no other."""

    def park(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Received) and event.request.client_software_name == "a":  # type: ignore[attr-defined]
            return [SetTimer(event.connection, 40, 40)]
        if isinstance(event, TimedOut):
            return [Reply(event.timer, say())]
        return echo(now_ms, event)

    client = on_start(*calls("ab"), Call(3, "server", "other", ask("c"), 1000))
    stage = Stage({"client": client, "server": park}, Script(100_000))
    stage.world.run(1_000_000)
    assert letters(stage) in ("acb", "cab")
    seen = {event.request.client_software_name: now for now, event in stage.seen["server"] if type(event) is Received}
    assert seen["c"] < 5
    assert seen["b"] >= 40


def test_a_message_arrives_as_it_was_sent() -> None:
    """Shows that a request arrives untouched, with its connection, number and cause beside it."""
    sent = [ask("a"), ask("b")]
    client = on_start(*(Call(n, "server", "c", message, 1000) for n, message in enumerate(sent)))
    stage = Stage({"client": client, "server": echo}, Script(100_000))
    stage.world.run(1_000_000)
    received = stage.events("server", Received)
    assert [event.request for event in received] == [ask("a"), ask("b")] == sent
    assert {event.connection for event in received} == {"client>server:c:0.0"}


def test_a_time_out_closes_the_connection() -> None:
    """Shows that the late call fails with a time-out, the others of its connection with a disconnect, and that the
    server learns of the end only after it has answered, as a muted channel is not read."""

    def slow(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Received):
            return [SetTimer(event.connection, 80, 80)]
        return [Reply(event.timer, say())] if isinstance(event, TimedOut) else []

    client = on_start(Call(1, "server", "c", ask("a"), 60), Call(2, "server", "c", ask("b"), 50))
    stage = Stage({"client": client, "server": slow}, Script(500_000))
    stage.world.run(1_000_000)
    assert [(f.call, f.reason) for f in stage.events("client", Failed)] == [(2, "timeout"), (1, "disconnect")]
    assert [now for now, event in stage.seen["client"] if isinstance(event, Failed)] == [50, 50]
    assert not stage.events("client", Answered)
    assert letters(stage) == "ab"  # the receiver may act on a request whose sender has given up
    assert isinstance(stage.seen["server"][-1][1], Disconnected)


def test_a_call_after_a_break_opens_a_new_connection() -> None:
    """Shows that a connection is never used again after it broke, and that its successor has a name of its own."""

    def client(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            return calls("a", 20)
        return [Call(2, "server", "c", ask("b"), 1000)] if isinstance(event, Failed) else []

    stage = Stage({"client": client, "server": silent}, Script(500_000))
    stage.world.run(1_000_000)
    connections = [event.connection for event in stage.events("server", Received)]
    assert connections == ["client>server:c:0.0", "client>server:c:0.1"]


def test_a_close_by_the_server_fails_all_calls() -> None:
    """Shows that Close ends every open call of the connection with a disconnect, and nothing more arrives on it."""

    def server(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        return [Close(event.connection)] if isinstance(event, Received) else []

    stage = Stage({"client": on_start(*calls("abc")), "server": server}, Script(100_000))
    stage.world.run(1_000_000)
    assert [(f.call, f.reason) for f in stage.events("client", Failed)] == [(n, "disconnect") for n in (1, 2, 3)]
    assert letters(stage) == "a"
    assert not stage.events("server", Disconnected)


def test_a_connection_to_a_dead_process_is_refused() -> None:
    """Shows that a call to a crashed node fails with a disconnect after a round trip, long before its time-out."""

    def client(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            return [SetTimer("go", 20, 20)]
        return calls("a", 30_000) if isinstance(event, TimedOut) else []

    stage = Stage({"client": client, "server": echo}, Script(100_000, {10_000: [Crash("server")]}))
    stage.world.run(1_000_000)
    (failed,) = stage.events("client", Failed)
    assert failed.reason == "disconnect"
    assert stage.seen["client"][-1][0] <= 22


def test_a_crash_resets_connections_on_both_ends() -> None:
    """Shows that the death of a server fails its clients' calls at once, and the death of a client is told to its
    servers as Disconnected."""
    script = Script(500_000, {10_000: [Crash("server")], 20_000: [Restart("server")], 100_000: [Crash("client")]})

    def client(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started) and now_ms < 5:
            return calls("ab", 30_000)
        if isinstance(event, Failed) and event.call == 2:
            return [SetTimer("again", 30, 30)]
        return calls("c", 30_000) if isinstance(event, TimedOut) else []

    def server(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        return echo(now_ms, event) if now_ms > 20 else []

    stage = Stage({"client": client, "server": server}, script)
    stage.world.run(1_000_000)
    assert [f.reason for f in stage.events("client", Failed)] == ["disconnect", "disconnect"]
    assert letters(stage) == "ac"
    assert [event.connection for event in stage.events("server", Disconnected)] == ["client>server:c:0.1"]


def test_a_connection_that_broke_in_silence_fails_the_next_call() -> None:
    """Shows that a client whose server was started anew finds out by its next calls, and then opens a connection: what
    it knew of the old process (its versions) may not hold of the new one."""
    script = Script(500_000, {10_000: [Crash("server")], 20_000: [Restart("server")]})

    def client(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            return [*calls("a", 30_000), SetTimer("later", 40, 40)]
        if isinstance(event, TimedOut):
            return [Call(n, "server", "c", ask(letter), 1000) for n, letter in ((2, "b"), (3, "c"))]
        return [Call(4, "server", "c", ask("d"), 1000)] if isinstance(event, Failed) and event.call == 3 else []

    stage = Stage({"client": client, "server": echo}, script)
    stage.world.run(1_000_000)
    assert [(f.call, f.reason) for f in stage.events("client", Failed)] == [(2, "disconnect"), (3, "disconnect")]
    connections = [event.connection for event in stage.events("server", Received)]
    assert connections == ["client>server:c:0.0", "client>server:c:0.1"]
    assert letters(stage) == "ad"


def test_a_request_without_an_answer_is_over_once_it_is_served() -> None:
    """Shows that Reply(None) ends the peer's call with an empty response, in its turn, and the connection goes on."""

    def server(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Received) and isinstance(event.request, ProduceRequest):
            return [Reply(event.connection, None)]
        return echo(now_ms, event)

    produce = Call(1, "server", "c", ProduceRequest(acks=0), 1000)
    client = on_start(produce, Call(2, "server", "c", ask("b"), 1000))
    stage = Stage({"client": client, "server": server}, Script(100_000))
    stage.world.run(1_000_000)
    answers = stage.events("client", Answered)
    assert [answer.call for answer in answers] == [1, 2]
    assert isinstance(answers[0].response, ProduceResponse)


def test_a_request_without_an_answer_fails_with_its_connection() -> None:
    """Shows that a client learns of a connection which the server closed even where it waits for no answer: that is
    how a producer with acks=0 hears of an error."""

    def server(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        return [Close(event.connection)] if isinstance(event, Received) else []

    client = on_start(Call(1, "server", "c", ProduceRequest(acks=0), 1000))
    stage = Stage({"client": client, "server": server}, Script(100_000))
    stage.world.run(1_000_000)
    assert stage.events("client", Failed) == [Failed(1, "disconnect")]


def test_every_call_ends_exactly_once() -> None:
    """Shows that under crashes, restarts and time-outs no call of a living incarnation ends twice or never."""
    at = {10_000 * n: [Crash("server") if n % 2 else Restart("server")] for n in range(1, 20)}

    def client(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            return [Call(n, "server", f"c{n % 3}", ask("x"), 15) for n in range(1, 10)]
        if isinstance(event, Answered | Failed) and event.call < 200:
            return [Call(event.call + 9, "server", f"c{event.call % 3}", ask("x"), 15)]
        return []

    stage = Stage({"client": client, "server": echo}, Script(1_000_000, at))
    stage.world.run(2_000_000)
    ended = sorted(event.call for event in stage.events("client", (Answered, Failed)))
    assert ended == sorted(set(ended))
    assert len(ended) == 208
