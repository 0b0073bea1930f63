"""What a reader must know of a run's cluster to follow its story: who keeps the topics, and who may lead."""

from __future__ import annotations

from collections.abc import Iterator

from actors.node.spec import TopicSpec, split_topic_partition
from chaos.plan import Plan
from chaos.words import some
from orchestrator.story.words import brokers

TOPICS_SHOWN = 3


def setting_of(plan: Plan) -> str:
    """``3 voters, 3 brokers; orders-0 on brokers [1, 2, 3], min.insync.replicas 1; unclean elections off; ELR on``."""
    cluster = plan.cluster
    sizes = f"{some(len(cluster.voters), 'voter')}, {some(len(cluster.brokers), 'broker')}"
    sizes += ", a remote store" if cluster.remote_store else ""
    return "; ".join([sizes, *_topics(plan), *_elections(plan)])


def _topics(plan: Plan) -> Iterator[str]:
    topics = plan.cluster.topics
    for topic in topics[:TOPICS_SHOWN]:
        least = topic.config.get("min.insync.replicas", plan.config["min.insync.replicas"])
        yield f"{_where(topic)}, min.insync.replicas {least}"
    if len(topics) > TOPICS_SHOWN:
        yield some(len(topics) - TOPICS_SHOWN, "other topic")


def min_isr_in(setting: str, tp: str) -> str:
    """min.insync.replicas of a partition's topic in the words of ``setting_of``, "" if they do not have it."""
    topic = split_topic_partition(tp)[0]
    parts = [part for part in setting.split("; ") if part.startswith((f"{topic}-0 ", f"{topic} with "))]
    return parts[0].rpartition(", min.insync.replicas ")[2] if parts else ""


def _where(topic: TopicSpec) -> str:
    if len(topic.replicas) == 1:
        return f"{topic.name}-0 on brokers {brokers(topic.replicas[0])}"
    sizes = sorted({len(replicas) for replicas in topic.replicas})
    return f"{topic.name} with {len(topic.replicas)} partitions of {' or '.join(map(str, sizes))} replicas"


def _elections(plan: Plan) -> Iterator[str]:
    key = "unclean.leader.election.enable"
    allowed = [topic.name for topic in plan.cluster.topics if topic.config.get(key, plan.config[key])]
    every = len(allowed) == len(plan.cluster.topics)
    some_of_them = f"on for {', '.join(allowed)}" if allowed else "off"
    yield f"unclean elections {'on' if every else some_of_them}"
    yield f"ELR {'off' if plan.features['eligible.leader.replicas.version'] == '0' else 'on'}"
