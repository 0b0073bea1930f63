"""How long after its timeout a coordinator aborts a transaction at the latest."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.trace.events import ClockSet, CtlFault, DiskRuleChange, PartChange, Stamped, TxnState
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.folds.hindered_timers import HinderedTimers

INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
"""How often a coordinator looks for transactions whose timeout is over."""
LATE_US = 1_000_000
"""By how much an abort may be late besides: the turns of the coordinator. In live runs, ``SLACK_US``."""

HINDRANCES = (ClockSet, CtlFault, DiskRuleChange)


class LateAborts(msgspec.Struct):
    """Of a partition of the transaction log. thin: its ISR lacks a replica, and may be too small to decide; thin_us:
    when that was so last. loaded_us: broker -> when it had read the log; used_us: transactional id -> when a change of
    it ended last. hindered_us: broker -> when something kept its timers from being right last."""

    thin: bool = False
    thin_us: int = -1
    loaded_us: dict[str, int] = {}
    used_us: dict[str, int] = {}
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)
    hindered_us: dict[str, int] = {}

    def hinders(self, event: Stamped, body: Any) -> None:
        """A fault, a clock or a disk: one of ``HINDRANCES``."""
        for node, _ in self.timers.take(event, body):
            self.hindered_us[node] = event.wall

    def changed(self, event: Stamped, body: PartChange) -> None:
        """A controller changed the partition."""
        thin = len(body.isr) < len(body.replicas) or body.leader < 0
        if thin or self.thin:
            self.thin, self.thin_us = thin, event.wall

    def late_us(self, event: Stamped, body: TxnState, profile: Profile) -> int:
        """By how many microseconds an abort came too late, 0 or less: it did not."""
        node, start_us = event.node, 1000 * body.start_ms
        hindered = self.timers.are_wrong(node) or self.hindered_us.get(node, -1) >= start_us
        if hindered or self.thin or self.thin_us >= start_us or self.timers.clocks_us:
            return 0
        due_us = max(
            start_us + 1000 * body.timeout_ms,
            self.loaded_us.get(node, -1),
            self.used_us.get(body.transactional_id, -1),
        )
        slack_us = LATE_US if profile.runtime == "sim" else SLACK_US
        return 1000 * body.update_ms - due_us - 2000 * profile.number(INTERVAL, node) - slack_us
