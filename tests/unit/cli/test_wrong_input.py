"""What a stranger may get wrong: each time one error that says where and what, exit code 2, and nothing on stdout."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.nemesis import library
from orchestrator.campaigns.asked import Asked, Source
from orchestrator.campaigns.directory import CampaignDir, create_campaign_dir
from orchestrator.campaigns.work import code_id
from orchestrator.files import NotWritten
from orchestrator.run_dir import utc_now
from orchestrator.version import __version__
from tests.unit.chaos.nemesis_text import SMALL
from tests.unit.cli.command import krift, scenario

ARGUMENTS = {
    "command": ("ran", "there is no command 'ran'", "did you mean run?"),
    "subcommand": ("incidents shw", "No such command 'shw'", "show"),
    "option": ("run kip-207 --varaint off", "No such option '--varaint'", "--variant"),
    "no scenario": ("run", "Missing argument 'SCENARIO'", "krift run --help"),
    "scenario": ("run kip-20", "kip-20: no such scenario", "did you mean kip-207?"),
    "incident": ("incidents show kip-20", "kip-20: no such incident", "did you mean kip-207?"),
    "scenario file": ("run nowhere/mine.yaml", "nowhere/mine.yaml: cannot be read", "a scenario file"),
    "a directory": ("run ./", ".: cannot be read: Is a directory", "a scenario file"),
    "no seed": ("run everything", "everything is a nemesis, which draws a scenario from a seed", "--seed N"),
    "nemesis": ("run everthing --seed 1", "everthing: no such scenario or nemesis", "did you mean everything?"),
    "variant": ("run kip-207 --variant of", "there is no variant of", "did you mean off?"),
    "runtime": ("run kip-207 --runtime simm", "'simm' is not one of 'live', 'sim'", "krift run --help"),
    "seed": ("run kip-207 --seed -1", "-1 is not in the range", "krift run --help"),
    "no seeds": ("run kip-207 --seeds 0", "it would have no seed", "expected N (for 1 to N) or A-B"),
    "seeds backwards": ("run kip-207 --seeds 5-3", "5 is above 3", "expected N (for 1 to N) or A-B"),
    "seeds in words": ("run kip-207 --seeds some", "'some' is no range of seeds", "expected N (for 1 to N) or A-B"),
    "too many seeds": ("run kip-207 --seeds 9999999", "holds 9,999,999 seeds", "at most 1,000,000"),
    "too large a seed": ("run kip-207 --seeds 1-9999999999999999999", "a seed is at most", "9223372036854775807"),
    "seed and seeds": ("run kip-207 --seed 1 --seeds 2", "exclude each other", "krift run --help"),
    "no value": ("run kip-207 --set foo", "--set foo: there is no value", "KEY=VALUE"),
    "feature": ("run kip-207 --set features.kip207=off", "unknown feature kip207", "did you mean kip-207?"),
    "feature value": ("run kip-207 --set features.kip-207=on", "'on' is not a value", "off, seed, kafka"),
    "config key": (
        "run kip-207 --set config.min.isr=2",
        "unknown configuration key min.isr",
        "a name in docs/configuration.md",
    ),
    "defect": ("run kip-207 --defect list-log-ends", "no such defect", "did you mean list-log-end?"),
    "two forms": ("run kip-207 --dry-run --json", "--dry-run prints a timeline", "krift run --help"),
    "run": ("report nothing", "nothing: no such run", "the directory of a run"),
    "empty run": ("check", "latest: no such run", "--out where runs are"),
    "too long": ("report " + "x" * 5000, "cannot be read: File name too long", "x"),
    "verdict and event": ("report --junit --event broker-1/0/0", "print different things", "krift report --help"),
    "master for nobody": ("run kip-207 --runtime live --master yarn", "--master: nothing of", "--cluster spark"),
    "master without executors": (
        "run kip-207 --runtime live --cluster spark --master local[2]",
        "'local[2]' cannot carry Ray nodes",
        "local-cluster[",
    ),
    "sim on executors": ("run kip-207 --cluster spark", "a sim run needs no cluster", "--runtime live"),
    "nothing to compare": ("compare kip-207", "make the same runs", "two settings that differ"),
    "same settings": (
        "compare kip-207 --a features.kip-207=kafka --b features.kip-207=kafka",
        "make the same runs",
        "--a features.kip-207=off",
    ),
    "same by default": ("compare kip-207 --a features.kip-207=kafka", "make the same runs", "two settings that differ"),
    "feature of a side": ("compare kip-207 --b features.kip207=off", "unknown feature kip207", "did you mean kip-207?"),
    "setting of a side": ("compare kip-207 --a foo=1", "--a foo=1: foo: nothing to set", "features.NAME"),
    "seed of a side": ("compare kip-207 --b seed=3", "--b seed=3: the sides share their seeds", "--seeds"),
    "variants of sides": ("compare kip-207 --variant off --variant-b seed", "it excludes", "krift compare --help"),
    "variant of a side": ("compare kip-207 --variant-b of", "there is no variant of", "did you mean off?"),
    "compared live": ("compare kip-207 --runtime live", "No such option '--runtime'", "krift compare --help"),
    "compared nothing": ("compare kip-20", "kip-20: no such scenario or nemesis", "did you mean kip-207?"),
    "no campaign": ("campaign", "Missing argument 'NAME...'", "krift campaign --help"),
    "campaign of how many": ("campaign kip-207", "Missing option '--seeds'", "N or A-B"),
    "campaign's scenario": ("campaign baseline kip-20 --seeds 2", "kip-20: no such scenario", "did you mean kip-207?"),
    "campaign's variant": (
        "campaign kip-207 baseline --seeds 2 --variant off",
        "baseline.yaml",
        "there is no variant off",
    ),
    "campaign's second value": (
        "campaign kip-207 --seeds 2 --set features.kip-207=off --set features.kip-207=on",
        "'on' is not a value",
        "off, seed, kafka",
    ),
    "campaign's defect": ("campaign kip-207 --seeds 2 --defect x", "--defect x: no such defect", "krift exam --list"),
    "campaign's master": ("campaign kip-207 --seeds 2 --master spark", "--master spark: no Spark master", "local[N]"),
    "campaign to go on with": ("campaign --resume latest", "--resume latest: no such campaign", "the directory of a"),
    "campaign in two forms": ("campaign kip-207 --seeds 2 --dry-run --json", "--dry-run prints", "--help"),
    "moment": ("replay --at 5", "--at needs --node", "krift replay --help"),
}


@pytest.mark.parametrize(("command", "problem", "remedy"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_wrong_argument(
    command: str, problem: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that the error names the argument and a remedy, and that nothing was started or written."""
    monkeypatch.chdir(tmp_path)
    ended = krift(*command.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("krift: ")
    assert problem in ended.err
    assert remedy in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    ["run kip-20", "run kip-207 --defect list-log-en", "run kip-207 --set config.brok=3", "exam --oddity nonsense"],
)
def test_a_long_list_is_named_and_not_printed(command: str) -> None:
    """Shows that where there are many names, the message is one line that says what prints them, after the hint."""
    ended = krift(*command.split())
    assert ended.code == 2
    assert len(ended.err) < 200, ended.err
    assert ended.err.endswith((" prints\n", "a name in docs/configuration.md\n"))


