"""Conversations: what happened because of a message, lists of them, and messages that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import Field

from app.api.certainty import (
    LAST,
    ListCertainty,
    certainty_between,
    certainty_of_list,
    list_certainty,
    record_of,
)
from app.api.crossings import Crossings, crossings_of
from app.api.described import json_answer, returns
from app.api.likely import LIKELY, LikelyAnswer, LikelyQuery, ground_of
from app.api.openapi import READING_ONE
from app.api.parameters import KnownFields, Text, Word
from app.api.routes.events import EventId, visible_event
from app.api.routes.queries import HEADERS, Moment, Number, WithHeaders, filter_of
from app.api.routes.traces import trace_of
from app.api.services import Parts, ServiceParts
from app.api.signin.auth import Reader, User
from app.errors import ItcError
from app.stored.assertions import Violation
from app.stored.conversations import ConversationFilter, ConversationPage, FoundConversation
from app.stored.failures import FailureFilter, FailureKind, FailurePage
from app.stored.reading import EventFilter
from app.traces.life import TraceState
from model.conversations.conversation import Conversation
from model.conversations.messages import Outcome
from model.conversations.states import State
from model.described import json_of
from model.event import NOTHING_LARGE
from model.remaining import RemainingSteps, remaining_steps
from model.remedies import AdminTool
from model.sound import Certainty
from model.times import now
from model.words import Via, WalkWord

router = APIRouter(tags=["conversations"], prefix="/itc_db/conversations")
failures = APIRouter(tags=["events"])


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ConversationQuery(LikelyQuery):
    """Query for a conversation: what leads on, and how much of it to show."""

    via: WalkWord = Field(
        "links",
        description="`links`: messages, and links to the causes that they name. "
        "`conversation`: these, and whatever shares a conversation's key. `any`: all that the "
        "event's own message may have influenced." + LIKELY,
    )
    limit: Annotated[int, Field(ge=1, le=5_000)] = Field(
        1_000, description="Most events to walk to, publishes and deliveries."
    )
    after: Number | None = Field(
        None, description="Only messages after this event: the `next` of the answer before."
    )


class ConversationsQuery(WithHeaders):
    """The conversations to list, and how many."""

    vhost: Text | None = Field(None, description="Of this virtual host.")
    via: Literal["links", "conversation"] = Field(
        "links", description="`conversation`: publishes that share a conversation's key are one."
    )
    since: Moment | None = Field(
        None,
        description="Begun at this time or later; with `q` or a name of a message, of what was "
        "recorded then.",
    )
    until: Moment | None = Field(None, description="Begun, or recorded, before this time.")
    min_seconds: Seconds | None = Field(None, description="Of this duration or longer.")
    max_seconds: Seconds | None = Field(None, description="Of this duration or shorter.")
    outcome: Word[Outcome] | None = Field(None, description="What became of them.")
    state: Word[State] | None = Field(None, description="Where they stand.")
    participant: Number | None = Field(None, description="With this participant of their trace.")
    participant_name: Text | None = Field(
        None, description="With a participant or a service of this name."
    )
    type: Text | None = Field(None, description="With a message of this type.")
    q: Text | None = Field(
        None, description="With this text in an exchange, queue, routing key or payload."
    )
    message_id: Text | None = Field(None, description="With a message of this id.")
    correlation_id: Text | None = Field(None, description="With this correlation id.")
    conversation: Text | None = Field(
        None, description="With this value that messages of a conversation share."
    )
    limit: Annotated[int, Field(ge=1, le=200)] = Field(50, description="Most in one answer.")
    before: Number | None = Field(
        None,
        description="Only those whose root is before this event, with `state=waiting` after it: "
        "the `next` of the answer before.",
    )

    def filter_for(self, user: User) -> EventFilter:
        """Return a filter for events they begin with, or hold; raises `NotAuthorisedError`."""
        # Participants and types are asked of the conversation, not of the one event.
        of_others = dict.fromkeys(("type", "participant", "participant_name"))
        more = {
            "vhosts": user.vhosts_to_search(self.vhost),
            "q": self.q or None,
            "headers": self._headers,
        }
        return filter_of(EventFilter, self, **of_others | more)


@router.get("", **returns((ConversationPage, ListCertainty), READING_ONE), openapi_extra=HEADERS)
async def list_conversations(
    query: Annotated[ConversationsQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """List conversations by filter, newest first; those that wait, with those of longest first.

    `state=waiting` alone looks at what waits in each queue, also behind any number of newer ones.
    """
    criteria = query.filter_for(user)
    async with parts.searches.turn(user.name):
        page = await parts.store.conversations.list(
            criteria,
            filter_of(ConversationFilter, query),
            Via[query.via],
            before_id=query.before,
            limit=query.limit,
        )
    certainty = await certainty_of_list(criteria, parts)
    return json_answer(json_of(page) | json_of(certainty))


class WithExpectations(msgspec.Struct, frozen=True):
    """The steps that normally follow, and what should have held."""

    remaining: Annotated[
        RemainingSteps | None,
        "Where it is under way, and a report on expectations tells what normally follows.",
    ]
    violations: Annotated[Sequence[Violation], "For which of its events an assertion did not hold."]


@router.get(
    "/{event_id}",
    **returns(
        (FoundConversation, Conversation, Certainty, LikelyAnswer, Crossings, WithExpectations),
        READING_ONE,
    ),
)
async def get_conversation(
    event_id: EventId, query: Annotated[ConversationQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """Show the conversation of an event: its messages, what became of them, and the times."""
    event = await visible_event(parts.store.events, event_id, user, NOTHING_LARGE)
    user.must_read(event.vhost)
    async with parts.searches.turn(user.name):
        ground = await ground_of(query, event.vhost, (event_id,), user, parts)
        answer = await parts.store.conversations.of_event(
            event_id, ground.via, limit=query.limit, after=query.after, overlay=ground.overlay
        )
    # A copy that waits, or an event that is not shown, may go on to the end.
    conversation = answer.conversation
    is_open = (
        conversation.truncated
        or conversation.counts.waiting
        or conversation.outcome in (Outcome.open, Outcome.unknown)
    )
    # A gap right behind the last event may hold one more, as the conversation itself says.
    last = LAST if is_open else answer.last + 1
    certainty = await certainty_between(answer.trace_id, answer.root, last, parts)
    view = json_of(answer) | json_of(answer.conversation) | json_of(certainty) | ground.view
    async with parts.searches.turn(user.name):
        crossings = await crossings_of(conversation.crossing_events(), user, parts)
    view |= {"via": query.via} | json_of(Crossings(crossings))
    remaining = None
    if query.via in ("links", "conversation") and query.after is None:
        remaining = await _steps_to_come(conversation, event.vhost, parts)
    events = {message.event for message in conversation.messages}
    events.update(conversation.delivery_events())
    violations = await parts.store.violations.of_events(answer.trace_id, events)
    return json_answer(view | json_of(WithExpectations(remaining, violations)))


async def _steps_to_come(
    conversation: Conversation, vhost: str, parts: ServiceParts
) -> RemainingSteps | None:
    norms, learnt_until = await asyncio.to_thread(parts.folders.reports.norms, vhost)
    if not norms:
        return None
    # Nobody knows what has come since a trace ran last.
    is_running = (await parts.traces.status(vhost)).state is TraceState.running
    moment = now() if is_running else conversation.ended_at
    return remaining_steps(conversation, norms, moment, learnt_until)


class FailuresQuery(KnownFields):
    """The failures to list, and how many."""

    vhost: Text | None = Field(None, description="Of this virtual host.")
    since: Moment | None = Field(None, description="Recorded at this time or later.")
    until: Moment | None = Field(None, description="Recorded before this time.")
    kind: Word[FailureKind] | None = Field(None, description="Of this kind.")
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
        vhosts = (
            user.vhosts_to_search(self.vhost) if asks_content else user.vhosts_to_list(self.vhost)
        )
        return filter_of(FailureFilter, self, vhosts=vhosts)


async def _admin_tool(parts: Parts) -> AdminTool:
    try:
        has_script = await parts.broker.has_admin_script()
    except ItcError:  # the list of failures needs no broker
        has_script = True
    return AdminTool.script if has_script else AdminTool.program


@failures.get(
    "/itc_db/failures",
    **returns([(FailurePage, ListCertainty), (FailurePage, ListCertainty, Certainty)], READING_ONE),
)
async def list_failures(
    query: Annotated[FailuresQuery, Query()], user: Reader, parts: Parts
) -> Response:
    """List what failed, newest first, in groups and over time."""
    criteria = query.filter_for(user)
    trace = None if query.vhost is None else await trace_of(query.vhost, user, parts)
    tool = await _admin_tool(parts)  # not while others wait for their turn
    async with parts.searches.turn(user.name):
        page = await parts.store.failures.find(
            criteria,
            before=query.before,
            limit=query.limit,
            may_read=user.content.cover,
            tool=tool,
        )
    if trace is None:
        certainty = await certainty_of_list(criteria, parts)
        return json_answer(json_of(page) | json_of(certainty))
    record = await record_of(trace, criteria.since, criteria.until, parts)
    certainty = list_certainty([record], criteria)
    return json_answer(json_of(page) | json_of(certainty) | json_of(record.certainty))
