"""`_digests.c`: fingerprints of ordinary messages, and what messages say outside of bodies."""

from collections.abc import Callable, Mapping
from typing import Any

from app.tracker.links.names import Names
from app.tracker.links.probes import Compiled, Fields
from app.tracker.links.rules import Rules
from app.tracker.records import Record

def mark(
    exchange: str,
    key: str,
    properties: dict[str, Any],
    body: bytes,
    special: frozenset[str],
    is_publish: bool,
    is_of_mqtt: bool,
    /,
) -> bytes | None: ...

class Reader:
    def __new__(
        cls,
        by_header: dict[str, tuple[Compiled, ...]],
        by_property: dict[str, tuple[Compiled, ...]],
        by_content_type: Mapping[Any, tuple[tuple[bytes, ...], Any]] | None,
        nothing: frozenset[str],
        short: int,
        readable: Callable[[Record], Record],
        amqp_1_0: str,
        names: type[Names],
        no_names: Names,
        most_ids: int,
        most_keys: int,
        /,
    ) -> Reader: ...
    def read(self, record: Record, rules: Rules, /) -> Names | Fields | None: ...
