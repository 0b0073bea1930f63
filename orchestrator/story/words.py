"""Events of the trace in words, for readers who do not know the trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from actors.trace.events import BrokerReg, CtlFault, IsrPropose, LogTrunc, PartAssume, PartChange
from chaos.scenario.durations import format_chance, format_duration
from chaos.words import some

CAUSES = {
    "elect": "a clean election",
    "preferred": "an election of the preferred leader",
    "fence": "a broker is fenced",
    "unfence": "a broker is unfenced",
    "controlled-shutdown": "a broker shuts down",
    "unclean-shutdown": "a broker comes back from an unclean shutdown",
    "config": "the configuration changed",
    "alter-isr": "the leader asked for this ISR",
    "unclean": "an UNCLEAN election",
}
"""Cause of a change of a partition, as the trace has it -> in words."""


CERTAIN = 1_000_000
"""Chance of what is always hit, in parts per million."""

NAMES_SHOWN = 4
"""Of more nodes than these the last are counted."""


def clock(us: int) -> str:
    """``8.214``: seconds, never less than nothing by less than a thousandth."""
    return f"{round(us / 1_000_000, 3) + 0.0:.3f}"


def seconds(us: int) -> str:
    """``8.214 s``."""
    return f"{clock(us)} s"


def listed(names: Sequence[str], clauses: bool = False) -> str:
    """``broker-1, broker-2``; of many the first, and how many more there are. clauses: they have commas themselves."""
    shown = list(dict.fromkeys(names))
    between, last = (", and ", ", and ") if clauses else (", ", " and ")
    if len(shown) <= NAMES_SHOWN:
        return between.join(shown)
    return f"{between.join(shown[: NAMES_SHOWN - 1])}{last}{len(shown) - NAMES_SHOWN + 1} more"


def brokers(ids: list[int]) -> str:
    """``[1, 2]``: ids, which a reader does not take for a number of brokers."""
    return f"[{', '.join(map(str, ids))}]"


def fault_words(body: CtlFault, everybody: Collection[str] = ()) -> str:
    """A fault with whom it hits: ``f1 partition between broker-1 and broker-2, broker-3``. ``everybody``: all nodes."""
    given: dict[str, Any] = body.parameters
    if body.by_machine:
        return f"{body.fault}: the machine gives too little time to {listed(body.targets)}"
    if "from" in given and "to" in given:
        one, other = listed(given["from"]), listed(given["to"])
        if everybody and len(given["to"]) > 1 and set(everybody) <= {*given["from"], *given["to"]}:
            other = "all other nodes"
        if given.get("both_ways", False):
            return f"{body.fault} {body.kind} between {one} and {other}"
        return f"{body.fault} {body.kind} from {one} to {other} (one way)"
    return f"{body.fault} {body.kind} of {listed(body.targets)}{_how(given)}"


def _how(given: dict[str, Any]) -> str:
    """How slow a fault makes its target, which APIs it hits, and how often: `` for FetchIndex by 3s to 4s, 30%``."""
    low_us, high_us = given.get("delay_min_us", 0), given.get("delay_max_us", 0)
    apis = f" for {listed(given['apis'])}" if given.get("apis") else ""
    longest = f" to {format_duration(high_us)}" if high_us > low_us else ""
    delay = f" by {format_duration(low_us)}{longest}" if high_us else ""
    chance_ppm = given.get("chance_ppm", CERTAIN)
    return f"{apis}{delay}" + (f", {format_chance(chance_ppm)}" if chance_ppm < CERTAIN else "")


def succession(before: PartChange, now: PartChange, asked: IsrPropose | None = None) -> tuple[bool, str]:
    """Whether a partition has another leader, or leader epoch, and what changed, with {} for the partition; "" if
    nothing that a reader would look for did. ``asked``: what its leader proposed last."""
    why, reason = _why(before, now), ""
    if now.cause != "alter-isr":
        reason = f" ({why})"
    elif asked is not None and asked.isr == now.isr:
        reason = lag(asked)
    isr = f"ISR {brokers(now.isr)}"
    if now.cause == "unclean" and now.leader >= 0:
        by = "that an operator asked for" if now.asked else "by the controller"
        last = ", the last known leader," if now.leader in before.last_known_elr else ""
        leads = f"broker-{now.leader}{last} leads in leader epoch {now.leader_epoch}, {isr}"
        return True, f"{{}}: UNCLEAN election {by}: {leads}"
    if now.leader != before.leader:
        if now.leader < 0:
            return True, f"no leader any more for {{}} ({why}), {isr}"
        origin = " from the ELR" if now.leader in before.elr and now.leader not in before.isr else ""
        if is_from_outside(before, now):
            origin = f", although it is outside the ISR {brokers(before.isr)},"
        return True, f"{{}}: broker-{now.leader} is elected{origin} in leader epoch {now.leader_epoch} ({why}), {isr}"
    if now.leader_epoch > before.leader_epoch and now.leader >= 0 and set(now.isr) == set(before.isr):
        return True, f"{{}}: broker-{now.leader} is elected again in place, leader epoch {now.leader_epoch} ({why})"
    gone = [each for each in before.isr if each not in now.isr]
    new = [each for each in now.isr if each not in before.isr]
    if gone or new:
        verb = "shrinks" if not new else "grows" if not gone else "changes"
        alone = f"; broker-{now.isr[0]} is alone in it" if len(now.isr) == 1 and now.cause == "alter-isr" else ""
        return False, f"ISR of {{}} {verb} from {brokers(before.isr)} to {brokers(now.isr)}{reason}{alone}"
    return False, ""


def lag(proposal: IsrPropose) -> str:
    """Why a leader takes members out of the ISR: `` (broker-2 has not fetched for 2.1 s)``; "" if it takes none out."""
    reasons: dict[str, list[str]] = {}
    for member, each in proposal.lagging.items():
        if each.silent_ms < 0:
            reason = "{} not fetched from this leader"
        elif each.silent_ms >= each.behind_ms / 2:  # one that fetches does so far more often than it may lag
            reason = f"{{}} not fetched for {seconds(each.silent_ms * 1000)}"
        else:
            reason = f"{{}} not had the whole log for {seconds(each.behind_ms * 1000)}"
        reasons.setdefault(reason, []).append(f"broker-{member}")
    told = [reason.format(f"{listed(who)} {'has' if len(who) == 1 else 'have'}") for reason, who in reasons.items()]
    return f" ({', '.join(told)})" if told else ""


def is_from_outside(before: PartChange, now: PartChange) -> bool:
    """Whether a leader comes from neither the ISR nor the ELR, in the change that follows ``before``: of two
    controllers neither knows what the other one has decided."""
    follows = now.partition_epoch == before.partition_epoch + 1
    return follows and now.leader not in {before.leader, -1, *before.isr, *before.elr}


def _why(before: PartChange, now: PartChange) -> str:
    """The cause of a change, with the broker that is fenced, unfenced, or shuts down, where the change tells it."""
    why = CAUSES.get(now.cause, now.cause)
    gone = [each for each in before.isr if each not in now.isr]
    if now.cause == "unfence":
        who = [now.leader] if now.leader != before.leader else []
    else:
        who = [before.leader] if now.leader != before.leader and before.leader >= 0 else gone
    return why.replace("a broker", f"broker-{who[0]}") if len(who) == 1 else why


def registration(before: BrokerReg | None, now: BrokerReg) -> str:
    """What changed in a broker's registration, with {} for the broker; "" if nothing that a reader would look for."""
    if before is None or before.fenced != now.fenced:
        return f"the controller {'fences' if now.fenced else 'unfences'} {{}}"
    if now.shutting_down and not before.shutting_down:
        return "the controller lets {} shut down"
    return "{} registers again" if now.incarnation != before.incarnation else ""


