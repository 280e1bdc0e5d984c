"""Opens the service's parts of the broker."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from app.broker.announcements import Announcements
from app.broker.consumer import Firehose
from app.broker.management import ManagementApi
from app.broker.source import TraceSource
from app.broker.trace_queue import QueueBounds

if TYPE_CHECKING:
    from app.settings import Settings


class BrokerParts:
    """The broker, under the service's own account; closed with the ``stack``."""

    def __init__(self, stack: AsyncExitStack, settings: Settings, owner: str, service: str) -> None:
        """``owner`` is our database's name, ``service`` the id of this service."""
        self._settings = settings
        self.management = management_api(settings)
        stack.push_async_callback(self.management.close)
        firehose = Firehose(
            settings.broker,
            bounds=QueueBounds(settings.trace_queue_max_bytes, settings.trace_queue_max_messages),
            queue=settings.trace_queue,
            owner=owner,
            service=service,
        )
        self.source = TraceSource(firehose, self.management, guard=settings.trace_queue_policy)

    def announcements(self) -> Announcements:
        return Announcements(self._settings.broker, self.management, self._settings.trace_queue)


def management_api(settings: Settings) -> ManagementApi:
    user, password = settings.management_credentials
    return ManagementApi(settings.management_url.without_credentials, user, password)
