"""Patterns: a few faults that hurt together and would rarely be drawn next to each other."""

from __future__ import annotations

from chaos.faults.kinds import KINDS
from chaos.nemesis.parts import Pattern, entry, lasting
from chaos.nemesis.scene import Part, Scene
from chaos.nemesis.situations.clients import CLIENTS
from chaos.nemesis.situations.groups import GROUPS
from chaos.nemesis.situations.metadata import METADATA
from chaos.nemesis.situations.quorum import QUORUM
from chaos.nemesis.situations.recovery import RECOVERY
from chaos.nemesis.situations.replicas import REPLICAS
from chaos.nemesis.situations.retention import RETENTION
from chaos.nemesis.situations.tiers import TIERS
from chaos.nemesis.situations.transactions import TRANSACTIONS
from chaos.scenario.selectors import ROLES


def cornered(scene: Scene, at_us: int) -> list[Part]:
    """The followers fall behind, and then the leader is gone: the way to an unclean election."""
    followers = [f"followers({scene.tp})"] if scene.cast.tps[scene.tp] > 1 else [f"leader({scene.tp})"]
    leader = f"leader({scene.tp})"
    cut: Part = {"partition": {"from": [leader], "to": followers}}
    behind: Part = cut if scene.cast.tps[scene.tp] > 1 and scene.draw.random() < 0.7 else {"pause": followers}
    gone: Part = {"crash": leader} if scene.draw.random() < 0.5 else {"partition": {"isolate": leader}}
    alone = {
        "seen": {"isr-shrunk": {"tp": scene.tp}},
        "nth": scene.draw.choice((1, 2, 3)),
        "delay": f"{scene.draw.randrange(300)}ms",
    }
    return [
        entry(scene, at_us, behind, lasting(scene, 1_000_000, 6_000_000)),
        {"when": alone, "fault": gone, "for": scene.duration(lasting(scene, 4_000_000, 8_000_000))},
    ]


def lagging_leader(scene: Scene, at_us: int) -> list[Part]:
    """A follower hears nothing from the other brokers while its own fetches still arrive, and is then elected: its
    high watermark is behind what clients were told (KIP-207)."""
    others = scene.cast.tps[scene.tp] - 1
    leader = f"leader({scene.tp})"
    if not others:
        return [entry(scene, at_us, {"crash": leader}, lasting(scene, 1_000_000, 4_000_000))]
    next_one = f"followers({scene.tp})[0]"
    deaf = [leader, *(f"followers({scene.tp})[{number}]" for number in range(1, others))]
    lasts = lasting(scene, 3_000_000, 8_000_000)
    then_us = min(at_us + lasting(scene, 100_000, 1_500_000), scene.chaos_us - 1000)
    return [
        entry(scene, at_us, {"partition": {"from": deaf, "to": [next_one]}}, lasts),
        entry(scene, then_us, {"crash": leader}, lasts),
    ]


