"""Whatever brokers ask and whatever happens to the controllers: the metadata log is sound, and answers are kept."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.controller.controller_state import ControllerState
from actors.metadata.registrations import NO_LEADER, RECOVERING, PartitionRegistration
from krift.v1.controller import AlterPartitionResponse, BrokerRegistrationResponse
from krift.v1.producer_ids import AllocateProducerIdsResponse
from krift.v1.records import MetadataRecord
from krift.v1.wire import from_bytes
from tests.datadriven.controller.environment import Environment
from tests.datadriven.controller.voters import Voter
from tests.datadriven.runner import parse_command
from tests.harness.examples import examples

BROKERS = (1, 2, 3)
CONTROLLERS = ("c1", "c2", "c3")
PARTITIONS = {"orders-0": [1, 2, 3], "orders-1": [2, 3, 1], "refunds-0": [3, 1], "payments-0": [2]}

WHOM = st.sampled_from(["", "", "", *CONTROLLERS])
"""Mostly the active controller."""

Key = tuple[str, int]
"""A partition and a partition epoch."""


def perform(environment: Environment, line: str) -> str:
    """Carry out a command of the transcripts."""
    command = parse_command([line], 1)
    told: str = getattr(environment, f"verb_{command.verb.replace('-', '_')}")(command)
    return told


class Replay:
    """A metadata log, replayed record by record from nothing; it asserts what each record may do to the state."""

    def __init__(self) -> None:
        self.state = ControllerState()
        self.history: dict[Key, PartitionRegistration] = {}
        self.broker_epoch = -1

    def run(self, voter: Voter, end: int) -> None:
        """Replay a controller's log, with what it has accepted and not yet appended, up to ``end``."""
        raft = voter.node.raft
        values: list[bytes | None] = []
        for batch in raft.log.batches:
            values += [None if batch.is_control else record.value for record in batch.records]
        values += raft.pending.values
        assert len(values) >= end
        for offset, value in enumerate(values[:end]):
            if value is not None:
                self._take(from_bytes(MetadataRecord, value), offset)

    def _take(self, record: MetadataRecord, offset: int) -> None:
        before = {p.tp: p for p in self.state.partitions.values()}
        ids_before = self.state.next_producer_id
        registered = record.register_broker
        old = None if registered is None else self.state.brokers.get(registered.broker_id)
        self.state.replay(record, offset)
        for tp, partition in self.state.partitions.items():
            if partition != before.get(tp):
                self.history[tp, partition.partition_epoch] = partition
                check_change(before.get(tp), partition, self.state.elr_enabled)
                self._check_leader(partition)
        if registered is not None:
            if old is None or old.incarnation_id != registered.incarnation_id:
                assert self.broker_epoch < registered.broker_epoch <= offset, "a broker epoch is used again"
                self.broker_epoch = registered.broker_epoch
            else:
                assert registered.broker_epoch == old.epoch, "an incarnation changed its broker epoch"
        if record.producer_ids is not None:
            assert self.state.next_producer_id > ids_before, "producer ids are handed out again"

    def _check_leader(self, partition: PartitionRegistration) -> None:
        leader = self.state.brokers.get(partition.leader)
        assert partition.leader == NO_LEADER or leader is not None, "a leader is not registered"


def check_change(before: PartitionRegistration | None, after: PartitionRegistration, elr: bool) -> None:
    """What may become of a partition in one record. ``elr``: there are eligible leader replicas."""
    assert len(set(after.isr)) == len(after.isr) and set(after.isr) <= set(after.replicas)
    assert after.leader == NO_LEADER or after.leader in after.isr, "a leader is outside its ISR"
    left = 0 if elr else 1
    assert after.leader != NO_LEADER or len(after.isr) == left, "nobody leads although somebody in the ISR might"
    assert elr or not (after.elr or after.last_known_elr), "somebody is eligible although nobody can be"
    assert not set(after.isr) & set(after.elr) and set(after.elr) <= set(after.replicas)
    assert after.leader == NO_LEADER or not after.last_known_elr, "the last leader is remembered although there is one"
    if before is None:
        return
    assert after.partition_epoch == before.partition_epoch + 1, "a change makes a partition epoch"
    elected = after.leader != before.leader
    assert after.leader_epoch == before.leader_epoch + elected, "an election, and nothing else, makes a leader epoch"
    if elected and after.leader in before.elr and after.leader not in before.isr:
        assert after.isr == [after.leader], "an eligible replica leads others"
    elif elected and after.leader not in (NO_LEADER, *before.isr):
        assert after.isr == [after.leader] and after.leader_recovery_state == RECOVERING, "a leader was not in sync"


