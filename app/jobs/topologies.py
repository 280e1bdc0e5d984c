"""Topologies: who sent what where, a document for each virtual host and period."""

from __future__ import annotations

import re
from pathlib import Path

from app.errors import BadRequestError, NotFoundError
from app.jobs.folders import Documents
from app.jobs.requests import JobRequest
from app.stored.jobs import Json

PERIOD = re.compile(r"([0-9]{1,19})-([0-9]{1,19})\.json")


class Topologies:
    """The topologies under one folder."""

    def __init__(self, folder: Path) -> None:
        self._documents = Documents(folder)

    def request(self, vhost: str, since: int, until: int, owner: str) -> JobRequest:
        """The job that counts the flows from ``since`` to before ``until`` (µs).

        Raises `BadRequestError` for an invalid period.
        """
        if not 0 <= since < until:
            raise BadRequestError("a topology needs a time: since must be before until")
        output = self._documents.path(vhost, f"{since}-{until}.json")
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
        paths = self._documents.newest_first("*.json", vhost)
        fitting = (path for path in paths if _is_of(path.name, since, until))
        for found in self._documents.read(fitting):
            return found
        raise NotFoundError(f"no topology of {vhost} was counted for that time")

    def forget_old(self, vhost: str) -> None:
        """Remove the oldest topologies of a virtual host where there are too many."""
        self._documents.forget_old(vhost, "*.json")


def _is_of(name: str, since: int | None, until: int | None) -> bool:
    period = PERIOD.fullmatch(name)
    return period is not None and (
        (since is None or int(period[1]) == since) and (until is None or int(period[2]) == until)
    )
