"""YAML as the scenario language takes it."""

from __future__ import annotations

import pytest

from chaos.errors import InputError
from chaos.scenario.yaml_tree import dotted, parse_document


def test_scalars_follow_yaml_1_2() -> None:
    """Shows that off, yes and 1:30 stay words, and that numbers, true, false and null are what they look like."""
    text = b"a: off\nb: yes\nc: 1:30\nd: 0x10\ne: 10\nf: -1.5e3\ng: true\nh: null\ni: '10'\nj: 2026-01-01\nk: ~\n"
    assert parse_document(text, "f").value == {
        "a": "off",
        "b": "yes",
        "c": "1:30",
        "d": "0x10",
        "e": 10,
        "f": -1500.0,
        "g": True,
        "h": None,
        "i": "10",
        "j": "2026-01-01",
        "k": None,
    }


def test_lines_of_keys_and_items() -> None:
    """Shows where each part of a file stands, and that a missing part has the line of its parent."""
    document = parse_document(b"a:\n  b: 1\n  c:\n    - x\n    - {d: 2,\n       e: 3}\n", "f")
    assert document.value == {"a": {"b": 1, "c": ["x", {"d": 2, "e": 3}]}}
    assert document.line(("a", "b")) == 2
    assert document.line(("a", "c", 1)) == 5
    assert document.line(("a", "c", 1, "e")) == 6
    assert document.line(("a", "missing", "deeper")) == 1
    assert dotted(("a", "c", 1, "e")) == "a.c[1].e"


def test_a_merge_key_is_a_key_like_any_other() -> None:
    """Shows that << merges nothing."""
    assert parse_document(b"<<: {a: 1}\n", "f").value == {"<<": {"a": 1}}


@pytest.mark.parametrize("text", [b"[1]: 2\n", b"{a: 1}: 2\n", b"? [a]\n: b\n"])
def test_keys_are_words(text: bytes) -> None:
    """Shows that a list or a mapping as a key is refused."""
    with pytest.raises(InputError, match="a key is a mapping or a list"):
        parse_document(text, "f")


def test_a_number_of_absurd_length_stays_text() -> None:
    """Shows that no file makes Python convert a number of a million digits."""
    assert parse_document(b"a: " + b"9" * 100_000, "f").value == {"a": "9" * 100_000}
