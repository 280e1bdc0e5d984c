"""A child process that speaks lines of JSON: it reads its stdin and answers on its stdout.

It runs in a session of its own with the service's priority: a Ctrl-C reaches only the service,
which then ends its children in order, and one signal to the child's group ends everything that
belongs to it. A child ends when its stdin does, so none outlives the service.

The service may have been started in another user's folder. A child does not run there: Python would
import a ``queue.py`` from it, and Spark would take an installation in the folder above it. Nor does
it get our whole environment, which can be read as long as a process lives, and is inherited by
whatever it starts: ours holds passwords (``ITC_AMQP_URL``) and whatever else the operator exported.
A child reads its secrets from stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from app.priority import weigh

T = TypeVar("T")

log = logging.getLogger(__name__)

_ERROR_BYTES = 1 << 16
_FOLDER = "/"  # only root can put anything there
VARIABLES = re.compile(
    r"""
    PATH | HOME | USER | LOGNAME | SHELL | TMPDIR | TZ | LANG | LANGUAGE | LC_\w+
    | LD_LIBRARY_PATH | MALLOC_\w+ | VIRTUAL_ENV | XDG_\w+ | PYTHON\w* | PURE_PYTHON
    | JAVA_HOME | JAVA_OPTS | JAVA_TOOL_OPTIONS | JDK_JAVA_OPTIONS | _JAVA_OPTIONS
    | (SPARK|PYSPARK|ARROW|HADOOP|YARN|GRPC)_\w+
    | PG\w+ | KRB5\w+ | SSL_CERT_(FILE|DIR)     # how the database's drivers connect
    | (no|http|https|all)_proxy | (NO|HTTP|HTTPS|ALL)_PROXY
    """,
    re.VERBOSE,
)
_OF_PATHS = re.compile(r"PYTHONPATH|\w*(HOME|DIR|FILE)")


@dataclass(eq=False)
class Child(Generic[T]):
    """A child that was started. Its lines are read as the type given to `start`."""

    _process: Process
    _stdin: asyncio.StreamWriter
    _stdout: asyncio.StreamReader
    _decode: Callable[[bytes], T]
    _errors: asyncio.Task[None] | None

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

        ``environment`` is added to the part of ours that it needs. ``hear`` gets the lines of its
        stderr as they come, a long one perhaps in parts; if it is None they go where ours go.
        """
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=None if hear is None else PIPE,
            limit=line_bytes,
            env={**child_environment(os.environ), **(environment or {})},
            cwd=_FOLDER,
            start_new_session=True,
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a child is started with pipes")
        errors = None
        if hear is not None and process.stderr is not None:
            errors = asyncio.create_task(_listen(process.stderr, hear))
        decode = msgspec.json.Decoder(says).decode
        child = cls(process, process.stdin, process.stdout, decode, errors)
        try:
            for seconds in weigh(child.pid):
                await asyncio.sleep(seconds)
        except BaseException:  # nobody else knows of it yet
            await child.kill()
            raise
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, less than 0 for a signal; None while it runs."""
        return self._process.returncode

    def write(self, message: object) -> None:
        """Send a line without waiting; if the child has ended, the line is lost."""
        self._stdin.write(msgspec.json.encode(message) + b"\n")

    async def send(self, message: object) -> None:
        """Send a line; raises `ConnectionError` if the child has ended."""
        self.write(message)
        await self._stdin.drain()

    async def read(self) -> T | None:
        """Wait for the next line; None if there are no more, because the child has ended.

        A child whose line is invalid or too long is ended: it may have been its answer.
        """
        try:
            line = await self._stdout.readline()
            return self._decode(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError) as error:
            log.warning("child process %d is ended over what it said: %s", self.pid, error)
            await self.kill()
            return None

    async def wait(self) -> int:
        return await self._process.wait()

    async def leave(self, seconds: float) -> None:
        """End it: by closing its stdin, and by a signal if it has not ended in time."""
        if self.exit_code is None:
            self._stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), seconds)
        await self.kill()

    async def kill(self) -> None:
        """Kill the rest of its group, and wait until it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await self.wait()
        if self._errors is not None:
            await self._errors


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a child process gets, for another folder than ours.

    Its Python, and Python under its Spark, import nothing from the folder that it runs in.
    """
    variables = {name: value for name, value in environment.items() if VARIABLES.fullmatch(name)}
    for name in filter(_OF_PATHS.fullmatch, variables):
        variables[name] = _absolute(variables[name])
    return {**variables, "PYTHONSAFEPATH": "1"}


def _absolute(paths: str) -> str:
    """Paths as they mean here; to Python an empty one is the folder that it runs in."""
    return os.pathsep.join(str(Path(path).absolute()) for path in paths.split(os.pathsep) if path)


async def _listen(stderr: asyncio.StreamReader, hear: Callable[[list[str]], None]) -> None:
    while chunk := await stderr.read(_ERROR_BYTES):
        hear(chunk.decode(errors="replace").splitlines())
