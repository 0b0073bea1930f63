"""Situations of leaders and followers: answers that are over, leaderships that come back, logs that part."""

from __future__ import annotations

from chaos.nemesis.parts import Pattern, as_seen, early, entry, lasting, later, when
from chaos.nemesis.scene import Part, Scene


def late_answer(scene: Scene, at_us: int) -> list[Part]:
    """What the controller answers a leader's AlterPartition comes late, after the metadata log has brought it or
    something newer, while followers come and go and leadership is moved."""
    leader = f"leader({scene.tp})"
    link: Part = {"from": ["controllers"], "to": [leader], "apis": ["AlterPartition"], "chance": "100%"}
    late = {"reorder": {**link, "by": scene.duration(lasting(scene, 200_000, 2_500_000))}}
    at_us, lasts = early(at_us), lasting(scene, 3_000_000, 8_000_000)
    found = [entry(scene, at_us, late, lasts)]
    for _ in range(scene.draw.choice((2, 3))):
        at_us = later(scene, at_us, 50_000, 900_000)
        found.append(entry(scene, at_us, {"crash": scene.follower()}, lasting(scene, 50_000, 700_000)))
    if scene.draw.random() < 0.5:
        found.append(_preferred(scene, when(scene, "isr-proposed", (2, 20, 200), (1, 2, 3), tp=scene.tp)))
    return found


def leads_twice(scene: Scene, at_us: int) -> list[Part]:
    """The same process leads twice, with what another one wrote in between, and hears all the while what others say."""
    return scene.draw.choice((_fenced_and_back, _stands_in))(scene, early(at_us))


def _preferred(scene: Scene, moment: Part) -> Part:
    return {"when": moment, "action": {"elect": {"partitions": scene.tp, "type": "preferred"}}}


def _fenced_and_back(scene: Scene, at_us: int) -> list[Part]:
    """A leader is fenced, as its heartbeats come late: it follows the next leader, gets back into the ISR and leads."""
    leader = f"leader({scene.tp})"
    link: Part = {"from": [leader], "to": ["controllers"], "apis": ["BrokerHeartbeat"], "chance": "100%"}
    late: Part = {"reorder": {**link, "by": "60s"}}
    deposed = when(scene, "leader-elected", (0, 50, 300), tp=scene.tp)
    found: list[Part] = [{"when": {"at": scene.duration(at_us)}, "fault": late, "until": deposed}]
    back = when(scene, "isr-expanded", (0, 30, 300), tp=scene.tp)
    if scene.draw.random() < 0.6:
        return [*found, _preferred(scene, back)]
    return [*found, as_seen(scene, back, {"crash": leader}, 300_000, 2_000_000)]


def _stands_in(scene: Scene, at_us: int) -> list[Part]:
    """A follower leads while the preferred leader is down, follows it, and leads when it is down again."""
    leader = f"leader({scene.tp})"
    back = when(scene, "isr-expanded", (0, 30, 300), tp=scene.tp)
    again = when(scene, "leader-elected", (100, 300, 800), (2,), tp=scene.tp)
    gone: Part = scene.draw.choice(({"crash": leader}, {"controlled-shutdown": {"targets": leader}}))
    down = as_seen(scene, again, gone, 1_500_000, 2_500_000)
    first = entry(scene, at_us, {"controlled-shutdown": {"targets": leader}}, lasting(scene, 200_000, 900_000))
    return [first, _preferred(scene, back), down]


def long_tail(scene: Scene, at_us: int) -> list[Part]:
    """One member of the ISR gets nothing from the leader, for less long than would put it out, and is next in line:
    leader and other followers have a long tail that it lacks when it leads."""
    leader, behind = f"leader({scene.tp})", f"followers({scene.tp})[0]"
    if scene.cast.tps[scene.tp] == 1:
        return [entry(scene, at_us, {"crash": leader}, lasting(scene, 300_000, 2_000_000))]
    lasts = scene.between((150_000, 3_000_000))
    found = [entry(scene, at_us, {"partition": {"from": [leader], "to": [behind]}}, lasts + 200_000)]
    gone: Part = scene.draw.choice(({"crash": leader}, {"power-loss": leader}, {"partition": {"isolate": leader}}))
    then_us = min(at_us + lasts, scene.chaos_us - 1000)
    return [*found, entry(scene, then_us, gone, lasting(scene, 500_000, 4_000_000))]


