"""TLS: the certificate must be for the name that the requester wrote, whatever address it leads to."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from euterpe.egress.client import Egress, EgressLimits
from euterpe.egress.errors import EgressFailed, EgressFailure
from euterpe.egress.target import EgressPolicy
from tests.webhook.canary import PATIENCE_S, Canary, Names, serving

LOOPBACK = EgressPolicy(allow_loopback=True)
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
LAST_YEAR_END = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
FAR_AHEAD = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
)  # fmt: skip


@dataclass
class Authority:
    """A certificate authority of this test session, and the client context that trusts it alone."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    folder: Path

    def client(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.load_verify_locations(cadata=_pem(self.certificate).decode())
        return context

    def server(self, *names: str, until: datetime.datetime = FAR_AHEAD) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [
            x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names
        ]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name("server"))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(LONG_AGO)
            .not_valid_after(until)
            .add_extension(x509.SubjectAlternativeName(subject), critical=False)
            # Python 3.13 verifies as RFC 5280 says: who signed, and what the signer may do, has to be in there.
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        chain = self.folder / "server.pem"
        chain.write_bytes(_pem(certificate) + _private_pem(key))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        return context


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def make_authority(folder: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name("a test authority"))
        .issuer_name(_name("a test authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(LONG_AGO)
        .not_valid_after(FAR_AHEAD)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(SIGNS_CERTIFICATES, critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate, folder)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return make_authority(tmp_path)


def _names() -> Names:
    return Names(default=("127.0.0.1",))


async def test_the_right_name_is_asked_for_and_trusted(authority: Authority) -> None:
    asked: list[str | None] = []
    context = authority.server("hook.example.com")
    context.sni_callback = lambda _ssl, name, _context: asked.append(name)
    async with (
        serving(ssl_context=context) as server,
        Egress(LOOPBACK, resolver=_names(), ssl_context=authority.client()) as egress,
    ):
        for _ in range(3):
            reply = await egress.post(server.url(host="hook.example.com", scheme="https"), b"{}")
            assert reply.status == 204
    assert asked == ["hook.example.com"]
    assert f"host: hook.example.com:{server.port}".encode() in server.requests[0]


async def _refused(server: Canary, egress: Egress, host: str) -> str:
    with pytest.raises(EgressFailed) as failed:
        await egress.post(server.url(host=host, scheme="https"), b"{}")
    assert failed.value.reason is EgressFailure.TLS
    assert server.requests == []
    return str(failed.value)


async def test_a_certificate_for_another_name_is_refused_before_anything_is_sent(authority: Authority) -> None:
    async with (
        serving(ssl_context=authority.server("other.example.com")) as server,
        Egress(LOOPBACK, resolver=_names(), ssl_context=authority.client()) as egress,
    ):
        assert "hook.example.com" in await _refused(server, egress, "hook.example.com")


async def test_a_connection_trusted_for_one_name_serves_no_other(authority: Authority) -> None:
    async with (
        serving(ssl_context=authority.server("hook.example.com")) as server,
        Egress(LOOPBACK, resolver=_names(), ssl_context=authority.client()) as egress,
    ):
        await egress.post(server.url(host="hook.example.com", scheme="https"), b"{}")
        server.requests.clear()
        await _refused(server, egress, "victim.example.com")


async def test_an_unknown_authority_is_refused(authority: Authority) -> None:
    async with (
        serving(ssl_context=authority.server("hook.example.com")) as server,
        Egress(LOOPBACK, resolver=_names()) as egress,
    ):
        await _refused(server, egress, "hook.example.com")


async def test_an_expired_certificate_is_refused(authority: Authority) -> None:
    context = authority.server("hook.example.com", until=LAST_YEAR_END)
    async with (
        serving(ssl_context=context) as server,
        Egress(LOOPBACK, resolver=_names(), ssl_context=authority.client()) as egress,
    ):
        assert "expired" in await _refused(server, egress, "hook.example.com")


async def test_an_address_needs_a_certificate_for_that_address(authority: Authority) -> None:
    async with Egress(LOOPBACK, ssl_context=authority.client()) as egress:
        async with serving(ssl_context=authority.server("127.0.0.1")) as server:
            assert (await egress.post(server.url(scheme="https"), b"{}")).status == 204
        async with serving(ssl_context=authority.server("hook.example.com")) as server:
            await _refused(server, egress, "127.0.0.1")


async def test_old_protocol_versions_are_refused(authority: Authority) -> None:
    context = authority.server("hook.example.com")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    async with (
        serving(ssl_context=context) as server,
        Egress(LOOPBACK, resolver=_names()) as egress,
    ):
        await _refused(server, egress, "hook.example.com")


async def test_a_server_that_never_shakes_hands_is_given_up_on(authority: Authority) -> None:
    async def silent(_: Canary, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.read()

    limits = EgressLimits(connect_timeout_s=0.2)
    async with (
        serving(silent) as server,
        Egress(LOOPBACK, resolver=_names(), ssl_context=authority.client(), limits=limits) as egress,
    ):
        with pytest.raises(EgressFailed) as failed:
            await egress.post(server.url(host="hook.example.com", scheme="https"), b"{}")
        assert failed.value.reason is EgressFailure.CONNECT
        await asyncio.wait_for(server.gone.wait(), PATIENCE_S)
