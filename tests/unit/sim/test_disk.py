"""The modelled disk: what survives the process, power loss, a torn tail and a wipe."""

from __future__ import annotations

import pytest

from actors.control import Crash, DiskLoss, DiskRule, MendDisk, Pause, Restart, Resume, SlowDisk
from actors.node.effects import AnyEffect, Append, FileOperation, Replace, SetTimer, Sync, Truncate, Write
from actors.node.events import AnyEvent, Started, Synced
from actors.sim.disk import Disk
from actors.trace.events import DiskRuleChange, NodeDown, NodeUp
from tests.harness.toys import Script, Stage

FLUSH_US = 1_000_000


def written(*operations: FileOperation, name: str = "log", synced: int = 0, at_us: int = 0) -> Disk:
    """A disk on which one process made these writes, of which a Sync covered the first ``synced``."""
    disk = Disk(FLUSH_US)
    for number, operation in enumerate(operations, 1):
        disk.write(name, number, operation, at_us)
        if number == synced:
            disk.sync(name, disk.serial)
    return disk


@pytest.mark.parametrize(
    ("loss", "left", "first_lost"),
    [
        ("power-loss", [b"a"], b"b"),
        ("torn-tail", [b"a", b"b"], b"c"),
    ],
)
def test_what_is_left_of_a_log(loss: DiskLoss, left: list[bytes], first_lost: bytes) -> None:
    """Shows that power loss takes everything that no Sync covered, a torn tail the last entry of it."""
    disk = written(Append([b"a"]), Append([b"b"]), Append([b"c"]), synced=1)
    assert disk.lose(loss, 10) == {"log": first_lost}
    assert disk.image() == {"log": left}
    assert disk.torn == (loss == "torn-tail")


def test_a_wipe_leaves_nothing() -> None:
    """Shows that a wiped disk has no file, synced or not, and that a Sync that was open means nothing for it."""
    disk = written(Append([b"a"]), Append([b"b"]), synced=1)
    serial = disk.serial
    assert disk.lose("wiped", 10) == {"log": b"a"}
    assert disk.image() == {}
    disk.sync("log", serial)
    disk.write("log", 1, Append([b"x"]), 20)
    disk.sync("log", serial)
    assert disk.lose("power-loss", 30) == {"log": b"x"}


def test_a_tail_that_was_synced_is_not_torn() -> None:
    """Shows that a torn tail takes nothing where a Sync has covered the last entry."""
    disk = written(Append([b"a", b"b"]), synced=1)
    assert disk.lose("torn-tail", 10) == {}
    assert (disk.image(), disk.torn) == ({"log": [b"a", b"b"]}, 0)


def test_what_was_cut_never_comes_back() -> None:
    """Shows a Truncate below what was synced: power loss brings nothing back, and what was appended since is gone."""
    disk = written(Append([b"a", b"b", b"c"]), Truncate(1), Append([b"x"]), synced=1)
    assert disk.lose("power-loss", 10) == {"log": b"x"}
    assert disk.image() == {"log": [b"a"]}


def test_a_sync_that_a_truncate_overtook_covers_what_is_left() -> None:
    """Shows that a Sync which ends after a Truncate does not vouch for what was written in place of the cut part."""
    disk = written(Append([b"a", b"b"]))
    serial = disk.serial
    disk.write("log", 2, Truncate(1), 0)
    disk.write("log", 3, Append([b"x"]), 0)
    disk.sync("log", serial)
    disk.lose("power-loss", 10)
    assert disk.image() == {"log": [b"a"]}


@pytest.mark.parametrize("loss", ["power-loss", "torn-tail"])
def test_a_replace_is_all_or_nothing(loss: DiskLoss) -> None:
    """Shows that the content before the last Replace is back if no Sync covered that, whatever came in between."""
    disk = written(Replace(b"one"), Replace(b"two"), Replace(b"three"), name="quorum-state", synced=1)
    assert disk.lose(loss, 10) == {}
    assert disk.image() == {"quorum-state": [b"one"]}


def test_a_sync_that_a_replace_overtook_still_counts() -> None:
    """Shows that power loss goes back to the content that was synced, not to one before."""
    disk = written(Replace(b"one"), Replace(b"two"), name="quorum-state", synced=1)
    serial = disk.serial
    disk.write("quorum-state", 3, Replace(b"three"), 0)
    disk.sync("quorum-state", serial)
    disk.lose("power-loss", 10)
    assert disk.image() == {"quorum-state": [b"two"]}