def asks_late(scene: Scene, at_us: int) -> list[Part]:
    """A follower that was out of the ISR has caught up, and starts anew before the controller hears that its leader
    asks for it: what the leader saw of it was another process. It is stopped properly, and so may register at once, and
    registers without a change of the ISR."""
    leader, who = f"leader({scene.tp})", scene.follower()
    link: Part = {"from": [leader], "to": ["controllers"], "apis": ["AlterPartition"], "chance": "100%"}
    late: Part = {"reorder": {**link, "by": scene.duration(lasting(scene, 1_500_000, 4_000_000))}}
    asked = when(scene, "isr-proposed", (0, 5, 50), tp=scene.tp)
    stopped: Part = {"controlled-shutdown": {"targets": who}}
    out = entry(scene, early(at_us), stopped, lasting(scene, 100_000, 600_000))
    held = as_seen(scene, when(scene, "isr-shrunk", tp=scene.tp), late, 3_000_000, 8_000_000)
    return [out, held, as_seen(scene, asked, stopped, 10_000, 300_000)]


def fetches_on(scene: Scene, at_us: int) -> list[Part]:
    """A follower hears nothing of the controllers, nor of its leader until that one has lost the leadership and got it
    back: it goes on fetching from it in the leader epoch that it knows. Had it been told that this one is over, it
    would have stopped."""
    leader, at_us = f"leader({scene.tp})", early(at_us)
    if scene.cast.tps[scene.tp] == 1:
        return [entry(scene, at_us, {"crash": leader}, lasting(scene, 300_000, 2_000_000))]
    last = f"followers({scene.tp})[{scene.cast.tps[scene.tp] - 2}]"
    deaf: Part = {"partition": {"from": ["controllers"], "to": [last]}}
    alone: Part = {"partition": {"between": [leader], "and": [last]}}
    again = when(scene, "leader-elected", (50, 300), (2,), tp=scene.tp)
    then_us = later(scene, at_us, 50_000, 300_000)
    gone = entry(scene, then_us, {"controlled-shutdown": {"targets": leader}}, lasting(scene, 200_000, 900_000))
    if scene.draw.random() < 0.5:
        cut: Part = {"partition": {"between": [leader], "and": ["controllers"]}}
        deposed = when(scene, "leader-elected", (0, 200), tp=scene.tp)
        gone = {"when": {"at": scene.duration(then_us)}, "fault": cut, "until": deposed}
    apart: Part = {"when": {"at": scene.duration(at_us)}, "fault": alone, "until": again}
    found = [entry(scene, at_us, deaf, lasting(scene, 5_000_000, 9_000_000)), apart, gone]
    back = when(scene, "isr-proposed", (100, 300, 600), (1, 1, 2), tp=scene.tp)
    if scene.draw.random() < 0.6:
        return [*found, _preferred(scene, back)]
    return [*found, as_seen(scene, back, {"crash": leader}, 300_000, 2_000_000)]


def late_fetch(scene: Scene, at_us: int) -> list[Part]:
    """What a follower sends to its leader takes longer than the follower needs to die, start anew and be unfenced: the
    last fetch of the process before comes when the leader has heard of the next one."""
    leader, at_us = f"leader({scene.tp})", early(at_us)
    follower = f"followers({scene.tp})[0]"
    if scene.cast.tps[scene.tp] == 1:
        return [entry(scene, at_us, {"crash": leader}, lasting(scene, 300_000, 2_000_000))]
    by = scene.duration(lasting(scene, 2_000_000, 5_000_000))
    slow: Part = {"delay": {"from": [follower], "to": [leader], "by": by}}
    then_us = later(scene, at_us, 300_000, 700_000)
    gone = entry(scene, then_us, {"crash": follower}, lasting(scene, 50_000, 300_000))
    return [entry(scene, at_us, slow, lasting(scene, 700_000, 1_500_000)), gone]


def unheard_life(scene: Scene, at_us: int) -> list[Part]:
    """A follower leaves the ISR, as it cannot reach its leader, and dies. From then on the leader hears late of what
    the controllers decide: the next process of the follower fetches when the leader does not know yet that the one
    before is fenced."""
    leader, at_us = f"leader({scene.tp})", early(at_us)
    who = f"followers({scene.tp})[0]"
    if scene.cast.tps[scene.tp] == 1:
        return [entry(scene, at_us, {"crash": leader}, lasting(scene, 300_000, 2_000_000))]
    apart: Part = {"partition": {"between": [leader], "and": [who]}}
    by = scene.duration(lasting(scene, 2_000_000, 5_000_000))
    late: Part = {"delay": {"from": ["controllers"], "to": [leader], "apis": ["Fetch"], "by": by}}
    out = when(scene, "isr-shrunk", (20, 100), tp=scene.tp)
    then = when(scene, "isr-shrunk", (200,), tp=scene.tp)
    return [
        {"when": {"at": scene.duration(at_us)}, "fault": apart, "until": then},
        as_seen(scene, out, {"crash": who}, 200_000, 900_000),
        as_seen(scene, out, late, 4_000_000, 8_000_000),
    ]


