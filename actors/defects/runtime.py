"""The defects of what drives nodes, and of what all nodes have in common: connections, links, draws, the trace."""

from __future__ import annotations

from actors.defects.defect import Defect

RUNTIME_DEFECTS: tuple[Defect, ...] = (
    Defect("no-request-timeout", "actors.node", "X2", "A request waits for its answer for ever.", nemesis="clients"),
    Defect("leaky-partition", "actors", "X5", "A partition of links does not stop arriving messages."),
    Defect("unseeded-timers", "actors.sim", "X8", "The runtime draws timers from no seed."),
    Defect(
        "no-reconnect-backoff",
        "actors.node",
        "X10",
        "A refused connection is retried at once.",
        "KIP-144",
    ),
    Defect(
        "reconnect-backoff-stays",
        "actors.node",
        "X11",
        "The pause before a connection is made again does not grow.",
        "KIP-144",
        nemesis="clients",
    ),
    Defect("lose-trace", "actors.trace", "X4", "The runtime drops every hundredth event of a node."),
)
