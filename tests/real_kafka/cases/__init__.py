"""The script: sections of questions in the order in which they are asked of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.real_kafka.cases import (
    acks,
    administration,
    brokers_refused,
    elections,
    epochs,
    idempotence,
    kip_207,
    list_offsets,
    oddities,
    quorum,
    refusals,
    requests_refused,
    sessions,
)
from tests.real_kafka.cluster import Cluster, Topic
from tests.real_kafka.outcomes import Outcomes


@dataclass(frozen=True)
class Section:
    """Questions on one subject, and the topics that they need."""

    topics: dict[str, Topic]
    ask: Callable[[Cluster, Outcomes], None]


SECTIONS: dict[str, Section] = {
    "acks": Section(acks.TOPICS, acks.ask),
    "kip-207": Section(kip_207.TOPICS, kip_207.ask),
    "idempotence": Section(idempotence.TOPICS, idempotence.ask),
    "epochs": Section(epochs.TOPICS, epochs.ask),
    "sessions": Section(sessions.TOPICS, sessions.ask),
    "elections": Section(elections.TOPICS, elections.ask),
    "refusals": Section(refusals.TOPICS, refusals.ask),
    "requests": Section(requests_refused.TOPICS, requests_refused.ask),
    "list-offsets": Section(list_offsets.TOPICS, list_offsets.ask),
    "administration": Section(administration.TOPICS, administration.ask),
    "brokers": Section(brokers_refused.TOPICS, brokers_refused.ask),
    "oddities": Section(oddities.TOPICS, oddities.ask),
    "quorum": Section({}, quorum.ask),
}


def run_section(name: str, cluster: Cluster) -> dict[str, str]:
    """The outcomes of one section."""
    section = SECTIONS[name]
    outcomes = Outcomes(name)
    cluster.begin(section.topics)
    section.ask(cluster, outcomes)
    return outcomes.told
