"""Options of the test run."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from hypothesis import settings

from actors.sim.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestrator.clusters.local_ray import LocalRayCluster


# Before anything loads gRPC: a JVM that a later test starts is forked, and gRPC's handlers may abort the child.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# Failures that the user's campaigns have met are none of the tests' business.
os.environ.pop("KRIFT_HOME", None)

# The same examples each time, on every machine; KRIFT_RANDOM=1 looks further.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("random" if os.environ.get("KRIFT_RANDOM") else "same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="write what the data-driven tests print into their .txt files instead of comparing; review the diff",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where tests are asked for by one of some markers (``-m "ray or spark"``), no file is imported that writes none of
    these, unless it was named: every marker here is written where its tests are."""
    if collection_path.suffix != ".py" or not re.fullmatch(r"\w+( or \w+)*", config.option.markexpr):
        return None
    if collection_path in {Path(argument.partition("::")[0]).absolute() for argument in config.args}:
        return None
    asked = re.compile(rf"\bmark\.({config.option.markexpr.replace(' or ', '|')})\b")
    return True if asked.search(collection_path.read_text("utf-8")) is None else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of ``make test-all`` alone are run only if their marker is asked for (``-m long``, ``-m browser``, ...)."""
    unasked = [
        marker for marker in ("real_kafka", "long", "further", "browser") if marker not in config.option.markexpr
    ]
    left_out = [item for item in items if any(item.get_closest_marker(marker) is not None for marker in unasked)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays to the end: the collector of cyclic garbage need not look at it over and
    over, and it may come less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True)
def carriages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one run of the sim in twenty messages travel as bytes, and in another one in twenty whoever changes a message
    is found out; which runs depends on the test and the seed. No run depends on that."""
    usual = World.__init__

    def init(world: World, specs: Any, conductor: Any, seed: int, *rest: Any, **options: Any) -> None:
        drawn = crc32(f"{request.node.name} {seed}".encode()) % 20
        options.setdefault("carriage", {0: "wire", 1: "watched"}.get(drawn, "shared"))
        usual(world, specs, conductor, seed, *rest, **options)

    monkeypatch.setattr(World, "__init__", init)


@pytest.fixture(scope="module")
def local_ray() -> Iterator[LocalRayCluster]:
    """One Ray on this machine for all tests of a module; other modules need its place after it."""
    from orchestrator.clusters.local_ray import LocalRayCluster

    with LocalRayCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The Spark session of this process. It is left running, as a process has one JVM, unless a command that shares
    it ends it: then the next module gets a new session on the same JVM."""
    from orchestrator.engines.spark_session import spark_session

    return spark_session()
