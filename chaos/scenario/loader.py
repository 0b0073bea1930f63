"""A scenario file, read and checked: every mistake named with its line, before anything starts."""

from __future__ import annotations

import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, ValidationError

from chaos.errors import InputError, Mistake, nearest
from chaos.scenario.checks import check_references
from chaos.scenario.durations import Malformed
from chaos.scenario.model import SCHEMA, Scenario
from chaos.scenario.sound_part import mistakes_besides, sound_part
from chaos.scenario.yaml_tree import Document, Path_, dotted, parse_document, read_document

ModelT = TypeVar("ModelT", bound=BaseModel)


class Loaded(msgspec.Struct, frozen=True):
    """A scenario that passed every check, and the file it came from."""

    scenario: Scenario
    document: Document


def load_file(path: Path) -> Loaded:
    """Read a scenario file. Raises InputError with every mistake that could be found."""
    return load_document(read_document(path))


def load_text(text: str | bytes, file: str = "<scenario>") -> Loaded:
    """The same for a text; ``file`` is the name used in errors."""
    return load_document(parse_document(text.encode() if isinstance(text, str) else text, file))


def load_value(value: Any, file: str = "<scenario>") -> Loaded:
    """The same for the content of a file as plain values, such as a resolved document; mistakes have no line of their
    own."""
    return load_document(Document(file, value, {}))


def load_document(document: Document) -> Loaded:
    """The same for a file that was parsed."""
    if not isinstance(document.value, dict):
        what = "the file is empty" if document.value is None else "the file is not a mapping"
        raise InputError([Mistake(document.file, document.line(()), "", what, f"a scenario, schema: {SCHEMA} first")])
    scenario, mistakes = read_scenario(document)
    if scenario is None or mistakes:
        raise InputError(mistakes)
    return Loaded(scenario, document)


def read_scenario(document: Document) -> tuple[Scenario | None, list[Mistake]]:
    """The scenario that a mapping is, None if it is malformed; and what is wrong in it, in the order of the file."""
    scenario: Scenario | None = None
    try:
        scenario = Scenario.model_validate(document.value)
    except ValidationError as error:
        mistakes = mistakes_of(error, Scenario, document)
        told = {(mistake.line, mistake.key) for mistake in mistakes}
        besides = mistakes_besides(document, _places(error, document))
        mistakes += [mistake for mistake in besides if (mistake.line, mistake.key) not in told]
    else:
        mistakes = check_references(scenario, document)
    return scenario, sorted(mistakes, key=lambda mistake: mistake.line)


def load_sound_part(document: Document) -> Loaded | None:
    """What is well-formed of a scenario file with mistakes, so that a command's options can be held against it; None
    where that cannot be said."""
    if not isinstance(document.value, dict):
        return None
    try:
        return Loaded(Scenario.model_validate(document.value), document)
    except ValidationError as error:
        part = sound_part(document, _places(error, document))
        return None if part is None else Loaded(*part)


def validate(model: type[ModelT], document: Document) -> ModelT:
    """The document as ``model``. Raises InputError with every mistake."""
    try:
        return model.model_validate(document.value)
    except ValidationError as error:
        raise InputError(mistakes_of(error, model, document)) from error


def mistakes_of(error: ValidationError, model: type[BaseModel], document: Document) -> list[Mistake]:
    """pydantic's findings in the words and places of the file, each place once."""
    found: dict[Path_, Mistake] = {}
    for detail in error.errors(include_url=False):
        path = _place(detail["loc"], document)
        mistake = _mistake(dict(detail), path, model, document)
        found.setdefault(path, mistake)
    misspelt = {mistake.suggestion for mistake in found.values() if mistake.suggestion}
    kept = [m for path, m in found.items() if not (m.problem == MISSING and path[-1] in misspelt)]
    return sorted(kept, key=lambda mistake: mistake.line)


def _places(error: ValidationError, document: Document) -> list[Path_]:
    return [_place(detail["loc"], document) for detail in error.errors()]


def _place(loc: Path_, document: Document) -> Path_:
    """Where in the file a finding of pydantic's is."""
    return document.as_written(tuple(part for part in loc if part != "[key]"))


MISSING = "the key is missing"
_WRONG_TYPE = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def _mistake(detail: Mapping[str, Any], path: Path_, model: type[BaseModel], document: Document) -> Mistake:
    kind, context = detail["type"], detail.get("ctx", {})
    problem, expected, suggestion = detail["msg"], "", ""
    if kind == "extra_forbidden":
        known = keys_at(model, path[:-1])
        problem, expected = "unknown key", "one of " + ", ".join(known) if known else ""
        suggestion = nearest(str(path[-1]), known)
    elif kind == "missing":
        problem, expected = MISSING, _about(model, path)
    elif kind == "value_error" and isinstance(context.get("error"), Malformed):
        problem, expected = context["error"].problem, context["error"].expected
    elif kind in _WRONG_TYPE:
        problem, expected = f"{_shown(detail['input'])} is of the wrong type", _WRONG_TYPE[kind]
    elif kind == "literal_error":
        problem, expected = f"{_shown(detail['input'])} is not one of its values", context["expected"]
    elif kind == "string_pattern_mismatch":
        problem, expected = f"{_shown(detail['input'])} is not a legal name", _legal_name(path)
    elif kind in ("greater_than_equal", "less_than_equal"):
        bound = "at least" if kind == "greater_than_equal" else "at most"
        problem, expected = f"{detail['input']} is out of range", f"{bound} {context.get('ge', context.get('le'))}"
    elif kind in ("too_short", "too_long", "string_too_long"):
        problem = "there is too little of it" if kind == "too_short" else "there is too much of it"
        expected = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in context.items() if "length" in name)
    return Mistake(document.file, document.line(path), dotted(path), problem, expected, suggestion)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "nothing" if value is None else repr(value)


def _legal_name(path: Path_) -> str:
    if "topics" in path or (path and path[-1] == "topic"):
        return "letters, digits, dots, dashes and underscores, and no path"
    return "lower-case letters, digits and dashes, at most 63, and no path"


def _about(model: type[BaseModel], path: Path_) -> str:
    if path == ("schema",):
        return f"schema: {SCHEMA}"
    parent = _type_at(model, path[:-1])
    if isinstance(parent, type) and issubclass(parent, BaseModel):
        for field in parent.model_fields.values():
            if field.alias == path[-1] and field.description:
                return field.description[0].lower() + field.description[1:].rstrip(".")
    return ""


def keys_at(model: type[BaseModel], path: Path_) -> list[str]:
    """The keys that a mapping at ``path`` may have; [] where any may stand."""
    found = _type_at(model, path)
    if isinstance(found, type) and issubclass(found, BaseModel):
        return [field.alias or name for name, field in found.model_fields.items()]
    return []


def _type_at(model: type[BaseModel], path: Path_) -> Any:
    current: Any = model
    for part in path:
        current = _inside(_bare(current), part)
    return _bare(current)


def _inside(kind: Any, part: str | int) -> Any:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for field in kind.model_fields.values():
            if field.alias == part:
                return field.annotation
        return None
    arguments = get_args(kind)
    return arguments[-1] if arguments else None


def _bare(kind: Any) -> Any:
    """``kind`` without Annotated and Optional."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif get_origin(kind) in (Union, types.UnionType):
            kind = next((argument for argument in get_args(kind) if argument is not type(None)), None)
        else:
            return kind
