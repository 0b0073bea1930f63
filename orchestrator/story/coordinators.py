"""What a story tells of groups and transactions: who coordinates them, who is in a group, and what was aborted that
nobody asked to abort."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from actors.trace.events import (
    BeginInvoke,
    ConsOwn,
    EndInvoke,
    GrpGen,
    GrpLoad,
    InitInvoke,
    InitReturn,
    Stamped,
    TxnLoad,
    TxnMarkers,
    TxnState,
)
from orchestrator.story.group_words import open_transactions, removal, shares, takes_over_groups
from orchestrator.story.words import listed, seconds

About = Literal["groups", "transactions"]

LIVES_MAX = 10_000
"""Groups and transactional ids that are remembered."""

SLOW_US = 1_000_000
"""A rebalance of this length is worth its time."""


class News(msgspec.Struct, frozen=True):
    """A line of a story. subject: the group or the transactional id. minor: it only fills the picture."""

    text: str
    subject: str
    about: About
    minor: bool = False


class _Group(msgspec.Struct):
    """A group as one coordinator has it. since_us: when it began to rebalance."""

    members: dict[str, str] = {}
    since_us: int | None = None


class Coordinators:
    """Takes the events of groups and transactions in order, and says what is worth telling of them."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}
        """Coordinator and group -> how it is."""
        self._asked: dict[str, bool] = {}
        """Transactional id -> whether its application asks to commit what is open; not in it: it asks for nothing."""
        self._anew: set[str] = set()
        """Transactional ids of which a producer asks for a new producer epoch."""
        self._open: dict[str, int] = {}
        """Transactional id -> producer epoch of its open transaction."""

    def __call__(self, event: Stamped) -> Iterable[News]:
        body = event.body
        match body:
            case GrpGen():
                return self._generation(event, body)
            case GrpLoad():
                return self._groups_loaded(event, body)
            case ConsOwn():
                return _lost(event, body)
            case TxnLoad():
                return _transactions_loaded(event, body)
            case TxnState():
                return self._state(event, body)
            case TxnMarkers():
                return _markers(event, body)
        self._application(body)
        return ()

    def _group(self, event: Stamped, group: str) -> _Group:
        if len(self._groups) > LIVES_MAX:
            self._groups.clear()
        return self._groups.setdefault((event.node, group), _Group())

    def _generation(self, event: Stamped, body: GrpGen) -> Iterable[News]:
        """Who is in the group no longer, and what each member has when it is stable again."""
        group = self._group(event, body.group)
        gone = sorted(client for member, client in group.members.items() if member not in body.members)
        back = set(body.members.values())
        group.members = dict(body.members)
        if body.state == "Dead":
            group.since_us = None
            return
        if body.state == "PreparingRebalance" and group.since_us is None:
            group.since_us = event.wall
        out = [client for client in gone if client not in back]
        if out:
            why = removal(body.reason)
            left = not why
            text = (
                f"{listed(out)} leaves group {{}}"
                if left
                else f"{event.node} removes {listed(out)} from group {{}}: {why}"
            )
            yield News(text, body.group, "groups", minor=left)
        if body.state == "Stable":
            took_us = 0 if group.since_us is None else event.wall - group.since_us
            group.since_us = None
            after = f" after a rebalance of {seconds(took_us)}" if took_us >= SLOW_US else ""
            text = f"group {{}} is stable in generation {body.generation}{after}: {shares(body)}"
            yield News(text, body.group, "groups")
        elif body.state == "Empty":
            group.since_us = None
            yield News(f"group {{}} is empty in generation {body.generation}", body.group, "groups", minor=True)

    def _groups_loaded(self, event: Stamped, body: GrpLoad) -> Iterable[News]:
        """A broker that goes on with the groups of another one."""
        if not body.loaded:
            return
        for group, found in takes_over_groups(body).items():
            self._group(event, group).members = dict(body.members.get(group, {}))
            yield News(f"{event.node} takes over group {{}} as its coordinator: {found}", group, "groups")

    def _application(self, body: object) -> None:
        """What the applications of producers ask for."""
        match body:
            case EndInvoke():
                self._asked[body.transactional_id] = body.commit
            case BeginInvoke():
                self._asked.pop(body.transactional_id, None)
            case InitInvoke():
                self._anew.add(body.transactional_id)
            case InitReturn():
                self._anew.discard(body.transactional_id)

    def _state(self, event: Stamped, body: TxnState) -> Iterable[News]:
        """An abort that its application did not ask for."""
        if body.to_state == "Ongoing":
            self._open[body.transactional_id] = body.producer_epoch
        if body.to_state != "PrepareAbort" or body.from_state == "PrepareAbort":
            return
        name = body.transactional_id
        asked = self._asked.get(name)
        if asked is False:
            return
        why = "its timeout is over"
        if body.producer_epoch == self._open.get(name):  # a timeout, like a new process, raises the epoch
            why = "an EndTxn of an earlier transaction with the same epoch came late"
        if name in self._anew:
            why = "a producer with this transactional id begins anew"
        if asked:
            why += ", although its application asks to commit it"
        yield News(f"{event.node} aborts the transaction of {{}} itself: {why}", name, "transactions")


def _lost(event: Stamped, body: ConsOwn) -> Iterable[News]:
    """A member that learns that it is one no longer."""
    if body.reason == "lost" and body.lost:
        text = f"{event.node} learns that it is in group {{}} no longer, and gives up {listed(body.lost)}"
        yield News(text, body.group, "groups")


def _transactions_loaded(event: Stamped, body: TxnLoad) -> Iterable[News]:
    """A broker that goes on with the transactions of another one."""
    if body.loaded and body.transactions:
        opened = open_transactions(body)
        what = f"to be ended: {opened}" if opened else "none of them is open"
        many = f"{len(body.transactions)} transactional ids, {what}"
        yield News(f"{event.node} takes over {{}} as transaction coordinator: {many}", body.tp, "transactions")


def _markers(event: Stamped, body: TxnMarkers) -> Iterable[News]:
    """Markers that are never written."""
    if body.outcome == "dropped":
        kind = "COMMIT" if body.commit else "ABORT"
        text = f"{event.node} gives up the {kind} marker of {{}} for {listed(body.partitions)}"
        yield News(text, body.transactional_id, "transactions")
