"""docs/programs.md shows what its programs really print.

Its Python blocks are executed one after the other, and what each prints is compared with the text block below it; a
block that begins with the name of a test file is run by pytest, and compared with the console block below it. A line
``...`` stands for any lines. ``--rewrite`` fills in the output of blocks that have no such line.
"""

from __future__ import annotations

import re
import textwrap
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

import krift
from tests.architecture.sources import ROOT
from tests.scenario.test_console_blocks import as_pattern

pytest_plugins = ["pytester"]

# Imported here: pytester forgets what is imported in its runs, and C extensions bear that only once.
assert pd.NA is not None
assert krift.run is not None

PAGE = ROOT / "docs" / "programs.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:(?!```).)*?```(?:text|console)\n(?P<output>.*?)```", re.DOTALL)
TEST_FILE = re.compile(r"# (test_\w+\.py)\n")
COMMAND = re.compile(r"\$ pytest [^\n]+\n")


def printed(code: str, names: dict[str, object]) -> str:
    """What a program prints, without blanks at line ends."""
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), names)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def reported(code: str, pytester: pytest.Pytester) -> str:
    """What pytest prints of a test file, without the times that it tells."""
    [name] = TEST_FILE.findall(code)
    Path(name).write_text(code, encoding="utf-8")
    result = pytester.runpytest_inprocess(name, "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:randomly")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    return "".join(f"{line.rstrip()}\n" for line in result.outlines)


def test_the_page_shows_what_is_printed(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> None:
    """Shows that each program of the page works, and prints what stands below it."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```python\n") >= 5, "every program is followed by what it prints"
    names: dict[str, object] = {}
    for block in blocks:
        code, output = textwrap.dedent(block["code"]), block["output"]
        if TEST_FILE.match(code):
            scenario = names["scenario"]
            assert isinstance(scenario, krift.Scenario)
            Path("incidents").mkdir()
            scenario.save("incidents/leader-crash.yaml")
            command = COMMAND.match(output)
            assert command is not None
            actual = f"{command[0]}{reported(code, pytester)}"
        else:
            actual = printed(code, names)
        if request.config.getoption("--rewrite") and "\n...\n" not in f"\n{output}":
            fresh = block[0].removesuffix(f"{output}```") + f"{actual}```"
            PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(block[0], fresh), encoding="utf-8")
        else:
            assert re.fullmatch(as_pattern(output), actual), actual
