"""Failures that were met, kept by signature, so that the next campaign tries them first.

A cache, and no more: an entry goes away when it fails no longer, when it is damaged, or when somebody empties the
directory. What matters is promoted to the library of incidents (``krift incidents add``).

It lies in ``.krift/failures`` (``chaos.home``), beside the run directories and not among them: who removes runs to
get his disk back does not want to lose what they found.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from actors.trace.lines import DAMAGE
from chaos.shrink.measure import size_of

FAILURE_SCHEMA: Final = "krift-failure/v1"
SUFFIX = ".json"


class StoredFailure(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of failure, and the smallest scenario known that shows it.

    signature: what kind. sentence: the failure in full. document: the scenario as resolved, with its seed, settings and
    defects: a scenario file's content. krift: version that met it. found: when, ISO 8601 in UTC. source: where, for
    people (a command, a campaign). shrunk: whether ``krift shrink`` has been at it.
    """

    schema: Literal["krift-failure/v1"] = FAILURE_SCHEMA
    signature: str
    sentence: str
    document: dict[str, Any]
    krift: str
    found: str
    source: str = ""
    shrunk: bool = False


class Contents(msgspec.Struct, frozen=True):
    """What a store has. failures: by signature, in its order. damaged: what cannot be read, and why."""

    failures: list[StoredFailure]
    damaged: list[str] = []


class FailureStore(ABC):
    """Failures by signature, one of each: the smallest that was saved."""

    def save(self, failure: StoredFailure) -> bool:
        """Keep a failure, unless a smaller one of its signature is known. Whether it was kept."""
        known = self.fetch(failure.signature)
        if known is not None and _weight(known) <= _weight(failure):
            return False
        self._put(failure)
        return True

    @abstractmethod
    def fetch(self, signature: str) -> StoredFailure | None:
        """The failure of a signature; None if there is none that can be read."""

    @abstractmethod
    def delete(self, signature: str) -> None:
        """Forget a signature; one that is not known is no mistake."""

    @abstractmethod
    def contents(self) -> Contents:
        """All that is there. What is damaged is named, and in nobody's way: saving its signature again mends it."""

    @abstractmethod
    def _put(self, failure: StoredFailure) -> None:
        """Keep this failure in place of what is known of its signature."""


class MemoryStore(FailureStore):
    """A store that ends with its process."""

    def __init__(self) -> None:
        self._kept: dict[str, StoredFailure] = {}

    def fetch(self, signature: str) -> StoredFailure | None:
        return self._kept.get(signature)

    def delete(self, signature: str) -> None:
        self._kept.pop(signature, None)

    def contents(self) -> Contents:
        return Contents([self._kept[signature] for signature in sorted(self._kept)])

    def _put(self, failure: StoredFailure) -> None:
        self._kept[failure.signature] = failure


class DirectoryStore(FailureStore):
    """A file for each signature, JSON, written atomically, so that several commands may use one directory. The name of
    a file is made from the signature; nothing in a file becomes a path. A directory that is not there is an empty
    store, and is made when something is saved. Raises OSError where it cannot write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path_of(self, signature: str) -> Path:
        """The file of a signature."""
        return self.directory / f"{blake2b(signature.encode(), digest_size=8).hexdigest()}{SUFFIX}"

    def fetch(self, signature: str) -> StoredFailure | None:
        found = read_failure(self.path_of(signature))
        return found if isinstance(found, StoredFailure) and found.signature == signature else None

    def delete(self, signature: str) -> None:
        self.path_of(signature).unlink(missing_ok=True)

    def contents(self) -> Contents:
        failures, damaged = [], []
        for path in sorted(self.directory.glob(f"*{SUFFIX}")):
            found = read_failure(path)
            if isinstance(found, str):
                damaged.append(f"{path}: {found}")
            elif self.path_of(found.signature) != path:
                damaged.append(f"{path}: its name is not that of its signature")
            else:
                failures.append(found)
        return Contents(sorted(failures, key=lambda failure: failure.signature), damaged)

    def _put(self, failure: StoredFailure) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.path_of(failure.signature)
        aside = path.with_suffix(f".{os.getpid()}.tmp")
        aside.write_bytes(msgspec.json.format(msgspec.json.encode(failure), indent=2) + b"\n")
        os.replace(aside, path)


def _weight(failure: StoredFailure) -> tuple[bool, tuple[int, ...]]:
    """What is shrunk comes before what is not, then the smaller."""
    return not failure.shrunk, tuple(size_of(failure.document))


def read_failure(path: Path) -> StoredFailure | str:
    """What the file of an entry holds, or what is wrong with it."""
    try:
        failure = msgspec.json.decode(path.read_bytes(), type=StoredFailure)
        size_of(failure.document)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except DAMAGE as error:
        return f"damaged: {error}"
    except (KeyError, TypeError, ValueError, AttributeError):
        return "damaged: its document is no scenario"
    return failure
