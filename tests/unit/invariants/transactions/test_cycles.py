"""C9: committed transactions that have read from one another."""

from __future__ import annotations

import pytest

from actors.trace.events import BeginInvoke, EndReturn, SendInvoke
from tests.unit.invariants.trace_builder import TraceBuilder

COMMITTED = {"config": {"isolation.level": "read_committed"}}


class Ring(TraceBuilder):
    """Applications that make records out of one another's, at read_committed."""

    def __init__(self, *, committed: tuple[str, ...] = ("app-1", "app-2", "app-3")) -> None:
        super().__init__(transactional=["app-1"], nodes=dict.fromkeys(committed, COMMITTED))

    def begins(self, app: str, number: int = 1) -> None:
        self.emit(app, BeginInvoke(f"{app}:b{number}", app, number, 7, 0, 2))

    def sends(self, app: str, uid: str, made_of: str = "") -> None:
        more = {"copy_of": made_of} if made_of else {}
        self.emit(app, SendInvoke(f"s{uid}", "t-0", uid, -1, transactional_id=app, transaction=1, **more))

    def ends(self, app: str, number: int = 1, commit: bool = True, outcome: str = "ok") -> None:
        self.emit(app, EndReturn(f"{app}:e", outcome, 0, app, number, 7, 0, commit, asked=True))  # type: ignore[arg-type]


def two(second: str = "app-2") -> Ring:
    """App-1 and app-2 have read from one another."""
    trace = Ring()
    trace.begins("app-1")
    trace.begins(second)
    trace.sends("app-1", "a")
    trace.sends(second, "b", "a")
    trace.sends("app-1", "c", "b")
    return trace


def test_one_after_the_other() -> None:
    """Shows that C9 is held, tested by who reads, if information flows one way."""
    trace = Ring()
    for app, source in (("app-1", ""), ("app-2", "app-1"), ("app-3", "app-2")):
        trace.begins(app)
        trace.sends(app, app, source)
        trace.ends(app)
    result = trace.result("C9")
    assert (result.status, result.tested) == ("held", 2)


def test_two_that_have_read_from_one_another() -> None:
    """Shows that they violate C9 when both are committed."""
    trace = two()
    trace.ends("app-2")
    trace.ends("app-1")
    (finding,) = trace.result("C9").violations
    assert finding.sentence == (
        "transaction 1 of app-2 read records of transaction 1 of app-1; transaction 1 of app-1 read records of "
        "transaction 1 of app-2; all of them are committed"
    )


def test_three_in_a_ring() -> None:
    """Shows that a longer cycle violates C9 as well, whoever of it is committed last."""
    for last in (1, 2, 3):
        trace = Ring()
        for number in (1, 2, 3):
            trace.begins(f"app-{number}")
        trace.sends("app-1", "a")
        trace.sends("app-2", "b", "a")
        trace.sends("app-3", "c", "b")
        trace.sends("app-1", "d", "c")
        for number in sorted((1, 2, 3), key=lambda each: each == last):
            trace.ends(f"app-{number}")
        assert len(trace.result("C9").violations) == 1


@pytest.mark.parametrize(("commit", "outcome"), [(False, "ok"), (True, "unknown"), (True, "fail")])
def test_one_that_is_not_committed(commit: bool, outcome: str) -> None:
    """Shows that a cycle needs every transaction of it to be committed, as its application was told."""
    trace = two()
    trace.ends("app-2", commit=commit, outcome=outcome)
    trace.ends("app-1")
    assert trace.result("C9").status == "held"


def test_who_reads_everything() -> None:
    """Shows that at read_uncommitted nobody promises that."""
    trace = Ring(committed=("app-1",))
    trace.begins("app-1")
    trace.begins("app-2")
    trace.sends("app-1", "a")
    trace.sends("app-2", "b", "a")
    trace.sends("app-1", "c", "b")
    trace.ends("app-2")
    trace.ends("app-1")
    assert (trace.result("C9").status, trace.result("C9").tested) == ("held", 1)


def test_another_transaction_of_the_same_application() -> None:
    """Shows that transactions are told apart, not applications."""
    trace = Ring()
    trace.begins("app-1")
    trace.sends("app-1", "a")
    trace.ends("app-1")
    trace.begins("app-2")
    trace.sends("app-2", "b", "a")
    trace.ends("app-2")
    trace.begins("app-1", 2)
    trace.sends("app-1", "c", "b")
    trace.ends("app-1", 2)
    assert (trace.result("C9").status, trace.result("C9").tested) == ("held", 2)
