"""Facts that all reports give of their period."""

from __future__ import annotations

from dataclasses import dataclass

from model.sound import Certainty
from model.times import Microseconds


@dataclass(frozen=True, kw_only=True)
class ReportFacts(Certainty):
    """The facts of each report."""

    id: str
    vhost: str
    since: Microseconds
    until: Microseconds
    made_at: Microseconds
