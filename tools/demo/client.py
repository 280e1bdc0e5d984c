"""The few calls of the service's REST API that the demo needs."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx2

from tools.servers import ServerError

CHAIN_SECONDS = 300.0  # the first job also starts Spark: 7 to 16 s on two idle cores
PAGE = 500
LONGEST = 1000  # events of a chain in one answer
LONG_POLL_SECONDS = 5

Event = dict[str, Any]  # as docs/api.md shows it


class ItcClient:
    """The REST API at ``url``, as ``user``. Raises `ServerError` with the service's own reason."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        self._http = httpx2.Client(base_url=url, auth=(user, password), timeout=30)

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def is_ready(self) -> bool:
        """Tell whether the service has everything that it needs."""
        try:
            return self._http.get("/health/ready").status_code == 200
        except httpx2.HTTPError:
            return False

    def start_trace(self, vhost: str) -> bool:
        """Start a virtual host's trace; say whether it was not running before."""
        return self._call("PUT", trace_path(vhost)).status_code == 201

    def trace(self, vhost: str) -> dict[str, Any]:
        """Return a trace's state."""
        answer: dict[str, Any] = self._call("GET", trace_path(vhost)).json()
        return answer

    def stop_trace(self, vhost: str) -> None:
        """Stop a virtual host's trace; its events stay."""
        self._call("DELETE", trace_path(vhost))

    def newest_event_id(self, vhost: str) -> int:
        """Return the id of the last event of a virtual host; 0 without any."""
        events = self._call("GET", "/itc_db", params={"vhost": vhost, "page_size": 1}).json()
        return max((int(event["id"]) for event in events), default=0)

    def events_after(self, vhost: str, after: int) -> list[Event]:
        """Return the next events after an id, waiting a little if there are none yet."""
        asked = {"vhost": vhost, "after": after, "page_size": PAGE, "wait": LONG_POLL_SECONDS}
        answer: list[Event] = self._call("GET", "/itc_db", params=asked).json()
        return answer

    def compare(self, a: int, b: int) -> dict[str, Any]:
        """Return the relation of two events."""
        answer: dict[str, Any] = self._call("GET", f"/itc_db/compare/{a}/{b}").json()
        return answer

    def chain(self, first: int, last: int) -> dict[str, Any]:
        """Return the chain between two events as the service finds it at once."""
        path = f"/itc_db/chain/{first}/{last}"
        answer: dict[str, Any] = self._call("GET", path, params={"limit": LONGEST}).json()
        return answer

    def make_chain(self, first: int, last: int, file: str) -> dict[str, Any]:
        """Have the chain between two events written; return the summary."""
        path = f"/itc_db/undefined/{first}/{last}/{file}"
        answer: dict[str, Any] = self._call("PUT", path, timeout=CHAIN_SECONDS).json()
        return answer

    def make_report(self, kind: str, vhost: str, since: str) -> str:
        """Have a report made on what happened since a time (ISO 8601); return its id."""
        asked = {"vhost": vhost, "since": since}
        path = f"/itc_db/reports/{kind}"
        return str(self._call("PUT", path, params=asked, timeout=CHAIN_SECONDS).json()["id"])

    def download(self, location: str) -> list[Event]:
        """Return the events of an export in JSON lines."""
        text = self._call("GET", location).text
        return [json.loads(line) for line in text.splitlines() if line]

    def _call(self, method: str, path: str, **more: Any) -> httpx2.Response:
        try:
            answer = self._http.request(method, path, **more)
        except httpx2.HTTPError as error:
            raise ServerError(f"{method} {path}: {error or type(error).__name__}") from error
        if answer.is_error:
            raise ServerError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer


def trace_path(vhost: str) -> str:
    """Return the path of a virtual host's trace."""
    return f"/itc_db/{quote(vhost, safe='')}/undefined/undefined/undefined"


class EventFeed:
    """All events of a virtual host from now on, read as they come."""

    def __init__(self, client: ItcClient, vhost: str) -> None:
        self._client = client
        self._vhost = vhost
        self._position = client.newest_event_id(vhost)

    def more(self) -> list[Event]:
        """Return those that came since the last call, perhaps none."""
        events = self._client.events_after(self._vhost, self._position)
        self._position = max((int(event["id"]) for event in events), default=self._position)
        return events
