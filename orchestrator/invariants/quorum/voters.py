"""How the voter set of the quorum may change (KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actors.node.spec import node_name
from actors.trace.events import (
    LogAppend,
    LogFlush,
    LogHw,
    LogStart,
    LogTrunc,
    NodeDown,
    NodeUp,
    QRole,
    QVoters,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.leader_epochs import Lineage
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.voter_records import FORMATTED, NO_SET, VoterRecords
from orchestrator.invariants.mirrors.voter_sets import is_majority, named

CHECKS = ("kip-595.epoch-check", "kip-595.divergence")
"""Features without which a leader counts Fetches of logs that are not the beginning of its own."""


class SetInLog(msgspec.Struct, frozen=True):
    """The set in force in a member's log: offset of its record, names of the voters -> directories."""

    offset: int
    members: dict[str, str]
    by: Witness


class Office(msgspec.Struct, frozen=True):
    """What a leader begins with: its quorum epoch, and where its log ended."""

    epoch: int
    start: int
    by: Witness


class VoterChanges(State):
    """``sets``: member -> its set; ``epochs``: replica -> the highest epoch that its log has had; ``begun``: leader ->
    its office, until the first batch of that is on its disk. ``checked``: whether every leader compares the logs of
    those that fetch with its own."""

    sets: dict[str, SetInLog] = {}
    epochs: dict[str, int] = {}
    records: VoterRecords = msgspec.field(default_factory=VoterRecords)
    begun: dict[str, Office] = {}
    checked: bool = True


