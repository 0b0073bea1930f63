"""Traces of a campaign's runs. An executor sends back a record, and no trace: what is to be kept is done again here.

A run in the sim is the same wherever it is done, so nothing is lost; nothing large travels, and no executor needs a
path that the driver sees; and each kept run shows that it can be done again, by the digests of three traces: that
which its executor saw, that which is kept, and that of a process with other hashes (X8).
"""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path

import msgspec

from actors.trace.lines import DAMAGE
from orchestrator.campaigns.directory import CampaignDir
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.record import RunRecord
from orchestrator.run_dir import RESTORE, RunDir, write_json, wrong
from orchestrator.runner import Session, Settings
from orchestrator.verdict import NOT_CARRIED_OUT

RECORD_FILE = "record.json"
PER_SIGNATURE = 3
FAILURES_MAX = 150
"""Runs that are kept at most, of all signatures together."""
_SLUG_MAX = 60


class KeptRun(msgspec.Struct, frozen=True):
    """A run whose trace is kept. directory: as ``krift run`` leaves it. record: of the run on its executor."""

    directory: Path
    record: RunRecord

    @property
    def failed(self) -> bool:
        """Whether it is kept because it failed."""
        return bool(self.record.signature)


def slug(signature: str) -> str:
    """A directory's name for a signature: its beginning in plain letters, and what tells it from others."""
    words = re.sub(r"[^a-z0-9]+", "-", signature.lower()).strip("-")[:_SLUG_MAX].rstrip("-")
    return f"{words}-{blake2b(signature.encode(), digest_size=3).hexdigest()}"


def place(campaign: CampaignDir, record: RunRecord) -> Path:
    """Where the directory of a run goes."""
    return campaign.failures / slug(record.signature) if record.signature else campaign.sample


class Keeper:
    """Keeps runs of one campaign, those of earlier sessions included."""

    def __init__(self, campaign: CampaignDir) -> None:
        self.campaign = campaign
        self.runs = kept_runs(campaign)
        self._keys = {each.record.order.key for each in self.runs}

    def wants(self, record: RunRecord) -> bool:
        """Whether a failing run is to be kept: one of the first few of its signature, if there is a trace to keep."""
        if not record.signature or not record.digest:
            return False
        alike = sum(each.record.signature == record.signature for each in self.runs)
        return alike < PER_SIGNATURE and sum(each.failed for each in self.runs) < FAILURES_MAX

    def keep(self, record: RunRecord) -> KeptRun | None:
        """Do a run again and keep it; None if it is kept already. Raises KeyboardInterrupt if a signal cuts it short:
        it is not kept then."""
        if record.order.key in self._keys:
            return None
        plan = record.order.plan()
        with Session(Settings("sim", self.campaign.aside, repeat=True)) as session:
            done = session.carry_out(plan, record.order.again(record.seed))
        if done.interrupted:
            raise KeyboardInterrupt
        assert done.directory is not None, "a session keeps all runs, unless it is told otherwise"
        into = place(self.campaign, record)
        into.mkdir(parents=True, exist_ok=True)
        write_json(done.directory / RECORD_FILE, record)
        kept = KeptRun(done.directory.rename(into / done.directory.name), record)
        self.runs.append(kept)
        self._keys.add(record.order.key)
        return kept

    def directory_of(self, record: RunRecord) -> str:
        """Where a run is, from the campaign's directory on; "" if it is not kept."""
        found = (each.directory for each in self.runs if each.record.order.key == record.order.key)
        return next((str(each.relative_to(self.campaign.path)) for each in found), "")

    def directories(self, signature: str, first: SimOrder) -> list[str]:
        """Where runs of a signature are, from the campaign's directory on; that of ``first`` stands first."""
        alike = [each for each in self.runs if each.record.signature == signature]
        alike.sort(key=lambda each: each.record.order.key != first.key)
        return [str(each.directory.relative_to(self.campaign.path)) for each in alike]


def kept_runs(campaign: CampaignDir) -> list[KeptRun]:
    """All that a campaign has kept. Raises InputError for what is damaged."""
    found = [*campaign.failures.glob(f"*/*/{RECORD_FILE}"), *campaign.sample.glob(f"*/{RECORD_FILE}")]
    return [_kept(path) for path in sorted(found)]


def not_repeated(kept: KeptRun) -> str:
    """How the traces of a kept run differ: the one that its executor saw, the one that is kept, and that of its
    repetition among other hashes, if it was repeated; "" if they do not."""
    record, manifest = kept.record, RunDir(kept.directory).read_manifest()
    if {record.digest} == {manifest.digest, manifest.repeated or manifest.digest}:
        return ""
    what = f"{record.order.again(record.seed)}: done again, with another trace"
    where = f"{record.digest} on its executor, {manifest.digest} where it was kept"
    return f"{what}: {where}" + (f", {manifest.repeated} among other hashes" if manifest.repeated else "")


def _kept(path: Path) -> KeptRun:
    try:
        return KeptRun(path.parent, msgspec.json.decode(path.read_bytes(), type=RunRecord))
    except DAMAGE as error:
        raise wrong(path, f"damaged: {error}", RESTORE) from None


class Drawn:
    """Draws some of many runs, whichever order they come in: those whose keys have the smallest hashes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._lots: list[tuple[bytes, RunRecord]] = []

    def offer(self, record: RunRecord) -> None:
        """Take a run into account."""
        if not self.number or record.signature or record.exit_code == NOT_CARRIED_OUT:
            return
        lot = blake2b(record.order.key.encode(), digest_size=8).digest()
        if len(self._lots) == self.number and lot > self._lots[-1][0]:
            return
        self._lots.append((lot, record))
        self._lots.sort(key=lambda each: each[0])
        del self._lots[self.number :]

    @property
    def records(self) -> list[RunRecord]:
        """Those drawn so far."""
        return [record for _, record in self._lots]
