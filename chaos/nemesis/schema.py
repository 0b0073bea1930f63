"""Writes docs/nemesis.schema.json, for editors: ``python -m chaos.nemesis.schema``."""

from __future__ import annotations

import json
from pathlib import Path

from chaos.nemesis.model import json_schema

SCHEMA_FILE = Path("docs/nemesis.schema.json")
"""Where it stands in the repository."""


def schema_text() -> str:
    """The file's content."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write it, from the root of the repository."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
