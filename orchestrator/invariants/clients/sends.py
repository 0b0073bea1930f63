"""What producers are promised of records that failed, and of the order of those that did not."""

from __future__ import annotations

import msgspec

from actors.trace.events import LogHw, PollReturn, SendInvoke, SendReturn, Stamped
from orchestrator.invariants.clients.renumbered import RENUMBERED, RULE, Renumbered
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import IDS_UNSEEN, REPLACED_REMEMBERED, SESSIONS_REMEMBERED
from orchestrator.invariants.folds.rows import REMEMBERED
from orchestrator.invariants.folds.uids import node_of, place_of, replaced_by
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.log_prefix import BatchFacts
from orchestrator.invariants.mirrors.loss import LOST, UNCLEAN, given_up
from orchestrator.invariants.mirrors.producer_state import NO_PRODUCER_STATE


class Failures(State):
    """uid -> the send that failed for good, and was not begun again since."""

    failed: dict[str, Witness] = {}


class DefiniteFailureStaysFailed(LogInvariant[Failures]):
    """An application whose send fails sends the record again, or does without it. If the record appears all the same,
    it is there twice, or unwanted.

    Example: producer-1 gets NOT_ENOUGH_REPLICAS for producer-1:57 (retries are used up), an error that precedes any
    append; later consumer-1 gets producer-1:57. Timeouts and lost connections are not definite errors: the fate of the
    record is unknown.
    """

    id = "C2"
    title = "A record whose send failed with a definite error is never seen"
    source = "Jepsen's kafka workload (G1a on sends); KAFKA-1555"
    tested_when = "a send returns a definite error"
    types = (SendInvoke, SendReturn, PollReturn, LogHw)
    cases = {LogHw: ("leader",)}
    unseen = (
        (
            "a record that its producer sends again: where a topic was created anew, a send ends for the one topic, "
            "goes on for the other, and may come back to the first"
        ),
        "a record of a follower that no leader commits during the run",
        "whether the error is definite: the producer itself reports that (X1 and C1 judge the broker's side)",
    )

    def initial(self, key: str, profile: Profile) -> Failures:
        return Failures(key)

    def step(self, state: Failures, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        failed = state.failed
        if type(body) is SendReturn:
            if body.outcome == "fail":
                return self._fails(state, event, body, mirror)
        elif type(body) is SendInvoke:
            failed.pop(body.uid, None)
        elif type(body) is PollReturn:
            if failed:
                for record in body.records:
                    if record.uid in failed:
                        sentence = f"{event.node} got it at offset {record.offset:,} of {state.key}"
                        return self._seen(state, record.uid, sentence, event)
        elif failed:
            for batch in mirror.newly_committed:
                for uid in batch.uids:
                    if uid in failed:
                        offset = batch.base + batch.uids.index(uid)
                        return self._seen(state, uid, _committed(state, event.node, offset), event)
        return NOTHING

    def _fails(self, state: Failures, event: Stamped, body: SendReturn, mirror: LogMirror) -> Emissions:
        state.tested += 1
        state.failed[body.uid] = witness(event)
        if len(state.failed) > REMEMBERED:
            del state.failed[next(iter(state.failed))]
        copy = mirror.records.copy_of(body.uid)
        if copy is None or copy.offset >= mirror.committed.end:
            return NOTHING  # or it is committed no longer
        return self._seen(state, body.uid, _committed(state, copy.by.node, copy.offset), copy.by)

    def _seen(self, state: Failures, uid: str, how: str, event: Stamped | Witness) -> Emissions:
        by = state.failed[uid]
        return self.violated(state.key, f"the send of {uid} failed for good at {by.node}; {how}", by, event)


def _committed(state: Failures, node: str, offset: int) -> str:
    return f"{node} committed it at offset {offset:,} of {state.key}"


SEEN_AT_A_TIME = 1024


class Session(msgspec.Struct):
    """One producing session, as far as its records are committed: the highest number, its offset and the epoch of the
    leader that committed it, which numbers were (one byte each, from ``first`` on), the highest one whose batch a
    leader took without checking its sequence, and which numbers' sends returned without success."""

    number: int = -1
    offset: int = -1
    leader_epoch: int = -1
    by: Witness | None = None
    seen: bytearray = msgspec.field(default_factory=bytearray)
    unchecked: int = -1
    given_up: set[int] = set()
    first: int = 0

    def has(self, number: int) -> bool:
        """Whether it is committed, as far as that is remembered."""
        return number < self.first or bool(self.seen[number - self.first])

    def commit(self, number: int) -> None:
        """It is."""
        if number >= self.first:
            self.seen[number - self.first] = 1

    def reach(self, number: int) -> None:
        """Have a place for it."""
        seen, place = self.seen, number - self.first
        if place >= len(seen):
            seen.extend(bytes(max(place + 1 - len(seen), SEEN_AT_A_TIME)))
        if place > 2 * REMEMBERED:
            self._forget(place - REMEMBERED)

    def is_over(self) -> None:
        """Its producer has begun another one."""
        self._forget(self.number + 1 - REPLACED_REMEMBERED - self.first)

    def _forget(self, gone: int) -> None:
        """The lowest of the numbers that it remembers."""
        if gone > 0:
            del self.seen[:gone]
            self.first += gone
            self.given_up = {each for each in self.given_up if each >= self.first}


class SendOrder(State):
    """Per session; ``loose``: nodes that may send a record before an older one is decided, without idempotence."""

    sessions: dict[str, Session] = {}
    profile: Profile = Profile()
    renumbered: Renumbered = msgspec.field(default_factory=Renumbered)

    def session(self, name: str) -> Session:
        """One of them; what is new takes the place of the one that has committed nothing for longest."""
        found = self.sessions.get(name)
        if found is None:
            if len(self.sessions) >= SESSIONS_REMEMBERED:
                del self.sessions[min(self.sessions, key=self._offset_of)]
            for each in replaced_by(name, self.sessions):
                self.sessions[each].is_over()
            found = self.sessions[name] = Session()
        return found

    def _offset_of(self, name: str) -> int:
        return self.sessions[name].offset


class ProducerOrderIsKept(LogInvariant[SendOrder]):
    """Records of one producer for one partition are a stream: changes of an account, lines of a file. A record that
    overtakes an older one reverses its meaning.

    Example: producer-1 sent producer-1:57 and then producer-1:58 to orders-0; they are committed as 58 at offset 41 and
    57 at offset 42. A record that is committed twice concerns C3, not the order.
    """

    id = "C4"
    title = "Records of one producer are committed in the order in which they were sent"
    source = "Jepsen's kafka workload (nonmonotonic-send); KAFKA-3197; KAFKA-8483"
    tested_when = "a record is committed after another one of its producer"
    types = (LogHw, SendReturn)
    cases = {LogHw: ("leader",)}
    exemptions = {
        "no-idempotence": (
            "The producer is not idempotent, and may have several requests in flight: a retried one comes after its "
            "successors."
        ),
        "given-up": (
            "The send of the older record had failed: without a sequence number, a copy that was still on its way may "
            "be written at any time."
        ),
        "no-producer-state": NO_PRODUCER_STATE,
        "unclean-election": UNCLEAN,
        "loss-budget": LOST,
        RULE: RENUMBERED,
    }
    unseen = (
        "whether a producer without idempotence retried: any of its batches may overtake",
        "records of several producers against each other (C6)",
        f"a record that more than {REMEMBERED:,} later ones of its producer have overtaken",
        IDS_UNSEEN,
    )

    def initial(self, key: str, profile: Profile) -> SendOrder:
        return SendOrder(key, profile=profile)

    def step(self, state: SendOrder, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is SendReturn:
            if body.outcome != "ok":
                state.renumbered.note(body)
                name, number = place_of(body.uid)
                if number >= 0:
                    state.session(name).given_up.add(number)
            return NOTHING
        found: list[object] | None = None
        for batch in mirror.newly_committed:
            if emitted := self._committed(state, event, batch, mirror):
                found = [*(found or ()), *emitted]
        if state.renumbered.failing:
            found = [*(found or ()), *state.renumbered.judge(self, state.key, mirror)]
        return NOTHING if found is None else found  # type: ignore[return-value]  # extended with emissions alone

    def finish(self, state: SendOrder, mirror: LogMirror) -> Emissions:
        return state.renumbered.judge(self, state.key, mirror, at_end=True)

    def _committed(self, state: SendOrder, event: Stamped, batch: BatchFacts, mirror: LogMirror) -> Emissions:
        found: Emissions = NOTHING
        unchecked = bool(mirror.producers.unchecked) and (batch.base, batch.epoch) in mirror.producers.unchecked
        by = witness(event)
        assert type(event.body) is LogHw
        leader_epoch = event.body.leader_epoch
        for offset, uid in enumerate(batch.uids, batch.base):
            name, number = place_of(uid)
            session = state.sessions.get(name)
            if session is None:
                session = state.session(name)
            session.reach(number)
            state.tested += session.number >= 0
            if number > session.number:
                session.number, session.offset, session.leader_epoch, session.by = number, offset, leader_epoch, by
                if unchecked:
                    session.unchecked = number
            elif number >= 0 and not session.has(number) and not found:
                found = self._overtaken(state, name, session, uid, number, offset, batch, event, mirror)
            if number >= 0:
                session.commit(number)
        return found

    def _overtaken(
        self,
        state: SendOrder,
        name: str,
        session: Session,
        uid: str,
        number: int,
        offset: int,
        batch: BatchFacts,
        event: Stamped,
        mirror: LogMirror,
    ) -> Emissions:
        sentence = (
            f"{uid} is committed at offset {offset:,} of {state.key}, but {name}:{session.number}, which was sent "
            f"later, is already at offset {session.offset:,}"
        )
        rule = ""
        if batch.producer_id < 0 and self._may_overtake(state.profile, node_of(name)):
            rule = "no-idempotence"
        elif number in session.given_up and batch.producer_id < 0:
            rule = "given-up"
        elif number < session.unchecked:
            rule = "no-producer-state"
        else:
            assert type(event.body) is LogHw
            rule = given_up(mirror, session.leader_epoch, event.body.leader_epoch, session.offset)
        if rule:
            return self.excused(rule, state.key, sentence, session.by, event)
        if state.renumbered.doubted(mirror, name, [session.offset, offset], sentence, session.by, witness(event)):
            return NOTHING
        return self.violated(state.key, sentence, session.by, event)

    def _may_overtake(self, profile: Profile, node: str) -> bool:
        in_flight = int(profile.setting("max.in.flight.requests.per.connection", node, 5))
        return in_flight > 1 and int(profile.setting("retries", node, 1)) > 0
