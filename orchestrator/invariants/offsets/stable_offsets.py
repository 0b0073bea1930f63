"""H7: what a client is told that asks where the committed transactions end."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.isolation import READ_COMMITTED
from actors.node.list_timestamps import LATEST
from actors.trace.events import ListInvoke, ListReturn, PartAssume, RpcReply, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror

REMEMBERED = 1024
"""Answers, and leader epochs, that are remembered."""


class Question(msgspec.Struct, frozen=True):
    """A client has asked. ``stable``: office -> the last stable offset of the leader's log by then."""

    by: Witness
    stable: dict[str, int]


class Answered(msgspec.Struct, frozen=True, gc=False):
    """A leader answers. ``stable``: the last stable offset of its log by then."""

    leader_epoch: int
    stable: int
    by: Witness


class StableOffsets(State):
    """``asked``: operation -> what was so when it began; ``answers``: "connection/correlation id" -> what was so when
    it was answered. ``began``: office (a broker's incarnation in a leader epoch) -> the last stable offset with which
    it took that up."""

    asked: dict[str, Question] = {}
    answers: dict[str, Answered] = {}
    began: dict[str, int] = {}


class CommittedLatestIsStable(LogInvariant[StableOffsets]):
    """An application at read_committed takes the latest offset for the end of what it can read now. With a higher one,
    it waits for records that it does not get: those of open transactions. With a lower one, it believes that it has
    read everything, and has not.

    Example: list-offsets-1, at read_committed, asks for the latest offset of orders-0. The log of its leader, broker-1,
    has an open transaction from 41 on, and the high watermark 50. The answer is 50, because the request lacks the
    isolation level, or 38, because broker-1 answers with an earlier last stable offset.

    The isolation level of the application counts, not that of the request. Between the call and the answer of the
    leader the last stable offset may rise, and any value in between is right. H1 compares answers at both isolation
    levels with one another.
    """

    id = "H7"
    title = "The latest offset that a client at read_committed gets is the last stable offset of the leader's log"
    source = "KIP-98; Kafka's Partition.fetchOffsetForTimestamp"
    tested_when = "a client at read_committed gets a latest offset from a partition with transactions"
    of_transactions = True
    types = (ListInvoke, ListReturn, PartAssume, RpcReply)
    cases = {RpcReply: ("ListOffsets",)}
    unseen = (
        "answers whose leader the trace does not name",
        "partitions without transactions: H4 compares their latest offset with the high watermark",
    )

    def initial(self, key: str, profile: Profile) -> StableOffsets:
        return StableOffsets(key)

    def step(self, state: StableOffsets, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is ListInvoke:
            if body.isolation == READ_COMMITTED and body.timestamp == LATEST and body.replica_id < 0:
                self._asked(state, event, body, mirror)
        elif type(body) is ListReturn:
            question = state.asked.pop(body.op, None)
            answer = state.answers.get(f"{event.req.rpartition('#')[0]}/{body.correlation_id}")
            if question is not None and answer is not None and body.outcome == "ok":
                return self._told(state, event, body, question, answer, mirror)
        elif type(body) is PartAssume:
            if body.role == "leader":
                office = _office(event.node, event.incarnation, body.leader_epoch)
                _remember(state.began, office, mirror.replica(event.node).last_stable_offset)
        elif type(body) is RpcReply and state.asked:
            for told in body.partitions:
                if told.tp == state.key and not told.error and told.timestamp == LATEST and told.leader_epoch >= 0:
                    stable = mirror.replica(event.node).last_stable_offset
                    name = f"{body.connection}/{body.correlation_id}"
                    _remember(state.answers, name, Answered(told.leader_epoch, stable, witness(event)))
        return NOTHING

    def _asked(self, state: StableOffsets, event: Stamped, body: ListInvoke, mirror: LogMirror) -> None:
        stable = {
            _office(node, replica.incarnation, replica.leads): replica.last_stable_offset
            for node, replica in mirror.replicas.items()
            if replica.leads >= 0
        }
        _remember(state.asked, body.op, Question(witness(event), stable))

    def _told(
        self,
        state: StableOffsets,
        event: Stamped,
        body: ListReturn,
        question: Question,
        answer: Answered,
        mirror: LogMirror,
    ) -> Emissions:
        leader, office = answer.by.node, _office(answer.by.node, answer.by.incarnation, answer.leader_epoch)
        if not (mirror.replica(leader).transactions.any or mirror.transactions.markers):
            return NOTHING
        state.tested += 1
        # Who asked before the leader took up its epoch may get what was so when it did.
        least = min(question.stable.get(office, state.began.get(office, 0)), answer.stable)
        if least <= body.offset <= answer.stable:
            return NOTHING
        right = f"{least:,}" if least == answer.stable else f"between {least:,} and {answer.stable:,}"
        sentence = (
            f"{event.node}, at read_committed, got {body.offset:,} as the latest offset of {state.key} from "
            f"{leader} (leader epoch {answer.leader_epoch}), but the last stable offset was {right} during the request"
        )
        return self.violated(state.key, sentence, question.by, answer.by, event)


def _office(node: str, incarnation: int, leader_epoch: int) -> str:
    return f"{node}/{incarnation}/{leader_epoch}"


def _remember(known: dict[str, Any], name: str, value: Any) -> None:
    known[name] = value
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
