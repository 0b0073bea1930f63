"""T12: with which errors a coordinator may refuse to end a transaction, and with which epoch its producer goes on."""

from __future__ import annotations

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import EndReturn
from orchestrator.invariants.folds.conclusion import InvariantResult
from tests.unit.invariants.transactions.stage import APP, PRODUCER, TransactionTrace

FENCED, INVALID = int(KafkaError.PRODUCER_FENCED), int(KafkaError.INVALID_TXN_STATE)


class Answered(TransactionTrace):
    """An application is told what became of its request for an end."""

    def ends_with(
        self,
        commit: bool,
        error: int = 0,
        cause: str = "",
        *,
        next_id: int = -1,
        next_epoch: int = -1,
        epoch: int = 3,
        asked: bool = True,
    ) -> InvariantResult:
        """What T12 says, when the answer has come."""
        self.cause = cause
        body = EndReturn(
            "e1",
            "unknown" if error else "ok",
            error,
            APP,
            1,
            PRODUCER,
            epoch,
            commit,
            asked=asked,
            next_id=next_id,
            next_epoch=next_epoch,
        )
        self.emit("producer-1", body)
        return self.result("T12")


def begun(version: int, commit: bool = True, epoch: int = 3) -> Answered:
    """A transaction is open, and its application asks for the end."""
    trace = Answered()
    trace.app_begins(epoch=epoch, version=version)
    trace.begins(epoch, version=version)
    trace.app_asks(commit, epoch=epoch)
    return trace


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("decided", "error", "wrong"), [(True, FENCED, 1), (True, INVALID, 1), (False, INVALID, 0)])
def test_a_request_that_is_repeated(version: int, complete: bool, decided: bool, error: int, wrong: int) -> None:
    """Shows that T12 is violated if a request is refused after the transaction was decided so; one that was decided
    otherwise may be refused as that."""
    trace, epoch = begun(version), 2 + version
    by = trace.decides(decided, epoch, version=version)
    if complete:
        by = trace.completes(decided, epoch, version=version)
    assert trace.ends_with(True, error, by).violated == wrong


def test_its_sentence() -> None:
    """Shows what the finding says, and that it names the decision."""
    trace = begun(2)
    by = trace.decides(True)
    (finding,) = trace.ends_with(True, FENCED, by).violations
    assert finding.sentence == (
        "broker-1 refused with PRODUCER_FENCED to commit the transaction of producer id 7, epoch 3, but it had the "
        "transactional id in state PrepareCommit with epoch 4"
    )
    assert finding.events[0] == by


@pytest.mark.parametrize(
    ("version", "error", "wrong"), [(2, FENCED, 1), (2, INVALID, 1), (1, FENCED, 0), (1, INVALID, 1)]
)
def test_an_open_transaction(version: int, error: int, wrong: int) -> None:
    """Shows that T12 is violated if its end is refused though nobody has fenced its producer. Below transaction.version
    2 a coordinator fences before it writes that, which nobody sees."""
    trace = Answered()
    trace.app_begins(version=version)
    by = trace.begins(version=version)
    trace.app_asks(True)
    assert trace.ends_with(True, error, by).violated == wrong


@pytest.mark.parametrize("version", [1, 2])
def test_a_fenced_producer(version: int) -> None:
    """Shows that whoever is fenced may be told so: its id has another epoch, also as a coordinator has read it."""
    trace = begun(version)
    by = trace.state("Ongoing", "PrepareAbort", 5, version=version)
    assert trace.ends_with(True, FENCED, by).violated == 0
    trace = begun(version)
    by = trace.loads("Empty", 6, 2, (), version=version)
    assert trace.ends_with(True, FENCED, by).violated == 0


@pytest.mark.parametrize(
    ("version", "commit", "error", "wrong"),
    [
        (1, True, INVALID, 0),
        (1, False, INVALID, 0),
        (2, True, INVALID, 0),
        (2, False, INVALID, 1),
        (2, True, FENCED, 1),
    ],
)
def test_nothing_to_end(version: int, commit: bool, error: int, wrong: int) -> None:
    """Shows that an end without a transaction may be refused as that; an abort only below transaction.version 2."""
    trace = Answered()
    by = trace.state("Empty", "Empty", 3, (), version=version)
    trace.app_begins(version=version)
    trace.app_asks(commit)
    assert trace.ends_with(commit, error, by).violated == wrong


def test_who_answered() -> None:
    """Shows that T12 judges an answer only by what its sender has said last, before it answered: another coordinator
    may know something else, as may the same one before or after."""
    trace = begun(2)
    before = trace.decides(True)
    by = trace.completes(True)
    assert trace.ends_with(True, FENCED, before).violated == 0
    trace = begun(2)
    by = trace.decides(True)
    trace.loads("PrepareCommit", 4, 2)
    assert trace.ends_with(True, FENCED, by).violated == 0
    trace = begun(2)
    trace.decides(True)
    by = trace.loads("PrepareCommit", 4, 2)
    assert trace.ends_with(True, FENCED, by).violated == 1
    assert begun(2).ends_with(True, FENCED).violated == 0


def test_an_id_that_has_expired() -> None:
    """Shows that a coordinator which has forgotten an id may say anything of it, and that other errors have other
    reasons."""
    trace = begun(2)
    by = trace.state("CompleteCommit", "Dead", 4, ())
    assert trace.ends_with(True, FENCED, by).violated == 0
    trace = begun(2)
    by = trace.decides(True)
    assert trace.ends_with(True, int(KafkaError.INVALID_PRODUCER_ID_MAPPING), by).violated == 0


@pytest.mark.parametrize(
    ("version", "next_id", "next_epoch", "epoch", "wrong"),
    [
        (2, 7, 4, 3, 0),
        (2, 7, 3, 3, 1),
        (2, 7, 5, 3, 1),
        (2, 8, 0, 3, 1),
        (2, 8, 0, 32766, 0),
        (2, 8, 1, 32766, 1),
        (1, 7, 3, 3, 0),
    ],
)
def test_the_next_epoch(version: int, next_id: int, next_epoch: int, epoch: int, wrong: int) -> None:
    """Shows that a producer of transaction.version 2 goes on with the next epoch, or with another id after the last
    one; below, it keeps its epoch."""
    trace = begun(version, epoch=epoch)
    trace.decides(True, epoch + version - 1, version=version)
    assert trace.ends_with(True, next_id=next_id, next_epoch=next_epoch, epoch=epoch).violated == wrong


def test_the_epoch_after_nothing() -> None:
    """Shows that a producer that had nothing to end keeps its epoch."""
    trace = Answered()
    trace.app_begins()
    trace.app_asks(True)
    assert trace.ends_with(True, next_id=7, next_epoch=3, asked=False).violated == 0
