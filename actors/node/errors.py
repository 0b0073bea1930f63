"""Kafka's error codes, and what a client may do about each (``Errors.java`` and its exception classes)."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class KafkaError(IntEnum):
    """Error codes as they travel."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    STALE_MEMBER_EPOCH = 113
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    REBOOTSTRAP_REQUIRED = 129
    # Krift's own: KIP-232 as first proposed names this error and gives it no number. Far above Kafka's.
    INVALID_METADATA_EPOCH = 232


class ErrorTraits(msgspec.Struct, frozen=True):
    """retriable: a client tries again by itself. invalid_metadata: it refreshes its metadata first.
    definite: the request was certainly not carried out (else the outcome is unknown).
    """

    retriable: bool = False
    invalid_metadata: bool = False
    definite: bool = True


_RETRIABLE = ErrorTraits(retriable=True)
_REFRESH = ErrorTraits(retriable=True, invalid_metadata=True)
_UNKNOWN = ErrorTraits(retriable=True, definite=False)
_FATAL = ErrorTraits()

E = KafkaError
_TRAITS: dict[KafkaError, ErrorTraits] = {
    E.UNKNOWN_SERVER_ERROR: ErrorTraits(definite=False),
    E.CORRUPT_MESSAGE: _RETRIABLE,
    E.UNKNOWN_TOPIC_OR_PARTITION: _REFRESH,
    E.LEADER_NOT_AVAILABLE: _REFRESH,
    # A leader demoted while a produce waits for the ISR answers 6 although the record is in its log.
    E.NOT_LEADER_OR_FOLLOWER: ErrorTraits(retriable=True, invalid_metadata=True, definite=False),
    E.REQUEST_TIMED_OUT: _UNKNOWN,
    E.REPLICA_NOT_AVAILABLE: _REFRESH,
    E.NETWORK_EXCEPTION: ErrorTraits(retriable=True, invalid_metadata=True, definite=False),
    E.COORDINATOR_LOAD_IN_PROGRESS: _RETRIABLE,
    E.COORDINATOR_NOT_AVAILABLE: _RETRIABLE,
    E.NOT_COORDINATOR: _RETRIABLE,
    E.NOT_ENOUGH_REPLICAS: _RETRIABLE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _UNKNOWN,
    E.NOT_CONTROLLER: _RETRIABLE,
    E.CONCURRENT_TRANSACTIONS: _RETRIABLE,
    E.KAFKA_STORAGE_ERROR: ErrorTraits(retriable=True, invalid_metadata=True, definite=False),
    E.FETCH_SESSION_ID_NOT_FOUND: _RETRIABLE,
    E.INVALID_FETCH_SESSION_EPOCH: _RETRIABLE,
    E.LISTENER_NOT_FOUND: _REFRESH,
    E.FENCED_LEADER_EPOCH: _REFRESH,
    E.UNKNOWN_LEADER_EPOCH: _RETRIABLE,
    E.OFFSET_NOT_AVAILABLE: _RETRIABLE,
    E.PREFERRED_LEADER_NOT_AVAILABLE: _REFRESH,
    E.ELIGIBLE_LEADERS_NOT_AVAILABLE: _REFRESH,
    E.ELECTION_NOT_NEEDED: _REFRESH,
    E.UNKNOWN_TOPIC_ID: _REFRESH,
    E.INCONSISTENT_TOPIC_ID: _REFRESH,
    E.FETCH_SESSION_TOPIC_ID_ERROR: _RETRIABLE,
    E.UNSTABLE_OFFSET_COMMIT: _RETRIABLE,
}


TURNED_AWAY = frozenset({KafkaError.GROUP_MAX_SIZE_REACHED, KafkaError.FENCED_INSTANCE_ID})
"""What a coordinator says to whom its group has no place for. The application closes its consumer."""


def traits(code: int) -> ErrorTraits:
    """Traits of an error code; a code outside the table is fatal and definite."""
    try:
        return _TRAITS.get(KafkaError(code), _FATAL)
    except ValueError:
        return _FATAL


def error_name(code: int) -> str:
    """Kafka's name of a code, or ``ERROR_<code>`` for one that the table lacks."""
    try:
        return KafkaError(code).name
    except ValueError:
        return f"ERROR_{code}"
