"""All invariants, and the folds that carry them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from orchestrator.invariants.broker_images import ImagesAreOneHistory
from orchestrator.invariants.client_liveness import ConsumersCatchUp, OperationsReturn, SendsReturn
from orchestrator.invariants.client_metadata import OlderMetadataIsNotAdopted, OutdatedMetadataIsRefetched
from orchestrator.invariants.clients import AcknowledgedIsNotLost, OneOffsetOneValue
from orchestrator.invariants.controller import (
    ControllerFold,
    ControllerInvariant,
    ElectionsComeFromTheRightPool,
    IsrChangesAreCompareAndSet,
    PartitionStatesMoveForward,
    TheDeadAreNotInCharge,
)
from orchestrator.invariants.convergence import Converges
from orchestrator.invariants.documented_errors import OnlyDocumentedErrors
from orchestrator.invariants.drain import EverythingDrains
from orchestrator.invariants.eligible_replicas import EligibleReplicasAreThoseWhoLeft
from orchestrator.invariants.fetch_answers import FetchesAreAnsweredAtOnce
from orchestrator.invariants.fold import Fold, Invariant
from orchestrator.invariants.hygiene import NoBug, TraceIsWhole, VersionsAreHonoured
from orchestrator.invariants.isr import ElectableReplicasHaveEverything, ReplicationCoversElection
from orchestrator.invariants.knowledge import LatestCoversWhatIsKnown, RealTimeOrder
from orchestrator.invariants.lagging import WhoLagsLeavesTheIsr
from orchestrator.invariants.list_offsets import (
    BrokersAreNotRefused,
    LatestNeverGoesBack,
    NewLeaderRefusesUntilCaughtUp,
)
from orchestrator.invariants.liveness import (
    AcknowledgedIsOnAll,
    BrokerIsUnfenced,
    IsrIsWhole,
    LeaderIsElected,
    PartitionGetsALeader,
)
from orchestrator.invariants.log_fold import LogFold, LogInvariant
from orchestrator.invariants.log_mirror import LEADERSHIP, QUORUM_LEADERSHIP
from orchestrator.invariants.metadata_liveness import ClientsGetTheCurrentMetadata, ImagesGetToTheEnd
from orchestrator.invariants.partition import (
    AcksTellTheTruth,
    JoiningTheIsrIsEarned,
    OneLeaderPerLeaderEpoch,
    ReplicaFetchesAreFenced,
)
from orchestrator.invariants.physics import PhysicsHold, SameSeedSameRun
from orchestrator.invariants.produce_answers import ProducesAreAnsweredAtOnce
from orchestrator.invariants.progress import CallsEnd, NoStorms, RetriesGetSomewhere
from orchestrator.invariants.quorum import (
    CommittedMetadataStays,
    EpochsNeverGoBack,
    OneDurableVotePerEpoch,
    OneLeaderPerEpoch,
    OwnEpochCommit,
    VotesGoToTheUpToDate,
)
from orchestrator.invariants.quorum_changes import VoterChangesEnd
from orchestrator.invariants.quorum_commits import (
    AcknowledgedMetadataStays,
    CommittedIsDurable,
    DivergenceIsExact,
    StateMachinesAgree,
)
from orchestrator.invariants.quorum_elections import (
    ControllersActInOffice,
    LeaderCompleteness,
    LeaderHasAMajority,
    LeadersOnlyAppend,
    OnlyVotersStand,
)
from orchestrator.invariants.quorum_snapshots import SnapshotsAreCommitted
from orchestrator.invariants.quorum_time import CutOffLeadersStepDown, LeaderIsLeftInPeace
from orchestrator.invariants.quorum_voters import VoterChangesAreSerial
from orchestrator.invariants.quorum_votes import VotesFollowTheRule
from orchestrator.invariants.reads import (
    ConsumersGoForward,
    OnlyCommittedIsShown,
    PayloadsArriveWhole,
    ReadsRepeat,
)
from orchestrator.invariants.refusals import ClientsAbsorbTheRefusal
from orchestrator.invariants.replica_logs import (
    LogMatching,
    LogsAreDenseAndOrdered,
    OnlyTheLeaderWrites,
    QuorumLogMatching,
)
from orchestrator.invariants.replication import (
    CleanLeaderHasEverything,
    CommittedIsNotTruncated,
    HighWatermarksAreSound,
)
from orchestrator.invariants.routes import METADATA_LOG, PARTITION
from orchestrator.invariants.sends import DefiniteFailureStaysFailed, ProducerOrderIsKept
from orchestrator.invariants.sessions import SessionsAreHonoured
from orchestrator.invariants.timestamps import LookupsMeanWhatTheySay
from orchestrator.invariants.transactions import (
    IdempotentWritesAppearOnce,
    OldProducerEpochsAreFenced,
    SequencesAreContiguous,
)
from orchestrator.invariants.truncation import LeadersSayWhereLogsPart, TruncationEndsOnTheLineage
from orchestrator.invariants.truncation_signals import TruncationIsSignalled
from orchestrator.invariants.vacuity import NothingVacuous
from orchestrator.invariants.watermarks import HighWatermarkFollows, RefusalIsBrief

AnyFold = Fold[Any]


def _metadata_log() -> list[LogInvariant[Any]]:
    return [
        LeaderHasAMajority(),
        QuorumLogMatching(),
        CommittedIsDurable(),
        OwnEpochCommit(),
        CommittedMetadataStays(),
        LeaderCompleteness(),
        StateMachinesAgree(),
        LeadersOnlyAppend(),
        SnapshotsAreCommitted(),
        VoterChangesAreSerial(),
        OnlyVotersStand(),
        ControllersActInOffice(),
        DivergenceIsExact(),
        AcknowledgedMetadataStays(),
        VotesFollowTheRule(),
        ImagesAreOneHistory(),
    ]


def _partition_logs() -> list[LogInvariant[Any]]:
    return [
        LogMatching(),
        CleanLeaderHasEverything(),
        ElectableReplicasHaveEverything(),
        ReplicationCoversElection(),
        TruncationEndsOnTheLineage(),
        LeadersSayWhereLogsPart(),
        LogsAreDenseAndOrdered(),
        OnlyTheLeaderWrites(),
        HighWatermarksAreSound(),
        CommittedIsNotTruncated(),
        IdempotentWritesAppearOnce(),
        SequencesAreContiguous(),
        OldProducerEpochsAreFenced(),
        AcknowledgedIsNotLost(),
        OneOffsetOneValue(),
        DefiniteFailureStaysFailed(),
        ProducerOrderIsKept(),
        ConsumersGoForward(),
        ReadsRepeat(),
        OnlyCommittedIsShown(),
        PayloadsArriveWhole(),
        LatestCoversWhatIsKnown(),
        RealTimeOrder(),
        NewLeaderRefusesUntilCaughtUp(),
        LookupsMeanWhatTheySay(),
        TruncationIsSignalled(),
    ]


def _controllers() -> list[ControllerInvariant[Any]]:
    return [
        PartitionStatesMoveForward(),
        IsrChangesAreCompareAndSet(),
        TheDeadAreNotInCharge(),
        ElectionsComeFromTheRightPool(),
        EligibleReplicasAreThoseWhoLeft(),
        SessionsAreHonoured(),
    ]


def folds(only: Collection[str] | None = None) -> list[AnyFold]:
    """Fresh folds of all invariants, or of those named.

    Raises ValueError for an id that is not registered.
    """
    if only is not None and (unknown := sorted(set(only) - set(INVARIANTS))):
        raise ValueError(f"no such invariant: {', '.join(unknown)}")

    def wanted(invariant: Invariant) -> bool:
        return only is None or invariant.id in only

    keyed: list[AnyFold] = [
        OneLeaderPerEpoch(),
        OneDurableVotePerEpoch(),
        EpochsNeverGoBack(),
        OneLeaderPerLeaderEpoch(),
        VotesGoToTheUpToDate(),
        JoiningTheIsrIsEarned(),
        ReplicaFetchesAreFenced(),
        AcksTellTheTruth(),
        ProducesAreAnsweredAtOnce(),
        FetchesAreAnsweredAtOnce(),
        LatestNeverGoesBack(),
        BrokersAreNotRefused(),
        ClientsAbsorbTheRefusal(),
        OlderMetadataIsNotAdopted(),
        OutdatedMetadataIsRefetched(),
        OnlyDocumentedErrors(),
        RefusalIsBrief(),
        HighWatermarkFollows(),
        WhoLagsLeavesTheIsr(),
        CutOffLeadersStepDown(),
        LeaderIsElected(),
        LeaderIsLeftInPeace(),
        PartitionGetsALeader(),
        IsrIsWhole(),
        SendsReturn(),
        ConsumersCatchUp(),
        OperationsReturn(),
        ImagesGetToTheEnd(),
        BrokerIsUnfenced(),
        VoterChangesEnd(),
        RetriesGetSomewhere(),
        AcknowledgedIsOnAll(),
        Converges(),
        ClientsGetTheCurrentMetadata(),
        CallsEnd(),
        PhysicsHold(),
        SameSeedSameRun(),
        NoStorms(),
        EverythingDrains(),
        NoBug(),
        TraceIsWhole(),
        VersionsAreHonoured(),
    ]
    found = [fold for fold in keyed if all(wanted(each) for each in fold.invariants)]
    if controllers := [each for each in _controllers() if wanted(each)]:
        found.append(ControllerFold(controllers))
    if metadata := [each for each in _metadata_log() if wanted(each)]:
        found.append(LogFold("metadata-log", METADATA_LOG, QUORUM_LEADERSHIP, metadata))
    if partition := [each for each in _partition_logs() if wanted(each)]:
        found.append(LogFold("partition-logs", PARTITION, LEADERSHIP, partition))
    return found


_FAMILIES = "QPHMOTRCLX"


def _by_family(invariant: Invariant) -> tuple[int, int]:
    return (_FAMILIES.index(invariant.id[0]), int(invariant.id[1:]))


def invariants_of(chosen: Sequence[AnyFold]) -> dict[str, Invariant]:
    """Id -> invariant of some folds, by family and number: the quorum first, hygiene last."""
    return {each.id: each for each in sorted((each for fold in chosen for each in fold.invariants), key=_by_family)}


INVARIANTS: dict[str, Invariant] = {}
"""All of them, in that order."""

INVARIANTS.update(invariants_of(folds()))

OVER_RUNS = (NothingVacuous(),)
"""What is judged over many runs by their counts, and not in any of them."""
