"""Both disks over any course of writes, Syncs, deaths and losses: what a Sync covered survives, and they agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.control import DiskLoss
from actors.live.disk import Disk as LiveDisk
from actors.live.disk_loss import lose
from actors.node.effects import Append, Delete, DropHead, FileOperation, Replace, Truncate
from actors.sim.disk import Disk as SimDisk

LOG, STATE = "orders-0/log", "quorum-state"
LOSSES: tuple[DiskLoss, ...] = ("power-loss", "torn-tail", "wiped")


class BothDisks(RuleBasedStateMachine):
    """One process after the other on a modelled disk and on a real one. ``promised``: per file what a Sync has covered
    and neither a Truncate nor a DropHead nor a Replace has taken back."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "disk"
        self.sim = SimDisk()
        self.promised: dict[str, list[bytes]] = {LOG: [], STATE: []}
        self.count = 0
        self.now_us = 0
        self.start()

    def teardown(self) -> None:
        self.live.close()
        self.folder.cleanup()

    def start(self) -> None:
        """A new process: what it reads of a replaced file is durable."""
        self.live = LiveDisk(self.path)
        self.numbers = {LOG: 0, STATE: 0}
        self.open: dict[str, list[tuple[int, int, Callable[[], None], list[bytes]]]] = {LOG: [], STATE: []}
        image = self.live.load()
        assert image == self.sim.image()
        assert self.live.torn == self.sim.torn
        self.sim.torn = 0
        self.content = {name: list(image.get(name, [])) for name in (LOG, STATE)}
        self.promised[STATE] = list(self.content[STATE])

    def write(self, name: str, operation: FileOperation) -> None:
        self.numbers[name] += 1
        self.now_us += 1
        self.sim.write(name, self.numbers[name], operation, self.now_us)
        self.live.write(name, self.numbers[name], operation)

    @rule(entries=st.integers(0, 3))
    def append(self, entries: int) -> None:
        """New entries, each of its own content."""
        new = [b"%d" % (self.count + index) for index in range(entries)]
        self.count += entries
        self.content[LOG] += new
        self.write(LOG, Append(new))

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        """Cut the log somewhere."""
        keep = int(len(self.content[LOG]) * part)
        del self.content[LOG][keep:]
        self.promised[LOG] = self.promised[LOG][:keep]
        self.open[LOG] = [(upto, serial, work, covered[:keep]) for upto, serial, work, covered in self.open[LOG]]
        self.write(LOG, Truncate(keep))

    @rule(part=st.floats(0, 1))
    def drop_head(self, part: float) -> None:
        """Drop some of the log's beginning."""
        count = int(len(self.content[LOG]) * part)
        del self.content[LOG][:count]
        self.promised[LOG] = self.promised[LOG][count:]
        self.open[LOG] = [(upto, serial, work, covered[count:]) for upto, serial, work, covered in self.open[LOG]]
        self.write(LOG, DropHead(count))

    @precondition(lambda self: self.numbers[STATE] and not self.open[STATE])
    @rule()
    def delete(self) -> None:
        """Remove the file: neither death nor loss brings it back."""
        self.write(STATE, Delete())
        self.numbers[STATE], self.content[STATE], self.promised[STATE] = 0, [], []

    @rule()
    def replace(self) -> None:
        """Another content."""
        self.count += 1
        self.content[STATE] = [b"%d" % self.count]
        self.write(STATE, Replace(b"%d" % self.count))

    @rule(name=st.sampled_from((LOG, STATE)))
    def begin_sync(self, name: str) -> None:
        """Ask for a Sync."""
        upto, work = self.live.begin_sync(name)
        self.open[name].append((upto, self.sim.serial, work, list(self.content[name])))

    @precondition(lambda self: any(self.open.values()))
    @rule(log_first=st.booleans())
    def end_sync(self, log_first: bool) -> None:
        """The oldest Sync of a file is done."""
        name = LOG if self.open[LOG] and (log_first or not self.open[STATE]) else STATE
        upto, serial, work, covered = self.open[name].pop(0)
        work()
        self.live.end_sync(name, upto)
        self.sim.sync(name, serial)
        self.promised[name] = (
            covered if name == STATE or len(covered) > len(self.promised[name]) else self.promised[name]
        )

    @rule()
    def die(self) -> None:
        """SIGKILL: everything is there again."""
        self.live.close()
        self.sim.process_died()
        before = {name: list(entries) for name, entries in self.content.items()}
        self.start()
        assert self.content == before

    @rule(loss=st.sampled_from(LOSSES))
    def lose(self, loss: DiskLoss) -> None:
        """The machine ends."""
        self.live.close()
        promised, before = {name: list(entries) for name, entries in self.promised.items()}, list(self.content[LOG])
        lost = self.sim.lose(loss, self.now_us)
        assert lose(self.path, loss) == lost
        self.start()
        if loss == "wiped":
            self.promised = {LOG: [], STATE: []}
            assert self.content == {LOG: [], STATE: []}
        else:
            assert self.content[LOG][: len(promised[LOG])] == promised[LOG]
            assert not promised[STATE] or int(self.content[STATE][0]) >= int(promised[STATE][0])
            self.promised[LOG] = list(self.content[LOG])
        end = len(self.content[LOG])
        assert self.content[LOG] == before[:end]
        assert lost.get(LOG) == (before[end] if end < len(before) else None)

    @invariant()
    def a_promise_is_part_of_the_content(self) -> None:
        """The log never lacks what was promised."""
        assert self.content[LOG][: len(self.promised[LOG])] == self.promised[LOG]


TestBothDisks = BothDisks.TestCase
TestBothDisks.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cuts=st.lists(st.integers(0, 40), min_size=1, max_size=6), at_ms=st.integers(0, 100))
def test_the_operating_system_writes_out_a_prefix(cuts: list[int], at_ms: int) -> None:
    """Shows that power loss leaves exactly what was written before the last time at which the system wrote out."""
    disk = SimDisk(flush_us=20_000)
    times = sorted(cuts)
    for number, ms in enumerate(times, 1):
        disk.write(LOG, number, Append([b"%d" % ms]), ms * 1000)
    now_ms = max(at_ms, times[-1])
    disk.lose("power-loss", now_ms * 1000)
    assert disk.image()[LOG] == [b"%d" % ms for ms in times if ms < now_ms - now_ms % 20]
