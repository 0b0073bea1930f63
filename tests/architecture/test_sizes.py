"""A module says what it is, and both modules and functions stay small enough to read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.sources import ROOT, name, python_files

FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600
PACKAGES = ("actors", "chaos", "orchestrator")


def functions_of(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions below a node; only statements can have one, which saves most of the walk."""
    for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, blocks, ()):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                yield each
            yield from functions_of(each)


def test_every_module_says_what_it_is_and_functions_fit_a_screen() -> None:
    """Shows that a reader who opens any file learns in its first line what the file is for, and that no function is
    longer than a screen, its docstring and decorators included."""
    silent, long = [], []
    for path in [*python_files(*PACKAGES, "tests", "benchmarks"), *ROOT.glob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            silent.append(name(path))
        for node in functions_of(tree):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                long.append(f"{name(path)}:{node.lineno} {node.name} has {lines} lines")
    assert not silent, f"without a docstring: {silent}"
    assert not long, f"longer than {FUNCTION_LINES_MAX} lines: {long}"


def test_modules_stay_small() -> None:
    """Shows that no module has grown into several."""
    long = []
    for path in python_files(*PACKAGES):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MODULE_LINES_MAX:
            long.append(f"{name(path)} has {lines} lines")
    assert not long, f"longer than {MODULE_LINES_MAX} lines: {long}"
