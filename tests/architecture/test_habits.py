"""Habits of this repository that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from actors.defects.catalogue import DEFECTS
from chaos.faults.kinds import KINDS
from tests.architecture.sources import name, python_files, repository_files

# Written in pieces, so that this file does not name them either.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("proxy", "golang", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("conda", "anaconda", "org"),
        ("crates", "io"),
    )
]


def test_no_file_names_a_package_registry() -> None:
    """Shows that where packages come from is left to the machine that installs them."""
    found = []
    for path in repository_files():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        found += [f"{name(path)} names {registry}" for registry in REGISTRIES if registry in text]
    assert not found, found


def nodes_of(path: Path, *words: str) -> Iterator[ast.AST]:
    """The syntax tree of a file in which one of some words is written; nothing of others, which are not parsed."""
    text = path.read_text(encoding="utf-8")
    return ast.walk(ast.parse(text)) if any(word in text for word in words) else iter(())


def test_nobody_but_the_wire_has_protobuf_messages() -> None:
    """Shows that nodes, runtimes and everybody above them have messages as Structs: only ``krift.v1.wire``, which is
    generated, knows protobuf's."""
    known = [
        f"{name(path)} imports {module}"
        for path in python_files("actors", "chaos", "orchestrator")
        for node in nodes_of(path, "google.protobuf", "_pb2")
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in [getattr(node, "module", None) or "", *(each.name for each in node.names)]
        if module.startswith("google.protobuf") or (module.endswith("_pb2") and not module.startswith("health"))
    ]
    assert not known, known


SLEEPERS = {"tests/real_kafka/real_cluster.py": "the real Kafka knows no time but that of the wall"}


def test_tests_do_not_sleep() -> None:
    """Shows that tests wait for a condition or a named point, and never for a stretch of wall time."""
    sleeps = [
        f"{name(path)}:{node.lineno}"
        for path in python_files("tests")
        for node in nodes_of(path, "sleep")
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep")
    ]
    assert [place for place in sleeps if place.partition(":")[0] not in SLEEPERS] == []


def test_every_test_says_what_it_shows() -> None:
    """Shows that every test begins with a sentence on what it shows."""
    silent = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in python_files("tests")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not silent, silent


def test_parts_of_the_quorum_are_given_the_turn() -> None:
    """Shows that what a part of the quorum needs of the step that its node takes comes in the turn, not in pieces."""
    pieces = {"step", "files", "net", "turn"}
    loose = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in python_files("actors/quorum")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and len(pieces.intersection(each.arg for each in node.args.args)) > 1
    ]
    assert not loose, loose


SAYS_KINDS = ("chaos/faults/", "chaos/nemesis/patterns.py", "chaos/nemesis/situations/", "chaos/nemesis/draw.py")
"""What a kind is, and what writes parts of scenario files."""
OTHER_KINDS = (
    *("delay", "drop", "duplicate", "reorder", "crash", "partition", "elect", "controlled-shutdown"),
    "delete-records",
)
"""Names of kinds that are words for something else, too."""


def test_no_module_asks_for_a_fault_by_its_name() -> None:
    """Shows that what there is to know of a kind of fault or action stands in its class: others ask the class."""
    names = set(KINDS) - set(OTHER_KINDS)
    asking = [
        f"{name(path)}:{node.lineno}: {node.value}"
        for path in python_files("chaos", "orchestrator")
        if not name(path).startswith(SAYS_KINDS)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert not asking, asking


COUNTED = re.compile(
    r" (times|runs|events|RPCs|steps|effects|pairs|seeds|kinds|incarnations|mismatches|moves|nodes|clients|states)\b"
    r"(?! (out|run)\b)"
)
COUNTERS = {"chaos/words.py"}


def test_one_is_not_many() -> None:
    """Shows that what is told with a number goes through ``chaos.words``, which knows that one run is not "1 runs";
    what is written with a fraction or is a constant cannot be one."""
    found = []
    for path in (path for path in python_files("chaos", "orchestrator") if name(path) not in COUNTERS):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for value, text in pairwise(parts):
                if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant) and _is_count(value):
                    if COUNTED.match(str(text.value)):
                        found.append(f"{name(path)}:{value.lineno}: {ast.unparse(value)}{text.value}")
    assert not found, found


def _is_count(value: ast.FormattedValue) -> bool:
    form = ast.unparse(value.format_spec) if value.format_spec else ""
    constant = isinstance(value.value, ast.Name) and value.value.id.isupper()
    return not constant and form in ("", "f','")


def test_every_planted_defect_can_be_asked_for() -> None:
    """Shows that a defect which the code looks for is in the catalogue, so that the exam has it, and that each of the
    catalogue is somewhere in the code."""
    files = [path for path in python_files("actors") if "defects" not in path.parts]
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    looked_for = set(re.findall(r'"([a-z0-9-]+)"\s+(?:not )?in\s+[\w.]*defects\b', code))
    assert not looked_for.difference(DEFECTS)
    assert not [defect for defect in DEFECTS if f'"{defect}"' not in code]
