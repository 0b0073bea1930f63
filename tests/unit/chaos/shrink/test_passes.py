"""Each pass alone, with a predicate in place of a run: what it takes away, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.scenario.durations import parse_duration_us
from chaos.shrink.moments import Sighting
from tests.unit.chaos.shrink.toys import kinds, only, shrunk, toy


def test_what_comes_after_the_failure_goes() -> None:
    """Shows that the chaos ends with the failure: later steps go, and what lasts longer is cut."""
    found = shrunk(lambda document: True, only("what-comes-after"), failed_us=3_210_400).best
    assert found["duration"] == "3211ms"
    assert kinds(found) == ["crash", "partition", "power-loss"]
    assert found["chaos"][0]["for"] == "1977ms"


def test_only_the_steps_that_matter_stay() -> None:
    """Shows that two steps which are needed together are found among six."""
    found = shrunk(lambda document: {"power-loss", "elect"} <= set(kinds(document)), only("fewer-steps")).best
    assert kinds(found) == ["power-loss", "elect"]


def test_a_schedule_that_does_not_matter_goes_at_once() -> None:
    """Shows that one candidate is enough for what nothing depends on."""
    shrinker = shrunk(lambda document: True, only("fewer-steps"))
    assert (shrinker.best["chaos"], shrinker.counts["fewer-steps"].tried) == ([], 1)


def test_time_is_made_shorter() -> None:
    """Shows that faults last less, follow each other sooner, and end after a time where they waited to be seen."""

    def fails(document: Mapping[str, Any]) -> bool:
        steps = document["chaos"]
        return len(steps) == 6 and parse_duration_us(steps[0].get("for", "0s")) >= 500_000

    found = shrunk(fails, only("shorter")).best
    assert 500_000 <= parse_duration_us(found["chaos"][0]["for"]) < 700_000
    assert found["chaos"][0]["when"] == {"at": "100ms"}
    assert "until" not in found["chaos"][1]
    assert parse_duration_us(found["duration"]) < 2_000_000


def test_clients_go_and_the_others_are_renamed() -> None:
    """Shows that without the clients before it producer-2 is called producer-1; what named only a client that is
    gone goes with it."""

    def fails(document: Mapping[str, Any]) -> bool:
        return any(client.get("rate") == "50/s" for entry in document["workload"] for client in entry.values())

    found = shrunk(fails, only("fewer-clients")).best
    assert [list(entry) for entry in found["workload"]] == [["producer"]]
    assert "count" not in found["workload"][0]["producer"]
    assert "drop" not in kinds(found), "it hit producer-3 alone"
    assert found["nodes"] == {
        "broker-3": {"versions": {"ListOffsets": "1-7"}},
        "producer-1": {"config": {"linger.ms": 50}},
    }


def test_a_fault_follows_its_client() -> None:
    """Shows a selector that names a client by its new number."""

    def fails(document: Mapping[str, Any]) -> bool:
        twice = any(client.get("count") == 2 for entry in document["workload"] for client in entry.values())
        return twice and "drop" in kinds(document)

    found = shrunk(fails, only("fewer-clients")).best
    assert len(found["workload"]) == 1
    assert next(step for step in found["chaos"] if "drop" in step.get("fault", {}))["fault"]["drop"]["isolate"] == [
        "producer-2"
    ]


def test_fewer_records_are_sent() -> None:
    """Shows that rates go down as far as the failure allows, and questions become rarer."""

    def fails(document: Mapping[str, Any]) -> bool:
        return all(
            client["rate"] in ("100/s", "50/s", "20/s", "10/s")
            for entry in document["workload"]
            for client in entry.values()
            if "rate" in client
        )

    found = shrunk(fails, only("fewer-records")).best
    assert [client.get("rate", client.get("every")) for entry in found["workload"] for client in entry.values()] == [
        "10/s",
        "10/s",
        None,
        None,
        "1s",
    ]


def test_nodes_go_and_the_others_are_renamed() -> None:
    """Shows that without broker-1 and broker-2, broker-3 is called broker-1 in replicas, faults and overrides."""

    def fails(document: Mapping[str, Any]) -> bool:
        return document["cluster"]["voters"] >= 2 and [
            list(own) for name, own in document.get("nodes", {}).items() if name.startswith("broker-")
        ] == [["versions"]]

    found = shrunk(fails, only("fewer-nodes")).best
    cluster = found["cluster"]
    assert (cluster["voters"], cluster["brokers"]) == (2, 2), "other-0 is on broker-4 alone, now broker-2"
    assert cluster["topics"]["orders"]["replicas"] == [[1], [1, 2]]
    assert cluster["topics"]["other"]["replicas"] == [[2]]
    assert found["nodes"]["broker-1"] == {"versions": {"ListOffsets": "1-7"}}
    prober = next(entry["list-offsets"] for entry in found["workload"] if "list-offsets" in entry)
    assert prober["replica-id"] == 1


def test_partitions_and_topics_go() -> None:
    """Shows that without orders-0, orders-1 is called orders-0 wherever it is named."""

    def fails(document: Mapping[str, Any]) -> bool:
        return "power-loss" in kinds(document)

    found = shrunk(fails, only("fewer-replicas")).best
    assert found["cluster"]["topics"] == {"orders": {"replicas": [[2, 3]], "config": {"min.insync.replicas": 2}}}
    assert [client["topic"] for entry in found["workload"] for client in entry.values()] == ["orders"] * 4
    stop = next(step for step in found["chaos"] if "power-loss" in step.get("fault", {}))
    assert stop["when"]["seen"] == {"leader-elected": {"tp": "orders-0"}}
    assert stop["fault"]["power-loss"]["of"] == "orders-0"


def test_settings_go() -> None:
    """Shows that of all configuration, features and versions only what is needed stays."""

    def fails(document: Mapping[str, Any]) -> bool:
        return document["cluster"].get("config", {}).get("num.io.threads") == 2

    found = shrunk(fails, only("fewer-settings")).best
    assert found["cluster"]["config"] == {"num.io.threads": 2}
    assert not {"features", "versions", "nodes"} & set(found)
    assert all("config" not in client for entry in found["workload"] for client in entry.values())


def test_steps_hit_fewer_nodes() -> None:
    """Shows that of several targets the one that matters stays."""

    def fails(document: Mapping[str, Any]) -> bool:
        return "broker-3" in document["chaos"][2]["fault"]["power-loss"]["nodes"]

    found = shrunk(fails, only("fewer-targets")).best
    assert found["chaos"][2]["fault"]["power-loss"]["nodes"] == ["broker-3"]
    assert found["chaos"][4]["action"]["elect"]["partitions"] == ["orders-1"]


def test_worse_stops_become_crashes() -> None:
    """Shows that a power loss at a point becomes a plain crash, if that will do; and that it stays if it will not."""
    found = shrunk(lambda document: True, only("plainer-faults")).best
    assert found["chaos"][2]["fault"] == {"crash": ["followers(orders-1)[0]", "broker-3"]}
    kept = shrunk(lambda document: "power-loss" in kinds(document), only("plainer-faults")).best
    assert kept["chaos"][2]["fault"] == {"power-loss": ["followers(orders-1)[0]", "broker-3"]}


def test_times_become_round_and_what_need_not_be_said_goes() -> None:
    """Shows rounding, always down, and that n-th times, delays, chances and APIs become plain."""
    found = shrunk(lambda document: True, only("simpler-values")).best
    assert (found["chaos"][0]["when"], found["chaos"][0]["for"]) == ({"at": "1s"}, "2s")
    assert found["chaos"][2]["when"] == {"seen": {"leader-elected": {"tp": "orders-1"}}}
    assert found["chaos"][3]["fault"]["drop"] == {"isolate": ["producer-3"], "chance": "100%"}


def test_a_time_becomes_what_was_seen_just_before_it() -> None:
    """Shows that a moment is told by the nearest change of the cluster, and only by one that came before it; a step
    with nothing near it keeps its time."""
    seen = [
        Sighting(2_900_000, "isr-shrunk", {"tp": "orders-1"}, 1),
        Sighting(2_950_000, "leader-elected", {"tp": "orders-1"}, 3),
        Sighting(3_000_000, "node-down", {"node": "broker-2"}, 1),
    ]
    found = shrunk(lambda document: True, only("seen-moments"), look=lambda document: seen).best
    moments = [step["when"] for step in found["chaos"]]
    assert moments[1] == {"seen": {"leader-elected": {"tp": "orders-1"}}, "nth": 3, "delay": "50ms"}
    assert [moments[index] for index in (0, 3)] == [toy()["chaos"][index]["when"] for index in (0, 3)]
