"""One run from plan to verdict: carry it out on a cluster, check its trace, weigh the results, keep the evidence."""

from __future__ import annotations

import io
import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import msgspec

from actors.sim.digest import TraceDigest
from actors.trace.events import DRIVER, CtlPhase, Rpc, RunRepeat, Stamped
from chaos.conductor import ScenarioConductor
from chaos.errors import RunError
from chaos.must_happen import Sightings
from chaos.plan import Plan
from chaos.scenario.yaml_text import to_yaml
from orchestrator.checked import Checked, Watcher, doubts_about, remarks_on, verdict_on
from orchestrator.clusters.base import Cluster, RunOrder, RunOutcome, Say, say_nothing
from orchestrator.clusters.sim import SimCluster
from orchestrator.driving import held
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.engines.key_group import Tell, keep_quiet
from orchestrator.engines.spark_ahead import SparkAhead
from orchestrator.files import write_bytes, write_text
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.repeats import repeat
from orchestrator.report.junit import Judged, write_junit
from orchestrator.report.losses import ACKNOWLEDGED
from orchestrator.run_dir import Manifest, RunDir, create_run_dir, utc_now
from orchestrator.setting import min_isr_in
from orchestrator.story.chronicle import Chronicle
from orchestrator.story.paths import Paths
from orchestrator.trace.collect import incarnations
from orchestrator.trace.order import merged
from orchestrator.trace.read import line_to_stamped, read_events
from orchestrator.verdict import (
    NOT_CARRIED_OUT,
    Excuse,
    Verdict,
    exit_code,
    write_verdict,
)
from orchestrator.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Runtime = Literal["live", "sim"]
Show = Callable[[ScenarioConductor], None]
"""Shows where a run stands; called a few times a second."""


class Settings(msgspec.Struct, frozen=True):
    """How a command carries out its runs. ``out``: root of the run directories. ``keep``: which of them stay.
    ``address``: of a Ray cluster to use (``orchestrator.clusters.ray_address``), "" for one of our own.
    ``master``: of a Spark whose executors are to carry Ray (``orchestrator.clusters.ray_on_spark``), "" for none.
    ``repeat``: do each run in the sim again, which tests X8, also where its scenario says nothing of that. ``spark``:
    judge live runs in Spark; else this process does, and no Spark is started. ``tls``, ``insecure``: of live nodes on
    other machines (``orchestrator.clusters.security``)."""

    runtime: Runtime
    out: Path
    keep: Literal["all", "unexpected"] = "all"
    address: str = ""
    master: str = ""
    repeat: bool = False
    spark: bool = True
    tls: str | None = None
    insecure: bool = False


class Carried(msgspec.Struct, frozen=True):
    """A run that ended. ``exit_code``: as the command would end if it were the only one. ``directory``: None if it
    was not kept. ``error``: why it could not be carried out. ``started``, ``again``: as in its manifest."""

    verdict: Verdict
    exit_code: int
    directory: Path | None
    interrupted: bool = False
    error: str = ""
    started: str = ""
    again: str = ""


class Recorded(msgspec.Struct, frozen=True):
    """A run that is over and not yet judged. checked: what its trace says, where that is known already.
    hold: its directory is held until this is closed."""

    plan: Plan
    directory: RunDir
    manifest: Manifest
    checked: Checked | None
    hold: ExitStack

    @property
    def needs_spark(self) -> bool:
        """Whether it takes Spark to judge it."""
        return self.checked is None and self.manifest.status != "interrupted"


