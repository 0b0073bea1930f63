"""M1 and M2: what clients believe of leaders."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import (
    ConsPos,
    CtlFault,
    CtlPhase,
    EpochTold,
    ErrorSeen,
    FetchTold,
    MetaView,
    NodeDown,
    NodeUp,
    PollReturn,
    ReplyPartition,
    Rpc,
    RpcReply,
)
from orchestrator.invariants.folds.conclusion import InvariantResult
from tests.unit.invariants.trace_builder import TP, TraceBuilder

CLIENT = "consumer-1"


class Told:
    """A client that asks for metadata and uses it."""

    def __init__(self, role: str = "consumer", **profile: Any) -> None:
        self.trace = TraceBuilder(**profile)
        self.last = self.trace.emit(CLIENT, NodeUp(role, -1, "", False, False))

    def view(self, leader: int, epoch: int, taken: bool = True, **more: Any) -> str:
        """It is told who leads."""
        body = MetaView("broker-3", {TP: epoch}, [TP] if taken else [], {TP: leader}, **more)
        self.last = self.trace.emit(CLIENT, body)
        return self.last

    def asks(self, broker: int, epoch: int, since: str = "") -> str:
        """A broker answers what it asked in a leader epoch, when its last event was ``since``."""
        told = ReplyPartition(TP, 0, 4, asked_epoch=epoch)
        return self._answered(broker, RpcReply("ListOffsets", 7, CLIENT, "c", 1, -1, 0, 0, [told]), since)

    def names(self, api: str, epoch: int, since: str = "", req: str = "") -> str:
        """Broker-2 tells of a request that names a leader epoch."""
        connection = f"{CLIENT}>broker-2:client"
        body: EpochTold | FetchTold | RpcReply
        if api == "Fetch":
            body = FetchTold(TP, -1, 4, epoch, -1, 6, False, False, 6, 4, 0, 4, connection, 1)
        elif api == "ListOffsets":
            told = ReplyPartition(TP, 0, 4, asked_epoch=epoch)
            body = RpcReply(api, 7, CLIENT, connection, 1, -1, 0, 0, [told])
        else:
            body = EpochTold(TP, -1, 5, epoch, 4, 4, 4)
        return self._answered(2, body, since, req or f"{connection}#1")

    def produces(self, broker: int, error: int, acks: int = -1, req: str = "c#1") -> str:
        """A broker answers a Produce, in a step that was asked for by ``req``."""
        body = RpcReply("Produce", 12, CLIENT, "c", 1, -1, 0, acks, [ReplyPartition(TP, error)])
        return self._answered(broker, body, req=req)

    def _answered(self, broker: int, body: EpochTold | FetchTold | RpcReply, since: str = "", req: str = "c#1") -> str:
        self.trace.cause, self.trace.req = since or self.last, req
        answer = self.trace.emit(f"broker-{broker}", body)
        self.trace.cause, self.trace.req = "", ""
        return answer

    def refreshes(self, took_ms: int = 0, outcome: Any = "answered", broker: int = 3, version: int = 12) -> str:
        """A Metadata request ends."""
        rpc = Rpc("Metadata", version, f"broker-{broker}", "c", 1, outcome, [], took_ms=took_ms)
        return self.trace.emit(CLIENT, rpc)

    def is_refused(self) -> str:
        """A broker says that it does not lead."""
        return self.trace.emit(CLIENT, ErrorSeen(TP, "ListOffsets", 7, 6, "broker-1"))


def test_a_client_that_goes_back() -> None:
    """Shows that an older leader epoch which is taken over violates M1, with both views as evidence; one that is as new
    or newer, or is not taken over, does not."""
    told = Told()
    first = told.view(2, 5)
    told.view(2, 5)
    told.view(3, 6)
    told.view(1, 4, taken=False)
    assert (told.trace.result("M1").status, told.trace.result("M1").tested) == ("held", 3)
    told = Told()
    first = told.view(2, 5)
    second = told.view(1, 4)
    (finding,) = told.trace.result("M1").violations
    assert finding.events == [first, second]
    assert (
        finding.sentence
        == "consumer-1 took over leader epoch 4 of orders-0 from broker-3 although it knew leader epoch 5"
    )


def test_what_a_client_has_heard_of_counts() -> None:
    """Shows that a leader epoch in an answer of another API, or in a hint, is one that the client knows."""
    heard = Told()
    heard.view(2, 5)
    heard.trace.emit(CLIENT, MetaView("broker-2", {TP: 7}, [], source="heard"))
    heard.view(3, 6)
    assert heard.trace.result("M1").violated == 1
    hint = Told()
    hint.view(2, 5)
    hint.view(3, 6, source="hint")
    hint.view(2, 5)
    assert hint.trace.result("M1").violated == 1


def test_what_makes_a_client_forget() -> None:
    """Shows that a leader epoch counts for one topic id, one incarnation, and until an answer tells none; that a topic
    which was missing in between is taken for another one is excused."""
    anew = Told()
    anew.view(2, 5, topic_ids={"orders": "a"})
    anew.view(2, 0, topic_ids={"orders": "b"})
    assert (anew.trace.result("M1").violated, anew.trace.result("M1").excused) == (0, {})
    missing = Told()
    missing.refreshes()
    missing.view(2, 5, topic_ids={"orders": "a"})
    missing.trace.emit(CLIENT, MetaView("broker-3", {}, []))
    missing.view(1, 4, topic_ids={"orders": "a"})
    assert missing.trace.result("M1").excused == {"topic-forgotten": 1}
    old = Told()
    for epoch in (5, -1, 4):
        old.view(2, epoch)
    assert old.trace.result("M1").violated == 0
    again = Told()
    again.view(2, 5)
    again.trace.up(CLIENT, "consumer")
    again.view(1, 4)
    assert again.trace.result("M1").violated == 0


def test_a_topic_is_forgotten_only_if_an_answer_lacked_it() -> None:
    """Shows that a client which takes a topic whose id it was told for another one of that id violates M1, whatever it
    heard in between, and that it is excused if the answer before, or the first one, told no id."""

    def goes_back(*between: MetaView, version: int = 12, first: int = 12, **profile: Any) -> InvariantResult:
        told = Told(**profile)
        told.refreshes(version=first)
        told.view(2, 5, topic_ids={"orders": "a"} if first >= 10 else {})
        for view in between:
            told.refreshes(version=version)
            told.trace.emit(CLIENT, view)
        told.refreshes()
        told.view(1, 4, topic_ids={"orders": "a"})
        return told.trace.result("M1")

    same, refused = MetaView("broker-3", {}, [TP]), MetaView("broker-3", {TP: 4}, [])
    lacks = MetaView("broker-3", {"bills-0": 1}, ["bills-0"])
    heard, hint = (MetaView("broker-2", {TP: 6}, [], source=source) for source in ("heard", "hint"))
    for between in ((), (same,), (refused,), (heard,), (hint,), (lacks, MetaView("broker-3", {TP: 5}, [TP]), same)):
        excused = {"topic-forgotten": 1} if lacks in between else {}
        assert (goes_back(*between).violated, goes_back(*between).excused) == (0 if excused else 1, excused), between
    named = MetaView("broker-3", {TP: 5}, [TP], topic_ids={"orders": "a"})
    assert goes_back(lacks, named).violated == 1
    assert goes_back(lacks).excused == goes_back(same, version=9).excused == {"topic-forgotten": 1}
    assert goes_back(first=9).excused == goes_back(config={"metadata.propagation": "push"}).excused
    assert goes_back(first=9).excused == {"topic-forgotten": 1}


def test_a_client_that_asks_as_if_it_did_not_know() -> None:
    """Shows that questions and fetches in an older leader epoch than the client had then violate M1; what was on its
    way when it took over the newer one does not."""
    told = Told()
    before = told.view(1, 4)
    after = told.view(2, 5)
    told.asks(1, 4, since=before)
    assert told.trace.result("M1").status == "held"
    told.asks(1, 4, since=after)
    assert told.trace.result("M1").violations[0].sentence == (
        "consumer-1 asked broker-1 for offsets of orders-0 in leader epoch 4 although it had taken over leader epoch 5"
    )
    reader = Told()
    reader.view(2, 5)
    reader.trace.polled(CLIENT, (1, "a"), broker=2, epoch=5)
    reader.trace.polled(CLIENT, (2, "b"), broker=1, epoch=4)
    assert reader.trace.result("M1").violations[0].sentence == (
        "consumer-1 fetched orders-0 in leader epoch 4 after it had fetched in 5"
    )


def heard(told: Told, epoch: int, tp: str = TP) -> str:
    """A client hears of a leader epoch alone."""
    told.last = told.trace.emit(CLIENT, MetaView(CLIENT, {tp: epoch}, [], source="heard"))
    return told.last


def test_a_client_that_asks_a_leader_that_it_knows_to_be_outdated() -> None:
    """Shows that who has heard of a newer leader epoch than its metadata has asks nobody, in whatever version, until
    its metadata has caught up; what was on its way when it heard of it does not count."""
    for epoch in (4, -1):
        versions = {"ListOffsets": [0, 7 if epoch >= 0 else 3]}
        told = Told(nodes={CLIENT: {"versions": versions}})
        before = told.view(1, 4)
        since = heard(told, 5)
        told.asks(1, epoch, since=before)
        assert told.trace.result("M1").violated == 0
        told.view(1, 4, taken=False)
        answer = told.asks(1, epoch)
        (finding,) = told.trace.result("M1").violations
        assert finding.events == [since, answer]
        asked = " in leader epoch 4" if epoch == 4 else ""
        assert finding.sentence == (
            f"consumer-1 asked broker-1 for offsets of orders-0{asked} although it had heard of leader epoch 5, and "
            "its metadata had only leader epoch 4"
        )
    caught_up = Told()
    caught_up.view(1, 4)
    heard(caught_up, 5)
    caught_up.view(2, 5)
    caught_up.asks(2, 5)
    result = caught_up.trace.result("M1")
    assert (result.status, result.tested) == ("held", 2)


def test_what_a_client_has_heard_of_is_over() -> None:
    """Shows that a leader epoch which was heard of is forgotten with the client, with an answer that has none, and with
    the topic: a question about a topic that was created again is about a name."""
    again = Told()
    again.view(1, 4)
    heard(again, 5)
    again.trace.up(CLIENT, "consumer")
    again.view(1, 4)
    again.asks(1, 4)
    assert again.trace.result("M1").violated == 0
    old = Told()
    old.view(1, 4)
    heard(old, 5)
    for epoch in (-1, 4):
        old.view(1, epoch)
        old.asks(1, epoch)
    assert old.trace.result("M1").violated == 0
    anew = Told()
    anew.view(1, 4)
    since = heard(anew, 5)
    new = f"{TP}@b"
    anew.trace.emit(CLIENT, MetaView("broker-3", {new: 0}, [new], {new: 1}, topic_ids={"orders": "b"}))
    anew.asks(1, 4, since=since)
    assert anew.trace.result("M1").violated == 0
    told = ReplyPartition(new, 0, 4, asked_epoch=0)
    body = RpcReply("ListOffsets", 7, CLIENT, "c", 1, -1, 0, 0, [told])
    anew.last = anew.trace.emit(CLIENT, MetaView("broker-3", {}, [new]))
    anew._answered(1, body)
    assert anew.trace.result("M1").violated == 0
    heard(anew, 3, new)
    anew._answered(1, body)
    assert anew.trace.result("M1").violated == 1


def test_a_leader_that_was_never_taken_over() -> None:
    """Shows that who asks or fetches from a broker must have taken it over as leader of that leader epoch."""
    told = Told()
    told.view(2, 5)
    told.view(1, 4, taken=False)
    told.asks(2, 5)
    told.trace.polled(CLIENT, (1, "a"), broker=2, epoch=5)
    assert told.trace.result("M2").status == "held"
    told.asks(1, 5)
    assert told.trace.result("M2").violations[0].sentence == (
        "consumer-1 asked broker-1 for offsets of orders-0 in leader epoch 5, although its metadata had the leader "
        "broker-2 in leader epoch 5"
    )
    told.trace.polled(CLIENT, (2, "b"), broker=1, epoch=4)
    assert (
        told.trace.result("M2")
        .violations[1]
        .sentence.endswith("in leader epoch 4, but it knew no leader in that epoch")
    )
    former = Told()
    since = former.view(2, 5)
    former.trace.up(CLIENT, "consumer")
    former.asks(2, 5, since=since)
    assert former.trace.result("M2").violated == 0


def test_a_question_in_the_leader_epoch_of_the_view() -> None:
    """Shows that who asks for offsets does so in the leader epoch that it took over last, in none only where its view
    has none; and what was on its way before."""
    for epoch, asked, violated in ((5, 5, 0), (5, -1, 1), (5, 4, 1), (-1, -1, 0)):
        told = Told()
        told.view(2, 4)
        told.view(2, epoch)
        told.asks(2, asked)
        assert told.trace.result("M2").violated == violated
    late = Told()
    before = late.view(1, 4)
    late.view(2, 5)
    late.asks(1, 4, since=before)
    assert late.trace.result("M2").violated == 0


@pytest.mark.parametrize(
    ("how", "violated"),
    [
        ({"error": 6}, 1),
        ({"error": 0, "acks": 1}, 1),
        ({"error": 0}, 0),
        ({"error": 6, "req": "broker-2>broker-1:fetcher:0.0#7"}, 0),
    ],
)
def test_records_that_go_to_who_leads_not(how: dict[str, Any], violated: int) -> None:
    """Shows that a Produce goes to the leader that its producer knows; what the broker answers later, in the step of
    another request, tells nothing of that."""
    told = Told()
    told.view(1, 4)
    told.view(2, 5)
    told.produces(2, 6)
    assert told.trace.result("M2").violated == 0
    told.produces(1, **how)
    assert told.trace.result("M2").violated == violated
    if violated:
        assert told.trace.result("M2").violations[0].sentence == (
            "consumer-1 sent records of orders-0 to broker-1, although its metadata had the leader broker-2 in leader "
            "epoch 5"
        )


def test_a_hint_that_is_no_news() -> None:
    """Shows that a hint is taken over if it has a newer leader epoch, and only then."""
    told = Told()
    told.view(2, 5)
    told.view(3, 6, source="hint")
    assert told.trace.result("M2").violated == 0
    told.view(2, 6, source="hint")
    assert told.trace.result("M2").violations[0].sentence == (
        "consumer-1 took over leader epoch 6 of orders-0 from a hint of broker-3 although it already knew leader "
        "epoch 6"
    )


def refused(told: Told, leader: int, epoch: int, endpoints: tuple[int, ...] = (), number: int = 7) -> str:
    """Who does not lead names the leader."""
    told.trace.req = f"c#{number}"
    body = ErrorSeen(TP, "Produce", 12, 6, "broker-1", "u", leader, epoch, list(endpoints))
    told.last = told.trace.emit(CLIENT, body)
    return told.last


def knows(epoch: int = 5, **more: Any) -> Told:
    """A client that has the leader of a leader epoch, and knows two brokers."""
    told = Told()
    told.view(1, epoch, brokers=[1, 2], **more)
    return told


def hinted(told: Told) -> tuple[int, list[str]]:
    """What M2 says once the step of the answer is over."""
    told.trace.req = ""
    told.trace.emit(CLIENT, ErrorSeen("", "FindCoordinator", 4, 15, "broker-1"))
    result = told.trace.result("M2")
    return result.violated, [found.sentence for found in result.violations]


@pytest.mark.parametrize("how", ["left", "unread", "another epoch", "another leader", "later"])
def test_a_hint_that_is_left(how: str) -> None:
    """Shows that a client which is refused, and told of a newer leader that it can reach, takes it in that step."""
    told = knows()
    refused(told, 2, 6)
    if how == "left":
        told.view(2, 6, taken=False, source="hint")
    elif how == "another epoch":
        told.view(2, 7, source="hint")
    elif how == "another leader":
        told.view(1, 6, source="hint")
    elif how == "later":
        told.trace.req = "c#8"
        told.view(2, 6, source="hint")
    violated, (sentence,) = hinted(told)
    assert violated == 1
    assert sentence == (
        "consumer-1 did not take the hint that broker-2 leads orders-0 in leader epoch 6, although it knew only "
        "leader epoch 5"
    )


def test_a_hint_that_is_taken() -> None:
    """Shows that it is tested, that other events of the step do not matter, and that the broker is known since."""
    told = knows()
    refused(told, 3, 6, endpoints=(3,))
    told.is_refused()
    told.view(3, 6, source="hint")
    before = told.trace.result("M2").tested
    refused(told, 3, 7, number=8)
    assert hinted(told)[0] == 1
    assert told.trace.result("M2").tested == before + 1


def left(told: Told, leader: int = 2, epoch: int = 6, endpoints: tuple[int, ...] = ()) -> int:
    """Whether a hint that is not taken violates M2."""
    refused(told, leader, epoch, endpoints)
    told.view(leader, epoch, taken=False, source="hint")
    return hinted(told)[0]


def test_the_leader_of_a_hint_is_known() -> None:
    """Shows that a hint at a broker that is neither in the last answer nor in that with the hint is left rightly, until
    an answer has that broker."""
    assert left(knows(), leader=2) == left(knows(), leader=3, endpoints=(3,)) == 1
    assert left(knows(), leader=3) == left(knows(), leader=3, endpoints=(2,)) == 0
    for brokers, violated in (([1, 2, 3], 1), ([1], 0)):
        told = knows()
        told.view(1, 5, brokers=brokers)
        assert left(told, leader=3 if violated else 2) == violated
    told = knows()
    told.view(1, 5)
    assert left(told) == 1


def test_a_hint_is_news() -> None:
    """Shows that a hint at a leader epoch that is not above the newest one is left rightly: one that was taken over,
    heard of alone, or of another topic of that name; and one of who knows no leader epoch."""
    assert left(knows(), epoch=5) == left(knows(6)) == left(knows(-1)) == 0
    for epoch, violated in ((6, 0), (5, 1)):
        told = knows(4)
        told.trace.emit(CLIENT, MetaView("broker-2", {TP: epoch}, [], source="heard"))
        assert left(told) == violated
    told = knows(5)
    told.trace.emit(CLIENT, MetaView("broker-2", {f"{TP}@b": 7}, [f"{TP}@b"], topic_ids={"orders": "b"}))
    assert left(told) == 0
    forgot = knows(5)
    forgot.view(1, -1)
    assert left(forgot) == 0


def test_a_hint_of_a_partition_without_metadata() -> None:
    """Shows that a hint of a partition that the last answer does not have is left rightly; an answer that was refused
    has it if the one before had."""
    told = knows()
    told.trace.emit(CLIENT, MetaView("broker-2", {}, []))
    assert left(told) == 0
    told = knows()
    told.view(1, 4, taken=False)
    assert left(told) == 1
    told = knows()
    told.trace.emit(CLIENT, MetaView("broker-2", {}, []))
    told.view(1, 4, taken=False)
    assert left(told) == 0


def test_a_client_that_dies_with_a_hint() -> None:
    """Shows that a client which ends in the step of the answer need not take a hint, and begins without metadata."""
    told = knows()
    refused(told, 2, 6)
    told.trace.req = ""
    told.trace.emit(CLIENT, NodeDown("crash"))
    told.trace.up(CLIENT, "consumer")
    assert left(told) == 0


def test_an_answer_that_is_as_new() -> None:
    """Shows that a client which does not take over an equal leader epoch violates M2, and that a hint is no answer."""
    told = Told()
    told.view(-1, 5)
    told.view(2, 5, taken=False, source="hint")
    assert told.trace.result("M2").violated == 0
    told.view(2, 5, taken=False)
    assert told.trace.result("M2").violations[0].sentence == (
        "consumer-1 did not take over leader epoch 5 of orders-0 from broker-3 although the newest that it knew was 5"
    )


def test_the_pause_between_refreshes() -> None:
    """Shows that a request which begins before the back-off after the last one violates M2, by the client's clock: if a
    fault changed that, nothing can be said."""

    def asked_again(after_ms: int) -> TraceBuilder:
        told = Told(config={"retry.backoff.ms": 100})
        told.refreshes()
        told.trace.wall += 1000 * (after_ms + 30) - told.trace.apart
        told.refreshes(took_ms=30)
        return told.trace

    assert asked_again(80).result("M2").status == "held"
    (finding,) = asked_again(50).result("M2").violations
    assert finding.sentence == (
        "consumer-1 asked for metadata again 50 ms after the last answer, before the back-off of 80 ms was over"
    )
    told = Told(config={"retry.backoff.ms": 100})
    told.trace.emit("driver", CtlFault("f", "clock-skew", "start", [CLIENT], {}))
    told.refreshes()
    told.refreshes()
    assert told.trace.result("M2").violated == 0


@pytest.mark.parametrize(("last_ms", "violated"), [(320, 0), (310, 1)])
def test_the_pause_between_refreshes_that_fail(last_ms: int, violated: int) -> None:
    """Shows that the pause doubles with each refresh in a row that is not answered, from the second one on."""
    told = Told(config={"retry.backoff.ms": 100})
    for after_ms, outcome in (
        (0, "timeout"),
        (80, "timeout"),
        (160, "disconnect"),
        (last_ms, "answered"),
        (80, "answered"),
    ):
        told.trace.wall += 1000 * after_ms - told.trace.apart
        told.refreshes(outcome=outcome)
    assert told.trace.result("M2").violated == violated


def repeated(views: list[MetaView], last_ms: int, **config: int) -> tuple[int, list[str]]:
    """A client gets answers, each after the shortest pause that Kafka allows, and asks again so much after the last
    one. Returns how often M2 is violated, and how."""
    told = Told(config={"retry.backoff.ms": 100, **config})
    pauses = [80, 80, 160, 320]
    for number, view in enumerate(views):
        told.refreshes()
        told.trace.emit(CLIENT, view)
        told.trace.wall += 1000 * (pauses[number] if number + 1 < len(views) else last_ms) - 2 * told.trace.apart
    told.refreshes()
    result = told.trace.result("M2")
    return result.violated, [found.sentence for found in result.violations]


NEWS = MetaView("broker-3", {TP: 5}, [TP], {TP: 2})
SAME = MetaView("broker-3", {}, [TP])


@pytest.mark.parametrize(("last_ms", "violated"), [(160, 0), (150, 1)])
def test_the_pause_between_refreshes_without_news(last_ms: int, violated: int) -> None:
    """Shows that the pause doubles with each answer in a row that has no news, from the second one on."""
    assert repeated([NEWS, SAME, SAME], last_ms)[0] == violated
    assert repeated([NEWS, SAME], 80)[0] == 0
    if violated:
        (sentence,) = repeated([NEWS, SAME, SAME], last_ms)[1]
        assert sentence == (
            "consumer-1 asked for metadata again 150 ms after the last answer, with 2 answers in a row that brought no "
            "news, before the back-off of 160 ms was over"
        )


@pytest.mark.parametrize(
    ("view", "violated"),
    [
        (MetaView("broker-3", {TP: 6}, [TP], {TP: 2}), 0),
        (MetaView("broker-3", {TP: -1}, [TP], {TP: 2}), 0),
        (MetaView("broker-3", {}, [TP, "orders-1"]), 0),
        (MetaView("broker-3", {}, [TP], topic_ids={"orders": "b"}), 0),
        (MetaView("broker-3", {"orders-0@b": 0}, ["orders-0@b"], {"orders-0@b": 1}), 0),
        (MetaView("broker-3", {TP: 4}, []), 1),
        (MetaView("broker-3", {TP: 5}, [TP], {TP: 3}), 1),
        (MetaView("broker-3", {}, []), 1),
    ],
)
def test_what_is_news(view: MetaView, violated: int) -> None:
    """Shows that a newer leader epoch, none, another topic and a partition that was not known are news; another leader,
    an older leader epoch and a partition that is gone are none."""
    assert repeated([NEWS, SAME, view], 80)[0] == violated


def test_news_that_came_another_way() -> None:
    """Shows that an answer with a leader epoch that the client has heard of, or taken from a hint, brings no news."""
    newer = {TP: 7}
    for other in (
        MetaView("broker-1", newer, [], source="heard"),
        MetaView("broker-1", newer, [TP], {TP: 1}, source="hint"),
    ):
        told = Told(config={"retry.backoff.ms": 100})
        for view in (NEWS, SAME, MetaView("broker-3", newer, [TP], {TP: 1}), SAME):
            told.refreshes()
            told.trace.emit(CLIENT, view)
            if view is SAME:
                told.trace.emit(CLIENT, other)
            told.trace.wall += 100_000
        assert "with 2 answers in a row that brought no news" in told.trace.result("M2").violations[0].sentence, other


@pytest.mark.parametrize(("age_ms", "violated"), [(80, 0), (95, 1)])
def test_metadata_that_is_too_old(age_ms: int, violated: int) -> None:
    """Shows that the pause begins anew once the metadata is too old, and in a new life."""
    assert repeated([NEWS, SAME, SAME], 82, **{"metadata.max.age.ms": age_ms})[0] == violated
    told = Told(config={"retry.backoff.ms": 100})
    for view in (NEWS, SAME, SAME):
        told.refreshes()
        told.trace.emit(CLIENT, view)
        told.trace.wall += 160_000
    told.trace.up(CLIENT, "consumer")
    told.refreshes()
    told.trace.emit(CLIENT, SAME)
    told.trace.wall += 80_000
    told.refreshes()
    assert told.trace.result("M2").violated == 0


def position(epoch: int, reason: Any = "committed", tp: str = TP) -> ConsPos:
    """A consumer takes up a position."""
    return ConsPos(tp, -1, 7, epoch, reason)


HEARD = MetaView("broker-2", {TP: 6}, [], source="heard")


@pytest.mark.parametrize(
    ("then", "violated"),
    [
        ([position(6), HEARD], 0),
        ([position(6, "seek"), HEARD], 0),
        ([position(6), SAME], 1),
        ([position(6, "seek"), ErrorSeen(TP, "ListOffsets", 7, 78, "broker-1"), HEARD], 1),
        ([position(6), MetaView("broker-2", {TP: 7}, [], source="heard")], 1),
        ([position(6), MetaView("broker-2", {TP: 6}, [TP], {TP: 1}, source="hint")], 1),
        ([position(6), NodeDown("crash")], 0),
        ([position(5), SAME], 0),
        ([position(-1), SAME], 0),
        ([position(6, "truncation"), SAME], 0),
        ([position(6, tp="orders-1"), SAME], 0),
        ([MetaView("broker-3", {"orders-0@b": 0}, ["orders-0@b"]), position(6, tp="orders-0@b"), SAME], 0),
        ([HEARD, position(6), SAME], 0),
    ],
)
def test_a_position_with_a_newer_leader_epoch(then: list[Any], violated: int) -> None:
    """Shows that the client hears of a leader epoch that comes with a committed position, or with one that its
    application has kept, if that is newer than the one which it knows, and before anything else."""
    told = Told()
    told.trace.emit(CLIENT, NEWS)
    for body in then:
        told.trace.emit(CLIENT, body)
    result = told.trace.result("M2")
    assert result.violated == violated
    assert not violated or result.violations[0].sentence == (
        "consumer-1 took up a position in orders-0 with leader epoch 6, and did not heed that it knew only leader "
        "epoch 5"
    )


@pytest.mark.parametrize("then", ["nothing", "metadata", "stop", "closed", "silent"])
def test_a_client_that_does_not_look_for_newer_metadata(then: str) -> None:
    """Shows that an error which says that metadata is outdated must lead to a refresh in a window, unless the run comes
    to its end or the window does; one that waits for several silent nodes is excused."""
    told = Told(config={"request.timeout.ms": 1000, "retry.backoff.max.ms": 100, "reconnect.backoff.max.ms": 100})
    told.trace.window("open", CLIENT, "broker-3")
    refused = told.is_refused()
    if then == "metadata":
        told.refreshes()
    elif then == "stop":
        told.trace.emit("driver", CtlPhase("stopping"))
    elif then == "closed":
        told.trace.window("close", CLIENT, "broker-3")
    elif then == "silent":
        told.refreshes(outcome="timeout", broker=1)
        told.trace.wall += 1_000_000
        told.refreshes(outcome="timeout", broker=2)
    told.trace.wall += 300_000_000
    told.trace.window("close", CLIENT, "broker-3")
    result = told.trace.result("M2")
    assert result.violated == (then == "nothing")
    assert result.excused == ({"silent-nodes": 1} if then == "silent" else {})
    if then == "nothing":
        assert result.violations[0].events == [refused]
        assert "found its metadata outdated, and did not refresh it within" in result.violations[0].sentence


def told(trace: TraceBuilder, epoch: int, accepted: bool = True) -> None:
    """The client is told something with a metadata epoch, and takes it over, or leaves it alone."""
    trace.emit(CLIENT, MetaView("broker-1", {}, [], metadata_epoch=epoch, metadata_accepted=accepted))


def test_an_answer_of_an_older_metadata_epoch() -> None:
    """Shows that who takes over an answer whose metadata epoch is below the last one's violates M1, and who leaves
    one alone that is not below it M2; answers without one are taken, and say nothing (KIP-232, Proposed Changes 2)."""
    right = TraceBuilder()
    for epoch, accepted in ((4, True), (3, False), (-1, True), (4, True), (5, True), (4, False)):
        told(right, epoch, accepted)
    assert (right.result("M1").status, right.result("M1").tested) == ("held", 4)
    assert right.result("M2").violated == 0
    back = TraceBuilder()
    told(back, 4)
    told(back, 3)
    assert back.result("M1").violations[0].sentence == (
        f"{CLIENT} accepted metadata epoch 3 from broker-1 although its own metadata had epoch 4"
    )
    stubborn = TraceBuilder()
    told(stubborn, 4)
    told(stubborn, 4, accepted=False)
    assert stubborn.result("M2").violations[0].sentence == (
        f"{CLIENT} did not accept metadata epoch 4 from broker-1 although its own metadata had epoch 4"
    )


AGES = {
    "request.timeout.ms": 1000,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.max.ms": 100,
    "metadata.max.age.ms": 500,
}
DUE_US = 500_000 + 2_000_000 + 2_000_000 + 200_000 + 100_000
"""The age, and M2's bound with the timers above."""


