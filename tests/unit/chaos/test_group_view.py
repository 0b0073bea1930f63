"""Groups as the healing sees them."""

from __future__ import annotations

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ConsOwn, ErrorSeen, NodeDown, NodeUp, Stamped, TraceEvent
from chaos.group_view import GroupsView, new_groups

GROUPS = {"g": {"members": ["consumer-1", "consumer-2"], "partitions": ["orders-0"]}}


def begun(*unwelcome: str) -> GroupsView:
    """Both members run, and the first one has all there is."""
    view = new_groups(GROUPS, list(unwelcome))
    for each in GROUPS["g"]["members"]:
        tell(view, each, NodeUp("group-consumer", -1, "", False, False))
    tell(view, "consumer-1", ConsOwn("g", "m1", 1, ["orders-0"], ["orders-0"], [], [], "assign"))
    return view


def tell(view: GroupsView, node: str, body: TraceEvent) -> None:
    """An event of a node."""
    view.fold(Stamped("run", node, 0, 0, 0, 0, "", "", body))


@pytest.mark.parametrize(
    ("error", "unwelcome", "waits"),
    [
        (KafkaError.GROUP_MAX_SIZE_REACHED, True, False),
        (KafkaError.FENCED_INSTANCE_ID, True, False),
        (KafkaError.FENCED_INSTANCE_ID, False, True),
        (KafkaError.REBALANCE_IN_PROGRESS, True, True),
    ],
)
def test_nobody_waits_for_who_was_turned_away(error: KafkaError, unwelcome: bool, waits: bool) -> None:
    """Shows that a group has got together without a member that it has no place for, and when it is waited for."""
    view = begun(*(["consumer-2"] if unwelcome else []))
    tell(view, "consumer-2", ErrorSeen("", "JoinGroup", 9, error, "broker-1"))
    assert view.is_out("consumer-2") is not waits
    assert view.unsettled(["orders-0"], []) == ("group g: consumer-2 was assigned nothing yet" if waits else "")


@pytest.mark.parametrize("back", ["join", "restart"])
def test_who_tries_again_is_waited_for(back: str) -> None:
    """Shows that another consumer, or another process, is a member again."""
    view = begun("consumer-2")
    tell(view, "consumer-2", ErrorSeen("", "JoinGroup", 9, KafkaError.GROUP_MAX_SIZE_REACHED, "broker-1"))
    if back == "join":
        tell(view, "consumer-2", ConsOwn("g", "", -1, [], [], [], [], "join"))
    else:
        tell(view, "consumer-2", NodeDown("crash"))
        tell(view, "consumer-2", NodeUp("group-consumer", -1, "", False, False))
    assert not view.is_out("consumer-2")
    assert view.unsettled(["orders-0"], [])
