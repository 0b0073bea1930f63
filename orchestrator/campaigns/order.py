"""One run of many: all that is needed to do it on any machine, and to do it again."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from chaos.plan import Plan
from chaos.scenario.loader import Loaded
from chaos.scenario.resolve import resolve
from chaos.sources import find, from_text
from orchestrator.runner import command, reproduce_command


class SimOrder(msgspec.Struct, frozen=True):
    """A run to be done in the sim.

    source: name of an incident or a nemesis, or the path that the user gave. text: that file if it was a path (an
    executor does not see the driver's files), else "". seed: None for the scenario's own; a nemesis needs one.
    settings, defects: as the options of ``krift run``.
    """

    source: str
    variant: str = ""
    seed: int | None = None
    settings: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    text: str = ""

    @property
    def key(self) -> str:
        """Names the run among those of a campaign."""
        text = blake2b(self.text.encode(), digest_size=8).hexdigest() if self.text else ""
        return msgspec.json.encode([self.source, text, self.variant, self.seed, self.settings, self.defects]).decode()

    def loaded(self) -> Loaded:
        """The scenario. Raises InputError."""
        source = from_text(self.text, self.source) if self.text else find(self.source)
        return source.loaded(self.seed)

    def plan(self) -> Plan:
        """The run as it will be carried out. Raises InputError."""
        return resolve(self.loaded(), self.variant, self.seed, self.settings, self.defects)

    def reproduce(self, plan: Plan) -> str:
        """The command that does it again."""
        return reproduce_command(self.source, plan, "sim", self.settings, self.defects)

    def again(self, seed: int) -> str:
        """The same for a run whose seed is known."""
        return command(self.source, self.variant, seed, "sim", self.settings, self.defects)
