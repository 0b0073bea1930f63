"""Drawers: for each fault and action of the scenario language a function that draws what is in it.

A new kind needs a drawer here and a weight in the nemeses that want it. Before that it is made part of the language: a
class in ``chaos.faults``, its model, checks and resolution in ``chaos.scenario``, its name in ``chaos.plan``, what the
two runtimes do (``actors.control``). It is drawn, but neither varied nor made small, before ``chaos.mutation`` and
``chaos.shrink`` know it; what happens under it is counted by ``orchestrator.coverage``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.crash_points import POINTS
from chaos.nemesis.model import NOTHING
from chaos.nemesis.scene import APIS, BROKERS, SERVERS, SINGLE_SERVERS, VOTERS, Part, Scene
from chaos.nemesis.settings import bounce_settings
from chaos.scenario.durations import format_offset
from chaos.scenario.model import Action, Fault

Drawer = Callable[[Scene], Any]
"""Draws what stands behind the kind in a scenario file."""

DRAWERS: dict[str, Drawer] = {}
"""Kind, as a scenario writes it -> its drawer."""

FAULT_KINDS = tuple(field.alias or name for name, field in Fault.model_fields.items())
ACTION_KINDS = tuple(field.alias or name for name, field in Action.model_fields.items())
KINDS = (*FAULT_KINDS, *ACTION_KINDS)
"""All faults and actions of the scenario language."""
LASTING = tuple(name.replace("_", "-") for name in Action.LASTING)
"""Actions that have an end of their own."""

VOTER_CHANGES = ("add-voter", "remove-voter")
"""Actions that there are where the voters are in the log."""

FILES = ("quorum-state", "__cluster_metadata-0", "replication-offset-checkpoint")


def drawer(kind: str) -> Callable[[Drawer], Drawer]:
    """Register a drawer."""

    def register(function: Drawer) -> Drawer:
        DRAWERS[kind] = function
        return function

    return register


# ---- links -----------------------------------------------------------------------------------------------------


@drawer("partition")
def _partition(scene: Scene) -> Part:
    return scene.link()


@drawer("delay")
def _delay(scene: Scene) -> Part:
    return {**scene.link(), **_slower(scene)}


def _slower(scene: Scene) -> Part:
    by = scene.pick(scene.nemesis.like.slower_by)
    return {"by": scene.duration(by), "jitter": scene.duration(scene.draw.randrange(by // 1000 + 1) * 1000)}


@drawer("drop")
@drawer("duplicate")
def _by_chance(scene: Scene) -> Part:
    apis = scene.draw.sample(APIS, min(len(APIS), scene.pick(scene.nemesis.like.apis)))
    named = {"apis": apis} if apis else {}
    return {**scene.link(), "chance": scene.pick(scene.nemesis.like.chance), **named}


@drawer("reorder")
def _reorder(scene: Scene) -> Part:
    return {**_by_chance(scene), "by": scene.duration(scene.pick(scene.nemesis.like.slower_by))}


# ---- processes and disks ---------------------------------------------------------------------------------------


@drawer("pause")
def _pause(scene: Scene) -> list[str]:
    return scene.some()


@drawer("crash")
def _crash(scene: Scene) -> Part:
    point = _point(scene)
    return {"nodes": scene.some(SERVERS if point else ()), **point}


@drawer("power-loss")
@drawer("torn-tail")
def _loss(scene: Scene) -> Part:
    return {"nodes": scene.some(SERVERS), **_point(scene)}


@drawer("wipe")
def _wipe(scene: Scene) -> Part:
    whose = VOTERS if scene.pick(scene.nemesis.like.wiped) == "voter" else BROKERS
    return {"nodes": [scene.one(whose)], **_point(scene)}


def _point(scene: Scene) -> Part:
    """Where the process ends, now and then: else at once."""
    point = scene.pick(scene.nemesis.like.point)
    if point == NOTHING:
        return {}
    subjects = {
        "file": (*FILES, scene.tp),
        "api": APIS,
        "partition": (scene.tp, "__cluster_metadata-0"),
    }
    of = {"of": scene.draw.choice(subjects[POINTS[point].subject])} if scene.draw.random() < 0.7 else {}
    return {"at": point, "nth": max(1, scene.pick(scene.nemesis.like.nth)), **of}


@drawer("slow-disk")
def _slow_disk(scene: Scene) -> Part:
    return {"nodes": scene.some(SERVERS), **_slower(scene)}


# ---- clocks ----------------------------------------------------------------------------------------------------


@drawer("clock-skew")
def _clock_skew(scene: Scene) -> Part:
    rate = {"rate": scene.pick(scene.nemesis.like.clock_rate)}
    wrong = scene.draw.choice(({"offset": _offset(scene)}, rate, {"offset": _offset(scene), **rate}))
    return {"nodes": scene.some(), **wrong}


@drawer("clock-jump")
def _clock_jump(scene: Scene) -> Part:
    return {"nodes": scene.some(), "by": _offset(scene)}


def _offset(scene: Scene) -> str:
    return format_offset(scene.pick(scene.nemesis.like.clock) * scene.draw.choice((1, -1)))


# ---- operators -------------------------------------------------------------------------------------------------


@drawer("elect")
def _elect(scene: Scene) -> Part:
    """Records are given up only where the configuration says that they may be."""
    kind = scene.pick(scene.nemesis.like.election) if scene.cast.unclean else "preferred"
    return {"partitions": scene.draw.choice(("all", scene.tp)), "type": kind}


@drawer("configure")
def _configure(scene: Scene) -> Part:
    topic, unclean = scene.cast.topic, "unclean.leader.election.enable"
    changes: list[Part] = [
        {"topic": topic, "set": {unclean: scene.cast.unclean}},
        {"topic": topic, "delete": [unclean]},
        {"topic": topic, "set": {"min.insync.replicas": 1}},
        {"broker": ["any(1)"], "set": {"num.io.threads": scene.draw.choice((1, 2, 8))}},
        {"cluster": True, "delete": ["num.io.threads"]},
    ]
    return scene.draw.choice(changes)


@drawer("describe-quorum")
def _describe_quorum(scene: Scene) -> Part:
    return {}


@drawer("add-voter")
def _add_voter(scene: Scene) -> Part:
    """Of anybody: a spare controller, one that was removed, or whose disk was wiped; a voter already is refused."""
    return {"controller": scene.draw.choice(scene.cast.controllers)}


@drawer("remove-voter")
def _remove_voter(scene: Scene) -> Part:
    return {"controller": scene.one(VOTERS)}


@drawer("controlled-shutdown")
def _controlled_shutdown(scene: Scene) -> Part:
    return {"targets": scene.one(SINGLE_SERVERS)}


@drawer("rolling-bounce")
def _rolling_bounce(scene: Scene) -> Part:
    targets = scene.pick(scene.nemesis.like.bounced)
    if targets == "one":
        targets = scene.draw.choice(scene.cast.servers)
    return {"targets": targets, "timeout": "20s", **bounce_settings(scene, targets)}