def takes_up(node: str, body: PartAssume) -> str:
    """A leader that does not know yet how much of its log is committed, or that has nothing; "" for any other."""
    if body.role != "leader" or body.leader_epoch == 0:
        return ""
    if body.log_end == 0:
        return f"{node} becomes leader of {body.tp} with an EMPTY log: log end 0, high watermark 0"
    if body.high_watermark >= body.log_end:
        return ""
    return (
        f"{node} becomes leader of {body.tp} with high watermark {body.high_watermark:,}, "
        f"below its log end {body.log_end:,}"
    )


def cut_off(tp: str, was: int, to: int, committed: int | None = None) -> str:
    """``15 records of orders-0 (none of them committed), from offset 330 on``: what a log had up to ``was``. committed:
    how many of them had been, None if that is not known or does not matter."""
    every = was - to
    how_many = "none" if not committed else "all" if committed == every else f"{committed:,}"
    known = f" ({how_many} of them committed)"
    if every == 1:
        known = " (committed)" if committed else " (not committed)"
    return f"{some(every, 'record')} of {tp}{'' if committed is None else known}, from offset {to:,} on"


def truncation(node: str, body: LogTrunc, what: str = "") -> str:
    """Records that a replica drops. ``what``: these, if not ``cut_off``."""
    why = {
        "diverge": "where it diverges from the leader's log",
        "high-watermark": "at its high watermark",
        "out-of-range": "because the leader's log ends before",
        "recovery": "when it starts",
        "last-stable-offset": "as it was elected uncleanly, and that is its last stable offset",
    }[body.reason]
    return f"{node} truncates {what or cut_off(body.tp, body.was, body.to)}, {why}"
