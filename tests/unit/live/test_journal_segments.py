"""Which segments of the journals of a node may go."""

from __future__ import annotations

import os
from pathlib import Path

from actors.live.journal_writer import old_segments


def test_old_segments_go_but_for_the_newest_of_a_node(tmp_path: Path) -> None:
    """Shows that age alone decides, also of a process that goes on for days, and that the segment which is written now,
    or was last, stays however old it is."""
    for name, written_s in (("0-0", 10), ("0-1", 100), ("9-0", 20), ("9-1", 100), ("10-0", 30)):
        (tmp_path / f"{name}.journal").touch()
        os.utime(tmp_path / f"{name}.journal", (written_s, written_s))
    assert sorted(path.stem for path in old_segments(tmp_path, 100)) == ["0-0", "9-0"]
    assert old_segments(tmp_path / "nobody", 100) == []
