"""What a drawer of a fault works with: its own stream of random numbers, the nemesis, and who is there to be hit."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

import msgspec

from actors.client.admin import APIS as CALLS
from actors.node.spec import REMOTE_STORE
from chaos.nemesis.model import Nemesis, Target
from chaos.scenario.durations import format_duration
from chaos.scenario.selectors import ROLES
from chaos.scenario.triggers import CONTROLLER, TRIGGERS, Argument

T = TypeVar("T")

Part = dict[str, Any]
"""A part of a scenario file."""

APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "Vote",
    "BeginQuorumEpoch",
    "AlterPartition",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "InitProducerId",
)
"""What a fault can be narrowed to, and a trigger wait for."""
GROUP_APIS = ("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "LeaveGroup")
"""The same where there is a group."""
TRANSACTION_APIS = ("AddPartitionsToTxn", "EndTxn", "WriteTxnMarkers")
"""The same where there are transactions."""
GROUP_TRIGGERS = ("rebalance-begun", "members-joined", "group-stable", "coordinator-loaded")
"""Are seen where there is a group."""
MINTED_TRIGGERS = ("epoch-minted",)
"""Are seen where controllers count metadata epochs."""
ERRORS = ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS")
"""What a trigger can wait for a client to meet."""
UNCLEAN = "unclean.leader.election.enable"
"""The key by which records may be given up for a leader."""
OFFSETS = (10, 400)
"""Between these a trigger waits for a log to get."""


def stream(nemesis: str, seed: int, purpose: str) -> random.Random:
    """The random numbers for one purpose: a new draw for one shifts no other."""
    return random.Random(f"nemesis/{nemesis}/{seed}/{purpose}")


def pick(draw: random.Random, weights: Mapping[T, float]) -> T:
    """One of the choices, as often as its weight says."""
    return draw.choices(list(weights), list(weights.values()))[0]


class Cast(msgspec.Struct, frozen=True):
    """Who and what there is in a drawn cluster. tps: topic partitions -> number of replicas. unclean: whether records
    may be given up for a leader. changing: whether voters can be added and removed. voters: how many of the controllers
    are voters in the beginning. strangers: those of them whose disks belong to another cluster. group, members: the
    group of consumers, "" none, and those in it. pushed: whether controllers push metadata. minted: whether they count
    metadata epochs. keepers: consumers that keep their offsets outside Kafka. transactional_ids: of
    producers. remote_store: whether there is one. waits_us: for an answer, in microseconds; then it is asked again.
    lasting_epochs: whether producers keep their epoch from one transaction to the next (transaction.version 0 or 1).
    static_members: members with an instance id. hasty_ids: transactional ids of producers that give a record up while
    their transaction may go on."""

    controllers: list[str]
    brokers: list[str]
    clients: list[str]
    topic: str
    tps: dict[str, int]
    unclean: bool
    changing: bool
    voters: int
    strangers: list[str]
    group: str = ""
    members: list[str] = []
    pushed: bool = False
    minted: bool = False
    keepers: list[str] = []
    transactional_ids: list[str] = []
    remote_store: bool = False
    waits_us: int = 2_000_000
    lasting_epochs: bool = False
    static_members: list[str] = []
    hasty_ids: list[str] = []

    @property
    def servers(self) -> list[str]:
        """All that have a disk."""
        return [*self.controllers, *self.brokers]

    @property
    def nodes(self) -> list[str]:
        """All of them."""
        return [*self.servers, *self.clients]


class Scene(msgspec.Struct):
    """One fault that is being drawn. tp: the topic partition that it is about; chaos_us: length of the chaos."""

    draw: random.Random
    nemesis: Nemesis
    cast: Cast
    tp: str
    chaos_us: int

    def pick(self, weights: Mapping[T, float]) -> T:
        """One of the choices."""
        return pick(self.draw, weights)

    def one(self, among: tuple[Target, ...] = ()) -> str:
        """A selector, by the weights of ``targets``: of these kinds alone if any are given."""
        weights = {each: weight for each, weight in self.nemesis.targets.items() if not among or each in among}
        absent = (*(() if self.cast.group else OF_GROUPS), *(() if self.cast.transactional_ids else OF_TRANSACTIONS))
        absent = (*absent, *(() if self.cast.remote_store else OF_TIERS))
        weights = {each: weight for each, weight in weights.items() if each not in absent}
        if not any(weights.values()):
            always = [each for each in among if each not in (*OF_GROUPS, *OF_TRANSACTIONS, *OF_TIERS)]
            weights = dict.fromkeys(always or ["broker"], 1.0)
        return _SELECT[self.pick(weights)](self)

    def server(self) -> str:
        """A selector of something that has a disk."""
        return self.one(SERVERS)

    def broker(self) -> str:
        """A selector of one broker, or of none."""
        return self.one(BROKERS)

    def some(self, among: tuple[Target, ...] = ()) -> list[str]:
        """One selector or several, each once."""
        number = max(1, self.pick(self.nemesis.like.several))
        return list(dict.fromkeys(self.one(among) for _ in range(number)))

    def follower(self) -> str:
        """The selector of one follower, or of the leader where there are no followers."""
        others = self.cast.tps[self.tp] - 1
        return f"followers({self.tp})[{self.draw.randrange(others)}]" if others else f"leader({self.tp})"

    @property
    def apis(self) -> tuple[str, ...]:
        """What a fault can be narrowed to here."""
        of_transactions = TRANSACTION_APIS if self.cast.transactional_ids else ()
        return (*APIS, *(GROUP_APIS if self.cast.group else ()), *of_transactions)

    def link(self) -> Part:
        """Which messages a fault on links hits."""
        form = self.pick(self.nemesis.like.form)
        if form == "isolate":
            return {"isolate": self.one()}
        first, second = ("between", "and") if form == "between" else ("from", "to")
        return {first: self.some(), second: self.some()}

    def duration(self, us: int) -> str:
        """As the scenario language writes it."""
        return format_duration(us)

    def between(self, bounds: tuple[int, int]) -> int:
        """Microseconds between two durations, whole milliseconds, short ones as likely as long ones."""
        low, high = bounds
        us = low * float((high / low) ** self.draw.random())
        return max(1, round(us / 1000)) * 1000

    def seen(self) -> Part:
        """A moment when something is seen."""
        never = (*(() if self.cast.group else GROUP_TRIGGERS), *(() if self.cast.minted else MINTED_TRIGGERS))
        trigger = self.pick({name: weight for name, weight in self.nemesis.chaos.seen.items() if name not in never})
        given = {}
        for argument in TRIGGERS[trigger].arguments:
            value = _argument(self, argument)
            if argument.required or (argument.name == "tp" and self.draw.random() < 0.8):
                given[argument.name] = value
        delay = self.pick(self.nemesis.chaos.delay)
        nth = self.pick(self.nemesis.like.nth)
        return {"seen": {trigger: given}, "nth": max(1, nth), "delay": format_duration(delay)}


def slower(scene: Scene) -> Part:
    """By how much a message, or a Sync, takes longer."""
    by = scene.pick(scene.nemesis.like.slower_by)
    return {"by": scene.duration(by), "jitter": scene.duration(scene.draw.randrange(by // 1000 + 1) * 1000)}


GROUPS: tuple[Target, ...] = ("brokers", "controllers")
OF_GROUPS: tuple[Target, ...] = ("coordinator", "member")
OF_TRANSACTIONS: tuple[Target, ...] = ("transaction-coordinator",)
OF_TIERS: tuple[Target, ...] = ("remote-store",)
WITHOUT_DISK: tuple[Target, ...] = ("client", "clients", "member", *OF_TIERS)
SERVERS: tuple[Target, ...] = tuple(each for each in get_args(Target) if each not in WITHOUT_DISK)
SINGLE_SERVERS = tuple(each for each in SERVERS if each not in GROUPS)
VOTERS: tuple[Target, ...] = ("active-controller", "quorum-follower", "controller")
BROKERS: tuple[Target, ...] = ("leader", "follower", "isr", "broker", "coordinator", "transaction-coordinator")

_SELECT: dict[Target, Callable[[Scene], str]] = {
    "leader": lambda scene: f"leader({scene.tp})",
    "follower": Scene.follower,
    "isr": lambda scene: f"isr({scene.tp})[{scene.draw.randrange(scene.cast.tps[scene.tp])}]",
    "active-controller": lambda scene: "active-controller",
    "quorum-follower": lambda scene: f"voters(follower)[{scene.draw.randrange(len(scene.cast.controllers))}]",
    "observer": lambda scene: f"observers[{scene.draw.randrange(len(scene.cast.brokers))}]",
    "broker": lambda scene: scene.draw.choice(scene.cast.brokers),
    "controller": lambda scene: scene.draw.choice(scene.cast.controllers),
    "client": lambda scene: scene.draw.choice(scene.cast.clients),
    "brokers": lambda scene: "brokers",
    "controllers": lambda scene: "controllers",
    "clients": lambda scene: "clients",
    "coordinator": lambda scene: f"coordinator({scene.cast.group})",
    "remote-store": lambda scene: REMOTE_STORE,
    "member": lambda scene: scene.draw.choice(scene.cast.members),
    "transaction-coordinator": lambda scene: (
        f"transaction-coordinator({scene.draw.choice(scene.cast.transactional_ids)})"
    ),
}


def _argument(scene: Scene, argument: Argument) -> Any:
    """A value for a trigger's argument."""
    if argument.kind in ("tp", "log"):
        return scene.tp
    if argument.kind == "int":
        return scene.draw.randrange(*OFFSETS)
    if argument.kind == "api":
        return scene.draw.choice(scene.apis)
    if argument.kind == "role":
        return scene.draw.choice(ROLES)
    if argument.kind == "error":
        return scene.draw.choice(ERRORS)
    if argument.kind == "call":
        return scene.draw.choice(tuple(CALLS))
    if argument.kind == "by":
        # It takes no number, so that the schedules of a seed are what they were without this argument.
        return CONTROLLER
    return scene.draw.choice(scene.cast.brokers)