def test_no_command_at_all() -> None:
    """Shows that krift alone prints its help, and is no success."""
    ended = krift()
    assert (ended.code, ended.out) == (2, "")
    assert "Usage: krift" in ended.err
    assert "report" in ended.err


@pytest.mark.parametrize("indent", ["", "variants:\n  only:\n    "], ids=["scenario", "variant"])
def test_an_expectation_that_nobody_checks(indent: str, tmp_path: Path) -> None:
    """Shows that an invariant which is not checked cannot be named, wherever that is written."""
    ended = krift("run", scenario(tmp_path, f"{indent}expect: {{held: [X3, T99]}}\n"), "--out", tmp_path / "runs")
    assert (ended.code, ended.out) == (2, "")
    assert "expect.held[1]: T99 is not an invariant; expected the id of one that is checked, such as H1" in ended.err
    assert f"small.yaml:{17 if indent else 15}: " in ended.err
    assert not (tmp_path / "runs").exists()
    assert krift("run", scenario(tmp_path, f"{indent}expect: {{may: [T99]}}\n"), "--dry-run").code == 2


MALFORMED = """
expect: {held: [T99, C99], violate: [X3]}
chaos:
  - {when: {at: 1ms}, fault: {crash: broker-7}, for: 1ms}
"""
SETTINGS = ("features.kip207=off", "foo", "duration=soon", "config.min.isr=2")
OPTIONS = [word for setting in SETTINGS for word in ("--set", setting)] + ["--defect", "list-log-ends"]


