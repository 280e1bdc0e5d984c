"""A child that speaks lines of JSON: what it is told, what it says, and how it ends."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import msgspec
import pytest

from app.children import Child

ECHO = """
import sys
for line in sys.stdin:
    print(line, end="", flush=True)
"""
DEAF = """
import time
print('{"word": "deaf"}', flush=True)
while True:
    time.sleep(1)
"""


class Said(msgspec.Struct):
    word: str


Start: TypeAlias = Callable[..., Coroutine[Any, Any, Child[Said]]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts children, and leaves none behind."""
    async with AsyncExitStack() as stack:

        async def start(script: str, **options: Any) -> Child[Said]:
            command = (sys.executable, "-c", script)
            child = await Child.start(command, Said, **{"line_bytes": 1 << 16, **options})
            stack.push_async_callback(child.kill)
            return child

        yield start


async def test_it_is_told_lines_and_its_answers_are_read_as_their_type(start: Start) -> None:
    child = await start(ECHO)
    await child.send({"word": "one"})
    child.write(Said("two"))
    child.write(msgspec.Raw(b'{"word": "three"}'))
    assert [await child.read() for _ in range(3)] == [Said("one"), Said("two"), Said("three")]


async def test_its_start_waits_for_no_thread(start: Start) -> None:
    is_over = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, is_over.wait)
    try:
        async with asyncio.timeout(10):
            await start(ECHO)
    finally:
        is_over.set()
        await busy


async def test_it_ends_when_its_stdin_does(start: Start) -> None:
    child = await start(ECHO)
    assert child.exit_code is None
    await child.leave(30)
    assert child.exit_code == 0
    assert await child.read() is None


async def test_one_that_ignores_the_end_of_its_stdin_is_killed(start: Start) -> None:
    child = await start(DEAF)
    assert await child.read() == Said("deaf")
    await child.leave(0.05)
    assert child.exit_code == -signal.SIGKILL


async def test_what_it_started_ends_with_it(start: Start) -> None:
    child = await start(
        "import subprocess, sys\n"
        "below = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        'print(\'{"word": "started"}\', flush=True)\n'
        "sys.stdin.read()",
    )
    assert await child.read() == Said("started")
    await child.kill()
    async with asyncio.timeout(30):
        assert await child.read() is None  # both have the other end of the pipe


async def test_its_death_ends_its_output_even_in_mid_line(start: Start) -> None:
    child = await start(
        "import os, sys\n"
        'os.write(1, b\'{"word": "whole"}\\n{"word": "ha\')\n'
        "os.kill(os.getpid(), 9)"
    )
    assert await child.read() == Said("whole")
    assert await child.read() is None
    assert await child.wait() == -signal.SIGKILL


async def test_sending_to_a_dead_one_is_an_error_only_for_a_caller_that_waits(start: Start) -> None:
    child = await start("")
    await child.wait()
    child.write(Said("nobody hears"))

    async def tell() -> None:
        while True:  # the first may still find room in the pipe
            await child.send(Said("nobody hears"))

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(tell(), 30)


@pytest.mark.parametrize(
    "line",
    [
        b"Loading ...",
        b"",
        b"\xff",
        b'{"word": NaN}',
        b'{"word": 1}',
        b"{}",
        b'{"word": "one", "more": ' + b"[" * 20_000 + b"}",
        b'{"word": "' + b"x" * 70_000 + b'"}',
    ],
    ids=lambda line: line[:12],
)
async def test_one_whose_line_cannot_be_read_is_ended_and_logged(
    start: Start, caplog: pytest.LogCaptureFixture, line: bytes
) -> None:
    script = f"import sys; sys.stdout.buffer.write({line!r} + b'\\n'); sys.stdout.flush()\n"
    child = await start(script + DEAF)
    assert await child.read() is None
    assert child.exit_code == -signal.SIGKILL
    assert f"child process {child.pid} is ended" in caplog.text


async def test_its_stderr_is_heard_to_the_end(start: Start) -> None:
    heard: list[str] = []
    child = await start(
        "import os, sys; os.write(2, b'one\\ntwo\\n'); sys.exit(3)", hear=heard.extend
    )
    await child.leave(30)
    assert (child.exit_code, heard) == (3, ["one", "two"])


async def test_its_environment_can_be_set(start: Start) -> None:
    child = await start(
        "import os; print('{\"word\": \"%s\"}' % os.environ['TMPDIR'])",
        environment={"TMPDIR": "/elsewhere"},
    )
    assert await child.read() == Said("/elsewhere")
