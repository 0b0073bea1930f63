"""What is said of a configuration key."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Scope = Literal[
    "controller", "broker", "remote-store", "topic", "producer", "consumer", "group-consumer", "admin", "krift"
]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigKey(msgspec.Struct, frozen=True):
    """One key. Values are int (a count, bytes or milliseconds as the name says), bool or str.
    ``low`` and ``high`` bound an int; ``choices`` a str, where there are any. ``dynamic``: a broker takes a new value
    without a restart (``DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS``); a topic's keys always are. ``pool``: a number of
    threads, of which a new value is at least half of the present one, and at most twice."""

    name: str
    default: Any
    scopes: tuple[Scope, ...]
    about: str
    low: int = 0
    high: int = INT_MAX
    choices: tuple[str, ...] = ()
    dynamic: bool = False
    pool: bool = False
