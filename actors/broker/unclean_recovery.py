"""What a leader does first that was elected uncleanly, with ``kafka-7408: seed`` or ``undecided``.

By KAFKA-7408 it gives up what its log has at or above the last stable offset, so that no transaction is left open, and
appends the markers that were there again, in its own leader epoch. By KIP-704 it knows from the metadata log that it
has to (the leader recovery state), and tells the controller when its log is in order. Until that knows, it serves
nobody: what it took meanwhile it would give up again if it were started anew.

Kafka's last stable offset is the high watermark at most. Of a broker that was started anew this is what it wrote to a
checkpoint last, up to 5 s ago: then ``seed`` gives up records of partitions that have seen no transaction, too, and of
the transaction log. The new leader is the ISR, so that all it has is about to be committed; ``undecided`` goes by that.
"""

from __future__ import annotations

from actors.broker.turn import Turn
from actors.log.batch import Batch
from actors.log.replica_log import ReplicaLog
from actors.metadata.registrations import RECOVERING, PartitionRegistration


def is_due(turn: Turn, state: PartitionRegistration) -> bool:
    """Whether the leader that a partition's state names must put its log in order before it serves."""
    return turn.settings.kafka_7408 != "off" and state.leader_recovery_state == RECOVERING


def begin(turn: Turn, log: ReplicaLog, leader_epoch: int) -> list[Batch]:
    """Before the leader takes up its epoch: cut its log; returns the markers that it must append again."""
    if "unclean-leader-cuts-nothing" in turn.step.defects:
        return []
    stable = log.last_stable_offset
    if turn.settings.kafka_7408 == "undecided":
        undecided = log.producers.first_undecided_offset
        stable = log.end_offset if undecided is None else undecided
    if "unclean-leader-cuts-to-hw" in turn.step.defects:
        stable = log.high_watermark
    markers = log.cut_to_stable(turn.step, turn.files, stable, leader_epoch)
    return [] if "markers-cut-with-the-rest" in turn.step.defects else markers


def go_on(turn: Turn, log: ReplicaLog, markers: list[Batch], leader_epoch: int) -> None:
    """When it has taken up its epoch: append them, and let them survive a power loss: the controller is told that the
    log is in order for good."""
    for marker in markers:
        epoch = marker.epoch if "markers-of-their-own-epoch" in turn.step.defects else leader_epoch
        log.append_again(turn.step, turn.files, marker, turn.transactions.next_uid(), epoch)
    if markers:
        turn.files.sync(turn.step, log.active.file)
