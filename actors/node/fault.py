"""What Kafka's fatal fault handler ends a process on (``ProcessTerminatingFaultHandler``)."""

from __future__ import annotations


class FatalFault(Exception):
    """A node met what must not happen, and its process ends: others, or a disk, may have brought it about, so this is
    no bug of the node. Whoever drives its parts lets an Exit follow; the state in between is lost with the process."""
