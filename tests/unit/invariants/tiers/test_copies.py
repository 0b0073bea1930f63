"""R10 and R12: what leaders copy and delete in the remote store, and what becomes of copies that break off."""

from __future__ import annotations

from typing import Any

import pytest

from actors.log.segment_objects import LEADER_EPOCH, LOG, OFFSET, PRODUCER_SNAPSHOT, TIMESTAMP
from actors.node.spec import REMOTE_STORE
from actors.trace.events import (
    CtlFault,
    LogLocalStart,
    LogStart,
    NodeDown,
    PartAssume,
    PartChange,
    PartRemove,
    StoreObject,
    TierPhase,
    TierSegment,
)
from actors.trace.tier_events import DELETED, DELETION_STARTED, FINISHED
from tests.unit.invariants.trace_builder import TP, TraceBuilder

STARTED = "COPY_SEGMENT_STARTED"
WHOLE = (LOG, OFFSET, TIMESTAMP, PRODUCER_SNAPSHOT, LEADER_EPOCH)
EVERYBODY = ("broker-1", "broker-2", REMOTE_STORE)
LONG_US = 3_600_000_000


class Tiers(TraceBuilder):
    """A trace of copies, each called by its name; each has ten offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.lead(1, 0)

    def told(self, phase: TierPhase, segment: str, start: int, broker: int = 1, **fields: Any) -> str:
        """Something becomes of the copy of the ten offsets from ``start`` on."""
        defaults = {"leader_epoch": 0, "high_watermark": 100, "last_stable_offset": 100, "log_start": 0, "within": True}
        if phase == "known":
            defaults = {}
        settings: dict[str, Any] = {"state": STARTED, "end": start + 9, "epochs": {"0": start}, **defaults, **fields}
        return self.emit(f"broker-{broker}", TierSegment(TP, segment, phase, start=start, **settings))

    def store(self, segment: str, *objects: str, phase: Any = "stored") -> str:
        """The store has objects of a copy, or has them no more."""
        return [self.emit(REMOTE_STORE, StoreObject(TP, "t", segment, each, phase, 1)) for each in objects][-1]

    def copy(self, segment: str, start: int, broker: int = 1, *known: int, **fields: Any) -> str:
        """A whole copy, of which these brokers learn; the event that began it."""
        began = self.told("copying", segment, start, broker, **fields)
        self.told("known", segment, start, broker)
        self.store(segment, *WHOLE)
        self.told("copied", segment, start, broker, **fields)
        for each in known:
            self.told("known", segment, start, each, state=FINISHED)
        return began

    def whole(self) -> str:
        """A whole copy, which the metadata tell of; the event that reported it."""
        self.half("a", *WHOLE)
        self.told("known", "a", 0, state=FINISHED)
        return self.told("copied", "a", 0)

    def half(self, segment: str = "a", *objects: str) -> str:
        """A copy of which the store has one object; the event that stored it."""
        self.told("copying", segment, 0)
        self.told("known", segment, 0)
        return self.store(segment, *(objects or (LOG,)))

    def later(self) -> None:
        """Time passes, in which nothing is recorded."""
        self.wall += LONG_US
        self.emit("driver", CtlFault("f", "pause", "start", [], {}))


# ---- R10 -------------------------------------------------------------------------------------------------------


def test_copies_in_order_and_the_deletion_of_what_the_log_begins_behind() -> None:
    """Shows that each copy that begins tests R10, and each deletion of a finished one, not of one that broke off."""
    trace = Tiers()
    trace.copy("a", 0, 1, 1, 2)
    trace.copy("b", 10, 1, 1, 2)
    trace.told("deleting", "a", 0, state=FINISHED, log_start=10)
    trace.told("deleting", "c", 20)
    result = trace.result("R10")
    assert (result.status, result.tested) == ("held", 3)


@pytest.mark.parametrize(("watermark", "stable", "broken"), [(10, 10, False), (9, 9, True), (10, 9, True)])
def test_only_what_is_committed_and_decided_is_copied(watermark: int, stable: int, broken: bool) -> None:
    """Shows that the last offset of a copy must be below the high watermark and the last stable offset, both of which
    are exclusive."""
    trace = Tiers()
    event = trace.copy("a", 0, high_watermark=watermark, last_stable_offset=stable)
    result = trace.result("R10")
    assert result.status == ("violated" if broken else "held")
    for finding in result.violations:
        assert finding.sentence == (
            f"broker-1 copies offsets 0 to 9 of orders-0, but its high watermark is {watermark} "
            f"and its last stable offset {stable}"
        )
        assert event in finding.events


def test_a_high_watermark_is_what_the_broker_recorded_of_it() -> None:
    """Shows that a high watermark that only the copy tells of does not count against the one in the trace, and that
    what was recorded before a restart is forgotten."""
    trace = Tiers()
    trace.high_watermark("broker-1", 9)
    trace.copy("a", 0, high_watermark=10)
    assert trace.result("R10").status == "violated"
    trace = Tiers()
    trace.up("broker-1")
    trace.high_watermark("broker-1", 9)
    trace.up("broker-1")
    trace.copy("a", 0, high_watermark=10)
    assert trace.result("R10").status == "held"


@pytest.mark.parametrize(
    ("start", "reason", "status"),
    [
        (20, "retention-bytes", "held"),
        (20, "delete-records", "held"),
        (15, "retention-ms", "violated"),
        (20, "leader", "violated"),
    ],
)
def test_a_gap_of_deleted_records(start: int, reason: Any, status: str) -> None:
    """Shows that a copy may leave out what was deleted, even if its leader lost its log start with its checkpoint."""
    trace = Tiers()
    trace.copy("a", 0, 1, 1)
    trace.emit("broker-2", LogStart(TP, start, reason, 0))
    trace.copy("c", 20, log_start=5)
    assert trace.result("R10").status == status


@pytest.mark.parametrize(("log_start", "broken"), [(0, True), (15, True), (20, False)])
def test_a_gap_between_copies(log_start: int, broken: bool) -> None:
    """Shows that a copy continues the last one, or begins where the log does."""
    trace = Tiers()
    trace.copy("a", 0, 1, 1)
    event = trace.copy("c", 20, log_start=log_start)
    result = trace.result("R10")
    assert result.status == ("violated" if broken else "held")
    for finding in result.violations:
        told = f"broker-1 copies offsets 20 to 29 of orders-0, but no copy has offsets {max(10, log_start)} to 19"
        assert finding.sentence == told
        assert event in finding.events


def test_a_copy_whose_leader_went_before_it_told_of_the_end() -> None:
    """Shows that the next leader continues behind a copy that the metadata alone tell of."""
    trace = Tiers()
    trace.told("copying", "a", 0)
    trace.told("known", "a", 0, 2, state=FINISHED)
    trace.copy("b", 10, 2)
    assert trace.result("R10").status == "held"


@pytest.mark.parametrize(("learned", "epoch", "broken"), [(1, "0", True), (2, "0", False), (1, "3", False)])
def test_a_second_copy_of_the_same_records(learned: int, epoch: str, broken: bool) -> None:
    """Shows that a leader does not copy what it knows to be copied; but it may if it has not learned of it, or if the
    copy has records of another leader epoch."""
    trace = Tiers()
    trace.copy("a", 0, 1, learned)
    event = trace.copy("b", 0, epochs={epoch: 0})
    result = trace.result("R10")
    assert result.status == ("violated" if broken else "held")
    for finding in result.violations:
        assert (
            finding.sentence == "broker-1 copies offsets 0 to 9 of orders-0, although it knows a copy of these offsets"
        )
        assert event in finding.events


def test_a_copy_of_a_former_leader_that_comes_late() -> None:
    """Shows that a leader which has begun to copy goes on from where it was, whatever it learns meanwhile; and that a
    new leader epoch begins with what is known then."""
    trace = Tiers()
    trace.copy("a", 0, 1, 1, leader_epoch=1)
    trace.told("known", "b", 10, 1, state=FINISHED)
    trace.copy("c", 10, 1, 1, leader_epoch=1)
    assert trace.result("R10").status == "held"
    trace.copy("d", 10, 1, 1, leader_epoch=2)
    assert trace.result("R10").status == "violated"


@pytest.mark.parametrize(("looks", "status"), [(True, "held"), (False, "violated")])
def test_a_copy_of_a_former_leader_that_comes_after_the_look(looks: bool, status: str) -> None:
    """Shows that a new leader copies from where it found its log copied up to, whatever it learns before its first
    copy."""
    trace = Tiers()
    trace.copy("a", 0, 1, 1, leader_epoch=1)
    if looks:
        trace.emit("broker-1", LogStart(TP, 0, "remote", -1))
    trace.told("known", "b", 10, 1, state=FINISHED)
    trace.copy("c", 10, 1, 1, leader_epoch=2)
    assert trace.result("R10").status == status


@pytest.mark.parametrize("forgotten", ["deletion", "restart"])
def test_copies_that_a_leader_knows_no_more(forgotten: str) -> None:
    """Shows that what is being deleted may be copied again, and what was learned before a restart."""
    trace = Tiers()
    trace.up("broker-1")
    trace.copy("a", 0, 1, 1)
    if forgotten == "deletion":
        trace.told("known", "a", 0, state="DELETE_SEGMENT_STARTED")
    else:
        trace.up("broker-1")
    trace.copy("b", 0)
    assert trace.result("R10").status == "held"


@pytest.mark.parametrize(("log_start", "within", "broken"), [(9, True, True), (10, True, False), (0, False, False)])
def test_a_copy_that_goes_while_the_log_shows_it(log_start: int, within: bool, broken: bool) -> None:
    """Shows that the log begins behind a copy that is deleted, unless the copy is of another lineage."""
    trace = Tiers()
    trace.copy("a", 0, 1, 1)
    event = trace.told("deleting", "a", 0, state=FINISHED, log_start=log_start, within=within)
    result = trace.result("R10")
    assert result.status == ("violated" if broken else "held")
    for finding in result.violations:
        told = f"broker-1 deletes the copy of offsets 0 to 9 of orders-0, but its log starts at {log_start}"
        assert finding.sentence == told
        assert event in finding.events


# ---- R12 -------------------------------------------------------------------------------------------------------


def test_whole_copies_and_whole_deletions() -> None:
    """Shows that the end of a copy tests R12, and the end of its deletion."""
    trace = Tiers()
    trace.whole()
    trace.store("a", *WHOLE, phase="deleted")
    trace.told("known", "a", 0, state=DELETED)
    trace.told("deleted", "a", 0, state=DELETION_STARTED)
    result = trace.result("R12")
    assert (result.status, result.tested) == ("held", 2)


@pytest.mark.parametrize(
    ("topic", "cause", "status"),
    [("__remote_log_metadata", "unclean", "excused"), ("__remote_log_metadata", "fence", "violated"),
     ("orders", "unclean", "violated")],
)  # fmt: skip
def test_a_copy_whose_metadata_topic_was_shortened(topic: str, cause: Any, status: str) -> None:
    """Shows that a broker may not wait for metadata after an unclean election of their topic, and of no other."""
    trace = Tiers()
    trace.told("copying", "a", 0)
    trace.emit("controller-1", PartChange(f"{topic}-0", 5, 1, 2, 1, 1, [2], [1, 2, 3], cause))
    trace.store("a", LOG)
    assert trace.result("R12").status == status


def test_an_object_that_no_metadata_tell_of() -> None:
    """Shows that metadata come before the first object."""
    trace = Tiers()
    trace.told("copying", "a", 0)
    event = trace.store("a", LOG)
    (finding,) = trace.result("R12").violations
    assert finding.sentence == "LOG of a copy of orders-0 was stored, but no metadata record named that copy"
    assert event in finding.events


@pytest.mark.parametrize(("deleter", "status"), [(2, "excused"), (1, "violated")])
def test_a_copy_that_another_leader_has_deleted(deleter: int, status: str) -> None:
    """Shows that a former leader may tell that a copy is finished which the next one has deleted meanwhile, and not one
    that it has deleted itself."""
    trace = Tiers()
    trace.half("a", *WHOLE)
    trace.told("deleting", "a", 0, deleter, leader_epoch=1)
    trace.store("a", *WHOLE, phase="deleted")
    trace.told("refused", "a", 0, state=FINISHED)
    trace.told("copied", "a", 0)
    assert trace.result("R12").status == status


def test_a_finished_copy_that_lacks_an_object() -> None:
    """Shows that all objects but the index of aborted transactions are needed."""
    trace = Tiers()
    trace.half("a", *WHOLE[:-2])
    trace.told("known", "a", 0, state=FINISHED)
    event = trace.told("copied", "a", 0)
    (finding,) = trace.result("R12").violations
    assert finding.sentence == (
        "broker-1 reported its copy of orders-0 as finished without LEADER_EPOCH, PRODUCER_SNAPSHOT"
    )
    assert event in finding.events


@pytest.mark.parametrize("stale", ["no", "now", "before", "long before", "meanwhile"])
def test_a_deleted_copy_that_is_still_there(stale: str) -> None:
    """Shows that nothing is left of a deleted copy; with the excuse of a store that lists what it had, if the deletion
    began while it did or while its lists were still old, and not later."""
    trace = Tiers()
    fault = {"delay_min_us": 5_000_000, "delay_max_us": 5_000_000}
    if stale != "no":
        trace.emit("driver", CtlFault("s", "stale-listing", "start", [REMOTE_STORE], fault))
    trace.whole()
    if stale == "meanwhile":
        trace.told("deleting", "a", 0)
    if stale not in ("no", "now"):
        trace.emit("driver", CtlFault("s", "stale-listing", "stop", [REMOTE_STORE], fault))
    if stale in ("long before", "meanwhile"):
        trace.wall += 5_000_000
    if stale != "meanwhile":
        trace.told("deleting", "a", 0)
    trace.store("a", *WHOLE[:-1], phase="deleted")
    trace.told("known", "a", 0, state=DELETED)
    event = trace.told("deleted", "a", 0)
    result = trace.result("R12")
    excused = stale in ("now", "before", "meanwhile")
    assert (result.status, dict(result.excused)) == (("excused", {"outdated-list": 1}) if excused else ("violated", {}))
    for finding in result.violations:
        assert (
            finding.sentence == "broker-1 reported a copy of orders-0 as deleted, but the store still has LEADER_EPOCH"
        )
        assert event in finding.events


@pytest.mark.parametrize(
    ("deleter", "before", "gone", "status"),
    [
        (2, [], [], "excused"),
        (2, [LOG], [LOG], "excused"),
        (2, [LOG, TIMESTAMP], [LOG], "violated"),
        (2, [LOG], [], "violated"),
        (1, [], [], "violated"),
    ],
)
def test_an_object_that_comes_after_the_deletion(deleter: int, before: list[str], gone: list[str], status: str) -> None:
    """Shows that a former leader's request may be carried out after the next leader's deletion, which must have taken
    all that was there, even what comes again; and that nobody is excused with his own request."""
    trace = Tiers()
    trace.told("copying", "a", 0)
    trace.told("known", "a", 0)
    for each in before:
        trace.store("a", each)
    trace.told("deleting", "a", 0, deleter, leader_epoch=1)
    for each in gone:
        trace.store("a", each, phase="deleted")
    trace.store("a", LOG)
    trace.told("known", "a", 0, deleter, state=DELETED)
    trace.told("deleted", "a", 0, deleter, leader_epoch=1)
    result = trace.result("R12")
    assert (result.status, dict(result.excused)) == (status, {"late-object": 1} if status == "excused" else {})


@pytest.mark.parametrize(
    ("phase", "consumed", "status"),
    [
        ("copied", [("known", FINISHED, 1)], "held"),
        ("copied", [("refused", FINISHED, 1)], "held"),
        ("copied", [("known", DELETED, 1)], "held"),
        ("copied", [("known", STARTED, 1), ("known", DELETION_STARTED, 1)], "violated"),
        ("copied", [("known", FINISHED, 2)], "violated"),
        ("deleted", [("known", DELETED, 1)], "held"),
        ("deleted", [("known", DELETED, 1), ("known", STARTED, 1)], "held"),
        ("deleted", [("known", DELETION_STARTED, 1)], "violated"),
        ("deleted", [("known", DELETED, 2)], "violated"),
    ],
)
def test_metadata_that_say_what_is_reported(
    phase: TierPhase, consumed: list[tuple[TierPhase, str, int]], status: str
) -> None:
    """Shows that who reports something has consumed that of the metadata itself, whether it followed or not; and that
    whoever knows of the end of a deletion learns nothing more of the copy."""
    trace = Tiers()
    trace.half("a", *WHOLE)
    if phase == "deleted":
        trace.store("a", *WHOLE, phase="deleted")
    for heard, state, broker in consumed:
        trace.told(heard, "a", 0, broker, state=state)
    event = trace.told(phase, "a", 0)
    result = trace.result("R12")
    assert (result.status, result.tested) == (status, 1)
    for finding in result.violations:
        what = "its copy of orders-0 as finished" if phase == "copied" else "a copy of orders-0 as deleted"
        told = f"broker-1 reported {what}, but it has consumed no metadata record that says so"
        assert finding.sentence == told
        assert event in finding.events


def test_metadata_that_were_consumed_before_a_restart() -> None:
    """Shows that another process has to consume them itself."""
    trace = Tiers()
    trace.up("broker-1")
    trace.half("a", *WHOLE)
    trace.told("known", "a", 0, state=FINISHED)
    trace.up("broker-1")
    trace.told("copied", "a", 0)
    assert trace.result("R12").status == "violated"


METADATA = "__remote_log_metadata-3"


@pytest.mark.parametrize(
    ("what", "excused"),
    [
        (PartChange(METADATA, 5, 1, 2, 1, 1, [2], [1, 2, 3], "unclean"), True),
        (PartChange(METADATA, 5, 1, 2, 1, 1, [2], [1, 2, 3], "fence"), False),
        (PartChange(TP, 5, 1, 2, 1, 1, [2], [1, 2, 3], "unclean"), False),
        (LogStart(METADATA, 7, "retention-bytes", 0), True),
        (LogStart(METADATA, 7, "leader", 0), False),
        (LogStart(TP, 7, "retention-bytes", 0), False),
        (NodeDown("lossy", lost={METADATA: 5}), False),
    ],
)
def test_metadata_that_may_be_gone_unread(what: Any, excused: bool) -> None:
    """Shows that a broker may be past what it has not consumed when the metadata topic has lost records, or its oldest
    ones have gone; not when other partitions have, nor when one disk of several lost something."""
    trace = Tiers()
    trace.half("a", *WHOLE)
    trace.emit("controller-1" if type(what) is PartChange else "broker-2", what)
    trace.told("copied", "a", 0)
    result = trace.result("R12")
    assert (result.status, dict(result.excused)) == (("excused", {"metadata-lost": 1}) if excused else ("violated", {}))


def test_metadata_that_too_many_disks_have_lost() -> None:
    """Shows that disks of as many replicas as a record was promised to be on may lose metadata without an election."""
    trace = Tiers()
    trace.half("a", *WHOLE)
    for broker in (2, 3):
        trace.down(f"broker-{broker}", "lossy", lost={METADATA: 5})
    trace.told("copied", "a", 0)
    assert trace.result("R12").status == "excused"


def test_a_copy_that_broke_off_and_goes() -> None:
    """Shows that R12 is tested when what was stored of it goes in a window, and not when it does in none."""
    trace = Tiers()
    trace.half("a")
    trace.store("a", LOG, phase="deleted")
    assert trace.result("R12").status == "vacuous"
    trace = Tiers()
    trace.half("a")
    trace.window("open", *EVERYBODY)
    trace.store("a", LOG, phase="deleted")
    result = trace.result("R12")
    assert (result.status, result.tested) == ("held", 1)


def test_a_copy_that_broke_off_and_stays() -> None:
    """Shows that a half copy must go in a window that is long enough, in which its leader and the store are."""
    trace = Tiers()
    event = trace.half("a")
    trace.window("open", *EVERYBODY)
    trace.later()
    (finding,) = trace.result("R12").violations
    assert finding.sentence.startswith(
        "the store still has LOG of a copy of orders-0 that broker-1 never finished, and did not remove within 240"
    )
    assert event in finding.events


@pytest.mark.parametrize(
    ("objects", "then", "broken"),
    [([LOG], "nothing", True), ([LOG], "deleting", False), ([LOG], "gone", False), (WHOLE, "nothing", False)],
)
def test_a_copy_that_its_leader_gives_up(objects: list[str], then: str, broken: bool) -> None:
    """Shows that who gives a copy up has begun to delete what is there of it, unless all of it is."""
    trace = Tiers()
    trace.half("a", *objects)
    trace.told("deleting", "a" if then == "deleting" else "b", 0)
    if then == "gone":
        trace.store("a", *objects, phase="deleted")
    event = trace.told("copy-failed", "a", 0)
    result = trace.result("R12")
    assert (result.status, result.tested) == ("violated" if broken else "held", 1)
    for finding in result.violations:
        assert finding.sentence == "broker-1 gave up its copy of orders-0, but left LOG in the store"
        assert event in finding.events


@pytest.mark.parametrize(("objects", "excused"), [(WHOLE, True), ([LOG], False)])
def test_a_copy_whose_end_nobody_hears_of(objects: list[str], excused: bool) -> None:
    """Shows that a whole copy that its leader gives up may stay, and a half one may not."""
    trace = Tiers()
    trace.half("a", *objects)
    trace.told("deleting", "a", 0)
    trace.told("delete-failed", "a", 0)
    trace.told("copy-failed", "a", 0)
    trace.window("open", *EVERYBODY)
    trace.later()
    result = trace.result("R12")
    assert (result.status, "untold" in result.excused) == ("excused" if excused else "violated", excused)


def test_a_window_that_is_too_short() -> None:
    """Shows that it says nothing of a half copy."""
    trace = Tiers()
    trace.half("a")
    trace.window("open", *EVERYBODY)
    trace.window("close")
    assert trace.result("R12").status == "vacuous"


def assume(role: Any, leader: int, leader_epoch: int, tp: str = TP) -> PartAssume:
    return PartAssume(tp, role, leader, leader_epoch, 0, 0, -1, 0, 0)


@pytest.mark.parametrize(
    ("what", "excused"),
    [
        (assume("follower", 2, 1), True),
        (assume("leader", 1, 1), True),
        (assume("leader", 1, 0), False),
        (assume("follower", 2, 1, "orders-1"), False),
        (PartRemove(TP, 9, 1, "t"), True),
        (PartRemove("orders-1", 9, 1, "t"), False),
    ],
)
def test_half_copies_of_those_who_lead_no_more(what: Any, excused: bool) -> None:
    """Shows that a half copy is orphaned when its leader takes up another role or leader epoch, or its topic goes; of
    other partitions that says nothing."""
    trace = Tiers()
    trace.half("a")
    trace.emit("controller-1" if type(what) is PartRemove else "broker-1", what)
    trace.window("open", *EVERYBODY)
    trace.later()
    result = trace.result("R12")
    assert (result.status, "orphaned" in result.excused) == ("excused" if excused else "violated", excused)


@pytest.mark.parametrize(("broker", "excused"), [("broker-1", True), ("broker-2", False)])
def test_half_copies_of_those_who_restart(broker: str, excused: bool) -> None:
    """Shows that a half copy is orphaned when its leader restarts, and nobody else."""
    trace = Tiers()
    trace.up("broker-1")
    trace.up("broker-2")
    trace.half("a")
    trace.up(broker)
    trace.window("open", *EVERYBODY)
    trace.later()
    result = trace.result("R12")
    assert (result.status, "orphaned" in result.excused) == ("excused" if excused else "violated", excused)


@pytest.mark.parametrize(
    ("core", "status"), [(("broker-2", REMOTE_STORE), "excused"), (("broker-1", "broker-2"), "vacuous")]
)
def test_windows_without_the_leader_or_the_store(core: tuple[str, ...], status: str) -> None:
    """Shows that a leader who is not in the window leaves an orphan, and that nothing is due of a store that is not."""
    trace = Tiers()
    trace.half("a")
    trace.window("open", *core)
    trace.later()
    assert trace.result("R12").status == status


@pytest.mark.parametrize(
    ("new", "reason", "status"), [(20, "retention-ms", "held"), (21, "retention-ms", "violated"), (21, "load", "held")]
)
def test_a_replica_drops_what_is_copied(new: int, reason: Any, status: str) -> None:
    """Shows that local retention of any replica goes no further than what was copied, and that a log that is read is no
    test."""
    trace = Tiers()
    trace.copy("a", 0)
    trace.copy("b", 10)
    trace.emit("broker-2", LogLocalStart(TP, new, reason, 0, 100))
    result = trace.result("R10")
    assert (result.status, result.tested) == (status, 2 + (reason != "load"))
    if result.violations:
        assert "broker-2 deleted its segments of orders-0 below 21" in result.violations[0].sentence
