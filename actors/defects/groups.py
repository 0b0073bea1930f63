"""The defects of groups: who coordinates them, who commits, what members own and where they begin."""

from __future__ import annotations

from actors.defects.controller import EPOCHS
from actors.defects.defect import Defect

_COORDINATOR = "actors.broker.group_coordinator"
_MEMBER = "actors.client"

GROUP_DEFECTS: tuple[Defect, ...] = (
    Defect(
        "strangers-commit",
        _COORDINATOR,
        "O2",
        "A coordinator accepts commits of former members.",
        nemesis="groups",
    ),
    Defect(
        "commit-unwritten",
        _COORDINATOR,
        "O1",
        "A coordinator acknowledges commits without storing them.",
        nemesis="groups",
    ),
    Defect(
        "commit-before-hw",
        _COORDINATOR,
        "O1",
        "A coordinator answers a commit when it is appended, not when it is committed.",
        nemesis="groups",
    ),
    Defect(
        "commit-epoch-unstored",
        _COORDINATOR,
        "O1",
        "A coordinator stores no leader epoch of a commit.",
        nemesis="groups",
    ),
    Defect(
        "commit-epoch-untold",
        _COORDINATOR,
        "O1",
        "A coordinator answers look-ups without the leader epoch of a commit.",
        nemesis="groups",
    ),
    Defect(
        "commit-of-more",
        _COORDINATOR,
        "O6",
        "A coordinator stores higher offsets than it is asked to.",
        nemesis="groups",
    ),
    Defect(
        "load-ends-early",
        _COORDINATOR,
        "O7",
        "A new coordinator skips the last batch of its log.",
        nemesis="groups",
    ),
    Defect(
        "removed-topics-remembered",
        _COORDINATOR,
        "O8",
        "A coordinator keeps the committed positions of a removed topic.",
        nemesis="metadata",
    ),
    Defect(
        "coordinates-as-follower",
        _COORDINATOR,
        "O7",
        "A broker that does not lead the offsets partition any more continues as its coordinator.",
        "KAFKA-5600",
        nemesis="groups",
    ),
    Defect(
        "generations-begin-anew",
        _COORDINATOR,
        "O5",
        "A new coordinator counts generations from 0, whatever its log says.",
        nemesis="groups",
    ),
    Defect(
        "generation-reused",
        _COORDINATOR,
        "O5",
        "A coordinator forms the third generation and all later ones under the number of the second.",
        nemesis="groups",
    ),
    Defect(
        "equal-metadata-refused",
        _COORDINATOR,
        "M5",
        "A coordinator refuses a commit whose metadata epoch is the stored one.",
        nemesis="groups",
        settings=EPOCHS,
    ),
    Defect(
        "keeps-what-is-lost",
        _MEMBER,
        "O4",
        "A member that was put out of its group joins anew with what it owned.",
        nemesis="groups",
    ),
    Defect(
        "joins-without-revoking",
        _MEMBER,
        "O4",
        "A member joins again without giving up what it owns.",
        nemesis="groups",
    ),
    Defect(
        "partition-given-twice", _MEMBER, "O4", "A leading member assigns a partition to two members.", nemesis="groups"
    ),
    Defect(
        "partition-left-out",
        _MEMBER,
        "L11",
        "A leading member leaves a partition out of its assignment.",
        nemesis="groups",
    ),
    Defect(
        "rebalance-unheard",
        _MEMBER,
        "L11",
        "A member that learns of a rebalance does not rejoin.",
        nemesis="groups",
    ),
    Defect(
        "silent-member-stays",
        _COORDINATOR,
        "L11",
        "A coordinator keeps silent members.",
        nemesis="groups",
    ),
    Defect(
        "heartbeats-unheeded",
        _COORDINATOR,
        "O10",
        "A coordinator answers heartbeats, and counts the sessions of members from when they joined.",
        nemesis="groups",
    ),
    Defect(
        "static-return-unwritten",
        _COORDINATOR,
        "O7",
        "A coordinator does not write down that a static member came back under another id.",
        "KIP-345",
        nemesis="groups",
    ),
    Defect(
        "loaded-members-unwatched",
        _COORDINATOR,
        "O9",
        "A new coordinator expects no heartbeats from the members in its log.",
        nemesis="groups",
    ),
    Defect(
        "absent-members-stay",
        _COORDINATOR,
        "O9",
        "A coordinator forms the next generation with members that have not joined.",
        nemesis="groups",
    ),
    Defect(
        "leave-unheard",
        _COORDINATOR,
        "O9",
        "A group does not rebalance when a member leaves.",
        nemesis="groups",
    ),
    Defect(
        "resigns-silently",
        _COORDINATOR,
        "X6",
        "A coordinator that resigns does not answer waiting members.",
        nemesis="groups",
    ),
    Defect(
        "commits-ahead",
        _MEMBER,
        "O3",
        "A member commits positions beyond the records that its application was given.",
        nemesis="groups",
    ),
    Defect(
        "begins-with-old-metadata",
        _MEMBER,
        "M6",
        "A member begins at its group's committed position, however old its metadata is.",
        "KAFKA-6262",
        nemesis="groups",
        settings=EPOCHS,
    ),
    Defect(
        "begins-after-committed",
        _MEMBER,
        "C5",
        "A member begins one record after its group's committed position.",
        nemesis="groups",
    ),
    Defect(
        "begins-where-reset-says",
        _MEMBER,
        "M4",
        "A member begins where auto.offset.reset says, though its group has committed a position.",
        nemesis="groups",
    ),
)
