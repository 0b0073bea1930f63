"""What keeps outsiders away from a run on other machines: TLS between the nodes, and Ray's token.

Krift refuses a cluster on other machines that lets anybody in, unless it is asked for by name (``--insecure``).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from chaos.errors import RunError

if TYPE_CHECKING:
    import grpc

IN_THE_CLEAR: Final = "off"
MADE_FOR_THE_RUN: Final = "run"
TLS_EXPECTED = f"{IN_THE_CLEAR}, {MADE_FOR_THE_RUN}, or a directory with ca.crt, tls.crt and tls.key"

_ASKS = ("/ray.rpc.NodeInfoGcsService/CheckAlive", "/ray.rpc.RayletDriver/Init")
"""What a Ray head, and a client server, answer to everybody if no token is asked for."""
_PATIENCE_S = 5.0


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tls_for(asked: str | None, hosts: Iterable[str], insecure: bool) -> str:
    """How nodes on these hosts talk. ``asked``: None where nobody says so: with TLS if a network lies between them.
    Raises RunError if they are asked to talk in the clear over a network, without ``insecure``."""
    others = [host for host in hosts if not is_loopback(host)]
    if asked == IN_THE_CLEAR and others and not insecure:
        raise RunError(f"nodes on {others[0]} would talk unencrypted, with any caller; --insecure allows it")
    return asked or (MADE_FOR_THE_RUN if others else IN_THE_CLEAR)


def refuse_an_open_ray(host: str, port: int) -> None:
    """Raise RunError if the Ray at an address serves callers without a token: whoever reaches it can run any program
    on its machines."""
    from grpc import StatusCode

    answers = [_answer(host, port, method) for method in _ASKS]
    closed = (StatusCode.UNAUTHENTICATED, StatusCode.UNAVAILABLE)
    if not any(code in closed for code in answers):
        raise RunError(
            f"the Ray at {host}:{port} serves anybody who reaches it; start it with RAY_AUTH_MODE=token, "
            "or ask for it as it is with --insecure"
        )


def _answer(host: str, port: int, method: str) -> grpc.StatusCode:
    import grpc

    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
            ask(b"", timeout=_PATIENCE_S)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
    return grpc.StatusCode.OK
