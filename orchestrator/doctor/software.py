"""What is installed: Python, the packages, the generated code, Java, and variables that change what they do."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping

from packaging.requirements import Requirement

from orchestrator.doctor.base import Check, ok, problem, warning

PYTHON = (3, 11)
JAVA = 17
JAVA_S = 30.0
GENERATED = "krift.v1.node_service_pb2_grpc"

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SURPRISES = {
    "SPARK_HOME": "Spark is taken from there, not from the installed pyspark: unset it if they differ",
    "PYSPARK_SUBMIT_ARGS": "Spark takes its master and settings from it before Krift's: unset it",
    "RAY_ADDRESS": "Ray's own tools use it; Krift starts a Ray of its own, or takes --cluster",
}
"""Variable -> what it does, and what to do."""


def check_python() -> Check:
    """The interpreter that runs this."""
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < PYTHON:
        return problem("Python", found, f"install Python {PYTHON[0]}.{PYTHON[1]} or newer")
    return ok("Python", f"{found} ({sys.executable})")


def check_packages() -> Check:
    """Krift's requirements, against what is installed."""
    try:
        requirements = importlib.metadata.requires("krift") or []
    except importlib.metadata.PackageNotFoundError:
        return warning("packages", "krift itself is not installed: it runs from a source tree", "make setup")
    wrong = list(_unmet(requirements))
    if wrong:
        return problem("packages", "; ".join(wrong), "make setup, or install krift again with constraints.txt")
    return ok("packages", "all in the tested ranges")


def _unmet(requirements: list[str]) -> Iterator[str]:
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            yield f"{requirement.name} is missing"
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            yield f"{requirement.name} is {found}, and Krift needs {requirement.specifier}"


def check_generated(module: str = GENERATED) -> Check:
    """The code made from proto/."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        return problem("wire", f"the code generated from proto/ cannot be imported: {error}", "make proto")
    return ok("wire", "generated from proto/")


def check_java() -> Check:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    place = f"JAVA_HOME, {home}," if home else "PATH"
    remedy = f"install Java {JAVA} or newer, and put it on PATH or in JAVA_HOME (sim runs need none)"
    if java is None:
        return problem("Java", f"there is none in {place}" if home else "there is none on PATH", remedy)
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return problem("Java", f"{java} does not run: {error}", remedy)
    said = _VERSION.search(done.stderr)
    if said is None:
        first = (done.stderr or done.stdout).strip().partition("\n")[0]
        return problem("Java", f"{java} does not print its version: {first or 'nothing'}", remedy)
    major = int(said[2] or 0) if said[1] == "1" else int(said[1])
    return ok("Java", f"{major} ({java})") if major >= JAVA else problem("Java", f"{major} ({java})", remedy)


def check_environment(variables: Mapping[str, str] | None = None) -> Check:
    """Variables that change what Ray, Spark and gRPC do."""
    known = os.environ if variables is None else variables
    found = [f"{name}={known[name]}" for name in _SURPRISES if known.get(name)]
    remedies = [_SURPRISES[name] for name in _SURPRISES if known.get(name)]
    proxy = next((name for name in ("http_proxy", "https_proxy", "grpc_proxy") if known.get(name)), "")
    spared = f"{known.get('no_proxy', '')},{known.get('no_grpc_proxy', '')},{known.get('NO_PROXY', '')}"
    if proxy and "127.0.0.1" not in spared:
        found.append(f"{proxy} is set")
        remedies.append("Ray's processes may use the proxy for the loopback: add 127.0.0.1 to no_proxy")
    if found:
        return warning("environment", ", ".join(found), "; ".join(remedies))
    return ok("environment", "no variable that changes Ray, Spark or gRPC")