def aged(**more: Any) -> Told:
    """A client in the core has taken an answer over."""
    told = Told(nodes={CLIENT: {"config": AGES}}, **more)
    told.trace.window("open", CLIENT, "broker-1", "broker-2", "broker-3")
    told.refreshes()
    told.view(2, 5)
    return told


def later(told: Told, us: int) -> None:
    """So much later something happens that is about nobody."""
    told.trace.wall += us
    told.trace.emit("driver", CtlPhase("running"))


def test_metadata_that_is_not_refreshed_by_age() -> None:
    """Shows that a client which takes an answer over, and asks no more when that is too old, violates M2; no sooner."""
    told = aged()
    later(told, DUE_US - 100_000)
    assert told.trace.result("M2").violated == 0
    later(told, 200_000)
    (finding,) = told.trace.result("M2").violations
    assert finding.events == [told.last]
    assert finding.sentence == (
        "consumer-1 has had its metadata for 4,800 ms, and did not refresh it within 4.3 s without a fault that could "
        "prevent it, although its metadata.max.age.ms is 500"
    )


def test_metadata_that_is_refreshed_by_age() -> None:
    """Shows that a refresh is a test once the metadata is too old; and that an answer puts the age off, though it is
    not taken over, and none does not."""
    told = aged()
    tested = told.trace.result("M2").tested
    for wait_us, more in ((400_000, 1), (600_000, 2)):
        told.trace.wall += wait_us
        told.refreshes()
        told.view(2, 5)
        tested += more  # one by the pause before it
        assert told.trace.result("M2").tested == tested
    soon_us, late_us = DUE_US - 100_000, DUE_US + 100_000
    for outcome, later_us, violated in (
        *(("answered", soon_us, 0), ("answered", late_us, 1)),
        *(("timeout", soon_us, 1), ("disconnect", soon_us, 1)),
    ):
        told = aged()
        told.trace.wall += 600_000
        told.refreshes(outcome=outcome)
        later(told, later_us)
        assert told.trace.result("M2").violated == violated


