"""What protoc has read of proto/krift/v1/*.proto, as far as generate_messages.py makes something of it.

What ``options.proto`` says of a field, a message or a method is taken from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

SOURCE_PREFIX = "krift/v1/"
HEADER = "header"
"""Every request has it: in a Struct it is never None."""
VERSION_MAX = 32767
SERVERS = ("controller", "broker", "pushed-broker", "remote-store")
SCALARS = {
    FieldDescriptorProto.TYPE_INT32: ("int", "0"),
    FieldDescriptorProto.TYPE_INT64: ("int", "0"),
    FieldDescriptorProto.TYPE_BOOL: ("bool", "False"),
    FieldDescriptorProto.TYPE_STRING: ("str", '""'),
    FieldDescriptorProto.TYPE_BYTES: ("bytes", 'b""'),
}
"""Type in a source -> type and zero in Python."""


class SourceError(Exception):
    """A source asks for what nobody generates."""


@dataclass
class Field:
    """A field of a Struct. kind: the message it holds, None for a scalar. versions: in which it is legal."""

    name: str
    number: int
    type: str
    zero: str
    kind: Kind | None
    many: bool
    nullable: bool
    versions: tuple[int, int]
    has_default: bool
    comment: str

    @property
    def annotation(self) -> str:
        """Its type in Python."""
        if self.many:
            return f"list[{self.type}]"
        return f"{self.type} | None" if self.nullable else self.type

    @property
    def default(self) -> str:
        """What it has if nobody says anything."""
        if self.many:
            return "[]"
        if self.nullable:
            return "None"
        return f"msgspec.field(default_factory={self.type})" if self.kind is not None else self.zero

    def differs(self, value: str) -> str:
        """The condition that ``value`` is not the default."""
        if self.many:
            return value
        if self.nullable:
            return f"{value} is not None"
        if self.type == "bool":
            return f"not {value}" if self.zero == "True" else value
        return value if self.zero in ("0", '""', 'b""') else f"{value} != {self.zero}"

    @property
    def is_error_code(self) -> bool:
        """Kafka calls it ErrorCode, with a word in front of that if need be."""
        return self.type == "int" and (self.name == "error_code" or self.name.endswith("_error_code"))


@dataclass
class Kind:
    """A message. module: of its source. path: its name and those around it, with dots. tag: where it is a request or a
    response, the number that stands for it in journals."""

    module: str
    path: str
    comment: str
    frozen: bool
    whole: bool
    tag: int | None = None
    fields: list[Field] = field(default_factory=list)
    nested: list[Kind] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its own name."""
        return self.path.rpartition(".")[2]

    @property
    def word(self) -> str:
        """A name for functions about it."""
        return f"{self.module}_{self.path.replace('.', '_')}"

    @property
    def root(self) -> str:
        """The outermost message that it lies in."""
        return self.path.partition(".")[0]

    def has_versions(self) -> bool:
        """Whether some version lacks a field of it, or of what it holds."""
        return any(
            each.versions != (0, VERSION_MAX) or (each.kind is not None and each.kind.has_versions())
            for each in self.fields
        )

    def has_errors(self) -> bool:
        """Whether it, or what it holds, has error codes."""
        return any(each.is_error_code or (each.kind is not None and each.kind.has_errors()) for each in self.fields)


@dataclass
class ApiMethod:
    """A method of the service."""

    name: str
    request: Kind
    response: Kind
    options: Any

    @property
    def versions(self) -> tuple[int, int]:
        """Lowest and highest."""
        return _range(self.options.versions)


