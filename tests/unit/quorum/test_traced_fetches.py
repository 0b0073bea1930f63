"""Whose fetches a leader of the quorum traces."""

from __future__ import annotations

from actors.trace.events import RepFetch, TraceEvent
from tests.datadriven.quorum.environment import Environment
from tests.datadriven.runner import parse_command


def test_the_fetches_of_a_wiped_voter_are_an_observers() -> None:
    """Shows that a voter's id with another directory is traced no more than it is counted."""
    environment = Environment()
    traced: list[tuple[int, int]] = []

    def observe(name: str, event: TraceEvent) -> None:
        if isinstance(event, RepFetch):
            traced.append((event.follower, event.offset))

    environment.quorum.observer = observe

    def run(*lines: str) -> None:
        for line in lines:
            command = parse_command([line], 1)
            getattr(environment, f"verb_{command.verb.replace('-', '_')}")(command)

    run("cluster voters=3 features=(kraft.version=1)", "start c1", "timeout c1 election")
    run("answer c2 to=c1 granted epoch=0", "answer c2 to=c1 granted epoch=1")
    run("fetch to=c1 from=c2 epoch=1 offset=3 last-epoch=1 wait=0")
    run("fetch to=c1 from=c3 directory=dir-new epoch=1 offset=3 last-epoch=1 wait=0")
    assert traced == [(102, 3)]
    assert environment.verb_replicas(parse_command(["replicas c1"], 1)).endswith("observer c3 dir-new end=3")
