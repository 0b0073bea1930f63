"""How timers, answers and choices find the component of a node that asked for them.

A component declares the names that it uses, each with its handler. A name is complete, or a
prefix that ends with ``/``; the rest after a prefix is the handler's argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from actors.node.events import Chosen

if TYPE_CHECKING:
    from actors.node.network_client import Ended

Part = TypeVar("Part")
Owner = TypeVar("Owner")
Turn_contra = TypeVar("Turn_contra", contravariant=True)

OnTimer = Callable[[Part, Turn_contra, str], None]
"""Handles a timer of the component: the component, the node's turn, the argument."""
OnEnded = Callable[[Part, Turn_contra, "Ended", str], None]
"""Handles the end of a call with one of the component's purposes."""
OnChosen = Callable[[Part, Turn_contra, int, str], None]
"""Handles the value of a choice that the component requested."""


class Component(Generic[Part, Turn_contra]):
    """The declarations of a component of class ``Part``: name -> handler, for timers, calls' purposes, and choices."""

    def __init__(
        self,
        *,
        timers: Mapping[str, OnTimer[Part, Turn_contra]] | None = None,
        answers: Mapping[str, OnEnded[Part, Turn_contra]] | None = None,
        choices: Mapping[str, OnChosen[Part, Turn_contra]] | None = None,
    ) -> None:
        self.timers = timers or {}
        self.answers = answers or {}
        self.choices = choices or {}


class Components(Generic[Owner, Turn_contra]):
    """All components of a node's class, and their places in the node. No two share a name."""

    def __init__(self) -> None:
        self._timers: dict[str, Callable[[Owner, Turn_contra, str], None]] = {}
        self._answers: dict[str, Callable[[Owner, Turn_contra, Ended, str], None]] = {}
        self._choices: dict[str, Callable[[Owner, Turn_contra, int, str], None]] = {}

    def add(self, component: Component[Part, Turn_contra], part: Callable[[Owner], Part]) -> None:
        """Add a component; ``part`` finds it in its node."""
        for name, on_timer in component.timers.items():
            _declare(self._timers, name, _of_part(part, on_timer))
        for name, on_ended in component.answers.items():
            _declare(self._answers, name, _of_part(part, on_ended))
        for name, on_chosen in component.choices.items():
            _declare(self._choices, name, _of_part(part, on_chosen))

    def on_timer(self, owner: Owner, turn: Turn_contra, name: str) -> None:
        """Hand a timer to the component that set it."""
        handler, argument = find(self._timers, name)
        handler(owner, turn, argument)

    def on_ended(self, owner: Owner, turn: Turn_contra, ended: Ended | None) -> None:
        """Hand the end of a call to the component that made it; None: it was the network client's own."""
        if ended is not None:
            handler, argument = find(self._answers, ended.purpose)
            handler(owner, turn, ended, argument)

    def on_chosen(self, owner: Owner, turn: Turn_contra, event: Chosen) -> None:
        """Hand a choice to the component that asked for it."""
        handler, argument = find(self._choices, event.choice)
        handler(owner, turn, event.value, argument)


Handler = TypeVar("Handler")


def find(table: Mapping[str, Handler], name: str) -> tuple[Handler, str]:
    """The handler of a name, and the argument in it ("" if there is none)."""
    found = table.get(name)
    if found is not None:
        return found, ""
    end = name.find("/")
    while end >= 0:
        found = table.get(name[: end + 1])
        if found is not None:
            return found, name[end + 1 :]
        end = name.find("/", end + 1)
    raise AssertionError(f"no component handles {name}")


def _declare(table: dict[str, Any], name: str, handler: Any) -> None:
    shared = [other for other in table if _covers(other, name) or _covers(name, other)]
    assert not shared, f"{name} is {shared[0]}, which another component has declared"
    table[name] = handler


def _covers(declared: str, name: str) -> bool:
    return name == declared or (declared.endswith("/") and name.startswith(declared))


def _of_part(part: Callable[[Owner], Any], handler: Callable[..., None]) -> Callable[..., None]:
    return lambda owner, *given: handler(part(owner), *given)
