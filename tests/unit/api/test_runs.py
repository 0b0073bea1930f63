"""``krift.run`` and ``krift.load``: a run as a value."""

from __future__ import annotations

import signal
from pathlib import Path

import pandas as pd
import pytest

import krift
from actors.sim.world import World
from orchestrator.run_dir import RunDir
from tests.unit.cli.command import scenario


@pytest.fixture(scope="module")
def small() -> krift.Run:
    """A run in which a defect breaks a promise."""
    document = krift.Scenario.new("small", duration="1s", voters=1, brokers=1, topics={"orders": {"replicas": [[1]]}})
    clients = document.client("producer", topic="orders", rate="50/s").client("consumer", topic="orders")
    return krift.run(clients, seed=3, defects=["consumer-mislabel"])


def test_a_run_has_its_verdict_and_story(small: krift.Run) -> None:
    """Shows outcome, exit code, story, promises and violations of a run that did not go as expected."""
    assert (small.as_expected, small.exit_code, small.status, small.directory) == (False, 1, "completed", None)
    assert small.verdict.outcome == "violated"
    assert any("VIOLATED" in moment.text for moment in small.story)
    assert repr(small) == "<Run small, sim, seed 3: violated: the planted defect was caught by C3, as planned>"
    promises = small.promises().set_index("id")
    violations = small.violations()
    broken = promises[promises.status == "violated"]
    assert set(broken.index) == set(violations.invariant)
    assert (broken.first_us == violations.groupby("invariant").at_us.min()).all()
    assert promises.loc["H1", "tested"] == 0
    assert promises.loc["H1", "first_us"] is pd.NA
    assert all(each.path for one in small.verdict.invariants for each in one.violations)


def test_a_report_is_plain_text(small: krift.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows what krift report prints, without colours, also where the terminal would have some."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    told = small.report()
    assert told.isprintable() or "\x1b" not in told
    assert told.startswith("small, sim, seed 3\nplanted on purpose: consumer-mislabel (")
    assert "what happened, in seconds since time 0" in told
    assert "caught by C3, as planned" in small.markdown()
    assert "<failure" in small.junit()


def test_events_are_rows(small: krift.Run) -> None:
    """Shows all events with their bodies as text; those of some types with the fields of their bodies as columns; time
    counted from time 0; and ids as verdicts have them."""
    events = small.events()
    assert list(events.columns) == ["id", "at_us", "node", "incarnation", "seq", "type", "tp", "cause", "req", "body"]
    assert len(events) == small.verdict.events
    [zero] = events[(events.type == "ctl.phase") & events.body.str.contains('"chaos"')].at_us
    assert zero == 0
    assert set(small.violations().events.iloc[0]) <= set(events.id)
    rpcs = small.events("rpc")
    assert len(rpcs) == small.verdict.rpcs == (events.type == "rpc").sum()
    assert {"api", "took_ms"} <= set(rpcs.columns)
    assert "body" not in rpcs.columns
    both = small.events("send.invoke", "send.return")
    assert set(both.type) == {"send.invoke", "send.return"}
    assert both.at_us.is_monotonic_increasing


def test_a_type_that_does_not_occur_gives_no_row(small: krift.Run) -> None:
    """Shows an empty frame with the envelope's columns."""
    assert list(small.events("admin.invoke").columns)[:3] == ["id", "at_us", "node"]
    assert small.events("admin.invoke").empty


def test_an_unknown_type_is_refused(small: krift.Run) -> None:
    """Shows an error that names the nearest type."""
    with pytest.raises(krift.InputError, match="did you mean rpc"):
        small.events("rpcs")


def test_what_is_kept_is_loaded(tmp_path: Path) -> None:
    """Shows that a kept run and the same in memory are the same, by their digests, events and violations."""
    file = scenario(tmp_path, "defects: [consumer-mislabel]\n")
    kept = krift.run(file, out=tmp_path / "runs")
    memory = krift.run(file)
    assert kept.directory is not None
    assert kept.directory.parent == tmp_path / "runs"
    loaded = krift.load(kept.directory)
    assert loaded.verdict == kept.verdict == krift.load(out=tmp_path / "runs").verdict
    assert loaded.verdict.digest == memory.verdict.digest
    assert loaded.verdict.invariants == memory.verdict.invariants
    pd.testing.assert_frame_equal(loaded.events().drop(columns="req"), memory.events().drop(columns="req"))
    pd.testing.assert_frame_equal(loaded.violations(), memory.violations())
    assert loaded.again == memory.again == f"krift run {file} --runtime sim --seed 3"


def test_a_run_without_a_trace_says_so(kept_run: Path) -> None:
    """Shows the error of a run whose trace is gone or damaged, once somebody asks for events; its verdict is there."""
    part = next(RunDir(kept_run).trace.glob("*.parquet"))
    data = part.read_bytes()
    part.write_bytes(data[: len(data) // 2])
    run = krift.load(kept_run)
    assert run.as_expected
    with pytest.raises(krift.InputError, match=r"part-00000\.parquet: not a whole Parquet file"):
        run.events()


@pytest.fixture
def kept_run(tmp_path: Path) -> Path:
    """The directory of a run."""
    directory = krift.run(scenario(tmp_path), out=tmp_path / "runs").directory
    assert directory is not None
    return directory


def test_what_is_wrong_is_told_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows the errors for an unknown name, for variants of which none is chosen, for a nemesis without a seed, for
    settings and defects that there are not, and for a run that is not there."""
    monkeypatch.setattr(World, "run", lambda *_: pytest.fail("something was run"))
    for arguments, said in (
        ({"scenario": "kip-20"}, "did you mean kip-207"),
        ({"scenario": "kip-207"}, "variant=, one of off, seed, kafka"),
        ({"scenario": krift.Scenario.read("kip-207")}, "variant=, one of off, seed, kafka"),
        ({"scenario": "everything"}, "draws a scenario from a seed"),
        ({"scenario": "baseline", "settings": {"features.kip-20": "off"}}, "--set features.kip-20=off"),
        ({"scenario": "baseline", "defects": ["ack-before"]}, "--defect ack-before"),
    ):
        with pytest.raises(krift.InputError, match=said):
            krift.run(**arguments)  # type: ignore[arg-type]
    with pytest.raises(krift.InputError, match="no such run"):
        krift.load("nothing", out=tmp_path)


def test_settings_are_those_of_the_command(tmp_path: Path) -> None:
    """Shows that values come as a command line has them, in the command that does the run again, too."""
    file = scenario(tmp_path)
    settings = {"config.unclean.leader.election.enable": True, "seed": 5}
    run = krift.run(file, settings=settings)
    assert run.verdict.seed == 5
    assert "--set config.unclean.leader.election.enable=true --set seed=5" in run.again


def test_a_nemesis_draws_from_its_seed(tmp_path: Path) -> None:
    """Shows a run of a nemesis, with the command that does it again."""
    run = krift.run("quorum", seed=4)
    assert (run.verdict.seed, run.again) == (4, "krift run quorum --runtime sim --seed 4")


def test_ctrl_c_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows KeyboardInterrupt for a signal that ends a run early, kept or not."""
    before = World.run

    def interrupted(world: World, limit_us: int) -> object:
        signal.raise_signal(signal.SIGINT)
        return before(world, limit_us)

    monkeypatch.setattr(World, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        krift.run(scenario(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        krift.run(scenario(tmp_path), out=tmp_path / "runs")
    assert len(list((tmp_path / "runs").glob("small-*"))) == 1, "what was recorded is kept"
