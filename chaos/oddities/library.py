"""The corpus of legal oddities, by name."""

from __future__ import annotations

from importlib import resources

from chaos.scenario.loader import Loaded, load_text


def names() -> list[str]:
    """Names of all oddities, in order."""
    files = resources.files(__package__).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def text(name: str) -> str:
    """The scenario file of an oddity."""
    return (resources.files(__package__) / f"{name}.yaml").read_text(encoding="utf-8")


def load(name: str) -> Loaded:
    """An oddity as a scenario. Raises InputError if its file has a mistake."""
    return load_text(text(name), f"{name}.yaml")
