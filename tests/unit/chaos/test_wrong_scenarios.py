"""Wrong scenario files: each mistake is one clear line, told before anything starts.

``tests/data/wrong_scenarios`` has a file for each mistake and, beside it, the message that a user gets.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from chaos.errors import InputError
from chaos.scenario.loader import load_file, load_text
from chaos.scenario.yaml_tree import SIZE_MAX

WRONG = Path(__file__).parents[2] / "data" / "wrong_scenarios"
FILES = sorted(WRONG.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_wrong_file_gets_its_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows file, line, key, what is wrong and what was expected, for one mistake a file."""
    monkeypatch.chdir(WRONG)
    with pytest.raises(InputError) as caught:
        load_file(Path(path.name))
    assert f"{caught.value}\n" == path.with_suffix(".txt").read_text(encoding="utf-8")
    assert len(caught.value.mistakes) == 1
    assert caught.value.exit_code == 2


def test_every_wrong_file_has_a_message_and_every_message_a_file() -> None:
    """Shows that the folder holds pairs, and more than a handful of them."""
    assert {path.stem for path in FILES} == {path.stem for path in WRONG.glob("*.txt")}
    assert len(FILES) >= 20


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    """Shows that size is looked at before anything is parsed."""
    path = tmp_path / "large.yaml"
    path.write_bytes(b"[" * (SIZE_MAX + 1))
    with pytest.raises(InputError, match="the file is too large; expected at most 256 KiB"):
        load_file(path)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """Shows the line in which the text stops being UTF-8."""
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"schema: krift/v1\nname: \xff\n")
    with pytest.raises(InputError, match=r"latin\.yaml:2: the file is not UTF-8 text"):
        load_file(path)


def test_control_characters_are_refused() -> None:
    """Shows that YAML's reader errors, which have no line of their own, become messages too."""
    with pytest.raises(InputError, match="control character"):
        load_text(b"name: a\x00b\n")


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    """Shows that a path that leads nowhere is a mistake of the command, not a failed run."""
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_file(tmp_path / "none.yaml")


def test_deep_and_wide_files_are_refused_quickly() -> None:
    """Shows that neither nesting nor number of values can exhaust stack or memory."""
    began = time.process_time()
    with pytest.raises(InputError, match="nested too deeply"):
        load_text("[" * 100_000)
    with pytest.raises(InputError, match="too many values"):
        load_text("[" + "1," * 100_000 + "1]")
    assert time.process_time() - began < 20


def test_all_mistakes_of_a_file_are_told_in_its_order() -> None:
    """Shows that a file with several mistakes is corrected in one round."""
    text = "schema: krift/v1\nname: Two\nduration: 5\ncluster: {topics: {orders: {partitions: 1}}}\nworkload: []\n"
    with pytest.raises(InputError) as caught:
        load_text(text, "several.yaml")
    assert [(mistake.line, mistake.key) for mistake in caught.value.mistakes] == [
        (2, "name"),
        (3, "duration"),
        (5, "workload"),
    ]