def test_what_a_new_process_reads_of_a_replaced_file_stays() -> None:
    """Shows that a content which a restarted voter has read cannot be lost after that: it acts on it, and Kafka syncs
    a file before it gets its name. A log may lose what a process has read."""
    disk = written(Replace(b"one"), name="quorum-state")
    disk.write("log", 1, Append([b"a"]), 0)
    disk.process_died()
    disk.image()
    assert disk.lose("power-loss", 10) == {"log": b"a"}
    assert disk.image() == {"log": [], "quorum-state": [b"one"]}


def test_the_operating_system_writes_out_at_its_times() -> None:
    """Shows that what was written before the last multiple of the interval survives without any Sync."""
    disk = written(Append([b"a"]), at_us=FLUSH_US - 1)
    disk.write("log", 2, Append([b"b"]), FLUSH_US)
    disk.write("log", 3, Append([b"c"]), FLUSH_US + 1)
    assert disk.lose("power-loss", 2 * FLUSH_US - 1) == {"log": b"b"}
    disk.write("log", 1, Append([b"d"]), 2 * FLUSH_US - 1)
    assert disk.lose("power-loss", 2 * FLUSH_US) == {}
    assert disk.image() == {"log": [b"a", b"d"]}


def test_a_disk_refuses_what_cannot_be() -> None:
    """Shows that a node that skips a number of its writes, or cuts off more than there is, has a bug."""
    with pytest.raises(AssertionError, match="write 2 came after 0"):
        Disk().write("log", 2, Append([]), 0)
    with pytest.raises(AssertionError, match="truncating 0 entries to 1"):
        Disk().write("log", 1, Truncate(1), 0)


def test_a_wiped_node_comes_back_with_another_directory() -> None:
    """Shows the trace of a wipe: an end that took part of the disk, then a start that says so, under a new directory
    id; the next start says so no more."""
    at = {
        10_000: [Crash("node", "wiped")],
        20_000: [Restart("node")],
        30_000: [Crash("node")],
        40_000: [Restart("node")],
    }
    images: list[dict[str, list[bytes]]] = []

    def node(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if not isinstance(event, Started):
            return []
        images.append(event.disk)
        return [Write("log", 1, Append([b"a"]))]

    stage = Stage({"node": node}, Script(100_000, at))
    result = stage.world.run(1_000_000)
    ups = [event.body for event in result.trace if isinstance(event.body, NodeUp)]
    assert [up.wiped for up in ups] == [False, True, False]
    assert ups[0].directory_id != ups[1].directory_id == ups[2].directory_id
    assert [event.body.mode for event in result.trace if isinstance(event.body, NodeDown)] == ["lossy", "crash", "end"]
    assert images == [{}, {}, {"log": [b"a"]}]


def test_a_slow_disk_holds_up_each_sync() -> None:
    """Shows that a Sync takes its own time and, under a rule, what was drawn on top; that Syncs of a file keep their
    order; that the rule outlives the process, and that its changes are in the trace, with how many Syncs it met."""

    def node(now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        if isinstance(event, Started):
            return [Sync("log"), SetTimer("again", 20, 20)]
        return [Sync("log")] if not isinstance(event, Synced) else []

    rule = DiskRule("f1/1", "node", 50_000, 60_000)
    at = {
        10_000: [SlowDisk(rule)],
        100_000: [Crash("node")],
        200_000: [Restart("node")],
        205_000: [Pause("node"), MendDisk("f1/1", "node")],
        230_000: [Resume("node")],
    }
    stage = Stage({"node": node}, Script(400_000, at))
    result = stage.world.run(1_000_000)
    first, slow, over_restart, after = [now for now, event in stage.seen["node"] if isinstance(event, Synced)]
    assert first <= 2
    assert 70 <= slow <= 82
    assert 250 <= over_restart <= 262
    assert after == over_restart  # it keeps its order, on a disk that is quick again
    changes = [
        (event.body.phase, event.body.synced) for event in result.trace if isinstance(event.body, DiskRuleChange)
    ]
    assert changes == [("start", 0), ("start", 0), ("stop", 1)]
