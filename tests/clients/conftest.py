"""Pipelines of real client programs, each a process, beside a trace of their virtual host."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from app.store import Store
from app.traces.connectionwatch import ConnectionWatch
from app.traces.pipeline import PipelineSettings
from tests.clients.programs.role import TARGETS, Role
from tests.clients.truth import Truth
from tests.integration.conftest import Service, store, until
from tools.servers import Broker, Child, without_settings

__all__ = ["pipeline", "service", "settings", "store"]  # fixtures

STOP_SECONDS = 20.0
# All programs have this machine's address, whichever the broker sees.
EVERYWHERE = ("0.0.0.0/0", "::/0")


class Pipeline:
    """The programs of a pipeline, with their diaries and logs in one folder."""

    def __init__(self, broker: Broker, vhost: str, folder: Path) -> None:
        self._broker = broker
        self._vhost = vhost
        self._folder = folder
        self._children: list[Child] = []

    def add_queues(self) -> None:
        """Declare the queue of each program, so that none has to wait for another."""
        for program in TARGETS:
            self._broker.api("PUT", "queues", self._vhost, program, json={"durable": True})

    def start(
        self,
        program: str,
        command: Sequence[str],
        *,
        requests: int,
        named: bool = True,
        keyed: bool = False,
    ) -> Child:
        """Start a program."""
        url = self._broker.amqp_url(self._vhost)
        role = Role(program, url, program if named else None, self._folder, requests, keyed)
        child = Child(
            program,
            command,
            log=self._folder / f"{program}.log",
            env={**without_settings(), **role.environment()},
            cwd=Path(__file__).parents[2],
            death_signal=signal.SIGTERM,  # several have children of their own, which this one ends
        )
        self._children.append(child)
        return child

    async def truth(self, front: Child) -> Truth:
        """Wait until the first program has ended and every message has been handled."""

        async def ended() -> bool:
            self._check()
            return front.exit_code is not None

        async def settled() -> Truth | None:
            self._check()
            truth = Truth.read(self._folder)
            return None if truth.under_way else truth

        await until(ended, f"{front.name} has made its requests")
        return await until(settled, "all messages are handled")

    def _check(self) -> None:
        for child in self._children:
            if child.exit_code:
                pytest.fail(f"{child.name} ended with {child.exit_code}{child.log_tail()}")

    def end(self, *children: Child) -> None:
        """End these programs if they still run, all at once: some take their time."""
        for child in children:
            child.signal(signal.SIGTERM)
        for child in children:
            child.stop(STOP_SECONDS)
            print(f"{child.name}:{child.log_tail()}")  # pytest shows it if the test fails
            self._children.remove(child)

    def close(self) -> None:
        """End every program."""
        self.end(*self._children)


@pytest.fixture
def pipeline(rabbit: Broker, vhost: str, tmp_path: Path) -> Iterator[Pipeline]:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    pipeline = Pipeline(rabbit, vhost, folder)
    yield pipeline
    pipeline.close()


@pytest.fixture
def settings() -> PipelineSettings:
    return PipelineSettings(batch_seconds=0.02, check_seconds=0.5, shared_places=EVERYWHERE)


@pytest.fixture
async def service(
    store: Store, rabbit: Broker, settings: PipelineSettings
) -> AsyncIterator[Service]:
    """The capturing half of the service, which is told who connects to the broker."""
    service = Service(store, rabbit, settings)
    watch = ConnectionWatch(store.connections, service.announcements)
    watch.start()

    async def is_told() -> bool:
        return watch.why_not is None

    await until(is_told, "connections are announced")
    yield service
    await watch.stop()
    await service.close()
    rabbit.api("DELETE", "queues", "/", service.announcements.queue)
