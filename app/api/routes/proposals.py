"""Proposals: what would tie a virtual host's messages together; adopting them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from app.api.described import answering, json_answer
from app.api.likely import one_of, proposed
from app.api.openapi import READING_ONE, example
from app.api.parameters import Name
from app.api.routes.bodies import RestampRequest
from app.api.routes.queries import OfVhost
from app.api.routes.restamp import restamped
from app.api.routes.submitting import MAKING, Asking
from app.api.routes.traces import trace_id_of, trace_of
from app.api.services import Parts
from app.api.signin.auth import Reader
from app.errors import BadRequestError
from app.stored.capture import RestampedTrace, RestampOutcome
from app.stored.proposals import ProposalPage
from app.tracker.links import Rule
from model.jobs import OfJob

router = APIRouter(tags=["traces"], prefix="/itc_db/proposals")

NOT_THE_PAST: dict[int | str, Any] = {
    204: {"description": "They hold from now on; the past is left as it is."}
}

ProposalId = Annotated[
    Name, Path(description="A proposal's id.", openapi_examples=example("0f1e2d3c4b5a"))
]


@router.get("", **answering(ProposalPage, READING_ONE))
async def list_proposals(user: Reader, parts: Parts, vhost: OfVhost) -> Response:
    """What would tie a virtual host's messages together, found without being asked for."""
    trace_id = await trace_id_of(vhost, user, parts)
    user.must_read(vhost)
    seen, waiting = await proposed(trace_id, parts)
    return json_answer(ProposalPage(vhost, seen.looked_at, seen.coverage, waiting))


@router.post(
    "/{proposal}/adopt",
    **answering((RestampedTrace, RestampOutcome, OfJob), MAKING | NOT_THE_PAST),
)
async def adopt_proposal(
    proposal: ProposalId,
    asker: Asking,
    vhost: OfVhost,
    past: Annotated[
        bool, Query(description="Read what is stored by the rules too, as a job that restamps.")
    ] = False,
) -> Response:
    """Have the rules of a proposal be the virtual host's own; each can be removed as any other.

    Answers with 204, and for the past with what restamping does.
    """
    trace = await trace_of(vhost, asker.user, asker.parts)
    seen, _ = await proposed(trace.id, asker.parts)
    store, of_all = asker.parts.store.link_rules, asker.parts.link_rules
    one = one_of(seen, proposal)
    if not one.rules:
        raise BadRequestError("what was in hand makes no rule: via=likely goes along it")
    for rule in one.rules:
        await store.put(trace.id, Rule.from_json(rule), of_all)
    if not past:
        return Response(status_code=204)
    return await restamped(asker, vhost, RestampRequest(links=True))
