"""Ways in which Kafka may lose what was committed, as far as somebody agreed to it."""

from __future__ import annotations

from actors.trace.events import PollReturn, SendReturn, Stamped
from orchestrator.invariants.mirrors.leader_epochs import Taint
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss_budget import LossBudget

UNCLEAN = "An unclean election in between gave up the records that the new leader lacked."
LOST = (
    "Power losses or wiped disks removed the record from at least min.insync.replicas of its replicas, or, without "
    "eligible leader replicas, from the last member of the ISR."
)

LOSS = {"unclean-election": UNCLEAN, "loss-budget": LOST}
"""Rule -> when it excuses that a committed record is gone."""


def read_in(body: PollReturn, mirror: LogMirror) -> int:
    """The epoch of the leader that handed out the records of a poll. Their batches may be older, and have been given up
    and brought back since: they say nothing of what was committed when it was read."""
    if body.leader_epoch >= 0:
        return body.leader_epoch
    return max(body.records[-1].leader_epoch, mirror.newest_led(body.broker))


def acknowledged_in(event: Stamped, body: SendReturn, mirror: LogMirror) -> int:
    """The leader epoch of an acknowledgement: as the broker that answered recorded it, or as told. Where the trace does
    not say: the newest in which the broker had the record, or the one which it leads; -1 unknown."""
    served = mirror.served(event, body)
    if served is not None:
        return served.leader_epoch
    if body.leader_epoch >= 0 or not body.broker:
        return body.leader_epoch
    epoch = mirror.epoch_of_answer(body.broker, body.offset, body.uid)
    return epoch if epoch >= 0 else mirror.replica(body.broker).leads


def given_up(mirror: LogMirror, one: int, other: int, offset: int) -> str:
    """The rule by which what one of two leader epochs had at an offset was given up in favour of the other, "" none. An
    epoch that nobody knows may be any. They are those of the leaders that committed it or handed it out, not those of
    the batches: an unclean election can commit what a leader of an older epoch appended, and no other epoch had."""
    newer = max(one, other) if one >= 0 and other >= 0 else max(mirror.lineages, default=-1)
    taint = mirror.taint_between(min(one, other), newer, offset + 1)
    return "" if taint is None else taint.rule


def taint_of_told(mirror: LogMirror, end: int) -> Taint | None:
    """The election that gave up something below ``end``, up to where an older leader had its high watermark."""
    return next((each for each in mirror.taints if each.start < end and mirror.told.reached(end, each.epoch)), None)


def taint_of_log(mirror: LogMirror, node: str, end: int) -> Taint | None:
    """The election that gave up what a replica's log has below ``end`` where it parts from what was committed."""
    shared = mirror.highest_committed_of(node)
    batch = mirror.replica(node).log.batch_at(shared)
    if batch is None or batch.base > shared:
        return mirror.taint_below(end)  # forgotten
    return mirror.taint_below(shared + 1, batch.epoch) if shared < end else None


def way_of_loss(mirror: LogMirror, offset: int, budget: LossBudget, one: int, other: int = -1) -> str:
    """The rule by which the record that leader epoch ``one`` had at an offset may be gone, or be another one in leader
    epoch ``other`` (-1: by now); "" if there is none."""
    if mirror.taints:
        now = other if other >= 0 else max(mirror.lineages, default=-1)
        if rule := given_up(mirror, one, now, offset):
            return rule
    return "loss-budget" if mirror.loss_excuses(offset, budget) else ""
