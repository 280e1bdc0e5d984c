"""By which rules a trace is to be restamped."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

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
