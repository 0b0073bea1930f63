"""Options of the test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestrator.clusters.local_ray import LocalRayCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="write what the data-driven tests print into their .txt files instead of comparing; review the diff",
    )


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
