"""How rounds become a figure."""

from __future__ import annotations

import pytest

from benchmarks.figures import Figure, Goal, Spread, alternate, as_data, machine, spread, table, with_figures


def test_who_goes_first_changes_every_round() -> None:
    """Shows that neither side always runs right after the other, and that rounds stay together."""
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    values, beside = alternate(lambda: side("a"), lambda: side("b"), 3)
    assert "".join(order) == "abbaab"
    assert (values, beside) == ([1, 4, 5], [2, 3, 6])


def test_the_ratio_is_taken_within_a_round() -> None:
    """Shows that a machine which was twice as slow in one round leaves the ratio as it is."""
    figure = Figure("f", "1/s", [60.0, 30.0, 60.0], "y", [100.0, 50.0, 100.0])
    assert spread(figure.ratios) == Spread(0.6, 0.6, 0.6)


@pytest.mark.parametrize(
    ("goal", "ratio", "verdict"),
    [
        (Goal("least", 20, 40), 19.9, "missed"),
        (Goal("least", 20, 40), 20, "first reached"),
        (Goal("least", 20, 40), 40, "reached"),
        (Goal("most", 1.3), 1.3, "reached"),
        (Goal("most", 1.3), 1.31, "missed"),
    ],
)
def test_a_goal_is_reached_from_its_bound_on(goal: Goal, ratio: float, verdict: str) -> None:
    """Shows on which side of each bound a ratio counts as reached."""
    assert goal.verdict(ratio) == verdict


def test_the_table_and_the_data_say_the_same() -> None:
    """Shows the median of the ratios, their extremes, the goal and its verdict in both forms."""
    figure = Figure("live: RPCs", "RPCs/s", [1200.0, 900.0, 1000.0], "plain gRPC", [2000.0, 1800.0, 2000.0])
    figure = Figure(figure.name, figure.unit, figure.values, figure.yardstick, figure.beside, Goal("least", 0.6))
    row = table([figure]).splitlines()[1]
    assert row.split("  ")[0] == "live: RPCs"
    for cell in ("1,000 RPCs/s", "2,000 RPCs/s", "plain gRPC", "0.5 ", "0.5 to 0.6", "≥ 0.6", "missed"):
        assert cell in row, row
    data = as_data(figure)
    assert data["ratio"] == {"median": 0.5, "low": 0.5, "high": 0.6}
    assert (data["goal"], data["verdict"]) == ("≥ 0.6", "missed")
    assert data["rounds"]["values"] == figure.values


def test_the_machine_is_named() -> None:
    """Shows that figures come with what they were measured on."""
    about = machine()
    assert all(about[name] for name in ("date", "cpu", "cores", "python", "krift"))


def test_figures_replace_those_in_the_document() -> None:
    """Shows that only what stands between the marks changes, and that a document without marks is refused."""
    document = "a\n<!-- figures -->\nold\n<!-- end of figures -->\nz\n"
    new = with_figures(document, machine(), [Figure("sim", "s/s", [2.0], "clock", [1.0])])
    assert new.startswith("a\n<!-- figures -->\nMeasured ")
    assert new.endswith("<!-- end of figures -->\nz\n")
    assert "| sim | 2 s/s | 1 s/s: clock | 2 | 2 to 2 |  |  |" in new
    assert "old" not in new
    with pytest.raises(ValueError, match="lacks"):
        with_figures("a\n", machine(), [])
