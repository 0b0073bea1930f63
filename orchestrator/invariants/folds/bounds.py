"""The bounds of promises of progress: the sum of Kafka's timers on the path, and two seconds.

One table for all invariants that have a deadline. A bound is computed from the settings of the run: of each timer, the
longest value of any node.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.config import CONFIG
from actors.node.spec import node_name
from orchestrator.invariants.folds.fold import Profile

SLACK_US = 2_000_000
"""The addition to every sum of timers: for processing, messages under way, and catching up."""
NEVER_US = 1 << 62
"""A time that does not come."""


Who = Literal["server", "producer", "consumer", "client"]


class Timer(msgspec.Struct, frozen=True):
    """A timer on a path: ``times`` the configuration key ``key``. why: the event that the timer delays; who: the kind
    of node that has the timer."""

    key: str
    times: float
    why: str
    who: Who = "server"


class Bound(msgspec.Struct, frozen=True):
    """A deadline. after: ids of earlier steps, whose timers are added (their slack is not)."""

    what: str
    timers: tuple[Timer, ...] = ()
    after: tuple[str, ...] = ()


BOUNDS: dict[str, Bound] = {
    "L1": Bound(
        "a quorum leader that most voters acknowledge",
        (
            Timer("controller.quorum.fetch.timeout.ms", 1, "followers notice that the leader is silent"),
            Timer("controller.quorum.request.timeout.ms", 1, "a request to a silent voter"),
            Timer("controller.quorum.election.timeout.ms", 4, "two rounds, each of up to twice the time"),
            Timer("controller.quorum.election.backoff.max.ms", 2, "back-off after each round without a winner"),
        ),
    ),
    "L12": Bound(
        "a broker is unfenced",
        (
            Timer("broker.session.timeout.ms", 1, "the session of its former incarnation"),
            Timer("broker.session.timeout.ms", 1, "two requests to a silent controller, half of it each"),
            Timer("broker.heartbeat.interval.ms", 2, "the heartbeat that reports it caught up, and the next one"),
            Timer("reconnect.backoff.max.ms", 1, "a connection to the controller"),
        ),
        after=("L1",),
    ),
    "L3": Bound(
        "a partition has a leader that has taken over",
        (
            Timer("broker.session.timeout.ms", 1, "the silent leader is fenced"),
            Timer("broker.heartbeat.interval.ms", 1, "a new controller restarts every session"),
            Timer(
                "controller.quorum.fetch.timeout.ms",
                1,
                "the new leader learns of its election, after a silent controller",
            ),
            Timer("reconnect.backoff.max.ms", 1, "a connection to the controller"),
        ),
        after=("L1",),
    ),
    "L19": Bound(
        "the preferred replica leads",
        (
            Timer(
                "leader.imbalance.check.interval.seconds",
                1000,
                "the active controller looks for such partitions, first so long after it became active; in seconds",
            ),
        ),
        after=("L1",),
    ),
    "H3": Bound(
        "a new leader's high watermark reaches its leader epoch's start",
        (
            Timer("controller.quorum.fetch.timeout.ms", 1, "followers learn of the new leader"),
            Timer("reconnect.backoff.max.ms", 2, "their connections to the controller and to the leader"),
            Timer("replica.fetch.backoff.ms", 1, "a fetch that arrived before the leader took over"),
            Timer("replica.fetch.wait.max.ms", 2, "a fetch that waits for data, and the one that reports the log end"),
        ),
        after=("L1",),
    ),
    "L4": Bound(
        "a replica is in the ISR again",
        (
            Timer("replica.socket.timeout.ms", 1, "an earlier fetch that is never answered"),
            Timer("replica.fetch.backoff.ms", 1, "the pause after it"),
            Timer("replica.fetch.wait.max.ms", 2, "the fetches that show it caught up"),
            Timer("request.timeout.ms", 1, "an AlterPartition to a silent controller"),
        ),
        after=("L3", "L12"),
    ),
    "L14": Bound("an acknowledged record is on every replica", after=("L4",)),
    "L15": Bound("the cluster is steady again", after=("L4",)),
    "L5": Bound(
        "a send returns",
        (
            Timer("linger.ms", 1, "the batch is sent", "producer"),
            Timer("request.timeout.ms", 2, "requests to a silent broker: metadata, then the batch", "producer"),
            Timer("retry.backoff.max.ms", 2, "the pauses after them", "producer"),
            Timer("replica.lag.time.max.ms", 1.5, "a silent follower leaves the ISR"),
            Timer("request.timeout.ms", 1, "by an AlterPartition"),
        ),
        after=("L3",),
    ),
    "L6": Bound(
        "a consumer reads to the high watermark",
        (
            Timer("request.timeout.ms", 2, "requests to a silent broker: metadata, then the fetch", "consumer"),
            Timer("retry.backoff.max.ms", 2, "the pauses after them", "consumer"),
            Timer("fetch.max.wait.ms", 1, "a fetch that waits for data", "consumer"),
        ),
        after=("L3",),
    ),
    "L11": Bound(
        "a group is stable, and all its partitions are owned",
        (
            Timer("session.timeout.ms", 1, "the coordinator removes a silent member", "consumer"),
            Timer("group.initial.rebalance.delay.ms", 2, "a group that was empty waits for more members"),
            Timer(
                "heartbeat.interval.ms", 4, "members learn of a rebalance, and of a second one (KIP-429)", "consumer"
            ),
            Timer("request.timeout.ms", 2, "requests to a silent broker: for the coordinator, and to it", "consumer"),
            Timer("retry.backoff.max.ms", 4, "the pauses after them", "consumer"),
        ),
        after=("L3",),
    ),
    "L18": Bound(
        "a member finds the committed positions",
        (
            Timer("request.timeout.ms", 2, "requests to a silent broker: for the coordinator, and to it", "consumer"),
            Timer("retry.backoff.max.ms", 4, "the pauses after them", "consumer"),
            Timer("reconnect.backoff.max.ms", 1, "a connection to the coordinator", "consumer"),
        ),
        after=("L3",),
    ),
    "T9": Bound(
        "a transaction whose timeout is over ends on its partitions",
        (
            Timer(
                "transaction.abort.timed.out.transaction.cleanup.interval.ms",
                1,
                "its coordinator looks for such transactions",
            ),
            Timer("request.timeout.ms", 2, "a decision that is not replicated in time; markers to a silent leader"),
            Timer("reconnect.backoff.max.ms", 2, "connections of the coordinator, and of followers"),
            Timer("replica.fetch.wait.max.ms", 2, "the decision and the marker are replicated"),
        ),
        after=("L3",),
    ),
    "L20": Bound("no transaction fails for what a fault has left behind", after=("L4", "L5")),
    "L10": Bound(
        "the last stable offset passes a transaction whose timeout is over",
        (Timer("replica.fetch.wait.max.ms", 2, "the marker is replicated, and the leader learns of that"),),
        after=("T9",),
    ),
    "L13": Bound(
        "a retrying node makes progress",
        (
            Timer("request.timeout.ms", 2, "requests to a silent broker: metadata, then the actual request", "client"),
            Timer("retry.backoff.max.ms", 2, "the pauses after them", "client"),
        ),
        after=("L4",),
    ),
    "L8": Bound(
        "a broker's image reaches the end of the metadata log",
        (
            Timer("controller.quorum.fetch.timeout.ms", 1, "a fetch that a silent controller never answers"),
            Timer("controller.quorum.request.timeout.ms", 2, "a request to a silent voter, and a snapshot"),
            Timer("controller.quorum.retry.backoff.ms", 2, "the pauses after errors"),
            Timer("reconnect.backoff.max.ms", 1, "a connection to the leader of the quorum"),
        ),
        after=("L1",),
    ),
    "L16": Bound("a client gets the current metadata", after=("L8", "M2")),
    "M2": Bound(
        "a client refreshes its metadata",
        (
            Timer(
                "request.timeout.ms", 2, "a refresh from a silent broker, and one that was under way before", "client"
            ),
            Timer("retry.backoff.max.ms", 2, "the pauses after them", "client"),
            Timer("reconnect.backoff.max.ms", 1, "a connection to another broker", "client"),
        ),
    ),
    "L9": Bound(
        "a change of the voters is committed or undone",
        (
            Timer("controller.quorum.fetch.timeout.ms", 1, "members learn of the leader, after a silent one"),
            Timer("controller.quorum.request.timeout.ms", 2, "a fetch that is never answered, and a snapshot"),
            Timer("reconnect.backoff.max.ms", 2, "their connections to the leader"),
            Timer("controller.quorum.retry.backoff.ms", 2, "the pauses after errors"),
        ),
        after=("L1",),
    ),
    "L9/join": Bound(
        "a controller that is to join by itself becomes a voter",
        (
            Timer("controller.quorum.fetch.timeout.ms", 1, "it learns of the leader, after a silent one"),
            Timer("controller.quorum.fetch.timeout.ms", 3, "three looks whether it is a voter"),
            Timer("controller.quorum.request.timeout.ms", 2, "a request that is never answered, and its own"),
            Timer("reconnect.backoff.max.ms", 2, "its connection to the leader, and the leader's to it"),
            Timer("controller.quorum.retry.backoff.ms", 2, "the pauses after errors"),
        ),
    ),
    "R12": Bound(
        "a copy of a segment is finished, or its stored objects are deleted",
        (
            Timer(
                "remote.log.manager.task.interval.ms", 3, "the run of the task that deletes it, after two that failed"
            ),
            Timer("request.timeout.ms", 4, "requests that were under way, and their connections"),
            Timer("reconnect.backoff.max.ms", 4, "connections to the store and to the leader of its metadata"),
        ),
        after=("L3",),
    ),
    "R12/deletion": Bound(
        "a deletion of a copy ends, once the metadata say that it has begun, or that was given up",
        (
            Timer("request.timeout.ms", 1, "a connection to the store that is never made"),
            Timer("reconnect.backoff.max.ms", 1, "the next one"),
            Timer("rlmm.config.remote.log.metadata.consume.wait.ms", 1, "to tell that it is over, or to give that up"),
            Timer("broker.session.timeout.ms", 0.5, "a broker that hears nothing sees then that this time is over"),
        ),
    ),
    "L21": Bound(
        "a leader finishes the copy of a segment",
        (
            Timer("remote.log.manager.task.interval.ms", 2, "the runs of its task after one that failed"),
            Timer(
                "request.timeout.ms", 1, "a request that was under way to the store, or to the leader of its metadata"
            ),
            Timer("reconnect.backoff.max.ms", 1, "a connection to one of them"),
            Timer(
                "rlmm.config.remote.log.metadata.consume.wait.ms", 1, "it hears of what it has told the metadata topic"
            ),
        ),
    ),
    "R13": Bound(
        "a copy that need not be retained goes",
        (Timer("remote.log.manager.task.interval.ms", 2, "the task that looks, and one look that came too early"),),
    ),
    "L17": Bound(
        "a replica deletes a segment that need not be retained",
        (
            Timer("log.initial.task.delay.ms", 1, "a broker that started looks for the first time"),
            Timer("log.retention.check.interval.ms", 1, "it looks again"),
        ),
    ),
    "P18": Bound("a leader's high watermark follows its replicas' logs"),
}
"""Invariant -> its bound."""


ROLES: dict[Who, tuple[str, ...]] = {
    "server": ("controller-", "broker-"),
    "producer": ("producer-",),
    "consumer": ("consumer-",),
    "client": ("producer-", "consumer-", "list-offsets-"),
}
"""Whose timer it is -> beginnings of the names of those nodes."""


def longest_ms(profile: Profile, key: str, who: Who = "server") -> int:
    """The longest value that a node of a kind has for a timer; Kafka's default if the run does not set it."""
    own = [
        section["config"][key]
        for name, section in profile.nodes.items()
        if name.startswith(ROLES[who]) and key in section.get("config", {})
    ]
    if who == "server":
        own.append(profile.setting(key, default=CONFIG[key].default))
    return max((int(each) for each in own), default=int(CONFIG[key].default))


def by_node_us(profile: Profile, key: str) -> dict[str, int]:
    """A timer of servers in microseconds, by node; under "" the longest one, for nodes that the run does not name."""
    longest = longest_ms(profile, key)
    names = (*map(node_name, profile.voters), *profile.nodes)
    return {"": 1000 * longest, **{name: 1000 * int(profile.setting(key, name, longest)) for name in names}}


def timers_of(invariant: str) -> list[Timer]:
    """All timers on the path of an invariant, each step of the path once."""
    found: dict[str, None] = {}
    waiting = [invariant]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting.extend(BOUNDS[name].after)
    return [timer for name in found for timer in BOUNDS[name].timers]


def bound_us(profile: Profile, invariant: str) -> int:
    """The length of an invariant's bound in a run, microseconds."""
    return SLACK_US + sum(
        round(timer.times * 1000 * longest_ms(profile, timer.key, timer.who)) for timer in timers_of(invariant)
    )
