"""The service as a process of its own, to be killed, stopped and started again."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tools.servers import Broker, Child, free_port, without_settings

CHECKOUT = Path(__file__).parents[1]
START_SECONDS = 60.0
LOOK_SECONDS = 0.05
END_SECONDS = 60.0


class Service:
    """``rabbitmq-itc serve`` beside a broker, with its data and its log in a folder."""

    def __init__(
        self,
        broker: Broker,
        database_url: str,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        module: str = "app.cli",
        checkout: Path | None = None,
    ) -> None:
        """Use another version's built ``checkout``, if one is given."""
        python = sys.executable if checkout is None else checkout / ".venv" / "bin" / "python"
        self._command = [str(python), "-m", module, "serve"]
        self._folder = checkout or CHECKOUT
        self.port = free_port()
        self.log = folder / "service.log"
        self.environment = {
            **without_settings(),
            "ITC_AMQP_URL": broker.amqp_url("/"),
            "ITC_MANAGEMENT_URL": broker.management_url,
            "ITC_DATABASE_URL": database_url,
            "ITC_DATA_DIR": str(folder),
            "ITC_AUTH": "none",
            "ITC_PORT": str(self.port),
            **(settings or {}),
        }
        self._process: Child | None = None

    def set(self, name: str, value: str) -> None:
        """Set an environment variable for the next start."""
        self.environment[name] = value

    @property
    def process(self) -> Child:
        """The running process; raises RuntimeError if there is none."""
        if self._process is None:
            raise RuntimeError("the service is not running")
        return self._process

    def start(self) -> None:
        """Start it; `listening` waits for the rest."""
        self._process = Child(
            "the service",
            self._command,
            log=self.log,
            env=self.environment,
            cwd=self._folder,
        )

    @asynccontextmanager
    async def tracing(self, vhost: str, participant: str | None = None) -> AsyncIterator[None]:
        """Start it, and have it trace a virtual host; it ends with the block."""
        self.start()
        try:
            await self.listening()
            await self.start_trace(vhost, participant)
            await self.until_running(vhost)
            yield
        finally:
            await asyncio.to_thread(self.end, signal.SIGTERM)

    async def listening(self) -> None:
        """Wait until it answers; it opens its port long before that."""
        await asyncio.to_thread(
            self.process.wait_until, self._answers, START_SECONDS, "answering requests"
        )

    def _answers(self) -> bool:
        place = f"http://127.0.0.1:{self.port}/health/live"
        try:
            return httpx2.get(place, trust_env=False, timeout=1).is_success
        except httpx2.HTTPError:
            return False

    async def start_trace(self, vhost: str, participant: str | None = None) -> None:
        """Have it trace a virtual host, or have another service do it.

        ``participant`` is the policy, unset for its default.
        """
        await self._ask("PUT", vhost, participant and {"participant": participant})

    async def until_running(self, vhost: str) -> None:
        """Wait until the trace runs: what clients did before it is not in it."""
        async with asyncio.timeout(START_SECONDS):
            where = f"{vhost}/undefined/undefined/undefined"
            while (await self.get(where))["state"] != "running":  # noqa: ASYNC110  asking tells
                await asyncio.sleep(LOOK_SECONDS)

    async def stop_trace(self, vhost: str) -> None:
        """Have it stop the trace, which empties the trace queue into the store."""
        await self._ask("DELETE", vhost)

    async def _ask(self, method: str, vhost: str, body: object = None) -> None:
        await self.get(f"{vhost}/undefined/undefined/undefined", method=method, json=body)

    async def get(
        self,
        path: str,
        *,
        method: str = "GET",
        json: object = None,
        seconds: float = 60,
        **query: str | int,
    ) -> Any:
        """Ask for something under ``/itc_db``; raises `httpx2.HTTPError`."""
        place = f"http://127.0.0.1:{self.port}/itc_db/{path}"
        async with httpx2.AsyncClient(trust_env=False, timeout=seconds) as client:
            answer = await client.request(method, place.rstrip("/"), json=json, params=query)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    @property
    def is_running(self) -> bool:
        """Tell whether it was started and has not ended."""
        return self._process is not None and self._process.exit_code is None

    def end(self, number: signal.Signals, seconds: float = END_SECONDS) -> int:
        """Send it a signal, and wait for its end; returns its exit code, 0 if it is not running."""
        if self._process is None:
            return 0
        self._process.signal(number)
        code = self._process.wait(seconds)
        self._process = None
        return code
