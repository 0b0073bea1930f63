"""How messages travel in the sim, and who changes one."""

from __future__ import annotations

import pytest

from actors.node.effects import AnyEffect, Call, Reply, SetTimer
from actors.node.events import Answered, AnyEvent, Received, Started, TimedOut
from actors.sim.carriage import LOOKED_AT, Carriage, MessageChanged, MessageWatch, by_wire
from actors.sim.world import RunResult
from krift.v1.api_versions import ApiVersionsRequest
from krift.v1.metadata import MetadataRequest
from tests.harness.toys import Behaviour, Script, Stage, ask, say


def run(client: Behaviour, server: Behaviour, carriage: Carriage) -> RunResult:
    return Stage({"client": client, "server": server}, Script(100_000), carriage=carriage).world.run(1_000_000)


def asker(message: ApiVersionsRequest) -> Behaviour:
    return lambda now, event: [Call(1, "server", "c", message, 1000)] if isinstance(event, Started) else []


def echo(now: int, event: AnyEvent) -> list[AnyEffect]:
    return [Reply(event.connection, say())] if isinstance(event, Received) else []


def test_what_travels_as_bytes_is_a_copy() -> None:
    """Shows that a message which travels as bytes is another object that says the same, and one that does not is the
    sender's own."""
    for carriage, same in (("shared", True), ("wire", False), ("watched", True)):
        message, arrived = ask("a"), []

        def server(now: int, event: AnyEvent, arrived: list[object] = arrived) -> list[AnyEffect]:
            if isinstance(event, Received):
                arrived.append(event.request)
            return echo(now, event)

        assert not run(asker(message), server, carriage).failures  # type: ignore[arg-type]
        assert arrived == [message]
        assert (arrived[0] is message) == same


def test_a_field_that_is_absent_arrives_absent() -> None:
    """Shows that None and a default, and lists of parts, come through the bytes."""
    topic = MetadataRequest.MetadataRequestTopic(name="orders")
    for message in (MetadataRequest(), MetadataRequest(topics=[topic], allow_auto_topic_creation=False)):
        assert by_wire(message) == message


def test_a_receiver_that_changes_a_message_is_named() -> None:
    """Shows that the run breaks at the step in which a node changes what it was sent, and says who, and which."""

    def server(now: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Received):
            event.request.client_software_name = "changed"  # type: ignore[union-attr]
        return echo(now, event)

    [failure] = run(asker(ask("a")), server, "watched").failures
    assert failure.detail.startswith("MessageChanged: server has changed the ApiVersionsRequest from client to server")


def test_a_sender_that_changes_a_message_is_named() -> None:
    """Shows that it is the same for a node that changes what it has sent, however deep."""
    message = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")])

    def client(now: int, event: AnyEvent) -> list[AnyEffect]:
        match event:
            case Started():
                return [Call(1, "server", "c", message, 1000), SetTimer("later", 20, 20)]
            case TimedOut():
                message.topics[0].name = "others"
        return []

    [failure] = run(client, echo, "watched").failures
    assert "client has changed the MetadataRequest from client to server" in failure.detail


def test_what_is_changed_long_after_is_found_at_the_end() -> None:
    """Shows that a message which is no longer looked at after each step is looked at when the run is over."""
    watch, first = MessageWatch(), ask("first")
    watch.sent("client", "server", first)
    for number in range(LOOKED_AT):
        watch.sent("client", "server", ask(str(number)))
    watch.look_at_all()
    first.client_software_name = "changed"
    watch.look("client")
    with pytest.raises(MessageChanged, match="somebody has changed the ApiVersionsRequest from client to server"):
        watch.look_at_all()


def test_an_answer_is_watched_too() -> None:
    """Shows that a client which changes an answer is found out."""

    def client(now: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Answered):
            event.response.error_code = 5  # type: ignore[union-attr]
        return asker(ask("a"))(now, event)

    [failure] = run(client, echo, "watched").failures
    assert "client has changed the ApiVersionsResponse from server to client" in failure.detail
