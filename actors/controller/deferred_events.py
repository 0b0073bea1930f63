"""Answers that wait until the records behind them are committed (``DeferredEvent.java``, ``ControllerWriteEvent``), and
requests that wait for a draw."""

from __future__ import annotations

from actors.controller.controller_turn import ControllerTurn
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, AnyResponse, check_fields, request_version
from actors.node.purgatory import DelayedOperation, Key
from actors.node.step import Step

COMMITTED = ("committed", "")
"""What they wait for: more of the metadata log is known to be committed."""


class DeferredEvent(DelayedOperation):
    """``response`` to ``request`` goes out once the record at ``offset`` is committed."""

    offset: int
    request: AnyRequest
    response: AnyResponse

    @property
    def keys(self) -> tuple[Key, ...]:
        """The commit."""
        return (COMMITTED,)

    def try_complete(self, context: ControllerTurn, key: Key) -> bool:
        """Whether the record is committed."""
        return self.offset < context.controller.committed

    def on_complete(self, context: ControllerTurn) -> None:
        """Answer."""
        reply(context.step, self.connection, self.request, self.response)

    def on_failure(self, step: Step) -> None:
        """The controller is active no longer: its records may be lost."""
        reply(step, self.connection, self.request, error_response(self.request, KafkaError.NOT_CONTROLLER))


class DrawnRequest(DelayedOperation):
    """A ``request`` that is served as soon as the runtime has chosen a number for it."""

    request: AnyRequest

    def on_failure(self, step: Step) -> None:
        """The controller is active no longer."""
        reply(step, self.connection, self.request, error_response(self.request, KafkaError.NOT_CONTROLLER))


def reply(step: Step, connection: str, request: AnyRequest, response: AnyResponse) -> None:
    """Answer at the version that was asked in."""
    check_fields(response, request_version(request))
    step.reply(connection, response)
