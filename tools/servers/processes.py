"""Child processes that we wait for by condition and that never outlive us."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

POLL_SECONDS = 0.05
OWN_PORTS = range(20_000, 32_000)  # below those that Linux gives to clients
LOG_LINES_SHOWN = 15
# Whoever started us in the background or under nohup has these ignored; what we start has not.
SIGNALS = ("env", "--default-signal=HUP,INT,QUIT")


class ServerError(Exception):
    """A server could not be started or did not do what was asked; says which and why."""


def without_settings() -> dict[str, str]:
    """Return this process's environment without what configures a service or its client."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ITC_")}


def free_port() -> int:
    """Return a TCP port that is free on the loopback interface at this moment.

    It is none that a client's end of a connection may get: a server that is down while its clients
    try to come back would find it taken.
    """
    while True:
        port = secrets.choice(OWN_PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def port_answers(port: int) -> bool:
    """Tell whether something accepts connections on a port of the loopback interface."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until the condition holds; raise `ServerError` naming ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"{what} did not happen within {seconds:g} s")
        time.sleep(POLL_SECONDS)


class _Guard:
    """Our end of the pipe to `tools.servers.guard`, which is started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def tell(self, message: dict[str, object]) -> None:
        with self._lock:
            pipe = self._running()
            pipe.write(json.dumps(message) + "\n")
            pipe.flush()

    def _running(self) -> IO[str]:
        if self._process is None or self._owner != os.getpid():  # a fork must have its own
            self._owner = os.getpid()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdin is not None  # noqa: S101 - requested just above
        return self._process.stdin


_guard = _Guard()


class Folder:
    """A server's data folder: a given one, or a temporary one that is removed with it."""

    def __init__(self, path: Path | None, prefix: str) -> None:
        self.temporary = path is None
        self.path = Path(tempfile.mkdtemp(prefix=prefix)) if path is None else path.resolve()
        if self.temporary:
            _guard.tell({"folder": str(self.path)})
        self.path.mkdir(parents=True, exist_ok=True)

    def discard(self) -> None:
        """Remove it if it is temporary."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
            _guard.tell({"kept": str(self.path)})


class Child:
    """One process of ours, with its output in a log file.

    ``stop_signal`` asks it to end cleanly; ``death_signal`` is what it gets if we die first.
    It has a session of its own: a Ctrl-C in the terminal reaches only us, and we end it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        unix_user: str | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.name = name
        self.log = log
        self._stop_signal = stop_signal
        with log.open("ab") as output:
            self._log_start = output.tell()
            try:
                self._process = subprocess.Popen(
                    [*SIGNALS, *(str(word) for word in command)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=None if env is None else dict(env),
                    cwd=cwd,
                    start_new_session=True,
                    user=unix_user,
                    group=unix_user,
                    extra_groups=None if unix_user is None else [],
                )
            except OSError as error:
                raise ServerError(f"{name} could not be started: {error}") from error
        _guard.tell({"pid": self.pid, "signal": int(death_signal)})

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll()

    def wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """As the function of this name, but fail at once, with the log, if the process ends."""

        def holds_or_died() -> bool:
            if self.exit_code is not None:
                raise ServerError(f"{self.name} ended with {self.exit_code}{self.log_tail()}")
            return condition()

        try:
            wait_until(holds_or_died, seconds, f"{self.name}: {what}")
        except ServerError as error:
            if self.exit_code is None:
                raise ServerError(f"{error}{self.log_tail()}") from None
            raise

    def wait(self, seconds: float | None = None) -> int:
        """Wait for its end and return the exit code; raises `ServerError` if it takes longer."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise ServerError(f"{self.name} did not end within {seconds:g} s") from error
        _guard.tell({"gone": self.pid})
        return code

    def stop(self, seconds: float = 30) -> int:
        """Ask it to end, force it after ``seconds``; return the exit code."""
        self.signal(self._stop_signal)
        try:
            return self.wait(seconds)
        except ServerError:
            return self.kill()

    def kill(self) -> int:
        """End it with SIGKILL, as a crash would; return the exit code."""
        self.signal(signal.SIGKILL)
        return self.wait(30)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def log_tail(self) -> str:
        """Return the last lines it wrote since its start, to follow an error's text."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()
        return "".join(f"\n  | {line}" for line in lines[-LOG_LINES_SHOWN:])
