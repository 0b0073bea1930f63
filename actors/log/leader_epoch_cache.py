"""Leader epochs of a log and where each begins (``LeaderEpochFileCache.java``)."""

from __future__ import annotations

from bisect import bisect_right

import msgspec

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(msgspec.Struct, frozen=True, array_like=True):
    """``epoch`` begins at ``start_offset``."""

    epoch: int
    start_offset: int


class LeaderEpochCache(msgspec.Struct):
    """Entries in ascending order of both epoch and start offset."""

    entries: list[EpochEntry] = []

    @property
    def latest_epoch(self) -> int:
        """Epoch of the newest entry, -1 if there is none."""
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` begins at ``start_offset``; more of the newest epoch is nothing new.

        Entries that the new one contradicts, with as high an epoch or as late a start, are dropped.
        """
        if self.entries and epoch == self.entries[-1].epoch and start_offset >= self.entries[-1].start_offset:
            return
        while self.entries and (self.entries[-1].epoch >= epoch or self.entries[-1].start_offset >= start_offset):
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest epoch <= ``epoch``, its exclusive end); (-1, -1) where Kafka answers undefined.

        The newest epoch ends at ``log_end``; an epoch beyond it is undefined; one below the first entry is answered
        with itself and the first entry's start.
        """
        if epoch == UNDEFINED_EPOCH or not self.entries or epoch > self.entries[-1].epoch:
            return (UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.entries[-1].epoch:
            return (epoch, log_end)
        above = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        if above == 0:
            return (epoch, self.entries[0].start_offset)
        return (self.entries[above - 1].epoch, self.entries[above].start_offset)

    def epoch_at(self, offset: int) -> int:
        """Epoch of the entry at ``offset``, -1 if it lies before the first one."""
        index = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[index - 1].epoch if index else UNDEFINED_EPOCH

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what ended at or before ``start_offset``; the epoch of that offset begins there from now on."""
        epoch = self.epoch_at(start_offset)
        later = [entry for entry in self.entries if entry.start_offset > start_offset]
        self.entries = later if epoch == UNDEFINED_EPOCH else [EpochEntry(epoch, start_offset), *later]

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop entries that begin at or after ``end_offset``."""
        while self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()
