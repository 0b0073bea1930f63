"""The tables and pictures of how long requests take while the remote store is slow."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from actors.trace.events import CtlPhase, Rpc, Stamped
from benchmarks.latencies import Latencies, Request, figures, main, measured, picture, table
from chaos.scenario.resolve import resolve
from chaos.sources import find

VARIANTS = ("off", "draft", "kafka")
SVG = "{http://www.w3.org/2000/svg}"


def _latencies(*requests: Request) -> Latencies:
    found = Latencies(resolve(find("kip-1075").loaded(None), "off"))
    found.requests = list(requests)
    found.slow = [("start", 1000), ("stop", 3000)]
    return found


def test_a_table_has_the_means_of_all_runs() -> None:
    """Shows quantiles and time-outs of two runs, with intervals where the runs differ, and that an API without requests
    has no line."""
    one = _latencies(Request("Produce", 0, 2, False), Request("ListOffsets", 5, 30_000, True))
    other = _latencies(Request("Produce", 9, 4, False), Request("Produce", 9, 4000, False))
    assert table({"off": [figures(one), figures(other)]}).splitlines()[2:] == [
        "| off | Produce | 3 | 3 ms (2 to 4) | 2,001 ms (2 to 4,000) | 4,000 ms | 0 |",
        "| off | ListOffsets | 1 | 30,000 ms | 30,000 ms | 30,000 ms | 1 |",
    ]


def test_a_request_times_out_at_its_client_or_at_the_broker() -> None:
    """Shows that an answer that says so counts as one that never came."""
    found = _latencies()
    found(Stamped("r", "driver", 0, 0, 0, 0, "", "", CtlPhase("chaos")))
    for number, (outcome, errors) in enumerate((("timeout", []), ("answered", [7]), ("answered", []))):
        body = Rpc("ListOffsets", 11, "broker-1", "client", number, outcome, errors, 100, 5)
        found(Stamped("r", "list-offsets-1", 0, number, 1_000_000, 0, "", "", body))
    assert [each.timed_out for each in found.requests] == [True, True, False]


def test_a_picture_has_a_column_for_each_variant() -> None:
    """Shows a legal SVG: for each variant and API a line and an area in which the store was slow, and a legend of both.
    A line has a gap where no request was sent."""
    run = _latencies(*(Request(api, ms, 5, False) for api in ("Produce", "Fetch", "ListOffsets") for ms in (0, 4000)))
    root = ElementTree.fromstring(picture("kip-1075", {"off": run, "kafka": run}))
    kinds = [each.get("class") for each in root]
    assert (kinds.count("line"), kinds.count("slow"), kinds.count("frame")) == (7, 7, 6)
    lines = [str(each.get("d")) for each in root.iter(f"{SVG}path") if each.get("class") == "line"][1:]
    assert all(line.count("M") == line.count("H") == 2 for line in lines)
    assert "as shipped (Kafka)" in [each.text for each in root.iter(f"{SVG}text")]


def test_a_picture_of_many_variants_has_rows_of_three() -> None:
    """Shows that more than three variants begin another row, and that an API without requests has no panels."""
    run = _latencies(Request("Produce", 0, 5, False), Request("Produce", 4000, 5, False))
    three, four = (
        ElementTree.fromstring(picture("kip-1075", {str(number): run for number in range(count)})) for count in (3, 4)
    )
    assert four.get("width") == three.get("width")
    assert int(four.get("height", "")) > int(three.get("height", ""))
    assert [each.get("class") for each in four].count("frame") == 4


def test_the_incident_is_measured() -> None:
    """Shows that Produce takes seconds where handlers wait for the remote store."""
    found = measured("kip-1075", "off", 7, ())
    assert [phase for phase, _ in found.slow] == ["start", "stop"]
    assert max(each.took_ms for each in found.requests if each.api == "Produce") > 3000


@pytest.mark.further
def test_variants_are_measured_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows the command from end to end, in two processes: a table with three variants."""
    assert main(["kip-1075", "--seeds", "1", "--jobs", "2", "--set", "duration=22s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == [each for each in VARIANTS for _ in range(3)]


def test_a_scenario_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that a wrong name ends in one message."""
    with pytest.raises(SystemExit) as ended:
        main(["kip-107"])
    assert ended.value.code == 2
    assert "kip-107: no such scenario" in capsys.readouterr().err
