"""YAML of an untrusted file as plain values, with the line of every key.

Built on PyYAML's event stream, so that nothing is ever constructed: no tags, no anchors or aliases (which can
make a small file expand without bound), no duplicate keys, one document, bounded size, depth and count.
Plain scalars follow YAML 1.2: only ``true`` and ``false`` are booleans, so that ``off`` stays a word, and
``1:30`` is not a number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from chaos.errors import InputError, Mistake

SIZE_MAX = 256 * 1024
"""Bytes of a scenario file."""
DEPTH_MAX = 16
NODES_MAX = 20_000
NUMBER_LENGTH_MAX = 20
"""Characters of a number; what is longer stays text."""

Path_ = tuple[str | int, ...]
"""Where a value stands: keys and list positions from the top."""

_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class Document(msgspec.Struct, frozen=True):
    """A file's value and where its parts stand. ``lines``: path -> line, counted from 1."""

    file: str
    value: Any
    lines: dict[Path_, int]

    def as_written(self, path: Path_) -> Path_:
        """The path without ``nodes`` where a selector stands for the mapping {nodes: selector}."""
        found: Any = self.value
        for index, part in enumerate(path):
            if part == "nodes" and isinstance(found, str | list):
                return (*path[:index], *path[index + 1 :])
            if isinstance(found, dict):
                found = found.get(part)
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                break
        return path

    def line(self, path: Path_) -> int:
        """Line of the deepest part of ``path`` that is in the file."""
        for end in range(len(path), -1, -1):
            found = self.lines.get(path[:end])
            if found is not None:
                return found
        return 1


def read_document(path: Path) -> Document:
    """Read a file. Raises InputError: it cannot be read, is too large, is not UTF-8, is not the YAML we take."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(SIZE_MAX + 1)
    except OSError as error:
        raise InputError([Mistake(file, 0, "", f"cannot be read: {error.strerror}", "a scenario file")]) from error
    return parse_document(data, file)


def parse_document(data: bytes, file: str) -> Document:
    """Parse the bytes of a file; ``file`` is the name used in errors."""
    if len(data) > SIZE_MAX:
        raise InputError([Mistake(file, 0, "", "the file is too large", f"at most {SIZE_MAX // 1024} KiB")])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError([Mistake(file, line, "", "the file is not UTF-8 text", "UTF-8")]) from error
    builder = _Builder(file)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            builder.take(event)
    except yaml.YAMLError as error:
        raise InputError([_syntax(error, file)]) from error
    return Document(file, builder.value, builder.lines)


def parse_scalar(text: str) -> Any:
    """A plain scalar by YAML 1.2's core rules, as values of ``--set`` are read too."""
    if text in ("", "~", "null"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if len(text) > NUMBER_LENGTH_MAX:
        return text
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _syntax(error: yaml.YAMLError, file: str) -> Mistake:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        what = " ".join(part for part in (error.context, error.problem) if part)
        bracket = "quotes around what has brackets in it" if "but got '['" in what else ""
        return Mistake(file, error.problem_mark.line + 1, "", f"not valid YAML: {what}", bracket)
    if isinstance(error, yaml.reader.ReaderError):
        return Mistake(file, 0, "", "not valid YAML: it has a control character", "printable text")
    return Mistake(file, 0, "", f"not valid YAML: {error}")


def _line(event: yaml.Event) -> int:
    assert event.start_mark is not None, "events of a text have a place"
    return event.start_mark.line + 1


class _Open:
    """A mapping or list that is being read. ``key`` None: a mapping waits for its next key."""

    def __init__(self, path: Path_, container: dict[str, Any] | list[Any]) -> None:
        self.path, self.container = path, container
        self.key: str | None = None


class _Builder:
    """Turns events into values; its stack is its own, so depth costs no recursion."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.value: Any = None
        self.lines: dict[Path_, int] = {}
        self.stack: list[_Open] = []
        self.documents = 0
        self.nodes = 0

    def take(self, event: yaml.Event) -> None:
        """Take the next event of the stream."""
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self._wrong(event, "the file has a second document", "one document")
        elif isinstance(event, yaml.AliasEvent):
            raise self._wrong(event, f"the alias *{event.anchor} is not allowed", "the value written out")
        elif isinstance(event, yaml.NodeEvent):
            self._node(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self.stack.pop()

    def _node(self, event: yaml.NodeEvent) -> None:
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise self._wrong(event, "the file has too many values", f"at most {NODES_MAX}")
        if event.anchor is not None:
            raise self._wrong(event, f"the anchor &{event.anchor} is not allowed", "the value written out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise self._wrong(event, f"the tag {tag} is not allowed", "plain YAML without tags")
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.container, dict) and top.key is None:
            self._open_key(top, event)
            return
        path = self._place(top, event)
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = parse_scalar(event.value) if event.implicit[0] else event.value
        else:
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._put(top, value)
        if isinstance(value, (dict, list)):
            if len(self.stack) >= DEPTH_MAX:
                raise self._wrong(event, "the file is nested too deeply", f"at most {DEPTH_MAX} levels", path[:1])
            self.stack.append(_Open(path, value))

    def _open_key(self, top: _Open, event: yaml.NodeEvent) -> None:
        assert isinstance(top.container, dict)
        if not isinstance(event, yaml.ScalarEvent):
            raise self._wrong(event, "a key is a mapping or a list", "a word")
        if event.value in top.container:
            first = self.lines[(*top.path, event.value)]
            path = (*top.path, event.value)
            raise self._wrong(event, f"the key is given twice (first in line {first})", "each key once", path)
        top.key = event.value
        self.lines[(*top.path, event.value)] = _line(event)

    def _place(self, top: _Open | None, event: yaml.NodeEvent) -> Path_:
        if top is None:
            path: Path_ = ()
        elif isinstance(top.container, dict):
            assert top.key is not None
            return (*top.path, top.key)
        else:
            path = (*top.path, len(top.container))
        self.lines[path] = _line(event)
        return path

    def _put(self, top: _Open | None, value: Any) -> None:
        if top is None:
            self.value = value
        elif isinstance(top.container, dict):
            assert top.key is not None
            top.container[top.key] = value
            top.key = None
        else:
            top.container.append(value)

    def _wrong(self, event: yaml.Event, problem: str, expected: str, path: Path_ | None = None) -> InputError:
        where = path if path is not None else self._here()
        return InputError([Mistake(self.file, _line(event), dotted(where), problem, expected)])

    def _here(self) -> Path_:
        if not self.stack:
            return ()
        top = self.stack[-1]
        if isinstance(top.container, dict):
            return top.path if top.key is None else (*top.path, top.key)
        return (*top.path, len(top.container))


def dotted(path: Path_) -> str:
    """A path as a reader would write it: ``chaos[1].fault.crash``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text
