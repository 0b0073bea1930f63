"""The timeouts of transactions, as those have them who send in transactions."""

from __future__ import annotations

from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.transactions.exactly_once import TRANSACTIONAL_ID

TIMEOUT = "transaction.timeout.ms"

Timeouts = dict[str, list[int]]
"""Transactional id -> transaction.timeout.ms of the clients that have it, in order."""


def timeouts_of(profile: Profile) -> Timeouts:
    """Those of a run's clients. An id that is not there is none of theirs."""
    found: Timeouts = {}
    for client in profile.transactional:
        of_id = found.setdefault(transactional_id_of(profile, client), [])
        of_id.append(timeout_of(profile, client))
        of_id.sort()
    return found


def transactional_id_of(profile: Profile, client: str) -> str:
    """Of a client, as it decides itself."""
    return str(profile.setting(TRANSACTIONAL_ID, client) or client)


def timeout_of(profile: Profile, client: str) -> int:
    """Of a client."""
    return profile.number(TIMEOUT, client)


def longest_ms(timeouts: Timeouts, transactional_id: str, told_ms: int) -> int:
    """How long a transaction may be open of which a coordinator says that its timeout is ``told_ms``: no longer than
    one of its producers may have asked for."""
    return min(told_ms, timeouts[transactional_id][-1]) if transactional_id in timeouts else told_ms
