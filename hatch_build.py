"""Build hook: makes the import package krift, in place. krift.v1 is compiled from proto/krift/v1/*.proto: protobuf's
modules, and the messages of nodes (generate_messages.py). krift itself has the names of orchestrator/api."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCES = ROOT / "proto"
PACKAGE = ROOT / "krift"
API = ROOT / "orchestrator" / "api" / "__init__.py"
RECIPE = ("hatch_build.py", "generate_messages.py", "proto_sources.py", "orchestrator/api/__init__.py")
"""The sources of krift/ beside proto/."""
DIGESTS = "sources.json"
INIT = '"""Generated from proto/ by hatch_build.py; not to be edited, and never committed."""\n'
DOOR = '''\
"""Krift for programs: load a run, carry one out in the sim, build a scenario; events come as DataFrames.

Generated from orchestrator/api by hatch_build.py; not to be edited, and never committed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api import (
{imports}
    )

__all__ = (
{names}
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a name when it is asked for: what it rests on imports krift.v1, and so this package, itself."""
        if name not in __all__:
            raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
        from orchestrator import api

        return getattr(api, name)

    def __dir__() -> list[str]:
        return sorted({{*globals(), *__all__}})
'''


def plugin(name: str) -> str:
    """Find a protoc plugin: beside this interpreter, or on the PATH that a build environment sets up."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} not found: install mypy-protobuf, or build through pip, which does so")
    return f"--plugin={name}={found}"


def door() -> str:
    """The module krift, with the names of the API, each typed and imported late."""
    found = [
        node.value
        for node in ast.parse(API.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]
    ]
    if len(found) != 1:
        raise RuntimeError(f"no one list __all__ in {API}")
    names = ast.literal_eval(found[0])
    imports = "\n".join(f"        {name} as {name}," for name in names)
    return DOOR.format(imports=imports, names="\n".join(f"    {name!r}," for name in names))


def digests() -> dict[str, str]:
    """Each source of krift/ with the digest of its bytes; orchestrator/generated.py compares them with the sources."""
    files = [*sorted(SOURCES.glob("krift/v1/*.proto")), *(ROOT / name for name in RECIPE)]
    return {path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def generate() -> None:
    """Write krift/ anew. A source that does not compile leaves the code of the last good build standing."""
    sources = sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.glob("krift/v1/*.proto"))
    if not sources:
        raise RuntimeError(f"no .proto file in {SOURCES / 'krift' / 'v1'}")
    with tempfile.TemporaryDirectory(prefix=".proto-", dir=ROOT) as scratch:
        outputs = [f"--{kind}_out={scratch}" for kind in ("python", "grpc_python")]
        outputs += [f"--{kind}_out=quiet:{scratch}" for kind in ("mypy", "mypy_grpc")]
        plugins = [plugin("protoc-gen-mypy"), plugin("protoc-gen-mypy_grpc")]
        compiler = [sys.executable, "-m", "grpc_tools.protoc", "-I."]
        descriptors = Path(scratch) / "descriptors"
        outputs += [f"--descriptor_set_out={descriptors}", "--include_source_info"]
        subprocess.run([*compiler, *plugins, *outputs, *sources], cwd=SOURCES, check=True)
        fresh = Path(scratch) / "krift"
        (fresh / "__init__.py").write_text(door(), encoding="utf-8")
        (fresh / "v1" / "__init__.py").write_text(INIT, encoding="utf-8")
        (fresh / "py.typed").touch()
        structs = [sys.executable, str(ROOT / "generate_messages.py"), str(descriptors), str(fresh / "v1")]
        subprocess.run(structs, check=True)
        (fresh / DIGESTS).write_text(json.dumps(digests(), indent=1), encoding="utf-8")
        shutil.rmtree(PACKAGE, ignore_errors=True)
        shutil.move(fresh, PACKAGE)


class ProtobufBuildHook(BuildHookInterface[Any]):
    """Generates before every wheel and every editable install; a source distribution carries the sources alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate()


if __name__ == "__main__":
    generate()