class Sources:
    """All messages of the package, by their full names, and the methods of its service."""

    def __init__(self, files: list[FileDescriptorProto], options: Any) -> None:
        self._options = options
        self._found: dict[str, Kind] = {}
        self._left_out: set[str] = set()
        self._read: list[tuple[Kind, DescriptorProto, dict[tuple[int, ...], str], tuple[int, ...]]] = []
        self.modules: dict[str, list[Kind]] = {}
        self.methods: list[ApiMethod] = []
        for file in files:
            module = Path(file.name).stem
            comments = {tuple(each.path): each.leading_comments for each in file.source_code_info.location}
            kinds = [
                self._declare(module, message, "", comments, (4, number))
                for number, message in enumerate(file.message_type)
            ]
            self.modules[module] = [kind for kind in kinds if kind is not None]
        for kind, message, comments, path in self._read:
            kind.fields = sorted(self._fields(message, comments, path), key=lambda each: each.number)
        for file in files:
            for service in file.service:
                self.methods += self._methods(service)
        self.methods.sort(key=lambda each: int(each.options.key))

    def _declare(
        self,
        module: str,
        message: DescriptorProto,
        around: str,
        comments: dict[tuple[int, ...], str],
        path: tuple[int, ...],
    ) -> Kind | None:
        said = message.options.Extensions
        name = f"{around}.{message.name}" if around else message.name
        full = f".{SOURCE_PREFIX.replace('/', '.')}{name}"
        if said[self._options.runtime_message]:
            self._left_out.add(full)
            return None
        whole, frozen = said[self._options.whole], said[self._options.frozen]
        kind = Kind(module, name, _words(comments.get(path, "")), frozen, whole)
        self._found[full] = kind
        for number, inner in enumerate(message.nested_type):
            nested = self._declare(module, inner, name, comments, (*path, 3, number))
            if nested is not None:
                kind.nested.append(nested)
        self._read.append((kind, message, comments, path))
        return kind

    def _fields(
        self, message: DescriptorProto, comments: dict[tuple[int, ...], str], path: tuple[int, ...]
    ) -> Iterator[Field]:
        for number, each in enumerate(message.field):
            said = each.options.Extensions
            if said[self._options.runtime] or each.type_name in self._left_out:
                continue
            many = each.label == FieldDescriptorProto.LABEL_REPEATED
            kind: Kind | None = None
            nullable = bool(said[self._options.nullable])
            if each.type == FieldDescriptorProto.TYPE_MESSAGE:
                kind = self._found[each.type_name]
                name, zero = kind.path, "None"
                nullable = each.name != HEADER and not many
            elif each.type in SCALARS:
                name, zero = SCALARS[each.type]
                zero = _default(each) if each.HasField("default_value") else zero
            else:
                raise SourceError(f"{message.name}.{each.name} is of a type that nobody generates")
            versions = _range(said[self._options.versions])
            comment = _words(comments.get((*path, 2, number), ""))
            has_default = each.HasField("default_value")
            yield Field(each.name, each.number, name, zero, kind, many, nullable, versions, has_default, comment)

    def _methods(self, service: ServiceDescriptorProto) -> Iterator[ApiMethod]:
        for method in service.method:
            options = method.options.Extensions[self._options.api]
            unknown = [server for server in options.servers if server not in SERVERS]
            if not options.versions or not options.servers or unknown:
                raise SourceError(f"{method.name} must say its versions and its servers, of {', '.join(SERVERS)}")
            request, response = self._found[method.input_type], self._found[method.output_type]
            request.tag, response.tag = options.key, -2 - options.key
            yield ApiMethod(method.name, request, response, options)

    def all(self) -> Iterator[Kind]:
        """Every message, what lies in others before these."""
        for kinds in self.modules.values():
            for kind in kinds:
                yield from with_nested(kind)


def with_nested(kind: Kind) -> Iterator[Kind]:
    """A message and what lies in it, that before the message."""
    for nested in kind.nested:
        yield from with_nested(nested)
    yield kind


def _range(text: str) -> tuple[int, int]:
    """ "4+", "0-12", "3"; nothing: every version."""
    if not text:
        return (0, VERSION_MAX)
    low, plus, high = text.partition("+")
    if plus:
        return (int(low), VERSION_MAX)
    low, dash, high = text.partition("-")
    return (int(low), int(high) if dash else int(low))


def _default(field_: FieldDescriptorProto) -> str:
    if field_.type == FieldDescriptorProto.TYPE_BOOL:
        return field_.default_value.capitalize()
    if field_.type in (FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_INT64):
        return field_.default_value
    raise SourceError(f"{field_.name}: only numbers and truth values have defaults")


def _words(comment: str) -> str:
    return " ".join(comment.split())
