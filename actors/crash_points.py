"""Named points at which a node's process can end: between two effects of a step, or between a step and the next.

A runtime asks, for each effect before and after it carries it out, and for each Sync that is done before it tells the
node, whether a point has been reached.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.log.segments import log_of_file
from actors.node.effects import AnyEffect, Call, Record, Reply, Sync, Write
from actors.node.messages import API_NAMES, API_OF_REQUEST, API_OF_RESPONSE
from actors.node.spec import METADATA_PARTITION
from actors.trace.events import PartAssume, QRole

Subject = Literal["file", "api", "partition"]
"""What a point can be narrowed to."""


class PointKind(msgspec.Struct, frozen=True):
    """``effect``: class of the effect that the point lies at, None for a Sync that is done; ``after``: on its far
    side. ``about``: the point in words; ``subject``: what ``of`` names."""

    effect: type | None
    after: bool
    subject: Subject
    about: str


POINTS: dict[str, PointKind] = {
    "before-write": PointKind(Write, False, "file", "it is about to change a file"),
    "after-write": PointKind(Write, True, "file", "it has changed a file, and no Sync covers that yet"),
    "before-sync": PointKind(Sync, False, "file", "it is about to ask for a Sync"),
    "after-sync": PointKind(None, True, "file", "a Sync is done, and it has not been told yet"),
    "before-request": PointKind(Call, False, "api", "it is about to send a request"),
    "after-request": PointKind(Call, True, "api", "it has sent a request"),
    "before-reply": PointKind(Reply, False, "api", "it has served a request, and is about to answer"),
    "after-reply": PointKind(Reply, True, "api", "it has answered a request"),
    "on-becoming-leader": PointKind(Record, True, "partition", "it became a leader, and no other node knows yet"),
}
"""Name of a point -> what it is."""

FILES = ("quorum-state", "replication-offset-checkpoint", ".kafka_cleanshutdown")
"""Files that ``of`` can name; a log goes by its partition."""


class CrashPoint(msgspec.Struct, frozen=True):
    """Where a node is to end: the ``nth`` time, from now on and within one incarnation, that it comes to ``point``.
    ``of``: the file (a log by its partition), the API or the partition that it must be about, "" for any."""

    id: str
    node: str
    point: str
    of: str = ""
    nth: int = 1

    def __str__(self) -> str:
        of = f" of {self.of}" if self.of else ""
        return f"{self.point}{of}" + (f", number {self.nth}" if self.nth > 1 else "")


class CrashPoints:
    """The points that wait for one node, with how often each was passed in the present incarnation. False: none.

    ``waiting``: them by id. A runtime that looks before and after every effect looks at this dict: that costs no call.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[CrashPoint, PointKind]] = {}
        self._passed: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def add(self, point: CrashPoint) -> None:
        """Wait for a point."""
        self.waiting[point.id] = (point, POINTS[point.point])

    def discard(self, point_id: str) -> bool:
        """Wait for it no longer; whether it did."""
        self._passed.pop(point_id, None)
        return self.waiting.pop(point_id, None) is not None

    def restart(self) -> None:
        """A new incarnation begins to count anew."""
        self._passed.clear()

    def before(self, effect: AnyEffect) -> CrashPoint | None:
        """The point that is reached as ``effect`` is about to be carried out."""
        return self._reached(effect.__class__, False, effect)

    def after(self, effect: AnyEffect) -> CrashPoint | None:
        """The point that is reached now that ``effect`` was carried out."""
        return self._reached(effect.__class__, True, effect)

    def synced(self, file: str) -> CrashPoint | None:
        """The point that is reached now that a Sync of ``file`` is done."""
        return self._reached(None, True, file)

    def _reached(self, effect: type | None, after: bool, subject: AnyEffect | str) -> CrashPoint | None:
        for point, kind in self.waiting.values():
            if kind.effect is effect and kind.after == after and _is_about(point, kind, subject):
                passed = self._passed[point.id] = self._passed.get(point.id, 0) + 1
                if passed == point.nth:
                    return point
        return None


def _is_about(point: CrashPoint, kind: PointKind, subject: AnyEffect | str) -> bool:
    """Whether an effect, or a file that was synced, is what a point asks for."""
    if isinstance(subject, Record):
        body = subject.event
        return isinstance(body, PartAssume | QRole) and body.role == "leader" and point.of in ("", _partition(body))
    if not point.of:
        return True
    if kind.subject == "file":
        file = subject if isinstance(subject, str) else subject.file  # type: ignore[union-attr]  # a Write or a Sync
        return point.of in (file, log_of_file(file))
    return point.of == _api(subject)


def _partition(body: PartAssume | QRole) -> str:
    return body.tp if isinstance(body, PartAssume) else METADATA_PARTITION


def _api(effect: AnyEffect | str) -> str:
    """API of a request that is sent, or of an answer; "" where there is none (acks=0)."""
    if isinstance(effect, Call):
        return API_NAMES[API_OF_REQUEST[type(effect.request)]]
    if isinstance(effect, Reply) and effect.response is not None:
        return API_NAMES[API_OF_RESPONSE[type(effect.response)]]
    return ""
