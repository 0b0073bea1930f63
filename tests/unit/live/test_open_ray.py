"""A Ray that serves anybody who reaches it. Here, as gRPC has threads from now on, and no process should fork then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from chaos.errors import RunError
from orchestrator.clusters.security import refuse_an_open_ray


@contextmanager
def serving(answer: Callable[[grpc.ServicerContext], bytes]) -> Iterator[int]:
    """A gRPC server that answers so to whatever it is asked; its port."""

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> Any:
            return grpc.unary_unary_rpc_method_handler(lambda request, context: answer(context))

    server = grpc.server(ThreadPoolExecutor(2), [Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def refuse(context: grpc.ServicerContext) -> bytes:
    """As a Ray that asks for a token."""
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
    return b""


def test_a_ray_that_serves_anybody_is_refused() -> None:
    """Shows that a Ray which answers a caller without a token is refused, with what to do; one that asks for a token,
    or that does not talk in the clear at all, is not."""
    with serving(lambda context: b"") as port, pytest.raises(RunError, match=r"RAY_AUTH_MODE=token, or .* --insecure"):
        refuse_an_open_ray("127.0.0.1", port)
    with serving(refuse) as port:
        refuse_an_open_ray("127.0.0.1", port)
    refuse_an_open_ray("127.0.0.1", port)