def keeps_behind(scene: Scene, at_us: int) -> list[Part]:
    """A follower fetches all the while, and gets less than its leader appends: what it is sent is under way for so long
    that it is never at the end, where a Fetch has room for little (``replica.fetch.max.bytes``)."""
    leader, at_us = f"leader({scene.tp})", early(at_us)
    if scene.cast.tps[scene.tp] == 1:
        return [entry(scene, at_us, {"crash": leader}, lasting(scene, 300_000, 2_000_000))]
    by = scene.duration(lasting(scene, 100_000, 400_000))
    slow: Part = {"delay": {"from": [leader], "to": [scene.follower()], "apis": ["Fetch"], "by": by}}
    return [entry(scene, at_us, slow, scene.chaos_us)]


def restarts_alone(scene: Scene, at_us: int) -> list[Part]:
    """The followers are out of the ISR, which is smaller than ``min.insync.replicas``, when their leader restarts. It
    leads again with more in its log than is committed, and the followers come back with less than it had then."""
    leader, followers = f"leader({scene.tp})", f"followers({scene.tp})"
    down: Part = {"controlled-shutdown": {"targets": leader}}
    gone = scene.draw.choice((down, down, {"crash": leader}))
    if scene.cast.tps[scene.tp] == 1:
        return [entry(scene, at_us, gone, lasting(scene, 300_000, 2_000_000))]
    apart: Part = {"partition": {"between": [followers], "and": [leader, "controllers"]}}
    away = scene.draw.choice(({"crash": followers}, {"power-loss": followers}, apart))
    back = when(scene, "node-restarted", (300, 600, 1200))
    alone = when(scene, "isr-shrunk", (400, 800, 1500), tp=scene.tp)
    return [
        {"when": {"at": scene.duration(early(at_us))}, "fault": away, "until": back},
        as_seen(scene, alone, gone, 50_000, 700_000),
    ]


def late_push(scene: Scene, at_us: int) -> list[Part]:
    """Where the controller pushes metadata to brokers (``metadata.propagation: push``), what it pushes comes late, in
    another order at each of them, while leaders change."""
    leader = f"leader({scene.tp})"
    link: Part = {"from": ["controllers"], "to": ["brokers"], "apis": ["UpdateMetadata"], "chance": "100%"}
    late = {"reorder": {**link, "by": scene.duration(lasting(scene, 300_000, 3_000_000))}}
    found = [entry(scene, at_us, late, lasting(scene, 3_000_000, 8_000_000))]
    for _ in range(2):
        at_us = later(scene, at_us, 100_000, 1_500_000)
        gone = scene.draw.choice(({"crash": leader}, {"controlled-shutdown": {"targets": leader}}))
        found.append(entry(scene, at_us, gone, lasting(scene, 100_000, 1_500_000)))
    return found


def waits_to_stop(scene: Scene, at_us: int) -> list[Part]:
    """A leader is stopped in good order while a follower hears late of what the controllers write: until that one knows
    that another broker leads, the one that is stopped has to wait."""
    leader, at_us = f"leader({scene.tp})", early(at_us)
    stopped: Part = {"controlled-shutdown": {"targets": leader}}
    if scene.cast.tps[scene.tp] == 1:
        return [entry(scene, at_us, stopped, lasting(scene, 300_000, 2_000_000))]
    by = scene.duration(lasting(scene, 600_000, 1_500_000))
    late: Part = {"delay": {"from": ["controllers"], "to": [scene.follower()], "apis": ["Fetch"], "by": by}}
    then_us = later(scene, at_us, 50_000, 500_000)
    return [
        entry(scene, at_us, late, lasting(scene, 5_000_000, 9_000_000)),
        entry(scene, then_us, stopped, lasting(scene, 4_000_000, 8_000_000)),
    ]


REPLICAS: dict[str, Pattern] = {
    "late-answer": late_answer,
    "leads-twice": leads_twice,
    "long-tail": long_tail,
    "asks-late": asks_late,
    "fetches-on": fetches_on,
    "late-fetch": late_fetch,
    "restarts-alone": restarts_alone,
    "unheard-life": unheard_life,
    "late-push": late_push,
    "keeps-behind": keeps_behind,
    "waits-to-stop": waits_to_stop,
}
"""Name, as in a nemesis file -> pattern."""
