"""The types of `_wire.pyx`."""

from app.broker.deliveries import Arrival
from app.broker.firehose import Said

def read_deliveries(
    data: bytes, at: int, channel: int, kind: type[Arrival], /
) -> tuple[list[Arrival], int]: ...
def read_trace(header: bytes, is_publish: bool, /) -> Said | None: ...
