"""The failure store: one failure of each kind, the smallest that is known, and nothing that crashes who reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.failure_store import DirectoryStore, FailureStore, MemoryStore, StoredFailure
from chaos.home import failures_directory, incidents_directory


def scenario(steps: int) -> dict[str, Any]:
    crash = {"when": {"at": "1s"}, "fault": {"crash": "broker-1"}, "for": "1s"}
    return {
        "schema": "krift/v1",
        "name": "some",
        "duration": "4s",
        "cluster": {"topics": {"orders": {"replicas": [[1, 2, 3]]}}},
        "workload": [{"producer": {"topic": "orders", "rate": "10/s"}}],
        "chaos": [crash] * steps,
    }


def failure(signature: str, steps: int = 3, *, shrunk: bool = False) -> StoredFailure:
    return StoredFailure(
        signature=signature,
        sentence="broker-1 did it",
        document=scenario(steps),
        krift="0.1.0",
        found="2026-01-01T00:00:00.000+00:00",
        source="a test",
        shrunk=shrunk,
    )


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FailureStore:
    return MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path / "failures")


def test_it_keeps_one_failure_of_each_signature(store: FailureStore) -> None:
    """Shows that what is saved is fetched and listed by its signature, until it is deleted."""
    assert store.contents().failures == [] and store.fetch("P4: a") is None
    second, first = failure("P4: b"), failure("P4: a")
    assert store.save(second) and store.save(first)
    assert store.contents().failures == [first, second]
    assert store.fetch("P4: b") == second
    store.delete("P4: b")
    store.delete("P4: b")
    assert store.contents().failures == [first]


def test_the_smallest_stays(store: FailureStore) -> None:
    """Shows that a smaller failure takes the place of a larger one, never the other way; one that was shrunk wins."""
    assert store.save(failure("P4: a", 3))
    assert not store.save(failure("P4: a", 3))
    assert not store.save(failure("P4: a", 4))
    assert store.save(failure("P4: a", 2))
    assert store.save(failure("P4: a", 5, shrunk=True))
    assert not store.save(failure("P4: a", 1))
    kept = store.fetch("P4: a")
    assert kept is not None and len(kept.document["chaos"]) == 5


def test_another_process_finds_it(tmp_path: Path) -> None:
    """Shows that a directory holds everything; one that is not there is an empty store."""
    assert DirectoryStore(tmp_path / "none").contents().failures == []
    kept = failure("P4: a")
    DirectoryStore(tmp_path).save(kept)
    assert DirectoryStore(tmp_path).contents().failures == [kept]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "damaged: Input data was truncated"),
        (b"\xff\xfe", "damaged: "),
        (b"{}", "damaged: Object missing required field `signature`"),
        (msgspec.json.encode(failure("P4: a")).replace(b"failure/v1", b"failure/v9"), "damaged: Invalid enum value"),
        (msgspec.json.encode(failure("P4: a")).replace(b'"cluster"', b'"clutter"'), "document is no scenario"),
        (msgspec.json.encode(failure("P4: a")).replace(b'"4s"', b'"4"'), "document is no scenario"),
        (msgspec.json.encode(failure("P4: a")).replace(b"P4: a", b"P4: b"), "its name is not that of its signature"),
    ],
)
def test_a_damaged_entry_is_named_and_skipped(tmp_path: Path, content: bytes, why: str) -> None:
    """Shows that damage hides nothing but its own entry, and that saving the failure again mends it."""
    store = DirectoryStore(tmp_path)
    store.save(failure("P5: c"))
    path = store.path_of("P4: a")
    path.write_bytes(content)
    contents = store.contents()
    assert [each.signature for each in contents.failures] == ["P5: c"]
    assert len(contents.damaged) == 1
    assert contents.damaged[0].startswith(f"{path}: ") and why in contents.damaged[0]
    assert store.fetch("P4: a") is None
    assert store.save(failure("P4: a"))
    assert len(store.contents().failures) == 2


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Shows that a directory in the place of an entry is no reason to stop."""
    store = DirectoryStore(tmp_path)
    store.path_of("P4: a").mkdir()
    assert store.contents().damaged == [f"{store.path_of('P4: a')}: cannot be read: Is a directory"]


def test_home_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows the default place, and how to choose another."""
    monkeypatch.delenv("KRIFT_HOME", raising=False)
    assert failures_directory() == Path(".krift/failures")
    monkeypatch.setenv("KRIFT_HOME", "/elsewhere")
    assert (failures_directory(), incidents_directory()) == (Path("/elsewhere/failures"), Path("/elsewhere/incidents"))
