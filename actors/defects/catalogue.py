"""Named defects: deliberate bugs, each a one-place change, that an invariant must catch.

A defect changes what a node or a runtime does, never what it records (those of X4 excepted). The place asks
``"name" in step.defects`` (a node) or ``"name" in spec.defects`` (a runtime).
"""

from __future__ import annotations

from actors.defects.broker import BROKER_DEFECTS
from actors.defects.client import CLIENT_DEFECTS
from actors.defects.controller import CONTROLLER_DEFECTS
from actors.defects.copies import COPY_DEFECTS
from actors.defects.defect import Defect
from actors.defects.groups import GROUP_DEFECTS
from actors.defects.log import LOG_DEFECTS
from actors.defects.producer import PRODUCER_DEFECTS
from actors.defects.quorum import QUORUM_DEFECTS
from actors.defects.readers import READER_DEFECTS
from actors.defects.runtime import RUNTIME_DEFECTS
from actors.defects.transactions import TRANSACTION_DEFECTS

_FAMILIES = (
    *(QUORUM_DEFECTS, CONTROLLER_DEFECTS, BROKER_DEFECTS, LOG_DEFECTS, COPY_DEFECTS, READER_DEFECTS, GROUP_DEFECTS),
    *(TRANSACTION_DEFECTS, PRODUCER_DEFECTS, CLIENT_DEFECTS, RUNTIME_DEFECTS),
)
"""A module each, by who has the defect."""

DEFECTS: dict[str, Defect] = {defect.name: defect for family in _FAMILIES for defect in family}
