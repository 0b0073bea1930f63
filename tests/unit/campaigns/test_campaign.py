"""A campaign without Spark: its runs are done one after the other, here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from py4j.protocol import Py4JError

from chaos.errors import InputError, RunError
from chaos.failure_store import DirectoryStore, FailureStore, MemoryStore
from chaos.words import duration
from orchestrator.campaigns import campaign as module
from orchestrator.campaigns.asked import Asked, Source
from orchestrator.campaigns.campaign import Campaign
from orchestrator.campaigns.directory import CampaignDir, create_campaign_dir
from orchestrator.campaigns.failures import order_again
from orchestrator.campaigns.keep import Drawn, Keeper, slug
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.recheck import difference
from orchestrator.campaigns.record import RunRecord
from orchestrator.cli.campaign_progress import describe
from orchestrator.run_dir import RunDir
from orchestrator.story.moments import Step
from orchestrator.verdict import Excuse, Violation, read_verdict
from tests.unit.campaigns.here import Here
from tests.unit.campaigns.records import failed, order, record
from tests.unit.cli.command import SCENARIO, krift

ASKED = Asked(
    name="small",
    krift="0.1.0",
    code="",
    created="",
    sources=[Source("small.yaml", [""], SCENARIO)],
    seeds=(1, 6),
    settings=[[]],
    defects=[],
    sample=1,
)
BROKEN = msgspec.structs.replace(ASKED, defects=["leader-skips-offset"], seeds=(1, 5))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    found = Here()
    monkeypatch.setattr(module, "spread", found.spread)
    monkeypatch.setattr(module, "recheck", lambda spark, kept: "")
    return found


def begin(
    directory: CampaignDir, asked: Asked = ASKED, said: list[str] | None = None, store: FailureStore | None = None
) -> Campaign:
    ticks = iter(range(10_000))
    told = [] if said is None else said
    return Campaign(directory, asked, told.append, store, lambda: float(next(ticks)))


def test_a_campaign_goes_on_where_it_stopped(here: Here, tmp_path: Path) -> None:
    """Shows that an interrupted campaign keeps what was done, and that the next session does the rest and no more; all
    runs are counted once, and a sample of them is kept."""
    directory = create_campaign_dir(tmp_path, "small")
    first = begin(directory)

    def stop() -> None:
        if here.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.run(None, stop)  # type: ignore[arg-type]
    assert (first.summary.runs, first.left) == (4, 2)
    assert first.report().interrupted
    second = begin(directory)
    assert (second.resumed, second.left) == (4, 2)
    second.run(None)  # type: ignore[arg-type]
    assert here.done == 6
    report = second.report()
    assert (report.runs, report.held, report.asked, report.interrupted) == (6, 6, 6, False)
    assert [done.number for done in directory.done()] == [1, 2, 3, 4, 5, 6]
    assert sorted(done.record.seed for done in directory.done()) == [1, 2, 3, 4, 5, 6]
    assert second.at_s > first.at_s, "time goes on where it stopped, too"
    assert (report.kept.sample, report.kept.repeated) == (1, 1)


def test_results_of_a_torn_part_are_done_again(here: Here, tmp_path: Path) -> None:
    """Shows that the runs of a part that a crash of the machine tore are done again and counted once."""
    directory = create_campaign_dir(tmp_path, "small")
    begin(directory).run(None)  # type: ignore[arg-type]
    parts = sorted(directory.results.iterdir())
    lost = len(list(directory.done()))
    parts[-1].write_bytes(b"PAR1")
    said: list[str] = []
    again = begin(directory, said=said)
    lost -= again.resumed
    assert lost > 0
    assert "its runs are done again" in said[0]
    before = here.done
    again.run(None)  # type: ignore[arg-type]
    assert here.done == before + lost
    assert (again.report().runs, again.report().kept.sample) == (6, 1)


def test_failures_are_kept(here: Here, tmp_path: Path) -> None:
    """Shows that the first runs of a signature are kept as krift run leaves them, under its name: they can be
    reported and checked again, and a second session keeps no more."""
    directory = create_campaign_dir(tmp_path, "small")
    campaign = begin(directory, BROKEN)
    campaign.run(None)  # type: ignore[arg-type]
    report = campaign.report()
    [found] = report.signatures
    assert (found.runs, report.violated, report.exit_code) == (5, 5, 1)
    assert len(found.kept) == 3
    assert found.kept[0].startswith(f"failures/{slug(found.signature)}/small-sim-seed")
    kept = directory.path / found.kept[0]
    ended = krift("report", kept)
    assert (ended.code, "again       krift run small.yaml --runtime sim --seed" in ended.out) == (1, True)
    assert found.reproduce == f"krift run {kept}/scenario.yaml"
    assert krift("check", kept, "--engine", "in-process").code == 1
    assert Keeper(directory).directories(found.signature, found.order) == found.kept
    assert begin(directory, BROKEN).summary.kept.repeated == 3
    with directory.held():
        assert not directory.aside.exists()
    record = kept / "record.json"
    record.write_bytes(record.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"record\.json: damaged: "):
        begin(directory, BROKEN)


def test_the_failure_that_lost_most_is_kept(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the run which lost most acknowledged records is kept, though it is not among the first of its kind,
    and that it is the one to look at first."""
    carry_out = module.carry_out

    def lossy(order: SimOrder, code: str = "") -> RunRecord | None:
        done = carry_out(order, code)
        return done and msgspec.structs.replace(done, lost=7 if done.seed == 5 else 0)

    monkeypatch.setattr(module, "carry_out", lossy)
    directory = create_campaign_dir(tmp_path, "small")
    campaign = begin(directory, BROKEN)
    campaign.run(None)  # type: ignore[arg-type]
    report = campaign.report()
    assert report.worst is not None
    assert (report.worst.seed, report.worst.lost, len(report.signatures[0].kept)) == (5, 7, 4)
    assert RunDir(directory.path / report.worst.kept).read_manifest().seed == 5
    assert report.worst.reproduce == f"krift run {directory.path / report.worst.kept}/scenario.yaml"


