"""Situations of transactions: what ends one is late, or whoever decides it, is to hear of it or has it open goes."""

from __future__ import annotations

from chaos.nemesis.parts import FIRST_US, Pattern, as_seen, early, entry, lasting, later, when
from chaos.nemesis.scene import Part, Scene


def _coordinated(scene: Scene) -> tuple[str, str]:
    """A transactional id, which is the name of its client, and its coordinator."""
    client = scene.draw.choice(scene.cast.transactional_ids)
    return client, f"transaction-coordinator({client})"


def _late(scene: Scene, sender: str, api: str, low_us: int, high_us: int) -> Part:
    """Messages of an API from a node to brokers take that long: all of them, or some, which others overtake."""
    slow = _slow(scene, sender, api, low_us, high_us)
    return slow if scene.draw.random() < 0.5 else {"reorder": {**slow["delay"], "chance": "60%"}}


def _slow(scene: Scene, sender: str, api: str, low_us: int, high_us: int) -> Part:
    """All of them take that long."""
    by = scene.duration(lasting(scene, low_us, high_us))
    return {"delay": {"from": [sender], "to": ["brokers"], "apis": [api], "by": by}}


def late_end(scene: Scene, at_us: int) -> list[Part]:
    """A client's EndTxn arrives when it was sent again and answered, and the next transaction is open. It takes
    longer than its time-out, and the second attempt, which comes after that, does not."""
    client, _ = _coordinated(scene)
    found, at_us = list[Part](), early(at_us)
    for _ in range(3):
        late = _slow(scene, client, "EndTxn", 2_050_000, 3_000_000)
        found.append(entry(scene, at_us, late, lasting(scene, 300_000, 900_000)))
        at_us = later(scene, at_us, 3_000_000, 4_500_000)
    return found


