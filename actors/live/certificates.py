"""Certificates that are made for one run: each host makes its own key, which never leaves it, and the driver signs.

The authority lives for as long as the run starts; nobody can get a certificate afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actors.live.identity import Identity, name_of

VALID = timedelta(days=90)
"""Longer than any run; a certificate is worth nothing to anybody once the run is over."""

SKEW = timedelta(hours=1)
"""By how much the clocks of the machines may differ."""


def new_request() -> tuple[bytes, bytes]:
    """A new private key, and the request to certify it, each as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret, request.public_bytes(serialization.Encoding.PEM)


class Authority:
    """Signs for one run. certificate: what peers check each other's certificates with, as PEM."""

    def __init__(self, run: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"krift {run}"[:64])])
        made = self._builder(self._key.public_key(), self._name)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate = self._signed(made)

    def sign(self, request: bytes, nodes: Iterable[str]) -> bytes:
        """Certify a host's key for the nodes on it; the certificate as PEM. Raises ValueError if the request was not
        signed with that key."""
        asked = x509.load_pem_x509_csr(request)
        if not asked.is_signature_valid:
            raise ValueError("the request for a certificate is not signed with its own key")
        names = x509.SubjectAlternativeName([x509.DNSName(name_of(node)) for node in nodes])
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        key = asked.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey), "not from new_request"
        made = self._builder(key, x509.Name([]))
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        # Critical where there is no other name (RFC 5280, 4.2.1.6).
        return self._signed(made.add_extension(names, critical=True).add_extension(both, critical=False))

    def _builder(self, key: ec.EllipticCurvePublicKey, subject: x509.Name) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + VALID)
        )

    def _signed(self, made: x509.CertificateBuilder) -> bytes:
        return made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def why_unusable(identity: Identity, nodes: Iterable[str]) -> str:
    """Why nodes cannot use an identity, "" if they can."""
    try:
        x509.load_pem_x509_certificates(identity.authority)
        own = x509.load_pem_x509_certificate(identity.certificate)
        secret = serialization.load_pem_private_key(identity.key, None)
    except (TypeError, ValueError) as error:
        return f"one of the files cannot be read as PEM: {error}"
    if secret.public_key() != own.public_key():
        return "the key is not that of the certificate"
    if not own.not_valid_before_utc <= datetime.now(UTC) <= own.not_valid_after_utc:
        return (
            f"the certificate is valid from {own.not_valid_before_utc:%Y-%m-%d} to {own.not_valid_after_utc:%Y-%m-%d}"
        )
    try:
        extension = own.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = set(extension.value.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        names = set()
    lacking = [node for node in nodes if names.isdisjoint({name_of(node), name_of("*")})]
    return (
        f"the certificate is not for {name_of(lacking[0])}: it takes {name_of('*')} among its DNS names"
        if lacking
        else ""
    )
