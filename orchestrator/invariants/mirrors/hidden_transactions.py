"""Open transactions that began before a leader's log does: its last stable offset is not held back by them, and that of
another leader, which still has their beginning, may be lower."""

from __future__ import annotations

import msgspec

from orchestrator.invariants.mirrors.replica import Replica

HIDDEN = {
    "began-behind": "The first answer came from a log that began anew behind the beginning of a transaction that is "
    "still open. Such a log knows no producer from before (ProducerStateManager.truncateFullyAndStartAt). The second "
    "leader has that beginning.",
    "log-start-unheard": "The first answer was the log start of its leader, in place of the beginning of a transaction "
    "that is still open (UnifiedLog.maybeIncrementFirstUnstableOffset). The second leader has that beginning: nobody "
    "had told it of the log start before it took over.",
    "log-start-went-back": "The same, but the second leader had had that log start, and lost it in a restart, before "
    "it was in the checkpoint.",
}
"""Rule -> when it excuses that the last stable offset went back."""


class Stand(msgspec.Struct, frozen=True, gc=False):
    """Of a leader's log when it answered with its last stable offset. ``start``: where it begins; ``began``: where it
    begun anew last, 0 never; ``undecided``: where the oldest transaction begins that is open, or whose marker is not
    replicated, -1 there is none; ``heard``: the highest log start that its process has had, or was told; ``had``: the
    highest that the broker has had."""

    start: int
    began: int
    undecided: int
    heard: int
    had: int


def stand_of(replica: Replica) -> Stand:
    """Of a leader's log as it is now."""
    stable = replica.transactions.stable_offset(replica.high_watermark)
    undecided = stable if stable < replica.high_watermark else -1
    return Stand(replica.start, replica.began, undecided, replica.heard, replica.had)


def why_lower(first: int, former: Stand, second: int, stand: Stand | None) -> str:
    """The rule by which a leader that stands like that may tell the last stable offset ``second``, after a ``former``
    one had told ``first``; "" none."""
    if stand is None or stand.undecided < 0 or second != max(stand.undecided, stand.start):
        return ""
    if stand.undecided < former.began:
        return "began-behind"
    if not stand.undecided < first == former.start or stand.heard >= first:
        return ""
    return "log-start-went-back" if stand.had >= first else "log-start-unheard"