class Session:
    """What all runs of a command share: one cluster, and one Spark session once something is checked with it. ``say``
    is told what goes on before the first run and around each."""

    def __init__(self, settings: Settings, cluster: Cluster | None = None, say: Say = say_nothing) -> None:
        self.settings = settings
        self._say = say
        self._cluster = cluster or _cluster(settings, self.spark)
        self._ahead: SparkAhead | None = None
        self._spark: SparkSession | None = None

    def __enter__(self) -> Session:
        if self.settings.master:
            self._say("starting Spark, and Ray on its executors, which takes half a minute")
            self.spark()
        elif self.settings.runtime == "live":
            where = f"reaching the Ray at {self.settings.address}" if self.settings.address else "starting Ray"
            self._say(f"{where}, and Spark beside it" if self.settings.spark else where)
            if self.settings.spark:
                self._begin_spark()
        try:
            self._cluster.__enter__()
            if self._ahead is not None and self._ahead.failed:
                self.spark()  # who cannot judge need not run
        except BaseException:
            self._end_spark()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Each takes seconds to end, most of which it waits.
        ending = Thread(target=self._end_spark, name="spark-end")
        ending.start()
        try:
            self._cluster.__exit__(kind, error, at)
        finally:
            ending.join()

    def _begin_spark(self) -> None:
        """Let Spark come up while Ray and the first nodes do. The JVM is forked: a fork beside gRPC's threads is safe
        without its handlers."""
        from orchestrator.clusters.local_ray import WITHOUT_FORK_HANDLERS

        os.environ.update(WITHOUT_FORK_HANDLERS)
        self._ahead = SparkAhead(_launch, _own_spark, warm_up)
        self._ahead.begin()

    def _end_spark(self) -> None:
        if self._ahead is not None:
            self._ahead.end()
        elif self._spark is not None:
            self._spark.stop()

    def spark(self) -> SparkSession:
        """The Spark session of the command."""
        if self._ahead is not None:
            return self._ahead.session()
        if self._spark is None and self.settings.master:
            from orchestrator.clusters.ray_on_spark import spark_for_ray

            self._spark = spark_for_ray(self.settings.master)
        elif self._spark is None:
            self._spark = _own_spark()
        return self._spark

    @property
    def judges_beside(self) -> bool:
        """Whether one run can be judged while the next one goes on: in Spark, beside nodes that have cores of their
        own."""
        return self.settings.runtime == "live" and not self.settings.master

    def carry_out(self, plan: Plan, reproduce: str = "", show: Show | None = None) -> Carried:
        """Run a plan and judge it; ``reproduce``, the command that does it again, goes into the manifest. Raises
        RunError if nothing could be recorded that is worth judging."""
        recorded = self.record(plan, reproduce, show)
        if recorded.needs_spark and self.settings.spark:
            self._say("judging it in Spark")
        return self.judge(recorded)

    def record(self, plan: Plan, reproduce: str = "", show: Show | None = None) -> Recorded:
        """Run a plan, to be judged with ``judge``. Raises RunError if nothing could be recorded that is worth that."""
        directory = create_run_dir(self.settings.out, plan.scenario, plan.variant, self.settings.runtime, plan.seed)
        manifest = _manifest(plan, directory.path.name, self.settings.runtime, reproduce)
        with ExitStack() as hold:
            hold.enter_context(held(directory.path))
            checked = self._record(plan, directory, manifest, show)
            return Recorded(plan, directory, manifest, checked, hold.pop_all())

    def _record(self, plan: Plan, directory: RunDir, manifest: Manifest, show: Show | None) -> Checked | None:
        """Carry a plan out. What its trace says, if it was watched."""
        write_text(directory.scenario, to_yaml(plan.document))
        directory.write_manifest(manifest)
        conductor = ScenarioConductor(plan)

        def progress() -> None:
            if self._ahead is not None and (conductor.phase != "starting" or plan.duration_us < LONG_US):
                # Until then the nodes that start need the cores; in a short run all do at once.
                self._ahead.go_on()
            if show is not None:
                show(conductor)

        watcher = Watcher(plan) if isinstance(self._cluster, SimCluster) else None
        if isinstance(self._cluster, SimCluster):
            self._cluster.observer = watcher
        order = RunOrder(manifest.run, plan, directory.path)
        with _told_if_it_stops_short(directory, manifest):
            outcome = self._cluster.run(order, conductor, progress, self._say)
        # Before it is judged: whoever interrupts that can have it judged later.
        _note(manifest, outcome, conductor)
        directory.write_manifest(manifest)
        if watcher is None:
            return None
        assert isinstance(self._cluster, SimCluster)
        if (self.settings.repeat or _expects_repeat(plan)) and outcome.status != "interrupted":
            manifest.repeated = repeat(plan).digest
        return watcher.checked(self._cluster.digest)

    def judge(self, recorded: Recorded) -> Carried:
        """Judge a run, in any thread, and keep its verdict."""
        plan, directory, manifest = recorded.plan, recorded.directory, recorded.manifest
        with recorded.hold:
            checked = recorded.checked
            if checked is None and (manifest.status == "interrupted" or not self.settings.spark):
                # Whoever pressed Ctrl-C does not want to wait for Spark.
                checked = check_in_process(directory, plan)
            elif checked is None:
                checked = check_in_spark(self.spark(), directory, plan, shared=not self.settings.master)
            checked = with_repeat(checked, checked.digest, manifest.repeated)
            verdict = verdict_on(
                plan, manifest.run, self.settings.runtime, checked, manifest.duration, manifest.doubts, manifest.remarks
            )
            verdict = with_paths(verdict, directory, checked.zero_us)
            self._finish(directory, manifest, verdict)
            return self._carried(directory, manifest, verdict)

    def _finish(self, directory: RunDir, manifest: Manifest, verdict: Verdict) -> None:
        manifest.digest = verdict.digest
        keep_verdict(directory, verdict)
        directory.write_manifest(manifest)

    def _carried(self, directory: RunDir, manifest: Manifest, verdict: Verdict) -> Carried:
        code = exit_code(verdict, manifest.status)
        error = f"{manifest.status}: {manifest.detail}" if code == NOT_CARRIED_OUT else ""
        path: Path | None = directory.path
        if self.settings.keep == "unexpected" and code == 0:
            shutil.rmtree(directory.path)
            path = None
        interrupted = manifest.status == "interrupted"
        return Carried(verdict, code, path, interrupted, error, manifest.started, manifest.reproduce)


