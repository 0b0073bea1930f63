"""The yardstick of the live benchmarks: a Ray actor with a grpc.aio server and client, and nothing else."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import grpc
import grpc.aio

from actors.live.wire import CHANNEL_OPTIONS, SERVER_OPTIONS, method_path
from actors.node.messages import Api
from benchmarks.ring import WINDOW, request, response
from krift.v1.common_pb2 import Clock
from krift.v1.produce_pb2 import ProduceRequest, ProduceResponse
from krift.v1.wire import to_protobuf

SERVICE = method_path(Api.Produce).split("/")[1]


class BareActor:
    """Serves Produce with a ready answer, and asks with a ready request; both are as large as Krift's on the wire."""

    async def open(self) -> tuple[int, int]:
        """Serve; returns process id and port."""
        answer: ProduceResponse = to_protobuf(response(1))
        answer.header.correlation_id = 1
        answer.header.clock.CopyFrom(_clock())
        answer.header.cause = "broker-1/0/1000"

        async def serve(_asked: ProduceRequest, _context: Any) -> ProduceResponse:
            return answer

        server = grpc.aio.server(options=SERVER_OPTIONS)
        handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
            serve,
            request_deserializer=ProduceRequest.FromString,
            response_serializer=ProduceResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {Api.Produce.name: handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._server = server
        return os.getpid(), int(port)

    async def connect(self, address: str) -> None:
        """Where ``burst`` sends its requests."""
        self._channel = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._method: Any = self._channel.unary_unary(
            method_path(Api.Produce),
            request_serializer=ProduceRequest.SerializeToString,
            response_deserializer=ProduceResponse.FromString,
        )

    async def burst(self, seconds: float) -> tuple[int, float]:
        """Keep WINDOW requests in flight for so long; returns how many were answered, and in how many seconds."""
        asked = bare_request()
        began = time.perf_counter()
        counts = await asyncio.gather(*(self._keep_asking(asked, began + seconds) for _ in range(WINDOW)))
        return sum(counts), time.perf_counter() - began

    async def _keep_asking(self, asked: ProduceRequest, until: float) -> int:
        count = 0
        while time.perf_counter() < until:
            await self._method(asked)
            count += 1
        return count


def bare_request() -> ProduceRequest:
    """With the header that Krift's runtime adds."""
    asked: ProduceRequest = to_protobuf(request("broker-1", 1))
    header = asked.header
    header.connection, header.number, header.cause = "broker-1>broker-2:ring:0.0", 1000, "broker-1/0/1000"
    header.clock.CopyFrom(_clock())
    return asked


def _clock() -> Clock:
    return Clock(wall_us=1_700_000_000_000_000, logical=1)
