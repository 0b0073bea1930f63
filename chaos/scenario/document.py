"""Writes docs/configuration.md, what a scenario can switch and set: ``python -m chaos.scenario.document``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actors.config import CONFIG, INT_MAX, LONG_MAX, ConfigKey
from actors.features import FEATURES
from actors.versions import API_VERSIONS
from chaos.scenario.durations import format_versions

PATH = Path("docs/configuration.md")

HEAD = """# Features, configuration keys, versions

These are the switches and settings of a scenario, for all nodes or for one ([scenarios.md](scenarios.md)), and of
`--set`. This file is generated: `python -m chaos.scenario.document` writes it."""

FEATURES_HEAD = """## Features

Under `features`. `off` is Kafka before the proposal, `seed` the proposal as its text says, `kafka` the version that
Apache Kafka ships. `kip-595` stands for every `kip-595.*`.

| feature | values | default | effect |
|---|---|---|---|"""

CONFIG_HEAD = """## Configuration keys

Under `config`: of `cluster` for controllers and brokers, of a topic, of a client, of one of the `nodes`. Names and,
unless the table says otherwise, defaults are Kafka's. A key of Kafka that Krift does not have is a mistake. A
`list-offsets` client takes the keys of a consumer. Keys of topics, and keys of brokers that are marked as dynamic,
change without a restart (`configure` in [faults.md](faults.md#actions)).

| key | of | default | values | meaning |
|---|---|---|---|---|"""

VERSIONS_HEAD = """## Versions

Under `versions`: a range within that of the table, which is the default.

| API | versions |
|---|---|"""


def document() -> str:
    """The content of the file."""
    return "\n".join([HEAD, "", *_features(), "", *_config(), "", *_versions()]) + "\n"


def _features() -> Iterator[str]:
    yield FEATURES_HEAD
    for feature in FEATURES.values():
        values = ", ".join(f"`{value}`" for value in feature.values)
        yield f"| `{feature.name}` | {values} | `{feature.default}` | {feature.about} |"


def _config() -> Iterator[str]:
    yield CONFIG_HEAD
    for key in CONFIG.values():
        scopes = ", ".join(scope for scope in key.scopes if scope != "krift")
        about = f"{key.about} Dynamic." if key.dynamic else key.about
        yield f"| `{key.name}` | {scopes} | `{_written(key.default)}` | {_values(key)} | {about} |"


def _versions() -> Iterator[str]:
    yield VERSIONS_HEAD
    for api, (low, high) in API_VERSIONS.items():
        yield f"| {api.name} | `{format_versions(low, high)}` |"


def _written(value: Any) -> str:
    """As it is written in a scenario."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(key: ConfigKey) -> str:
    if isinstance(key.default, bool):
        return "`true`, `false`"
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    if isinstance(key.default, str):
        return "any text"
    return f"{key.low} and up" if key.high in (INT_MAX, LONG_MAX) else f"{key.low} to {key.high}"


def main() -> None:
    """Write it, from the root of the repository."""
    PATH.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