@pytest.mark.parametrize("command", [("run",), ("campaign", "--seeds", "2"), ("shrink",)], ids=lambda words: words[0])
def test_all_mistakes_of_a_command_are_told_at_once(command: tuple[str, ...], tmp_path: Path) -> None:
    """Shows that mistakes of shape and of names, ids that are not checked, and options come in one round: those of the
    file by line, then those of the options as they were given."""
    file = scenario(tmp_path, MALFORMED)
    ended = krift(*command, file, *OPTIONS)
    assert (ended.code, ended.out) == (2, "")
    told = [line.removeprefix("krift: ").replace(f"{file}:", "small.yaml:") for line in ended.err.splitlines()]
    assert [line.partition(";")[0] for line in told] == [
        "small.yaml:16: expect.violate: unknown key",
        "small.yaml:16: expect.held[0]: T99 is not an invariant",
        "small.yaml:16: expect.held[1]: C99 is not an invariant",
        "small.yaml:18: chaos[0].fault.crash[0]: unknown node broker-7",
        "--set features.kip207=off: features.kip207: unknown feature kip207",
        "--set foo: there is no value",
        "--set duration=soon: duration: 'soon' is not a duration",
        "--set config.min.isr=2: cluster.config.min.isr: unknown configuration key min.isr",
        "--defect list-log-ends: no such defect",
    ]


def test_the_options_are_looked_at_where_there_is_no_scenario() -> None:
    """Shows that a scenario that is not there hides nothing that can be said without it, nor does a --cluster."""
    ended = krift("run", "kip-20", "--set", "foo", "--defect", "x", "--cluster", "spark")
    assert [line.removeprefix("krift: ").partition(";")[0] for line in ended.err.splitlines()] == [
        "kip-20: no such scenario or nemesis",
        "--set foo: there is no value",
        "--defect x: no such defect",
        "--cluster: a sim run needs no cluster",
    ]
    two = krift("campaign", "kip-20", "baselin", "--seeds", "2", "--set", "foo")
    assert [line.partition(":")[0] for line in two.err.replace("krift: ", "").splitlines()] == [
        "kip-20",
        "baselin",
        "--set foo",
    ]


def test_both_sides_of_a_comparison_are_told_at_once() -> None:
    """Shows that a mistake of a side is that side's option's, and that one of both is told once."""
    sides = ("--a", "features.kip207=off", "--b", "seed=3", "--b", "foo", "--set", "config.min.isr=2")
    ended = krift("compare", "kip-207", *sides, "--defect", "x")
    assert [line.removeprefix("krift: ").partition(";")[0] for line in ended.err.splitlines()] == [
        "--set config.min.isr=2: cluster.config.min.isr: unknown configuration key min.isr",
        "--a features.kip207=off: features.kip207: unknown feature kip207",
        "--b seed=3: the sides share their seeds",
        "--b foo: there is no value",
        "--defect x: no such defect",
    ]


def test_what_a_wrong_option_may_have_meant_is_left_alone(tmp_path: Path) -> None:
    """Shows that nothing is told that may not be so: nodes where their number is malformed, a variant's settings where
    there is no such variant."""
    file = scenario(tmp_path)
    ended = krift("run", file, "--set", "cluster.brokers=many", "--set", "nodes.broker-2.config.num.io.threads=4")
    assert ended.err.count("\n") == 1 and "--set cluster.brokers=many: " in ended.err
    ended = krift("run", file, "--variant", "dynamic", "--set", "cluster.spare-controllers=1")
    assert ended.err.count("\n") == 1 and "there is no variant dynamic" in ended.err


