"""The switches of the emulated improvement proposals and of Kafka's own features."""

from __future__ import annotations

import msgspec


class Feature(msgspec.Struct, frozen=True):
    """A switch: its values (weakest protection first), default, and one line on what it does."""

    name: str
    values: tuple[str, ...]
    default: str
    about: str


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature(
            "kip-207",
            ("off", "seed", "kafka"),
            "kafka",
            "A new leader refuses ListOffsets until its high watermark reached the log end it started with. "
            "seed: every timestamp, and not where unclean election is enabled; kafka: as shipped.",
        ),
        Feature(
            "eligible.leader.replicas.version",
            ("0", "1"),
            "1",
            "Kafka's own (KIP-966). 1: who leaves an ISR below `min.insync.replicas` stays eligible to lead, and the "
            "ISR may become empty; 0: its last member never leaves it.",
        ),
        Feature(
            "kip-595.leader-progress",
            ("off", "kafka"),
            "kafka",
            "A quorum leader that a majority stopped fetching from resigns (check quorum).",
        ),
        Feature(
            "kip-595.own-epoch-commit",
            ("off", "kafka"),
            "kafka",
            "A quorum leader's high watermark moves only past an entry of its own epoch.",
        ),
        Feature(
            "kip-996",
            ("off", "kafka"),
            "kafka",
            "PreVote: a voter asks whether it could win before it raises its epoch.",
        ),
    )
}


def default_features() -> dict[str, str]:
    """Every switch at its default."""
    return {feature.name: feature.default for feature in FEATURES.values()}
