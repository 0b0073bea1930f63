"""Imports every node module with clocks, randomness, IO, Ray and gRPC out of reach; run in a process of its own."""

from __future__ import annotations

import builtins
import importlib
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

NODES = ("actors.node", "actors.log", "actors.quorum", "actors.controller", "actors.broker", "actors.client")
ANYWHERE = {"ray", "grpc", "pyspark"}
AMBIENT = {"asyncio", "logging", "os", "random", "secrets", "socket", "subprocess", "threading", "time", "uuid"}
DRIVERS = ("actors.live", "actors.sim", "actors.replay")

original_import = builtins.__import__


class Blocker:
    """Refuses the modules that no import of a node may reach, however far down."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in ANYWHERE or name.startswith(DRIVERS):
            raise ImportError(f"{name} is out of a node's reach")
        return None


def guarded_import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Import as ever, but refuse what a node may not name; the standard library itself may go on using it."""
    importer = str((globals or {}).get("__name__", ""))
    if importer.partition(".")[0] == "actors" and name.partition(".")[0] in AMBIENT:
        raise ImportError(f"{importer} imports {name}, which is out of a node's reach")
    return original_import(name, globals, locals, fromlist, level)


def main() -> None:
    sys.meta_path.insert(0, Blocker())
    builtins.__import__ = guarded_import
    count = 0
    for package in NODES:
        found = importlib.import_module(package)
        for module in pkgutil.walk_packages(found.__path__, f"{package}."):
            importlib.import_module(module.name)
            count += 1
    print(count)


if __name__ == "__main__":
    main()