def test_a_nemesis_that_leaves_out_what_nobody_checks(tmp_path: Path) -> None:
    """Shows that a file may not say so of anything else, and that those of the library do not."""
    path = tmp_path / "mine.yaml"
    for name in ("T99", "X9"):
        path.write_text(f"{SMALL}untested: {{H5: nobody asks, {name}: nobody can}}\n")
        ended = krift("campaign", path, "--seeds", "2", "--out", tmp_path / "runs")
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert f"mine.yaml:5: untested.{name}: {name} is not an invariant; expected" in ended.err
    assert not (tmp_path / "runs").exists()
    assert krift("campaign", *library.names(), "--seeds", "1", "--dry-run").code == 0


def test_an_out_that_cannot_be_written(tmp_path: Path) -> None:
    """Shows that a file in the place of --out, or of its link to the newest run, is found before anything starts."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    ended = krift("run", scenario(tmp_path), "--out", blocked / "runs")
    assert (ended.code, ended.out) == (2, "")
    assert f"--out {blocked}/runs: no run can be kept there: Not a directory" in ended.err
    (tmp_path / "runs" / "latest").mkdir(parents=True)
    ended = krift("run", scenario(tmp_path), "--out", tmp_path / "runs")
    assert ended.code == 2
    assert "runs/latest: in the way" in ended.err


def _campaign(folder: Path, **changes: object) -> Path:
    """A campaign of two runs that nobody has begun."""
    small = scenario(folder)
    asked = Asked(
        name="small",
        krift=__version__,
        code=code_id(),
        created=utc_now(),
        sources=[Source(str(small), [""], small.read_text(encoding="utf-8"))],
        seeds=(1, 2),
        settings=[[]],
        defects=[],
        sample=10,
    )
    directory = create_campaign_dir(folder / "runs", "small")
    directory.write_asked(msgspec.structs.replace(asked, **changes))
    return directory.path


def test_a_campaign_goes_on_as_it_was_begun(tmp_path: Path) -> None:
    """Shows that a campaign is not mixed with runs of another krift, of other options, or of half of the options, nor
    with what another krift does at the same time."""
    path = _campaign(tmp_path)
    small = tmp_path / "small.yaml"
    ended = krift("campaign", small, "--seeds", "3", "--resume", path)
    assert (ended.code, ended.out) == (2, "")
    assert "a campaign with other options: seeds [1,2], and now [1,3]; expected the same, or none at all" in ended.err
    ended = krift("campaign", "--seeds", "3", "--resume", path)
    assert (ended.code, "repeat all of them, names first, or none" in ended.err) == (2, True)
    old = _campaign(tmp_path, code="0.0.9-0123456789abcdef")
    ended = krift("campaign", "--resume", old)
    assert (ended.code, "begun by another krift (0.0.9-0123456789abcdef; this is " in ended.err) == (2, True)
    with CampaignDir(path).held():
        ended = krift("campaign", "--resume", path)
    assert (ended.code, "another krift is at work on this campaign" in ended.err) == (2, True)


def test_a_campaign_that_is_none(tmp_path: Path) -> None:
    """Shows a directory without a campaign, a damaged one, one of another format, and an --out in the way."""
    ended = krift("campaign", "--resume", tmp_path)
    assert (ended.code, "expected a directory that krift campaign wrote" in ended.err) == (2, True)
    path = _campaign(tmp_path)
    whole = (path / "campaign.json").read_bytes()
    _cut(path / "campaign.json", 20)
    ended = krift("campaign", "--resume", path)
    assert (ended.code, "campaign.json: damaged" in ended.err) == (2, True)
    (path / "campaign.json").write_bytes(whole.replace(b"campaign/v1", b"campaign/v9"))
    ended = krift("campaign", "--resume", path)
    assert (ended.code, "krift-campaign/v9" in ended.err) == (2, True)
    ended = krift("campaign", tmp_path / "small.yaml", "--seeds", "2", "--out", tmp_path / "small.yaml" / "runs")
    assert (ended.code, "no run can be kept there" in ended.err) == (2, True)


def test_a_run_is_found_by_its_nearest_name(kept_run: Path) -> None:
    """Shows that the newest runs are named, and the one that was probably meant."""
    ended = krift("report", kept_run.name[:-1], "--out", kept_run.parent)
    assert ended.code == 2
    assert f"did you mean {kept_run.name}?" in ended.err


# ---- damaged run directories -----------------------------------------------------------------------------------


def _empty(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()


def _replace(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


def _cut(path: Path, to: int) -> None:
    path.write_bytes(path.read_bytes()[:to])


def _unreadable(path: Path) -> None:
    """As a test may run as root, whom no permission stops: a directory is unreadable as a file to everybody."""
    path.unlink()
    path.mkdir()


def _cut_page(run: Path) -> None:
    """The file's footer is whole, what it points at is not."""
    part = run / "trace" / "part-00000.parquet"
    data = bytearray(part.read_bytes())
    data[4:4096] = bytes(4092)
    part.write_bytes(data)


