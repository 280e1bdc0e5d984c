"""How a database is reached: its dialects, connections, tables and statements."""
