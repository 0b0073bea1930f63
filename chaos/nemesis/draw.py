"""From a nemesis and a seed to a scenario: a pure function. Each part is drawn from a stream of its own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from actors.config import setting
from actors.features import FEATURES, KIP_232, TRANSACTION_VERSION
from actors.quorum.raft_config import KRAFT_VERSION_FEATURE
from chaos.faults.base import Fault
from chaos.faults.kinds import KINDS, body_of, entry_of, kinds_of
from chaos.faults.operator import VoterChange
from chaos.faults.store import StoreFault
from chaos.faults.topics import RecordDeletion, TopicAction, TopicCreation, TopicDeletion
from chaos.nemesis.model import NOTHING, Nemesis, Timers
from chaos.nemesis.parts import FIRST_US
from chaos.nemesis.patterns import PATTERNS
from chaos.nemesis.scene import SINGLE_SERVERS, UNCLEAN, Cast, Part, Scene, pick, stream
from chaos.nemesis.settings import (
    GROUP_TIMERS,
    OFFSETS_PARTITIONS,
    PROPAGATION,
    TIER_TIMERS,
    config_of,
    features_of,
    server_overrides,
    strangers_of,
    with_epochs,
)
from chaos.nemesis.situations.groups import GROUPS, OF_STATIC
from chaos.nemesis.situations.metadata import KEPT, METADATA, PUSHED
from chaos.nemesis.situations.retention import RETENTION
from chaos.nemesis.situations.tiers import TIERS
from chaos.nemesis.situations.transactions import (
    OF_HASTY,
    OF_LASTING_EPOCHS,
    OF_PROCESSORS,
    TRANSACTIONS,
)
from chaos.nemesis.workload import (
    GROUP,
    client_names,
    fit_batches,
    hasty_ids_of,
    keepers_of,
    members_of,
    share_id,
    static_members_of,
    tell_topics_apart,
    topics_of,
    transactional_ids_of,
    workload_of,
)
from chaos.scenario.durations import format_duration, parse_duration_us
from chaos.scenario.scalars import RANDOM

TOPIC = "orders"
OF_TRANSACTIONS = "transaction."
"""What keys begin with that mean nothing without transactions."""
OF_GROUPS = (OFFSETS_PARTITIONS, "offsets.retention.", "krift.offsets.")
"""And without groups."""
OF_ONCE = "krift.offsets."
"""And for who processes each record once: an expired position makes it begin anew, which nobody promises to prevent."""
OF_TIERS = ("remote.", "rlmm.", "log.remote.", "log.local.")
"""And without tiered storage."""
OF_RETENTION = ("log.segment.", "log.roll.", "log.retention.", "log.initial.task.", "log.flush.start.")
"""And where nothing is deleted."""
LAST_US = 20_000
"""And nothing later than that before the end of the chaos."""
LATER = ("keeps-behind", "forgotten-start", "stands-in-vain", "restarts-alone", "unheard-life")
LATE_PATTERNS = frozenset({*GROUPS, *METADATA, *RETENTION, *OF_LASTING_EPOCHS, *OF_HASTY, *LATER})
LATE_FAULTS = kinds_of(TopicAction, RecordDeletion)
"""What nemeses came to draw when seeds were in use: no seed is to draw anything else for it."""


def draw(nemesis: Nemesis, seed: int, round_: int | None = None) -> Part:
    """A scenario document, which is an ordinary scenario file once it is written down. ``round_``: of a soak."""
    timers = pick(stream(nemesis.name, seed, "timers"), nemesis.timers)
    duration = Scene(stream(nemesis.name, seed, "duration"), nemesis, _nobody(), "", 0)
    chaos_us = duration.between(duration.pick(nemesis.chaos.duration))
    shape = stream(nemesis.name, seed, "shape")
    voters, brokers = max(1, pick(shape, nemesis.shape.voters)), max(1, pick(shape, nemesis.shape.brokers))
    replicas = _replicas(shape, nemesis, brokers)
    least = min(max(1, pick(shape, nemesis.shape.min_insync_replicas)), *map(len, replicas))
    config = config_of(nemesis, seed, timers)
    features = with_epochs(features_of(nemesis, seed), config)
    changing = features.get(KRAFT_VERSION_FEATURE) == "1"
    spare = pick(stream(nemesis.name, seed, "spare"), nemesis.shape.spare_controllers) if changing else 0
    tiered = pick(stream(nemesis.name, seed, "tiers"), nemesis.shape.remote_store) == "yes"
    workload = workload_of(nemesis, seed, TOPIC, brokers, timers, chaos_us, tiered)
    share_id(nemesis, seed, workload, _transaction_version(features))
    members = members_of(workload)
    config = _config_for(config, timers, members, transactional_ids_of(workload))
    config = _config_of_tiers(config, timers, brokers, tiered, _deletes(nemesis, seed))
    fit_batches(workload, config)
    controllers = [f"controller-{number}" for number in range(1, voters + spare + 1)]
    cast = Cast(
        controllers,
        [f"broker-{number}" for number in range(1, brokers + 1)],
        client_names(workload),
        TOPIC,
        {f"{TOPIC}-{number}": len(each) for number, each in enumerate(replicas)},
        config.get(UNCLEAN) is True,
        changing,
        voters,
        strangers_of(nemesis, seed, controllers[:voters]),
        GROUP if members else "",
        members,
        config.get(PROPAGATION) == "push",
        features.get(KIP_232) == "seed",
        keepers_of(workload),
        transactional_ids_of(workload),
        tiered,
        setting(config, "request.timeout.ms") * 1000,
        _transaction_version(features) != "2",
        static_members_of(workload),
        hasty_ids_of(workload),
    )
    chaos = chaos_of(nemesis, seed, cast, chaos_us)
    if round_ is not None:
        chaos_us, chaos = _round_of(nemesis, seed, round_, cast)
    if any(body_of(entry)[0] is TopicCreation for entry in chaos):
        tell_topics_apart(workload)
    disruptive = any(_is_disruptive(each) for each in (features, *_bounced_to(chaos)))
    return {
        "schema": "krift/v1",
        "name": nemesis.name,
        "about": f"Drawn from seed {seed}. {nemesis.about}",
        "seed": seed,
        "duration": format_duration(chaos_us),
        "cluster": {
            **_servers(voters, spare, brokers, tiered),
            "topics": _topics(workload, replicas, least, tiered),
            "config": config,
        },
        "features": features,
        "nodes": server_overrides(nemesis, seed, cast),
        "workload": workload,
        "chaos": chaos,
        **({} if disruptive or round_ is not None else healing_of(nemesis, seed)),
        # With Kafka's own timers it may take that long; whether a run is given up is decided by nothing shorter.
        "budgets": {"heal": "150s", "drain": "300s"},
        "expect": _expected(cast, disruptive),
    }


def _replicas(shape: random.Random, nemesis: Nemesis, brokers: int) -> list[list[int]]:
    """Of each partition."""
    return [
        shape.sample(range(1, brokers + 1), min(brokers, max(1, pick(shape, nemesis.shape.replicas))))
        for _ in range(max(1, pick(shape, nemesis.shape.partitions)))
    ]


def _expected(cast: Cast, disruptive: bool) -> Part:
    """What may be violated. What a drawn schedule had no time to test is no reason to doubt the run."""
    # Where voters raise their epoch alone, nobody promises that a good leader is left in peace. With metadata epochs a
    # consumer may have read from a leader that came back before its metadata tells of it: then an answer that is newer
    # than its metadata, and older than what it has read, sends it to the leader in between.
    may = ["L2"] * disruptive + ["M4"] * cast.minted
    return {"violated": [], "may": may} if may else {"violated": []}


def _round_of(nemesis: Nemesis, seed: int, number: int, cast: Cast) -> tuple[int, list[Part]]:
    """How long a round of a soak lasts, and its schedule, without what a later round would find changed. The cluster is
    that of the seed in all of them."""
    seed = stream(nemesis.name, seed, f"round/{number}").getrandbits(62)
    scene = Scene(stream(nemesis.name, seed, "duration"), nemesis, cast, "", 0)
    chaos_us = scene.between(scene.pick(nemesis.chaos.duration))
    chaos = chaos_of(nemesis, seed, cast, chaos_us)
    return chaos_us, [entry for entry in chaos if not _lasts_for_good(*body_of(entry))]


def _lasts_for_good(kind: type[Fault], body: Any) -> bool:
    if issubclass(kind, TopicAction | VoterChange):
        return True
    return isinstance(body, Mapping) and any(body.get(name) for name in ("features", "versions", "config"))


def _transaction_version(features: dict[str, str]) -> str:
    return features.get(TRANSACTION_VERSION, FEATURES[TRANSACTION_VERSION].default)


def _deletes(nemesis: Nemesis, seed: int) -> bool:
    return pick(stream(nemesis.name, seed, "retention"), nemesis.shape.retention) == "yes"


def _config_for(config: Part, timers: Timers, members: list[str], transactional_ids: list[str]) -> Part:
    """The configuration without the keys that mean nothing to these clients."""
    if members:
        config = {**config, **GROUP_TIMERS[timers]}
    else:
        config = {key: value for key, value in config.items() if not key.startswith(OF_GROUPS)}
    if transactional_ids:
        return {key: value for key, value in config.items() if not key.startswith(OF_ONCE)}
    return {key: value for key, value in config.items() if not key.startswith(OF_TRANSACTIONS)}


def _config_of_tiers(config: Part, timers: Timers, brokers: int, tiered: bool, deletes: bool) -> Part:
    """The configuration with what tiered storage needs, or without what means nothing where there is none, or where no
    old segment is deleted."""
    if not tiered:
        never = OF_TIERS if deletes else (*OF_TIERS, *OF_RETENTION)
        return {key: value for key, value in config.items() if not key.startswith(never)}
    own = {
        "rlmm.config.remote.log.metadata.topic.num.partitions": 2,
        "rlmm.config.remote.log.metadata.topic.replication.factor": min(3, brokers),
        "rlmm.config.remote.log.metadata.topic.min.isr": 1,
    }
    return {**own, **TIER_TIMERS[timers], **config}


def _servers(voters: int, spare: int, brokers: int, tiered: bool) -> Part:
    """The nodes of the cluster that are there from the start."""
    found: Part = {"voters": voters, **({"spare-controllers": spare} if spare else {}), "brokers": brokers}
    return {**found, "remote-store": {}} if tiered else found


def _topics(workload: list[Part], replicas: list[list[int]], least: int, tiered: bool) -> Part:
    """The topics of the cluster, with the same replicas."""
    topic: Part = {"replicas": replicas, "config": {"min.insync.replicas": least}}
    if tiered:
        topic["config"]["remote.storage.enable"] = True
    return {name: dict(topic) for name in topics_of(workload, TOPIC)}


def _bounced_to(chaos: list[Part]) -> list[Mapping[str, str]]:
    """The features that nodes are given."""
    bodies = (body_of(entry)[1] for entry in chaos)
    return [body["features"] for body in bodies if isinstance(body, Mapping) and "features" in body]


def _is_disruptive(features: Mapping[str, str]) -> bool:
    """Whether voters raise their epoch without asking anybody: there is no PreVote, or leaders stand at once. If such a
    one stays away for good, brokers that have heard of its epoch never find a leader: all must be healed."""
    return features.get("kip-996") == "off" or features.get("kip-595.leader-progress") == "seed"


def _nobody() -> Cast:
    return Cast([], [], [], TOPIC, {}, False, False, 0, [])


def chaos_of(nemesis: Nemesis, seed: int, cast: Cast, chaos_us: int) -> list[Part]:
    """The schedule: a pattern, if one is drawn, and faults that begin near it. Each has a stream of its own."""
    course = nemesis.chaos
    frame = Scene(stream(nemesis.name, seed, "course"), nemesis, cast, "", chaos_us)
    within = min(frame.between(frame.pick(course.within)), chaos_us - FIRST_US - LAST_US)
    near = FIRST_US + frame.draw.randrange((chaos_us - FIRST_US - LAST_US - within) // 1000 + 1) * 1000
    number = frame.pick(course.number)
    later = stream(nemesis.name, seed, "course/later")
    pattern = _pick_late(later, frame, patterns_of(nemesis, cast), LATE_PATTERNS)
    found: list[Part] = []
    if pattern != NOTHING:
        scene = _scene(nemesis, seed, cast, chaos_us, "pattern")
        found += PATTERNS[pattern](scene, near)
    for index in range(number):
        scene = _scene(nemesis, seed, cast, chaos_us, f"faults/{index}")
        later = stream(nemesis.name, seed, f"faults/{index}/later")
        found.append(_entry(scene, later, near, within))
        if body_of(found[-1])[0] is TopicDeletion:
            found.append(_made_anew(scene, found[-1]["when"]))
    if cast.changing:
        found = bearable(found, cast.voters, len(cast.strangers))
    if pick(stream(nemesis.name, seed, "healed"), course.healed) == "core":
        found += staying_of(nemesis, seed, cast, chaos_us)
    return [{**entry, "optional": True} for entry in found]


def _made_anew(scene: Scene, deleted: Part) -> Part:
    """A topic that was deleted is created again some time later: who sends to it and reads it goes on."""
    kind = TopicCreation
    at_us = parse_duration_us(deleted["at"]) + scene.draw.randrange(20, 2_000) * 1000
    moment = {"at": scene.duration(min(at_us, scene.chaos_us - 1000))}
    return {"when": moment, **entry_of(kind.kind, kind.draw(scene))}


def patterns_of(nemesis: Nemesis, cast: Cast) -> dict[str, float]:
    """The patterns that a cluster has what it takes for."""
    never = {*(() if cast.group else GROUPS), *(() if cast.pushed else {**PUSHED, **KEPT})}
    never |= set() if cast.static_members else set(OF_STATIC)
    never |= set() if cast.keepers else set(KEPT)
    never |= set() if cast.transactional_ids else set(TRANSACTIONS)
    never |= set() if cast.lasting_epochs else set(OF_LASTING_EPOCHS)
    never |= set() if cast.lasting_epochs and cast.hasty_ids else set(OF_HASTY)
    never |= set() if cast.remote_store else set(TIERS)
    never |= set() if {*cast.members} & {*cast.transactional_ids} else set(OF_PROCESSORS)
    found = {name: weight for name, weight in nemesis.chaos.pattern.items() if name not in never}
    return found if any(found.values()) else {NOTHING: 1.0}


def bearable(parts: list[Part], voters: int, strangers: int) -> list[Part]:
    """Without what would take the last of two voters away, or most of them their disks, by which they are known, or
    leave strangers as many as the others: no cluster comes back from that."""
    kept, removed, wiped = [], 0, 0
    for entry in parts:
        kind, body = body_of(entry)
        removes, wipes = kind.takes_from_quorum(body)
        left = voters - removed - removes
        if (removes or wipes) and (left < 2 or 2 * (wiped + wipes + strangers) >= left):
            continue
        removed, wiped = removed + removes, wiped + wipes
        kept.append(entry)
    return kept


def healing_of(nemesis: Nemesis, seed: int) -> Part:
    """Who is brought back when the chaos is over."""
    healed = pick(stream(nemesis.name, seed, "healed"), nemesis.chaos.healed)
    return {"heal": {"core": RANDOM}} if healed == "core" else {}


def staying_of(nemesis: Nemesis, seed: int, cast: Cast, chaos_us: int) -> list[Part]:
    """Faults that keep one server silent to the end of the chaos, and perhaps beyond. They begin anywhere in it."""
    number = pick(stream(nemesis.name, seed, "stay"), nemesis.chaos.stay)
    found: list[Part] = []
    for index in range(number):
        scene = _scene(nemesis, seed, cast, chaos_us, f"stay/{index}")
        at_us = FIRST_US + scene.draw.randrange((chaos_us - FIRST_US - LAST_US) // 1000 + 1) * 1000
        who = scene.one(SINGLE_SERVERS)
        fault = scene.draw.choice(
            ({"crash": who}, {"pause": who}, {"power-loss": who}, {"partition": {"isolate": who}})
        )
        lasts = scene.duration(chaos_us - at_us)
        found.append({"when": {"at": scene.duration(at_us)}, "fault": fault, "for": lasts})
    return found


def _scene(nemesis: Nemesis, seed: int, cast: Cast, chaos_us: int, purpose: str) -> Scene:
    numbers = stream(nemesis.name, seed, purpose)
    return Scene(numbers, nemesis, cast, numbers.choice(list(cast.tps)), chaos_us)


def _pick_late(later: random.Random, scene: Scene, weights: dict[str, float], late: frozenset[str]) -> str:
    """One of the choices, by their weights. Those that came ``late`` have random numbers of their own: where none of
    them is drawn, the others are drawn as they were before there were any."""
    new = {name: weight for name, weight in weights.items() if name in late and weight}
    if new and later.random() * sum(weights.values()) < sum(new.values()):
        return pick(later, new)
    return scene.pick({name: weight for name, weight in weights.items() if name not in late})


def _entry(scene: Scene, later: random.Random, near: int, within: int) -> Part:
    """A fault with its beginning and its end, or an action."""
    course = scene.nemesis.chaos
    faults = scene.nemesis.faults
    if not scene.cast.changing:
        faults = {kind: weight for kind, weight in faults.items() if kind not in kinds_of(VoterChange)}
    if not scene.cast.remote_store:
        faults = {kind: weight for kind, weight in faults.items() if kind not in kinds_of(StoreFault)}
    kind = KINDS[_pick_late(later, scene, faults, LATE_FAULTS)]
    # A topic that is deleted is to come again before the chaos is over.
    seen = scene.pick(course.begins) == "seen" and kind is not TopicDeletion
    at_us = near + scene.draw.randrange(within // 1000 + 1) * 1000
    when: Part = scene.seen() if seen else {"at": scene.duration(at_us)}
    entry: Part = {"when": when, **entry_of(kind.kind, kind.draw(scene))}
    if not kind.lasts:
        return entry
    lasts = scene.between(scene.pick(course.lasts))
    if scene.pick(course.ends) == "seen":
        return {**entry, "until": scene.seen()}
    return {**entry, "for": scene.duration(lasts if seen else min(lasts, scene.chaos_us - at_us))}
