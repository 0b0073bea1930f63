"""The schemas of all kinds in the manifests; a field that a schema does not know is a mistake.

The rules in CEL (``x-kubernetes-validations``) and the operators' webhooks are not run.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from openapi_schema_validator import OAS30Validator

CRDS = Path(__file__).parent / "crds"
OWN = Path(__file__).parent / "own"
"""Schemas that are written down here."""
CORE_VERSION = "1.37"
_LOOSE = {"type": "object"}


def mistakes(document: dict[str, Any]) -> list[str]:
    """What is wrong with an object, "path: problem"; a kind without a schema is wrong."""
    key = (document["apiVersion"], document["kind"])
    schema = _custom().get(key)
    if schema is not None:
        found = OAS30Validator(schema).iter_errors(document)
        return sorted(f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in found)
    try:
        kubernetes_validate.validate(document, CORE_VERSION, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        return [f"kind: there is no schema of {key[1]} in {key[0]}"]
    except kubernetes_validate.ValidationError as error:
        return [f"{'/'.join(map(str, error.path))}: {error.message}"]
    return []


@cache
def _custom() -> dict[tuple[str, str], dict[str, Any]]:
    """apiVersion and kind -> the closed schema."""
    schemas = {}
    for path in sorted([*CRDS.glob("*.yaml"), *OWN.glob("*.yaml")]):
        definition = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["spec"]
        for version in definition["versions"]:
            name = f"{definition['group']}/{version['name']}"
            schemas[name, definition["names"]["kind"]] = _closed(version["schema"]["openAPIV3Schema"])
    return schemas


def _closed(schema: Any) -> Any:
    """The same schema, in which a field that it does not list is a mistake; ``metadata`` is checked with the core."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    closed = {key: _closed(part) for key, part in schema.items() if key != "properties"}
    if "properties" in schema:
        closed["properties"] = {name: _closed(part) for name, part in schema["properties"].items()}
        if schema["properties"].get("metadata") == _LOOSE:
            closed["properties"]["metadata"] = _LOOSE
        if not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in schema:
            closed["additionalProperties"] = False
    return closed
