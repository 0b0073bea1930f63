"""The module ``krift``: names that are typed, and imported late."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata, resources

import pytest

import hatch_build
import krift
from orchestrator import api

HEAVY = "{'pandas', 'pyarrow', 'ray', 'pyspark', 'grpc', 'orchestrator', 'chaos', 'actors'}"


def said(code: str) -> str:
    """What a fresh process prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_it_has_the_names_of_the_api() -> None:
    """Shows that every public name is there, that each is the API's, and that no other one is."""
    assert sorted(krift.__all__) == sorted(api.__all__)
    for name in api.__all__:
        assert getattr(krift, name) is getattr(api, name)
    assert set(api.__all__) <= set(dir(krift))
    with pytest.raises(AttributeError, match="module 'krift' has no attribute 'nothing'"):
        krift.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_it_is_generated_as_it_should_be() -> None:
    """Shows that the module that is imported is the one that the build makes now, and says that it is typed."""
    assert (resources.files("krift") / "__init__.py").read_text(encoding="utf-8") == hatch_build.door()
    assert (resources.files("krift") / "py.typed").is_file()


def test_names_are_imported_late() -> None:
    """Shows that importing krift, or what lies below the API, imports nothing of what the API rests on."""
    assert said(f"import krift, krift.v1, sys; print({HEAVY} & set(sys.modules))") == "set()"
    assert said("import krift, sys; krift.run; print({'ray', 'pyspark', 'grpc'} & set(sys.modules))") == "set()"


def test_the_plugin_is_registered_and_light() -> None:
    """Shows that pytest finds the plugin, and that loading it imports nothing of Krift's."""
    [plugin] = metadata.entry_points(group="pytest11", name="krift")
    assert plugin.value == "orchestrator.pytest_plugin"
    heavy = said(f"import orchestrator.pytest_plugin, sys; print({HEAVY} - {{'orchestrator'}} & set(sys.modules))")
    assert heavy == "set()"
