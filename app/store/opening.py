"""Opens the store, and keeps a second service off a SQLite file.

The lock is the system's, on a file beside the database. It belongs to the process that took it: it
ends with that process however it ends, and no child of it has it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import SettingsError
from app.store.database import sqlite
from app.store.database.engine import parse_url
from app.store.database.migrate import migrate
from app.store.store import Store

if TYPE_CHECKING:
    from app.settings import Settings


async def open_store(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    service: str | None = None,
    indexed_headers: Mapping[str, bool] | None = None,
) -> Store:
    """Open the store of a service, which has a SQLite file for itself, or of one of its children.

    It is closed with the ``stack``.
    """
    url = settings.database.reveal()
    if service is not None:
        stack.enter_context(only_service(url))
    if settings.database_migrate:
        await migrate(url)
    store = await Store.open(
        url,
        payload_max_bytes=settings.payload_max_bytes,
        service=service,
        indexed_headers=indexed_headers,
        traceparents=settings.otlp,
    )
    stack.push_async_callback(store.close)
    return store


@contextlib.contextmanager
def only_service(database_url: str) -> Iterator[None]:
    """Be the only service on a database, if it is a SQLite file.

    Raises `SettingsError` if another one is there.
    """
    url = parse_url(database_url)
    if url.get_backend_name() != sqlite.NAME or not url.database:
        yield
        return
    lock_file = Path(f"{url.database}.lock").absolute()
    try:
        lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(
            f"ITC_DATABASE_URL: {lock_file} cannot be written ({error.strerror})"
        ) from error
    try:
        _lock(descriptor, url.database)
        yield
    finally:
        os.close(descriptor)  # this unlocks it; the file stays for others that wait to lock it


def _lock(descriptor: int, database: str) -> None:
    try:
        # POSIX's kind: not inherited by a fork, unlike flock's.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pid = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        holder = f" (process {pid})" if pid.isdigit() else ""
        raise SettingsError(
            f"ITC_DATABASE_URL: another service{holder} uses {database}: stop that one first, "
            "or have all of them use one PostgreSQL"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
