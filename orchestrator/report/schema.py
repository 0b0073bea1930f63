"""Writes docs/verdict.schema.json and docs/manifest.schema.json, for programs that read runs:
``python -m orchestrator.report.schema``."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.run_dir import Manifest
from orchestrator.verdict import Verdict

SCHEMA_FILES: dict[Path, type[Any]] = {
    Path("docs/verdict.schema.json"): Verdict,
    Path("docs/manifest.schema.json"): Manifest,
}
"""Where each stands in the repository, and what it describes."""


def schema_text(kind: type[Any]) -> str:
    """The content of a file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | msgspec.json.schema(kind)
    for part in schema["$defs"].values():
        part["description"] = inspect.cleandoc(part["description"])
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write them, from the root of the repository."""
    for path, kind in SCHEMA_FILES.items():
        path.write_text(schema_text(kind), encoding="utf-8")


if __name__ == "__main__":
    main()
