"""All invariants, and the folds that carry them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from chaos.scenario.invariant_ids import INVARIANT_IDS
from orchestrator.invariants.clients.acknowledged import AcknowledgedIsNotLost
from orchestrator.invariants.clients.knowledge import LatestCoversWhatIsKnown, RealTimeOrder
from orchestrator.invariants.clients.one_value import OneOffsetOneValue
from orchestrator.invariants.clients.patience import RetriableErrorsAreRetried
from orchestrator.invariants.clients.reads import (
    ConsumersGoForward,
    OnlyCommittedIsShown,
    PayloadsArriveWhole,
    ReadsRepeat,
)
from orchestrator.invariants.clients.sends import DefiniteFailureStaysFailed, ProducerOrderIsKept
from orchestrator.invariants.clients.transactions import (
    IdempotentWritesAppearOnce,
    OldProducerEpochsAreFenced,
    SequencesAreContiguous,
)
from orchestrator.invariants.folds.fold import Fold, Invariant
from orchestrator.invariants.folds.routes import METADATA_LOG, PARTITION
from orchestrator.invariants.groups.automatic_commits import AutomaticCommitsAreMade
from orchestrator.invariants.groups.commits import AcknowledgedCommitsAreFetched, CommitsGoForwardInMetadataTime
from orchestrator.invariants.groups.coordinators import MemoryEqualsTheLog
from orchestrator.invariants.groups.expirations import PositionsExpireInTime
from orchestrator.invariants.groups.heartbeats import HeardMembersStay
from orchestrator.invariants.groups.members import (
    GenerationsMoveForward,
    OneOwnerAtATime,
    StaleMembersCannotCommit,
)
from orchestrator.invariants.groups.positions import CommittedPositionsExist, OnlyDeliveredIsCommitted
from orchestrator.invariants.groups.removed_topics import RemovedTopicsAreForgotten
from orchestrator.invariants.groups.waits import CoordinatorsWaitAsAsked
from orchestrator.invariants.hygiene.backoffs import RetriesPause
from orchestrator.invariants.hygiene.documented_errors import OnlyDocumentedErrors
from orchestrator.invariants.hygiene.drain import EverythingDrains
from orchestrator.invariants.hygiene.physics import PhysicsHold, SameSeedSameRun
from orchestrator.invariants.hygiene.trace import NoBug, TraceIsWhole, VersionsAreHonoured
from orchestrator.invariants.hygiene.vacuity import NothingVacuous
from orchestrator.invariants.liveness.applications import TransactionsCommit
from orchestrator.invariants.liveness.clients import ConsumersCatchUp, OperationsReturn
from orchestrator.invariants.liveness.cluster import (
    AcknowledgedIsOnAll,
    BrokerIsUnfenced,
    IsrIsWhole,
    LeaderIsElected,
    PartitionGetsALeader,
)
from orchestrator.invariants.liveness.committed_positions import PositionsAreFound
from orchestrator.invariants.liveness.convergence import Converges
from orchestrator.invariants.liveness.copies import CopiesSucceed
from orchestrator.invariants.liveness.groups import GroupsGetTogether
from orchestrator.invariants.liveness.metadata import ClientsGetTheCurrentMetadata, ImagesGetToTheEnd
from orchestrator.invariants.liveness.preferred_leaders import PreferredLeadersComeBack
from orchestrator.invariants.liveness.progress import CallsEnd, NoStorms, RetriesGetSomewhere
from orchestrator.invariants.liveness.retention import RetentionIsCarriedOut
from orchestrator.invariants.liveness.sends import SendsReturn
from orchestrator.invariants.liveness.stable_offsets import StableOffsetsAdvance
from orchestrator.invariants.liveness.voter_changes import VoterChangesEnd
from orchestrator.invariants.metadata.broker_images import ImagesAreOneHistory
from orchestrator.invariants.metadata.client_metadata import OlderMetadataIsNotAdopted
from orchestrator.invariants.metadata.metadata_epochs import (
    ConsumptionWaitsForMetadata,
    EpochsAreMintedOnce,
    ExternalPositionsWait,
)
from orchestrator.invariants.metadata.refetching import OutdatedMetadataIsRefetched
from orchestrator.invariants.metadata.resets import NoSpuriousReset
from orchestrator.invariants.metadata.topic_ids import RecreatedTopicsAreNew
from orchestrator.invariants.metadata.truncation_signals import TruncationIsSignalled
from orchestrator.invariants.mirrors.log_fold import LogFold, LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LEADERSHIP, QUORUM_LEADERSHIP
from orchestrator.invariants.offsets.list_offsets import (
    BrokersAreNotRefused,
    LatestNeverGoesBack,
    NewLeaderRefusesUntilCaughtUp,
)
from orchestrator.invariants.offsets.refusals import ClientsAbsorbTheRefusal
from orchestrator.invariants.offsets.stable_offsets import CommittedLatestIsStable
from orchestrator.invariants.offsets.timestamps import LookupsMeanWhatTheySay
from orchestrator.invariants.partitions.controller import (
    ControllerFold,
    ControllerInvariant,
    IsrChangesAreCompareAndSet,
    PartitionStatesMoveForward,
    TheDeadAreNotInCharge,
)
from orchestrator.invariants.partitions.deletions import RecordsAreDeletedAsAsked
from orchestrator.invariants.partitions.eligible_replicas import EligibleReplicasAreThoseWhoLeft
from orchestrator.invariants.partitions.fencing import ReplicaFetchesAreFenced
from orchestrator.invariants.partitions.fetch_answers import FetchesAreAnsweredAtOnce
from orchestrator.invariants.partitions.isr import ElectableReplicasHaveEverything, ReplicationCoversElection
from orchestrator.invariants.partitions.lagging import WhoLagsLeavesTheIsr
from orchestrator.invariants.partitions.leaders import ElectionsComeFromTheRightPool
from orchestrator.invariants.partitions.log_starts import EarliestIsTruthful, LogStartsAreBelowTheWatermark
from orchestrator.invariants.partitions.partition import (
    AcksTellTheTruth,
    JoiningTheIsrIsEarned,
    OneLeaderPerLeaderEpoch,
)
from orchestrator.invariants.partitions.placements import ReplicasArePlacedByTurns
from orchestrator.invariants.partitions.produce_answers import ProducesAreAnsweredAtOnce
from orchestrator.invariants.partitions.refused_proposals import RefusalsHaveACause
from orchestrator.invariants.partitions.registrations import RegistrationComesFirst
from orchestrator.invariants.partitions.replica_logs import (
    LogMatching,
    LogsAreDenseAndOrdered,
    OnlyTheLeaderWrites,
    QuorumLogMatching,
)
from orchestrator.invariants.partitions.replication import (
    CleanLeaderHasEverything,
    CommittedIsNotTruncated,
    HighWatermarksAreSound,
)
from orchestrator.invariants.partitions.segments import SegmentsAreRolled
from orchestrator.invariants.partitions.sessions import SessionsAreHonoured
from orchestrator.invariants.partitions.truncation import LeadersSayWhereLogsPart, TruncationEndsOnTheLineage
from orchestrator.invariants.partitions.watermarks import HighWatermarkFollows, RefusalIsBrief
from orchestrator.invariants.quorum.check_quorum import CutOffLeadersStepDown, LeaderIsLeftInPeace
from orchestrator.invariants.quorum.commits import (
    CommittedIsDurable,
    DivergenceIsExact,
    StateMachinesAgree,
)
from orchestrator.invariants.quorum.confirmed import AcknowledgedMetadataStays
from orchestrator.invariants.quorum.descriptions import DescriptionsAreTrue
from orchestrator.invariants.quorum.elections import (
    ControllersActInOffice,
    LeaderCompleteness,
    LeaderHasAMajority,
    LeadersOnlyAppend,
    OnlyVotersStand,
)
from orchestrator.invariants.quorum.leadership import (
    CommittedMetadataStays,
    EpochsNeverGoBack,
    OneDurableVotePerEpoch,
    OneLeaderPerEpoch,
    OwnEpochCommit,
    VotesGoToTheUpToDate,
)
from orchestrator.invariants.quorum.snapshots import SnapshotsAreCommitted
from orchestrator.invariants.quorum.standing import VotersStandInTime
from orchestrator.invariants.quorum.voters import VoterChangesAreSerial
from orchestrator.invariants.quorum.votes import VotesFollowTheRule
from orchestrator.invariants.quorum.waiting_fetches import FetchesWaitForNews
from orchestrator.invariants.tiers.consulted import RemoteStorageIsConsulted
from orchestrator.invariants.tiers.copies import CopiesMakeOneLog, HalfCopiesGoAway
from orchestrator.invariants.tiers.late_answers import LateAnswersKeepTheLimit
from orchestrator.invariants.tiers.log_starts import TieredLogsBeginWhereTheirRecordsDo
from orchestrator.invariants.tiers.lookups import DeadlinesBind, LeavingTheLeaderEndsTheWait, OneAnswerPerQuestion
from orchestrator.invariants.tiers.readers import (
    AFullQueueIsAnError,
    NoWorkIsLeaked,
    ReadersAreFair,
    ReadsHoldNoHandlers,
)
from orchestrator.invariants.tiers.remote_fetches import RemoteFetchesEnd
from orchestrator.invariants.tiers.retention import ExpiredCopiesGoAway
from orchestrator.invariants.transactions.applications import AllOrNothing, EndsAreAsAsked
from orchestrator.invariants.transactions.conservation import NothingIsMadeOrLost
from orchestrator.invariants.transactions.coordinators import DecisionsAreCommittedFirst, StatesFollowTheRule
from orchestrator.invariants.transactions.cycles import InformationFlowsOneWay
from orchestrator.invariants.transactions.exactly_once import ExactlyOnce
from orchestrator.invariants.transactions.initialized import EachProducerHasItsEpoch
from orchestrator.invariants.transactions.markers import MarkersAreAsDecided, WritesAreInOpenTransactions
from orchestrator.invariants.transactions.offsets import OffsetsGoWithTransactions
from orchestrator.invariants.transactions.progress import TransactionsEnd
from orchestrator.invariants.transactions.sends import CommitsCoverTheirSends
from orchestrator.invariants.transactions.unclean import NothingIsLeftOpen
from orchestrator.invariants.transactions.visibility import CommittedAloneIsRead, LastStableOffsetIsRight

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
        DescriptionsAreTrue(),
        FetchesWaitForNews(),
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
        LogStartsAreBelowTheWatermark(),
        HighWatermarksAreSound(),
        CommittedIsNotTruncated(),
        IdempotentWritesAppearOnce(),
        SequencesAreContiguous(),
        OldProducerEpochsAreFenced(),
        MarkersAreAsDecided(),
        CommittedAloneIsRead(),
        LastStableOffsetIsRight(),
        NothingIsLeftOpen(),
        WritesAreInOpenTransactions(),
        DecisionsAreCommittedFirst(),
        OffsetsGoWithTransactions(),
        AcknowledgedIsNotLost(),
        OneOffsetOneValue(),
        DefiniteFailureStaysFailed(),
        ProducerOrderIsKept(),
        ConsumersGoForward(),
        ReadsRepeat(),
        OnlyCommittedIsShown(),
        PayloadsArriveWhole(),
        LatestNeverGoesBack(),
        LatestCoversWhatIsKnown(),
        RealTimeOrder(),
        NewLeaderRefusesUntilCaughtUp(),
        LookupsMeanWhatTheySay(),
        RemoteStorageIsConsulted(),
        LateAnswersKeepTheLimit(),
        EarliestIsTruthful(),
        FetchesAreAnsweredAtOnce(),
        TieredLogsBeginWhereTheirRecordsDo(),
        CommittedLatestIsStable(),
        TruncationIsSignalled(),
        NoSpuriousReset(),
        OnlyDeliveredIsCommitted(),
        CommittedPositionsExist(),
        MemoryEqualsTheLog(),
        PositionsExpireInTime(),
    ]


def _controllers() -> list[ControllerInvariant[Any]]:
    return [
        PartitionStatesMoveForward(),
        IsrChangesAreCompareAndSet(),
        TheDeadAreNotInCharge(),
        ElectionsComeFromTheRightPool(),
        EligibleReplicasAreThoseWhoLeft(),
        SessionsAreHonoured(),
        RegistrationComesFirst(),
        RefusalsHaveACause(),
        ReplicasArePlacedByTurns(),
    ]


def _of_tiers() -> list[AnyFold]:
    return [
        OneAnswerPerQuestion(),
        DeadlinesBind(),
        NoWorkIsLeaked(),
        AFullQueueIsAnError(),
        ReadsHoldNoHandlers(),
        ReadersAreFair(),
        LeavingTheLeaderEndsTheWait(),
        CopiesMakeOneLog(),
        HalfCopiesGoAway(),
        ExpiredCopiesGoAway(),
        RemoteFetchesEnd(),
    ]


def _of_progress() -> list[AnyFold]:
    return [
        CutOffLeadersStepDown(),
        VotersStandInTime(),
        LeaderIsElected(),
        LeaderIsLeftInPeace(),
        PartitionGetsALeader(),
        IsrIsWhole(),
        SendsReturn(),
        ConsumersCatchUp(),
        OperationsReturn(),
        PositionsAreFound(),
        PreferredLeadersComeBack(),
        TransactionsCommit(),
        ImagesGetToTheEnd(),
        BrokerIsUnfenced(),
        VoterChangesEnd(),
        RetriesGetSomewhere(),
        StableOffsetsAdvance(),
        AcknowledgedIsOnAll(),
        Converges(),
        RetentionIsCarriedOut(),
        CopiesSucceed(),
        SegmentsAreRolled(),
        ClientsGetTheCurrentMetadata(),
        CallsEnd(),
    ]


def _keyed() -> list[AnyFold]:
    return [
        *_of_tiers(),
        OneLeaderPerEpoch(),
        OneDurableVotePerEpoch(),
        EpochsNeverGoBack(),
        OneLeaderPerLeaderEpoch(),
        VotesGoToTheUpToDate(),
        JoiningTheIsrIsEarned(),
        ReplicaFetchesAreFenced(),
        RecordsAreDeletedAsAsked(),
        AcksTellTheTruth(),
        ProducesAreAnsweredAtOnce(),
        BrokersAreNotRefused(),
        ClientsAbsorbTheRefusal(),
        OlderMetadataIsNotAdopted(),
        OutdatedMetadataIsRefetched(),
        EpochsAreMintedOnce(),
        ConsumptionWaitsForMetadata(),
        ExternalPositionsWait(),
        RecreatedTopicsAreNew(),
        CommitsGoForwardInMetadataTime(),
        AcknowledgedCommitsAreFetched(),
        StaleMembersCannotCommit(),
        RemovedTopicsAreForgotten(),
        OneOwnerAtATime(),
        GenerationsMoveForward(),
        CoordinatorsWaitAsAsked(),
        HeardMembersStay(),
        AutomaticCommitsAreMade(),
        GroupsGetTogether(),
        AllOrNothing(),
        StatesFollowTheRule(),
        EachProducerHasItsEpoch(),
        EndsAreAsAsked(),
        ExactlyOnce(),
        CommitsCoverTheirSends(),
        InformationFlowsOneWay(),
        NothingIsMadeOrLost(),
        RetriableErrorsAreRetried(),
        TransactionsEnd(),
        OnlyDocumentedErrors(),
        RefusalIsBrief(),
        HighWatermarkFollows(),
        WhoLagsLeavesTheIsr(),
        *_of_progress(),
        PhysicsHold(),
        SameSeedSameRun(),
        NoStorms(),
        RetriesPause(),
        EverythingDrains(),
        NoBug(),
        TraceIsWhole(),
        VersionsAreHonoured(),
    ]


def folds(only: Collection[str] | None = None) -> list[AnyFold]:
    """Fresh folds of all invariants, or of those named.

    Raises ValueError for an id that is not registered.
    """
    if only is not None and (unknown := sorted(set(only) - set(INVARIANTS))):
        raise ValueError(f"no such invariant: {', '.join(unknown)}")

    def wanted(invariant: Invariant) -> bool:
        return only is None or invariant.id in only

    found = [fold for fold in _keyed() if all(wanted(each) for each in fold.invariants)]
    if controllers := [each for each in _controllers() if wanted(each)]:
        found.append(ControllerFold(controllers))
    if metadata := [each for each in _metadata_log() if wanted(each)]:
        found.append(LogFold("metadata-log", METADATA_LOG, QUORUM_LEADERSHIP, metadata))
    if partition := [each for each in _partition_logs() if wanted(each)]:
        found.append(LogFold("partition-logs", PARTITION, LEADERSHIP, partition))
    return found


def _place(invariant: Invariant) -> int:
    assert invariant.id in INVARIANT_IDS, f"chaos.scenario.invariant_ids lacks {invariant.id}"
    return INVARIANT_IDS.index(invariant.id)


def invariants_of(chosen: Sequence[AnyFold]) -> dict[str, Invariant]:
    """Id -> invariant of some folds, by family and number: the quorum first, hygiene last."""
    return {each.id: each for each in sorted((each for fold in chosen for each in fold.invariants), key=_place)}


INVARIANTS: dict[str, Invariant] = {}
"""All of them, in that order."""

INVARIANTS.update(invariants_of(folds()))
assert tuple(INVARIANTS) == INVARIANT_IDS, f"only here, or only below: {sorted({*INVARIANTS} ^ {*INVARIANT_IDS})}"

OVER_RUNS = (NothingVacuous(),)
"""What is judged over many runs by their counts, and not in any of them."""
