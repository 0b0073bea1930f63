"""Faults: one class for each kind, with everything that Krift knows about the kind.

A kind is the model of the value after its name in a scenario file. The loader, the plan, the injector, the nemeses,
the shrinker, the mutator, the invariants and the documents use only the class; none of them refers to a kind by name.
An operator's actions are kinds, too. ``chaos.faults.kinds`` lists all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import msgspec
from pydantic import GetJsonSchemaHandler, PlainSerializer, model_validator
from pydantic_core import CoreSchema

from actors.config import CONFIG
from actors.control import AnyAction
from actors.node.spec import NodeSpec
from chaos.scenario.scalars import AS_CHANCE, AS_DURATION, AS_PARTITIONS, AS_SELECTORS
from chaos.scenario.selectors import Selector
from chaos.scenario.strict import Model
from chaos.scenario.yaml_tree import Path_
from chaos.view import ClusterView

if TYPE_CHECKING:
    from chaos.nemesis.scene import Scene
    from chaos.scenario.references import References

Drawing = Callable[[str, Sequence[Selector]], list[Selector]]
"""The place of selectors within the fault, and the selectors -> the same with names for ``any``."""

Whom = Literal["all", "servers", "brokers"]
"""The possible targets of a fault; servers have a disk."""


class Told(msgspec.Struct, frozen=True):
    """A row of ``docs/faults.md``: the syntax, the meaning, the implementation in both runtimes, and the evidence of
    its effect."""

    written: str
    means: str
    in_sim: str
    live: str
    seen_by: str


class Bounce(msgspec.Struct, frozen=True):
    """A bounce of nodes: their new settings, and the time that one may take to stop, or to come back."""

    timeout_us: int
    features: dict[str, str] = {}
    versions: dict[str, list[int]] = {}
    config: dict[str, Any] = {}

    def after(self, spec: NodeSpec) -> NodeSpec:
        """A node with its new settings; only configuration keys that its role reads."""
        config = {key: value for key, value in self.config.items() if spec.role in CONFIG[key].scopes}
        return msgspec.structs.replace(
            spec,
            features={**spec.features, **self.features},
            versions={**spec.versions, **self.versions},
            config={**spec.config, **config},
        )


class Aimed(msgspec.Struct, frozen=True):
    """A fault with resolved targets, compiled to the requests for a runtime.

    targets: all affected nodes. parameters: for the trace. begin, end: actions, in order. Its effect is seen
    when every rule in ``rules`` was installed (a clock's is ``fault/node``), every node in ``stopped`` went down, and
    every operation in ``operations`` (id -> its node) has returned; a fault without another end is over
    then. silent: nodes that are silent while it is in force, if that is its only effect; [] for any other fault.
    held: nodes whose processes are stopped meanwhile. points: where nodes go down (id of the point -> node): such a
    node is restarted at the end, which is counted from the first one on, and the effect is seen then. leave: the nodes
    are only asked to stop, so that one may still be stopping at the end. bounce: the
    nodes in ``targets`` are stopped and started one after the other.
    """

    kind: str
    targets: list[str]
    parameters: dict[str, Any]
    begin: list[AnyAction]
    end: list[AnyAction]
    rules: list[str] = []
    stopped: list[str] = []
    silent: list[str] = []
    held: list[str] = []
    points: dict[str, str] = {}
    operations: dict[str, str] = {}
    leave: bool = False
    bounce: Bounce | None = None


class Fault(Model):
    """Base of all kinds. The fields of a kind are its keys in a scenario, in the order in which they are written.

    kind: its name. section: its key in a chaos entry. lasts: it has an end of its own; otherwise it ends when it is
    done. short: the field for a selector, or a list of them, without a mapping. hits: the targets at which a mutation
    may aim it. plainness: of two kinds, shrinking keeps the plainer one (a lower number). spare: fields that
    shrinking may leave out, in the order in which it tries. told: its rows of ``docs/faults.md``.
    """

    kind: ClassVar[str] = ""
    section: ClassVar[Literal["fault", "action"]] = "fault"
    lasts: ClassVar[bool] = True
    short: ClassVar[str] = ""
    hits: ClassVar[Whom] = "all"
    plainness: ClassVar[int] = 10
    spare: ClassVar[tuple[str, ...]] = ()
    told: ClassVar[tuple[Told, ...]] = ()

    # ---- as it is written ---------------------------------------------------------------------------------

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """A selector, or a list of them, stands for {short: ...}."""
        return {cls.short: value} if cls.short and isinstance(value, str | list) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core_schema))
        if not cls.short:
            return schema
        whole = dict(schema)
        schema.clear()
        schema["anyOf"] = [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}, whole]
        return schema

    def check(self, place: Path_, references: References) -> None:
        """Add the mistakes between this and the rest of the scenario. ``place``: its place in the file."""
        for key in self.selectors():
            references.selectors((*place, key), self._at(key))

    def resolved(self, drawing: Drawing) -> Self:
        """The same with all draws resolved, in canonical form."""
        given = {key: self._at(key) for key in self.selectors()}
        places = {key: self.kind if key == self.short else f"{self.kind}.{key}" for key in given}
        drawn = {self._names()[key]: drawing(places[key], value) for key, value in given.items() if value is not None}
        return self.model_copy(update=drawn)

    def written(self) -> Any:
        """As a scenario file has it; reading and resolving that gives the same fault."""
        body = self.model_dump(by_alias=True, exclude_none=True)
        return body[self.short] if set(body) == {self.short} else body

    @classmethod
    def lean(cls, body: Any) -> Any:
        """A value as it is written, without what has its default value."""
        if not isinstance(body, Mapping):
            return body
        kept = {key: value for key, value in body.items() if _defaults(cls).get(key) != value}
        return kept[cls.short] if set(kept) == {cls.short} else kept

    @classmethod
    def alone(cls, body: Any) -> Any:
        """A value as it is written, where a selector that stands alone is no list, as people write it."""
        if not isinstance(body, Mapping):
            return _alone(body)
        lists = {*cls.selectors(), *_written_as(cls, AS_PARTITIONS)}
        return {key: _alone(value) if key in lists else value for key, value in body.items()}

    # ---- what its fields are ------------------------------------------------------------------------------

    @classmethod
    def selectors(cls) -> tuple[str, ...]:
        """The keys of its selectors."""
        return _written_as(cls, AS_SELECTORS)

    def aimed_at(self) -> list[Selector]:
        """All its selectors, in the order of their keys."""
        return [selector for key in self.selectors() for selector in self._at(key) or ()]

    @classmethod
    def durations(cls) -> tuple[str, ...]:
        """The keys of its durations."""
        return _written_as(cls, AS_DURATION)

    @classmethod
    def chances(cls) -> tuple[str, ...]:
        """The keys of its chances."""
        return _written_as(cls, AS_CHANCE)

    @classmethod
    def _names(cls) -> dict[str, str]:
        """Key in a file -> name of the field."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}

    def _at(self, key: str) -> Any:
        return getattr(self, self._names()[key])

    # ---- what it does -------------------------------------------------------------------------------------

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        """Choose the targets now. ``fault`` is its id, ``nodes`` all of the run's, ``busy`` those that another
        fault has stopped. None: there is nothing to hit (a partition without a leader)."""
        raise NotImplementedError

    def describe(self) -> str:
        """What it hits, in the scenario's words."""
        raise NotImplementedError

    @property
    def waits_for_point(self) -> bool:
        """Whether it only takes effect, and its time only begins, when a node comes to a point."""
        return False

    @property
    def new_settings(self) -> Bounce | None:
        """What nodes have otherwise after it, if it changes that."""
        return None

    # ---- as it is drawn, and changed ----------------------------------------------------------------------

    @classmethod
    def draw(cls, scene: Scene) -> Any:
        """A value as a scenario file has it, drawn by a nemesis."""
        raise NotImplementedError

    @classmethod
    def takes_from_quorum(cls, body: Any) -> tuple[int, int]:
        """How many voters a value as it is written removes, and of how many it may take the disk."""
        return (0, 0)

    @classmethod
    def whom(cls, body: Any) -> Whom:
        """Whom a value as it is written may be aimed at by a mutation."""
        return cls.hits

    @classmethod
    def retargeted(cls, body: Mapping[str, Any]) -> list[str]:
        """The keys by which a mutation may aim it at others."""
        return [key for key in cls.selectors() if key in body]

    @classmethod
    def settle(cls, body: Any, allowed: bool) -> None:
        """Change a value as it is written, of another scenario, so that it gives up records for a leader only where
        this one's configuration does so, too: ``allowed``."""


@cache
def _written_as(cls: type[Fault], serializer: PlainSerializer) -> tuple[str, ...]:
    """The keys of the fields that are written by a serializer of ``chaos.scenario.scalars``."""
    fields = cls.model_fields.items()
    return tuple(
        field.alias or name for name, field in fields if serializer in (*field.metadata, *_marks(field.annotation))
    )


def _marks(hint: Any) -> list[Any]:
    """What a type, or one of the types that it is put together from, is annotated with."""
    found = list(getattr(hint, "__metadata__", ()))
    return found + [mark for part in get_args(hint) for mark in _marks(part)]


@cache
def _defaults(cls: type[Fault]) -> dict[str, Any]:
    """Key -> its default value, as it is written."""
    optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
    return cls.model_construct().model_dump(include=optional, by_alias=True, exclude_none=True, warnings=False)


def _alone(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value
