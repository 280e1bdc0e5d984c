"""The SQL store: tables, engines per dialect, batch writes, keyset reads."""
