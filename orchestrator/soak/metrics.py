"""The metrics of a soak for Prometheus: what ``status.json`` says, under names that dashboards and alert rules know."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, NamedTuple

from chaos.errors import InputError, Mistake
from orchestrator.soak.directory import Status

PATH = "/metrics"


class Metric(NamedTuple):
    """``values``: label value ("" for none) -> number."""

    name: str
    kind: Literal["counter", "gauge"]
    about: str
    label: str
    values: Callable[[Status], Mapping[str, float]]


def _one(value: Callable[[Status], float]) -> Callable[[Status], Mapping[str, float]]:
    return lambda status: {"": value(status)}


METRICS = (
    Metric("krift_soak_running", "gauge", "1 while the soak is running.", "", _one(lambda s: s.state == "running")),
    Metric("krift_soak_round", "gauge", "Current round of chaos.", "", _one(lambda s: s.round)),
    Metric("krift_soak_time_seconds", "gauge", "The soak's own time.", "", _one(lambda s: s.time_us / 1e6)),
    Metric("krift_soak_duration_seconds", "gauge", "Requested duration.", "", _one(lambda s: s.duration_us / 1e6)),
    Metric("krift_soak_checked_seconds", "gauge", "Time that is checked.", "", _one(lambda s: s.checked_us / 1e6)),
    Metric("krift_soak_events_total", "counter", "Events that were recorded.", "", _one(lambda s: s.events)),
    Metric("krift_soak_faults_total", "counter", "Faults that took effect.", "kind", lambda s: s.faults),
    Metric("krift_soak_findings_total", "counter", "Promises that were broken.", "invariant", lambda s: s.findings),
    Metric(
        "krift_soak_known_findings_total",
        "counter",
        "Violations that a known finding about Kafka explains.",
        "invariant",
        lambda s: s.known,
    ),
    Metric("krift_soak_nodes", "gauge", "Nodes of the cluster.", "", _one(lambda s: s.nodes)),
    Metric("krift_soak_nodes_up", "gauge", "Nodes that run.", "", _one(lambda s: s.up)),
    Metric("krift_soak_state_bytes", "gauge", "State of the checks.", "", _one(lambda s: s.state_bytes)),
    Metric("krift_soak_memory_bytes", "gauge", "Memory of the driver.", "", _one(lambda s: s.memory_bytes)),
    Metric("krift_soak_disk_bytes", "gauge", "Disk that the soak takes.", "", _one(lambda s: s.disk_bytes)),
    Metric("krift_soak_evidence_bytes", "gauge", "Disk that evidence takes.", "", _one(lambda s: s.evidence_bytes)),
    Metric(
        "krift_soak_starved_seconds_total",
        "counter",
        "Time that nodes of a live soak waited for processor time, added up.",
        "",
        _one(lambda s: s.starved_ms / 1e3),
    ),
    Metric("krift_soak_restarts_total", "counter", "Times that it was resumed.", "", _one(lambda s: s.restarts)),
    Metric(
        "krift_soak_checker_restarts_total",
        "counter",
        "Restarts of the checks of a live soak.",
        "",
        _one(lambda s: s.checker_restarts),
    ),
)


def exposition(status: Status) -> str:
    """All metrics in Prometheus' text format."""
    return "".join(line + "\n" for metric in METRICS for line in _lines(metric, status))


def _lines(metric: Metric, status: Status) -> Iterable[str]:
    yield f"# HELP {metric.name} {metric.about}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for value, number in metric.values(status).items():
        labels = {"scenario": status.scenario, "runtime": status.runtime, **({metric.label: value} if value else {})}
        text = ",".join(f'{name}="{_escaped(each)}"' for name, each in labels.items())
        yield f"{metric.name}{{{text}}} {float(number):.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def parse_place(text: str) -> tuple[str, int]:
    """``PORT``, on the loopback, or ``HOST:PORT``. Raises InputError."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 <= int(port) < 65536:
        problem = f"{text!r} is no place to serve at"
        raise InputError([Mistake("--metrics", 0, "", problem, "a port, or HOST:PORT")])
    return host or "127.0.0.1", int(port)


class MetricsServer:
    """Serves the metrics of a soak over HTTP as long as it is entered. ``port`` 0: any that is free; ``place`` has the
    one it is. Raises InputError if it cannot be used."""

    def __init__(self, place: tuple[str, int], status: Callable[[], Status]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:  # http.server's name for it
                if self.path.partition("?")[0] != PATH:
                    self.send_error(404)
                    return
                body = exposition(status()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody wants to read who scraped."""

        try:
            self._server = ThreadingHTTPServer(place, Handler)
        except OSError as error:
            expected = "a free port of this machine"
            raise InputError([Mistake("--metrics", 0, "", f"{place}: {error.strerror}", expected)]) from None
        self._server.daemon_threads = True
        self.place = f"{place[0]}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="soak-metrics", daemon=True)

    def __enter__(self) -> MetricsServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
