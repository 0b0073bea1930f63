"""The ids of the invariants, which is all that a scenario and a nemesis may say of them.

Who checks them lies above this layer: ``orchestrator.invariants.registry``, which has exactly these, in this order, or
does not load. A number is never given twice.
"""

from __future__ import annotations

FAMILIES: dict[str, str] = {
    "Q": "quorum",
    "P": "partition replication",
    "H": "ListOffsets and watermarks",
    "M": "metadata epochs",
    "O": "consumer groups and their commits",
    "T": "idempotence and transactions",
    "R": "tiered storage",
    "C": "records that clients send and read",
    "L": "liveness after healing",
    "X": "hygiene",
}
"""Letter -> what the family is about."""

INVARIANT_IDS: tuple[str, ...] = (
    *("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "Q12", "Q13", "Q14", "Q15", "Q16", "Q17"),
    *("Q18", "Q19", "Q20", "Q21", "Q22", "Q23"),
    *("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P14", "P15", "P16", "P17", "P18"),
    *("P20", "P21", "P22", "P23", "P24", "P25", "P26", "P27", "P28", "P29", "P30", "P31", "P32"),
    *("H1", "H2", "H3", "H4", "H5", "H6", "H7", "H8", "H9"),
    *("M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10"),
    *("O1", "O2", "O3", "O4", "O5", "O6", "O7", "O8", "O9", "O10", "O11", "O12"),
    *("T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9", "T10", "T11", "T12", "T13", "T14", "T15"),
    *("T16", "T17"),
    *("R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14"),
    *("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11", "C12"),
    *("L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L11", "L12", "L13", "L14", "L15", "L16", "L17"),
    *("L18", "L19", "L20", "L21"),
    *("X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8", "X10", "X11"),
)
"""All of them, by family and number. X9 is judged over many runs and in none of them."""
