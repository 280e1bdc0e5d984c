"""The way to a database: its dialects, connections, tables and statements."""
