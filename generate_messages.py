"""Writes krift/v1/*.py, which nodes use in place of protobuf, from what protoc has read of proto/krift/v1/*.proto.

For each source a module of ``msgspec.Struct``s with the same names, fields and defaults; beside them

* ``wire``: Structs to protobuf and back, for what travels or lies on a disk,
* ``checks``: which fields a version of an API does not have, and the error codes in a response,
* ``apis``: the registry of APIs, from the options of the service's methods.

hatch_build.py runs this as ``generate_messages.py DESCRIPTORS PACKAGE``; what protoc made of the sources is in the
package already.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from proto_sources import SOURCE_PREFIX, VERSION_MAX, Field, Kind, SourceError, Sources, with_nested

OPTIONS = "options"
SETTINGS = "array_like=True, gc=False, repr_omit_defaults=True"
"""Of all Structs. Arrays are short in journals; messages contain no cycles, so that the collector need not look."""
GENERATED = "Generated from proto/ by generate_messages.py; not to be edited, and never committed."

# ---- the Structs -------------------------------------------------------------------------------------------

MESSAGE = f'''"""What all messages are. {GENERATED}"""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, {SETTINGS}):
    """Base of messages and of their parts. Whoever has sent or received one changes nothing in it any more."""
'''


def structs(module: str, kinds: list[Kind]) -> str:
    """A module of Structs."""
    used = [each.kind for kind in kinds for inner in with_nested(kind) for each in inner.fields if each.kind]
    imports = sorted({(kind.module, kind.root) for kind in used if kind.module != module})
    lines = [f'"""The messages of {module}.proto. {GENERATED}"""', "", "from __future__ import annotations", ""]
    if any(kind.frozen or "msgspec.field" in each.default for kind in kinds for each in kind.fields):
        lines += ["import msgspec", ""]
    for source, name in imports:
        lines.append(f"from krift.v1.{source} import {name} as {name}")
    lines.append("from krift.v1.message import Message")
    for kind in kinds:
        lines += ["", "", *_struct(kind, "")]
    return "\n".join(lines) + "\n"


def _base(kind: Kind) -> str:
    """A frozen Struct has no base that is not."""
    return f"msgspec.Struct, frozen=True, {SETTINGS}" if kind.frozen else "Message"


def _struct(kind: Kind, indent: str) -> list[str]:
    tag = "" if kind.tag is None else f", tag={kind.tag}"
    lines = [f"{indent}class {kind.name}({_base(kind)}{tag}):"]
    inner = indent + "    "
    lines.append(f'{inner}"""{kind.comment or f"See {kind.module}.proto."}"""')
    for nested in kind.nested:
        lines += ["", *_struct(nested, inner)]
    lines.append("")
    for each in kind.fields:
        if each.comment:
            lines.append(f"{inner}# {each.comment}")
        lines.append(f"{inner}{each.name}: {each.annotation} = {each.default}")
    return lines


# ---- to protobuf and back ----------------------------------------------------------------------------------

WIRE = f'''"""Structs to protobuf and back. {GENERATED}"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from google.protobuf.message import DecodeError as DecodeError, Message as ProtobufMessage

from krift.v1.message import Message
'''

WIRE_END = '''

M = TypeVar("M", bound=Message)


def to_protobuf(message: Message) -> Any:
    """The protobuf message that says the same. Of a runtime's fields it has none."""
    kind, fill = _WRITERS[type(message)]
    made = kind()
    fill(message, made)
    return made


def from_protobuf(message: ProtobufMessage) -> Any:
    """The Struct that says the same, a runtime's fields apart."""
    return _READERS[type(message)](message)


def to_bytes(message: Message) -> bytes:
    """The message as protobuf writes it."""
    data: bytes = to_protobuf(message).SerializeToString(deterministic=True)
    return data


def from_bytes(kind: type[M], data: bytes) -> M:
    """What ``to_bytes`` wrote. Raises google.protobuf.message.DecodeError for other bytes."""
    found: M = _READERS[PROTOBUF[kind]](PROTOBUF[kind].FromString(data))
    return found
