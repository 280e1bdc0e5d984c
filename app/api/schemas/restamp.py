"""Restamping: by which rules, and what came of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.common import Model
from app.api.schemas.traces import PolicyWord, QuietPattern
from app.tracker.quiet import MOST


class RestampRequest(BaseModel):
    """The rules; one that is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    participant: PolicyWord | None = Field(default=None, description="Who counts as a participant.")
    quiet: Annotated[list[QuietPattern], Field(max_length=MOST)] | None = Field(
        default=None,
        description="Traffic that joins no clocks, as `exchange:NAME` and `queue:NAME` with `*` "
        "for any characters; an empty list for none.",
    )
    links: bool = Field(
        default=False,
        description="Read the messages again, too, by the rules of links that hold now.",
    )


class RestampSeconds(Model):
    """How long it took: waiting its turn, stamping while the trace ran, and the trace's pause."""

    queued: float
    replay: float
    pause: float


class RestampSummary(Model):
    """A restamped trace: its rules, and how many of its participants are assumed."""

    job: int
    vhost: str
    participant: PolicyWord
    quiet: list[str]
    events: int
    participants: int
    assumed: int
    edges: int | None = Field(description="Links there are now; `null` where they were kept.")
    cut: int | None = Field(
        description="Messages of whose bodies only a part is stored, so that what looks into "
        "bodies did not read them; `null` where none was read again."
    )
    seconds: RestampSeconds
