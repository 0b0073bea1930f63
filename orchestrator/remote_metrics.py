"""What remote storage cost the requests of a run: measures taken from the trace, where the cluster has a remote store.

* A *request* is a client's, from when it was sent to its end: of Produce and ListOffsets each, of Fetch those that
  brought something. One that *timed out* got no answer in time.
* The *request queue time* of a broker is that for which a request finds no free request handler.
* A look-up *expired* if its request's time was over before it was found, as Kafka's meter ExpiresPerSec has it; a read
  was *rejected* if the queue of its pool was full. The *task queue* is that of the pools, as long as it ever was, and
  the threads' *idle* share is a mean over the time in which the pool has done anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from actors.trace.events import RequestHandled, Rpc, Stamped, TierTask, TraceEvent
from chaos.plan import Plan
from orchestrator.quantiles import QUANTILES, quantile

APIS = ("Produce", "Fetch", "ListOffsets")
ALWAYS = ("expired.lookups", "rejected.reads")


class PoolUse(msgspec.Struct):
    """How a pool of a broker was used. ``since_us``: its last change, -1 none yet; ``busy``, ``threads``: from then on.
    ``busy_us``: thread time that was used, of ``all_us``."""

    since_us: int = -1
    busy: int = 0
    threads: int = 1
    busy_us: int = 0
    all_us: int = 0
    longest: int = 0

    def take(self, now_us: int, body: TierTask) -> None:
        """A read went on."""
        self.until(now_us)
        self.since_us, self.busy, self.threads = now_us, body.running, body.threads
        self.longest = max(self.longest, body.queued)

    def until(self, now_us: int) -> None:
        """Time passed."""
        if self.since_us >= 0:
            self.busy_us += min(self.busy, self.threads) * (now_us - self.since_us)
            self.all_us += self.threads * (now_us - self.since_us)
            self.since_us = now_us


class RemoteMetrics:
    """Observes requests, handlers and readers; ``orchestrator.metrics`` has what comes of it among its measures."""

    def __init__(self, plan: Plan) -> None:
        self.wanted = plan.cluster.remote_store
        self._clients: Collection[str] = {client.name for client in plan.clients}
        self._took_ms: dict[str, list[int]] = {api: [] for api in APIS}
        self._queue_ms: list[int] = []
        self._counts: Counter[str] = Counter(dict.fromkeys(ALWAYS, 0))
        self._pools: dict[tuple[str, str], PoolUse] = {}
        self.by_type: dict[type[TraceEvent], Callable[[Stamped, Any], None]] = (
            {Rpc: self._rpc, RequestHandled: self._handled, TierTask: self._task} if self.wanted else {}
        )

    def _rpc(self, event: Stamped, body: Rpc) -> None:
        if body.api in self._took_ms and event.node in self._clients:
            self._took_ms[body.api].append(body.took_ms)
            self._counts[f"timeouts.{body.api}"] += body.outcome == "timeout"

    def _handled(self, _: Stamped, body: RequestHandled) -> None:
        self._queue_ms += [0] * body.untold
        self._queue_ms.append(body.queue_ms)

    def _task(self, event: Stamped, body: TierTask) -> None:
        self._counts["expired.lookups"] += body.phase == "expire"
        self._counts["rejected.reads"] += body.phase == "reject"
        self._pools.setdefault((event.node, body.pool), PoolUse()).take(event.wall, body)

    def until(self, now_us: int) -> None:
        """The chaos is over."""
        for pool in self._pools.values():
            pool.until(now_us)

    def metrics(self) -> dict[str, float]:
        """The measures."""
        if not self.wanted:
            return {}
        found = {name: float(number) for name, number in sorted(self._counts.items())}
        of = {f"request.{api}": some for api, some in self._took_ms.items()} | {"request-queue": self._queue_ms}
        for name, some in of.items():
            if some:
                some.sort()
                found |= {f"{name}.{which}": float(quantile(some, share)) for which, share in QUANTILES.items()}
        for kind in sorted({name for _, name in self._pools}):
            pools = [pool for (_, name), pool in self._pools.items() if name == kind]
            all_us = sum(pool.all_us for pool in pools)
            found[f"task-queue.{kind}"] = float(max(pool.longest for pool in pools))
            if all_us:
                found[f"idle.{kind}"] = 100.0 * (1 - sum(pool.busy_us for pool in pools) / all_us)
        return found