def divided_quorum(scene: Scene, at_us: int) -> list[Part]:
    """The active controller and a voter are cut off from the others, and the controllers' side changes hands."""
    voters = list(scene.cast.controllers)
    scene.draw.shuffle(voters)
    fewer = voters[: (len(voters) - 1) // 2] or voters
    lasts = lasting(scene, 1_000_000, 6_000_000)
    rest = [name for name in scene.cast.controllers if name not in fewer]
    if not rest:
        return [entry(scene, at_us, {"pause": "active-controller"}, lasts)]
    return [
        entry(scene, at_us, {"partition": {"between": fewer, "and": rest}}, lasts),
        entry(scene, at_us, {"partition": {"isolate": "active-controller"}}, lasts // 2),
    ]


def zombie_leader(scene: Scene, at_us: int) -> list[Part]:
    """The leader is cut off from controllers and brokers, and goes on answering clients that do not know."""
    leader = f"leader({scene.tp})"
    cut: Part = {"partition": {"between": [leader], "and": ["controllers"]}}
    lasts = lasting(scene, 2_000_000, 8_000_000)
    found = [entry(scene, at_us, cut, lasts)]
    if scene.cast.tps[scene.tp] > 1 and scene.draw.random() < 0.7:
        found.append(
            entry(scene, at_us, {"partition": {"between": [leader], "and": [f"followers({scene.tp})"]}}, lasts)
        )
    return found


def flapping(scene: Scene, at_us: int) -> list[Part]:
    """The same node goes down again and again."""
    who = scene.draw.choice((f"leader({scene.tp})", "active-controller", scene.draw.choice(scene.cast.brokers)))
    found = []
    for _ in range(scene.draw.choice((2, 3, 4))):
        if at_us >= scene.chaos_us - 1000:
            break
        down = lasting(scene, 50_000, 1_500_000)
        found.append(entry(scene, at_us, {"crash": who}, down))
        at_us += down + lasting(scene, 20_000, 1_500_000)
    return found


def left_out(scene: Scene, at_us: int) -> list[Part]:
    """A voter is cut off from the others for longer than anybody in the quorum waits, once or twice, and comes back to
    others with which nothing is wrong: a leader has to have given up by then, and a follower must not disturb them."""
    found = []
    for _ in range(scene.draw.choice((1, 2))):
        if at_us >= scene.chaos_us - 1000:
            break
        who = scene.draw.choice(("active-controller", "voters(follower)[0]"))
        cut: Part = scene.draw.choice(
            ({"partition": {"isolate": who}}, {"partition": {"between": [who], "and": ["controllers"]}})
        )
        lasts = lasting(scene, 1_000_000, 5_000_000)
        found.append(entry(scene, at_us, cut, lasts))
        at_us += lasts + lasting(scene, 500_000, 1_500_000)
    return found


def unheard_change(scene: Scene, at_us: int) -> list[Part]:
    """A leader is cut off in the moment in which it writes a change of the voters into its log, for longer than the
    others wait for it: they do without the change, and it has to be undone."""
    cut: Part = {"partition": {"isolate": "active-controller"}}
    lasts = lasting(scene, 1_500_000, 4_000_000)
    if not scene.cast.changing:
        return [entry(scene, at_us, cut, lasts)]
    kind = scene.draw.choice(("add-voter", "add-voter", "remove-voter"))
    when: Part = {"seen": {"voters-appended": {}}, "nth": scene.draw.choice((1, 1, 2))}
    return [
        {"when": {"at": scene.duration(at_us)}, "action": {kind: KINDS[kind].draw(scene)}},
        {"when": when, "fault": cut, "for": scene.duration(lasts)},
    ]


STRIKES = ("crash", "power-loss", "torn-tail", "pause")


def struck_in_role(scene: Scene, at_us: int) -> list[Part]:
    """A voter is struck in the moment in which it takes up a role of the quorum: it dies, stands still or is cut off;
    some time after the leader is gone, as few roles change without that."""
    role = scene.draw.choice(ROLES)
    who = f"voters({role})[0]"
    kind = scene.draw.choice((*STRIKES, "partition"))
    fault: Part = {"partition": {"isolate": who}} if kind == "partition" else {kind: who}
    when = {
        "seen": {"quorum-role": {"role": role, "epoch": scene.draw.choice((1, 2, 3))}},
        "nth": scene.draw.choice((1, 1, 2)),
        "delay": scene.draw.choice(("0ms", "0ms", "2ms", "30ms")),
    }
    return [
        entry(scene, at_us, {"crash": "active-controller"}, lasting(scene, 300_000, 2_500_000)),
        {"when": when, "fault": fault, "for": scene.duration(lasting(scene, 50_000, 2_000_000))},
    ]


def unheard_leader(scene: Scene, at_us: int) -> list[Part]:
    """What a leader asks of the controller comes late or not at all, while its followers come and go: its proposals are
    about an ISR that is over, and about followers that have started anew."""
    leader = f"leader({scene.tp})"
    link: Part = {"from": [leader], "to": ["controllers"], "apis": ["AlterPartition"]}
    late: Part = {"reorder": {**link, "chance": "100%", "by": scene.duration(lasting(scene, 500_000, 3_000_000))}}
    lost: Part = {"drop": {**link, "chance": scene.draw.choice(("50%", "100%"))}}
    lasts = lasting(scene, 3_000_000, 8_000_000)
    found = [entry(scene, at_us, late if scene.draw.random() < 0.7 else lost, lasts)]
    if scene.draw.random() < 0.5:
        behind: Part = {"partition": {"from": [leader], "to": ["brokers"]}}
        found.append(entry(scene, at_us, behind, lasting(scene, 500_000, 6_000_000)))
    span_us = min(lasts, scene.chaos_us - 1000 - at_us)
    for _ in range(scene.draw.choice((2, 3, 4))):
        who = scene.follower()
        cut: Part = {"partition": {"between": [who], "and": [leader]}}
        gone: Part = scene.draw.choice(
            ({"crash": who}, {"power-loss": who}, {"controlled-shutdown": {"targets": who}}, cut)
        )
        begins_us = at_us + scene.draw.randrange(max(1, span_us // 1000)) * 1000
        found.append(entry(scene, begins_us, gone, lasting(scene, 50_000, 1_200_000)))
    return found


def deaf_follower(scene: Scene, at_us: int) -> list[Part]:
    """A follower hears nothing of the controllers and fetches in the leader epoch that it knows, while leadership goes
    away and comes back."""
    leader, follower = f"leader({scene.tp})", scene.follower()
    lasts = lasting(scene, 4_000_000, 8_000_000)
    found = [entry(scene, at_us, {"partition": {"from": ["controllers"], "to": [follower]}}, lasts)]
    for _ in range(2):
        at_us += lasting(scene, 300_000, 2_000_000)
        if at_us >= scene.chaos_us - 1000:
            break
        gone: Part = scene.draw.choice(
            ({"crash": leader}, {"partition": {"between": [leader], "and": ["controllers"]}})
        )
        found.append(entry(scene, at_us, gone, lasting(scene, 100_000, 2_000_000)))
    return found


def stale_broker(scene: Scene, at_us: int) -> list[Part]:
    """A broker hears late from the controllers while leaders change, and clients, whose answers get lost, ask it too:
    it tells them of leaders that were replaced."""
    lasts = lasting(scene, 3_000_000, 7_000_000)
    slower: Part = {"from": ["controllers"], "to": [scene.follower()]}
    slower["by"] = scene.duration(lasting(scene, 800_000, 2_000_000))
    lost: Part = {"between": ["clients"], "and": ["brokers"], "chance": "20%"}
    lost["apis"] = ["Fetch", "ListOffsets", "Metadata"]
    found = [entry(scene, at_us, {"delay": slower}, lasts), entry(scene, at_us, {"drop": lost}, lasts)]
    for _ in range(2):
        at_us += lasting(scene, 300_000, 1_500_000)
        if at_us >= scene.chaos_us - 1000:
            break
        found.append(entry(scene, at_us, {"crash": f"leader({scene.tp})"}, lasting(scene, 500_000, 2_500_000)))
    return found


def asked_while_lagging(scene: Scene, at_us: int) -> list[Part]:
    """A leader with a high watermark that lags, and clients that start anew in that moment: they have no position, and
    are refused when they look for one (KIP-207)."""
    lags: Part = {"seen": {"lagging-leader": {"tp": scene.tp}}}
    again = scene.duration(lasting(scene, 10_000, 200_000))
    return [*lagging_leader(scene, at_us), {"when": lags, "fault": {"crash": "clients"}, "for": again}]


PATTERNS: dict[str, Pattern] = {
    "cornered": cornered,
    "lagging-leader": lagging_leader,
    "divided-quorum": divided_quorum,
    "zombie-leader": zombie_leader,
    "flapping": flapping,
    "left-out": left_out,
    "unheard-change": unheard_change,
    "struck-in-role": struck_in_role,
    "unheard-leader": unheard_leader,
    "deaf-follower": deaf_follower,
    "stale-broker": stale_broker,
    "asked-while-lagging": asked_while_lagging,
    **QUORUM,
    **REPLICAS,
    **RECOVERY,
    **CLIENTS,
    **GROUPS,
    **METADATA,
    **TRANSACTIONS,
    **TIERS,
    **RETENTION,
}
"""Name, as in a nemesis file -> pattern."""