@pytest.mark.parametrize(
    ("what", "violated"),
    [("nothing", 1), ("error", 1), ("out", 0), ("closed", 0), ("clock", 0), ("restarted", 0), ("down", 0), ("stop", 0)],
)
def test_who_need_not_refresh_by_age(what: str, violated: int) -> None:
    """Shows that nothing is due outside windows, nor from who is not in the core, has a wrong clock, begins anew, is
    gone or is stopped; and that an error that shows the metadata to be outdated is another obligation, kept too."""
    told = aged()
    if what == "error":
        told.is_refused()
    elif what in ("out", "closed"):
        told.trace.window("close", CLIENT, "broker-1", "broker-2", "broker-3")
        if what == "out":
            told.trace.window("open", "broker-1", "broker-2", "broker-3")
    elif what == "clock":
        told.trace.emit("driver", CtlFault("c", "clock-jump", "start", [CLIENT], {}))
    elif what == "restarted":
        told.trace.up(CLIENT, "consumer")
    elif what == "down":
        told.trace.down(CLIENT)
    elif what == "stop":
        told.trace.emit("driver", CtlPhase("stopping"))
    later(told, 2 * DUE_US)
    found = told.trace.result("M2").violations
    assert any("has had its metadata for" in each.sentence for each in found) == violated


