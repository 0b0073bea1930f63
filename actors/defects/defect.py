"""What is said of a defect."""

from __future__ import annotations

import msgspec


class Defect(msgspec.Struct, frozen=True):
    """``where``: module that has it. ``caught_by``: invariant meant for it. ``source``: the real bug, if any.
    ``nemesis``: the profile whose schedules are likely to bring it out, "" for that of its area. ``settings``: without
    which it cannot show, as the options ``--set`` of ``krift run``."""

    name: str
    where: str
    caught_by: str
    about: str
    source: str = ""
    nemesis: str = ""
    settings: tuple[str, ...] = ()
