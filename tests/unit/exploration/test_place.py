"""What the exploration makes of writes: each kind of them, as the sim's disk has it."""

from __future__ import annotations

import pytest

from actors.node.effects import Append, Delete, DropHead, Replace, Truncate, Write
from orchestrator.exploration.models import MODELS
from orchestrator.exploration.place import DiskFile, _Run, _written
from orchestrator.exploration.search import Search
from orchestrator.exploration.voter import VoterNode

FILE = DiskFile("log", ((3, (b"a", b"b", b"c")),))


@pytest.mark.parametrize(
    ("operation", "durable", "now"),
    [
        (Append([b"d"]), (b"a", b"b", b"c"), (b"a", b"b", b"c", b"d")),
        (Truncate(2), (b"a", b"b"), (b"a", b"b")),
        (DropHead(2), (b"c",), (b"c",)),
        (Replace(b"x"), (b"a", b"b", b"c"), (b"x",)),
    ],
    ids=["append", "truncate", "drop-head", "replace"],
)
def test_each_write_leaves_what_survives_and_what_there_is(
    operation: Append | Truncate | DropHead | Replace, durable: tuple[bytes, ...], now: tuple[bytes, ...]
) -> None:
    """Shows the content after a write, and what power loss would leave: what was cut at either end never comes back."""
    assert _written(FILE, 4, operation).contents == ((3, durable), (4, now))


def test_what_is_deleted_is_gone_and_begins_again() -> None:
    """Shows that a voter which deletes a file has none, and that a later write makes a new one."""
    places = Search(MODELS["election"]).cluster.places
    run = _Run(VoterNode(), set(), {"log": FILE}, [])
    places._take(run, Write("log", 4, Delete()))
    assert run.files == {}
    places._take(run, Write("log", 1, Append([b"e"])))
    assert run.files["log"].contents[-1] == (1, (b"e",))