def markers_twice(scene: Scene, at_us: int) -> list[Part]:
    """Markers take longer than their coordinator waits for the answer, and its second attempt does not: the first ones
    arrive when the next transaction is open, whose producer takes a while to end it."""
    waits_us, at_us = scene.cast.waits_us, early(at_us)
    slow_end = _slow(scene, "clients", "EndTxn", waits_us // 2, waits_us * 4 // 5)
    found = [entry(scene, at_us, slow_end, scene.chaos_us)]
    for _ in range(4):
        for broker in scene.cast.brokers:
            late = _slow(scene, broker, "WriteTxnMarkers", waits_us + 250_000, waits_us * 3 // 2 + 100_000)
            found.append(entry(scene, at_us, late, waits_us * 9 // 10))
        at_us = later(scene, at_us, 2 * waits_us, 2 * waits_us + 500_000)
    return found


def late_markers(scene: Scene, at_us: int) -> list[Part]:
    """Markers are under way for long, and meanwhile leadership moves, and perhaps back again: they arrive at a broker
    that no longer leads, or that is dead."""
    at_us = early(at_us)
    # From whoever coordinates by then: a leader that goes may have been the coordinator.
    lasts = lasting(scene, 4_000_000, 9_000_000)
    slow = [_late(scene, broker, "WriteTxnMarkers", 300_000, 1_500_000) for broker in scene.cast.brokers]
    found = [entry(scene, at_us, each, lasts) for each in slow]
    leader = f"leader({scene.tp})"
    # The last one leads on, as far as it knows, and answers markers when it hears that it does not.
    alone: Part = {"partition": {"between": [leader], "and": ["controllers"]}}
    down: Part = {"controlled-shutdown": {"targets": leader}}
    goes: Part = scene.draw.choice(({"crash": leader}, {"pause": leader}, down, alone))
    # Longer than a session, or it leads on.
    lasts, then_us = lasting(scene, 1_500_000, 3_000_000), later(scene, at_us, 300_000, 1_500_000)
    found.append(entry(scene, then_us, goes, lasts))
    back: Part = {"elect": {"partitions": scene.tp, "type": "preferred"}}
    for after_us in (700_000, 2_000_000):  # a replica needs that long to be in the ISR again
        back_us = later(scene, then_us, lasts + after_us, lasts + after_us + 1_000_000)
        found.append({"when": {"at": scene.duration(back_us)}, "action": back})
    return found


def decided_and_gone(scene: Scene, at_us: int) -> list[Part]:
    """A coordinator goes between its decision and the markers: the next one has to go on with that decision."""
    client, coordinator = _coordinated(scene)
    at_us = early(at_us)
    found = [entry(scene, at_us, _late(scene, coordinator, "WriteTxnMarkers", 500_000, 3_000_000), 4_000_000)]
    goes: Part = scene.draw.choice(
        ({"crash": coordinator}, {"power-loss": coordinator}, {"controlled-shutdown": {"targets": coordinator}})
    )
    found.append(entry(scene, later(scene, at_us, 500_000, 2_500_000), goes, lasting(scene, 300_000, 2_500_000)))
    if scene.draw.random() < 0.3:
        found.append(entry(scene, later(scene, at_us, 100_000, 2_000_000), {"crash": client}, 3_000_000))
    return found


def taken_over(scene: Scene, at_us: int) -> list[Part]:
    """A client hangs in a transaction to the end of the chaos, and its coordinator goes: who takes over finds that
    open."""
    client, coordinator = _coordinated(scene)
    at_us = max(scene.chaos_us - lasting(scene, 2_000_000, 3_500_000), FIRST_US)
    found = [entry(scene, at_us, {"pause": client}, scene.chaos_us - at_us)]
    gone_us = later(scene, at_us, 50_000, 400_000)
    found.append(entry(scene, gone_us, {"crash": coordinator}, scene.chaos_us - gone_us))
    return found


def markers_of_former(scene: Scene, at_us: int) -> list[Part]:
    """The controllers hear nothing of a coordinator, whose markers are late by then: its successor's arrive first. Its
    client may go meanwhile."""
    client, coordinator = _coordinated(scene)
    at_us = early(at_us)
    alone: Part = {"partition": {"between": [coordinator], "and": ["controllers"]}}
    late = _late(scene, coordinator, "WriteTxnMarkers", 700_000, 2_500_000)
    found = [entry(scene, at_us, alone, lasting(scene, 4_000_000, 8_000_000))]
    found.append(entry(scene, at_us, late, lasting(scene, 3_000_000, 8_000_000)))
    if scene.draw.random() < 0.5:
        found.append(entry(scene, later(scene, at_us, 1_000_000, 4_000_000), {"crash": client}, 4_000_000))
    return found


def read_again(scene: Scene, at_us: int) -> list[Part]:
    """Leadership moves, there and back, and then a consumer starts anew: it reads from the beginning what others have
    replicated, or truncated."""
    at_us, found = early(at_us), list[Part]()
    consumers = [each for each in scene.cast.clients if each.startswith("consumer-")]
    leader = f"leader({scene.tp})"
    goes: Part = scene.draw.choice(
        ({"crash": leader}, {"partition": {"between": [leader], "and": ["brokers", "controllers"]}})
    )
    found.append(entry(scene, at_us, goes, lasting(scene, 1_000_000, 4_000_000)))
    for _ in range(scene.draw.choice((1, 2))):
        at_us = later(scene, at_us, 1_500_000, 4_000_000)
        found.append(entry(scene, at_us, {"crash": scene.draw.choice(consumers)}, lasting(scene, 50_000, 300_000)))
    return found


def open_positions(scene: Scene, at_us: int) -> list[Part]:
    """A member dies with positions in an open transaction, and perhaps so does the coordinator of its group: who takes
    over finds them in the log, and whoever gets the partitions asks for them."""
    member, at_us = scene.draw.choice(scene.cast.members), early(at_us)
    late: Part = {"delay": {"from": [member], "to": ["brokers"], "apis": ["EndTxn"], "by": "6s"}}
    found = [entry(scene, at_us, late, 3_000_000)]
    at_us = later(scene, at_us, 500_000, 2_000_000)
    found.append(entry(scene, at_us, {"crash": member}, lasting(scene, 2_000_000, 6_000_000)))
    if scene.draw.random() < 0.6:
        gone: Part = {"crash": f"coordinator({scene.cast.group})"}
        found.append(entry(scene, later(scene, at_us, 20_000, 400_000), gone, lasting(scene, 300_000, 2_000_000)))
    return found


def late_batch(scene: Scene, at_us: int) -> list[Part]:
    """Batches are being verified, or are under way, until their producers have given them up and aborted: their
    transactions are over on their partitions when the leaders are to append them. First one, then the other."""
    at_us = early(at_us)
    found = _late_batches(scene, at_us, verified=True)
    return found + _late_batches(scene, later(scene, at_us, 6_500_000, 7_500_000), verified=False)


def _late_batches(scene: Scene, at_us: int, *, verified: bool) -> list[Part]:
    """For a few transactions, batches take until after they are given up; or not so long, and then the coordinator,
    which was asked in time, answers their leaders as late as they wait for that: the last batches that are sent before
    the first one is given up are being verified when the last one is."""
    low_us, high_us = (1_450_000, 1_750_000) if verified else (2_050_000, 2_500_000)
    lasts = lasting(scene, 4_500_000, 5_500_000)
    found = [entry(scene, at_us, _slow(scene, "clients", "Produce", low_us, high_us), lasts)]
    if verified:
        (_, coordinator), waits_us = _coordinated(scene), scene.cast.waits_us
        late = _slow(scene, coordinator, "AddPartitionsToTxn", waits_us * 9 // 10, waits_us * 19 // 20)
        found.append(entry(scene, at_us, late, lasts + 1_000_000))
    return found


def markers_of_one(scene: Scene, at_us: int) -> list[Part]:
    """Followers replicate nothing of a leader, which goes on alone, with records and markers, until it crashes: who is
    elected uncleanly lacks markers that were counted. The former leader, which truncates its log then, may lead again,
    for a consumer that is new."""
    leader, followers = f"leader({scene.tp})", f"followers({scene.tp})"
    at_us, lasts = early(at_us), lasting(scene, 1_500_000, 3_500_000)
    if scene.cast.tps[scene.tp] == 1:
        return [entry(scene, at_us, {"crash": leader}, lasts)]
    deaf: Part = {"drop": {"from": [followers], "to": [leader], "apis": ["Fetch"], "chance": "100%"}}
    alone = when(scene, "isr-shrunk", (0, 200, 700, 1500), tp=scene.tp)
    # To its end: what the followers send to the former leader are also answers, of which it learns what to truncate.
    over = when(scene, "unclean-election", (0,), tp=scene.tp)
    found: list[Part] = [{"when": {"at": scene.duration(at_us)}, "fault": deaf, "until": over}]
    found.append({"when": alone, "fault": {"crash": leader}, "for": scene.duration(lasts)})
    if scene.draw.random() < 0.7:
        elected = when(scene, "unclean-election", (0,), tp=scene.tp)
        back: Part = {"elect": {"partitions": scene.tp, "type": "preferred"}}
        for delay_us in (lasts + 1_000_000, lasts + 2_500_000):
            moment = {**elected, "delay": scene.duration(delay_us)}
            found.append({"when": moment, "action": back})
            consumer = scene.draw.choice([each for each in scene.cast.clients if each.startswith("consumer-")])
            again = {**elected, "delay": scene.duration(delay_us + 500_000)}
            found.append({"when": again, "fault": {"crash": consumer}, "for": "100ms"})
    return found


def late_raise(scene: Scene, at_us: int) -> list[Part]:
    """Partitions of a client are added so late that it gives their batches up before it sends them; it aborts, asks for
    its next epoch, and dies in that moment. What it asked arrives when its next process has an epoch, and has begun
    nothing: its partitions, too, are added late."""
    ids = scene.cast.transactional_ids
    client = scene.draw.choice([each for each in ids if each not in scene.cast.members] or ids)
    at_us, again_us = early(at_us), lasting(scene, 80_000, 200_000)
    gone = when(scene, "node-down", node=client)
    begins: Part = {"when": {"at": scene.duration(at_us)}}
    gives_up = _slow(scene, client, "AddPartitionsToTxn", 2_050_000, 2_200_000)
    asks = _slow(scene, client, "InitProducerId", again_us + 400_000, again_us + 800_000)
    dies: Part = {"crash": {"nodes": [client], "at": "after-request", "of": "InitProducerId", "nth": 1}}
    adds_us = min(scene.cast.waits_us * 9 // 10, 1_500_000)
    begins_late = _slow(scene, client, "AddPartitionsToTxn", adds_us - 50_000, adds_us)
    return [
        entry(scene, at_us, gives_up, lasting(scene, 1_200_000, 1_800_000)),
        {**begins, "fault": asks, "until": gone},
        {**begins, "fault": dies, "until": {**gone, "delay": scene.duration(again_us)}},
        as_seen(scene, gone, begins_late, 1_000_000, 2_500_000),
    ]


def repeated_init(scene: Scene, at_us: int) -> list[Part]:
    """A client stops in the midst of a transaction until its first records, which are late, have to be given up; it
    aborts, and asks for its next epoch. The answer takes longer than it waits, and it asks again, though the
    coordinator has given it that epoch."""
    client, waits_us = scene.draw.choice(scene.cast.hasty_ids), scene.cast.waits_us
    nth = 1 + (early(at_us) - FIRST_US) // 1_000_000
    begins, next_begins = (
        when(scene, "rpc", nth=(nth + each,), api="AddPartitionsToTxn", node=client) for each in (0, 1)
    )
    by = scene.duration(lasting(scene, waits_us + 100_000, waits_us + 600_000))
    late: Part = {"delay": {"from": ["brokers"], "to": [client], "apis": ["InitProducerId"], "by": by}}
    return [
        as_seen(scene, begins, _slow(scene, client, "Produce", 2_300_000, 2_600_000), 6_000_000, 8_000_000),
        as_seen(scene, next_begins, {"pause": client}, 2_010_000, 2_150_000),
        as_seen(scene, begins, late, 7_000_000, 9_000_000),
    ]


OF_LASTING_EPOCHS: dict[str, Pattern] = {"late-raise": late_raise}
"""They need producers that keep their epoch from one transaction to the next, until they ask for another."""

OF_HASTY: dict[str, Pattern] = {"repeated-init": repeated_init}
"""And these one that gives a record up while its transaction may go on."""

OF_PROCESSORS: dict[str, Pattern] = {"open-positions": open_positions}
"""They need a group whose members copy in transactions."""

TRANSACTIONS: dict[str, Pattern] = {
    "late-end": late_end,
    "markers-twice": markers_twice,
    "late-markers": late_markers,
    "decided-and-gone": decided_and_gone,
    "taken-over": taken_over,
    "markers-of-former": markers_of_former,
    "read-again": read_again,
    "late-batch": late_batch,
    "markers-of-one": markers_of_one,
    **OF_LASTING_EPOCHS,
    **OF_HASTY,
    **OF_PROCESSORS,
}
"""Name, as in a nemesis file -> pattern. They need a client with transactions."""