LONG_US = 5_000_000
"""In a run of such a duration Spark has the time to come up."""
REPEAT = "X8"


def _expects_repeat(plan: Plan) -> bool:
    return REPEAT in (*plan.expect.held, *plan.expect.violated)


def repeat_result(first: str, second: str) -> InvariantResult:
    """What two traces of one scenario and seed say about X8, by their digests."""
    engine = InProcessEngine([REPEAT])
    engine.feed(Stamped("", DRIVER, 0, 0, 0, 0, "", "", RunRepeat(first, second)))
    return engine.results()[0]


def with_repeat(checked: Checked, first: str, repeated: str) -> Checked:
    """What a trace says, and its repetition, if there was one: the digests of the run and of that, "" if none."""
    if not repeated:
        return checked
    found = repeat_result(first, repeated)
    results = [found if each.id == REPEAT else each for each in checked.results]
    return msgspec.structs.replace(checked, results=results)


def _launch() -> None:
    from orchestrator.engines.spark_session import QUICK, launch_ahead

    launch_ahead(QUICK)


def _own_spark() -> SparkSession:
    from orchestrator.engines.spark_session import QUICK, spark_session

    return spark_session(more=QUICK)


def warm_up(spark: SparkSession) -> None:
    """Check a trace of one event while nodes start and run: the first job loads classes, and starts Python workers that
    import Krift. Of an empty one nothing would be sent to them."""
    from orchestrator.engines.batch import check_trace
    from orchestrator.trace.rows import COLUMNS, stamped_to_row
    from orchestrator.trace.schema import spark_schema

    row: Mapping[str, object] = stamped_to_row(Stamped("", DRIVER, 0, 0, 0, 0, "", "", CtlPhase("starting")))
    check_trace(spark.createDataFrame([tuple(row[name] for name in COLUMNS)], spark_schema()))


@contextmanager
def _told_if_it_stops_short(directory: RunDir, manifest: Manifest) -> Iterator[None]:
    """Let the manifest say so if a run ends before its trace is collected."""
    try:
        yield
    except BaseException as error:
        manifest.ended = utc_now()
        manifest.status = "interrupted" if isinstance(error, KeyboardInterrupt) else "not carried out"
        manifest.detail = str(error) or "before its trace was collected"
        directory.note_the_end(manifest)
        raise


def _note(manifest: Manifest, outcome: RunOutcome, conductor: ScenarioConductor) -> None:
    """Take down how a run went."""
    manifest.ended = utc_now()
    manifest.hosts = outcome.hosts
    manifest.duration = outcome.duration_us / 1_000_000
    manifest.zero_ms = -1 if conductor.zero_us is None else outcome.begun_ms + conductor.zero_us // 1000
    manifest.status = outcome.status if outcome.status != "completed" else conductor.status
    manifest.detail = outcome.detail or conductor.detail
    manifest.doubts = doubts_about(outcome, conductor)
    manifest.remarks = remarks_on(conductor)


