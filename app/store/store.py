"""The store's composition: one database, and a part for each subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import keys, tables
from app.store.aliases import Aliases
from app.store.assertions import Assertions
from app.store.batches import Batches, Bounds
from app.store.causality import Causality
from app.store.chains import Chains
from app.store.checkpoints import Checkpoints
from app.store.connections import Connections
from app.store.conversations import Conversations
from app.store.deliveries import Deliveries
from app.store.doubts import Doubts
from app.store.engine import Database
from app.store.failures import Failures
from app.store.gaps import Gaps
from app.store.hidden import Hidden
from app.store.jobs import Jobs
from app.store.leases import Leases
from app.store.link_rules import LinkRules
from app.store.migrate import check_schema
from app.store.participants import Participants
from app.store.periods import Periods
from app.store.quarantine import Quarantine
from app.store.queries import Events
from app.store.restamps import Restamps
from app.store.retention import Retention
from app.store.services import Services
from app.store.spans import Spans
from app.store.touched import Touched
from app.store.traces import Traces
from app.store.violations import Violations
from app.store.watching import Watching
from app.stored.lanes import Lane
from app.stored.pages import SEARCHES
from model.times import now

T = TypeVar("T")


class Store:
    """The store by subject, on SQLite or PostgreSQL: ``store.traces.find(vhost)``."""

    def __init__(
        self,
        database: Database,
        name: str,
        bounds: Bounds,
        clock: Callable[[], int],
        service: str | None = None,
    ) -> None:
        """Use `Store.open`."""
        self.name = name  # tells this database from every other
        self._database = database
        self.traces = Traces(database, clock)
        self.leases = Leases(database, clock)
        self.services = Services(database, clock)
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
        self.touched = Touched(database)
        self.deliveries = Deliveries(database)
        self.participants = Participants(database)
        self.aliases = Aliases(database)
        self.link_rules = LinkRules(database)
        self.connections = Connections(database)
        self.jobs = Jobs(database, clock, service)
        self.retention = Retention(database)
        self.restamps = Restamps(database)
        self.spans = Spans(database)
        self.assertions = Assertions(database, clock)
        self.violations = Violations(database)
        self.watching = Watching(database)

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
        """Connect to a database whose tables are up to date (`app.store.migrate`).

        Of each message's body ``payload_max_bytes`` are kept, of unreadable messages
        ``quarantine_max`` a trace; a list of events may take ``query_seconds``, and ``searches``
        of them are looked for at a time, where a filter has to be held to every event. ``service``
        is the service whose store this is; none of its children's is. ``indexed_headers`` are the
        headers whose values it gives as keys from now on, the same in all services on a database,
        each with whether it holds an id of a message; None for whoever stores no events.
        ``traceparents``: those of messages are kept for spans. Raises `SettingsError`, which says
        what to do, and `OutageError`.
        """
        database = Database(database_url, query_seconds, searches, service)
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
        bounds = Bounds(payload_max_bytes, quarantine_max, traceparents)
        return cls(database, name, bounds, clock, service)

    @property
    def is_alone(self) -> bool:
        """Whether no other service can use the database."""
        return self._database.dialect.is_alone

    async def close(self) -> None:
        """Close all connections."""
        await self._database.close()

    def give_up(self) -> None:
        """Break off all transactions, and begin no more; each raises `OutageError`."""
        self._database.give_up()

    async def at_once(self, work: Callable[[], Awaitable[T]]) -> T:
        """What ``work`` comes to; all that it looks up quickly is as of one moment.

        Lists and searches are not among it. Raises `OutageError`.
        """
        return await self._database.at_once(work)

    async def size(self) -> int:
        """The bytes that the database takes; raises `OutageError`."""
        return await self._database.read(self._database.dialect.size, Lane.probe)

    async def ping(self) -> None:
        """Return where the database answers; otherwise `OutageError`."""
        await self._database.read(_ask, Lane.probe)


async def _name(connection: AsyncConnection) -> str:
    return str((await connection.execute(select(tables.installation.c.name))).scalar_one())


async def _ask(connection: AsyncConnection) -> None:
    await connection.execute(text("SELECT 1"))
