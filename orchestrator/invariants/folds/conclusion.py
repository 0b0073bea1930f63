"""From what the folds found at each key to one result per invariant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from actors.trace.events import EVENT_TYPES
from chaos.words import times
from orchestrator.invariants.folds.fold import CANNOT_TELL, TOO_SHORT, Finding, Invariant, Profile, Status

KEPT = 10
"""Findings of one invariant and status, of different sentences, that a key keeps in full; the others are counted."""


class KeyResult(msgspec.Struct):
    """What one fold found at one key about one invariant.

    tested: how often. counts: "violated", "violated/<finding>", "inconclusive", "excused/<rule>" and "regained/<rule>"
    -> how many.
    findings: the first of each.
    """

    invariant: str
    key: str
    tested: int = 0
    counts: dict[str, int] = {}
    findings: list[Finding] = []


class InvariantResult(msgspec.Struct):
    """The verdict on one invariant.

    tested: how often it was really put to the test. excused: rule -> how often. why: what makes it vacuous or
    inconclusive, else "". violated: number of violations, of which ``violations`` has the first of each key. regained:
    rule -> how often what was missing by it is there again at the end, of which ``returns`` has some. losses: how many
    records were gone by which event.
    """

    id: str
    title: str
    status: Status
    tested: int
    why: str = ""
    violated: int = 0
    violations: list[Finding] = []
    excused: dict[str, int] = {}
    excuses: list[Finding] = []
    doubts: list[Finding] = []
    regained: dict[str, int] = {}
    returns: list[Finding] = []
    losses: list[Finding] = []


def count(result: KeyResult, finding: Finding, at_us: int = -1) -> None:
    """Enter a finding that was found at ``at_us``, unless it says itself when. One whose sentence is known already
    raises that finding's ``times``."""
    name = _counter(finding)
    result.counts[name] = result.counts.get(name, 0) + 1
    alike = 0
    for index, kept in enumerate(result.findings):
        if _counter(kept) == name:
            if kept.sentence == finding.sentence and kept.clouds == finding.clouds:
                result.findings[index] = msgspec.structs.replace(kept, times=kept.times + 1)
                return
            alike += 1
    if alike < KEPT:
        when = at_us if finding.at_us < 0 else finding.at_us
        result.findings.append(msgspec.structs.replace(finding, at_us=when))


def _counter(finding: Finding) -> str:
    """Of violations those that are a finding about Kafka itself apart, of doubts what the source cannot tell:
    they must not take one another's place."""
    apart = finding.rule and (finding.status != "inconclusive" or finding.rule == CANNOT_TELL)
    return f"{finding.status}/{finding.rule}" if apart else finding.status


def conclude(
    invariants: Mapping[str, Invariant], results: Iterable[KeyResult], profile: Profile
) -> list[InvariantResult]:
    """One result per invariant, in the order of ``invariants``.

    A gap in the trace makes inconclusive whatever was judged on the kinds of event that may be missing, unless each
    event is judged by itself; what seemed violated is still listed. So does ghost data that the source cannot tell.
    """
    by_id: dict[str, list[KeyResult]] = {name: [] for name in invariants}
    for result in results:
        by_id[result.invariant].append(result)
    clouds: dict[str, str] = {}
    whole = by_id.get("X4", [])
    if whole and not any(result.key == "driver" and result.tested for result in whole):
        # Without run.meta nobody knows how the cluster was set up, nor who is missing.
        clouds = dict.fromkeys(EVENT_TYPES, "it has nothing of who drove the run")
    for result in sorted(whole, key=_key):
        for finding in result.findings:
            for kind in finding.clouds:
                clouds.setdefault(kind, finding.sentence)
    return [_conclude(invariant, by_id[name], profile, clouds) for name, invariant in invariants.items()]


