"""Names of records: "<session>:<number>", with numbers that rise in the order in which a producing session sends.

A trace from elsewhere may have other names; of those nobody knows the order.
"""

from __future__ import annotations

from collections.abc import Iterable


def node_of(session: str) -> str:
    """Whose process a producing session is: "producer-1", and each "producer-1#<incarnation>", of producer-1."""
    return session.partition("#")[0]


def replaced_by(session: str, sessions: Iterable[str]) -> list[str]:
    """Of the sessions that are known those that a new one puts an end to."""
    node = node_of(session)
    return [each for each in sessions if each != session and node_of(each) == node]


def place_of(uid: str) -> tuple[str, int]:
    """Session and number of a record. A plain number is one of the session ""; so is any other name, with number -1."""
    session, _, number = uid.rpartition(":")
    if number.isdecimal() and number.isascii() and (number[0] != "0" or number == "0"):
        return session, int(number)
    return "", -1
