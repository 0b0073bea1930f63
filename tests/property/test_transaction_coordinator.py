"""A transactional id goes from state to state by the table only, whatever its producers ask for, however its log fails,
and whenever its coordinator is deposed."""

from __future__ import annotations

from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.broker.transaction_coordinator.transaction_state import AT_REST, IDS, PREPARED, PREVIOUS
from actors.trace.events import TraceEvent, TxnLoad, TxnMarkers, TxnState
from krift.v1.producer_ids import InitProducerIdResponse
from krift.v1.transactions import EndTxnResponse
from tests.datadriven.runner import parse_command
from tests.datadriven.transactions.environment import Environment

STATE = "__transaction_state-0"
IDS_OF_PRODUCERS = st.sampled_from(["t", "u"])
PARTITIONS = st.sampled_from(["orders-0", "bills-0"])
ANSWERS = st.sampled_from(
    ["NONE", "NONE", "NOT_LEADER_OR_FOLLOWER", "INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"]
)


class OneCoordinator(RuleBasedStateMachine):
    """One broker that coordinates two transactional ids; its log has a follower that may lag, or be out of the ISR; the
    leaders of partitions are the script's. ``epoch``: leader epoch of the log. ``steps``: every event of the trace,
    looked at up to ``seen``; ``known``: the last step of each id."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = Environment()
        self.scene = self.environment.transactions
        self.epoch = 0
        self.version = 0
        self.steps: list[TraceEvent] = []
        self.seen = 0
        self.known: dict[str, TxnState] = {}
        recorded = self.scene.recorded

        def record(event: TraceEvent) -> None:
            if isinstance(event, TxnState):
                log = self.scene.node.replicas.partitions[STATE].log
                assert event.log_offset < log.high_watermark, "a step is taken once it is committed"
            self.steps.append(event)
            recorded(event)

        self.scene.recorded = record  # type: ignore[method-assign]

    def do(self, line: str) -> None:
        """A verb of the transcripts; what is told meanwhile is looked at."""
        command = parse_command([line], 0)
        self.scene.responses.clear()
        getattr(self.environment, "verb_" + command.verb.replace("-", "_"))(command)
        self._check_answers()

    @initialize(version=st.sampled_from([0, 1, 2]), drops=st.booleans())
    def begin(self, version: int, drops: bool) -> None:
        """A coordinator of some transaction.version."""
        self.version = version
        self.do("start" + (" features=(kafka-7408.refused-marker:drop)" if drops else ""))
        for topic in ("orders", "bills"):
            self.do(f"topic {topic} leader=2 replicas=(2) isr=(2)")
        self.do("topic __transaction_state leader=1 replicas=(1,2) isr=(1,2)")
        self.do("configure __transaction_state min.insync.replicas=2")
        self.do("advance ms=10")
        if version:
            self.do(f"feature transaction.version={version}")

    # ---- what is asked -----------------------------------------------------------------------------------

    @rule(name=IDS_OF_PRODUCERS, says=st.booleans(), timeout=st.sampled_from([1000, 60000]))
    def init(self, name: str, says: bool, timeout: int) -> None:
        """A producer begins, perhaps one that says who it is."""
        known = self.scene.producers.get(name)
        who = f" pid={known[0]} pepoch={known[1]}" if says and known is not None else ""
        self.do(f"init-producer-id {name} timeout={timeout}{who} on=init-{name}")

    @rule(name=IDS_OF_PRODUCERS, partition=PARTITIONS, back=st.integers(0, 1))
    def add(self, name: str, partition: str, back: int) -> None:
        """A partition comes into a transaction, or is to come into one of a former epoch."""
        version = 5 if self.version == 2 else 3
        self.do(f"add-partitions-to-txn {name} {partition} v={version} on=add-{name}{self._epoch(name, back)}")

    @rule(name=IDS_OF_PRODUCERS, how=st.sampled_from(["commit", "abort"]), back=st.integers(0, 1))
    def end(self, name: str, how: str, back: int) -> None:
        """A producer decides, or asks again, with the epoch that it had."""
        version = 5 if self.version == 2 else 4
        self.do(f"end-txn {name} {how} v={version} on=end-{name}{self._epoch(name, back)}")

    def _epoch(self, name: str, back: int) -> str:
        known = self.scene.producers.get(name)
        return f" pepoch={known[1] - back}" if known is not None and known[1] >= back else ""

    @rule(answer=ANSWERS, old=st.booleans())
    def marked(self, answer: str, old: bool) -> None:
        """A leader answers about markers."""
        held = [call for call in self.scene.held if "WriteTxnMarkers" in type(call.request).__name__]
        if held:
            named = " ".join(f"{tp}={answer}" for tp in ("orders-0", "bills-0"))
            self.do(f"marked {named}{' old' if old else ''}")

    # ---- what happens ------------------------------------------------------------------------------------

    @rule()
    def replicate(self) -> None:
        """The follower has everything."""
        log = self.scene.node.replicas.partitions[STATE].log
        if self._leads:
            last = max(log.last_epoch, 0)
            self.do(f"fetch {STATE} follower=2 epoch={self.epoch} at={log.end_offset} wait=0 last={last}")

    @rule(ms=st.sampled_from([1, 100, 2000, 61000]))
    def wait(self, ms: int) -> None:
        """Time passes: appends and transactions time out."""
        self.do(f"advance ms={ms}")

    @rule(isr=st.sampled_from(["(1)", "(1,2)"]), again=st.booleans())
    def depose(self, isr: str, again: bool) -> None:
        """Another broker leads for a while, and this one again, or it is elected in place; with an ISR that is large
        enough, or too small for any record."""
        if not again:
            self.do(f"change {STATE} leader=2")
            self.epoch += 1
            assert not self.scene.node.transactions.shards
        self.do(f"change {STATE} leader=1 isr={isr}")
        self.epoch += 1
        self.do("advance ms=10")

    @property
    def _leads(self) -> bool:
        return self.scene.node.replicas.partitions[STATE].is_leader

    # ---- what must hold ----------------------------------------------------------------------------------

    def _check_answers(self) -> None:
        """Nobody is told of a decision, or of an epoch, that is not committed."""
        for connection, response in self.scene.responses.items():
            told: Any = response
            if isinstance(response, EndTxnResponse) and not response.error_code:
                step = self._newest(connection.removeprefix("end-"))
                assert step is not None and step.to_state in (*PREPARED, "CompleteCommit", "CompleteAbort")
            if isinstance(response, InitProducerIdResponse) and not response.error_code:
                step = self._newest(connection.removeprefix("init-"))
                assert step is not None
                assert (told.producer_id, told.producer_epoch) == (step.producer_id, step.producer_epoch)

    def _newest(self, name: str) -> TxnState | None:
        """The last step of a transactional id, or what was read of it since."""
        steps = [event for event in self.steps[self.seen :] if isinstance(event, TxnState)]
        mine = [event for event in steps if event.transactional_id == name]
        return mine[-1] if mine else self.known.get(name)

    @invariant()
    def steps_follow_the_table(self) -> None:
        """Each step is one of the table, from where the one before has led, and epochs only rise."""
        for event in self.steps[self.seen :]:
            if isinstance(event, TxnState):
                before = self.known.get(event.transactional_id)
                assert event.from_state in PREVIOUS[event.to_state], event
                if before is not None:
                    assert event.from_state == before.to_state, (before, event)
                    assert event.log_offset > before.log_offset, (before, event)
                    assert (event.producer_id, event.producer_epoch) >= (before.producer_id, before.producer_epoch)
                self.known[event.transactional_id] = event
            elif isinstance(event, TxnLoad) and event.loaded:
                self._check_load(event)
            elif isinstance(event, TxnMarkers) and event.outcome == "sent":
                step = self.known[event.transactional_id]
                assert step.to_state == ("PrepareCommit" if event.commit else "PrepareAbort"), (step, event)
                assert event.producer_epoch == step.producer_epoch
        self.seen = len(self.steps)

    def _check_load(self, event: TxnLoad) -> None:
        """What a coordinator reads has every committed step; the one after the last may have been written, too."""
        for name, step in list(self.known.items()):
            found = event.transactions.get(name)
            assert found is not None, f"{name} is forgotten"
            same = (found.state, found.producer_epoch) == (step.to_state, step.producer_epoch)
            assert same or step.to_state in PREVIOUS[found.state], (step, found)
            assert (found.producer_id, found.producer_epoch) >= (step.producer_id, step.producer_epoch)
            self.known[name] = TxnState(
                *(event.tp, name, found.producer_id, found.producer_epoch, step.from_state, found.state),
                *(list(found.partitions), event.coordinator_epoch, step.log_offset),
            )

    @invariant()
    def memory_is_what_was_committed(self) -> None:
        """What is pending follows from the state, and what is at rest has no partitions left to tell."""
        for shard in self.scene.node.transactions.shards.values():
            for name, each in shard.transactions.items():
                assert each.state in IDS
                assert each.pending is None or each.state in PREVIOUS[each.pending] or each.pending == "PrepareAbort"
                assert each.state not in AT_REST or not each.partitions, (name, each)
        assert not self.scene.node.purgatory.unwatched()


TestOneCoordinator = OneCoordinator.TestCase
OneCoordinator.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
