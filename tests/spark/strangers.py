"""What another user of the machine sees of Spark's processes, and can say to them."""

from __future__ import annotations

import contextlib
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

LISTENING = "0A"


def processes(session: int) -> list[Path]:
    """The folders under /proc of a session's processes."""
    return [folder for folder in _folders() if _session(folder) == session]


def _folders() -> Iterator[Path]:
    return (folder for folder in Path("/proc").iterdir() if folder.name.isdigit())


def command_lines() -> list[bytes]:
    """What everybody sees of all processes."""
    found = []
    for folder in _folders():
        with contextlib.suppress(OSError):
            found.append((folder / "cmdline").read_bytes())
    return found


def _session(folder: Path) -> int | None:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[3])
    except OSError:  # it ended meanwhile
        return None


def _inodes(session: int) -> set[str]:
    found = set()
    for folder in processes(session):
        with contextlib.suppress(OSError):
            for descriptor in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found.add(str(descriptor.readlink()).removeprefix("socket:[").rstrip("]"))
    return found


def ports(session: int) -> set[int]:
    """The TCP ports that a session's processes listen at."""
    inodes = _inodes(session)
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {
        int(line[1].rpartition(":")[2], 16)
        for line in lines
        if line[3] == LISTENING and line[9] in inodes
    }


def socket_files(session: int) -> set[Path]:
    """The sockets of the file system that a session's processes have."""
    inodes = _inodes(session)
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {Path(line[7]) for line in lines if line[6] in inodes and len(line) > 7}


def is_open_to_others(path: Path) -> bool:
    """Whether another user could connect to a socket, for which he has to write to it."""
    everybody = stat.S_IWGRP | stat.S_IWOTH
    reachable = all(
        folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for folder in path.parents
    )
    return bool(reachable and path.stat().st_mode & everybody)


def connect(port: int, says: bytes) -> socket.socket:
    """A connection that has said that."""
    stranger = socket.create_connection(("127.0.0.1", port), timeout=10)
    with contextlib.suppress(OSError):  # who hangs up at once has refused it
        stranger.sendall(says)
    return stranger


def answer(stranger: socket.socket, seconds: float) -> bytes | None:
    """What comes back first: nothing where it is hung up, None where it stays silent."""
    stranger.settimeout(seconds)
    try:
        return stranger.recv(1024)
    except TimeoutError:
        return None
    except OSError:
        return b""


class Orders:
    """Orders to parts of Spark as any client of its protocol would give them, without a secret."""

    def __init__(self, spark: SparkSession) -> None:
        """``spark`` is any session of the same version, whose JVM writes the order down."""
        self._jvm = spark._jvm

    def stop_block_manager(self, port: int) -> bytes:
        """Tell the driver's block manager to stop: every job after that fails."""
        name = "org.apache.spark.storage.BlockManagerMessages$StopBlockManagerMaster$"
        return self._request(port, "BlockManagerMaster", name)

    def _request(self, port: int, endpoint: str, order: str) -> bytes:
        receiver = b"\1" + _text("127.0.0.1") + struct.pack(">i", port) + _text(endpoint)
        body = b"\0" + receiver + self._written(order)
        # A frame is its length, its type (3: a request), the request's number, the body's length.
        head = struct.pack(">bqi", 3, 1, len(body))
        return struct.pack(">q", 8 + len(head) + len(body)) + head + body

    def _written(self, order: str) -> bytes:
        jvm = self._jvm
        assert jvm is not None
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        target = jvm.java.io.ByteArrayOutputStream()
        writer = jvm.java.io.ObjectOutputStream(target)
        writer.writeObject(loader.loadClass(order).getField("MODULE$").get(None))
        writer.flush()
        return bytes(target.toByteArray())


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
