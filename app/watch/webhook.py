"""Tells a webhook of violations: CloudEvents 1.0 in JSON, signed as Standard Webhooks demands.

Violations wait in the store, and are sent again after pauses that double, until they are taken or
given up. An event keeps its id, so that a receiver recognises a double. If an assertion is violated
again and again in one minute, a summary follows when that is over.

Only the service's own setting names the address. Redirects are not followed: they could lead to any
other address. Only an answer's status is read. An error names the host alone: the rest of the
address may be a secret.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec

from app.background import Lookout
from app.errors import OutageError
from app.secret_url import SecretUrl
from app.stored.assertions import Notification
from model.described import json_of
from model.times import MINUTE, iso_time, now

if TYPE_CHECKING:
    from app.store.watch.violations import Violations

log = logging.getLogger(__name__)

EVENT_TYPE = "rabbitmq-itc.assertion.violated"
SUMMARY_TYPE = f"{EVENT_TYPE}.more"
REQUEST_SECONDS = 10.0  # the usual bound of webhooks' senders
FIELDS = ("id", "vhost", "assertion", "kind", "event", "root", "type", "at", "found_at", "sentence")
CONTENT_TYPE = "application/cloudevents+json"
AT_ONCE = 4  # requests under way
# The pause after the first attempt, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
# A receiver that is mended within a day is told all.
GIVE_UP_SECONDS = 86_400.0
# The time of a claim beyond that of its request.
SLACK_SECONDS = 30.0

_SECOND = 1_000_000
_ENCODED_SECRET = "whsec_"  # noqa: S105  how Standard Webhooks marks a secret in base64


@dataclass(eq=False)
class Webhook(Lookout):
    """The task that sends; it goes on where it ended.

    ``source`` names this installation. One request may take ``seconds`` in all; a violation that
    was not taken for ``give_up_seconds`` is given up. Without a ``secret`` nothing is signed.
    """

    task_name = "telling the webhook"
    look_seconds = 1.0  # for due ones, if nobody reports new ones
    pause_seconds = 5.0

    store: Violations
    url: SecretUrl
    source: str
    _: KW_ONLY
    seconds: float = REQUEST_SECONDS
    give_up_seconds: float = GIVE_UP_SECONDS
    secret: bytes | None = None
    clock: Callable[[], int] = now
    transport: httpx2.AsyncBaseTransport | None = None

    def __post_init__(self) -> None:
        self._http = httpx2.AsyncClient(
            timeout=self.seconds, transport=self.transport, trust_env=False, follow_redirects=False
        )

    async def stop(self) -> None:
        await super().stop()
        await self._http.aclose()

    async def look(self) -> bool:
        """Send some due violations; tell whether there may be more."""
        moment = self.clock()
        deadline = moment + int((self.seconds + SLACK_SECONDS) * _SECOND)
        due = await self.store.claim(moment, deadline, AT_ONCE)
        await asyncio.gather(*map(self._tell_of, due))
        return len(due) == AT_ONCE

    async def _tell_of(self, report: Notification) -> None:
        event = cloud_event(report, self.source)
        body = msgspec.json.encode(event)
        headers = {"content-type": CONTENT_TYPE, "user-agent": "rabbitmq-itc"}
        if self.secret is not None:
            headers |= signature(self.secret, event["id"], self.clock() // _SECOND, body)
        try:
            await self._send(body, headers)
        except OutageError as error:
            await self._try_later(report, str(error))
        else:
            await self.store.note_notification(report, moment=self.clock())

    async def _send(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a body; raises `OutageError` if it was not taken, or nobody knows."""
        host = self.url.parts.hostname
        try:
            async with (
                asyncio.timeout(self.seconds),
                self._http.stream(
                    "POST", self.url.reveal(), content=body, headers=dict(headers)
                ) as answer,
            ):
                status = answer.status_code
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise OutageError(f"{host} did not answer within {self.seconds:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            # Not the library's text, which may quote the address.
            raise OutageError(f"{host} cannot be reached: {type(error).__name__}") from error
        if not 200 <= status < 300:
            raise OutageError(f"{host} answered with {status}")

    async def _try_later(self, report: Notification, error: str) -> None:
        moment, violation = self.clock(), report.first
        next_at: int | None = moment + int(pause(violation.attempts) * _SECOND)
        # By the pauses, not by a clock, which may have been ahead when the violation was found.
        if sum(map(pause, range(violation.attempts))) >= self.give_up_seconds:
            next_at = None
            log.error("the webhook is not told of violation %d: %s", violation.id, error)
        elif not violation.attempts:
            log.warning("the webhook is to be told again of violation %d: %s", violation.id, error)
        await self.store.note_notification(report, moment=moment, error=error, next_at=next_at)


def pause(attempts: int) -> float:
    """The time to wait (s) after this many attempts before the one that just failed."""
    return min(FIRST_PAUSE * 2.0 ** min(attempts, 30), LONGEST_PAUSE)


def cloud_event(report: Notification, source: str) -> dict[str, Any]:
    """A violation, or a summary of several, as a CloudEvent; the same one each time."""
    first = report.first
    is_one, fields = report.count == 1, json_of(first)
    return {
        "specversion": "1.0",
        "id": f"violation-{first.id}" if is_one else f"violations-{first.id}-{report.last}",
        "source": source,
        "type": EVENT_TYPE if is_one else SUMMARY_TYPE,
        "subject": first.assertion,
        "time": iso_time(first.found_at),
        "datacontenttype": "application/json",
        "data": {name: fields[name] for name in FIELDS} if is_one else _summary(report),
    }


def _summary(report: Notification) -> dict[str, Any]:
    first = report.first
    minute = iso_time(first.found_at // MINUTE * MINUTE)
    return {
        "vhost": first.vhost,
        "assertion": first.assertion,
        "kind": first.kind.value,
        "count": report.count,
        "first": first.id,
        "last": report.last,
        "minute": minute,
        "sentence": f"{report.count:,} more in this minute",
    }


def signature(secret: bytes, event_id: str, moment: int, body: bytes) -> Mapping[str, str]:
    """The headers that sign a body at a time (s): HMAC-SHA256 of id, time and body."""
    content = b".".join((event_id.encode(), str(moment).encode(), body))
    mark = base64.b64encode(hmac.digest(secret, content, hashlib.sha256)).decode()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(moment),
        "webhook-signature": f"v1,{mark}",
    }


def secret_in(text: bytes) -> bytes:
    """The secret in a file: its text, or base64 after ``whsec_``. Raises `ValueError` if empty."""
    plain = text.strip()
    prefix = _ENCODED_SECRET.encode()
    if plain.startswith(prefix):
        plain = base64.b64decode(plain.removeprefix(prefix), validate=True)
    if not plain:
        raise ValueError("it is empty")
    return plain
