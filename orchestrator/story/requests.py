"""What an operator asked a cluster for, what the answer was, and whether it changed anything."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.client.admin import (
    ADD_VOTER,
    ALTER_CONFIG,
    CREATE_PARTITIONS,
    CREATE_TOPIC,
    DELETE_RECORDS,
    DELETE_TOPIC,
    DESCRIBE_QUORUM,
    ELECT_LEADERS,
    REMOVE_VOTER,
)
from actors.node.errors import KafkaError, error_name
from actors.trace.events import AdminInvoke, AdminReturn, Stamped

NONE = KafkaError.NONE.name
NOT_NEEDED = KafkaError.ELECTION_NOT_NEEDED.name


class Request(msgspec.Struct):
    """A request of an operator. words: what it asks for. named: the partitions that it names, [] all. answer: in words,
    "" as long as there is none. failing: how it came to less than it asks for, "" if it did not."""

    call: str
    words: str
    named: list[str] = []
    answer: str = ""
    failing: str = ""


class Requests:
    """All requests of a run's operator, in order."""

    def __init__(self) -> None:
        self.all: list[Request] = []
        self._open: dict[str, Request] = {}

    def begin(self, event: Stamped, body: AdminInvoke) -> Request:
        """A request is made."""
        named = {ELECT_LEADERS: "partitions", DELETE_RECORDS: "offsets"}.get(body.call, "")
        request = Request(body.call, asked_for(body), list(body.arguments.get(named, ())))
        self.all.append(request)
        self._open[f"{event.node}/{body.op}"] = request
        return request

    def end(self, event: Stamped, body: AdminReturn) -> Request | None:
        """A request is answered, or given up."""
        request = self._open.pop(f"{event.node}/{body.op}", None)
        if request is not None:
            request.answer = answer(body)
            request.failing = _failing(body, request)
        return request

    @property
    def remarks(self) -> list[str]:
        """A sentence on each request that changed nothing, in full or in part."""
        found = [(each, each.failing if each.answer else "was not answered before the run ended") for each in self.all]
        return [f"an operator's request for {each.words} {failing}" for each, failing in found if failing]


def asked_for(body: AdminInvoke) -> str:
    """What an operator wants, in words."""
    given: dict[str, Any] = body.arguments
    if body.call == ELECT_LEADERS:
        kind = "an unclean" if given.get("type") == "unclean" else "a preferred"
        return f"{kind} election of {', '.join(given.get('partitions') or ['all partitions'])}"
    if body.call == ALTER_CONFIG:
        changes = [*(f"{key}={value}" for key, value in given.get("set", {}).items())]
        changes += [f"the default of {key}" for key in given.get("delete", [])]
        return f"{', '.join(changes)} on {', '.join(_resource(each) for each in given.get('resources', []))}"
    if body.call == DESCRIBE_QUORUM:
        return "a description of the quorum"
    if body.call in (ADD_VOTER, REMOVE_VOTER):
        verb = "as a new voter" if body.call == ADD_VOTER else "as a voter no longer"
        return f"{given.get('controller', '?')} {verb}"
    if body.call == DELETE_RECORDS:
        return f"the deletion of the records of {', '.join(map(_deletion, given.get('offsets', {}).items()))}"
    what = {CREATE_TOPIC: "a new topic", DELETE_TOPIC: "the removal of topic", CREATE_PARTITIONS: "more partitions of"}
    return f"{what.get(body.call, body.call)} {given.get('topic', '')}".rstrip()


def _deletion(asked: tuple[str, int]) -> str:
    tp, offset = asked
    return f"{tp} up to {'the high watermark' if offset < 0 else f'{offset:,}'}"


def _resource(text: str) -> str:
    return "all brokers" if text == "broker/" else text.replace("/", " ")


def answer(body: AdminReturn) -> str:
    """What an operator was told, in words."""
    if body.outcome != "ok":
        sure = "nothing was done" if body.outcome == "fail" else "its outcome is unknown"
        return f"{error_name(body.error)}, {sure}"
    if body.call == DESCRIBE_QUORUM:
        return f"{len(body.results.get('voters', {}))} voters, leader {body.results.get('leader', '?')}"
    if body.low_watermarks:
        return ", ".join(_deleted(body, name, error) for name, error in body.results.items())
    if len(set(map(str, body.results.values()))) == 1:
        return _result(next(iter(body.results.values())))
    return ", ".join(f"{name} {_result(error)}" for name, error in body.results.items()) or _result(NONE)


def _deleted(body: AdminReturn, name: str, error: Any) -> str:
    begins = body.low_watermarks.get(name)
    return f"{name} {_result(error)}" if begins is None else f"{name} begins at {begins:,} or later everywhere"


def _result(error: Any) -> str:
    """An error's name; of success also what that name means."""
    return f"{error} (success)" if error == NONE else str(error)


def _failing(body: AdminReturn, request: Request) -> str:
    """How a request came to less than it asks for, "" if all of it was done. Of an election of all partitions it is no
    failure that some have their leader already."""
    if body.outcome == "unknown":
        return f"got no answer: {answer(body)}"
    if body.outcome == "fail":
        return f"had no effect: {answer(body)}"
    if body.call == DESCRIBE_QUORUM:
        return ""
    failed = {name: error for name, error in body.results.items() if error != NONE}
    done = len(failed) < len(body.results)
    if done and not request.named:
        failed = {name: error for name, error in failed.items() if error != NOT_NEEDED}
    what = ", ".join(f"{name} {error}" for name, error in failed.items())
    return "" if not what else f"was done only in part: {what}" if done else f"had no effect: {what}"
