"""A broker behind TLS, with an authority of its own, as most have."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from yarl import URL

from app.broker.consumer import Firehose, Reading
from app.broker.management import ManagementApi
from app.broker.trace_queue import QueueBounds
from app.errors import OutageError
from app.secret_url import SecretUrl
from app.settings import Settings
from tests.integration.test_capture import send_and_receive
from tests.integration.test_firehose import refusal
from tools.servers import Broker


@asynccontextmanager
async def tls_in_front(target: int, folder: Path) -> AsyncIterator[int]:
    """A server that speaks TLS and passes on; its certificate, its own authority, is ``cert``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert").write_bytes(certificate.public_bytes(Encoding.PEM))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key").write_bytes(secret)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert", folder / "key")

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, broker = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(_pump(reader, broker), _pump(there, writer))

    server = await asyncio.start_server(meet, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_over_tls_an_authority_of_ones_own_is_trusted_if_the_url_names_it(
    rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    broker = URL(rabbit.amqp_url("/"))
    async with tls_in_front(broker.port or 5672, tmp_path) as port:
        url = broker.with_scheme("amqps").with_host("localhost").with_port(port)
        strict = Firehose(str(url), bounds=QueueBounds())
        assert "is not trusted" in await refusal(strict, vhost)
        named = SecretUrl(str(url.with_query(cafile=str(tmp_path / "cert"))))
        firehose = Firehose(Settings(amqp_url=named).broker, bounds=QueueBounds())
        rabbit.api("PUT", "vhosts", vhost, json={"tracing": True})
        async with firehose.open(vhost, Reading(prefetch=100)) as stream:
            await send_and_receive(rabbit, vhost, 5)
            taken: list[object] = []
            while len(taken) < 10:
                taken += await stream.batch(10, 1.0)


async def test_the_management_api_s_authority_is_trusted_if_it_is_named(
    rabbit: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tls_in_front(URL(rabbit.management_url).port or 15672, tmp_path) as port:
        url = f"https://localhost:{port}"
        strict = ManagementApi(url, rabbit.user, rabbit.password)
        with pytest.raises(OutageError, match="is not trusted"):
            await strict.version()
        await strict.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
        trusting = ManagementApi(url, rabbit.user, rabbit.password)
        assert await trusting.version()
        await trusting.close()
