"""O7: what coordinators have in memory, beside their log."""

from __future__ import annotations

import pytest
from msgspec import structs

from actors.trace.events import GROUP_EXPIRED, GrpGen, GrpLoad
from tests.unit.invariants.groups.stage import GROUP, OFFSETS, ONE, PRODUCER, TWO, Coordinated, entry
from tests.unit.invariants.trace_builder import TP


class Remembering(Coordinated):
    """A coordinator whose memory is looked at."""

    def said(self) -> str:
        """The sentence of the only violation."""
        (finding,) = self.result("O7").violations
        return finding.sentence


def test_memory_is_the_log() -> None:
    """Shows that O7 is held, tested, when a coordinator tells what its log has up to the high watermark, and the next
    one loads all of it."""
    trace = Remembering()
    trace.begins()
    trace.answers(None)
    trace.stores(10)
    trace.answers(entry(10))
    trace.stores(20, commit=False)
    trace.answers(entry(10))
    trace.leads(1, 1, follows=True)
    trace.unloads()
    trace.leads(2, 1, 1)
    trace.loads(1, entry(10), 1, 2)
    trace.answers(entry(10), 1, 2)
    assert (trace.result("O7").status, trace.result("O7").tested) == ("held", 8)


def test_what_is_not_committed_is_not_told() -> None:
    """Shows that a coordinator that tells what is above its high watermark violates O7, and one that tells less than it
    has, or epochs of another commit."""
    trace = Remembering()
    trace.begins()
    trace.stores(10)
    trace.stores(20, commit=False)
    trace.answers(entry(20))
    assert trace.said() == (
        f"broker-1 told 20 (leader epoch 0) as the committed offset of group g for orders-0, but the log of {OFFSETS} "
        "has 10 (leader epoch 0) at 0"
    )
    for told in (None, entry(9), entry(10, 1), entry(10, metadata_epoch=3)):
        trace = Remembering()
        trace.begins()
        trace.stores(10)
        trace.answers(told)
        assert trace.result("O7").violated == 1


def test_a_log_that_was_not_loaded_whole() -> None:
    """Shows that a coordinator must load its log up to its end, and have what is there: offsets, and groups."""
    for end, told, says in (
        (1, entry(10), "up to 1, but its log ends at 2"),
        (2, entry(10), "loaded 10 (leader epoch 0) as the committed offset of"),
        (2, None, "loaded nothing as the committed offset of"),
    ):
        trace = Remembering()
        trace.begins()
        trace.stores(10)
        trace.stores(20)
        trace.leads(2, 1, 2)
        trace.loads(end, told, 1, 2)
        assert says in trace.said()
    trace = Remembering()
    trace.begins()
    trace.stable(4)
    trace.leads(2, 1)
    trace.loads(0, None, 1, 2, g=("Stable", 3))
    assert "loaded group g in generation 3, but generation 4 of it was stable" in trace.said()


def test_what_a_new_leader_has_is_told_when_it_is_loaded() -> None:
    """Shows that what was loaded is told, also while the high watermark of the new leader is below it; and that what is
    in no log is not."""
    trace = Remembering()
    trace.begins()
    trace.stores(10)
    at = trace.stores(20, commit=False)
    trace.writes(2, 0, leads=False)
    trace.leads(2, 1, at + 1)
    trace.loads(at + 1, entry(20), 1, 2)
    trace.answers(entry(20), 1, 2)
    assert trace.result("O7").violated == 0
    trace = Remembering()
    trace.begins()
    trace.stores(10)
    trace.stores(20, commit=False)
    trace.leads(2, 1, 1)
    trace.loads(1, entry(20), 1, 2)
    assert trace.result("O7").violated == 1


def test_who_does_not_coordinate_answers() -> None:
    """Shows that a broker which does not lead the offsets partition any more, or has not loaded it, must not answer or
    take commits."""
    trace = Remembering()
    trace.begins()
    trace.stores(10)
    trace.leads(1, 1, 1, follows=True)
    trace.answers(entry(10))
    assert trace.said().endswith("was answered by broker-1, which does not lead it")
    trace = Remembering()
    trace.leads(1, 0)
    trace.answers(None)
    assert trace.said().endswith("which has not loaded it")
    trace = Remembering()
    trace.begins()
    trace.unloads()
    trace.decides(10, trace.writes())
    assert "was accepted by broker-1, which has not loaded it" in trace.said()
    trace = Remembering()
    trace.begins()
    trace.decides(10, 5)
    assert trace.said().endswith("whose log has no such commit at 5")
    trace = Remembering()
    trace.leads(2, 1)
    trace.loads(0, None, 0, 2)
    assert trace.said().endswith("in leader epoch 0, which it does not lead")


