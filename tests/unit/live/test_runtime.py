"""Two live runtimes in one process, over real sockets and files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from actors.control import Barrier, DiskRule, LinkRule, Predicate
from actors.crash_points import CrashPoint
from actors.live.clock import LiveClock
from actors.live.runtime import LiveRuntime
from actors.live.setup import Broken, Completed, Control, Matched, Reached, Report, Setup
from actors.node.spec import NodeSpec
from actors.trace.events import LogAppend, Stamped
from actors.trace.lines import Line, decode_line
from tests.harness.live_toys import client_spec, server_spec

ZERO = Control(0, 0)


def is_third_ping(predicate: Predicate, event: Stamped) -> bool:
    """Matches the append at offset 2."""
    return isinstance(event.body, LogAppend) and event.body.base == 2


class Pair:
    """A server and a client, each with its own runtime, and what they reported."""

    def __init__(self, path: Path, barriers: list[Barrier] | None = None, timeout_ms: int = 1000) -> None:
        self.path = path
        self.barriers = barriers or []
        self.reports: dict[str, list[Report]] = {}
        self.changed = asyncio.Event()
        self.addresses: dict[str, str] = {}
        self.server = self.runtime(server_spec(), 0)
        self.client = self.runtime(client_spec("asker", "broker-1", timeout_ms=timeout_ms), 0)

    def runtime(self, spec: NodeSpec, incarnation: int) -> LiveRuntime:
        def report(report: Report) -> None:
            self.reports.setdefault(spec.name, []).append(report)
            self.changed.set()

        folder = self.path
        setup = Setup(
            "r",
            spec,
            incarnation,
            7,
            str(folder / "logs" / f"node={spec.name}"),
            str(folder / "journals" / f"node={spec.name}"),
            str(folder / "disks" / spec.name),
            "127.0.0.1",
            "tests.harness.live_toys:new_toy",
            f"{__name__}:is_third_ping",
            self.barriers,
        )
        return LiveRuntime(setup, report)

    async def open(self, runtime: LiveRuntime) -> None:
        port = await runtime.open()
        self.addresses[runtime.name] = f"127.0.0.1:{port}"

    async def start(self) -> None:
        for runtime in (self.server, self.client):
            await self.open(runtime)
        for runtime in (self.server, self.client):
            runtime.start(self.addresses, [], [], ZERO)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a report makes the condition true."""
        while not condition():
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 10)

    async def ask(self, **arguments: Any) -> dict[str, Any]:
        """Let the client ask until enough calls have ended; returns what it says then."""
        self.reports.pop("asker", None)
        self.client.invoke("ask", "ask", arguments, ZERO)
        return await self.completed()

    async def finish(self) -> dict[str, Any]:
        """Stop the client's workload, then both; returns what the client says."""
        self.reports.pop("asker", None)
        self.client.invoke("stop", "stop", {}, ZERO)
        result = await self.completed()
        for runtime in (self.client, self.server):
            await runtime.stop(ZERO)
        return result

    async def completed(self) -> dict[str, Any]:
        """The result of the client's operation, once it has ended."""
        await self.until(lambda: any(isinstance(r, Completed) for r in self.reports.get("asker", [])))
        return next(r.result for r in self.reports["asker"] if isinstance(r, Completed))

    def lines(self, node: str) -> list[Line]:
        chunks = sorted((self.path / "logs" / f"node={node}").glob("*.jsonl"))
        lines = [decode_line(line) for chunk in chunks for line in chunk.read_bytes().splitlines()]
        return sorted(lines, key=lambda line: line.order)


def run(work: Awaitable[None]) -> None:
    """Run a test's coroutine on a loop of its own."""

    async def main() -> None:
        await work

    asyncio.run(main())


