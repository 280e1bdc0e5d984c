"""Wishes about a trace: to start it, to restamp it, to give a participant of it a name."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.parameters import PolicyWord
from app.stored.reading import LONGEST_ALIAS, check_alias
from app.tracker.quiet import MOST
from app.tracker.taken import LONGEST
from app.tracker.taken import MOST as MOST_TAKEN

# What it says is for clients to know beforehand; a pattern at fault is named by `Quiet`.
QuietPattern = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": r"^(exchange|queue):[^\u0000]{1,300}$"})
]
# As with quiet traffic, what is wrong is said by who knows: `app.tracker.taken`.
TakenPattern = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": r"^[^\u0000]*$", "maxLength": LONGEST})
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


class AliasRequest(BaseModel):
    """A name for a participant."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"alias": "Orders"}]})

    alias: Annotated[str, AfterValidator(check_alias)] = Field(
        description=f"At most {LONGEST_ALIAS} characters, none of them a control character."
    )
