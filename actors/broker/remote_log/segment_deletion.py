"""Deleting a copied segment: its metadata say so first, then its objects go, then its metadata
(``RemoteLogManager.deleteRemoteLogSegment``)."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.broker.partition import Partition
from actors.broker.remote_log.remote_log_metadata import RemoteLogMetadataManager
from actors.broker.remote_log.segment_metadata import SegmentMetadata, SegmentState
from actors.broker.remote_log.store_calls import StoreCall
from actors.broker.remote_log.tracing import TierPhase, record_segment
from actors.broker.turn import Turn
from krift.v1.remote_storage import DeleteLogSegmentDataRequest, ListLogSegmentsRequest, ListLogSegmentsResponse

Step = Literal["publish-started", "delete", "list", "publish-finished"]


class SegmentDeletion(msgspec.Struct):
    """at: what is under way; publication: its number, if it is one. Where something fails, the segment stays as its
    metadata have it, and whoever looks for expired segments deletes it later."""

    metadata: SegmentMetadata
    at: Step = "publish-started"
    publication: int = 0

    def advance(
        self, turn: Turn, partition: Partition, store: StoreCall, manager: RemoteLogMetadataManager, purpose: str
    ) -> bool | None:
        """Go on as far as possible; True: it is deleted, False: something failed, None: it is under way."""
        last: Step = "list" if "deletion-end-untold" in turn.step.defects else "publish-finished"
        while True:
            done = self._carry_on(turn, partition, store, manager, purpose)
            if done is None:
                return None
            if not done or self.at == last:
                phase: TierPhase = "deleted" if done else "delete-failed"
                record_segment(turn, partition, self.metadata, phase)
                return done
            steps: dict[Step, Step] = {"publish-started": "delete", "delete": "list", "list": "publish-finished"}
            self.at, self.publication = steps[self.at], 0

    def _carry_on(
        self, turn: Turn, partition: Partition, store: StoreCall, manager: RemoteLogMetadataManager, purpose: str
    ) -> bool | None:
        if self.at in ("publish-started", "publish-finished"):
            return self._published(turn, partition, manager)
        if "deletes-metadata-alone" in turn.step.defects:
            return True
        segment = self.metadata.id
        if store.request is None:
            if self.at == "delete":
                store.ask(DeleteLogSegmentDataRequest(segment=segment))
            else:
                store.ask(
                    ListLogSegmentsRequest(
                        topic_id=segment.topic_id, partition=segment.partition, segment_id=segment.segment_id
                    )
                )
        if not store.advance(turn, purpose):
            return None
        response = store.take()
        if isinstance(response, ListLogSegmentsResponse):
            # Of a list that lags the store may have deleted too little.
            return not response.objects
        return response is not None

    def _published(self, turn: Turn, partition: Partition, manager: RemoteLogMetadataManager) -> bool | None:
        if not self.publication:
            started = self.at == "publish-started"
            if started:
                record_segment(turn, partition, self.metadata, "deleting")
            state = SegmentState.DELETE_SEGMENT_STARTED if started else SegmentState.DELETE_SEGMENT_FINISHED
            self.publication = manager.update(turn, partition, self.metadata, state)
        outcome = manager.outcome(turn, self.publication)
        return None if outcome is None else outcome == "published"