def test_pipelined_calls_are_served_and_answered_in_order(tmp_path: Path) -> None:
    """Shows that bursts of calls on one connection reach the node in order, one at a time, and that each event of
    the server names the client's as its cause and comes after it in the trace's order."""

    async def scenario() -> None:
        pair = Pair(tmp_path)
        await pair.start()
        # Two whole bursts: there is an order within a burst and from one to the next, and more would show no other.
        await pair.ask(burst=20, enough=40)
        answers = (await pair.finish())["answers"]
        assert len(answers) >= 40
        assert answers == list(range(1, len(answers) + 1))
        server = pair.lines("broker-1")
        assert [line.seq for line in server] == list(range(len(server)))
        assert [line.type for line in (server[0], server[-1])] == ["node.up", "node.down"]
        order = {f"{line.node}/{line.incarnation}/{line.seq}": line.order for line in server + pair.lines("asker")}
        caused = [line for line in server + pair.lines("asker") if line.cause]
        assert caused
        assert all(order[line.cause] < line.order for line in caused)

    run(scenario())


def test_a_hold_keeps_requests_in_order_until_it_is_removed(tmp_path: Path) -> None:
    """Shows that under a hold rule nothing reaches the server although calls run into their time-outs, and that after
    its removal requests are served again."""

    async def scenario() -> None:
        pair = Pair(tmp_path, timeout_ms=100)
        await pair.start()
        pair.server.install(LinkRule("cut", "hold", ["asker"], ["broker-1"]), ZERO)
        assert (await pair.ask(enough=5))["answers"] == []
        pair.server.remove("cut", ZERO)
        result = await pair.ask(enough=30)
        await pair.finish()
        assert "timeout" in result["failures"]
        assert result["answers"]
        types = [line.type for line in pair.lines("broker-1")]
        start, stop = [index for index, kind in enumerate(types) if kind == "link.rule"]
        assert "log.append" not in types[start:stop]
        assert "log.append" in types[stop:]

    run(scenario())


def test_a_barrier_stops_the_node_within_its_step(tmp_path: Path) -> None:
    """Shows that nothing after the matching Record, not even the rest of its step, happens before the release."""

    async def scenario() -> None:
        pair = Pair(tmp_path, [Barrier("third", Predicate("third"))])
        await pair.start()
        pair.client.invoke("begin", "ask", {}, ZERO)
        await pair.until(lambda: any(isinstance(r, Matched) for r in pair.reports.get("broker-1", [])))
        disk = (tmp_path / "disks" / "broker-1" / "f-pings").stat().st_size
        matched = next(r for r in pair.reports["broker-1"] if isinstance(r, Matched))
        assert disk == 2 * 9, "the third append is recorded, but not written yet"
        pair.server.release(matched.ticket, ZERO)
        assert (tmp_path / "disks" / "broker-1" / "f-pings").stat().st_size == 3 * 9
        assert len((await pair.finish())["answers"]) >= 2

    run(scenario())


def test_a_node_stands_still_at_its_crash_point(tmp_path: Path) -> None:
    """Shows a point between a Write and its Sync: the entry is there, no answer has left, and the node takes no step
    until somebody kills it, or takes the point back."""

    async def scenario() -> None:
        pair = Pair(tmp_path)
        await pair.start()
        pair.server.install(CrashPoint("f1/1", "broker-1", "after-write", "pings", nth=3), ZERO)
        pair.client.invoke("begin", "ask", {}, ZERO)
        await pair.until(lambda: any(isinstance(r, Reached) for r in pair.reports.get("broker-1", [])))
        file = tmp_path / "disks" / "broker-1" / "f-pings"
        assert file.stat().st_size == 3 * 9
        pair.server.remove("f1/1", ZERO)
        result = await pair.ask(enough=5)
        await pair.finish()
        assert result["answers"][:3] == [1, 2, 3]
        assert [r for r in pair.reports["broker-1"] if isinstance(r, Reached)] == [Reached("f1/1")]

    run(scenario())


