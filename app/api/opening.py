"""Opens what the routes work with besides the other rooms' parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.api.otlp.intake import Intake, IntakeBounds
from app.api.signin.auth import Authenticator, BrokerAuthenticator, OpenAccess
from app.settings import Settings
from app.traces.spanwatch import SpanWatch

if TYPE_CHECKING:
    from app.broker.management import ManagementApi
    from app.store.store import Store


def authenticator(settings: Settings, management: ManagementApi) -> Authenticator:
    if settings.auth == "none":
        return OpenAccess()
    return BrokerAuthenticator(
        management,
        cache_seconds=settings.auth_cache_seconds,
        loopback_users=settings.loopback_users,
    )


def intake(settings: Settings, store: Store, watch: SpanWatch | None) -> Intake | None:
    """Where spans come in, for those that ``watch`` resolves; None where they are off."""
    if watch is None:
        return None
    bounds = IntakeBounds(days=settings.retention_days)
    return Intake(store.spans, bounds, arrived=watch.arrived)
