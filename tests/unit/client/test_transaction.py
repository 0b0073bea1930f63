"""The states of a transaction that an application cannot tell apart (Kafka: TransactionManagerTest, SenderTest)."""

from actors.client.transaction_manager import TransactionManager
from actors.client.transactions.requests import TxnRequest
from actors.client.transactions.transaction import PURPOSE, Transaction
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.step import Step
from krift.v1.transactions import EndTxnRequest, EndTxnResponse


def answered_end(commit: bool) -> Transaction:
    """A transaction whose end was answered with TRANSACTION_ABORTABLE."""
    transaction = Transaction("producer-1", state="COMMITTING_TRANSACTION" if commit else "ABORTING_TRANSACTION")
    transaction.asked, transaction.call = TxnRequest("end", commit=commit), 1
    response = EndTxnResponse(error_code=KafkaError.TRANSACTION_ABORTABLE)
    ended = Ended(1, "broker-1", "client", Api.EndTxn, 5, PURPOSE, EndTxnRequest(), response, None)
    transaction.on_ended(Step(0), TransactionManager(), ended)
    return transaction


def test_an_abort_that_is_to_be_aborted_is_fatal() -> None:
    """Shows that TRANSACTION_ABORTABLE lets an application abort what it wanted to commit, and that it ends a producer
    that aborts already (SenderTest testAbortableErrorIsConvertedToFatalErrorDuringAbort)."""
    assert answered_end(commit=True).state == "ABORTABLE_ERROR"
    assert answered_end(commit=False).state == "FATAL_ERROR"