def _conclude(
    invariant: Invariant, results: Sequence[KeyResult], profile: Profile, clouds: Mapping[str, str]
) -> InvariantResult:
    if why := unconcerned(invariant, profile):
        return InvariantResult(invariant.id, invariant.title, "vacuous", 0, why=why)
    merged = InvariantResult(invariant.id, invariant.title, "vacuous", sum(result.tested for result in results))
    too_short = ""
    for result in sorted(results, key=_key):
        for name, number in result.counts.items():
            if name == "violated" or name.startswith("violated/"):
                merged.violated += number
            if name.startswith("excused/"):
                rule = name.removeprefix("excused/")
                merged.excused[rule] = merged.excused.get(rule, 0) + number
            if name.startswith("regained/"):
                rule = name.removeprefix("regained/")
                merged.regained[rule] = merged.regained.get(rule, 0) + number
        for finding in result.findings:
            if finding.status == "violated":
                merged.violations.append(finding)
            elif finding.status == "excused":
                merged.excuses.append(finding)
            elif finding.status == "regained":
                merged.returns.append(finding)
            elif finding.status == "lost":
                merged.losses.append(finding)
            elif finding.rule == TOO_SHORT:
                too_short = too_short or finding.sentence
            else:
                merged.doubts.append(finding)
    merged.violations.sort(key=lambda finding: finding.at_us)
    merged.losses.sort(key=lambda finding: finding.at_us)
    merged.status, merged.why = _status(invariant, merged, clouds)
    if merged.status == "vacuous" and too_short:
        merged.why = too_short
    return merged


def _status(invariant: Invariant, merged: InvariantResult, clouds: Mapping[str, str]) -> tuple[Status, str]:
    blind = next((doubt for doubt in merged.doubts if doubt.rule == CANNOT_TELL), None)
    if blind is not None:
        return "inconclusive", blind.sentence
    gap = next((clouds[kind] for kind in event_tags(invariant) if kind in clouds), "")
    if merged.violated and (invariant.standalone or not gap):
        return "violated", ""
    if gap and gap not in [doubt.sentence for doubt in merged.doubts]:
        return "inconclusive", f"a gap in the trace: {gap}"
    if merged.doubts:
        return "inconclusive", merged.doubts[0].sentence
    gave_way = {rule: number for rule, number in merged.excused.items() if rule not in invariant.not_promised}
    if merged.tested and not gave_way:
        return "held", ""
    if merged.excused:
        only = "" if merged.tested else "nothing but "
        rules = (f"{rule} ({times(number)})" for rule, number in sorted((gave_way or merged.excused).items()))
        return "excused", f"{only}{', '.join(rules)}"
    return "vacuous", "nothing in this run tested it"


def event_tags(invariant: Invariant) -> list[str]:
    """Type names of the events that an invariant's judgement rests on."""
    return [str(kind.__struct_config__.tag) for kind in invariant.depends_on]


def unconcerned(invariant: Invariant, profile: Profile) -> str:
    """Why a run does not concern an invariant, by how it was set up; "" if it does."""
    for name in invariant.requires:
        if is_off(profile, name):
            return f"{name} is off"
    for name, value in invariant.at.items():
        if value not in _values(profile, name):
            return f"{name} is not {value}"
    if invariant.of_groups and not profile.groups:
        return "no consumer has a group"
    # A profile that does not know its clients does not say that none of them has transactions.
    if invariant.of_transactions and profile.nodes and not profile.transactional:
        return "no client has transactions"
    return ""


def lacking(invariant: Invariant) -> str:
    """What a run lacks that does not concern an invariant: at least one of these."""
    features = [f"{name} is off" for name in invariant.requires]
    features += [f"{name} is not {value}" for name, value in invariant.at.items()]
    clients = ["no consumer has a group"] if invariant.of_groups else []
    clients += ["no client has transactions"] if invariant.of_transactions else []
    return " or ".join([*features, *clients])


def is_off(profile: Profile, feature: str) -> bool:
    """Whether a feature is off on every node that the run says anything about."""
    return all(value == "off" for value in _values(profile, feature))


def _values(profile: Profile, feature: str) -> list[str]:
    """Values of a feature on every node that the run says anything about."""
    values = [profile.feature(feature), *(profile.feature(feature, node) for node in profile.nodes)]
    return values + profile.bounced.get(feature, [])


def _key(result: KeyResult) -> str:
    return result.key
