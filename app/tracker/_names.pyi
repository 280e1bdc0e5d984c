"""`_names.c`: what headers and properties say."""

from collections.abc import Callable
from typing import Any

from app.tracker.links.names import Names
from app.tracker.links.probes import Compiled, Fields
from app.tracker.links.rules import Rules
from app.tracker.records import Record

class Reader:
    """What messages' headers and properties say, by probes."""

    def __new__(
        cls,
        by_header: dict[str, tuple[Compiled, ...]],
        by_property: dict[str, tuple[Compiled, ...]],
        nothing: frozenset[str],
        short: int,
        names: type[Names],
        no_names: Names,
        most_ids: int,
        most_keys: int,
        /,
    ) -> Reader: ...
    def read(self, record: Record, rules: Rules, /) -> Names | Fields:
        """The names; their fields where rules have to decide. ``rules`` look into the rest."""

def mark(
    exchange: str,
    key: str,
    properties: dict[str, Any],
    body: bytes,
    telling: frozenset[str],
    encode: Callable[[Any], bytes],
    /,
) -> bytes | None:
    """A message's fingerprint; None where Python has to look at it, as where a name is telling.

    ``encode`` writes what is neither text nor table.
    """
