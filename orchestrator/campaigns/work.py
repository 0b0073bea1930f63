"""The work of an executor: a run, judged, and only its record sent back."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from importlib import resources

import msgspec

from actors.features import FEATURES
from chaos.errors import RunError
from chaos.plan import Plan
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.record import RunRecord, record_of, record_of_error
from orchestrator.coverage.observer import Coverage
from orchestrator.invariants.folds.known_findings import KNOWN_FINDINGS
from orchestrator.sim_run import Observer, SimRun, run_in_sim
from orchestrator.version import __version__

INTERRUPTED = "interrupted"
PACKAGES = ("actors", "chaos", "orchestrator", "krift")
"""All of Krift's code."""


@cache
def code_id() -> str:
    """Names Krift's version and code: runs of two codes are not to be counted together."""
    found = blake2b(digest_size=8)
    for package in PACKAGES:
        _add(found, resources.files(package), package)
    return f"{__version__}-{found.hexdigest()}"


def _add(found: blake2b, folder: resources.abc.Traversable, name: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir() and not entry.name.startswith(("_", ".")):
            _add(found, entry, f"{name}/{entry.name}")
        elif entry.name.endswith((".py", ".yaml")):
            data = entry.read_bytes()
            found.update(f"{name}/{entry.name} {len(data)}\n".encode())
            found.update(data)


def carry_out(order: SimOrder, code: str = "", observe: Callable[[Plan], Observer] | None = None) -> RunRecord | None:
    """Do a run; None if a signal cut it short, so that it is still to be done. ``code``: the driver's, as ``code_id``;
    "" if this is the driver. ``observe``: makes an observer of the run. Raises RunError if this machine has another
    Krift than the driver.

    What else goes wrong is a record, too: one run that Krift stumbles over does not end thousands.
    """
    if code and code != code_id():
        raise RunError(f"an executor has a different version of Krift than the driver: {code_id()}, not {code}")
    began, coverage = time.perf_counter(), Coverage()
    try:
        plan = order.plan()
        run = run_in_sim(plan, [coverage] if observe is None else [coverage, observe(plan)])
    except Exception as error:  # noqa: BLE001  (all of it is reported, as a run that could not be carried out)
        return record_of_error(order, error, time.perf_counter() - began)
    if run.status == INTERRUPTED:
        return None
    behind = "" if run.exit_code else _behind(order, run)
    return record_of(order, run, time.perf_counter() - began, coverage.points(), behind)


def _behind(order: SimOrder, run: SimRun) -> str:
    """What a run that shows findings about Kafka itself hides behind them: the failure that is still there with their
    mends, "" if none is."""
    mends = [KNOWN_FINDINGS[name].mend for name in run.verdict.known if KNOWN_FINDINGS[name].entails_something]
    if not mends:
        return ""  # each violation says that it is one, and nothing else is taken to follow
    settings = [f"features.{mend}={FEATURES[mend].values[-1]}" for mend in mends]
    mended = run_in_sim(msgspec.structs.replace(order, settings=(*order.settings, *settings)).plan())
    unexpected = mended.verdict.unexpected
    return f"behind {', '.join(run.verdict.known)}, with {', '.join(settings)}: {unexpected[0]}" if unexpected else ""
