"""Whether anybody listens at an address: asked before libraries that would try for half a minute or longer."""

from __future__ import annotations

import socket

REACH_S = 5.0


def why_not_reached(host: str, port: int) -> str:
    """Why nobody can be reached there within REACH_S, in the system's words; "" if somebody can."""
    try:
        socket.create_connection((host, port), REACH_S).close()
    except OSError as error:
        return error.strerror or str(error) or "no answer"
    return ""
