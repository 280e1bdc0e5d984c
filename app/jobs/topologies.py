"""The folder of topologies: who sent what where, a file for each virtual host and period.

Written as exports are, under a temporary name and then renamed, so what is here is complete.
Everything here blocks on the disk: call it in a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from app.errors import BadRequestError, NotFoundError
from app.jobs.requests import JobRequest
from app.stored.jobs import Json

PERIOD = re.compile(r"([0-9]{1,19})-([0-9]{1,19})\.json")
# How many periods of a virtual host are kept, those counted last.
KEPT = 100


class Topologies:
    """The topologies under one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def request(self, vhost: str, since: int, until: int, owner: str) -> JobRequest:
        """The job that counts the flows from ``since`` to before ``until`` (µs).

        Raises `BadRequestError` for an invalid period.
        """
        if not 0 <= since < until:
            raise BadRequestError("a topology needs a time: since must be before until")
        output = self._of(vhost) / f"{since}-{until}.json"
        shown: Json = {"vhost": vhost, "since": since, "until": until}
        return JobRequest(
            kind="topology",
            vhost=vhost,
            owner=owner,
            shown=shown,
            work={**shown, "output": str(output)},
        )

    def get(self, vhost: str, since: int | None = None, until: int | None = None) -> Json:
        """The topology of a period, or the one counted last; raises `NotFoundError`."""
        for path in self._newest_first(vhost):
            period = PERIOD.fullmatch(path.name)
            if period is None or (since is not None and int(period[1]) != since):
                continue
            if until is None or int(period[2]) == until:
                with contextlib.suppress(FileNotFoundError):  # removed just now
                    found: Json = msgspec.json.decode(path.read_bytes())
                    return found
        raise NotFoundError(f"no topology of {vhost} was counted for that time")

    def forget_old(self, vhost: str) -> None:
        """Remove all but the newest `KEPT` topologies of a virtual host."""
        for path in list(self._newest_first(vhost))[KEPT:]:
            path.unlink(missing_ok=True)

    def _of(self, vhost: str) -> Path:
        # A virtual host's name may be anything; its digest is a valid file name.
        return self._folder / hashlib.sha256(vhost.encode()).hexdigest()[:32]

    def _newest_first(self, vhost: str) -> Iterator[Path]:
        found = []
        for path in self._of(vhost).glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # removed just now
                found.append((path.stat().st_mtime_ns, path))
        return (path for _, path in sorted(found, reverse=True))
