"""The store's composition: one database, and a part for each subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.capture import keys
from app.store.capture.aliases import Aliases
from app.store.capture.batches import Batches, StorageBounds
from app.store.capture.checkpoints import Checkpoints
from app.store.capture.connections import Connections
from app.store.capture.doubts import Doubts
from app.store.capture.gaps import Gaps
from app.store.capture.link_rules import LinkRules
from app.store.capture.proposals import RuleProposals
from app.store.capture.quarantine import Quarantine
from app.store.capture.redactions import Redactions
from app.store.capture.retention import Retention
from app.store.capture.traces import Traces
from app.store.causality.chains import Chains
from app.store.causality.copies import Copies
from app.store.causality.hidden import Hidden
from app.store.causality.touched import Futures
from app.store.causality.walks import Causality
from app.store.conversations.failures import Failures
from app.store.conversations.lists import Conversations
from app.store.database import tables
from app.store.database.engine import Database
from app.store.database.lanes import Lane
from app.store.database.migrate import check_schema
from app.store.holding.leases import Leases
from app.store.holding.services import Services
from app.store.jobs import Jobs
from app.store.reading.participants import Participants
from app.store.reading.periods import Periods
from app.store.reading.queries import Events
from app.store.restamps import Restamps
from app.store.spans.exports import SpanExports
from app.store.spans.imported import Spans
from app.store.watch.assertions import Assertions
from app.store.watch.durations import Durations
from app.store.watch.violations import Violations
from app.store.watch.watching import Watching
from app.stored.reading import SEARCHES
from model.times import now

_installation = tables.installation.c

T = TypeVar("T")


class Store:
    """The store by subject, on SQLite or PostgreSQL: ``store.traces.find(vhost)``."""

    def __init__(
        self, database: Database, name: str, bounds: StorageBounds, service: str | None = None
    ) -> None:
        self.name = name  # tells this database from every other
        self._database = database
        self.traces = Traces(database)
        self.leases = Leases(database)
        self.services = Services(database)
        self.batches = Batches(database, bounds)
        self.checkpoints = Checkpoints(database)
        self.gaps = Gaps(database)
        self.doubts = Doubts(database)
        self.failures = Failures(database)
        self.hidden = Hidden(database)
        self.periods = Periods(database)
        self.quarantine = Quarantine(database)
        self.events = Events(database)
        self.causality = Causality(database)
        self.conversations = Conversations(database)
        self.chains = Chains(database)
        self.touched = Futures(database)
        self.copies = Copies(database)
        self.participants = Participants(database)
        self.aliases = Aliases(database)
        self.link_rules = LinkRules(database)
        self.redactions = Redactions(database)
        self.proposals = RuleProposals(database)
        self.connections = Connections(database)
        self.jobs = Jobs(database, service)
        self.retention = Retention(database)
        self.restamps = Restamps(database)
        self.spans = Spans(database)
        self.span_exports = SpanExports(database)
        self.assertions = Assertions(database)
        self.violations = Violations(database)
        self.watching = Watching(database)
        self.durations = Durations(database)

    @classmethod
    async def open(
        cls,
        database_url: str,
        *,
        payload_max_bytes: int = 65_536,
        quarantine_max: int = 1_000,
        query_seconds: float = 15.0,
        searches: int = SEARCHES,
        service: str | None = None,
        indexed_headers: Mapping[str, bool] | None = None,
        traceparents: bool = False,
        clock: Callable[[], int] = now,
    ) -> Store:
        """Connect to a database whose tables are up to date (`app.store.database.migrate`).

        Of each message's body ``payload_max_bytes`` are kept, of unreadable messages
        ``quarantine_max`` a trace; a list of events may take ``query_seconds``, and ``searches``
        of them are looked for at a time, where a filter has to be held to every event. ``service``
        is the service whose store this is; none of its children's is. ``indexed_headers`` are the
        headers whose values it gives as keys from now on, the same in all services on a database,
        each with whether it holds an id of a message; None for a caller without events.
        ``traceparents``: those of messages are kept for spans. Raises `SettingsError`, which says
        what to do, and `OutageError`.
        """
        database = Database(database_url, query_seconds, searches, service, clock)
        try:
            await database.write(check_schema)
            name = await database.read(_name)
            if indexed_headers is not None:
                await database.write(
                    lambda writing: keys.declare(writing, database.dialect, indexed_headers)
                )
        except BaseException:
            await database.close()
            raise
        bounds = StorageBounds(payload_max_bytes, quarantine_max, traceparents)
        return cls(database, name, bounds, service)

    @property
    def is_alone(self) -> bool:
        """Tell whether no other service can use the database."""
        return self._database.dialect.is_alone

    async def close(self) -> None:
        await self._database.close()

    def give_up(self) -> None:
        """Break off all transactions, and begin no more; each raises `OutageError`."""
        self._database.give_up()

    async def at_once(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of ``work``; all that it looks up quickly is as of one moment.

        Lists and searches are not among it. Raises `OutageError`.
        """
        return await self._database.at_once(work)

    async def size(self) -> int:
        return await self._database.read(self._database.dialect.size, Lane.probe)

    async def ping(self) -> None:
        """Return where the database answers; otherwise `OutageError`."""
        await self._database.read(_ask, Lane.probe)


async def _name(connection: AsyncConnection) -> str:
    return str((await connection.execute(select(_installation.name))).scalar_one())


async def _ask(connection: AsyncConnection) -> None:
    await connection.execute(text("SELECT 1"))