'''


def wire(sources: Sources) -> str:
    """The module that converts."""
    modules = sorted(name for name, kinds in sources.modules.items() if kinds)
    lines = [WIRE.rstrip()]
    lines += [f"from krift.v1 import {module} as {module}, {module}_pb2 as {module}_pb2" for module in modules]
    for kind in sources.all():
        lines += ["", "", *_writer(kind), "", "", *_reader(kind)]
    outer = [kind for module in modules for kind in sources.modules[module]]
    lines += ["", "", "_WRITERS: dict[type[msgspec.Struct], tuple[Callable[[], Any], Callable[[Any, Any], None]]] = {"]
    lines += [f"    {_python(kind)}: ({_protobuf(kind)}, _write_{kind.word})," for kind in outer]
    lines += ["}", "_READERS: dict[type[ProtobufMessage], Callable[[Any], Any]] = {"]
    lines += [f"    {_protobuf(kind)}: _read_{kind.word}," for kind in outer]
    lines += ["}", "PROTOBUF: dict[type[msgspec.Struct], type[ProtobufMessage]] = {"]
    lines += [f"    {_python(kind)}: {_protobuf(kind)}," for kind in outer]
    lines += ["}", '"""Class of a message -> that of protobuf."""']
    return "\n".join(lines) + WIRE_END


def _python(kind: Kind) -> str:
    return f"{kind.module}.{kind.path}"


def _protobuf(kind: Kind) -> str:
    return f"{kind.module}_pb2.{kind.path}"


def _writer(kind: Kind) -> list[str]:
    lines = [f"def _write_{kind.word}(m: {_python(kind)}, p: {_protobuf(kind)}) -> None:"]
    for each in kind.fields:
        value, target = f"m.{each.name}", f"p.{each.name}"
        if each.kind is not None and each.many:
            lines += [
                f"    for each_{each.name} in {value}:",
                f"        _write_{each.kind.word}(each_{each.name}, {target}.add())",
            ]
        elif each.kind is not None:
            indent = "        " if each.nullable else "    "
            lines += [f"    if {value} is not None:"] if each.nullable else []
            lines += [f"{indent}{target}.SetInParent()", f"{indent}_write_{each.kind.word}({value}, {target})"]
        elif each.many:
            lines += [f"    if {value}:", f"        {target}.extend({value})"]
        elif kind.whole and not each.nullable and not each.has_default:
            lines.append(f"    {target} = {value}")
        else:
            lines += [f"    if {each.differs(value)}:", f"        {target} = {value}"]
    return lines if len(lines) > 1 else [*lines, "    pass"]


def _reader(kind: Kind) -> list[str]:
    lines = [f"def _read_{kind.word}(p: {_protobuf(kind)}) -> {_python(kind)}:", f"    return {_python(kind)}("]
    for each in kind.fields:
        value = f"p.{each.name}"
        if each.kind is not None and each.many:
            value = f"[_read_{each.kind.word}(each) for each in {value}]"
        elif each.kind is not None:
            value = f"_read_{each.kind.word}({value})"
        elif each.many:
            value = f"list({value})"
        if each.nullable:
            value += f' if p.HasField("{each.name}") else None'
        lines.append(f"        {value},")
    return [*lines, "    )"]


# ---- versions and error codes ------------------------------------------------------------------------------

CHECKS = f'''"""What can be said of a message without knowing what it is about. {GENERATED}"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from krift.v1.message import Message
'''

CHECKS_TABLES = '''

class VersionError(AssertionError):
    """A node wrote a field that the version of the message does not have: a bug of the node."""


def _illegal(field: str, version: int) -> None:
    raise VersionError(f"{field} does not exist in version {version}")
'''

CHECKS_END = '''

def check_fields(message: Message, version: int) -> None:
    """Raise VersionError if ``message`` sets a field that ``version`` of its API does not have to another value than
    its default."""
    check = _CHECKS.get(message.__class__)
    if check is not None:
        check(message, version)


def response_errors(response: Message) -> list[int]:
    """All error codes other than NONE in a response, outermost first, in wire order."""
    errors: list[int] = []
    _ERRORS[response.__class__](response, errors)
    return errors
'''


def checks(sources: Sources) -> str:
    """The module that looks at versions and at error codes."""
    checked = [kind for kind in sources.all() if kind.has_versions()]
    responses = [method.response for method in sources.methods]
    lines = [CHECKS.rstrip()]
    modules = {kind.module for kind in checked} | {kind.module for kind in responses}
    lines += [f"from krift.v1 import {module} as {module}" for module in sorted(modules)]
    lines.append(CHECKS_TABLES.rstrip())
    for kind in checked:
        lines += ["", "", *_check(kind)]
    for kind in responses:
        body = _errors(kind, "m", 1)
        if not body:
            raise SourceError(f"{kind.path} has no error code: every response can tell of an error")
        lines += ["", "", f"def _errors_{kind.word}(m: {_python(kind)}, errors: list[int]) -> None:", *body]
    lines += ["", "", "_CHECKS: dict[type[msgspec.Struct], Callable[[Any, int], None]] = {"]
    lines += [f"    {_python(kind)}: _check_{kind.word}," for kind in checked]
    lines += ["}", "_ERRORS: dict[type[msgspec.Struct], Callable[[Any, list[int]], None]] = {"]
    lines += [f"    {_python(kind)}: _errors_{kind.word}," for kind in responses]
    return "\n".join([*lines, "}"]) + "\n" + CHECKS_END


def _check(kind: Kind) -> list[str]:
    lines = [f"def _check_{kind.word}(m: {_python(kind)}, version: int) -> None:"]
    by_range: dict[tuple[int, int], list[Field]] = {}
    for each in kind.fields:
        by_range.setdefault(each.versions, []).append(each)
    for (low, high), fields in by_range.items():
        if (low, high) == (0, VERSION_MAX):
            continue
        below, above = f"version < {low}", f"version > {high}"
        outside = above if low == 0 else below if high == VERSION_MAX else f"not {low} <= version <= {high}"
        outside = f"version != {low}" if low == high else outside
        lines.append(f"    if {outside}:")
        for each in fields:
            lines += [
                f"        if {each.differs(f'm.{each.name}')}:",
                f'            _illegal("{kind.name}.{each.name}", version)',
            ]
    for each in kind.fields:
        if each.kind is None or not each.kind.has_versions():
            continue
        if each.many:
            lines += [
                f"    for each_{each.name} in m.{each.name}:",
                f"        _check_{each.kind.word}(each_{each.name}, version)",
            ]
        else:
            lines += [f"    if m.{each.name} is not None:", f"        _check_{each.kind.word}(m.{each.name}, version)"]
    return lines


def _errors(kind: Kind, value: str, depth: int) -> list[str]:
    """Statements that collect the error codes of ``value``. No message of ours contains itself."""
    indent = "    " * depth
    lines: list[str] = []
    for each in kind.fields:
        inner = f"{value}.{each.name}"
        if each.is_error_code:
            lines += [f"{indent}if {inner}:", f"{indent}    errors.append({inner})"]
        elif each.kind is not None and each.kind.has_errors():
            item = f"{each.name}_{depth}"
            lines += [
                f"{indent}for {item} in {inner}:" if each.many else f"{indent}if ({item} := {inner}) is not None:"
            ]
            lines += _errors(each.kind, item, depth + 1)
    return lines


# ---- the registry ------------------------------------------------------------------------------------------

APIS = f'''"""The registry of APIs: what the options of the service's methods say. {GENERATED}"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import msgspec

