"""The rounds of a soak: one schedule after the other, without end, for one cluster that lives on.

A nemesis draws another schedule for each round, a scenario has the same one each time. What a schedule does must be
over when its round is: who votes, which topics there are and what nodes are set to stays as it was in the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.config import CONFIG, setting
from actors.config_of_logs import LOG_KEYS
from chaos.errors import InputError, Mistake
from chaos.faults.operator import VoterChange
from chaos.faults.topics import TopicAction
from chaos.plan import Plan, ScheduledFault
from chaos.scenario.resolve import resolve, with_operator
from chaos.sources import Source

LASTING = (TopicAction, VoterChange)
"""Actions whose effect stays."""
METADATA_KEYS = (
    "metadata.log.max.record.bytes.between.snapshots",
    "metadata.log.max.snapshot.interval.ms",
    "metadata.max.retention.bytes",
    "metadata.max.retention.ms",
)
SEGMENTS = 10
"""So many segments of a log are full in the time for which it is to be kept."""


def kept_for(plan: Plan, retention_us: int) -> list[str]:
    """Settings with which nodes keep records so long, as KEY=VALUE: those of topics, and those of the metadata log,
    which lose their oldest ones to a snapshot. None of either that the plan sets otherwise than Kafka, and none at all
    if the time is 0."""
    if not retention_us:
        return []
    configs = [plan.config, *(topic.config for topic in plan.cluster.topics)]
    retention_ms = retention_us // 1000
    times: dict[str, int] = {}
    if all(setting(each, key.name) == key.default for each in configs for key in LOG_KEYS):
        often_ms = max(retention_ms // SEGMENTS, 1)
        times = {"log.retention.ms": retention_ms, "log.roll.ms": often_ms, "log.retention.check.interval.ms": often_ms}
    if all(setting(plan.config, key) == CONFIG[key].default for key in METADATA_KEYS):
        times |= {"metadata.log.max.snapshot.interval.ms": retention_ms, "metadata.max.retention.ms": retention_ms}
    return [f"config.{key}={value}" for key, value in times.items()]


class Round(msgspec.Struct, frozen=True):
    """One round. ``plan``: the same schedule as a run of its own, from the same cluster in its beginning. ``schedule``:
    with ids that no other round has."""

    number: int
    plan: Plan
    schedule: list[ScheduledFault]


class Rounds:
    """``plan``: of the cluster, with the schedule of round 0. Raises InputError for what cannot be repeated."""

    def __init__(
        self, source: Source, seed: int, variant: str = "", settings: Sequence[str] = (), defects: Sequence[str] = ()
    ) -> None:
        self._source = source
        self._seed = seed
        self._variant = variant
        self._settings = settings
        self._defects = defects
        self.plan = self.round(0).plan

    def round(self, number: int) -> Round:
        """One of them; always the same one for a number."""
        if self._source.nemesis is not None:
            loaded = self._source.nemesis.drawn(self._seed, number)
        else:
            loaded = self._source.loaded(self._seed)
        plan = with_operator(resolve(loaded, self._variant, self._seed, self._settings, self._defects))
        self._check(plan)
        schedule = [msgspec.structs.replace(each, id=f"r{number}.{each.id}") for each in plan.schedule]
        return Round(number, plan, schedule)

    def _check(self, plan: Plan) -> None:
        wrong = [each for each in plan.schedule if isinstance(each.fault, LASTING) or _reconfigures(each)]
        mistakes = [
            Mistake(
                self._source.word,
                0,
                f"chaos: {each.id}",
                f"{each.fault.kind} changes the cluster for good, and a soak has it in each round",
                "a schedule that leaves topics, voters and settings as they are",
            )
            for each in wrong
        ]
        if plan.core is not None:
            problem, expected = "some faults are never healed", "no heal: a soak heals everybody after each round"
            mistakes.append(Mistake(self._source.word, 0, "heal", problem, expected))
        if mistakes:
            raise InputError(mistakes)


def _reconfigures(scheduled: ScheduledFault) -> bool:
    settings = scheduled.fault.new_settings
    return settings is not None and bool(settings.features or settings.versions or settings.config)
