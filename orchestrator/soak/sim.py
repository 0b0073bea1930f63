"""A soak in virtual time: the sim and the checks in one process.

The sim follows its seed, so nothing of it need be kept: a soak that was killed is carried out again up to its last
checkpoint, unchecked, which takes less time than it took; the digest there shows that it is the same one. Then the
checks go on from what they knew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from actors.sim.digest import TraceDigest
from actors.sim.world import World
from actors.trace.events import Rpc, Stamped
from chaos.errors import RunError
from chaos.rounds import Round, Rounds
from chaos.soak import SoakConductor
from orchestrator.checked import Checked
from orchestrator.clusters.base import RunOrder, run_meta
from orchestrator.engines.in_process import InProcessEngine, OtherState
from orchestrator.interrupts import Interrupts
from orchestrator.invariants.folds.fold import Finding
from orchestrator.soak.base import Base, Bases
from orchestrator.soak.checkpoints import Checkpoint, Checkpoints
from orchestrator.soak.directory import Asked, Found, SoakDir
from orchestrator.soak.evidence import freeze, window
from orchestrator.soak.ledger import Ledger
from orchestrator.soak.outcome import ROUNDS_KEPT, STOPPED, Ended, keep_round
from orchestrator.soak.standing import Standing
from orchestrator.soak.trace_store import TraceStore

SHOWN_EVERY = 2000
"""Events between two looks at the time."""
SHOWN_S = 1.0

Tell = Callable[[Found], None]
Observer = Callable[[Stamped], None]


class SimSoak:
    """One soak. ``tell`` hears of each finding. ``observer``: gets every event, in order, also those that a resumed
    soak repeats. ``events_max``: stop there as if killed; for tests."""

    def __init__(
        self,
        soak: SoakDir,
        asked: Asked,
        rounds: Rounds,
        standing: Standing,
        tell: Tell,
        observer: Observer | None = None,
        events_max: int | None = None,
    ) -> None:
        self._soak, self._asked, self._rounds = soak, asked, rounds
        self._standing = standing
        self._tell = tell
        self._observer = observer
        self._events_max = events_max
        self.conductor = SoakConductor(rounds, asked.duration_us, asked.calm_us, self._begun)
        self._known: dict[int, Round] = {}
        self._ledger = Ledger(soak.findings)
        self._store = TraceStore(soak.run.trace, asked.keep_us)
        self._checkpoints = Checkpoints(soak.checkpoints)
        self._bases = Bases(soak.bases)
        self._engine = InProcessEngine()
        self._digest = TraceDigest()
        self._pending: list[Found] = []
        self._resumed = self._load()
        self._repeating = self._resumed is not None
        self._events = self._rpcs = 0
        self._saved_us = 0
        self._shown_s = 0.0
        self._halted_at = _NEVER_US
        self._status = ""
        self._stop: Callable[[], None] = lambda: None

    def run(self) -> Ended:
        """Carry it out. Raises RunError if it cannot be repeated up to its checkpoint."""
        plan = self._rounds.plan
        order = RunOrder(self._asked.soak, plan, self._soak.path)
        world = World(plan.nodes, self.conductor, plan.seed, order.run, self._take, meta=run_meta(order, "sim"))
        self._stop = world.stop
        with Interrupts(self._halt) as interrupts:
            result = world.run(_NEVER_US)
        if self._repeating:
            raise RunError("the repeated soak ended before the checkpoint, so it is a different soak")
        results = self._engine.results()
        self._store.flush()
        for found in list(self._pending):
            self._freeze(found)
        if result.failures:
            self._status = "broken"
        detail = "; ".join(f"{failure.node}: {failure.detail}" for failure in result.failures)
        status = self._status or ("interrupted" if interrupts.asked else self.conductor.status)
        checked = Checked(results, self.conductor.seen, self._rpcs, self._events, self._digest.hexdigest())
        return Ended(status, detail or self.conductor.detail, checked, result.end_us)

    def _halt(self) -> None:
        """End it here. What comes of that is in no repetition."""
        self._halted_at = min(self._halted_at, self._events)
        self._stop()

    # ---- going on from a checkpoint -----------------------------------------------------------------------

    def _load(self) -> Checkpoint | None:
        """The newest checkpoint of this version; what came after it is taken back."""
        for checkpoint in self._checkpoints.newest_first():
            try:
                self._engine.load(checkpoint.engine)
            except OtherState:
                self._engine = InProcessEngine()
                continue
            self._engine.tell = self._violated
            self._take_back(checkpoint.events, checkpoint.findings, checkpoint.at_us)
            return checkpoint
        self._engine.tell = self._violated
        self._take_back(0, 0, 0)
        return None

    def _take_back(self, events: int, findings: int, at_us: int) -> None:
        for found in self._ledger.found[:findings]:
            if found.evidence and not (self._soak.evidence / found.evidence / "evidence.json").exists():
                self._pending.append(found)
        self._ledger.take_back(findings)
        self._store.take_back(events)
        self._bases.take_back(at_us)

    # ---- what happens -------------------------------------------------------------------------------------

    def _begun(self, round_: Round) -> None:
        self._known[round_.number] = round_
        for number in sorted(self._known)[:-ROUNDS_KEPT]:
            del self._known[number]
        keep_round(self._soak, round_)

    def _take(self, event: Stamped) -> None:
        if self._status == "killed":
            return
        self._digest.add(event)
        self._events += 1
        if type(event.body) is Rpc:
            self._rpcs += 1
        if self._observer is not None:
            self._observer(event)
        if self._repeating:
            self._repeat(event)
        else:
            self._store.add(self._events - 1, event)
            self._engine.take(event)
            if event.wall - self._saved_us >= self._asked.checkpoint_us:
                self._checkpoint(event.wall)
        if self._events % SHOWN_EVERY == 0 and time.monotonic() - self._shown_s >= SHOWN_S:
            self._shown_s = time.monotonic()
            self._show()
        if self._events == self._events_max:
            self._status = "killed"
            self._halt()

    def _repeat(self, event: Stamped) -> None:
        assert self._resumed is not None
        if self._events < self._resumed.events:
            return
        if self._digest.hexdigest() != self._resumed.digest:
            raise RunError(
                f"repeated up to event {self._events:,}, it is another one than was checked: expected the same version "
                "of krift, and the files as they were"
            )
        self._repeating = False
        self._saved_us = event.wall

    def _violated(self, finding: Finding) -> None:
        wants_evidence = len(self._ledger) < self._asked.evidence_max
        found = self._ledger.note(finding, self.conductor.round.number, "yes" if wants_evidence else "")
        if found is None:
            return
        if found.evidence:
            self._pending.append(found)
        self._tell(found)
        if self._asked.on_violation == "stop" and not found.known:
            self._status = STOPPED
            self._halt()

    def _checkpoint(self, now_us: int) -> None:
        """Put aside what the checks know, keep evidence that is complete, and let go what is old."""
        self._saved_us = now_us
        saved = self._engine.saved()  # may find something, as some events wait to be judged
        self._store.flush()
        for found in [each for each in self._pending if window(each)[1] < now_us]:
            self._freeze(found)
        self._store.expire(now_us)
        self._bases.write(Base(at_us=now_us, engine=saved))
        self._bases.expire(now_us)
        self._checkpoints.write(
            Checkpoint(
                events=self._events,
                digest=self._digest.hexdigest(),
                at_us=now_us,
                findings=len(self._ledger),
                rpcs=self._rpcs,
                engine=saved,
            )
        )
        self._standing.status.state_bytes = len(saved)
        self._standing.status.checked_us = now_us
        self._standing.measure()
        self._show()

    def _freeze(self, found: Found) -> None:
        round_ = self._known.get(found.round) or self._rounds.round(found.round)
        from_us, to_us = window(found)
        base_us, base = self._bases.of(from_us, to_us) or (from_us, None)
        events = (each for each in self._store.between(min(from_us, base_us), to_us) if each[0] < self._halted_at)
        freeze(self._soak, self._asked, found, round_, events, base)
        self._pending = [each for each in self._pending if each.number != found.number]

    def _show(self) -> None:
        what: Literal["repeating", ""] = "repeating" if self._repeating else ""
        self._standing.take(self.conductor, self._ledger, self._events, what)


_NEVER_US = 1 << 60
