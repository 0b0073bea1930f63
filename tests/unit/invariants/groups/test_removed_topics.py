"""O8: what coordinators keep of topics that were removed."""

from __future__ import annotations

from actors.trace.events import MetaImage, PartRemove
from tests.unit.invariants.groups.stage import OFFSETS, GroupTrace, entry
from tests.unit.invariants.trace_builder import TP

REMOVED_AT = 40


class Removed(GroupTrace):
    """A coordinator that hears of a topic's removal."""

    def removes(self, offset: int = REMOVED_AT, epoch: int = 1) -> str:
        """The controller writes that the topic is removed."""
        return self.emit("controller-1", PartRemove(f"{TP}@t1", offset, epoch, "t1"))

    def applies(self, end: int, broker: int = 1) -> str:
        """A broker comes to an offset of the metadata log."""
        return self.emit(f"broker-{broker}", MetaImage(end))

    def forgets(self, at: int) -> None:
        """The coordinator writes a tombstone, in the step before."""
        apart, self.apart = self.apart, 0
        self.decides(-1, at, member="", generation=-1)
        self.apart = apart


def begun() -> Removed:
    """A group that has committed 10, which its coordinator knows, and a topic that is removed."""
    trace = Removed()
    trace.loads(0)
    trace.decides(10, 0)
    trace.applies(REMOVED_AT)
    trace.removes()
    return trace


def test_what_is_committed_goes_with_its_topic() -> None:
    """Shows that O8 is held, tested, when the coordinator that applies a removal writes a tombstone; a commit that
    comes later stays."""
    trace = begun()
    trace.applies(REMOVED_AT + 1)
    trace.forgets(1)
    trace.decides(3, 2)
    trace.answers(entry(3))
    assert (trace.result("O8").status, trace.result("O8").tested) == ("held", 1)


def test_a_position_that_stays() -> None:
    """Shows that a coordinator which keeps a position in a removed topic violates O8, whether it appended or loaded
    it."""
    appended = begun()
    appended.applies(REMOVED_AT + 1)
    appended.answers(None)
    (finding,) = appended.result("O8").violations
    assert finding.sentence == (
        f"broker-1 has applied the metadata log up to 41, and offset 40 there removes {TP}, but it still stores the "
        f"committed offset 10 of group g in {OFFSETS}"
    )
    loaded = Removed()
    loaded.removes()
    loaded.loads(5, entry(10), 1, 2)
    loaded.applies(REMOVED_AT + 1, broker=2)
    loaded.answers(None, 1, 2)
    assert loaded.result("O8").status == "violated"


def test_a_position_in_the_next_topic() -> None:
    """Shows that a coordinator which hears of the removal only after another one has stored a position for the next
    topic of the name may keep that; what was stored by one that had not heard of it either has to go."""

    def told_later(knows: bool) -> Removed:
        trace = Removed()
        trace.loads(0)
        trace.applies(REMOVED_AT)
        trace.removes()
        if knows:
            trace.applies(REMOVED_AT + 1)
        trace.decides(10, 0)
        trace.unloads()
        trace.applies(REMOVED_AT, broker=2)
        trace.loads(5, entry(10), 1, 2)
        trace.applies(REMOVED_AT + 1, broker=2)
        trace.answers(entry(10), 1, 2)
        return trace

    assert told_later(knows=True).result("O8").status == "vacuous"
    assert told_later(knows=False).result("O8").status == "violated"


def test_who_has_nothing_to_forget() -> None:
    """Shows that a broker which gave the offsets partition up, or came to coordinate after it had applied the removal,
    has nothing to forget; nor has one that applied another record where a deposed controller had the removal."""
    resigned = begun()
    resigned.unloads()
    resigned.applies(REMOVED_AT + 1)
    resigned.answers(None)
    late = begun()
    late.applies(REMOVED_AT + 1, broker=2)
    late.loads(5, entry(10), 1, 2)
    late.answers(entry(10), 1, 2)
    lost = begun()
    lost.role("controller-2", 2, "leader", 2, log_end=REMOVED_AT)
    lost.applies(REMOVED_AT + 1)
    lost.answers(entry(10))
    assert [each.result("O8").status for each in (resigned, late, lost)] == ["vacuous"] * 3
