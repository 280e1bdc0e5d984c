"""What the store binds on SQLite goes in as it is."""

from __future__ import annotations

import sqlite3

import pytest

import app.store.database.sqlite  # noqa: F401  what it registers is tested


@pytest.mark.parametrize(
    ("value", "stored", "kind"),
    [
        (None, None, "null"),
        (True, 1, "integer"),
        (False, 0, "integer"),
        (b"", b"", "blob"),
        (b"\0bytes\xff", b"\0bytes\xff", "blob"),
    ],
)
def test_values_of_which_the_driver_asks_what_they_are_stay_what_they_are(
    value: object, stored: object, kind: str
) -> None:
    connection = sqlite3.connect(":memory:")
    try:
        asked = connection.execute("SELECT ?1, typeof(?1)", (value,))
        assert asked.fetchone() == (stored, kind)
    finally:
        connection.close()
