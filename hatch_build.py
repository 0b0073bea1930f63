"""Build hook: compiles proto/krift/v1/*.proto into the import package krift.v1, in place: protobuf's modules, and the
messages of nodes (generate_messages.py)."""

from __future__ import annotations

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
INIT = '"""Generated from proto/ by hatch_build.py; not to be edited, and never committed."""\n'


def plugin(name: str) -> str:
    """Find a protoc plugin: beside this interpreter, or on the PATH that a build environment sets up."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} not found: install mypy-protobuf, or build through pip, which does so")
    return f"--plugin={name}={found}"


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
        for package in (fresh, fresh / "v1"):
            (package / "__init__.py").write_text(INIT, encoding="utf-8")
        (fresh / "py.typed").touch()
        structs = [sys.executable, str(ROOT / "generate_messages.py"), str(descriptors), str(fresh / "v1")]
        subprocess.run(structs, check=True)
        shutil.rmtree(PACKAGE, ignore_errors=True)
        shutil.move(fresh, PACKAGE)


class ProtobufBuildHook(BuildHookInterface[Any]):
    """Generates before every wheel and every editable install; a source distribution carries the sources alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate()


if __name__ == "__main__":
    generate()
