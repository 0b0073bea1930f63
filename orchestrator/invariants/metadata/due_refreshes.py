"""When a client that looks for newer metadata asks for it at the latest: a part of M2."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actors.node.errors import traits
from actors.node.messages import Api
from actors.node.spec import node_name
from actors.trace.events import ErrorSeen, Rpc, Stamped
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.pauses import TICK_US, StoppedProcess, longest_us

CONNECTION = "metadata"
"""That clients ask for metadata on."""
RENEWED = "coordinator"
"""Beginning of the names of connections that consumers may give up: no reason to look for newer metadata."""
ASKED = (Api.Produce.name, Api.Fetch.name, Api.OffsetForLeaderEpoch.name)
"""Whose refusals make a client look for newer metadata at once."""


class Late(msgspec.Struct, frozen=True):
    """A refresh began ``late_us`` after it was due. pause_us: how long it had to pause at most after the last one, by:
    the end of that; wanted: what made the client look for newer metadata."""

    late_us: int
    pause_us: int
    by: Witness
    wanted: Witness


class Ended(msgspec.Struct, frozen=True):
    """A refresh ended. brokers: that the client knew."""

    at_us: int
    by: Witness
    brokers: frozenset[str]


class DueRefreshes(msgspec.Struct):
    """Of a client. backoff_ms: its first pause after a refresh, and the longest. renews: it gives up connections for
    data, too. last: its last refresh. failures: how many ended since an answer was taken over. wanted_us: since when it
    looks for newer metadata, -1 it does not, or that is not known, and by which event; latest_us: when it had a reason
    last. made: who is connected; made_us: when a connection was made last, or could not be."""

    backoff_ms: tuple[int, int] = (0, 0)
    renews: bool = False
    last: Ended | None = None
    failures: int = 0
    wanted_us: int = -1
    wanted: Witness | None = None
    latest_us: int = -1
    made: set[str] = set()
    made_us: int = -1

    def anew(self) -> DueRefreshes:
        """A process that begins knows nothing."""
        return DueRefreshes(self.backoff_ms, self.renews)

    def want(self, event: Stamped) -> None:
        """The client looks for newer metadata."""
        self.latest_us = event.wall
        if self.wanted_us < 0:
            self.wanted_us, self.wanted = event.wall, witness(event)

    def refused(self, event: Stamped, body: ErrorSeen) -> None:
        """A broker refused a client."""
        if body.tp and body.api in ASKED and traits(body.error).invalid_metadata:
            self.want(event)

    def taken(self) -> None:
        """An answer was taken over."""
        self.failures = 0

    def connected(self, event: Stamped, body: Rpc) -> None:
        """A call ended, which may show who is connected, and that the client looks for newer metadata."""
        if body.connection == CONNECTION and body.api == Api.ApiVersions.name:
            self.made_us = event.wall
            self.made.add(body.dst)
        if body.outcome == "answered":
            return
        if body.connection == CONNECTION:
            self.made.discard(body.dst)
        given_up = body.outcome == "disconnect" and (self.renews or body.connection.startswith(RENEWED))
        if body.connection == CONNECTION or not given_up:
            self.want(event)

    def refreshed(
        self, event: Stamped, body: Rpc, known: Collection[int], repeats: int, process: StoppedProcess
    ) -> Late | None:
        """A refresh ended, before the client has made anything of it. known: the brokers that it knows; repeats: how
        many answers in a row had brought no news. None: it was not due, or that is not known."""
        began_us = event.wall - 1000 * body.took_ms
        late = self._late(body, began_us, max(self.failures, repeats), process)
        self.last = Ended(event.wall, witness(event), frozenset(map(node_name, known)))
        self.failures += 1
        if self.latest_us <= began_us + TICK_US:
            self.wanted_us = -1
        return late

    def _late(self, body: Rpc, began_us: int, failures: int, process: StoppedProcess) -> Late | None:
        """By how much a refresh was late that began then. It goes to a broker that the client is connected to, if it
        knows one, as soon as it wants it, and the pause is over, and a connection that it waits for is made."""
        last, wanted = self.last, self.wanted
        if last is None or wanted is None or self.wanted_us < 0 or process.since(last.at_us):
            return None
        if body.dst not in self.made or body.dst not in last.brokers:
            return None
        pause_us = longest_us(*self.backoff_ms, max(failures - 1, 0))
        due_us = max(self.wanted_us, last.at_us + pause_us, self.made_us)
        if max(self.wanted_us, self.made_us) > began_us + TICK_US:
            return None
        return Late(began_us - due_us, pause_us, last.by, wanted)
