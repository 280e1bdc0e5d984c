"""Opens what the routes work with besides the other rooms' parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.api.otlp.intake import Intake, IntakeBounds
from app.api.searching import Searches
from app.api.signin.auth import Authenticator, BrokerAuthenticator, NobodyAsked
from app.settings import Settings
from app.traces.spanwatch import SpanWatch

if TYPE_CHECKING:
    from app.broker.management import ManagementApi
    from app.store.store import Store


def authenticator(settings: Settings, management: ManagementApi) -> Authenticator:
    """Whoever decides who may sign in."""
    if settings.auth == "none":
        return NobodyAsked()
    return BrokerAuthenticator(
        management,
        cache_seconds=settings.auth_cache_seconds,
        cache_users=settings.auth_cache_users,
        failures=settings.sign_in_failures,
        loopback_users=settings.loopback_users,
    )


def searches(settings: Settings, store: Store) -> Searches:
    """The turns at searches."""
    return Searches(
        store.events,
        at_once=settings.searches,
        each=settings.searches_per_user,
        waiting=settings.searches_waiting,
    )


def intake(settings: Settings, store: Store, watch: SpanWatch | None) -> Intake | None:
    """Where spans come in, for those that ``watch`` resolves; None where they are off."""
    if watch is None:
        return None
    bounds = IntakeBounds(
        unpacked_bytes=settings.otlp_unpacked_max_bytes,
        spans=settings.otlp_spans_per_request,
        per_second=settings.otlp_spans_per_second,
        days=settings.retention_days,
    )
    return Intake(store.spans, bounds, arrived=watch.arrived)