def check_in_spark(spark: SparkSession, directory: RunDir, plan: Plan, shared: bool = True) -> Checked:
    """Check a collected trace with the batch engine. ``shared``: executors see this machine's files; else they are sent
    the trace."""
    from orchestrator.engines.batch import check_trace

    if not any(directory.trace.glob("*.parquet")):
        raise RunError(f"{directory.path}: nothing was recorded")
    if shared:
        # Spark would take brackets and stars in a path for a pattern.
        trace = spark.read.option("__globPaths__", "false").parquet(str(directory.trace.resolve()))
    else:
        trace = _sent(spark, directory)
    with ThreadPoolExecutor(1, thread_name_prefix="spark-check") as beside:
        results = beside.submit(check_trace, trace)
        try:
            rest = _the_rest(plan, read_events(directory.path))
            return msgspec.structs.replace(rest, results=results.result())
        except BaseException:
            # Nobody waits for it any more.
            spark.sparkContext.cancelAllJobs()
            raise


def check_in_stream(
    spark: SparkSession, directory: RunDir, plan: Plan, tell: Tell = keep_quiet, collected: bool = True
) -> Checked:
    """Check a run with the streaming engine: the chunks of its nodes' logs as far as they are closed, whether the run
    has ended or not; a run in the sim, which has none, by the files of its trace. ``tell`` hears of violations.
    ``collected``: whether there is a trace, which has all that the logs have."""
    from orchestrator.engines.streaming import check_stream, chunks, parts

    logs = bool(incarnations(directory.path))
    stream = chunks(spark, directory.logs) if logs else parts(spark, directory.trace)
    with TemporaryDirectory(prefix="krift-checkpoint-") as checkpoint:
        results = check_stream(stream, Path(checkpoint), tell=tell)
    events = read_events(directory.path) if collected else map(line_to_stamped, merged(directory.path))
    return msgspec.structs.replace(_the_rest(plan, events), results=results)


def _the_rest(plan: Plan, events: Iterator[Stamped]) -> Checked:
    """What a trace says besides the results of invariants."""
    sightings, digest, number, rpcs, chronicle = Sightings(plan), TraceDigest(), 0, 0, Chronicle()
    for event in events:
        sightings(event)
        chronicle(event)
        digest.add(event)
        number += 1
        rpcs += type(event.body) is Rpc
    return Checked([], sightings.seen, rpcs, number, digest.hexdigest(), chronicle.zero_us, chronicle)


def check_in_process(directory: RunDir, plan: Plan) -> Checked:
    """Check a collected trace in this process: the same folds."""
    watcher, digest = Watcher(plan), TraceDigest()
    for event in read_events(directory.path):
        watcher(event)
        digest.add(event)
    return watcher.checked(digest.hexdigest())


Judge = Callable[[Iterable[Stamped]], list[InvariantResult]]
"""Takes the events of a trace in order."""


def check_by(directory: RunDir, plan: Plan, judge: Judge) -> Checked:
    """Check a collected trace in this process with somebody's own engine."""
    results = judge(read_events(directory.path))
    return msgspec.structs.replace(_the_rest(plan, read_events(directory.path)), results=results)


def with_paths(verdict: Verdict, directory: RunDir, zero_us: int | None) -> Verdict:
    """A verdict with how each of its violations came about, if the trace is there."""
    if not any(directory.trace.glob("*.parquet")):
        return verdict
    return explained(verdict, lambda: read_events(directory.path), zero_us)


def explained(verdict: Verdict, trace: Callable[[], Iterable[Stamped]], zero_us: int | None) -> Verdict:
    """The same with the trace in order. If it is too long for all, the first violation of each invariant has its path
    before the others have. ``zero_us``: time 0 by its clock; None if it never came: then nothing is explained."""
    violations = [(number, each.id, one) for each in verdict.invariants for number, one in enumerate(each.violations)]
    losses = [excuse for each in verdict.invariants if each.id == ACKNOWLEDGED for excuse in each.excuses]
    if zero_us is None or not (violations or losses):
        return verdict
    wanted = {name for _, _, one in violations for name in (*one.events, *one.causes)}
    wanted |= {name for each in losses for name in each.events}
    paths = Paths(trace(), zero_us, wanted)
    found = {
        (name, number): msgspec.structs.replace(one, path=paths.to(one.key, one.events, one.causes))
        for number, name, one in sorted(violations, key=lambda entry: entry[0])
    }
    return msgspec.structs.replace(
        verdict,
        invariants=[
            msgspec.structs.replace(
                each,
                violations=[found[each.id, number] for number in range(len(each.violations))],
                excuses=[_lost(verdict, one, paths) if each.id == ACKNOWLEDGED else one for one in each.excuses],
            )
            for each in verdict.invariants
        ],
    )


