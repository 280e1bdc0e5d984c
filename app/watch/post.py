"""Sends to the webhook's address, which only the service's own setting names.

Redirects are not followed: they would have another address be called. Of an answer nothing is read
but its status. An error names the host alone: whatever else is in the address may be a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx

from app.errors import OutageError
from app.secret_url import SecretUrl

REQUEST_SECONDS = 10.0  # what most senders of webhooks grant


class WebhookPost:
    """The address, and how long (s) one request to it may take in all."""

    def __init__(
        self,
        url: SecretUrl,
        seconds: float = REQUEST_SECONDS,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url
        self._seconds = seconds
        self._http = httpx.AsyncClient(
            timeout=seconds, transport=transport, trust_env=False, follow_redirects=False
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a body; raises `OutageError` if it was not taken, or nobody knows."""
        host = self._url.parts.hostname
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._http.stream(
                    "POST", self._url.reveal(), content=body, headers=dict(headers)
                ) as answer,
            ):
                status = answer.status_code
        except (TimeoutError, httpx.TimeoutException) as error:
            raise OutageError(f"{host} did not answer within {self._seconds:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            # Not the library's text, which may quote the address.
            raise OutageError(f"{host} cannot be reached: {type(error).__name__}") from error
        if not 200 <= status < 300:
            raise OutageError(f"{host} answered with {status}")
