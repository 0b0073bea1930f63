"""The curves of a long soak, and how much its sizes grow."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.soak import FIELDS, curves, growth, read_samples

SVG = "{http://www.w3.org/2000/svg}"
MIB = 1 << 20
HOUR_US = 3.6e9


def samples() -> list[list[float]]:
    """Ten hours: states stay at 8 MiB, memory grows by 1 MiB an hour from 100 on, the disk is full from hour 5 on."""
    sizes = [(8 * MIB, (100 + hour) * MIB, min(hour, 5) * 30 * MIB) for hour in range(11)]
    return [[60.0 * hour, hour * HOUR_US, 0, 0, *each, 0] for hour, each in enumerate(sizes)]


def test_growth_is_that_of_the_second_half() -> None:
    """Shows what a size that stays, and one that grows, come to."""
    assert growth(samples(), "state_bytes") == pytest.approx(0)
    assert growth(samples(), "disk_bytes") == pytest.approx(0)
    assert growth(samples(), "memory_bytes") == pytest.approx(5 / 107.5)


def test_curves_have_the_sizes_over_time() -> None:
    """Shows a panel for each size, up to its greatest value, with hours below."""
    root = ElementTree.fromstring(curves("a soak & more", samples()))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[0] == "a soak & more"
    assert [text for text in texts if text and text.endswith("MiB")] == ["8 MiB", "110 MiB", "150 MiB"]
    assert texts[-6:] == ["0 h", "2 h", "4 h", "6 h", "8 h", "10 h"]
    lines = [path.get("d") for path in root.iter(f"{SVG}path")]
    assert lines[2] is not None
    assert lines[2].startswith("M140.0,410.0L204.0,388.0L")  # the disk: 0, then a fifth of all
    assert lines[2].endswith("L780.0,300.0")


def test_samples_of_a_soak_that_was_resumed(tmp_path: Path) -> None:
    """Shows that the second heading is no sample, and that none is of what was repeated up to the checkpoint."""
    path = tmp_path / "samples.csv"
    repeated = [[line[0], line[1], *[0] * 6] for line in samples()[1:4]]
    for part in (samples()[:4], [*repeated, *samples()[4:]]):
        with path.open("a", newline="") as file:
            csv.writer(file).writerows([FIELDS, *part])
    assert read_samples(path) == samples()
