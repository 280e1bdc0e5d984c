"""A child process that speaks lines of JSON: it is told on its stdin and answers on its stdout.

It runs in a session of its own: a Ctrl-C is for the service, which then ends its children in good
order, and all that belongs to a child ends with one signal to its group. A child ends when its
stdin does, so none outlives the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

_ERROR_BYTES = 1 << 16


class Child(Generic[T]):
    """A child that was started. What it says is read as the type that was named at its start."""

    def __init__(
        self,
        process: Process,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        says: type[T],
        errors: asyncio.Task[None] | None,
    ) -> None:
        """Use `start`."""
        self._process = process
        self._stdin = stdin
        self._stdout = stdout
        self._decode = msgspec.json.Decoder(says).decode
        self._errors = errors

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        says: type[T],
        *,
        line_bytes: int,
        environment: Mapping[str, str] | None = None,
        hear: Callable[[list[str]], None] | None = None,
    ) -> Child[T]:
        """Start a command whose lines are read as ``says``, of up to ``line_bytes`` each.

        ``environment`` is ours where it is None. ``hear`` gets the lines of its stderr as they
        come, a long one perhaps in parts; where it is None they go where ours go.
        """
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=None if hear is None else PIPE,
            limit=line_bytes,
            env=environment,
            start_new_session=True,
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a child is started with pipes")
        errors = None
        if hear is not None and process.stderr is not None:
            errors = asyncio.create_task(_listen(process.stderr, hear))
        return cls(process, process.stdin, process.stdout, says, errors)

    @property
    def pid(self) -> int:
        """Its process, or what that was."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, less than 0 for a signal; None while it runs."""
        return self._process.returncode

    def write(self, message: object) -> None:
        """Send a line without waiting; where the child has ended it goes nowhere."""
        self._stdin.write(msgspec.json.encode(message) + b"\n")

    async def send(self, message: object) -> None:
        """Send a line; raises `ConnectionError` where the child has ended."""
        self.write(message)
        await self._stdin.drain()

    async def read(self) -> T | None:
        """Wait for the next line; None where there are no more, as the child has ended.

        Raises `ValueError` for a line that is too long.
        """
        line = await self._stdout.readline()
        return self._decode(line) if line.endswith(b"\n") else None

    def hang_up(self) -> None:
        """Close its stdin, by which it knows that it is to end."""
        self._stdin.close()

    async def wait(self) -> int:
        """Wait for its end; return its exit code."""
        return await self._process.wait()

    async def leave(self, seconds: float) -> None:
        """End it: by the end of its stdin, by a signal where it does not heed that in time."""
        if self.exit_code is None:
            self.hang_up()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), seconds)
        await self.kill()

    async def kill(self) -> None:
        """End all that is left of its group, and wait until it has gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await self.wait()
        if self._errors is not None:
            await self._errors


async def _listen(stderr: asyncio.StreamReader, hear: Callable[[list[str]], None]) -> None:
    while chunk := await stderr.read(_ERROR_BYTES):
        hear(chunk.decode(errors="replace").splitlines())