def test_who_is_elected_again_in_place_goes_on() -> None:
    """Shows that a coordinator that leads once more, and did not give up in between, need not load again."""
    trace = Remembering()
    trace.begins()
    trace.stores(10)
    trace.leads(1, 2, 1)
    trace.answers(entry(10), 2)
    assert trace.result("O7").violated == 0


def test_a_zombie_is_not_compared() -> None:
    """Shows that a coordinator which another one has taken over from without its hearing of it may tell what it has."""
    trace = Remembering()
    trace.begins()
    trace.stores(10)
    trace.leads(2, 1, 1)
    trace.loads(1, entry(10), 1, 2)
    trace.stores(20, 2, 1, commit=False)
    trace.commits_up_to(2, 2, 1)
    trace.answers(entry(10), 0, 1)
    assert trace.result("O7").violated == 0


def test_what_expires_leaves_memory_before_the_log() -> None:
    """Shows that nothing is told from when a tombstone is appended; and what is there as long as there is none."""
    trace = Remembering()
    trace.begins()
    trace.stores(10)
    at = trace.writes()
    trace.decides(-1, at, "", -1)
    trace.answers(None)
    trace.writes(2, leads=False)
    trace.commits_up_to(1, at + 1)
    trace.answers(None)
    assert trace.result("O7").violated == 0
    trace.answers(entry(10))
    assert trace.result("O7").violated == 1


def test_a_group_that_was_removed_is_gone() -> None:
    """Shows that an empty group which is dead need not be loaded, unless its coordinator resigned in that step."""
    for resigns in (False, True):
        trace = Remembering()
        trace.begins()
        trace.stable(4)
        trace.gen("Empty", 5, "")
        trace.writes()
        trace.apart = 0
        trace.gen("Dead", 5, "")
        if resigns:
            trace.unloads()
        trace.apart = 1000
        trace.leads(2, 1)
        trace.loads(0, None, 1, 2)
        assert trace.result("O7").violated == resigns


@pytest.mark.parametrize("then", ["generation", "look-up", "watermark", "resignation", "end"])
@pytest.mark.parametrize("written", [False, True])
def test_a_generation_without_members_is_written(written: bool, then: str) -> None:
    """Shows that a coordinator which goes on, or is there at the end of the run, violates O7 unless it has written that
    its group has no members."""
    trace = Remembering()
    trace.begins()
    trace.stores(10)
    trace.stable(4)
    before = trace.result("O7").tested
    trace.gen("PreparingRebalance", 4, "")
    emptied = trace.gen("Empty", 5, "")
    if written:
        trace.writes()
    if then == "generation":
        trace.gen("PreparingRebalance", 5, "m1")
    elif then == "look-up":
        trace.answers(entry(10))
    elif then == "watermark":
        trace.commits_up_to(1, 1)
    elif then == "resignation":
        trace.unloads()
    else:
        trace.down("broker-1", "end")
    result = trace.result("O7")
    assert (result.violated, result.tested > before) == (not written, True)
    if not written:
        assert result.violations[0].events == [emptied, trace.events[-1].id]
        assert trace.said() == (
            f"broker-1 formed generation 5 of group g, which has no members, and did not write that to {OFFSETS}"
        )


@pytest.mark.parametrize("what", ["other-broker", "other-epoch", "crash", "crash-of-another", "crash-unseen"])
def test_who_need_not_have_written_that_yet(what: str) -> None:
    """Shows that nothing is said of a broker that does not lead the partition in that epoch, nor of one that has died
    since, or of which nothing is heard any more; the death of another one changes nothing."""
    trace = Remembering()
    trace.begins()
    broker, epoch = 2 if what == "other-broker" else 1, 1 if what == "other-epoch" else 0
    trace.gen("Empty", 5, "", epoch=epoch, broker=broker)
    trace.answers(None, broker=3)
    assert trace.result("O7").violated == 1  # broker-3 does not coordinate
    if what == "crash":
        trace.down("broker-1")
    elif what == "crash-of-another":
        trace.down("broker-2")
    elif what == "crash-unseen":
        trace.incarnations["broker-1"] = 1
    trace.gen("PreparingRebalance", 5, "m1", broker=broker)
    assert trace.result("O7").violated == 1 + (what == "crash-of-another")