def _lost(verdict: Verdict, excuse: Excuse, paths: Paths) -> Excuse:
    """The first loss that a rule allows, with how it came about."""
    path = paths.to_loss(excuse.key, excuse.events, min_isr_in(verdict.setting, excuse.key))
    return msgspec.structs.replace(excuse, path=path)


def write_violations(directory: RunDir, verdict: Verdict) -> None:
    """The violations as Parquet, one row each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "run": verdict.run,
            "invariant": each.id,
            "key": violation.key,
            "sentence": violation.sentence,
            "events": violation.events,
            "causes": violation.causes,
            "times": violation.times,
            "known": violation.known,
            "weight": each.weight,
            "at_us": violation.at_us,
        }
        for each in verdict.invariants
        for violation in each.violations
    ]
    text, texts = pa.string(), pa.list_(pa.string())
    kinds = {"run": text, "invariant": text, "key": text, "sentence": text, "events": texts, "causes": texts}
    kinds |= {"times": pa.int64(), "known": text, "weight": text, "at_us": pa.int64()}
    directory.violations.mkdir(exist_ok=True)
    path = directory.violations / "violations.parquet"
    found = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(kinds)), found)
    write_bytes(path, found.getvalue())


def keep_verdict(directory: RunDir, verdict: Verdict) -> None:
    """Write a verdict in its three forms: verdict.json, junit.xml, and a table of its violations."""
    write_verdict(verdict, directory)
    manifest = directory.read_manifest()
    write_junit(directory.junit, [Judged(verdict, manifest.started, manifest.reproduce)])
    write_violations(directory, verdict)


def _manifest(plan: Plan, run: str, runtime: Runtime, reproduce: str) -> Manifest:
    return Manifest(
        krift=__version__,
        run=run,
        scenario=plan.scenario,
        variant=plan.variant,
        runtime=runtime,
        seed=plan.seed,
        started=utc_now(),
        drawn=dict(plan.drawn),
        reproduce=reproduce,
    )


def reproduce_command(
    source: str, plan: Plan, runtime: Runtime, settings: tuple[str, ...], defects: tuple[str, ...]
) -> str:
    """The command that carries out the same run again."""
    return command(source, plan.variant, plan.seed, runtime, settings, defects)


def command(
    source: str, variant: str, seed: int, runtime: Runtime, settings: tuple[str, ...], defects: tuple[str, ...]
) -> str:
    """The command that carries out a run, in the words of its options."""
    parts = ["krift", "run", source, "--runtime", runtime]
    if variant:
        parts += ["--variant", variant]
    parts += ["--seed", str(seed)]
    for setting in settings:
        parts += ["--set", setting]
    for defect in defects:
        parts += ["--defect", defect]
    return shlex.join(parts)


def _sent(spark: SparkSession, directory: RunDir) -> DataFrame:
    """A trace that only this machine has, as a DataFrame."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from orchestrator.trace.schema import spark_schema

    trace = pa.concat_tables(pq.read_table(part) for part in directory.trace_parts())
    return spark.createDataFrame(trace, spark_schema())


def _cluster(settings: Settings, spark: Callable[[], SparkSession]) -> Cluster:
    if settings.runtime == "sim":
        return SimCluster(keep=settings.keep == "all")
    if settings.master:
        from orchestrator.clusters.ray_on_spark import RayOnSparkCluster

        return RayOnSparkCluster(spark, tls=settings.tls, insecure=settings.insecure)
    if settings.address:
        from orchestrator.clusters.ray_address import RayAddressCluster

        remote = RayAddressCluster(settings.address, tls=settings.tls, insecure=settings.insecure)
        # Before Spark is started for nothing.
        remote.reach()
        return remote
    from orchestrator.clusters.local_ray import LocalRayCluster

    return LocalRayCluster(tls=settings.tls, insecure=settings.insecure)
