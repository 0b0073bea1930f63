"""The base of all that is read from files: closed, unchangeable models, whose keys are written with hyphens."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from chaos.scenario.durations import Malformed


class Model(BaseModel):
    """Base: strict, closed, unchangeable, keys with hyphens."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    def one_of(self, *names: str) -> None:
        """Raise Malformed unless exactly one of the fields is set."""
        given = [name.replace("_", "-") for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            options = ", ".join(name.replace("_", "-") for name in names)
            what = f"{' and '.join(given)} are given together" if given else "none is given"
            raise Malformed(what, f"exactly one of {options}")