def test_an_unclean_election_excuses_what_it_lost() -> None:
    """Shows that a commit which an unclean leader lacks is excused, and one that it has is not."""
    for kept, excused in ((0, {"unclean-election": 1}), (1, {})):
        trace = Remembering()
        trace.begins()
        trace.stores(10)
        if not kept:
            trace.truncate("broker-2", 0, OFFSETS)
        trace.elected_uncleanly(2, 1)
        trace.leads(2, 1, kept)
        trace.loads(kept, None, 1, 2)
        assert trace.result("O7").excused == excused
        assert trace.result("O7").violated == kept


def committed_in_a_transaction(lost: int) -> Coordinated:
    """10 at offset 0 is committed by the marker at 1, and 20 at 2 by the one at 3; broker-2 leads after disks, or an
    unclean election, have lost what is from ``lost`` on."""
    trace = Remembering()
    trace.begins()
    for at, offset in ((0, 10), (2, 20)):
        for broker in (1, 2):
            trace.writes_in_transaction(broker)
        trace.decides(offset, at, producer=PRODUCER)
        for broker in (1, 2):
            trace.writes_in_transaction(broker, "commit")
        trace.commits_up_to(1, at + 2)
    trace.truncate("broker-2", lost, OFFSETS)
    trace.elected_uncleanly(2, 1)
    trace.leads(2, 1, lost)
    return trace


@pytest.mark.parametrize(
    ("lost", "told", "violated", "excused"),
    [(3, 10, 0, {"unclean-election": 1}), (4, 10, 1, {}), (2, 10, 0, {"unclean-election": 1})],
)
def test_what_a_marker_has_committed_goes_with_it(lost: int, told: int, violated: int, excused: dict[str, int]) -> None:
    """Shows that a commit in a transaction is lost with the marker that committed it, though its own record is there;
    and not if the new leader has both."""
    trace = committed_in_a_transaction(lost)
    trace.loads(lost, entry(told), 1, 2)
    result = trace.result("O7")
    assert (result.violated, result.excused) == (violated, excused)


@pytest.mark.parametrize(("told", "violated"), [(20, 0), (10, 1)])
def test_another_marker_settles_what_had_lost_its_own(told: int, violated: int) -> None:
    """Shows that nothing is excused any more once the new leader has a marker of its own for that transaction."""
    trace = committed_in_a_transaction(3)
    trace.loads(3, entry(10), 1, 2)
    trace.writes_in_transaction(2, "commit", 1)
    trace.commits_up_to(2, 4, 1)
    trace.answers(entry(told), 1, 2)
    result = trace.result("O7")
    assert (result.violated, result.excused) == (violated, {"unclean-election": 1})


def test_what_another_leader_has_replaced_comes_back_with_an_unclean_leader() -> None:
    """Shows that an unclean leader loads what its own log has, though the committed log had another record there."""
    for told, violated in ((20, 0), (30, 1)):
        trace = Remembering()
        trace.begins()
        trace.stores(10)
        trace.stores(20, commit=False)
        trace.leads(2, 1, 1)
        trace.loads(1, entry(10), 1, 2)
        trace.stores(30, 2, 1, commit=False)
        trace.commits_up_to(2, 2, 1)
        trace.elected_uncleanly(1, 2)
        trace.leads(1, 2, 2)
        trace.commits_up_to(1, 2, 2)
        trace.loads(2, entry(told), 2, 1)
        assert trace.result("O7").violated == violated, told


@pytest.mark.parametrize(("members", "violated"), [("m1 m3", 0), ("m1 m2", 1), ("m1 m4", 0), ("m1", 0)])
def test_a_static_member_that_came_back(members: str, violated: int) -> None:
    """Shows that a coordinator which loads a stable generation knows a member id that was told since, and perhaps a
    later one, but not one that was replaced before."""
    trace = Remembering()
    trace.begins()
    trace.gen("Stable", 4, "m1")
    trace.gen("Stable", 5, "m1 m2")
    trace.gen("Stable", 5, "m1 m3")
    trace.leads(2, 1)
    known = {"g": dict.fromkeys(members.split(), "consumer-1")}
    trace.emit("broker-2", GrpLoad(OFFSETS, 1, True, 0, {}, {"g": ("Stable", 5)}, known))
    result = trace.result("O7")
    assert result.violated == violated
    if violated:
        assert "with the members m1, m2, but generation 5 of it was stable with m1, m3 in" in trace.said()


READS = {"m1": ["orders"], "m2": ["orders"]}
GIVEN = {"m1": ["orders-0", "orders-1"], "m2": ["orders-2"]}


