"""The types of `_names.pyx`."""

from collections.abc import Callable
from typing import Any

from app.tracker.links.names import Names
from app.tracker.links.probes import Compiled, Fields
from app.tracker.links.rules import Rules
from app.tracker.records import Record

class Reader:
    """Reads the names in messages' headers and properties, by probes."""

    def __new__(
        cls,
        by_header: dict[str, tuple[Compiled, ...]],
        by_property: dict[str, tuple[Compiled, ...]],
        empty_texts: frozenset[str],
        short: int,
        names: type[Names],
        no_names: Names,
        most_ids: int,
        most_keys: int,
        /,
    ) -> Reader: ...
    def look_into(
        self, encoded: bytes, of_content_type: Callable[[str | None], tuple[Any, ...]] | None, /
    ) -> None: ...
    def read(self, record: Record, rules: Rules, /) -> Names | Fields | None: ...
    def read_tables(self, record: Record, rules: Rules, /) -> Names | Fields: ...

def has_broker_headers(record: Record, /) -> bool: ...
def mark(
    record: Record, encode: Callable[[Any], bytes], revealing: frozenset[str], /
) -> bytes | None: ...