def test_a_point_after_a_sync_comes_before_the_node_hears_of_it(tmp_path: Path) -> None:
    """Shows that the node stands still with a Sync done that it has not been told of."""

    async def scenario() -> None:
        pair = Pair(tmp_path)
        await pair.start()
        pair.server.install(CrashPoint("f1/1", "broker-1", "after-sync", "pings"), ZERO)
        pair.client.invoke("begin", "ask", {}, ZERO)
        await pair.until(lambda: any(isinstance(r, Reached) for r in pair.reports.get("broker-1", [])))
        pair.server.remove("f1/1", ZERO)
        await pair.finish()
        types = [line.type for line in pair.lines("broker-1")]
        assert types.index("log.append") < types.index("log.flush")

    run(scenario())


def test_a_slow_disk_holds_up_syncs_and_not_answers(tmp_path: Path) -> None:
    """Shows a disk rule of a minute: answers come, as they wait for no Sync here, and no Sync is done meanwhile; the
    trace has the rule's changes, with how many Syncs it met."""

    async def scenario() -> None:
        pair = Pair(tmp_path)
        await pair.start()
        pair.server.install(DiskRule("f1/1", "broker-1", 60_000_000, 60_000_000), ZERO)
        pair.server.install(DiskRule("f1/2", "elsewhere", 60_000_000, 60_000_000), ZERO)
        assert (await pair.ask(enough=5))["answers"][:5] == [1, 2, 3, 4, 5]
        pair.server.remove("f1/1", ZERO)
        await pair.finish()
        lines = pair.lines("broker-1")
        changes = [bytes(line.body) for line in lines if line.type == "disk.rule"]
        assert len(changes) == 2
        assert b'"synced":0' in changes[0]
        assert int(changes[1].split(b'"synced":')[1].split(b"}")[0]) >= 5
        assert "log.flush" not in [line.type for line in lines]

    run(scenario())


class Leaping(LiveClock):
    """A clock by which 50 ms pass from one look at it to the next, as where another process has the core. shown: what
    the node was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.at_us = super().physical_us() + 3_600_000_000
        self.shown: set[int] = set()

    def physical_us(self) -> int:
        self.at_us += 50_000
        return self.at_us

    def moment(self) -> tuple[int, int]:
        at_us = self.physical_us()
        self.shown.add(at_us // 1000)
        return at_us, at_us // 1000


def test_what_a_step_records_is_of_the_moment_that_the_node_was_shown(tmp_path: Path) -> None:
    """Shows that a step which takes long makes its events no later: by them, and by the node's own clock, the same time
    passes between two steps."""

    async def scenario() -> None:
        pair = Pair(tmp_path)
        clock = pair.server._clock = Leaping()
        await pair.start()
        await pair.ask(wish="answer", burst=5, enough=20)
        await pair.finish()
        own = [line for line in pair.lines("broker-1") if line.type not in ("node.up", "node.down")]
        assert len(own) >= 20
        assert {line.order[0] // 1000 for line in own} <= clock.shown

    run(scenario())


def test_a_node_that_raises_is_reported_and_recorded(tmp_path: Path) -> None:
    """Shows that an exception in a step ends in ``node.down`` with mode bug and a report, never in silence, and that
    nothing is recorded after that: not even a rule that reaches the process before its end."""

    async def scenario() -> None:
        pair = Pair(tmp_path)
        await pair.start()
        pair.client.invoke("begin", "ask", {"wish": "raise"}, ZERO)
        await pair.until(lambda: any(isinstance(r, Broken) for r in pair.reports.get("broker-1", [])))
        pair.server.install(LinkRule("cut", "hold", ["asker"], ["broker-1"]), ZERO)
        pair.server.remove("cut", ZERO)
        await pair.finish()
        last = pair.lines("broker-1")[-1]
        assert last.type == "node.down"
        assert b"asked to raise" in bytes(last.body)

    run(scenario())
