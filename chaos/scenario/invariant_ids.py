"""The ids of the invariants that an ``expect`` may name.

Who checks them lies above this layer (``orchestrator.invariants``); its registry must be a part of this
catalogue, and ``krift run`` refuses to demand what is not registered.
"""

from __future__ import annotations

FAMILIES: dict[str, tuple[str, int]] = {
    "Q": ("quorum", 20),
    "P": ("partition replication", 27),
    "H": ("ListOffsets and watermarks", 9),
    "M": ("metadata epochs", 10),
    "O": ("group offsets", 7),
    "T": ("idempotence and transactions", 15),
    "R": ("tiered storage and asynchronous ListOffsets", 12),
    "C": ("what clients can see", 11),
    "L": ("liveness after healing", 16),
    "X": ("hygiene", 10),
}
"""Letter -> what the family is about, highest number."""

INVARIANT_IDS: tuple[str, ...] = tuple(
    f"{letter}{number}"
    for letter, (_, last) in FAMILIES.items()
    for number in range(1, last + 1)
    if (letter, number) != ("P", 13)
)
"""P13 was withdrawn; numbers are never given twice."""