def test_what_a_kill_kept_from_being_kept(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a failure whose trace was not yet kept when the driver was killed is kept by the next session."""
    directory = create_campaign_dir(tmp_path, "small")

    def killed(keeper: Keeper, record: RunRecord) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Keeper, "keep", killed)
        begin(directory, BROKEN).run(None)  # type: ignore[arg-type]
    assert [done.record.seed for done in directory.done()] == [1]
    campaign = begin(directory, BROKEN)
    campaign.run(None)  # type: ignore[arg-type]
    assert sorted(each.record.seed for each in campaign.keeper.runs) == [1, 2, 3]


def test_a_run_that_is_not_the_same_twice(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a kept run whose trace is not the one of its executor is told at once, and ends it with 4."""
    real = module.carry_out

    def other(piece: Any, code: str) -> Any:
        return msgspec.structs.replace(real(piece, code), digest="0" * 32)

    monkeypatch.setattr(module, "carry_out", other)
    said: list[str] = []
    campaign = begin(create_campaign_dir(tmp_path, "small"), said=said)
    campaign.run(None)  # type: ignore[arg-type]
    assert said[0].startswith("MISMATCH: krift run small.yaml --runtime sim --seed")
    assert "done again, with another trace: 0000" in said[0]
    assert campaign.report().exit_code == 4
    assert begin(campaign.directory).report().exit_code == 4, "the next session knows it, too"


def test_two_engines_that_differ(here: Here, tmp_path: Path) -> None:
    """Shows what is told of a verdict that another engine does not come to."""
    directory = create_campaign_dir(tmp_path, "small")
    campaign = begin(directory, msgspec.structs.replace(ASKED, seeds=(1, 1)))
    campaign.run(None)  # type: ignore[arg-type]
    [kept] = campaign.keeper.runs
    verdict = read_verdict(RunDir(kept.directory))
    assert difference(verdict, verdict) == ""
    # How it came to a violation, or to a loss that a rule allows, is told by one of the two alone.
    steps = [Step(1, "f1 crash begins", "driver/0/1")]
    lost, broken = Excuse("unclean-election", "orders-0", "gone", []), Violation("orders-0", "gone", [])
    bare = [
        msgspec.structs.replace(each, excuses=[lost], violations=[broken]) if each.id == "C1" else each
        for each in verdict.invariants
    ]
    told = [
        msgspec.structs.replace(
            each,
            excuses=[msgspec.structs.replace(one, path=steps) for one in each.excuses],
            violations=[msgspec.structs.replace(one, path=steps) for one in each.violations],
        )
        for each in bare
    ]
    one, other = (msgspec.structs.replace(verdict, invariants=each) for each in (told, bare))
    assert one != other and difference(one, other) == ""
    fewer = [msgspec.structs.replace(each, tested=1) if each.id == "C1" else each for each in verdict.invariants]
    said = difference(verdict, msgspec.structs.replace(verdict, invariants=fewer))
    assert said.startswith("C1: held (tested ")
    assert said.endswith(" in its process, held (tested 1, violated 0) in Spark")
    none = difference(verdict, msgspec.structs.replace(verdict, invariants=[]))
    assert none.endswith(f"and {len(verdict.invariants) - 3} more")


def test_runs_that_signals_cut_short(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a run without a result is begun again, and that this has an end."""
    real, cut = module.carry_out, [3, 5]

    def sometimes(piece: Any, code: str) -> Any:
        return cut.remove(piece.seed) if piece.seed in cut else real(piece, code)

    monkeypatch.setattr(module, "carry_out", sometimes)
    campaign = begin(create_campaign_dir(tmp_path, "some"))
    campaign.run(None)  # type: ignore[arg-type]
    assert (campaign.summary.runs, here.done) == (6, 8)
    monkeypatch.setattr(module, "carry_out", lambda piece, code: None)
    with pytest.raises(RunError, match="signals to the executors cut 6 runs short, 3 times"):
        begin(create_campaign_dir(tmp_path, "none")).run(None)  # type: ignore[arg-type]


def test_a_store_that_cannot_be_written(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a full disk under the store of failures is told once, and costs the campaign nothing."""
    real = module.carry_out
    monkeypatch.setattr(
        module,
        "carry_out",
        lambda piece, code: msgspec.structs.replace(real(piece, code), signature=f"H1: {piece.seed}", exit_code=1),
    )
    blocked = tmp_path / "file"
    blocked.write_text("")
    said: list[str] = []
    campaign = begin(create_campaign_dir(tmp_path, "small"), said=said, store=DirectoryStore(blocked / "failures"))
    campaign.run(None)  # type: ignore[arg-type]
    assert campaign.report().runs == 6
    assert said == ["failures are not saved for the next campaign: Not a directory"]


def test_spark_gives_up() -> None:
    """Shows that what ends Spark's work is told in one line, in our own words where they are ours."""
    ours = (
        "Job aborted due to stage failure: Task 0\n  at x\nchaos.errors.RunError: an executor has another Krift\n at y"
    )
    theirs = "An error occurred.\n: Job aborted due to stage failure: Task 3 failed 4 times\n at z"
    lost = "Answer from Java side is empty\n at w"

    def ends(text: str) -> Iterator[None]:
        yield None
        raise Py4JError(text)

    for text, told in {
        ours: "an executor has another Krift",
        theirs: "Task 3 failed 4 times",
        lost: "Answer from Java side is empty",
    }.items():
        with pytest.raises(RunError) as error:
            list(module._told_plainly(ends(text)))
        assert str(error.value) == f"Spark gave up: {told}"


def test_the_sample_is_the_same_in_any_order() -> None:
    """Shows that the runs whose traces are kept are drawn by their names, not by who came first; failures are none."""
    records = [record(seed) for seed in range(50)]
    drawn, backwards = Drawn(4), Drawn(4)
    for each in records:
        drawn.offer(each)
    for each in reversed([*records, failed(99, "H1: x")]):
        backwards.offer(each)
    assert drawn.records == backwards.records
    assert len({each.seed for each in drawn.records}) == 4
    assert max(each.seed for each in drawn.records) > 10


def test_failures_are_tried_again_first(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a failure is saved, that the next campaign tries it before all else, and that it is forgotten when it
    fails no longer; a planted bug is not worth saving."""
    store, real = MemoryStore(), module.carry_out

    def fails(piece: Any, code: str) -> Any:
        found = real(piece, code)
        return msgspec.structs.replace(found, signature="H1: x", sentence="H1 x", exit_code=1) if broken else found

    monkeypatch.setattr(module, "carry_out", fails)
    broken = True
    begin(create_campaign_dir(tmp_path, "a"), msgspec.structs.replace(ASKED, seeds=(5, 5)), store=store).run(None)  # type: ignore[arg-type]
    [saved] = store.contents().failures
    assert (saved.signature, saved.sentence, saved.document["seed"]) == ("H1: x", "H1 x", 5)
    asked = msgspec.structs.replace(ASKED, seeds=(1, 1), first=[order_again(saved)])
    again = begin(create_campaign_dir(tmp_path, "b"), asked, store=store)
    again.run(None)  # type: ignore[arg-type]
    assert [done.record.seed for done in again.directory.done()] == [5, 1]
    assert {name: each.runs for name, each in again.report().sources.items()} == {
        "earlier failures": 1,
        "small.yaml": 1,
    }
    assert [each.signature for each in store.contents().failures] == ["H1: x"]
    broken = False
    said: list[str] = []
    begin(create_campaign_dir(tmp_path, "c"), asked, said, store).run(None)  # type: ignore[arg-type]
    assert "H1: x: found " in said[0]
    assert said[0].endswith("fails no longer; it is forgotten")
    assert store.contents().failures == []
    planted = begin(create_campaign_dir(tmp_path, "d"), BROKEN, store=store)
    planted.run(None)  # type: ignore[arg-type]
    assert (planted.report().violated, store.contents().failures) == (5, [])


def test_a_guided_campaign_goes_on_as_it_would_have(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that a guided campaign does as many runs as a random one, half of them mutations, and that one that was
    interrupted does the same runs in the end."""
    monkeypatch.setattr(module, "GENERATION", 4)
    asked = msgspec.structs.replace(ASKED, seeds=(1, 10), guide="coverage", sample=0)
    whole = begin(create_campaign_dir(tmp_path, "whole"), asked)
    whole.run(None)  # type: ignore[arg-type]
    runs = {name: each.runs for name, each in whole.report().sources.items()}
    assert sum(runs.values()) == 10
    assert runs["mutations"] > 1
    directory = create_campaign_dir(tmp_path, "parts")

    def stop() -> None:
        if here.done in (12, 16):
            here.done += 1
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            begin(directory, asked).run(None, stop)  # type: ignore[arg-type]
    begin(directory, asked).run(None)  # type: ignore[arg-type]
    digests = [{done.record.digest for done in each.done()} for each in (whole.directory, directory)]
    assert digests[0] == digests[1]


def test_names_of_signatures() -> None:
    """Shows that a directory's name is plain and short, and not the same for two signatures that begin alike."""
    long = "H1: broker-# (leader epoch #) reported # as the latest offset of orders-# to list-offsets-# after broker-#"
    assert slug(long).startswith("h1-broker-leader-epoch-reported-as-the-latest-offset-of-orde-")
    assert slug(long) != slug(f"{long} had reported # to list-offsets-#")
    assert slug("error: ../../x").startswith("error-x-")


def test_progress(here: Here, tmp_path: Path) -> None:
    """Shows the line before the first run, in the middle, and the kinds of failures."""
    campaign = begin(create_campaign_dir(tmp_path, "small"), BROKEN)
    assert describe(campaign) == "0 of 5 runs | the first are under way | none failed"
    lines: list[str] = []
    campaign.run(None, lambda: lines.append(describe(campaign)))  # type: ignore[arg-type]
    assert lines[2].startswith("2 of 5 runs | ")
    assert lines[2].endswith(" left | 2 failed, 1 kind: P14 2")
    assert "5 of 5 runs | checking kept traces again in Spark" in lines
    assert [duration(seconds) for seconds in (40.2, 700, 11_100)] == ["40 s", "12 min", "3 h 05 min"]


def test_orders_have_names() -> None:
    """Shows that two runs have one key only if they are the same run."""
    others = [{"settings": ("duration=2s",)}, {"text": f"{SCENARIO} "}, {"variant": "off"}, {"defects": ("raise",)}]
    keys = {order(1).key, order(2).key, *(msgspec.structs.replace(order(1), **other).key for other in others)}
    assert len(keys) == 6
