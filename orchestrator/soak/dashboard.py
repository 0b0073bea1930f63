"""The Grafana dashboard of soaks, made from the metrics that a soak serves: ``python -m orchestrator.soak.dashboard``
writes it into the manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from orchestrator.files import write_text

PLACE = Path(__file__).parents[2] / "k8s" / "monitoring" / "soak-dashboard.yaml"

PANELS = (
    ("Progress", "percentunit", {"": "krift_soak_time_seconds / krift_soak_duration_seconds"}),
    ("Broken promises", "none", {"{{invariant}}": "krift_soak_findings_total"}),
    ("Known findings about Kafka", "none", {"{{invariant}}": "krift_soak_known_findings_total"}),
    ("Nodes", "none", {"nodes": "krift_soak_nodes", "up": "krift_soak_nodes_up"}),
    ("Round", "none", {"round": "krift_soak_round"}),
    ("Faults a minute", "none", {"{{kind}}": "60 * rate(krift_soak_faults_total[5m])"}),
    ("Events a second", "none", {"events": "rate(krift_soak_events_total[5m])"}),
    ("Not checked yet", "s", {"time": "krift_soak_time_seconds - krift_soak_checked_seconds"}),
    ("What the checks remember", "bytes", {"states": "krift_soak_state_bytes"}),
    (
        "Processor time that nodes waited for",
        "s",
        {"waited": "rate(krift_soak_starved_seconds_total[5m])"},
    ),
    ("Memory of the driver", "bytes", {"memory": "krift_soak_memory_bytes"}),
    ("Disk", "bytes", {"disk": "krift_soak_disk_bytes", "of it evidence": "krift_soak_evidence_bytes"}),
    (
        "Restarts",
        "none",
        {
            "running": "krift_soak_running",
            "resumed": "krift_soak_restarts_total",
            "checks": "krift_soak_checker_restarts_total",
        },
    ),
)
"""Title, unit, and legend -> expression."""

WIDTH, HEIGHT, COLUMNS = 8, 7, 3


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    source = {"type": "prometheus", "uid": "${source}"}
    panels = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {
                "x": number % COLUMNS * WIDTH,
                "y": number // COLUMNS * HEIGHT,
                "w": WIDTH,
                "h": HEIGHT,
            },
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend, "datasource": source}
                for index, (legend, expression) in enumerate(expressions.items())
            ],
        }
        for number, (title, unit, expressions) in enumerate(PANELS)
    ]
    return {
        "uid": "krift-soak",
        "title": "Krift soaks",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }


def manifest() -> str:
    """A ConfigMap with it, which Grafana's sidecar finds by its label."""
    text = msgspec.json.format(msgspec.json.encode(dashboard()), indent=1).decode()
    whole = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "krift-soak-dashboard", "labels": {"grafana_dashboard": "1"}},
        "data": {"krift-soak.json": text},
    }
    head = "# Made by python -m orchestrator.soak.dashboard, from the metrics of krift soak.\n"
    return head + yaml.safe_dump(whole, sort_keys=False, default_style=None, width=110)


if __name__ == "__main__":
    write_text(PLACE, manifest())
