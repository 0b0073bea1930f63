"""What the checks knew before the evidence of a finding: with it the evidence says what the whole trace says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from actors.trace.events import Stamped
from chaos.errors import InputError
from orchestrator.compressed import write_compressed
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.engines.shard import SavedShard
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.run_dir import RunDir
from orchestrator.soak.base import Base, Bases, cut_off, judged, read_base
from tests.harness.pieces import put_aside, recorded

pytestmark = pytest.mark.xdist_group("recorded")
CRASH = "parity/scenarios/leader-crash"
SECOND = 1_000_000
UNTIL_US = 7 * SECOND


def before(us: int) -> list[Stamped]:
    """The events of a run with a defect, up to a clock."""
    return [event for event in recorded(CRASH, "list-behind") if event.wall <= us]


def whole(events: Iterable[Stamped]) -> list[InvariantResult]:
    """What all of these say, that end where the evidence does."""
    engine = InProcessEngine()
    engine.feed_all(events)
    return cut_off(engine.key_results(), engine.profile)


def test_a_base_of_the_sim() -> None:
    """Shows that an engine that was put aside gives, with the events from there on, what the whole trace gives, though
    the first of these are known to it already."""
    engine = InProcessEngine()
    known = before(5 * SECOND)
    engine.feed_all(known)
    base = Base(at_us=known[-1].wall, engine=engine.saved())
    evidence = [event for event in before(UNTIL_US) if event.wall >= 4 * SECOND]
    found = base.loaded()(evidence)
    assert found == whole(before(UNTIL_US))
    assert any(each.status == "violated" for each in found)


def test_a_base_of_a_live_soak() -> None:
    """Shows the same of shards, which have events that come after the evidence, and lack some of a node that is
    behind."""
    behind = [event for event in before(UNTIL_US + SECOND) if event.wall <= 5 * SECOND or event.node != "broker-2"]
    saved = put_aside([behind])
    at_us = min(msgspec.msgpack.decode(each, type=SavedShard).frontier.at for each in saved)
    assert 3 * SECOND < at_us <= 5 * SECOND
    assert any(each.wall > UNTIL_US for each in msgspec.msgpack.decode(saved[0], type=SavedShard).pending)
    evidence = [event for event in before(UNTIL_US) if event.wall >= 2 * SECOND]
    found = Base(at_us=at_us, shards=saved).loaded()(evidence)
    assert found == whole(before(UNTIL_US))
    assert any(each.status == "violated" for each in found)


def test_which_bases_are_kept(tmp_path: Path) -> None:
    """Shows that evidence gets the newest base from before its window, or else the first in it; that a base goes when
    there is a newer one for all that may yet be found; and that a soak that is taken back takes its bases along."""
    bases = Bases(tmp_path)
    assert bases.of(0, 60 * SECOND) is None
    for minute in range(1, 6):
        bases.write(Base(at_us=minute * 60 * SECOND))
    assert _clock(bases, 130, 255) == 120
    assert _clock(bases, 120, 245) == 120
    assert _clock(bases, 20, 145) == 60
    assert _clock(bases, 20, 59) is None
    bases.expire(306 * SECOND)  # which leaves 181 seconds
    assert _clock(bases, 300, 425) == 300
    assert _clock(bases, 20, 190) == 180
    bases.take_back(240 * SECOND)
    assert _clock(bases, 300, 425) == 240


def _clock(bases: Bases, from_s: int, to_s: int) -> int | None:
    found = bases.of(from_s * SECOND, to_s * SECOND)
    return None if found is None else found[0] // SECOND


def test_bases_that_cannot_be_used(tmp_path: Path) -> None:
    """Shows what a user hears of a base that is damaged, is none, or was written by another version."""
    evidence = RunDir(tmp_path)
    path = tmp_path / "base.bin"
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"base\.bin: cannot be read, or damaged"):
        read_base(evidence)
    write_compressed(path, b"nonsense")
    with pytest.raises(InputError, match=r"base\.bin: damaged"):
        read_base(evidence)
    engine = InProcessEngine()
    saved = msgspec.msgpack.decode(engine.saved())
    saved["written_by"] = "krift 0.0.1"
    with pytest.raises(InputError, match=r"of another version: written by krift 0\.0\.1; this is"):
        judged(evidence, Base(at_us=0, engine=msgspec.msgpack.encode(saved)), [])
    saved["written_by"], saved["groups"] = engine.version, [["nothing", "orders-0", b""]]
    with pytest.raises(InputError, match=r"base\.bin: damaged"):
        judged(evidence, Base(at_us=0, engine=msgspec.msgpack.encode(saved)), [])
