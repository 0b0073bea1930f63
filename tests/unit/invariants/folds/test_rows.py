"""Rows: what is remembered of many records in few bytes."""

from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import given, strategies as st

from orchestrator.invariants.folds.fold import Witness
from orchestrator.invariants.folds.rows import REMEMBERED, Names, Rows

ROW = struct.Struct("<?q")


def rows(*places: int) -> Rows:
    """Rows at these places, each of which says where it is."""
    made = Rows(ROW.size)
    for place in places:
        made.put(place, ROW.pack(True, place))
    return made


def known(of: Rows, place: int) -> int:
    """What the row at a place says, -1 where there is none."""
    at = of.place(place)
    return -1 if at < 0 else ROW.unpack_from(of.data, at)[1]


def test_rows_are_found_by_their_place() -> None:
    """Shows that a gap, what was cleared and what was cut are not known, and that a row can be set again."""
    made = rows(0, 1, 4)
    assert [known(made, place) for place in range(-1, 6)] == [-1, 0, 1, -1, -1, 4, -1]
    made.clear(1)
    made.clear(9)
    made.put(0, ROW.pack(True, 7))
    made.cut(4)
    assert ([known(made, place) for place in range(5)], made.end) == ([7, -1, -1, -1, -1], 4)


def test_rows_reach_back_as_far_as_they_say() -> None:
    """Shows that older rows are forgotten, twice as many at most are kept, and that none comes back."""
    made = rows(0)
    made.put(2 * REMEMBERED, ROW.pack(True, 1))
    assert (made.start, made.end, known(made, 0)) == (2 * REMEMBERED, 2 * REMEMBERED + 1, -1)
    made.put(3 * REMEMBERED + 1, ROW.pack(True, 2))
    made.put(4 * REMEMBERED, ROW.pack(True, 3))
    assert (known(made, 2 * REMEMBERED), known(made, 3 * REMEMBERED + 1), known(made, 4 * REMEMBERED)) == (-1, 2, 3)
    assert made.end - made.start <= 2 * REMEMBERED
    made.put(0, ROW.pack(True, 4))
    assert known(made, 0) == -1


@pytest.mark.parametrize("cause", ["", "producer-1/2/17", "a/b/0/5"])
def test_a_witness_comes_back_as_it_was(cause: str) -> None:
    """Shows it for an event with and without a cause, after the names were saved and loaded."""
    names = Names()
    by = Witness("broker-1", 3, 1 << 40, cause)
    packed = names.pack(by)
    loaded = msgspec.msgpack.decode(msgspec.msgpack.encode(names), type=Names)
    assert loaded.unpack(*packed) == by


@given(st.lists(st.tuples(st.sampled_from(["put", "cut", "clear"]), st.integers(0, 40)), max_size=60))
def test_rows_are_a_dictionary(steps: list[tuple[str, int]]) -> None:
    """Shows that whatever is done, rows know what a dictionary would."""
    made, model = Rows(ROW.size), dict[int, int]()
    for number, (what, place) in enumerate(steps):
        if what == "put":
            made.put(place, ROW.pack(True, number))
            model[place] = number
        elif what == "cut":
            made.cut(place)
            model = {each: value for each, value in model.items() if each < place}
        else:
            made.clear(place)
            model.pop(place, None)
        assert [known(made, each) for each in range(42)] == [model.get(each, -1) for each in range(42)]
