"""Where the replicas of new partitions go (``StripedReplicaPlacer.java``; Krift has one rack), and what is drawn for
that."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b

from actors.controller.controller_state import ControllerState
from actors.node.errors import KafkaError

SEEDS = 1 << 48
"""A choice of the runtime's among so many stands for all that is drawn of one request."""


class Draws:
    """Numbers for one request, all from one choice of the runtime's. Lives for one step."""

    __slots__ = ("_drawn", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def below(self, n: int) -> int:
        """A number in [0, n)."""
        return self._next() % n

    def shuffle(self, items: list[int]) -> None:
        """Put a list into any order."""
        for index in range(len(items) - 1, 0, -1):
            other = self.below(index + 1)
            items[index], items[other] = items[other], items[index]

    def topic_id(self, state: ControllerState, taken: list[str]) -> str:
        """A topic id that nothing has had, as Kafka writes them: base64 of a random UUID, not with a dash in front
        (``Uuid.randomUuid``). ``taken``: of this request."""
        while True:
            # The bits by which a UUID shows that it is a random one.
            drawn = self._next() & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62)
            text = urlsafe_b64encode(drawn.to_bytes(16, "big")).decode().rstrip("=")
            if not text.startswith("-") and not any(text in each for each in (state.topics, state.removed, taken)):
                return text

    def _next(self) -> int:
        """The next number of 128 bits."""
        self._drawn += 1
        return int.from_bytes(blake2b(f"{self._seed}/{self._drawn}".encode(), digest_size=16).digest(), "big")


class Refused(Exception):
    """A topic cannot be made as it was asked for: the error and its text."""

    def __init__(self, error: KafkaError, message: str) -> None:
        super().__init__(message)
        self.error, self.message = error, message


class _BrokerList:
    """Brokers by turns: each partition begins with another one, none comes twice in a partition."""

    def __init__(self, brokers: list[int], draws: Draws) -> None:
        self.brokers = sorted(brokers)
        self.epoch = self.index = 0
        self.offset = draws.below(len(brokers)) if brokers else 0

    def next(self, epoch: int) -> int:
        """The next broker for the partition ``epoch``, -1 if all were named."""
        if not self.brokers:
            return -1
        if self.epoch != epoch:
            self.epoch, self.index = epoch, 0
            self.offset = (self.offset + 1) % len(self.brokers)
        if self.index >= len(self.brokers):
            return -1
        broker = self.brokers[(self.index + self.offset) % len(self.brokers)]
        self.index += 1
        return broker


def place(
    state: ControllerState, partitions: int, replicas: int, draws: Draws, defects: Sequence[str]
) -> list[list[int]]:
    """The replicas of each of so many new partitions, unfenced brokers first. Raises Refused with
    INVALID_REPLICATION_FACTOR where there are too few registered brokers, or none that is not fenced. A broker that is
    shutting down is passed over, as ``BrokerHeartbeatManager.UsableBrokerIterator`` does."""
    usable = [broker for broker in state.brokers.values() if broker.fenced or not broker.in_controlled_shutdown]
    all_alike = "placed-on-anybody" in defects and not all(broker.fenced for broker in usable)
    fenced = _BrokerList([broker.id for broker in usable if broker.fenced and not all_alike], draws)
    unfenced = _BrokerList([broker.id for broker in usable if not broker.fenced or all_alike], draws)
    if not unfenced.brokers:
        raise Refused(KafkaError.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
    if replicas > len(usable):
        text = f"The target replication factor of {replicas} cannot be reached: {len(usable)} brokers are registered."
        raise Refused(KafkaError.INVALID_REPLICATION_FACTOR, text)
    placed: list[list[int]] = []
    epoch = 0
    for _ in range(partitions):
        if epoch == len(unfenced.brokers) > 1:
            draws.shuffle(fenced.brokers)
            draws.shuffle(unfenced.brokers)
            epoch = 0
        chosen: list[int] = []
        for _ in range(replicas):
            broker = unfenced.next(epoch)
            chosen.append(broker if broker >= 0 else fenced.next(epoch))
        assert -1 not in chosen, f"{replicas} replicas on {len(usable)} brokers"
        if "placed-without-turns" in defects and placed:
            chosen = list(placed[0])
        placed.append(chosen)
        epoch += 1
    return placed


def validate_assignment(state: ControllerState, replicas: list[int], replication_factor: int) -> None:
    """Raises Refused with INVALID_REPLICA_ASSIGNMENT for an assignment that names nobody, somebody twice or who is not
    registered, or as many as the other partitions do not have (-1: there is none before it)."""
    wrong = KafkaError.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise Refused(wrong, "The manual partition assignment includes an empty replica list.")
    for broker_id in sorted(replicas):
        if broker_id not in state.brokers:
            raise Refused(wrong, f"The manual partition assignment includes broker {broker_id}, which nobody knows.")
        if replicas.count(broker_id) > 1:
            raise Refused(wrong, f"The manual partition assignment includes the broker {broker_id} more than once.")
    if replication_factor not in (-1, len(replicas)):
        raise Refused(
            wrong, f"A partition of {len(replicas)} replicas, where the others have {replication_factor} each."
        )
