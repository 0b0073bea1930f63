"""The verification of a transaction by a partition's leader, from its first question to the coordinator until the first
batch is in the log, or a marker (``VerificationStateEntry.java``, ``VerificationGuard.java``)."""

from __future__ import annotations

import msgspec

UNVERIFIED = 0
"""Guard of a batch whose transaction was not verified."""


class VerificationStateEntry(msgspec.Struct):
    """Of one producer id. guard: a number of its own, so that an answer to an earlier question is known as such.
    lowest_sequence: of the batches that wait, in ``epoch``. supports_epoch_bump: its producer goes by
    ``transaction.version`` 2."""

    guard: int
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool

    def take(self, sequence: int, epoch: int) -> None:
        """One more batch waits."""
        if epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
