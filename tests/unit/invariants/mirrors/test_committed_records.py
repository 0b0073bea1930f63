"""What the mirror knows of committed records, beside a plain model of the same."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from orchestrator.invariants.folds.fold import Witness
from orchestrator.invariants.mirrors import committed_records
from orchestrator.invariants.mirrors.committed_records import (
    FORGOTTEN,
    NOT_NUMBERED,
    CommittedRecords,
    Copy,
    Numbered,
)
from orchestrator.invariants.mirrors.log_prefix import BatchFacts

BY = Witness("broker-1", 0, 5, "producer-1/0/3")


def batch(base: int, *uids: str, producer: int = -1, size: int = 0) -> BatchFacts:
    """A batch of some records, or of ``size`` offsets without one."""
    return BatchFacts(base, base + (size or len(uids)), 0, 0, producer, 0 if producer >= 0 else -1, -1, [*uids])


def test_a_record_is_found_by_name_and_by_offset() -> None:
    """Shows a numbered name, one without a number, and one that was never committed."""
    records = CommittedRecords()
    records.commit([batch(0, "producer-1:0", "x", producer=7)], 3, BY)
    copy = Copy(1, 3, Numbered(7, 0), BY)
    assert records.copy_of("x") == copy
    assert records.copy_of("producer-1:0") == msgspec.structs.replace(copy, offset=0)
    held = records.at(1)
    assert held is not None and (held.uid, held.copy) == ("x", copy)
    assert (records.copy_of("producer-1:1"), records.at(2)) == (None, None)


def test_numbers_that_look_alike_are_other_names() -> None:
    """Shows that 07 is not 7."""
    records = CommittedRecords()
    records.commit([batch(0, "p:7", "p:07", "p:0", "p:00")], 0, BY)
    offsets = [copy.offset for uid in ("p:7", "p:07", "p:0", "p:00") if (copy := records.copy_of(uid))]
    assert offsets == [0, 1, 2, 3]


def test_producers_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a record whose producer id is not known any more is not taken for one without: nobody says of it that
    it has no number, or that it was committed twice."""
    monkeypatch.setattr(committed_records, "PRODUCERS_REMEMBERED", 2)
    records = CommittedRecords()
    records.commit([batch(0, "q:0")], 0, BY)
    for number in range(1, 8):
        records.commit([batch(number, f"p-{number}:0", producer=number)], 0, BY)
    numbers = [copy.numbered for number in range(1, 8) if (copy := records.copy_of(f"p-{number}:0"))]
    kept = [each for each in numbers if each != FORGOTTEN]
    assert 0 < len(kept) < 7
    assert kept == [Numbered(number, 0) for number in range(8 - len(kept), 8)]
    plain = records.copy_of("q:0")
    assert plain is not None and plain.numbered == NOT_NUMBERED
    records.forget_news()
    records.commit([batch(8, "p-1:0", producer=1)], 1, BY)
    assert not list(records.copies_again())


def test_a_record_that_is_committed_again_is_news() -> None:
    """Shows the copy before and the new one, once, and only where an idempotent producer wrote both."""
    records = CommittedRecords()
    records.commit([batch(0, "p:0", producer=7), batch(1, "q:0")], 0, BY)
    records.forget_news()
    records.commit([batch(2, "p:0", producer=7), batch(3, "q:0")], 1, BY)
    assert [(uid, first.offset, second.offset) for uid, first, second in records.copies_again()] == [("p:0", 0, 2)]
    assert sorted(records.again) == [2, 3]
    records.forget_news()
    assert not records.again and not records.replaced


def test_what_another_record_took_the_place_of_is_still_known() -> None:
    """Shows an election that gave up offset 1: what was there is told with the event that commits another record, and
    found by name until it is committed anew."""
    records = CommittedRecords()
    records.commit([batch(0, "p:0", "p:1", producer=7)], 0, BY)
    records.commit([batch(1, "p:2", producer=7)], 4, BY)
    assert records.replaced[1].uid == "p:1"
    assert records.copy_of("p:1") == Copy(1, 0, Numbered(7, 0), BY)
    records.commit([batch(2, "p:1", producer=7)], 4, BY)
    assert [(uid, first.offset, second.offset) for uid, first, second in records.copies_again()] == [("p:1", 1, 2)]
    assert records.copy_of("p:1") == Copy(2, 4, Numbered(7, 0), BY)


def test_control_batches_have_no_names() -> None:
    """Shows that one in the place of a record leaves nothing to be found there."""
    records = CommittedRecords()
    records.commit([batch(0, "x", "y")], 0, BY)
    records.commit([batch(0, size=1)], 1, BY)
    assert records.at(0) is None
    assert records.copy_of("x") == Copy(0, 0, NOT_NUMBERED, BY)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.integers(0, 9), min_size=1, max_size=3), st.booleans()), max_size=25
    )
)
def test_the_rows_say_what_a_dictionary_would(steps: list[tuple[int, list[int], bool]]) -> None:
    """Shows it for commits that go back, as after unclean elections, with the same records again and again; also when
    the state was put aside and taken up between any two."""
    records, last, offsets, end = CommittedRecords(), dict[str, Copy](), dict[int, str](), 0
    for number, (back, numbers, idempotent) in enumerate(steps):
        base = max(end - back, 0)
        uids = list(dict.fromkeys(f"p:{each}" for each in numbers))
        records.forget_news()
        records = msgspec.msgpack.decode(msgspec.msgpack.encode(records), type=CommittedRecords)
        records.commit([batch(base, *uids, producer=7 if idempotent else -1)], number, BY)
        end = base + len(uids)
        offsets = {offset: uid for offset, uid in offsets.items() if offset < base or offset >= end}
        for offset, uid in enumerate(uids, base):
            assert records.again.get(offset) == last.get(uid)
            last[uid] = Copy(offset, number, Numbered(7, 0) if idempotent else NOT_NUMBERED, BY)
            offsets[offset] = uid
        assert {uid: records.copy_of(uid) for uid in last} == last
        assert {offset: held.uid for offset in range(40) if (held := records.at(offset))} == offsets
