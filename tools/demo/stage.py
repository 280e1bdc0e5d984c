"""The processes behind the demo: a broker, and the service beside it."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from tools.demo.client import ItcClient
from tools.demo.pipeline import ROLES
from tools.plugin import NAME, build
from tools.servers import Broker, Child, RabbitNode, ServerError, free_port

CHECKOUT = Path(__file__).parents[2]  # or, installed, the folder of packages
PROGRAM = Path(sys.executable).with_name("rabbitmq-itc")
SERVICE_PORT = 15680
MIGRATE_SECONDS = 60
READY_SECONDS = 90
STOP_SECONDS = 30
FIRST_RUN = 1001  # as the documents' examples have it
ROLE_PASSWORD = "demo"  # noqa: S105 - users of a private broker on the loopback interface


def home() -> Path:
    """The folder for its data unless one is given: of the checkout, or of the user."""
    if (CHECKOUT / "Makefile").is_file():
        return CHECKOUT / "var" / "demo"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rabbitmq-itc" / "demo"


@dataclass(frozen=True)
class Stage:
    """Everything that runs while the demo does."""

    broker: Broker
    private: bool
    vhost: str
    service: Child
    client: ItcClient
    url_of: Callable[[str], str]
    exports: Path
    run_name: str


@contextmanager
def raised(
    folder: Path, environment: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[Stage]:
    """Start what is needed, with data under ``folder``; stop it at the end."""
    with ExitStack() as stack:
        stack.enter_context(_only_one(folder))
        given = Broker.from_environment(environment)
        broker = given or _private_broker(folder)
        say("looking for the broker" if given else "starting a private RabbitMQ node")
        stack.enter_context(broker)
        vhost = _vhost(environment["AMQP_URL"]) if given else "/"
        url = f"http://127.0.0.1:{_port(environment)}"
        say("starting the service on a migrated SQLite store")
        service = _start_service(folder, broker, url, environment)
        stack.callback(service.stop, STOP_SECONDS)
        client = ItcClient(url, broker.user, broker.password)
        stack.callback(client.close)
        service.wait_until(client.is_ready, READY_SECONDS, "being ready")
        yield Stage(
            broker,
            given is None,
            vhost,
            service,
            client,
            _addresses(broker, vhost, own_users=given is None),
            folder / "service" / "exports",
            _next_run(folder),
        )


def _private_broker(folder: Path) -> RabbitNode:
    """Make a node, with the broker plugin where that can be built."""
    own: Path | None = folder / "plugins"
    try:
        build(folder / "plugins")
    except (OSError, subprocess.CalledProcessError):  # no sources, or no Erlang compiler
        own = None
    plugins = () if own is None else (NAME,)
    return RabbitNode(folder / "rabbitmq", "itc-demo", plugins=plugins, plugins_folder=own)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        _take(lock)
        yield


def _take(lock: IO[str]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        folder = Path(lock.name).parent
        raise ServerError(f"a demo is running in {folder} already: end that one") from error


def _next_run(folder: Path) -> str:
    """Count this run: the events of earlier ones are kept, so its orders need new numbers."""
    kept = folder / "last-run"
    number = int(kept.read_text()) + 1 if kept.exists() else FIRST_RUN
    kept.write_text(str(number))
    return str(number)


def _vhost(amqp_url: str) -> str:
    return unquote(urlsplit(amqp_url).path.removeprefix("/")) or "/"


def _port(environment: Mapping[str, str]) -> int:
    """Return the port that was asked for, else the usual one, else any free one."""
    if given := environment.get("ITC_PORT"):
        return int(given)
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", SERVICE_PORT))
        except OSError:
            return free_port()
    return SERVICE_PORT


def _start_service(folder: Path, broker: Broker, url: str, environment: Mapping[str, str]) -> Child:
    data = folder / "service"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Any other ITC_ setting is what the user wants, and goes to the service.
    env = {
        "ITC_SPARK_AT_BOOT": "true",  # so that it starts while the pipeline runs
        **environment,
        "ITC_AMQP_URL": broker.amqp_url(),
        "ITC_MANAGEMENT_URL": broker.management_url,
        "ITC_DATA_DIR": str(data),
        "ITC_HOST": "127.0.0.1",
        "ITC_PORT": url.rpartition(":")[2],
    }
    log = folder / "service.log"
    log.write_bytes(b"")
    migration = Child("rabbitmq-itc migrate", [PROGRAM, "migrate"], log=log, env=env, cwd=folder)
    if code := migration.wait(MIGRATE_SECONDS):
        raise ServerError(f"rabbitmq-itc migrate ended with {code}{migration.log_tail()}")
    return Child("rabbitmq-itc serve", [PROGRAM, "serve"], log=log, env=env, cwd=folder)


def _addresses(broker: Broker, vhost: str, *, own_users: bool) -> Callable[[str], str]:
    """Return each role's AMQP address: with a user of its own if the broker is private."""
    if not own_users:
        return lambda role: broker.amqp_url(vhost)
    for role in ROLES:
        broker.add_user(role, ROLE_PASSWORD)
        broker.permit(role, vhost, configure="", write=".*", read=".*")
    return lambda role: broker.amqp_url(vhost, role, ROLE_PASSWORD)
