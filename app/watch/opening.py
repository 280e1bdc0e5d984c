"""Opens what holds assertions against the traces of a service, and what looks for proposals."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from app.errors import SettingsError
from app.stored.assertions import WebhookState
from app.watch.judging import Judges
from app.watch.looking import DurationWatch, Looking
from app.watch.watcher import Watcher
from app.watch.webhook import Webhook, WebhookPost, secret_in

if TYPE_CHECKING:
    from app.settings import Settings
    from app.store.store import Store
    from app.traces.here import TracesHere


def watch_assertions(
    stack: AsyncExitStack, settings: Settings, store: Store, traces: TracesHere
) -> None:
    """Hold assertions against the traces that run here, and tell the webhook if there is one."""
    webhook = _webhook(settings, store)
    if webhook is not None:
        webhook.start()
        stack.push_async_callback(webhook.stop)
    subjects = (store.watching, store.conversations, store.events, store.gaps, store.doubts)
    watcher = Watcher(
        store.assertions,
        store.watching,
        traces,
        Judges(*subjects, store.copies).judge,
        delivery=WebhookState.none if webhook is None else WebhookState.due,
        found=None if webhook is None else webhook.arrived,
    )
    watcher.start()
    stack.push_async_callback(watcher.stop)


def watch_for_proposals(
    stack: AsyncExitStack, settings: Settings, store: Store, traces: TracesHere
) -> None:
    """Look for what ties the messages of the traces that run here together, unless it is off."""
    if settings.proposals:
        looking = Looking(store.proposals, traces, settings.database.reveal())
        looking.start()
        stack.push_async_callback(looking.stop)


def watch_durations(stack: AsyncExitStack, store: Store, traces: TracesHere) -> None:
    """Count how long messages wait and are handled."""
    watch = DurationWatch(store.durations, traces)
    watch.start()
    stack.push_async_callback(watch.stop)


def _webhook(settings: Settings, store: Store) -> Webhook | None:
    """Whoever is told of what did not hold; None for nobody. Raises `SettingsError`."""
    if settings.webhook_url is None:
        return None
    secret, file = None, settings.webhook_secret_file
    if file is not None:
        try:
            secret = secret_in(file.read_bytes())
        except OSError as error:
            raise SettingsError(f"ITC_WEBHOOK_SECRET_FILE: {file}: {error.strerror}") from error
        except ValueError as error:
            raise SettingsError(f"ITC_WEBHOOK_SECRET_FILE: {file}: {error}") from error
    return Webhook(
        store.violations,
        WebhookPost(settings.webhook_url),
        f"urn:rabbitmq-itc:{store.name}",
        secret=secret,
    )
