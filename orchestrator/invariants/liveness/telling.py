"""What a leader tells its followers without records: that its high watermark, or its log start, has moved."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import LogHw, LogStart, LogTrunc, PartAssume, RepFetch, Stamped
from orchestrator.invariants.folds.bounds import SLACK_US, longest_ms
from orchestrator.invariants.folds.fold import Profile, Witness, witness

FETCH_WAIT = "replica.fetch.wait.max.ms"
HIGH_WATERMARK, LOG_START = "high watermark", "log start"


class Untold(msgspec.Struct, frozen=True):
    """``follower`` has to learn that its leader's ``what`` has moved to ``target`` at least, as ``by`` says; ``fetch``:
    its last one."""

    what: str
    follower: str
    target: int
    since_us: int
    by: Witness
    fetch: Witness


class Telling(msgspec.Struct):
    """leads, epoch: who leads the newest leader epoch, by its own word. follows: broker -> the leader epoch in which it
    follows, by its own. known: what -> broker -> where it has that. fetches: who has fetched from the leader since
    nothing stands in the way, and follows it in the same leader epoch -> by which event. untold: what has to be told.
    armed_us: when it is looked at next, -1 never."""

    bound_us: int = 0
    leads: str = ""
    epoch: int = -1
    follows: dict[str, int] = {}
    known: dict[str, dict[str, int]] = {}
    fetches: dict[str, Witness] = {}
    untold: dict[str, Untold] = {}
    armed_us: int = -1

    @staticmethod
    def of(profile: Profile) -> Telling:
        """Of a run: two waits at the leader, for the Fetch whose answer was on its way, and for the next one."""
        return Telling(SLACK_US + 2000 * longest_ms(profile, FETCH_WAIT), known={HIGH_WATERMARK: {}, LOG_START: {}})

    def reset(self) -> None:
        """Something may stand in the way, or may have."""
        self.fetches, self.untold = {}, {}

    def assume(self, event: Stamped, body: PartAssume) -> None:
        """A broker takes up a role. What is on its way is for who it was before."""
        self.known[HIGH_WATERMARK][event.node] = body.high_watermark
        self.forget(event.node)
        self.follows.pop(event.node, None)
        if body.role != "leader":
            self.follows[event.node] = body.leader_epoch
        elif body.leader_epoch >= self.epoch:
            self.reset()
            self.leads, self.epoch = event.node, body.leader_epoch

    def forget(self, node: str) -> None:
        """A broker has to fetch once more before anything is due to it; if it leads, all have to."""
        if node == self.leads:
            self.reset()
        self.fetches.pop(node, None)
        for name in [name for name, each in self.untold.items() if each.follower == node]:
            del self.untold[name]

    def fetched(self, event: Stamped, body: RepFetch) -> None:
        """A leader takes note of a fetch, or refuses it."""
        follower = node_name(body.follower)
        if event.node != self.leads or self.follows.get(follower) != self.epoch != -1:
            return
        if body.error or body.diverging_epoch >= 0 or body.follower_epoch not in (-1, self.epoch):
            self.forget(follower)
        else:
            self.fetches[follower] = witness(event)

    def moved(self, event: Stamped, what: str, new: int, ends: dict[str, int], core: set[str]) -> None:
        """A broker's high watermark, or its log start, has moved. A follower does not get beyond its own log end
        (``ends``), and its log start not beyond its high watermark."""
        known = self.known[what]
        known[event.node] = new
        if event.node != self.leads:
            name = f"{what} {event.node}"
            if name in self.untold and new >= self.untold[name].target:
                del self.untold[name]
            return
        caps = ends if what == HIGH_WATERMARK else self.known[HIGH_WATERMARK]
        for follower, fetch in self.fetches.items():
            name, target = f"{what} {follower}", min(new, caps.get(follower, 0))
            if follower in core and name not in self.untold and known.get(follower, 0) < target:
                self.untold[name] = Untold(what, follower, target, event.wall, witness(event), fetch)

    def take(self, event: Stamped, ends: dict[str, int], core: set[str], *, free: bool) -> None:
        """An event of the partition. ``free``: nothing stands in the way of the brokers in the core."""
        body = event.body
        if type(body) is PartAssume:
            self.assume(event, body)
        elif type(body) is RepFetch:
            if free and event.node in core:
                self.fetched(event, body)
        elif type(body) is LogHw:
            self.moved(event, HIGH_WATERMARK, body.new, ends, core)
        elif type(body) is LogStart:
            self.moved(event, LOG_START, body.new, ends, core)
        elif type(body) is LogTrunc:
            marks = self.known[HIGH_WATERMARK]
            marks[event.node] = min(marks.get(event.node, 0), body.to)
            self.forget(event.node)

    def arm_us(self) -> int:
        """When the first is due, if it is not looked at before; -1 if nothing need be done."""
        due_us = min((each.since_us for each in self.untold.values()), default=-1)
        if due_us < 0 or 0 <= self.armed_us <= due_us + self.bound_us:
            return -1
        self.armed_us = due_us + self.bound_us
        return self.armed_us

    def overdue(self, at_us: int) -> list[Untold]:
        """What has not been told in time."""
        if at_us != self.armed_us:
            return []
        self.armed_us = -1
        late = {name: each for name, each in self.untold.items() if each.since_us + self.bound_us <= at_us}
        for name in late:
            del self.untold[name]
        return list(late.values())