@pytest.mark.parametrize(
    ("given", "reads", "says"),
    [
        (GIVEN, READS, ""),
        ({"m1": ["orders-1", "orders-0"], "m2": ["orders-2"]}, READS, ""),
        ({"m1": [], "m2": []}, READS, "with nothing as the assignment of member m1, but generation 5 of it was"),
        ({**GIVEN, "m2": ["orders-1"]}, READS, "with orders-1 as the assignment of member m2, but generation 5 of it"),
        (GIVEN, {**READS, "m2": []}, "with nothing as the topics of member m2, but generation 5 of it was stable with"),
        (GIVEN, {}, ""),  # a trace that does not tell
        ({"m1": GIVEN["m1"], "m3": GIVEN["m2"]}, {"m1": ["orders"], "m3": ["payments"]}, ""),
        ({"m1": GIVEN["m1"], "m3": []}, READS, "with nothing as the assignment of member m3, but generation 5 of it"),
        ({"m3": GIVEN["m2"], "m4": GIVEN["m1"]}, READS, ""),
        ({"m1": GIVEN["m1"]}, READS, ""),  # whose members differ: others judge that
    ],
)
@pytest.mark.parametrize("rewritten", [False, True])
def test_what_the_members_of_a_loaded_group_have(
    given: dict[str, list[str]], reads: dict[str, list[str]], says: str, rewritten: bool
) -> None:
    """Shows that a coordinator knows what each member of a stable generation is assigned, and which topics it reads,
    also under the id with which a static member has come back, unless the leader was asked twice for its
    assignment."""
    trace = Remembering()
    trace.begins()
    members = dict.fromkeys(GIVEN, ONE)
    stable = GrpGen(OFFSETS, GROUP, "Stable", 5, 0, members=members, assignment=GIVEN, subscribed=READS)
    trace.emit("broker-1", structs.replace(stable, rewritten=rewritten))
    trace.leads(2, 1)
    known = {GROUP: dict.fromkeys(given, ONE)}
    loaded = GrpLoad(OFFSETS, 1, True, 0, {}, {GROUP: ("Stable", 5)}, known, {GROUP: given}, subscribed={GROUP: reads})
    trace.emit("broker-2", loaded)
    expected = says if not rewritten or "topics" in says else ""
    assert trace.result("O7").violated == bool(expected)
    if expected:
        assert f"loaded group g in generation 5 {expected}" in trace.said()


def test_a_loaded_group_without_its_members() -> None:
    """Shows that a generation which was stable with members has them in the log."""
    for number, violated in ((5, 1), (6, 0)):
        trace = Remembering()
        trace.begins()
        trace.stable(5)
        trace.leads(2, 1)
        trace.loads(0, None, 1, 2, g=("Empty", number))
        assert trace.result("O7").violated == violated
        if violated:
            assert "loaded group g without members in generation 5, but generation 5 of it was stable" in trace.said()


def test_assignments_that_a_loss_took() -> None:
    """Shows that the assignment of a generation may be another one after an unclean election."""
    trace = Remembering()
    trace.begins()
    trace.writes()
    trace.commits_up_to(1, 1)
    trace.stable(5)
    trace.elected_uncleanly(2, 1)
    trace.leads(2, 1)
    known, other = {GROUP: {"m1": ONE, "m2": TWO}}, {GROUP: {"m1": ["orders-1"], "m2": [TP]}}
    trace.emit("broker-2", GrpLoad(OFFSETS, 1, True, 0, {}, {GROUP: ("Stable", 5)}, known, other))
    result = trace.result("O7")
    assert (result.violated, result.excused) == (0, {"unclean-election": 1})


@pytest.mark.parametrize("resigns", [True, False])
def test_an_empty_group_is_removed_by_the_next_coordinator(resigns: bool) -> None:
    """Shows that a group which another coordinator has found empty in its log, and has removed, need not be known any
    more, whether the first one has resigned or not."""
    trace = Remembering()
    trace.begins()
    trace.stable(1)
    trace.gen("Empty", 2, "")
    trace.writes()
    if resigns:
        trace.leads(1, 1, 1, follows=True)
        trace.gen("Dead", 2, "")
        apart, trace.apart = trace.apart, 0
        trace.unloads()
        trace.apart = apart
    trace.writes(2, 0, leads=False)
    trace.leads(2, 1, 1)
    trace.loads(1, None, 1, 2, g=("Empty", 2))
    trace.emit("broker-2", GrpGen(OFFSETS, GROUP, "Dead", 2, 1, reason=GROUP_EXPIRED))
    trace.leads(1, 2, 1)
    trace.loads(1, None, 2, 1)
    assert trace.result("O7").violated == 0
