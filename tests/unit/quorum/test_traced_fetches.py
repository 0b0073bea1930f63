"""Whose fetches a leader of the quorum traces."""

from __future__ import annotations

from actors.trace.events import QSnapFetch, RepFetch, TraceEvent
from tests.datadriven.quorum.environment import Environment
from tests.datadriven.runner import parse_command


def run(environment: Environment, *lines: str) -> list[TraceEvent]:
    """The fetches that are traced while the commands are carried out."""
    traced: list[TraceEvent] = []

    def observe(name: str, event: TraceEvent) -> None:
        if isinstance(event, RepFetch | QSnapFetch):
            traced.append(event)

    environment.quorum.observer = observe
    for line in lines:
        command = parse_command([line], 1)
        getattr(environment, f"verb_{command.verb.replace('-', '_')}")(command)
    return traced


def test_the_fetches_of_a_wiped_voter_are_an_observers() -> None:
    """Shows that a voter's id with another directory is traced no more than it is counted."""
    environment = Environment()
    traced = run(
        environment,
        *("cluster voters=3 features=(kraft.version=1)", "start c1", "timeout c1 election"),
        *("answer c2 to=c1 granted epoch=0", "answer c2 to=c1 granted epoch=1"),
        "fetch to=c1 from=c2 epoch=1 offset=3 last-epoch=1 wait=0",
        "fetch to=c1 from=c3 directory=dir-new epoch=1 offset=3 last-epoch=1 wait=0",
    )
    assert [(each.follower, each.offset) for each in traced if isinstance(each, RepFetch)] == [(102, 3)]
    assert environment.verb_replicas(parse_command(["replicas c1"], 1)).endswith("observer c3 dir-new end=3")


def test_the_pieces_of_a_snapshot_that_voters_fetch() -> None:
    """Shows that each piece which a voter gets is traced, one that it is refused is not, and an observer's is not."""
    traced = run(
        Environment(),
        *("disk c1 epoch=4 log=(1:1,2:2,4:3) snapshots=(3:2) start=3", "start c1", "timeout c1 election"),
        *("answer c2 to=c1 granted epoch=4", "answer c2 to=c1 granted epoch=5"),
        "fetch-snapshot to=c1 from=c2 epoch=5 id=(3,2) max=50",
        "fetch-snapshot to=c1 from=c2 epoch=5 id=(3,2) position=50",
        "fetch-snapshot to=c1 from=c2 epoch=5 id=(3,2) position=100000",
        "fetch-snapshot to=c1 from=b1 epoch=5 id=(3,2)",
    )
    assert traced == [QSnapFetch(102, 5, 3, 0), QSnapFetch(102, 5, 3, 50)]


def test_a_voter_that_is_told_of_a_snapshot() -> None:
    """Shows that a Fetch which is answered with a snapshot's id is traced, as the voter has been served by then."""
    traced = run(
        Environment(),
        *("disk c1 epoch=4 log=(1:1,2:2,4:3) snapshots=(3:2) start=3", "start c1", "timeout c1 election"),
        *("answer c2 to=c1 granted epoch=4", "answer c2 to=c1 granted epoch=5"),
        "fetch to=c1 from=c2 epoch=5 offset=1 last-epoch=1 wait=0",
        "fetch to=c1 from=b1 epoch=5 offset=1 last-epoch=1 wait=0",
    )
    assert traced == [QSnapFetch(102, 5, 3, -1)]