def test_a_window_that_opens_later() -> None:
    """Shows that the bound counts from the window, and that faults on clocks of others change nothing."""
    told = aged()
    told.trace.emit("driver", CtlFault("c", "clock-jump", "start", ["broker-1"], {}))
    core = (CLIENT, "broker-1", "broker-2", "broker-3")
    told.trace.window("close", *core)
    later(told, 2 * DUE_US)
    told.trace.window("open", *core)
    later(told, DUE_US - 600_000)
    assert told.trace.result("M2").violated == 0
    later(told, 200_000)
    assert told.trace.result("M2").violated == 1


@pytest.mark.parametrize(("silent", "asked", "excused"), [(1, 0, 0), (2, 0, 1), (1, 1, 0), (1, 2, 1), (0, 2, 1)])
def test_refreshing_where_brokers_are_silent(silent: int, asked: int, excused: int) -> None:
    """Shows that the bound is for one broker outside the core, whether it was asked or cannot be connected to."""
    told = Told(nodes={CLIENT: {"config": AGES}}, topics={"orders": {"replicas": [[1, 2, 3]], "config": {}}})
    core = [f"broker-{number}" for number in (3, 2, 1)][: 3 - silent]
    told.trace.window("open", CLIENT, *core)
    told.refreshes()
    told.view(2, 5)
    for number in range(asked):
        told.trace.wall += 1_000_000
        told.refreshes(outcome="timeout", broker=1 if number < silent else 7 + number)
    later(told, DUE_US)
    result = told.trace.result("M2")
    assert (result.violated, result.excused) == (1 - excused, {"silent-nodes": 1} if excused else {})