def check_active(state: ControllerState) -> None:
    """Between requests an active controller has done all that its knowledge of the brokers demands. A broker that shuts
    down was dropped from its ISRs when it said so, but a fenced one that asks to be unfenced may lead, as in Kafka."""
    for partition in state.partitions.values():
        if partition.leader == NO_LEADER:
            eligible = partition.isr or partition.elr or partition.last_known_elr
            able = [broker for broker in eligible if state.is_active(broker)]
            assert not able, f"{partition.tp} has no leader, though {able} could lead"
        else:
            fenced = [broker for broker in partition.isr if state.brokers[broker].fenced]
            assert not fenced, f"{partition.tp} has fenced brokers {fenced} in its ISR"
        least = min(state.config(-1, partition.topic, "min.insync.replicas", 1), len(partition.replicas))
        assert len(partition.isr) < least or not partition.elr, f"{partition.tp} needs no eligible replicas"


class Promises:
    """What brokers were answered, held against what is committed."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.taken = 0
        self.partitions: dict[Key, tuple[int, int, list[int]]] = {}
        self.first_ids: set[int] = set()
        self.committed: dict[Key, PartitionRegistration] = {}
        self.next_producer_id = 0

    def take_new(self) -> None:
        """Take the answers that came since the last time, and tell the brokers their epochs."""
        replies = list(self.environment.voters.replies.items())
        for connection, response in replies[self.taken :]:
            broker = connection.partition("/")[0]
            if response is None or getattr(response, "error_code", 0):
                continue
            self._take(broker, response)
        self.taken = len(replies)

    def _take(self, broker: str, response: Any) -> None:
        match response:
            case BrokerRegistrationResponse():
                self.environment.epochs[int(broker[1:])] = response.broker_epoch
            case AllocateProducerIdsResponse():
                assert response.producer_id_start not in self.first_ids, "a block was handed out twice"
                self.first_ids.add(response.producer_id_start)
            case AlterPartitionResponse():
                for topic in response.topics:
                    for data in topic.partitions:
                        if not data.error_code:
                            key = (f"{topic.topic_id.removeprefix('id-')}-{data.partition_index}", data.partition_epoch)
                            self.partitions[key] = (data.leader_id, data.leader_epoch, list(data.isr))

    def check(self, committed: Replay) -> None:
        """What a controller holds committed is what the others hold, and all that was promised is in it."""
        for key, partition in committed.history.items():
            assert self.committed.setdefault(key, partition) == partition, "two controllers committed different states"
        self.next_producer_id = max(self.next_producer_id, committed.state.next_producer_id)

    def check_kept(self) -> None:
        """What was promised is committed."""
        for key, promised in self.partitions.items():
            kept = self.committed.get(key)
            assert kept is not None and (kept.leader, kept.leader_epoch, kept.isr) == promised, (key, promised, kept)
        assert all(first < self.next_producer_id for first in self.first_ids)


def check_controllers(environment: Environment, promises: Promises) -> None:
    """Replay every controller's log and compare."""
    promises.take_new()
    for voter in environment.voters.voters.values():
        controller, replay, committed = voter.node.controller, Replay(), Replay()
        replay.run(voter, controller.next_offset if controller.active else controller.committed)
        assert replay.state == controller.state, "a controller holds something else than its log says"
        if controller.active and voter.up:
            check_active(controller.state)
        committed.run(voter, controller.committed)
        promises.check(committed)
    promises.check_kept()