from krift.v1.message import Message
'''

APIS_CLASS = '''

class ApiSpec(msgspec.Struct, frozen=True):
    """What is known of an API. versions: lowest and highest that Krift speaks. servers: who serves it. errors: names of
    those it may be answered with."""

    api: Api
    request: type[Message]
    response: type[Message]
    versions: tuple[int, int]
    servers: tuple[str, ...]
    errors: tuple[str, ...]
'''


def apis(sources: Sources) -> str:
    """The module with the registry."""
    methods = sources.methods
    modules = sorted({kind.module for method in methods for kind in (method.request, method.response)})
    lines = [APIS.rstrip(), *(f"from krift.v1 import {module} as {module}" for module in modules)]
    lines += ["", "", "class Api(IntEnum):", '    """Kafka\'s API keys. The name is the gRPC method\'s name."""', ""]
    lines += [f"    {method.name} = {method.options.key}" for method in methods]
    lines.append(APIS_CLASS.rstrip())
    lines += ["", "", "APIS: dict[Api, ApiSpec] = {"]
    for method in methods:
        kinds = f"{_python(method.request)}, {_python(method.response)}"
        servers, errors = tuple(method.options.servers), tuple(method.options.errors)
        spec = f"Api.{method.name}, {kinds}, {method.versions}, {servers}, {errors}"
        lines.append(f"    Api.{method.name}: ApiSpec({spec}),")
    lines += ["}", '"""Every API."""', ""]
    unions = {"AnyRequest": [each.request for each in methods], "AnyResponse": [each.response for each in methods]}
    for name, union in unions.items():
        lines.append(f"{name}: TypeAlias = (")
        lines += [f"    {'| ' if number else ''}{_python(kind)}" for number, kind in enumerate(union)]
        lines.append(")")
    return "\n".join([*lines, "AnyMessage: TypeAlias = AnyRequest | AnyResponse"]) + "\n"


def main(descriptors: str, package: str) -> None:
    """Write the modules of ``descriptors`` into the folder ``package``."""
    # The extensions must be known before anything that uses them is parsed; they are in the package itself.
    sys.path.insert(0, str(Path(package).parents[1]))
    options_pb2 = import_module("krift.v1.options_pb2")
    found = FileDescriptorSet.FromString(Path(descriptors).read_bytes())
    files = [file for file in found.file if file.name.startswith(SOURCE_PREFIX) and Path(file.name).stem != OPTIONS]
    sources = Sources(files, options_pb2)
    written = {"message": MESSAGE, "wire": wire(sources), "checks": checks(sources), "apis": apis(sources)}
    for module, kinds in sources.modules.items():
        if kinds:
            assert module not in written, f"{module}.proto has the name of a module that is generated"
            written[module] = structs(module, kinds)
    for module, text in written.items():
        (Path(package) / f"{module}.py").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
