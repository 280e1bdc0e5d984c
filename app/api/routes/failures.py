"""Failures: messages that died, came back, reached nobody, or were put into an error queue."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from app.api.described import answering, json_answer
from app.api.openapi import READING_ONE
from app.api.parameters import FailureWord, KnownFields, Text
from app.api.routes.events import spanned
from app.api.routes.queries import Moment, Number, filter_of
from app.api.routes.traces import trace_id_of
from app.api.services import Parts
from app.api.signin.auth import Reader, User
from app.stored.failures import FailureFilter, FailurePage
from model.described import shown
from model.sound import Certainty

router = APIRouter(tags=["events"])


class FailuresQuery(KnownFields):
    """The failures to list, and how many."""

    vhost: Text | None = Field(None, description="Of this virtual host.")
    since: Moment | None = Field(None, description="Recorded at this time or later.")
    until: Moment | None = Field(None, description="Recorded before this time.")
    kind: FailureWord | None = Field(None, description="Of this kind.")
    queue: Text | None = Field(None, description="Failed in this queue.")
    reason: Text | None = Field(None, description="Died for this reason.")
    type: Text | None = Field(None, description="Of messages of this type.")
    exception: Text | None = Field(None, description="With this exception, or one of this type.")
    participant: Number | None = Field(
        None, description="Handed over last to this participant of its trace."
    )
    limit: Annotated[int, Field(ge=1, le=1_000)] = Field(100, description="Most in `items`.")
    before: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = Field(
        None, description="Only of events before this one: the `next` of the answer before."
    )

    def filter_for(self, user: User) -> FailureFilter:
        asks_content = self.type is not None or self.exception is not None
        vhosts = user.searched(self.vhost) if asks_content else user.listed(self.vhost)
        return filter_of(FailureFilter, self, vhosts=vhosts)


@router.get("/itc_db/failures", **answering([FailurePage, (FailurePage, Certainty)], READING_ONE))
async def list_failures(
    query: Annotated[FailuresQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """List what failed, newest first, in groups and over time."""
    asked = query.filter_for(user)
    trace_id = None if query.vhost is None else await trace_id_of(query.vhost, user, parts)
    async with parts.searches.turn(user.name):
        found = await parts.store.failures.find(asked, before=query.before, limit=query.limit)
    readable = found.without_content(user.content.cover)
    if trace_id is None:
        return json_answer(readable)
    certainty = await spanned(trace_id, *await parts.store.failures.span(asked), parts)
    return json_answer(shown(readable) | shown(certainty))
