"""The hybrid logical clock of a runtime's node (Kulkarni et al., 2014)."""

from __future__ import annotations

import msgspec


class HybridLogicalClock(msgspec.Struct):
    """(wall_us, logical), always increasing; ``wall_us`` never runs behind the physical clock it was shown."""

    wall_us: int = 0
    logical: int = 0

    def tick(self, physical_us: int) -> None:
        """Advance for a local event or a send."""
        if physical_us > self.wall_us:
            self.wall_us, self.logical = physical_us, 0
        else:
            self.logical += 1

    def merge(self, physical_us: int, wall_us: int, logical: int) -> None:
        """Advance for the receipt of a message stamped (wall_us, logical)."""
        own_us = self.wall_us
        if physical_us > own_us and physical_us > wall_us:
            self.wall_us, self.logical = physical_us, 0
        elif own_us > wall_us:
            self.logical += 1
        elif own_us < wall_us:
            self.wall_us, self.logical = wall_us, logical + 1
        else:
            self.logical = max(self.logical, logical) + 1
