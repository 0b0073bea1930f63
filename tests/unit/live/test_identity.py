"""Mutual TLS: who is served, and whom a node talks to."""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Mapping
from pathlib import Path

import grpc
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from actors.live import certificates
from actors.live.certificates import Authority, new_request, why_unusable
from actors.live.identity import Identity, channel_to, name_of, read_identity, write_identity
from actors.live.links import Links
from actors.live.server import Server

HEALTH = "/grpc.health.v1.Health/Check"


def issued(authority: Authority, *nodes: str) -> Identity:
    """An identity of a host with these nodes."""
    key, request = new_request()
    return Identity(authority.certificate, authority.sign(request, nodes), key)


OURS, OTHERS = Authority("ours"), Authority("others")
SERVER = issued(OURS, "broker-1", "broker-3")
CLIENT = issued(OURS, "broker-2")


async def health(identity: Identity | None, peer: str = "broker-1", served: Identity | None = SERVER) -> str:
    """What somebody with that identity gets who asks a node, taken for ``peer``, for its health."""
    links = Links("broker-1", asyncio.get_running_loop(), random.Random, lambda hit: None)
    server = Server("broker-1", links, random.Random(1), lambda connection, arrived: None, lambda connection: None)
    port = await server.start("127.0.0.1", served)
    try:
        async with channel_to(peer, f"127.0.0.1:{port}", identity) as channel:
            ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH)
            await ask(b"", timeout=5)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    finally:
        await server.stop()
    return "OK"


@pytest.mark.parametrize(
    ("identity", "outcome"),
    [
        (CLIENT, "OK"),
        (None, "UNAVAILABLE"),
        (issued(OTHERS, "broker-2"), "UNAVAILABLE"),
        (Identity(OURS.certificate, OTHERS.sign(new_request()[1], ["broker-2"]), CLIENT.key), "UNAVAILABLE"),
        (msgspec.structs.replace(issued(OTHERS, "broker-2"), authority=OURS.certificate), "UNAVAILABLE"),
    ],
    ids=["of the run", "in the clear", "of another run", "with a key that is not its own", "signed by another run"],
)
def test_a_node_serves_only_who_has_a_certificate_of_the_run(identity: Identity | None, outcome: str) -> None:
    """Shows that a node answers a host of the run and nobody else, not even in its health."""
    assert asyncio.run(health(identity)) == outcome


@pytest.mark.parametrize(
    ("peer", "served", "outcome"),
    [
        ("broker-1", SERVER, "OK"),
        ("broker-3", SERVER, "OK"),
        ("broker-2", SERVER, "UNAVAILABLE"),
        ("broker-1", issued(OURS, "*"), "OK"),
        ("broker-1", issued(OTHERS, "broker-1"), "UNAVAILABLE"),
        ("broker-1", None, "UNAVAILABLE"),
    ],
)
def test_a_node_talks_only_to_the_peer_it_means(peer: str, served: Identity | None, outcome: str) -> None:
    """Shows that a node talks to who is certified for the peer's name, and to nobody who is another node of the run,
    of another run, or in the clear."""
    assert asyncio.run(health(CLIENT, peer, served)) == outcome


def test_who_has_no_identity_serves_everybody() -> None:
    """Shows that without certificates nodes talk in the clear, as on one machine."""
    assert asyncio.run(health(None, served=None)) == "OK"


def test_a_request_must_be_signed_with_its_own_key() -> None:
    """Shows that the authority does not certify a key that the asker does not have."""
    der = x509.load_pem_x509_csr(new_request()[1]).public_bytes(serialization.Encoding.DER)
    forged = x509.load_der_x509_csr(der[:-1] + bytes([der[-1] ^ 1]))  # its last byte is the signature's
    with pytest.raises(ValueError, match="not signed with its own key"):
        OURS.sign(forged.public_bytes(serialization.Encoding.PEM), ["broker-1"])


def test_files_of_an_identity(tmp_path: Path) -> None:
    """Shows that what is written is what is read, and that only its owner can read it."""
    write_identity(tmp_path / "own", SERVER)
    assert read_identity(tmp_path / "own") == SERVER
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("change", "nodes", "why"),
    [
        ({}, ["broker-1", "broker-3"], ""),
        ({}, ["broker-1", "broker-2"], f"is not for {name_of('broker-2')}"),
        ({"key": CLIENT.key}, ["broker-1"], "the key is not that of the certificate"),
        ({"authority": b"none"}, ["broker-1"], "cannot be read as PEM"),
        ({"key": b"none"}, ["broker-1"], "cannot be read as PEM"),
    ],
)
def test_why_an_identity_is_of_no_use(change: Mapping[str, bytes], nodes: list[str], why: str) -> None:
    """Shows each mistake in mounted files, in words."""
    said = why_unusable(msgspec.structs.replace(SERVER, **change), nodes)
    assert (why in said) if why else not said


def test_a_certificate_that_has_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a certificate of the past is told, with its days."""
    monkeypatch.setattr(certificates, "VALID", datetime.timedelta(minutes=-1))
    old = issued(OURS, "broker-1")
    until = x509.load_pem_x509_certificate(old.certificate).not_valid_after_utc
    assert why_unusable(old, ["broker-1"]).endswith(f"to {until:%Y-%m-%d}")