def _other_columns(run: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), run / "trace" / "part-00000.parquet")


def _gap(run: Path) -> None:
    (run / "trace" / "part-00000.parquet").rename(run / "trace" / "part-00001.parquet")


def _drop_events(run: Path) -> None:
    part = run / "trace" / "part-00000.parquet"
    table = pq.read_table(part)
    pq.write_table(table.slice(0, table.num_rows - 1), part)


def _foreign_event(run: Path) -> None:
    part = run / "trace" / "part-00000.parquet"
    table = pq.read_table(part)
    index = table.schema.get_field_index("body")
    bodies = ['{"type":"of.tomorrow"}', *table["body"].to_pylist()[1:]]
    pq.write_table(table.set_column(index, table.schema.field(index), pa.array(bodies, pa.string())), part)


ALL = ("report", "check --engine in-process", "replay")
CHECK = ("check --engine in-process",)
EVENT = ("report --event broker-1/0/0", *CHECK)
DAMAGES = {
    "no run": (ALL, _empty, "manifest.json: there is no such file", "a directory that krift run wrote"),
    "not json": (ALL, lambda run: _cut(run / "manifest.json", 40), "manifest.json: damaged", "restore it"),
    "no object": (ALL, lambda run: (run / "manifest.json").write_text("[]"), "it has no schema", "krift-manifest/v1"),
    "foreign": (
        ALL,
        lambda run: _replace(run / "manifest.json", b"krift-manifest/v1", b"krift-manifest/v9"),
        "it has schema 'krift-manifest/v9'",
        "krift-manifest/v1",
    ),
    "wrong type": (
        ALL,
        lambda run: _replace(run / "manifest.json", b'"seed": 3', b'"seed": "x"'),
        "Expected `int`",
        "restore it",
    ),
    "unreadable": (ALL, lambda run: _unreadable(run / "manifest.json"), "cannot be read", "a file that you may read"),
    "no verdict": (ALL[:1], lambda run: (run / "verdict.json").unlink(), "it has no verdict", "krift check"),
    "cut verdict": (ALL[:1], lambda run: _cut(run / "verdict.json", 99), "verdict.json: damaged", "restore it"),
    "foreign verdict": (
        ALL[:1],
        lambda run: _replace(run / "verdict.json", b"krift-verdict/v1", b"krift-verdict/v2"),
        "it has schema 'krift-verdict/v2'",
        "krift-verdict/v1",
    ),
    "no scenario": (ALL[1:], lambda run: (run / "scenario.yaml").unlink(), "scenario.yaml: cannot be read", ""),
    "bad scenario": (ALL[1:], lambda run: _cut(run / "scenario.yaml", 30), "scenario.yaml", "expected"),
    "no trace": (CHECK, lambda run: shutil.rmtree(run / "trace"), "it has no trace: none was kept", "krift run"),
    "cut trace": (
        CHECK,
        lambda run: _cut(run / "trace" / "part-00000.parquet", 5000),
        "part-00000.parquet: not a whole Parquet file",
        "restore it",
    ),
    "a column's name is no text": (
        CHECK,
        lambda run: _replace(run / "trace" / "part-00000.parquet", b"incarnation", b"\x90ncarnation"),
        "part-00000.parquet: not a whole Parquet file: 'utf-8' codec can't decode",
        "restore it",
    ),
    "cut page": (EVENT, _cut_page, "trace: damaged after 0 events: ", "restore it"),
    "other columns": (CHECK, _other_columns, "without the columns run, node", "restore it"),
    "a part is missing": (CHECK, _gap, "part-00000.parquet is missing", "restore it"),
    "an event is missing": (CHECK, _drop_events, "not what the run recorded: its digest is", "restore it"),
    "foreign event": (CHECK, _foreign_event, "trace: damaged after 0 events: Invalid value 'of.tomorrow'", "restore"),
    "no steps": (ALL[2:], lambda run: (run / "steps.bin").unlink(), "steps.bin: the digests", "--keep all"),
    "cut steps": (ALL[2:], lambda run: _cut(run / "steps.bin", 50), "steps.bin: not the digests", "restore it"),
    "unreadable steps": (ALL[2:], lambda run: _unreadable(run / "steps.bin"), "steps.bin: cannot be read", "restore"),
}


