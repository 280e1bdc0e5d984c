"""A wish to start a trace."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.parameters import names_of
from app.tracker import Policy
from app.tracker.quiet import MOST
from app.tracker.taken import LONGEST
from app.tracker.taken import MOST as MOST_TAKEN

PolicyWord = Annotated[str, names_of(Policy)]
# What it says is for clients to know beforehand; a pattern at fault is named by `Quiet`.
QuietPattern = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": r"^(exchange|queue):[^\u0000]{1,300}$"})
]
# As with quiet traffic, what is wrong is said by who knows: `app.tracker.taken`.
TakenPattern = Annotated[
    str,
    WithJsonSchema({"type": "string", "pattern": r"^[^\u0000]*$", "maxLength": LONGEST}),
]
TakenPatterns = Annotated[
    list[TakenPattern], Field(json_schema_extra={"minItems": 1, "maxItems": MOST_TAKEN})
]


class TraceRequest(BaseModel):
    """A wish to start a trace."""

    model_config = ConfigDict(extra="forbid")

    participant: PolicyWord | None = Field(
        default=None, description="Who counts as a participant; `client` for a new trace."
    )
    quiet: Annotated[list[QuietPattern], Field(max_length=MOST)] | None = Field(
        default=None,
        description="Traffic that joins no clocks, as `exchange:NAME` and `queue:NAME` with `*` "
        "for any characters; Celery's and kombu's control traffic for a new trace.",
    )
    bodies: bool | None = Field(
        default=None,
        description="Whether messages' bodies are stored, and read for links; yes for a new trace. "
        "May be changed while it runs, for what comes from then on.",
    )
    exchanges: TakenPatterns | None = Field(
        default=None,
        description="The exchanges whose publishes are taken: names, or patterns as topics "
        'have them (`*` for one word, `#` for any number, parted by dots). `""` is the default '
        'exchange, `["#"]` all. All too if only `queues` are given; as before without either. '
        "May be changed while it runs.",
    )
    queues: TakenPatterns | None = Field(
        default=None, description="The queues whose deliveries are taken, in the same way."
    )
    later: bool = Field(
        default=False,
        description="Whether exchanges and queues may be named that there are not yet.",
    )
    reset: bool = Field(
        default=False,
        description="Make a checkpoint that cannot be read anew instead, from the stored events. "
        "A gap says what is lost.",
    )