def test_a_client_that_does_not_name_the_leader_epoch_that_it_has() -> None:
    """Shows that a consumer which asks the leader that it has for records, offsets or the end of an epoch without its
    leader epoch violates M1, and that one that names it is tested."""

    def asked(api: str, epoch: int) -> InvariantResult:
        told = Told()
        told.view(2, 5)
        told.names(api, epoch)
        return told.trace.result("M1")

    for api in ("Fetch", "ListOffsets", "OffsetForLeaderEpoch"):
        assert (asked(api, 5).status, asked(api, 5).tested) == ("held", 1), api
        (finding,) = asked(api, -1).violations
        assert finding.sentence == (
            f"consumer-1 named no leader epoch in {api} of orders-0 to broker-2 although it had taken over leader "
            "epoch 5"
        )


def test_who_need_not_name_a_leader_epoch() -> None:
    """Shows that no leader epoch is asked of a client that had none of that leader when it asked, speaks an older
    version, or asks as the admin client does, and none of a Fetch that another request of that client completes."""
    for api in ("Fetch", "ListOffsets", "OffsetForLeaderEpoch"):
        old = Told(nodes={CLIENT: {"versions": {api: [0, 2]}}})
        old.view(2, 5)
        former = Told()
        former.view(2, -1)
        other = Told()
        other.view(3, 5)
        prober = Told(role="list-offsets")
        prober.view(2, 5)
        before = Told()
        since = before.last
        before.view(2, 5)
        before.names(api, -1, since=since)
        for told in (old, former, other, prober):
            told.names(api, -1)
        for told in (old, former, other, prober, before):
            assert (told.trace.result("M1").violated, told.trace.result("M1").tested) == (0, 0), api
    completed = Told()
    completed.view(2, 5)
    completed.names("Fetch", -1, req=f"{CLIENT}>broker-2:client#2")
    assert completed.trace.result("M1").tested == 0


def test_a_fetch_without_a_leader_epoch_that_brings_records() -> None:
    """Shows that records of a Fetch without a leader epoch violate M1 if the consumer had one of that leader when an
    earlier Fetch was answered; not in the first answer, nor in another part of it, nor if an answer told none since."""

    def polled(*requests: int, between: int = 5, version: int = 12) -> InvariantResult:
        told = Told()
        told.view(2, 5)
        for number in requests:
            body = PollReturn(f"op-{number}", "ok", 0, TP, 4, 0, -1, "broker-2", version)
            told.trace.req = f"{CLIENT}>broker-2:client#{number}"
            told.trace.emit(CLIENT, body)
            told.trace.req = ""
            told.view(2, between)
        return told.trace.result("M1")

    assert polled(1, 2).violations[0].sentence == (
        "consumer-1 named no leader epoch in Fetch of orders-0 to broker-2 although it had taken over leader epoch 5"
    )
    for result in (polled(1), polled(1, 1), polled(1, 2, between=-1), polled(1, 2, version=8)):
        assert result.violated == 0
