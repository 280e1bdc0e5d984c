"""Rules of links: look, set, remove; what they show to be hidden; proposals of others."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from app.api.described import json_answer, returns
from app.api.likely import find_proposals, proposal_of
from app.api.openapi import READING_ONE, WRITING, example, put, put_route
from app.api.parameters import Name, Text
from app.api.routes.bodies import LinkRule, RestampRequest, body_of, named_rule
from app.api.routes.queries import OfVhost
from app.api.routes.submitting import JOB_ANSWERS, JobAsker
from app.api.routes.traces import Vhost, trace_id_of, trace_of
from app.api.routes.upkeep import submit_restamp
from app.api.services import Parts
from app.api.signin.auth import Reader, Writer
from app.errors import BadRequestError
from app.stored.capture import ListedRule, RestampedTrace, RestampOutcome, list_rules
from app.stored.causality import HiddenWays
from app.stored.proposals import ProposalPage
from app.tracker.links import Rule, merge_rules
from model.jobs import OfJob

router = APIRouter(tags=["traces"], prefix="/itc_db")

ONE_RULE = "/links/{vhost}/{name}"

RuleName = Annotated[
    Name, Path(description="A rule's name.", openapi_examples=example("shipped-for"))
]


@router.get("/links", **returns(list[ListedRule], READING_ONE))
async def list_link_rules(user: Reader, parts: Parts, vhost: OfVhost) -> Response:
    """List a virtual host's rules, in order, and the event from which each holds."""
    trace_id = await trace_id_of(vhost, user, parts)
    rules = parts.store.link_rules
    all_rules = merge_rules(parts.link_rules, await rules.list_own(trace_id))
    return json_answer(list_rules(all_rules, await rules.list_effective(trace_id)))


@router.put(
    ONE_RULE,
    **put_route(
        "It is new.",
        "It takes the place of the virtual host's own of that name.",
        body_of(LinkRule),
    ),
)
async def set_link_rule(
    vhost: Vhost, name: RuleName, user: Writer, parts: Parts, request: Request
) -> Response:
    """Set one of a virtual host's own rules; there it replaces any other of the same name."""
    trace_id = await trace_id_of(vhost, user, parts)
    reason = "the body is a rule: an object with kind, child and parent"
    rule = await named_rule(request, name, Rule.from_json, reason)
    return put(await parts.store.link_rules.put(trace_id, rule, parts.link_rules))


@router.delete(ONE_RULE, status_code=204, responses=WRITING)
async def remove_link_rule(vhost: Vhost, name: RuleName, user: Writer, parts: Parts) -> None:
    """Remove one of a virtual host's own rules. Stored links stay."""
    trace_id = await trace_id_of(vhost, user, parts)
    await parts.store.link_rules.remove(trace_id, name)


@router.get("/hidden", **returns(HiddenWays, READING_ONE))
async def list_hidden_ways(user: Reader, parts: Parts, vhost: OfVhost) -> Response:
    """List connections between participants outside the broker, by which causes travelled.

    An outbox, an HTTP call and a shared database are such connections.
    """
    trace_id = await trace_id_of(vhost, user, parts)
    return json_answer(await parts.store.hidden.ways(trace_id, vhost))


NOT_THE_PAST: dict[int | str, Any] = {
    204: {"description": "They hold from now on; the past is left as it is."}
}

ProposalId = Annotated[
    Name, Path(description="A proposal's id.", openapi_examples=example("0f1e2d3c4b5a"))
]


@router.get("/proposals", **returns(ProposalPage, READING_ONE))
async def list_proposals(user: Reader, parts: Parts, vhost: OfVhost) -> Response:
    """List rules that would tie a virtual host's messages together, as the service found them."""
    trace_id = await trace_id_of(vhost, user, parts)
    user.must_read(vhost)
    coverage, proposals = await find_proposals(trace_id, parts)
    sentence = (await parts.store.doubts.evidence(trace_id)).sentence
    return json_answer(
        ProposalPage(vhost, coverage.looked_at, coverage.coverage, sentence, proposals)
    )


@router.post(
    "/proposals/{proposal}/adopt",
    **returns((RestampedTrace, RestampOutcome, OfJob), JOB_ANSWERS | NOT_THE_PAST),
)
async def adopt_proposal(
    proposal: ProposalId,
    asker: JobAsker,
    vhost: OfVhost,
    past: Annotated[
        bool, Query(description="Apply the rules to stored messages, too, as a job that restamps.")
    ] = False,
    of_user: Annotated[
        Text | None, Query(description="The only user whose messages carry it: the `alone` field.")
    ] = None,
) -> Response:
    """Make a proposal's rules the virtual host's own; each can be removed like any other.

    A proposal that only one user's messages carry needs `of_user`. The answer is 204, or with
    `past` the job that restamps.
    """
    trace = await trace_of(vhost, asker.user, asker.parts)
    asker.user.must_read(vhost)
    coverage, _ = await find_proposals(trace.id, asker.parts)
    store, of_all = asker.parts.store.link_rules, asker.parts.link_rules
    candidate = proposal_of(coverage, proposal)
    if not candidate.rules:
        raise BadRequestError("a message in hand makes no rule: follow it with via=likely")
    user = candidate.alone
    if user is not None and user != of_user:
        raise BadRequestError(
            f"only messages of user {user} carry it: adopt it with of_user={user}"
        )
    for rule in candidate.rules:
        await store.put(trace.id, Rule.from_json(rule), of_all)
    if not past:
        return Response(status_code=204)
    return await submit_restamp(asker, vhost, RestampRequest(links=True))
