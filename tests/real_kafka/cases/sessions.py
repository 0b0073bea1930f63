"""Fetch sessions of a consumer (KIP-227)."""

from __future__ import annotations

from typing import Any

from tests.real_kafka.cluster import Cluster, Connection, Topic
from tests.real_kafka.outcomes import Outcomes
from tests.real_kafka.requests import batch, error, fetch_session, fetched_topic, metadata, produce

NAME = "sessions"
TOPICS = {NAME: Topic([[1, 2, 3]])}


def ask(cluster: Cluster, outcomes: Outcomes) -> None:
    """By names and by ids."""
    leader = cluster.connect(1)
    produce(leader, NAME, batch("a"))
    outcomes.say("of an unknown session", error(_next(leader, 99, 3).error_code))
    session = _ask_by_name(leader, outcomes)
    outcomes.say("after it was closed", error(_next(leader, session, 2).error_code))
    topic_id = metadata(leader, NAME).topics[0].topic_id
    answer = fetch_session(leader, [fetched_topic(topic_id, 0, 0, 13, -1, -1)], version=13, session_epoch=0)
    outcomes.say("new session by ids", f"{error(answer.error_code)} {answer.session_id != 0} n={len(answer.responses)}")
    mixed = _next(leader, answer.session_id, 1, [fetched_topic(NAME, 1, 0, 12, -1, -1)])
    outcomes.say("its next request by names", error(mixed.error_code))


def _next(leader: Connection, session: int, epoch: int, topics: list[Any] | None = None, version: int = 12) -> Any:
    return fetch_session(leader, topics or [], version=version, session=session, session_epoch=epoch)


def _ask_by_name(leader: Connection, outcomes: Outcomes) -> int:
    wanted = [fetched_topic(NAME, 0, 0, 12, -1, -1)]
    answer = fetch_session(leader, wanted, session_epoch=0)
    outcomes.say("new session", f"{error(answer.error_code)} {answer.session_id != 0} n={len(answer.responses)}")
    session = int(answer.session_id)
    answer = _next(leader, session, 1)
    outcomes.say("its epoch 1", f"{error(answer.error_code)} n={len(answer.responses)}")
    answer = _next(leader, session, 1)
    outcomes.say("its epoch 1 again", f"{error(answer.error_code)} n={len(answer.responses)}")
    answer = _next(leader, session, 5)
    outcomes.say("its epoch 5 too early", f"{error(answer.error_code)} n={len(answer.responses)}")
    answer = _next(leader, session, -1, wanted)
    outcomes.say("read and close", f"{error(answer.error_code)} id={answer.session_id} n={len(answer.responses)}")
    return session
