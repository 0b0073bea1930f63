"""The real Kafka still answers as it did when its outcomes were kept: ``make test-all``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_kafka.cases import SECTIONS, run_section
from tests.real_kafka.cluster import BROKERS, CONTROLLERS
from tests.real_kafka.outcomes import differences, recorded
from tests.real_kafka.real_cluster import RealCluster

pytestmark = [pytest.mark.real_kafka, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealCluster]:
    """Three brokers and three controllers; where there is no Kafka to be had, every test here fails and says so."""
    with RealCluster() as cluster:
        yield cluster


@pytest.mark.parametrize("name", SECTIONS)
def test_kafka_answers_as_it_did(name: str, kafka: RealCluster) -> None:
    """Shows that what is kept of Kafka 4.3.1 is what it says: Krift is compared with Kafka itself."""
    kafka.start(*[node for node in (*BROKERS, *CONTROLLERS) if node not in kafka.processes])
    different = differences(recorded()[name], run_section(name, kafka))
    assert not different, "\n".join(different)
