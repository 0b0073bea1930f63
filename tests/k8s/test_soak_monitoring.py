"""The monitoring of soaks: dashboard, alert rules and endpoint know the metrics that a soak serves, and no others."""

from __future__ import annotations

import re
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest
import yaml

from chaos.errors import InputError
from orchestrator.soak.dashboard import PLACE, dashboard, manifest
from orchestrator.soak.directory import Status
from orchestrator.soak.metrics import METRICS, MetricsServer, exposition, parse_place
from tests.k8s.rendered import MANIFESTS, Document, rendered

NAMES = {metric.name for metric in METRICS}
STATUS = Status(
    soak="s",
    scenario='a "b"',
    runtime="sim",
    findings={"C1": 2, "P3": 1},
    known={"X10": 1},
    faults={"crash": 7},
    events=1_234_567,
)


def used(text: str) -> set[str]:
    """The metrics in an expression."""
    return set(re.findall(r"krift_soak_\w+", text))


def rules() -> list[Document]:
    """The alert rules."""
    (found,) = [each for each in rendered(MANIFESTS / "monitoring") if each["kind"] == "PrometheusRule"]
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def test_the_dashboard_shows_every_metric() -> None:
    """Shows that each metric has a place on the dashboard, and that each name there is a metric."""
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    assert set.union(*map(used, expressions)) == NAMES


def test_the_dashboard_is_fresh() -> None:
    """Shows that the manifest is what would be made now, and that Grafana could read it."""
    assert PLACE.read_text() == manifest()
    assert msgspec.json.decode(yaml.safe_load(PLACE.read_text())["data"]["krift-soak.json"]) == dashboard()


def test_alert_rules_know_the_metrics() -> None:
    """Shows that each rule is about a metric that is served, with labels that it has, and says what to do."""
    assert len(rules()) > 4
    labels = {"scenario", "runtime"} | {metric.label for metric in METRICS}
    for rule in rules():
        assert used(rule["expr"]) and used(rule["expr"]) <= NAMES, rule
        assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= labels
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_metrics_are_served() -> None:
    """Shows that the endpoint has each metric with its type and labels, escaped, and nothing under another path."""
    with MetricsServer(("127.0.0.1", 0), lambda: STATUS) as server:
        with urlopen(f"http://{server.place}/metrics") as answer:
            text = answer.read().decode()
        with pytest.raises(HTTPError):
            urlopen(f"http://{server.place}/other")
    assert text == exposition(STATUS)
    assert set(re.findall(r"(?m)^# TYPE (\S+) (?:counter|gauge)$", text)) == NAMES
    assert 'krift_soak_findings_total{scenario="a \\"b\\"",runtime="sim",invariant="C1"} 2\n' in text
    assert 'krift_soak_events_total{scenario="a \\"b\\"",runtime="sim"} 1234567\n' in text


def test_a_place_is_a_port_with_or_without_a_host() -> None:
    """Shows that a port alone is on the loopback, and that anything else is refused in words."""
    assert parse_place("9321") == ("127.0.0.1", 9321)
    assert parse_place("0.0.0.0:9321") == ("0.0.0.0", 9321)
    for wrong in ("", "host", "1:2:x", "70000"):
        with pytest.raises(InputError, match="no place to serve at"):
            parse_place(wrong)
