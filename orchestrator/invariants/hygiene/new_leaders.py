"""That a batch which was refused does not wait when its partition has another leader: a part of X11."""

from __future__ import annotations

import msgspec

from actors.node.messages import Api
from actors.node.spec import node_name, partition_name, split_topic_partition
from actors.trace.events import MetaView, Rpc, Stamped
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.memory import remember
from orchestrator.invariants.folds.pauses import TICK_US, StoppedProcess

LEADERS_REMEMBERED = 16
CALLS_REMEMBERED = 64
BATCHES_REMEMBERED = 1024


class Learned(msgspec.Struct, frozen=True):
    """The client took over who leads a partition; ``at_us`` it did."""

    at_us: int
    leader: int
    epoch: int
    by: Witness


class Sent(msgspec.Struct, frozen=True):
    """The Produce that ended last, with its connection ("peer connection")."""

    link: str
    broker: str
    at_us: int


class Made(msgspec.Struct, frozen=True):
    """A connection was made, from began_us to ended_us. free_us: when the pause was over after it had failed before, -1
    it had not."""

    began_us: int
    ended_us: int
    free_us: int


class Refused(msgspec.Struct, frozen=True):
    """A batch waits to be sent again. at_us: when it was refused; sent_us: when it had been sent; epoch: the leader
    epoch that it was sent in, -1 unknown."""

    name: str
    at_us: int
    sent_us: int
    epoch: int
    by: Witness


class Redirected(msgspec.Struct, frozen=True):
    """A batch was sent to another leader, or a connection for it made, ``waited_us`` after that was possible."""

    waited_us: int
    leader: Learned
    refused: Refused


class NewLeaders(msgspec.Struct):
    """Of a producer. leaders: name of a partition -> whom it learned to lead it. waiting: first record of a batch ->
    how it was refused. made: connection -> how it was made last. calls: connection -> when the Produces that ended
    there while a batch waited had been sent, and when they ended. moved_us: partition -> when a batch of it came to its
    end last, which the next one may have waited for. known_us: when it learned of brokers or of a producer id last.
    lost_us: when a Produce was not answered last. most: how many Produces may be under way on a connection, 0 any
    number."""

    most: int = 0
    leaders: dict[str, list[Learned]] = {}
    waiting: dict[str, Refused] = {}
    made: dict[str, Made] = {}
    calls: dict[str, list[tuple[int, int]]] = {}
    moved_us: dict[str, int] = {}
    known_us: int = -1
    lost_us: int = -1
    sent: Sent | None = None

    def anew(self) -> NewLeaders:
        """A process that begins knows nothing."""
        return NewLeaders(self.most)

    def called(self, event: Stamped, body: Rpc, free_us: int) -> None:
        """A call ended. free_us: when the pause was over before its connection might be made again."""
        link = f"{body.dst} {body.connection}"
        if body.api == Api.ApiVersions.name:
            began_us = event.wall - 1000 * body.took_ms
            before = self.made.get(link)
            if before is not None and before.ended_us >= began_us - TICK_US:
                # It is asked again, in a version that the broker speaks.
                began_us, free_us = before.began_us, max(before.free_us, free_us)
            self.made[link] = Made(began_us, event.wall, free_us)
        elif body.api == Api.InitProducerId.name:
            self.known_us = event.wall
        elif body.api == Api.Produce.name:
            self.sent = Sent(link, body.dst, event.wall - 1000 * body.took_ms)
            if body.outcome != "answered":
                self.lost_us = event.wall
            if self.waiting:
                calls = self.calls.setdefault(link, [])
                calls.append((self.sent.at_us, event.wall))
                del calls[:-CALLS_REMEMBERED]
            else:
                self.calls.clear()

    def view(self, event: Stamped, body: MetaView) -> None:
        """It was told of leaders. The leader epochs of two topics that had the same name tell nothing together."""
        if body.topic_ids:
            topics = body.topic_ids
            self.leaders = {name: each for name, each in self.leaders.items() if _topic(name) not in topics}
            self.waiting = {uid: each for uid, each in self.waiting.items() if _topic(each.name) not in topics}
        if isinstance(body.brokers, list):
            self.known_us = event.wall
        for tp in body.accepted:
            if tp in body.epochs:
                known = self.leaders.setdefault(partition_name(tp), [])
                known.append(Learned(event.wall, body.leaders.get(tp, -1), body.epochs[tp], witness(event)))
                del known[:-LEADERS_REMEMBERED]

    def refused(self, event: Stamped, tp: str, uid: str) -> None:
        """A batch is to be sent again."""
        if self.sent is None:
            return
        name, sent_us = partition_name(tp), self.sent.at_us
        # In doubt it was sent to the newer leader.
        epochs = [each.epoch for each in self.leaders.get(name, ()) if each.at_us <= sent_us + TICK_US]
        refused = Refused(name, event.wall, sent_us, max(epochs, default=-1), witness(event))
        remember(self.waiting, uid, refused, BATCHES_REMEMBERED)

    def ended(self, event: Stamped, tp: str, uid: str) -> None:
        """A batch came to its end, or to its parts."""
        self.waiting.pop(uid, None)
        self.moved_us[partition_name(tp)] = event.wall

    def redirected(self, uid: str, process: StoppedProcess) -> Redirected | None:
        """A batch has another answer, which the Produce that ended last has brought. None: it had to wait, or that is
        not known."""
        refused, sent = self.waiting.get(uid), self.sent
        if refused is None or sent is None or refused.epoch < 0 or process.since(refused.sent_us):
            return None
        until_us = sent.at_us + TICK_US
        known = [each for each in self.leaders.get(refused.name, ()) if each.at_us <= until_us]
        if not known or known[-1].epoch <= refused.epoch or node_name(known[-1].leader) != sent.broker:
            return None
        leader, made = known[-1], self.made.get(sent.link)
        free_us = max(refused.at_us, leader.at_us, self.known_us, self.moved_us.get(refused.name, -1))
        if made is None or max(free_us, made.ended_us) > until_us or self._is_behind(uid, refused, leader):
            return None
        late_us = made.began_us - max(free_us, made.free_us) if made.ended_us > free_us else 0
        free_us = max(free_us, made.ended_us)
        return None if self._is_full(sent, free_us) else Redirected(max(late_us, sent.at_us - free_us), leader, refused)

    def _is_behind(self, uid: str, refused: Refused, leader: Learned) -> bool:
        """Whether another batch of the partition may have been in front, and paused: one that the new leader has
        refused, or one that was in a Produce without an answer."""
        return self.lost_us >= refused.sent_us - TICK_US or any(
            each.name == refused.name and not 0 <= each.epoch < leader.epoch
            for other, each in self.waiting.items()
            if other != uid
        )

    def _is_full(self, sent: Sent, at_us: int) -> bool:
        """Whether as many Produces were under way at a time as may be."""
        calls = self.calls.get(sent.link, ())
        under_way = sum(began <= at_us + TICK_US and ended > at_us - TICK_US for began, ended in calls)
        return len(calls) == CALLS_REMEMBERED or under_way >= self.most > 0


def _topic(name: str) -> str:
    return split_topic_partition(name)[0]
