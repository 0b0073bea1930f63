"""``krift incidents add``: a failing run becomes an incident of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.failure_store import DirectoryStore
from chaos.home import failures_directory
from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from chaos.sources import file_text
from orchestrator.campaigns.failures import failure_of
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.signature import signature
from orchestrator.sim_run import run_in_sim
from tests.unit.cli.command import SCENARIO, krift, run_directory

FAILS = SCENARIO.replace("brokers: 1", "brokers: 2").replace("[[1]]", "[[1, 2]]") + "defects: [ack-before-hw]\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to work in, with no incidents of one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KRIFT_HOME", raising=False)
    (tmp_path / "small.yaml").write_text(FAILS, encoding="utf-8")
    return tmp_path


def test_a_failing_run_becomes_an_incident() -> None:
    """Shows that a run's directory gets a name in the library, which lists, shows and runs it, as expected."""
    assert krift("run", "small.yaml", "--quiet").code == 1
    ended = krift("incidents", "add")
    assert (ended.code, ended.out.partition(":")[0]) == (0, "small-p17"), ended.err
    assert "krift run small-p17" in ended.err
    listed = krift("incidents", "list")
    assert (listed.code, listed.err) == (0, "")
    assert "small-p17" in listed.out and "kip-207" in listed.out
    shown = krift("incidents", "show", "small-p17").out
    assert shown.startswith("# P17: ") and "VIOLATED: " in shown and "name: small-p17" in shown
    assert krift("run", "small-p17", "--quiet").code == 0
    assert "did you mean small-p17?" in krift("run", "small-p1", "--quiet").err


def test_what_was_shrunk_is_preferred_and_stays_as_it_is() -> None:
    """Shows that the small scenario in a run's directory is taken, its comment too; only its name is another one."""
    assert krift("run", "small.yaml", "--quiet").code == 1
    assert krift("shrink", "--quiet", "--budget", "3").code == 0
    assert krift("incidents", "add", "latest", "--name", "acks-too-soon").code == 0
    small = Path("runs/latest/shrunk.yaml").read_text(encoding="utf-8")
    kept = Path(".krift/incidents/acks-too-soon.yaml").read_text(encoding="utf-8")
    assert kept == small.replace("name: small\n", "name: acks-too-soon\n") != small
    assert krift("run", "acks-too-soon", "--quiet").code == 0


def test_a_stored_failure_becomes_an_incident() -> None:
    """Shows the way from the failure store, a cache, to the library, in the directory that KRIFT_HOME names."""
    plan = resolve(load_file(Path("small.yaml")))
    store, kind = DirectoryStore(failures_directory()), signature(run_in_sim(plan))
    store.save(failure_of(plan, kind, "so", "a campaign"))
    assert krift("incidents", "add", store.path_of(kind), "--name", "from-the-store").code == 0
    assert krift("run", "from-the-store", "--quiet").code == 0


def test_executors_get_the_text_of_ones_own_incidents() -> None:
    """Shows that an incident of one's own travels as text, and that what comes with Krift need not."""
    assert krift("incidents", "add", "small.yaml", "--name", "mine").code == 0
    text = file_text("mine")
    assert SimOrder("mine", text=text).plan().scenario == "mine"
    assert (file_text("kip-207"), file_text("everything")) == ("", "")


def test_an_incident_that_cannot_be_read_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Shows that a damaged file is named with its mistake when the library is listed, and when it is run; others are
    listed all the same, and a name that comes with Krift keeps its meaning."""
    monkeypatch.setenv("KRIFT_HOME", str(tmp_path / "home"))
    own = tmp_path / "home" / "incidents"
    own.mkdir(parents=True)
    (own / "good.yaml").write_text(SCENARIO, encoding="utf-8")
    (own / "bad.yaml").write_text("schema: krift/v1\n", encoding="utf-8")
    (own / "Not A Name.yaml").write_text(SCENARIO, encoding="utf-8")
    (own / "kip-207.yaml").write_text(SCENARIO, encoding="utf-8")
    ended = krift("incidents", "list")
    assert (ended.code, "good" in ended.out, "Not A Name" in ended.out) == (0, True, False)
    assert "an incident of your own cannot be used: " in ended.err and f"{own}/bad.yaml:1: name" in ended.err
    assert krift("run", "bad", "--quiet").code == 2
    assert krift("incidents", "show", "bad").code == 2
    assert "KAFKA-2334" in krift("incidents", "show", "kip-207").out


def test_a_run_that_does_not_fail_is_refused(elsewhere: Path) -> None:
    """Shows that the library takes no scenario that shows nothing."""
    Path("small.yaml").unlink()
    run_directory(elsewhere)
    ended = krift("incidents", "add")
    assert (ended.code, ended.out) == (2, "")
    assert "latest: it does not fail: nothing was violated in its run in the sim" in ended.err
    assert not Path(".krift").exists()


WRONG = {
    "name": ("--name Mine", "--name Mine: not a legal name", "lower-case letters"),
    "path": ("--name ../mine", "--name ../mine: not a legal name", "no path"),
    "incident": ("--name kip-207", "--name kip-207: there is an incident or a nemesis of that name", "another name"),
    "nemesis": ("--name everything", "there is an incident or a nemesis of that name", "another name"),
    "own": ("--name mine", "there is an incident or a nemesis of that name", "another name"),
    "no run": ("nothing", "nothing: no such run, scenario or nemesis", "its name under runs/"),
}


@pytest.mark.parametrize(("arguments", "problem", "remedy"), WRONG.values(), ids=WRONG)
def test_a_wrong_name(arguments: str, problem: str, remedy: str) -> None:
    """Shows the error for a name that is not legal or taken, and for a run that is not there."""
    own = Path(".krift/incidents")
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text(SCENARIO, encoding="utf-8")
    run = () if "nothing" in arguments else ("small.yaml",)
    ended = krift("incidents", "add", *run, *arguments.split())
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err and remedy in ended.err, ended.err
    assert [path.name for path in own.iterdir()] == ["mine.yaml"]


def test_a_library_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Shows the error where the user's own incidents cannot go."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("KRIFT_HOME", str(tmp_path / "file"))
    ended = krift("incidents", "add", "small.yaml", "--name", "mine")
    assert ended.code == 2
    assert "mine.yaml: cannot be written: Not a directory; expected KRIFT_HOME where you may write" in ended.err
