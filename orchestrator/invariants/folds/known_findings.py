"""What Apache Kafka itself gets wrong (docs/findings.md), or a proposal that is switched on (docs/studies), as it shows
in the invariants of a run.

An invariant that meets one says so in its violation, from the trace alone: it looks for what makes the finding happen,
not for its outcome, and only where the switch of the mend is off. What follows from it is known with it, but nothing
else: a violation of another invariant, or about something else, stays a failure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from actors.features import (
    AS_KAFKA,
    ELR_CLEARED,
    ENDLESS_ABORTS,
    FEATURES,
    FORMER_EPOCH,
    HUNG_BROKERS,
    KAFKA_7408,
    REELECTED_IN_PLACE,
    REMOVED_LEADER_DEADLOCK,
    REMOVED_LEADER_ZOMBIE,
    SPINNING_CONSUMER,
    UNCOMMITTED_DUPLICATES,
)

if TYPE_CHECKING:
    from orchestrator.invariants.folds.fold import Finding, Profile


class KnownFinding(msgspec.Struct, frozen=True):
    """title: of its section in the document that tells it. mend: the switch. shows: invariants whose violations can say
    that they are it. entails: those whose violations follow from it about the same key; entails_anywhere: about
    whatever. values: of the switch, with which it is there. study: of the proposal that it is about, "" it is about
    Kafka."""

    name: str
    title: str
    mend: str
    shows: tuple[str, ...]
    entails: tuple[str, ...] = ()
    entails_anywhere: tuple[str, ...] = ()
    values: tuple[str, ...] = (AS_KAFKA,)
    study: str = ""

    @property
    def told(self) -> str:
        """What it is, who does it, and where that is written."""
        if self.study:
            return f'"{self.title}", which the proposal itself does ({self.study})'
        return f'"{self.title}", which Kafka itself does (docs/findings.md)'

    @property
    def stalls(self) -> bool:
        """Whether something does not get to its end because of it: a promise of progress is broken."""
        return any(name.startswith("L") for name in (*self.shows, *self.entails_anywhere))

    @property
    def entails_something(self) -> bool:
        """Whether other violations are taken to follow from it."""
        return bool(self.entails or self.entails_anywhere)


_NOTHING_IS_DECIDED = ("L1", "L3", "L4", "L5", "L6", "L8", "L9", "L11", "L12", "L13", "L14", "L15", "L16", "L20")

KNOWN_FINDINGS: dict[str, KnownFinding] = {
    each.name: each
    for each in (
        KnownFinding(
            "finding-elr-cleared",
            "Eligible leader replicas are cleared",
            ELR_CLEARED,
            ("L3",),
            entails=("L4", "L5", "L6", "L14"),
            entails_anywhere=("L11", "L13", "L15", "L16", "L20"),
        ),
        KnownFinding(
            "finding-removed-leader-deadlock",
            "A removed leader and a deadlock",
            REMOVED_LEADER_DEADLOCK,
            ("L1",),
            entails_anywhere=_NOTHING_IS_DECIDED,
        ),
        KnownFinding(
            "finding-removed-leader-zombie",
            "A removed leader that reigns on",
            REMOVED_LEADER_ZOMBIE,
            ("Q15",),
            entails_anywhere=_NOTHING_IS_DECIDED,
        ),
        KnownFinding(
            "finding-hung-brokers",
            "Two brokers that hang",
            HUNG_BROKERS,
            ("L5", "L6"),
            entails_anywhere=("L11", "L13", "L15", "L16"),
        ),
        KnownFinding("finding-spinning-consumer", "Consumers that spin", SPINNING_CONSUMER, ("X10",)),
        KnownFinding(
            "finding-former-epoch",
            "A position of a former topic",
            FORMER_EPOCH,
            ("L6", "L16"),
            entails_anywhere=("L13",),
        ),
        KnownFinding("finding-endless-aborts", "Transactions that abort without end", ENDLESS_ABORTS, ("L20",)),
        KnownFinding(
            "finding-uncommitted-duplicates",
            "Duplicates of records that were never committed",
            UNCOMMITTED_DUPLICATES,
            ("C1", "C3"),
        ),
        KnownFinding(
            "finding-reelected-in-place",
            "A leader that is elected again in place",
            REELECTED_IN_PLACE,
            ("P10",),
            entails=("P4", "P5", "P11", "T1", "H1", "H6", "C1", "C3", "C5", "C6", "C7", "C8"),
        ),
        KnownFinding(
            "kafka-7408-half",
            "What is left of transactions after an unclean election",
            KAFKA_7408,
            ("T10",),
            values=("seed", "undecided"),
            study="docs/studies/kafka-7408.md",
        ),
    )
}


def known_as(profile: Profile, name: str) -> str:
    """``name`` where the cluster of a run is as Kafka is, or has the proposal; "" where it has the mend."""
    known = KNOWN_FINDINGS[name]
    values = {profile.feature(known.mend), *(profile.feature(known.mend, node) for node in profile.nodes)} - {""}
    return name if (values or {FEATURES[known.mend].default}) <= {*known.values} else ""


COMMITTED_BY_ID = 10
"""Version of OffsetCommit from which topics are named by their ids."""


def former_epoch(profile: Profile) -> str:
    """``finding-former-epoch`` where a position may be taken for one of a later topic of the same name: without the
    mend, and where members of groups commit by name, whom it does not reach."""
    name = "finding-former-epoch"
    members = [each for group in profile.groups.values() for each in group.get("members", [])]
    by_name = profile.is_older("OffsetCommit", COMMITTED_BY_ID, *members)
    return known_as(profile, name) or (name if by_name else "")


def stalls(shown: Collection[Finding]) -> bool:
    """Whether something does not get to its end because of what violations say that they are."""
    return any(KNOWN_FINDINGS[each.rule].stalls for each in shown)


def is_known(invariant: str, violations: Collection[Finding], shown: Collection[Finding]) -> bool:
    """Whether all ``violations`` of an invariant are a finding that a run shows, or follow from one. ``shown``: the
    violations in the run that say that they are one."""
    return all(each.rule or _follows(invariant, each.key, shown) for each in violations)


def _follows(invariant: str, key: str, shown: Collection[Finding]) -> bool:
    return any(
        invariant in KNOWN_FINDINGS[each.rule].entails_anywhere
        or (invariant in KNOWN_FINDINGS[each.rule].entails and key == each.key)
        for each in shown
    )
