"""Events in words that are met as evidence alone."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import (
    AnyTraceEvent,
    ClockSet,
    CtlFault,
    EpochTold,
    FetchRefused,
    FetchTold,
    InitReturn,
    Kept,
    LinkHit,
    LinkRuleChange,
    LogFlush,
    LogTrunc,
    MetaState,
    MetaView,
    PartStop,
    QClean,
    QEnd,
    QFreeze,
    QHeard,
    QPersist,
    QRefuse,
    QSnap,
    QWaited,
    RepTruncate,
    RpcQuiet,
    RunEnd,
    RunMeta,
    StoreRuleChange,
    Tick,
    Waited,
)
from actors.trace.run_events import DiskRuleChange
from orchestrator.story.events_in_words import WORDS, has_words, in_words
from orchestrator.story.evidence_words import OF_EVIDENCE
from tests.unit.story.stage import Stage

BY_ITS_FIELDS = {RunMeta, RunEnd, Tick, RpcQuiet, LinkHit, LinkRuleChange, DiskRuleChange, StoreRuleChange}
"""Events of the runtime, which prove nothing about Kafka."""


def _told(body: Any) -> str:
    trace = Stage()
    trace.emit("broker-1", body)
    return in_words(trace.events[-1])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            RepTruncate("orders-0", "high-watermark", 1, -1, -1, 23, 22, 0),
            (
                "compared its log of orders-0 with its leader's (high-watermark): the leader named no epoch; log end "
                "23 before, 22 after"
            ),
        ),
        (
            FetchTold("orders-0", -1, 5, 1, -1, int(KafkaError.OFFSET_OUT_OF_RANGE), True, True, 1, 4, 2, 6),
            (
                "answers the Fetch of a consumer at 5 of orders-0 at its timeout with OFFSET_OUT_OF_RANGE (log 2 to 6, "
                "high "
                "watermark 4)"
            ),
        ),
        (
            FetchRefused("consumer-1>broker-1:client:0.0", 7, int(KafkaError.INVALID_FETCH_SESSION_EPOCH)),
            "refuses a Fetch as a whole with INVALID_FETCH_SESSION_EPOCH, by its session",
        ),
        (
            EpochTold("orders-0", 2, 5, -1, 3, -1, -1),
            "answers broker-2, which asked for the end of leader epoch 3 of orders-0: it does not know that epoch",
        ),
        (
            MetaView("broker-2", {"orders-0": 4, "orders-1": 2}, ["orders-0"], {"orders-0": 3}),
            "learns from broker-2: broker-3 leads orders-0 in leader epoch 4, orders-1 in leader epoch 2 (ignored)",
        ),
        (QPersist("d", 3, -1, 2), "stores quorum epoch 3 with no leader and a vote for broker-2"),
        (QSnap("d", "create", 118, 2), "makes a snapshot of the metadata log up to 118"),
        (
            QClean(0, 118, 118, 0, 900, 200, [Kept(40, 100, 0, 300), Kept(118, 100, 0, 900)]),
            "looks which of its snapshots of the metadata log are to go; the oldest ends at 40",
        ),
        (QFreeze("create", 118), "begins to write a snapshot of the metadata log up to 118"),
        (
            QWaited("expired", [Waited(2, 1, 118, 117, 118, 117)]),
            "answers the Fetch of the metadata log that waited, of broker-2, as its time is over",
        ),
        (
            QWaited("append", [Waited(2, 1, 118, 117, 118, 117), Waited(-1, 1, 118, 117, 118, 117)]),
            "answers the Fetches of the metadata log that waited, of broker-2, a client, with what it appends",
        ),
        (PartStop("orders-0"), "stops its replica of orders-0, whose topic is gone"),
        (QEnd(101, 3, [102], [""]), "hears that controller-1 does not lead epoch 3 any more"),
        (QHeard(101, 3), "gets an answer that controller-1 had sent before it resigned"),
        (QRefuse("Vote", 3, 74), "refuses a Vote in quorum epoch 3 with FENCED_LEADER_EPOCH"),
        (MetaState("load", 118), "has applied the metadata log up to 118 (from a snapshot)"),
        (LogFlush("orders-0", 1310), "has its log of orders-0 on disk up to 1,310"),
        (ClockSet("f1", "start", -2_500_000, 100), "has a clock with an offset of -2.5 s and a rate of +100 ppm"),
        (InitReturn("o", "ok", 0, "app", 7, 1), "producer id 7, epoch 1, for app"),
        (
            InitReturn("o", "fail", int(KafkaError.NOT_COORDINATOR), "app"),
            "fails: producer id -1, epoch -1, for app (NOT_COORDINATOR, fail)",
        ),
    ],
)
def test_evidence_in_words(body: Any, says: str) -> None:
    """Shows what each event says, after the name of the node that recorded it."""
    assert _told(body) == f"broker-1 {says}"


def test_evidence_is_no_story() -> None:
    """Shows that such words do not bring an event into the path to a violation."""
    trace = Stage()
    trace.emit("broker-1", LogFlush("orders-0", 1))
    assert not has_words(trace.events[-1])


def _types(kind: Any) -> set[Any]:
    parts = get_args(kind)
    return {each for part in parts for each in _types(part)} if parts else {kind}


def test_every_event_has_words() -> None:
    """Shows that no event that may prove something is told by its fields alone."""
    assert _types(AnyTraceEvent) - WORDS.keys() - OF_EVIDENCE.keys() == BY_ITS_FIELDS | {CtlFault, LogTrunc}
