"""An address that may hold a password or a token, and never shows it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

_TOKEN = re.compile(r"(;token=)[^;?#]*", re.IGNORECASE)


class SecretUrl:
    """A URL that shows itself without its secrets; ``reveal()`` gives all of it.

    Those are its password, and the ``;token=`` of a Spark Connect server's.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.parts = urlsplit(url)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._validate)

    @classmethod
    def _validate(cls, value: object) -> SecretUrl:
        if isinstance(value, SecretUrl):
            return value
        if not isinstance(value, str) or "://" not in value:
            raise ValueError("not a URL: expected scheme://host…")
        try:
            url = cls(value)
            _ = url.parts.port  # a port that is no number raises here, not at first use
        except ValueError:
            # Not the library's text: what it takes for the port may be a piece of the password.
            raise ValueError("not a URL: its host or port cannot be read") from None
        return url

    def reveal(self) -> str:
        """The whole URL, password included: for the library that connects, for nobody else."""
        return self._url

    @property
    def user(self) -> str | None:
        return None if self.parts.username is None else unquote(self.parts.username)

    @property
    def password(self) -> str | None:
        return None if self.parts.password is None else unquote(self.parts.password)

    @property
    def without_credentials(self) -> str:
        return urlunsplit(self.parts._replace(netloc=self.parts.netloc.rpartition("@")[2]))

    def __str__(self) -> str:
        if self.parts.password is None:
            return _TOKEN.sub(r"\1***", self._url)
        host = self.parts.netloc.rpartition("@")[2]
        redacted = self.parts._replace(netloc=f"{self.parts.username}:***@{host}")
        return _TOKEN.sub(r"\1***", urlunsplit(redacted))

    def __repr__(self) -> str:
        return f"SecretUrl({str(self)!r})"

    def __eq__(self, url: object) -> bool:
        return isinstance(url, SecretUrl) and self._url == url._url

    def __hash__(self) -> int:
        return hash(self._url)
