"""A service as docs/operations.md sets it up, and traffic for the commands to look at."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from app.main import create_app
from app.settings import load_settings
from tests.docs.documents import CHECKOUT
from tools.demo.pipeline import Pipeline
from tools.servers import Broker, Child, free_port, wait_until, without_settings

PROGRAM = Path(sys.executable).with_name("rabbitmq-itc")
OPERATIONS = CHECKOUT / "docs" / "operations.md"
CAPTURING = ("itc-documents", "hush")
READY_SECONDS = 90
PIPELINE_SECONDS = 60
EVENTS = 25  # that the pipeline causes


@dataclass(frozen=True)
class Installation:
    """A running service and its broker."""

    broker: Broker
    url: str
    environment: dict[str, str]

    @property
    def http(self) -> httpx2.Client:
        return httpx2.Client(
            base_url=self.url, auth=(self.broker.user, self.broker.password), timeout=30
        )

    def traced(self, vhost: str, **wish: object) -> None:
        """Start the trace of a virtual host, and wait until it runs."""
        path = trace_path(vhost)
        with self.http as http:
            http.put(path, json=wish).raise_for_status()
            wait_until(lambda: http.get(path).json()["state"] == "running", 60, "the trace")

    def with_orders(self, vhost: str, run_name: str, **wish: object) -> None:
        """Trace a virtual host, as wished, and have the demo's orders run through it."""
        self.traced(vhost, **wish)
        path = trace_path(vhost)
        with self.http as http:
            last = http.get(path).json()["events"] + EVENTS
            asyncio.run(_orders(self.broker.amqp_url(vhost), run_name))
            wait_until(lambda: http.get(path).json()["events"] >= last, 60, "the last event")

    def run(self, script: str, folder: Path, vhost: str) -> subprocess.CompletedProcess[str]:
        """Run a document's script against this service and that virtual host instead of its own."""
        credentials = f"{self.broker.user}:{self.broker.password}"
        replaced = {
            "amqp://guest:guest@127.0.0.1:5672/%2F": self.broker.amqp_url(vhost),
            "http://127.0.0.1:15680": self.url,
            "http://127.0.0.1:15672": self.broker.management_url,
            "guest:guest": credentials,
            "%2F": vhost,
            "vhost=/": f"vhost={vhost}",
            "vhost /": f"vhost {vhost}",
            "export-chains / ": f"export-chains {vhost} ",
            '"/"': f'"{vhost}"',
        }
        for documented, actual in replaced.items():
            script = script.replace(documented, actual)
        script = re.sub(r"(rabbitmq-itc [a-z -]+ )/(?=\s)", rf"\g<1>{vhost}", script)
        return subprocess.run(
            ["bash", "-c", f"set -euo pipefail\n{script}"],
            cwd=folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=420,
        )


def trace_path(vhost: str) -> str:
    """The path of a virtual host's trace."""
    return f"/itc_db/{quote(vhost, safe='')}/undefined/undefined/undefined"


async def _orders(url: str, run_name: str) -> None:
    async with asyncio.timeout(PIPELINE_SECONDS), Pipeline(lambda role: url, url, run_name) as shop:
        await shop.run()


def documented_permissions() -> dict[str, str]:
    """The regular expressions that docs/operations.md gives the capturing account."""
    command = re.search(r"set_permissions .* itc '(.*)' '(.*)' '(.*)'", OPERATIONS.read_text())
    assert command, "docs/operations.md does not say which permissions are needed"
    return dict(zip(("configure", "write", "read"), command.groups(), strict=True))


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Every path of the service's own description, parameters in braces."""
    settings = load_settings(data_dir=tmp_path_factory.mktemp("data"), auth="none")
    return [str(path) for path in create_app(settings).openapi()["paths"]]


@pytest.fixture(scope="session")
def installation(
    rabbit: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """The service, capturing as an account that may do what is documented, and no more."""
    with installed(rabbit, tmp_path_factory.mktemp("service")) as running:
        yield running


@contextmanager
def installed(
    broker: Broker, folder: Path, program: Sequence[str] = (str(PROGRAM),), **more: str
) -> Iterator[Installation]:
    """The service beside a broker, with its data in ``folder``; ``more`` are settings."""
    user, password = CAPTURING
    broker.add_user(user, password, ["administrator"])
    broker.permit(user, "/", **documented_permissions())  # where `doctor` signs in
    port = free_port()
    private = without_settings()
    settings = {
        "ITC_AMQP_URL": broker.amqp_url("/", user, password),
        "ITC_MANAGEMENT_URL": broker.management_url,
        "ITC_DATA_DIR": str(folder / "data"),
        "ITC_PORT": str(port),
        "ITC_SPARK_AT_BOOT": "true",
        "ITC_AUTH_CACHE_SECONDS": "0.01",  # each test creates a virtual host of its own
        **more,
    }
    service = Child(
        "rabbitmq-itc serve",
        [*program, "serve"],
        log=folder / "log",
        cwd=folder,
        env={**private, **settings},
    )
    client = {
        "ITC_URL": f"http://127.0.0.1:{port}",
        "ITC_USER": broker.user,
        "ITC_PASSWORD": broker.password,
        "PATH": f"{PROGRAM.parent}:{CHECKOUT / 'deploy'}:{private['PATH']}",
        "PYTHONPATH": str(CHECKOUT),  # what is not of the package is run from the checkout
    }
    environment = {**private, **settings, **client}
    running = Installation(broker, environment["ITC_URL"], environment)
    try:
        service.wait_until(lambda: _is_ready(running.url), READY_SECONDS, "being ready")
        yield running
    finally:
        service.stop()
        broker.delete_user(user)


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health/ready").status_code == 200
    except httpx2.HTTPError:
        return False


@pytest.fixture
def traceable(installation: Installation, vhost: str) -> Iterator[str]:
    """An empty virtual host that the capturing account may trace."""
    installation.broker.permit(CAPTURING[0], vhost, **documented_permissions())
    yield vhost
    with installation.http as http:
        http.delete(trace_path(vhost))
