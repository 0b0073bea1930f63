"""One run of many: all that is needed to do it on any machine, and to do it again."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from chaos.incidents import library
from chaos.plan import Plan
from chaos.scenario.loader import Loaded, load_text
from chaos.scenario.resolve import resolve
from orchestrator.runner import command, reproduce_command


class SimOrder(msgspec.Struct, frozen=True):
    """A run to be done in the sim.

    source: name in the library, or the path that the user gave. text: the scenario file if it is not one of the
    library (an executor does not see the driver's files), else "". seed: None for the scenario's own. settings,
    defects: as the options of ``krift run``.
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
        return load_text(self.text, self.source) if self.text else library.load(self.source)

    def plan(self) -> Plan:
        """The run as it will be carried out. Raises InputError."""
        return resolve(self.loaded(), self.variant, self.seed, self.settings, self.defects)

    def reproduce(self, plan: Plan) -> str:
        """The command that does it again."""
        return reproduce_command(self.source, plan, "sim", self.settings, self.defects)

    def again(self, seed: int) -> str:
        """The same for a run whose seed is known."""
        return command(self.source, self.variant, seed, "sim", self.settings, self.defects)
