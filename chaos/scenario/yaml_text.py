"""Plain values as YAML that ``chaos.scenario.yaml_tree`` reads back as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from chaos.scenario.yaml_tree import parse_scalar


class _Dumper(yaml.SafeDumper):
    """Quotes what the loader would read as something else than text, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = isinstance(parse_scalar(text), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else "'")


_Dumper.add_representer(str, _represent_text)


def to_yaml(document: Mapping[str, Any], *, dense: bool = False) -> str:
    """The text of a resolved scenario. ``dense``: what is innermost stands on one line, as people write it."""
    style = None if dense else False
    return yaml.dump(
        dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=style
    )
