"""The store: stamped events, checkpoints, gaps and jobs, on SQLite or PostgreSQL.

`Store` opens it; what goes in and comes out are the values of `app.stored`. `migrate` brings a
database's tables up to date before a store is opened.
"""

from app.store.database.migrate import SchemaState, migrate, schema_state
from app.store.store import Store

__all__ = ["SchemaState", "Store", "migrate", "schema_state"]