@pytest.mark.parametrize(("commands", "damage", "problem", "remedy"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_run(commands: tuple[str, ...], damage: object, problem: str, remedy: str, run: Path) -> None:
    """Shows that each command that needs what is damaged says so, with the file and a remedy, and prints no verdict."""
    assert callable(damage)
    damage(run)
    for command in commands:
        name, *options = command.split()
        ended = krift(name, run, *options)
        assert (ended.code, ended.out) == (2, ""), command
        assert problem in ended.err, ended.err
        assert remedy in ended.err, ended.err


def test_a_run_that_is_whole_passes_all_commands(run: Path) -> None:
    """Shows that what the damages above begin with is not refused."""
    for command in ALL:
        name, *options = command.split()
        assert krift(name, run, *options).code == 0, command


def test_a_node_that_is_not_there(run: Path) -> None:
    """Shows the nearest node's name, and what a sim run cannot do."""
    ended = krift("replay", run, "--node", "broker-2")
    assert (ended.code, "did you mean broker-1?" in ended.err) == (2, True)
    ended = krift("replay", run, "--node", "broker-1")
    assert (ended.code, "goes with --at" in ended.err) == (2, True)


def test_a_trace_of_another_version_is_judged(run: Path) -> None:
    """Shows that no digest is held against a trace of another version of krift, whose events may have other fields;
    that its end is missing is found by the invariants."""
    _replace(run / "manifest.json", b'"krift": "0.1.0"', b'"krift": "0.0.9"')
    _drop_events(run)
    ended = krift("check", run, "--engine", "in-process")
    assert "X4 is inconclusive: nothing says with which event" in ended.out
    assert ended.code == 3


PLACES = {
    "exam, a master": (("exam", "--master", "nonsense"), "--master nonsense: no Spark master; expected local[N]"),
    "exam, a file": (("exam", "--write", "nowhere/x.md"), "--write nowhere/x.md: cannot be written: No such file"),
    "exam, a directory": (("exam", "--out", "/dev/null/x"), "--out /dev/null/x: no run can be kept there: Not a"),
    "compare, a master": (
        ("compare", "kip-207", "--a", "features.kip-207=off", "--master", "nonsense"),
        "--master nonsense: no Spark master",
    ),
}


@pytest.mark.parametrize(("arguments", "told"), PLACES.values(), ids=PLACES)
def test_places_are_looked_at_before_hours_are_spent(arguments: tuple[str, ...], told: str) -> None:
    """Shows that a master that is none, and what cannot be written, are told before any run is done for them."""
    ended = krift(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err, ended.err


def test_what_a_file_needs_is_told() -> None:
    """Shows that a full disk and a place that is not there are told apart."""
    full = NotWritten(Path("a"), OSError(28, "No space left on device"))
    gone = NotWritten(Path("a"), OSError(2, "No such file or directory"))
    assert str(full) == "a: cannot be written: No space left on device; expected a disk with space for it"
    assert str(gone) == "a: cannot be written: No such file or directory; expected a place that you may write to"
