"""Who took part in a trace."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.api.schemas.common import Evidence, Model
from app.stored.participants import LONGEST_ALIAS, check_alias


class Channel(Model):
    """Where on the broker a participant was seen."""

    node: str
    connection: str
    channel: int
    user: str


class ParticipantInfo(Model):
    """A participant: it owns one interval of the ITC id space."""

    vhost: str
    participant: int
    name: str = Field(description="What people read: client, user and place, or an alias.")
    user: str
    place: str | None = Field(description="Where it acts from; null if it may be several places.")
    client: str | None = Field(description="How its client names itself.")
    assumed: bool = Field(
        description="Connections at a shared place without a name, or one of too many."
    )
    key: str = Field(description="What makes it this participant, within its trace.")
    published: int = Field(description="How many publishes it made since the trace began.")
    received: int
    interval: str
    events: int
    lamport: int
    first_event_id: int
    last_event_id: int
    evidence: Evidence = Field(description="What its messages say of their causes.")
    connections: int = Field(description="How many connections `channels` are on.")
    programs: int = Field(
        description="How many processes these connections' clients named; 0 if none is known."
    )
    note: str | None = Field(description="What to know of it, in a sentence.")
    channels: list[Channel]


class AliasRequest(BaseModel):
    """What to call a participant."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"alias": "Orders"}]})

    alias: Annotated[str, AfterValidator(check_alias)] = Field(
        description=f"At most {LONGEST_ALIAS} characters, none of them a control character."
    )
