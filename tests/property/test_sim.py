"""What must hold of the sim runtime whatever the schedule: order on connections, happened-before in the clocks."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from actors.control import AnyAction, Crash, InstallRule, LinkRule, Pause, RemoveRule, Restart, Resume
from actors.node.effects import AnyEffect, Call, Record, Reply, SetTimer
from actors.node.events import Answered, AnyEvent, Failed, Received, Started, TimedOut
from actors.trace.events import LinkHit, MetaImage, Stamped
from actors.trace.hlc import HybridLogicalClock
from tests.harness.toys import Script, Stage, ask, say

NODES = ("client", "server")
END_US = 400_000

actions = st.one_of(
    st.sampled_from(NODES).map(Crash),
    st.sampled_from(NODES).map(Restart),
    st.sampled_from(NODES).map(Pause),
    st.sampled_from(NODES).map(Resume),
    st.sampled_from(("out", "back", "slow", "drop", "copy", "mix", "lose")),
)
schedules = st.lists(st.tuples(st.integers(0, END_US // 1000), actions), max_size=12)


def script(schedule: list[tuple[int, AnyAction | str]]) -> Script:
    """The schedule as a script; the name of a rule toggles it."""
    rules = {
        "out": LinkRule("out", "hold", ["client"], ["server"]),
        "back": LinkRule("back", "hold", ["server"], ["client"]),
        "slow": LinkRule("slow", "delay", ["client"], ["server"], 0, 20_000),
        "drop": LinkRule("drop", "drop", ["client"], ["server"], chance_ppm=150_000),
        "copy": LinkRule("copy", "duplicate", ["client"], ["server"], chance_ppm=150_000),
        "mix": LinkRule("mix", "reorder", ["client", "server"], ["client", "server"], 1, 9_000, 500_000),
        "lose": LinkRule("lose", "drop", ["server"], ["client"], chance_ppm=100_000),
    }
    installed: set[str] = set()
    at: dict[int, list[AnyAction]] = {}
    for time_ms, action in sorted(schedule, key=lambda item: item[0]):
        if isinstance(action, str):
            toggled: AnyAction = RemoveRule(action) if action in installed else InstallRule(rules[action])
            installed ^= {action}
            action = toggled
        at.setdefault(time_ms * 1000, []).append(action)
    return Script(END_US, at)


class Talker:
    """A client that keeps three connections busy and records what it learns; a server that records what it is asked."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.ended: list[int] = []
        self.calls = 0

    def client(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Ten calls at the start, one more for each that ended; a failure is tried again after a while."""
        if isinstance(event, Started):
            return [self._call() for _ in range(10)]
        if isinstance(event, Answered):
            self.ended.append(event.call)
            return [Record(MetaImage(event.call, 1)), self._call()]
        if isinstance(event, Failed):
            self.ended.append(event.call)
            return [Record(MetaImage(event.call, 2)), SetTimer(f"t{event.call}", 5, 30)]
        return [self._call()] if isinstance(event, TimedOut) else []

    def _call(self) -> Call:
        self.calls += 1
        self.sent.append(self.calls)
        return Call(self.calls, "server", f"c{self.calls % 3}", ask(str(self.calls)), 40)

    def server(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Record and answer, every third time later."""
        if isinstance(event, TimedOut):
            return [Reply(event.timer, say())]
        if not isinstance(event, Received):
            return []
        number = int(event.request.client_software_name)  # type: ignore[attr-defined]
        record = Record(MetaImage(number, 0))
        if number % 3 == 0:
            return [record, SetTimer(event.connection, 1, 20)]
        return [record, Reply(event.connection, say())]


def talk(schedule: list[tuple[int, AnyAction | str]], seed: int) -> tuple[Talker, Stage, list[Stamped]]:
    """Run the talkers under the schedule."""
    talker = Talker()
    stage = Stage({"client": talker.client, "server": talker.server}, script(schedule), seed)
    result = stage.world.run(2 * END_US)
    assert not result.failures, result.failures[0].traceback
    return talker, stage, result.trace


@settings(max_examples=60)
@given(schedules, st.integers(0, 1000))
def test_a_connection_neither_reorders_nor_duplicates(schedule: list[tuple[int, AnyAction | str]], seed: int) -> None:
    """Shows that on every connection requests arrive with numbers 0, 1, 2, ... whatever happens, and that no call of
    the client ends twice."""
    talker, stage, trace = talk(schedule, seed)
    numbers: dict[str, list[int]] = {}
    for event in trace:
        if event.node == "server" and isinstance(event.body, MetaImage):
            connection, _, number = event.req.rpartition("#")
            numbers.setdefault(connection, []).append(int(number))
    for connection, found in numbers.items():
        assert found == list(range(len(found))), connection
    assert_the_lost_are_lost(stage, trace, numbers)
    assert len(talker.ended) == len(set(talker.ended))
    assert set(talker.ended) <= set(talker.sent)


def assert_the_lost_are_lost(stage: Stage, trace: list[Stamped], served: dict[str, list[int]]) -> None:
    """What a rule has broken stays broken: a request that was lost is never served, nor anything behind it; and no
    answer comes that was lost, or from behind it."""
    answered = {event.req for event in trace if isinstance(event.body, MetaImage) and event.body.digest == 1}
    for hit in (event.body for event in trace if isinstance(event.body, LinkHit)):
        last = hit.number - (hit.lost == "request")
        assert max(served.get(hit.connection, []), default=-1) <= last or hit.rule == "lose"
        assert not [number for number in range(hit.number, hit.number + 20) if f"{hit.connection}#{number}" in answered]


@settings(max_examples=60)
@given(schedules, st.integers(0, 1000))
def test_happened_before_implies_order(schedule: list[tuple[int, AnyAction | str]], seed: int) -> None:
    """Shows that the trace is recorded in its total order, which rises along every node and over every message: an
    event is ordered behind the one it names as its cause."""
    _, _, trace = talk(schedule, seed)
    by_id = {event.id: event for event in trace}
    orders = [event.order[:2] for event in trace]
    assert orders == sorted(set(orders)), "the trace is recorded in its total order"
    last: dict[str, Stamped] = {}
    for event in trace:
        if event.node in last:
            assert last[event.node].order < event.order
            assert last[event.node].wall <= event.wall
        last[event.node] = event
        if event.cause:
            assert by_id[event.cause].order < event.order
        if isinstance(event.body, MetaImage):
            assert bool(event.cause) == (event.body.digest != 2), "a step that a message triggers has a cause"
            assert event.req


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)), max_size=60))
def test_a_clock_is_ahead_of_all_it_has_seen(steps: list[tuple[int, int, int]]) -> None:
    """Shows that hybrid clocks rise at every tick and merge, never fall behind the physical clock they are shown, and
    get ahead of the message they merge, with any drift between nodes."""
    clocks = [HybridLogicalClock() for _ in range(3)]
    physical = [0, 3, 100]
    for who, other, passed in steps:
        physical[who] += passed
        clock, before = clocks[who], (clocks[who].wall_us, clocks[who].logical)
        message = (clocks[other].wall_us, clocks[other].logical)
        if who == other:
            clock.tick(physical[who])
        else:
            clock.merge(physical[who], *message)
            assert (clock.wall_us, clock.logical) > message
        assert (clock.wall_us, clock.logical) > before
        assert clock.wall_us >= physical[who]