class VoterChangesAreSerial(LogInvariant[VoterChanges]):
    """Two voter sets that differ by one voter have no disjoint majorities. Disjoint majorities, which can elect and
    commit independently, arise from two changes at once, from a change on top of one that may still be undone, or from
    a change by a leader that has not yet committed an entry of its epoch.

    Example: controller-1 adds controller-4 to three voters, is cut off with it, and adds controller-5 before any
    commit. Three of these five are a majority, and so are two of the three that know of no change. A leader that is not
    a voter any more does not count towards its commits (KAFKA-16530). A leader that only records its own endpoint may
    do so in the first batch of its epoch. Or controller-1 adds controller-4 before that has anything of its epoch: a
    voter that has far to go holds up every commit for which it is needed.

    All of that rests on every member's knowing the set that its own log has. Controller-2 has the record of the four
    voters at 2 and starts anew, but counts with the three that it was formatted with: two of those are a majority for
    it. And who was formatted with none, as a voter that is to be added, knows only sets that are in the log: the first
    leader writes there what it was formatted with.
    """

    id = "Q14"
    title = (
        "Voters change one at a time, after the previous change is committed, in an epoch that has committed an entry; "
        "a new one has caught up with the leader before; every member goes by the set in its log"
    )
    source = "KIP-853; Kafka's AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler; KAFKA-16530"
    tested_when = (
        "a leader writes a voter set, or commits with one that was changed; a follower copies one; the log of a member "
        "is on its disk after a change where it may have got such a record, or lost one"
    )
    unseen = (
        (
            "A new voter that has read the beginning of the leader's epoch and never caught up: regular fetches of "
            "observers are not in the trace."
        ),
        "The first set that a member copies after it was formatted: it may have been formatted with any.",
        "Whether a member goes by the set in a log of which the trace does not tell what is in it, as a snapshot.",
    )
    types = (QVoters, LogHw, NodeUp, NodeDown, LogAppend, LogStart, LogTrunc, LogFlush, QRole)
    cases = {LogHw: ("leader",)}

    def initial(self, key: str, profile: Profile) -> VoterChanges:
        return VoterChanges(key, checked=not any(_is_off_somewhere(profile, feature) for feature in CHECKS))

    def step(self, state: VoterChanges, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogAppend:
            state.records.ends_at(event.node, body.last + 1, body.control)
            return self._has(state, event.node, body.batch_epoch)
        if type(body) is LogStart:
            state.records.stopped(event.node)  # until it gets another batch
            return self._has(state, event.node, body.epoch)
        if type(body) is LogFlush:
            return self._goes_by_its_log(state, event, body, mirror)
        if isinstance(body, QRole | LogTrunc | NodeUp | NodeDown):
            self._follow(state, event, body)
            return NOTHING
        known = state.sets.get(event.node)
        if type(body) is LogHw:
            return self._committed(state, event, body, known) if body.role == "leader" else NOTHING
        assert type(body) is QVoters
        state.sets[event.node] = SetInLog(body.offset, named(body.members), witness(event))
        state.records.take(event, body, named(body.members), mirror)
        if known is None or body.cause not in ("append", "fetch"):
            return NOTHING
        if body.cause == "fetch" and known.offset == FORMATTED:
            return NOTHING  # it may have been formatted with voters of another time, or with none
        state.tested += 1
        changed = _changed(known.members, named(body.members))
        what = f"{event.node} {'wrote' if body.cause == 'append' else 'copied'} a voter set at {body.offset:,}"
        if len(changed) > (known.offset != FORMATTED):
            return self.violated(
                state.key,
                f"{what} that differs from the voter set before it by {', '.join(changed)}; a change may be of one "
                "voter only",
                known.by,
                event,
            )
        if body.cause == "fetch" or known.offset == FORMATTED:
            return NOTHING
        guarded = self._guarded(state, event, body, known, mirror, what, bool(changed))
        return guarded or self._caught_up(state, event, body, known, what)

    @staticmethod
    def _follow(state: VoterChanges, event: Stamped, body: QRole | LogTrunc | NodeUp | NodeDown) -> None:
        node = event.node
        if type(body) is QRole:
            state.records.ends_at(node, body.log_end, node not in state.records.ends)
            state.begun.pop(node, None)
            if body.role == "leader":
                state.begun[node] = Office(body.epoch, body.log_end, witness(event))
        elif type(body) is LogTrunc:
            if node in state.records.ends:  # else it recovers, and takes up its first role afterwards
                state.records.ends_at(node, body.to, True)
        else:
            state.sets.pop(node, None)  # it tells what it finds on its disk
            state.begun.pop(node, None)
            state.records.stopped(node)

    def _goes_by_its_log(self, state: VoterChanges, event: Stamped, body: LogFlush, mirror: LogMirror) -> Emissions:
        """What was appended, or cut off, is on the disk: all of that step is told."""
        node, known = event.node, state.sets.get(event.node)
        office = state.begun.get(node)
        if office is not None and body.end > office.start:
            del state.begun[node]
            if known is not None and known.offset == FORMATTED:
                state.tested += 1
                sentence = (
                    f"{node} began epoch {office.epoch} at {office.start:,} without writing down the voter set that it "
                    "was formatted with, which no record has"
                )
                return self.violated(state.key, sentence, known.by, office.by, event)
        if node not in state.records.changed:
            return NOTHING
        state.records.changed.discard(node)
        end, offset = state.records.ends[node], NO_SET if known is None else known.offset
        if known is not None and offset >= end:
            sentence = f"{node} goes by the voter set at {offset:,}, although its log ends at {end:,}"
            return self.violated(state.key, sentence, known.by, event)
        record = state.records.newest_of(node, mirror)
        if record is None:
            return NOTHING
        state.tested += 1
        if offset > record.offset or (
            known is not None and record.offset == offset and known.members == record.members
        ):
            return NOTHING
        told = "none" if known is None else "that of its format" if offset == FORMATTED else f"the one at {offset:,}"
        sentence = f"{node} has a voter set in its log at {record.offset:,}, but goes by {told}"
        return self.violated(state.key, sentence, record.by, None if known is None else known.by, event)

    @staticmethod
    def _has(state: VoterChanges, node: str, epoch: int) -> Emissions:
        """The log of a replica has records of an epoch, or a snapshot in place of them."""
        state.epochs[node] = max(epoch, state.epochs.get(node, -1))
        return NOTHING

    def _guarded(
        self,
        state: VoterChanges,
        event: Stamped,
        body: QVoters,
        known: SetInLog,
        mirror: LogMirror,
        what: str,
        changes: bool,
    ) -> Emissions:
        lineage = mirror.lineages.get(body.leader_epoch)
        if lineage is not None and lineage.leader != event.node:
            lineage = None
        if not changes and lineage is not None and _is_in_first_batch(mirror, lineage, body):
            # Where it listens: Kafka's leader puts that right with the first records of its epoch, whatever is
            # committed. The voters stay the same, and with them every majority.
            return NOTHING
        if known.offset >= body.high_watermark:
            return self.violated(
                state.key,
                f"{what} while the previous one, at {known.offset:,}, was not committed: the high watermark was "
                f"{body.high_watermark:,}",
                known.by,
                event,
            )
        if lineage is None or body.high_watermark > lineage.start:
            return NOTHING
        return self.violated(
            state.key,
            f"{what} as leader of epoch {body.leader_epoch}, which began at {lineage.start:,}, with a high watermark "
            f"of {body.high_watermark:,}: no entry of that epoch was committed",
            lineage.assumed,
            event,
        )

    def _caught_up(self, state: VoterChanges, event: Stamped, body: QVoters, known: SetInLog, what: str) -> Emissions:
        """To have been caught up with this leader, a new voter has once had the record with which its epoch begins:
        the leader refuses every Fetch that comes before it has written that."""
        for voter, directory in sorted(named(body.members).items()):
            epoch = state.epochs.get(voter, -1)
            if not state.checked or known.members.get(voter) == directory or epoch >= body.leader_epoch:
                continue
            return self.violated(
                state.key,
                f"{what} that adds {voter}, whose log has never had a record of leader epoch {body.leader_epoch}, "
                f"only of epochs up to {epoch}: it has not caught up with this leader",
                event,
            )
        return NOTHING

    def _committed(self, state: VoterChanges, event: Stamped, body: LogHw, known: SetInLog | None) -> Emissions:
        if known is None or not body.counted:
            return NOTHING
        state.tested += 1
        counted = [node_name(voter) for voter in body.counted]
        strangers = [name for name in counted if name not in known.members]
        if not strangers and is_majority(len(counted), known.members):
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node}, leader of epoch {body.leader_epoch}, moved its high watermark to {body.new:,} counting "
            f"{', '.join(counted)}; the voters are {', '.join(sorted(known.members))}",
            known.by,
            event,
        )


def _is_in_first_batch(mirror: LogMirror, lineage: Lineage, body: QVoters) -> bool:
    """Whether a leader wrote a voter set in the batch that its epoch begins with, behind the LeaderChange record
    (``LeaderState.appendStartOfEpochControlRecords``)."""
    batch = mirror.replica(lineage.leader).log.batch_at(body.offset)
    return batch is not None and batch.base == lineage.start


def _is_off_somewhere(profile: Profile, feature: str) -> bool:
    """Whether a feature is off at some node, at least for a time."""
    values = [profile.feature(feature), *(profile.feature(feature, node) for node in profile.nodes)]
    return "off" in (*values, *profile.bounced.get(feature, ()))


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The voters, each with its directory, that are in one set alone."""
    apart = {*before.items()} ^ {*after.items()}
    return sorted(f"{name} ({directory})" for name, directory in apart)
