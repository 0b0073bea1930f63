"""That a change of the metadata which somebody was told of is committed, and stays."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.client.admin import (
    ADD_VOTER,
    ALTER_CONFIG,
    CREATE_PARTITIONS,
    CREATE_TOPIC,
    DELETE_RECORDS,
    DELETE_TOPIC,
    ELECT_LEADERS,
    REMOVE_VOTER,
)
from actors.node.spec import partition_name, split_topic_partition
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    ConfigChange,
    IsrPropose,
    NodeDown,
    PartChange,
    PartRemove,
    QRole,
    QVoters,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import WIPED, LogMirror
from orchestrator.invariants.mirrors.voter_sets import named


class Written(msgspec.Struct, frozen=True):
    """A record that a controller, or a leader of the quorum, wrote for somebody who waits for it: at an offset, in a
    quorum epoch. wall_us: when; what: it says."""

    offset: int
    quorum_epoch: int
    wall_us: int
    by: Witness
    what: str = ""


class Acknowledged(msgspec.Struct, frozen=True):
    """What somebody was told."""

    sentence: str
    record: Written
    by: Witness


class Asked(msgspec.Struct, frozen=True):
    """When an operation began. values: that it gives configuration keys, as in ``Written.what``; empty for others."""

    at_us: int
    values: list[str] = []


CONFIRMED_REMEMBERED = 1 << 10


class Acknowledgements(State):
    """changes: topic partition, resource, or operation and subject ("add-voter/controller-4", "delete-topic/orders",
    "elect-leaders/orders-0") -> the most recent records. asked: by operation. kept: place of a record ("offset/epoch")
    -> who was told of it first; at ``limit`` of them those that are long committed are forgotten. leads: controller ->
    the quorum epoch that it leads; abrupt: the newest one whose leader ended abruptly, maybe before it told of all that
    it wrote."""

    changes: dict[str, list[Written]] = {}
    asked: dict[str, Asked] = {}
    kept: dict[str, Acknowledged] = {}
    limit: int = msgspec.field(default_factory=lambda: CONFIRMED_REMEMBERED)
    leads: dict[str, int] = {}
    abrupt: int = -1


CHANGES_KEPT = 64

VOTER_CHANGES = (ADD_VOTER, REMOVE_VOTER)
RECORDED = (*VOTER_CHANGES, CREATE_TOPIC, DELETE_TOPIC, CREATE_PARTITIONS, ELECT_LEADERS)
"""Operations that never do without a record: what is so already, or cannot be, is refused."""


class AcknowledgedMetadataStays(LogInvariant[Acknowledgements]):
    """A change that the controller has confirmed has effect: a leader relies on its ISR, an operator on the
    configuration or on the voters. The confirmation was wrong if the change is not committed yet, or is lost
    afterwards.

    Example: controller-1 accepts the ISR [1, 2] of orders-0 at offset 118 and confirms it before the quorum has it. It
    is killed, controller-2 leads from 112 on, and its ISR is still [1, 2, 3], while broker-1 no longer waits for
    broker-3. Or an operator asks for the preferred leader of orders-0, which is down, and is told that it leads. Or the
    operator sets num.io.threads of broker-1, and nobody writes that down.
    """

    id = "Q19"
    title = "A change that the controller confirmed is committed, and is in the log of every later leader"
    source = "KIP-595; KIP-631; KIP-853; Kafka's ControllerWriteEvent"
    tested_when = "a broker or an operator gets the confirmation of a change, or another leader is elected after that"
    unseen = (
        (
            "Changes of a topic's configuration without a record, if a controller that ended abruptly may have written "
            "the value without telling, or the quorum has lost records"
        ),
        "Operations with an unknown outcome.",
        "Which of several records of the same kind a confirmation refers to: one committed record is enough.",
    )
    types = (PartChange, PartRemove, ConfigChange, QVoters, IsrPropose, AdminInvoke, AdminReturn, QRole, NodeDown)
    before_types = (QVoters,)
    exemptions = {"loss-budget": WIPED}

    def initial(self, key: str, profile: Profile) -> Acknowledgements:
        return Acknowledgements(key)

    def before(self, state: Acknowledgements, event: Stamped, mirror: LogMirror) -> Emissions:
        """A leader wrote who votes: whom it added and removed."""
        body = event.body
        assert type(body) is QVoters
        if body.cause == "append":
            before, now = mirror.voters.of(event.node).keys(), named(body.members).keys()
            for call, names in zip(VOTER_CHANGES, (now - before, before - now), strict=True):
                for name in sorted(names):
                    record = Written(body.offset, body.epoch, event.wall, witness(event))
                    self._wrote(state, f"{call}/{name}", record)
        return NOTHING

    def step(self, state: Acknowledgements, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is PartChange or type(body) is PartRemove:
            self._changed(state, event, body)
        elif type(body) is ConfigChange:
            what = f"{body.key}={body.value}"
            self._wrote(state, body.resource, Written(body.offset, body.quorum_epoch, event.wall, witness(event), what))
        elif type(body) is AdminInvoke:
            if body.call == DELETE_RECORDS:
                return NOTHING  # leaders of partitions do that, without a record
            values = {**body.arguments.get("set", {}), **dict.fromkeys(body.arguments.get("delete", ()))}
            state.asked[body.op] = Asked(event.wall, [f"{key}={value}" for key, value in values.items()])
        elif type(body) is IsrPropose:
            if body.outcome == "accepted":
                what = f"{body.leader_epoch}/{body.partition_epoch + 1}/{sorted(body.isr)}"
                records = [each for each in state.changes.get(body.tp, ()) if each.what == what]
                sentence = (
                    f"the controller accepted the ISR {sorted(body.isr)} that {event.node} proposed for {body.tp}"
                )
                return self._told(state, event, records, sentence, mirror)
        elif type(body) is AdminReturn:
            return self._returned(state, event, body, mirror)
        elif type(body) is NodeDown:
            led = state.leads.pop(event.node, -1)
            if body.mode not in ("clean", "end"):
                state.abrupt = max(state.abrupt, led)
        elif type(body) is QRole:
            state.leads.pop(event.node, None)
            if body.role == "leader":
                state.leads[event.node] = body.epoch
                return self._elected(state, event, body, mirror)
        return NOTHING

    def _changed(self, state: Acknowledgements, event: Stamped, body: PartChange | PartRemove) -> None:
        """A controller wrote something of a partition, maybe for an operator, who names topics and knows no ids."""
        named_tp = partition_name(body.tp)
        topic = split_topic_partition(named_tp)[0]
        record = Written(body.offset, body.quorum_epoch, event.wall, witness(event))
        if type(body) is PartRemove:
            self._wrote(state, f"{DELETE_TOPIC}/{topic}", record)
            return
        assert type(body) is PartChange
        what = f"{body.leader_epoch}/{body.partition_epoch}/{sorted(body.isr)}"
        self._wrote(state, body.tp, msgspec.structs.replace(record, what=what))
        if body.cause == "create":
            self._wrote(state, f"{CREATE_TOPIC}/{topic}", record)
            self._wrote(state, f"{CREATE_PARTITIONS}/{topic}", record)
        if body.asked:
            self._wrote(state, f"{ELECT_LEADERS}/{named_tp}", record)

    def _wrote(self, state: Acknowledgements, name: str, record: Written) -> None:
        known = state.changes.setdefault(name, [])
        known.append(record)
        del known[:-CHANGES_KEPT]

    def _returned(self, state: Acknowledgements, event: Stamped, body: AdminReturn, mirror: LogMirror) -> Emissions:
        asked = state.asked.pop(body.op, None)
        if asked is None or body.outcome != "ok":
            return NOTHING
        found: list[Any] = []
        call = body.call
        for name, error in body.results.items():
            if error != "NONE":
                continue
            sentence = f"the controller answered {event.node} that {call} of {name} is done"
            subject = f"{call}/{name}" if call in RECORDED else name
            records = [each for each in state.changes.get(subject, ()) if each.wall_us >= asked.at_us]
            if asked.values:
                records = [each for each in records if each.what in asked.values]
            if not records and call in RECORDED:
                state.tested += 1
                found.extend(self.violated(state.key, f"{sentence}, but no leader had written such a record", event))
            if call == ALTER_CONFIG:
                found.extend(self._altered(state, event, name, asked, sentence, mirror))
            found.extend(self._told(state, event, records, sentence, mirror))
        return found

    def _altered(
        self, state: Acknowledgements, event: Stamped, resource: str, asked: Asked, sentence: str, mirror: LogMirror
    ) -> Emissions:
        """Each value is written for a broker, also where it is as before, and for a topic where it is another one."""
        known = state.changes.get(resource, ())
        written = {each.what for each in known if each.wall_us >= asked.at_us}
        for what in asked.values:
            if what in written:
                continue
            before = None
            if not resource.startswith("broker/"):
                before = _committed_before(state, resource, what, asked, mirror)
                if before is None or before.what == what:
                    continue
            state.tested += 1
            had = "" if before is None else f", where it had {before.what}"
            by = None if before is None else before.by
            return self.violated(state.key, f"{sentence}, but no leader had written {what}{had}", by, event)
        return NOTHING

    def _told(
        self, state: Acknowledgements, event: Stamped, records: list[Written], sentence: str, mirror: LogMirror
    ) -> Emissions:
        """Of the records that may be meant (a request that is tried again may be carried out twice) one is to be
        committed. Where there is none, nothing had to be changed."""
        if not records:
            return NOTHING
        state.tested += 1
        for record in records:
            if _is_committed(mirror, record):
                place = f"{record.offset}/{record.quorum_epoch}"
                state.kept.setdefault(place, Acknowledged(sentence, record, witness(event)))
                if len(state.kept) > state.limit:
                    self._forget(state, mirror.floor)
                    state.limit = max(CONFIRMED_REMEMBERED, 2 * len(state.kept))
                return NOTHING
        last = records[-1]
        said = f"{sentence}, at offset {last.offset:,} of the metadata log in epoch {last.quorum_epoch}"
        return self.violated(state.key, f"{said}, but no leader had committed that record", last.by, event)

    def _forget(self, state: Acknowledgements, floor: int) -> None:
        state.kept = {place: each for place, each in state.kept.items() if each.record.offset >= floor}

    def _elected(self, state: Acknowledgements, event: Stamped, body: QRole, mirror: LogMirror) -> Emissions:
        log = mirror.replica(event.node).log
        self._forget(state, log.floor)
        for place, each in state.kept.items():
            if each.record.quorum_epoch >= body.epoch:
                continue
            state.tested += 1
            batch = log.batch_at(each.record.offset)
            if batch is not None and batch.epoch == each.record.quorum_epoch:
                continue
            sentence = (
                f"{each.sentence}; {event.node}, leader of epoch {body.epoch}, has no entry of epoch "
                f"{each.record.quorum_epoch} at offset {each.record.offset:,} of the metadata log, where the record was"
            )
            del state.kept[place]
            record = each.record
            if mirror.taint_between(record.quorum_epoch, body.epoch, record.offset + 1) is not None:
                return self.excused("loss-budget", state.key, sentence, each.by, event)
            return self.violated(state.key, sentence, each.by, event)
        return NOTHING


def _committed_before(
    state: Acknowledgements, resource: str, what: str, asked: Asked, mirror: LogMirror
) -> Written | None:
    """The last record of the key of ``what``, as "key=value", that was committed of those from before that was asked,
    if nothing else can have changed it before the answer: no later record with that value, no controller that ended
    before it told of one, no loss, and no topic that was deleted. What others wrote since need not have been there when
    the controller looked."""
    key = what.partition("=")[0]
    mine = [each for each in state.changes.get(resource, ()) if each.what.partition("=")[0] == key]
    earlier = [each for each in mine if each.wall_us < asked.at_us]
    last = next((each for each in reversed(earlier) if _is_committed(mirror, each)), None)
    removed = state.changes.get(f"{DELETE_TOPIC}/{resource.removeprefix('topic/')}")
    if last is None or last.quorum_epoch <= state.abrupt or mirror.taint_below(last.offset + 1) is not None:
        return None
    if any(each.what == what for each in mine[mine.index(last) :]):
        return None
    return None if removed and removed[-1].wall_us >= last.wall_us else last


def _is_committed(mirror: LogMirror, record: Written) -> bool:
    """Whether some leader has committed the record."""
    committed = mirror.committed
    if record.offset < committed.floor:
        return True
    batch = committed.batch_at(record.offset)
    return batch is not None and batch.epoch == record.quorum_epoch
