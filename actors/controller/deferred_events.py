"""Answers that wait until the records behind them are committed (``DeferredEvent.java``, ``ControllerWriteEvent``)."""

from __future__ import annotations

from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, AnyResponse, check_fields
from actors.node.purgatory import DelayedOperation, Key
from actors.node.step import Step

COMMITTED = ("committed", "")
"""What they wait for: more of the metadata log is known to be committed."""


class DeferredEvent(DelayedOperation):
    """``response`` to ``request`` goes out once the record at ``offset`` is committed. Looks again with the step, and
    the end of what is committed."""

    offset: int
    version: int
    request: AnyRequest
    response: AnyResponse

    @property
    def keys(self) -> tuple[Key, ...]:
        """The commit."""
        return (COMMITTED,)

    def try_complete(self, context: tuple[Step, int], key: Key) -> bool:
        """Whether the record is committed."""
        return self.offset < context[1]

    def on_complete(self, context: tuple[Step, int]) -> None:
        """Answer."""
        reply(context[0], self.connection, self.response, self.version)

    def on_failure(self, step: Step) -> None:
        """The controller is active no longer: its records may be lost."""
        reply(step, self.connection, error_response(self.request, KafkaError.NOT_CONTROLLER), self.version)


def reply(step: Step, connection: str, response: AnyResponse, version: int) -> None:
    """Answer at the version that was asked in."""
    check_fields(response, version)
    step.reply(connection, response)
