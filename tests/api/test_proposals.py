"""Proposals over HTTP and on the command line, adopted and taken back, and answers by them."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import msgspec
import pytest

from app.api.crossings import Crossings
from app.api.events import EventWalk
from app.api.likely import LikelyAnswer
from app.api.routes.conversations import WithExpectations
from app.stored.conversations import FoundConversation
from app.stored.proposals import ProposalPage, RuleProposal, TraceCoverage, proposals_in
from app.tracker import Deliver, Publish
from model.conversations.conversation import Conversation
from model.reports.correlations import UserShare
from model.sound import Certainty
from tests.api.conftest import World
from tests.api.described import conforms
from tests.api.story import BILLING, INVOICED, SHOP
from tests.api.test_cli import Command, run, url

__all__ = ["run", "url"]  # fixtures

URL = "/itc_db/proposals"
SLASH = {"vhost": "/"}
FIGURES: dict[str, Any] = {
    "publishes": 40,
    "ambiguity": 1.0,
    "chance": 0.0,
    "agreement": None,
    "linked": 0,
    "examples": [{"publish": 3, "delivery": 2, "value": "o-1"}],
}
SHARED = {"name": "found-header-order", "kind": "conversation", "child": "$message.header#/order"}
DIRECT = {
    "name": "found-header-because",
    "kind": "parent",
    "child": "$message.header#/because",
    "parent": "$message.property#/message_id",
    "sure": False,
}


async def propose(world: World) -> list[RuleProposal]:
    """Keep proposals, as a look would have found them: the shared key joins more."""
    found = proposals_in(
        {
            "reactions": 50,
            "proposals": [
                {**FIGURES, "kind": "conversation", "rules": [SHARED]},
                {**FIGURES, "kind": "parent", "rules": [DIRECT], "agreement": 0.99, "linked": 20},
            ],
        }
    )
    await world.store.proposals.put(TraceCoverage(1, "/", 100, 50, 0, 2), found)
    return found


async def tell_orders(world: World) -> tuple[int, int, int]:
    """Tell of an order that leads to an invoice, and of another in between; their events."""
    records = []
    for number in (1, 2):
        said = {"message_id": f"m-{number}", "headers": {"order": f"o-{number}"}}
        records.append(Publish(SHOP, "", ("work",), ("work",), said, b""))
        records.append(Deliver(BILLING, "", ("work",), "work", False, said, b""))
    answer = {"headers": {"order": "o-1", "because": "m-1"}}
    records.append(Publish(BILLING, "", ("mail",), ("mail",), answer, b""))
    told = await world.tellers["/"].tell(records)
    return told[0], told[1], told[4]


async def test_nothing_is_proposed_before_anything_was_looked_for(
    client: httpx2.AsyncClient,
) -> None:
    page = (await client.get(URL, params=SLASH)).json()
    conforms(page, ProposalPage)
    assert (page["looked_at"], page["items"]) == (None, [])
    assert (await client.get(URL, params={"vhost": "nowhere"})).status_code == 404


async def test_a_direct_cause_comes_before_a_shared_key_in_words_that_people_use(
    world: World, client: httpx2.AsyncClient
) -> None:
    await propose(world)
    page = (await client.get(URL, params=SLASH)).json()
    conforms(page, ProposalPage)
    direct, shared = page["items"]
    assert direct["says"] == "header because names message_id"
    assert shared["says"] == "header order ties messages together"
    assert shared["certainty"] == "unambiguous, no coincidences"
    assert direct["certainty"] == "unambiguous, no coincidences, links agree in 99% of 20"
    assert (direct["joins"], direct["of"], direct["rules"]) == (40, 50, [DIRECT])


def test_a_key_that_ties_more_together_than_direct_causes_goes_with_them() -> None:
    more = {**FIGURES, "kind": "conversation", "rules": [SHARED], "publishes": 45}
    direct = {**FIGURES, "kind": "parent", "rules": [DIRECT]}
    [both] = proposals_in({"reactions": 50, "proposals": [direct, more]})
    assert both.says == "header because names message_id and header order ties messages together"
    assert (both.kind, both.joins, both.rules) == ("parent", 45, [DIRECT, SHARED])
    one, other = proposals_in({"reactions": 50, "proposals": [more | {"publishes": 40}, direct]})
    assert (one.rules, other.rules) == ([DIRECT], [SHARED])


def of_user(user: str, share: float, support: float, reactions: int = 50) -> dict[str, Any]:
    return {"user": user, "share": share, "support": support, "reactions": reactions}


@pytest.mark.parametrize(
    ("users", "alone"),
    [
        ([of_user("flood", 0.992, 1.0, 120), of_user("shop", 0.008, 0.01)], "flood"),
        ([of_user("flood", 1.0, 1.0, 120), of_user("shop", 0.0, 0.0, 1)], "flood"),
        ([of_user("shop", 0.8, 1.0), of_user("billing", 0.2, 0.5)], None),
        ([of_user("shop", 1.0, 0.8)], None),  # nobody else reacts
        ([], None),
    ],
)
async def test_what_one_user_s_messages_carry_is_said_and_adopted_as_that(
    world: World, client: httpx2.AsyncClient, users: list[dict[str, Any]], alone: str | None
) -> None:
    _, _, invoice = await tell_orders(world)
    direct = {**FIGURES, "kind": "parent", "rules": [DIRECT], "users": users}
    [one] = proposals_in({"reactions": 50, "proposals": [direct]})
    await world.store.proposals.put(TraceCoverage(1, "/", 100, 50, 0, 2), [one])
    page = (await client.get(URL, params=SLASH)).json()
    conforms(page, ProposalPage)
    assert [(each["alone"], each["users"]) for each in page["items"]] == [(alone, users)]
    likely = await client.get(f"/itc_db/conversations/{invoice}", params={"via": "likely"})
    assert (", by messages of user flood alone" in likely.text) is (alone is not None)
    adoption = f"{URL}/{one.id}/adopt"
    if alone is not None:
        for wrong in ({}, {"of_user": "shop"}):
            refused = await client.post(adoption, params=SLASH | wrong)
            assert (refused.status_code, "of_user=flood" in refused.text) == (400, True)
    named = {} if alone is None else {"of_user": alone}
    assert (await client.post(adoption, params=SLASH | named)).status_code == 204


def test_whoever_sends_more_does_not_outvote_the_others() -> None:
    direct = {**FIGURES, "kind": "parent", "rules": [DIRECT], "users": [of_user("shop", 1.0, 0.9)]}
    assert len(proposals_in({"reactions": 10_000, "proposals": [direct]})) == 1
    few = direct | {"users": [of_user("shop", 1.0, 0.9, 3)]}
    assert proposals_in({"reactions": 10_000, "proposals": [few]}) == []


async def test_what_is_adopted_is_proposed_no_more_until_it_is_taken_back(
    world: World, client: httpx2.AsyncClient
) -> None:
    direct, shared = await propose(world)
    adopted = await client.post(f"{URL}/{direct.id}/adopt", params=SLASH)
    assert (adopted.status_code, adopted.content) == (204, b"")
    own = [each["name"] for each in (await client.get("/itc_db/links", params=SLASH)).json()]
    assert own[-1] == DIRECT["name"]
    assert [each["id"] for each in await items(client)] == [shared.id]
    await client.delete(f"/itc_db/links/%2F/{DIRECT['name']}")
    assert [each["id"] for each in await items(client)] == [direct.id, shared.id]
    by_hand = {**SHARED, "name": "orders"}
    assert (await client.put("/itc_db/links/%2F/orders", json=by_hand)).status_code == 201
    assert [each["id"] for each in await items(client)] == [direct.id]
    assert (await client.post(f"{URL}/0/adopt", params=SLASH)).status_code == 404


async def items(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(URL, params=SLASH)).json()["items"]
    return found


async def test_adopted_for_the_past_it_holds_for_what_is_stored(
    world: World, client: httpx2.AsyncClient
) -> None:
    order, _, invoice = await tell_orders(world)
    direct, _ = await propose(world)
    told = await client.post(f"{URL}/{direct.id}/adopt", params=SLASH | {"past": True})
    assert told.status_code == 200
    assert told.json()["edges"] == 1
    whole = (await client.get(f"/itc_db/conversations/{invoice}")).json()
    assert [each["event"] for each in whole["messages"]] == [order, invoice]


async def test_what_is_likely_rests_on_a_proposal_and_is_never_evident(
    world: World, client: httpx2.AsyncClient
) -> None:
    order, handed, invoice = await tell_orders(world)
    direct, shared = await propose(world)
    asked = {"via": "likely"}
    told = (await client.get(f"/itc_db/conversations/{invoice}", params=asked)).json()
    likely = FoundConversation, Conversation, Certainty, LikelyAnswer, Crossings
    shapes = *likely, WithExpectations
    conforms(told, shapes)
    assert (told["via"], [each["event"] for each in told["messages"]]) == (
        "likely",
        [order, invoice],
    )
    assert told["rests_on"]["proposals"] == [direct.id, shared.id]
    assert told["rests_on"]["sentence"].startswith(
        "header because names message_id: right in 99.0% of 20 where links tell; header order ties"
    )
    other = asked | {"proposal": shared.id}
    told = (await client.get(f"/itc_db/conversations/{invoice}", params=other)).json()
    assert [each["event"] for each in told["messages"]] == [order, invoice]
    assert "no links tell how often that is right" in told["rests_on"]["sentence"]
    causes = (await client.get(f"/itc_db/events/{invoice}/causes", params=asked)).json()
    conforms(causes, (EventWalk, Certainty, LikelyAnswer))
    assert [each["id"] for each in causes["items"]] == [handed, order]
    effects = (await client.get(f"/itc_db/events/{order}/effects", params=asked)).json()
    assert [each["id"] for each in effects["items"]] == [handed, invoice]
    chain = (await client.get(f"/itc_db/chain/{order}/{invoice}", params=asked)).json()
    assert [each["id"] for each in chain["events"]] == [order, handed, invoice]
    assert (chain["answer"], chain["path"]) == ("may have", None)
    evident = (await client.get(f"/itc_db/conversations/{invoice}")).json()
    assert ([each["event"] for each in evident["messages"]], "rests_on" in evident) == (
        [invoice],
        False,
    )


async def test_what_was_in_hand_alone_is_likely_and_cannot_be_adopted(
    world: World, client: httpx2.AsyncClient
) -> None:
    order, handed, invoice = await tell_orders(world)
    [paid] = await world.tellers["/"].tell([Publish(BILLING, "", ("paid",), ("paid",), {}, b"")])
    billing = (await client.get(f"/itc_db/events/{paid}")).json()["participant"]
    sure = {"participant": {"number": billing, "name": "billing"}, "publishes": 40}
    sure |= {"linked": 30, "agreement": 1.0, "examples": FIGURES["examples"]}
    unsure = {**sure, "participant": {"number": 9, "name": "mail"}, "agreement": 0.94}
    direct = {**FIGURES, "kind": "parent", "rules": [DIRECT]}
    report = {"reactions": 50, "proposals": [direct], "in_hand": [sure, unsure]}
    rule, hand = proposals_in(report)
    await world.store.proposals.put(TraceCoverage(1, "/", 100, 50, 0, 2), [rule, hand])
    page = (await client.get(URL, params=SLASH)).json()
    conforms(page, ProposalPage)
    assert page["items"][1]["participants"] == [billing]
    assert page["items"][1]["certainty"] == "links or keys agree in 100% of 30"
    # Of the two that it was handed it has the second in hand; of the invoice a rule says more.
    for event, causes in ((paid, [handed + 2, order + 2]), (invoice, [handed, order])):
        for via, expected in (("likely", causes), ("conversation", [])):
            told = (await client.get(f"/itc_db/events/{event}/causes", params={"via": via})).json()
            assert [each["id"] for each in told["items"]] == expected
    whole = {"via": "likely", "proposal": hand.id}
    told = (await client.get(f"/itc_db/conversations/{paid}", params=whole)).json()
    assert "right in 100.0% of 30 where links or keys tell" in told["rests_on"]["sentence"]
    assert told["messages"][-1]["how"] == {"rule": "in hand", "kind": "in_hand"}
    refused = await client.post(f"{URL}/{hand.id}/adopt", params=SLASH)
    assert (refused.status_code, "makes no rule" in refused.text) == (400, True)


async def test_without_a_proposal_likely_says_that_it_rests_on_nothing(
    client: httpx2.AsyncClient,
) -> None:
    told = (await client.get(f"/itc_db/conversations/{INVOICED}", params={"via": "likely"})).json()
    assert told["rests_on"]["proposals"] == []
    assert [each["event"] for each in told["messages"]] == [INVOICED]
    wrong = {"via": "likely", "proposal": "0"}
    assert (await client.get(f"/itc_db/events/{INVOICED}/causes", params=wrong)).status_code == 404


async def test_proposals_are_shown_and_adopted_by_commands(run: Command, world: World) -> None:
    assert "nothing was looked for yet" in (await run("proposals", "show", "/")).out
    direct, _ = await propose(world)
    said = (await run("proposals", "show", "/")).out
    assert f"{direct.id}  header because names message_id: joins 40 of 50 publishes" in said
    assert "event 3 because of 2: o-1" in said
    told = json.loads((await run("proposals", "show", "/", "--json")).out)
    assert told["items"][0]["id"] == direct.id
    flood = [UserShare("flood", 1.0, 1.0, 40), UserShare("shop", 0.0, 0.0, 1)]
    alone = msgspec.structs.replace(direct, users=flood)
    await world.store.proposals.put(TraceCoverage(1, "/", 100, 50, 0, 2), [alone])
    assert "only in messages of user flood" in (await run("proposals", "show", "/")).out
    assert (await run("proposals", "adopt", "/", direct.id)).code == 2
    done = await run("proposals", "adopt", "/", direct.id, "--of", "flood")
    assert (done.code, done.out) == (0, "/: rule found-header-because adopted\n")
    assert direct.id not in (await run("proposals", "show", "/")).out
    assert (await run("proposals", "adopt", "/", "0")).code == 4
