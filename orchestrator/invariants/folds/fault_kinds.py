"""Kinds of faults that several invariants tell from the others."""

from __future__ import annotations

from chaos.faults.kinds import kinds_of
from chaos.faults.network import LinkFault

LINK_FAULTS = kinds_of(LinkFault)
"""Faults of links: they leave the time of a node's own timers alone."""
