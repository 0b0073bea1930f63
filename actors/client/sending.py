"""The producing half of a client: how its records become sends, and who takes what comes of them
(``KafkaProducer.java``)."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import UNSET, UnsetType

from actors.client import record_accumulator, sender, transaction_manager
from actors.client.metadata_cache import MetadataCache
from actors.client.record_accumulator import RecordAccumulator
from actors.client.sender import Sender, send_operation
from actors.client.transaction_manager import TransactionManager
from actors.client.transactions import transaction
from actors.client.transactions.transaction import Transaction
from actors.log.batch import LogRecord, payload_digest
from actors.node.component import Component
from actors.node.network_client import NetworkClient
from actors.node.spec import NodeSpec
from actors.node.step import Step
from actors.trace.events import ACKS_ALL, SendInvoke


class SendingNode(Protocol):
    """A client that has a sender."""

    spec: NodeSpec
    incarnation: int
    net: NetworkClient
    metadata: MetadataCache
    sender: Sender


def new_sender(config: dict[str, Any], transactional_id: str = "") -> Sender:
    """What sends records as a producer's configuration says; ``transactional_id`` "": outside transactions."""
    acks = ACKS_ALL if config["acks"] == "all" else int(config["acks"])
    idempotent = config["enable.idempotence"] and acks == ACKS_ALL
    backoff = config["retry.backoff.ms"], config["retry.backoff.max.ms"]
    return Sender(
        RecordAccumulator(
            config["batch.size"],
            config["linger.ms"],
            config["delivery.timeout.ms"],
            *backoff,
            config["request.timeout.ms"],
        ),
        TransactionManager(
            idempotent,
            *backoff,
            transaction=Transaction(transactional_id, config["transaction.timeout.ms"], config["retry.backoff.ms"]),
        ),
        acks,
        idempotent,
        config["max.in.flight.requests.per.connection"],
        retries=config["retries"],
        request_timeout_ms=config["request.timeout.ms"],
    )


def send_record(
    node: SendingNode,
    step: Step,
    tp: str,
    number: int,
    copy_of: str | UnsetType = UNSET,
    transaction: tuple[str, int] | None = None,
    amount: int | UnsetType = UNSET,
) -> None:
    """The application sends its ``number``-th record. Its uid is ``<name>:<n>``, in later incarnations
    ``<name>#<incarnation>:<n>``, as uids are unique in the run; its value is that, or the uid of what it is a copy
    of. ``transaction``: transactional id and number of the one that it is sent in; ``amount``: of its share in a
    transfer."""
    name = node.spec.name if not node.incarnation else f"{node.spec.name}#{node.incarnation}"
    uid = f"{name}:{number}"
    record = LogRecord(step.wall_ms, uid, value=(uid if copy_of is UNSET else copy_of).encode())
    key, acks, idempotent = node.metadata.key(tp), node.sender.acks, node.sender.idempotent
    digest = payload_digest(record)
    of: tuple[str | UnsetType, int | UnsetType] = (UNSET, UNSET) if transaction is None else transaction
    step.record(SendInvoke(send_operation(uid, key), key, uid, acks, idempotent, digest, copy_of, *of, amount))
    node.sender.accumulator.append(step, tp, record, key)


COMPONENT: Component[SendingNode, Step] = Component(
    timers={
        record_accumulator.DELIVERY: lambda node, step, _: node.sender.on_delivery_timeout(step),
        record_accumulator.LINGER: lambda node, step, tp: node.sender.accumulator.on_linger(tp),
        record_accumulator.RETRY: lambda node, step, number: node.sender.accumulator.on_retry(int(number)),
        transaction_manager.RETRY_TIMER: lambda node, step, _: node.sender.transactions.on_retry(),
        transaction.RETRY: lambda node, step, _: node.sender.transactions.transaction.on_retry(),
    },
    answers={
        sender.PURPOSE: lambda node, step, ended, _: node.sender.on_ended(step, node.metadata, ended),
        transaction_manager.PURPOSE: lambda node, step, ended, _: node.sender.transactions.on_ended(step, ended),
        transaction.PURPOSE: lambda node, step, ended, _: node.sender.on_transactional(step, ended),
    },
    choices={
        transaction_manager.CHOICE: lambda node, step, value, _: node.sender.transactions.node.on_chosen(
            node.net, value
        ),
        transaction.CHOICE: lambda node, step, value, _: node.sender.transactions.transaction.node.on_chosen(
            node.net, value
        ),
    },
)
"""What every client that sends has."""
