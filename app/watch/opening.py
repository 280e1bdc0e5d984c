"""Opens what holds assertions against a service's traces, looks for proposals, and counts times."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from app.errors import SettingsError
from app.extras import missing_packages
from app.stored.assertions import WebhookState
from app.watch.judging import Judges
from app.watch.looking import DurationWatch, Looking
from app.watch.watcher import Watcher
from app.watch.webhook import Webhook, secret_in

if TYPE_CHECKING:
    from app.settings import Settings
    from app.store.store import Store
    from app.traces.holding.here import TracesHere


def open_watches(
    stack: AsyncExitStack, settings: Settings, store: Store, traces: TracesHere
) -> None:
    """Hold assertions against the traces that run here, count durations, and look for proposals.

    The webhook is told if there is one; proposals are looked for unless that is off, or not
    installed.
    """
    webhook = _webhook(settings, store)
    watcher = Watcher(
        store.assertions,
        store.watching,
        traces,
        Judges(store).judge,
        delivery=WebhookState.none if webhook is None else WebhookState.due,
        found=None if webhook is None else webhook.wake,
    )
    lookout = Looking(store.proposals, traces, settings.database.reveal())
    durations = DurationWatch(store.durations, traces)
    looks = settings.proposals and not missing_packages()
    for task in (webhook, watcher, lookout if looks else None, durations):
        if task is not None:
            task.run_in(stack)


def _webhook(settings: Settings, store: Store) -> Webhook | None:
    """The webhook for violations, if one is set. Raises `SettingsError`."""
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
        settings.webhook_url,
        f"urn:rabbitmq-itc:{store.name}",
        secret=secret,
    )
