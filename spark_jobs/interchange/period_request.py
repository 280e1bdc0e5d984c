"""Requests for an export of a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from model.exports import Quota
from model.interchange import PeriodForm
from model.words import Via
from spark_jobs.spark.database import DatabaseAddress

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class PeriodRequest:
    """A request for what began in a virtual host from ``since`` to before ``until`` (µs).

    ``form`` is a format of `model.interchange`, written to ``output``. ``rules`` are those of
    links, as the service shows them, for AsyncAPI. Spans lead to ``arrivals``: by publish of a
    shovel or a federation link, the delivery that it was elsewhere (virtual host, id, time in µs).
    """

    database: DatabaseAddress
    vhost: str
    since: int
    until: int
    form: PeriodForm
    output: Path
    via: Via = Via.links
    quota: Quota | None = None
    rules: Sequence[Json] = ()
    arrivals: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)
