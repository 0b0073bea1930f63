"""What campaigns and shrinking do with the failure store: keep what failed, and try it again first."""

from __future__ import annotations

from chaos.failure_store import FailureStore, StoredFailure
from chaos.plan import Plan
from chaos.scenario.yaml_text import to_yaml
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.record import RunRecord
from orchestrator.run_dir import utc_now
from orchestrator.version import __version__


def failure_of(plan: Plan, signature: str, sentence: str, source: str, *, shrunk: bool = False) -> StoredFailure:
    """A failure to be saved. ``plan``: of the run that failed. ``source``: where it was met, for people."""
    return StoredFailure(
        signature=signature,
        sentence=sentence,
        document=plan.document,
        krift=__version__,
        found=utc_now(),
        source=source,
        shrunk=shrunk,
    )


def order_again(failure: StoredFailure) -> SimOrder:
    """The run that shows a stored failure again: its seed, settings and defects are in the document. Its plan raises
    InputError if this version of krift no longer takes that."""
    return SimOrder(f"{failure.document.get('name', 'stored')}.yaml", text=to_yaml(failure.document))


def settle(store: FailureStore, failure: StoredFailure, record: RunRecord) -> str:
    """After a stored failure was tried again: "" if it still fails the same way. Else it is forgotten, and this says
    why."""
    if record.signature == failure.signature:
        return ""
    store.delete(failure.signature)
    now = f"fails otherwise now ({record.signature})" if record.signature else "fails no longer"
    return f"{failure.signature}: found {failure.found} by krift {failure.krift}, {now}; it is forgotten"
