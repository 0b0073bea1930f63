"""Names of records: "<session>:<number>", with numbers that rise in the order in which a producing session sends.

A trace from elsewhere may have other names; of those nobody knows the order.
"""

from __future__ import annotations


def place_of(uid: str) -> tuple[str, int]:
    """Session and number of a record. A plain number is one of the session ""; so is any other name, with number -1."""
    session, _, number = uid.rpartition(":")
    if number.isdecimal() and number.isascii() and (number[0] != "0" or number == "0"):
        return session, int(number)
    return "", -1
