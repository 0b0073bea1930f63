"""Mutual TLS between nodes: a node serves only peers that have a certificate of the run's authority, and talks only to
a peer whose certificate is for that node.

gRPC checks a peer's name against the names of its certificate. Nodes have no host names of their own, as several share
an address; so a certificate is for ``NODE.node.krift``, or for all nodes as ``*.node.krift``.
"""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio
import msgspec

from actors.live.wire import CHANNEL_OPTIONS

DOMAIN = "node.krift"
AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.crt", "tls.crt", "tls.key"
"""As in a Kubernetes secret of the type ``kubernetes.io/tls`` that cert-manager keeps."""


class Identity(msgspec.Struct, frozen=True):
    """What a host proves with that its nodes are of the run, each as PEM. ``authority``: the certificate of whoever
    signs; ``certificate``: the host's own, for its nodes' names; ``key``: the private key of that."""

    authority: bytes
    certificate: bytes
    key: bytes


def read_identity(folder: Path) -> Identity:
    """From the files of a mounted secret. Raises OSError."""
    return Identity(*((folder / name).read_bytes() for name in (AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE)))


def write_identity(folder: Path, identity: Identity) -> None:
    """Into such files, in a new folder that nobody else can read."""
    folder.mkdir(mode=0o700)
    named = zip((AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE), msgspec.structs.astuple(identity), strict=True)
    for name, content in named:
        (folder / name).write_bytes(content)


def name_of(node: str) -> str:
    """The name that the certificate of a node must have."""
    return f"{node}.{DOMAIN}"


def channel_to(peer: str, address: str, identity: Identity | None) -> grpc.aio.Channel:
    """A channel to a node; in the clear without an identity."""
    if identity is None:
        return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(identity.authority, identity.key, identity.certificate)
    options = (*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", name_of(peer)))
    return grpc.aio.secure_channel(address, credentials, options=options)


def listen(server: grpc.aio.Server, address: str, identity: Identity | None) -> int:
    """Bind a server; returns its port. In the clear without an identity; else nobody is served who has no certificate
    of the run's authority. Raises RuntimeError if that fails."""
    if identity is None:
        return server.add_insecure_port(address)
    pair = (identity.key, identity.certificate)
    credentials = grpc.ssl_server_credentials([pair], identity.authority, require_client_auth=True)
    return server.add_secure_port(address, credentials)
