"""The start, stop and removal that brokers and databases have in common here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Server(ABC):
    """Start and `close` it, or use it as a context manager, which does both."""

    @abstractmethod
    def start(self) -> Self:
        """Start it, unless it is running, and wait until it answers; raises `ServerError`."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it cleanly; the data stays."""

    def restart(self) -> None:
        """Stop it and start it again on the same ports and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it, and remove its data if they are temporary."""
        self.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