class Torment(RuleBasedStateMachine):
    """Three controllers, three brokers, any request at any time, cuts, crashes and silence."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = Environment()
        self.promises = Promises(self.environment)

    @initialize(unclean=st.booleans(), elr=st.booleans(), least=st.sampled_from([1, 2]))
    def start(self, unclean: bool, elr: bool, least: int) -> None:
        """One controller becomes active, all brokers are up and all topics there."""
        config = f"config=(unclean.leader.election.enable:{str(unclean).lower()},min.insync.replicas:{least})"
        perform(self.environment, f"topic orders replicas=(1/2/3,2/3/1) {config}")
        perform(self.environment, "topic refunds replicas=(3/1)")
        perform(self.environment, "topic payments replicas=(2)")
        intervals = "unclean.leader.election.interval.ms:7000,leader.imbalance.check.interval.seconds:5"
        perform(
            self.environment,
            f"start voters=3 config=(broker.session.timeout.ms:4000,{intervals}) {'elr' if elr else ''}",
        )
        perform(self.environment, "brokers-up 1 2 3")

    def ask(self, line: str, whom: str) -> None:
        """A request to the active controller, or to any that is up."""
        voters = self.environment.voters
        name = f"controller-{whom[1:]}" if whom else voters.active
        up = [each for each, voter in voters.voters.items() if voter.up]
        if name not in up:
            name = up[0]
        perform(self.environment, f"{line} to=c{name[-1]}")

    @rule(broker=st.sampled_from(BROKERS), incarnation=st.integers(0, 9), previous=st.booleans(), whom=WHOM)
    def register(self, broker: int, incarnation: int, previous: bool, whom: str) -> None:
        """A broker registers, perhaps again, perhaps restarted."""
        epoch = self.environment.epochs.get(broker, -1) if previous else -1
        self.ask(f"register {broker} incarnation=i{incarnation} previous={epoch}", whom)

    @rule(
        broker=st.sampled_from(BROKERS),
        offset=st.sampled_from([0, 5, 1000]),
        wish=st.sampled_from(["", "", "", "want-fence", "want-shut-down", "want-fence want-shut-down"]),
        whom=WHOM,
    )
    def heartbeat(self, broker: int, offset: int, wish: str, whom: str) -> None:
        """A heartbeat, with whatever the broker wants."""
        self.ask(f"heartbeat {broker} offset={offset} {wish}", whom)

    @rule(
        broker=st.sampled_from(BROKERS),
        tp=st.sampled_from(sorted(PARTITIONS)),
        isr=st.permutations(BROKERS),
        size=st.integers(0, 3),
        known=st.booleans(),
        extra=st.sampled_from(["", "", "recovering", "leader-epoch=0", "partition-epoch=1", "broker-epoch=3", "v=2"]),
        whom=WHOM,
    )
    def alter(self, broker: int, tp: str, isr: list[int], size: int, known: bool, extra: str, whom: str) -> None:
        """Somebody, most often the leader with itself in it, asks for another ISR."""
        members = isr[:size]
        if known:
            for partition in self.state_of(whom).partitions.values():
                if partition.tp == tp and partition.leader != NO_LEADER:
                    broker = partition.leader
                    members = [m for m in isr if m == broker or (m in members and m in PARTITIONS[tp])]
        line = f"alter {tp} from={broker} isr=({','.join(str(member) for member in members)}) {extra}"
        self.ask(line, whom)

    def state_of(self, whom: str) -> ControllerState:
        """What a controller holds."""
        voters = self.environment.voters
        name = f"controller-{whom[1:]}" if whom else voters.active or "controller-1"
        return voters.voters[name].node.controller.state

    @rule(broker=st.sampled_from(BROKERS), whom=WHOM)
    def allocate(self, broker: int, whom: str) -> None:
        """A broker wants producer ids."""
        self.ask(f"allocate {broker}", whom)

    @rule(
        kind=st.sampled_from(["preferred", "unclean"]),
        named=st.sampled_from(["all", "orders-0 payments-0", "orders-1 refunds-7"]),
        whom=WHOM,
    )
    def elect(self, kind: str, named: str, whom: str) -> None:
        """An operator asks for elections."""
        self.ask(f"elect {kind} {named}", whom)

    @rule(
        resource=st.sampled_from(["topic/orders", "topic/refunds", "broker/", "broker/2"]),
        change=st.sampled_from(
            [
                "set=(min.insync.replicas:1)",
                "set=(min.insync.replicas:3)",
                "set=(unclean.leader.election.enable:true)",
                "delete=(unclean.leader.election.enable)",
                "delete=(min.insync.replicas)",
            ]
        ),
        whom=WHOM,
    )
    def configure(self, resource: str, change: str, whom: str) -> None:
        """An operator changes the configuration."""
        self.ask(f"configure {resource} {change}", whom)

    @rule(ms=st.sampled_from([10, 600, 2500, 7000]))
    def run_on(self, ms: int) -> None:
        """Time passes, in which nobody sends a heartbeat."""
        perform(self.environment, f"run ms={ms}")

    @rule(name=st.sampled_from(CONTROLLERS))
    def cut(self, name: str) -> None:
        """A controller is cut off from the others."""
        perform(self.environment, f"cut {name}")

    @rule()
    def heal(self) -> None:
        """No cut is left."""
        perform(self.environment, "heal")

    @rule(name=st.sampled_from(CONTROLLERS))
    def crash(self, name: str) -> None:
        """A controller is killed, unless it is the last one up."""
        voters = self.environment.voters.voters
        if sum(voter.up for voter in voters.values()) > 1 and voters[f"controller-{name[1:]}"].up:
            perform(self.environment, f"crash {name}")

    @rule(name=st.sampled_from(CONTROLLERS))
    def restart(self, name: str) -> None:
        """A controller comes back."""
        if not self.environment.voters.voters[f"controller-{name[1:]}"].up:
            perform(self.environment, f"restart {name}")

    @invariant()
    def sound(self) -> None:
        """All logs are sound, each controller holds what its log says, and what was promised is kept."""
        check_controllers(self.environment, self.promises)


Torment.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=40)
TestTorment = Torment.TestCase


@pytest.mark.parametrize(
    ("defect", "complaint"),
    [("", ""), ("stale-leader-epoch", "makes a leader epoch"), ("elect-any-replica", "was not in sync")],
)
def test_the_checks_find_each_defect(defect: str, complaint: str) -> None:
    """Shows that one election tells a controller with a defect from one without."""
    environment = Environment()
    perform(environment, "topic orders replicas=(1/2/3)")
    perform(environment, f"start defects=({defect})")
    for line in ("brokers-up 1 2 3", "alter orders-0 from=1 isr=(1,3)", "heartbeat 1 want-fence"):
        perform(environment, line)
    if not defect:
        check_controllers(environment, Promises(environment))
        return
    with pytest.raises(AssertionError, match=complaint):
        check_controllers(environment, Promises(environment))
