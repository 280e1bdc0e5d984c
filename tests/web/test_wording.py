"""Each sentence of the table is the same on page and command line as in the API's answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest
import typer
from playwright.sync_api import expect

from app.cli.client import ServiceClient
from app.cli.conversations import conversation
from app.cli.events import compare
from app.cli.options import Requirements, TimeRange
from app.cli.where import where
from model.wording import Sentence
from tests.web.conftest import OpenPage, change_answers
from tests.web.service import Served
from tests.web.test_trial import SHOP, SOUGHT, serving

FIELD = re.compile(r"\{[^}]*\}")


def spoken(first: str, last: str) -> list[str]:
    """The sentences from one of the table to another, with a name in each place."""
    names = [*Sentence.__members__]
    chosen = names[names.index(first) : names.index(last) + 1]
    return [FIELD.sub("stock", Sentence[name]) for name in chosen]


OUTCOMES, REMAINING = spoken("led_to", "in_gap"), spoken("remaining", "overdue_step")
CAVEATS = [*spoken("incomplete", "unseen_many"), *spoken("no_reactions", "naming_remedy")]
VERDICTS, WHEREABOUTS = spoken("before", "touched_as_known"), spoken("nowhere", "waits")
FAILURES, COPIES = spoken("rejected", "put_back"), spoken("equal_copy", "direct_reply")
REASONS = spoken("all_settled", "no_record")
ALL = (OUTCOMES, REASONS, REMAINING, CAVEATS, VERDICTS, WHEREABOUTS, FAILURES, COPIES)


def clauses(texts: list[str]) -> list[Any]:
    nothing: dict[str, Any] = {"number": None, "queues": [], "names": [], "event": None}
    return [nothing | {"about": "led_to", "text": text} for text in texts]


def changed(answer: Any) -> Any:
    """An answer that says every sentence, each in a field that may have it."""
    failed = {"kind": "unroutable", "queue": None, "reason": None, "exception": None}
    answer |= {"caveats": CAVEATS, "complete": False, "sound": False}
    if "messages" in answer and "outcome" in answer:
        answer |= {"sentence": ". ".join(OUTCOMES), "clauses": clauses(OUTCOMES)}
        answer["reason"] = "; ".join(REASONS)
        answer["remaining"] = {"sentence": "; ".join(REMAINING)}
        for message in answer["messages"]:
            if message["failure"] is not None:
                message |= {"failure": failed, "failure_clauses": clauses(["; ".join(FAILURES)])}
                message["failure_sentence"] = "; ".join(FAILURES)
                message["copies"][0] |= {"state": "gone", "deliveries": []}
                message["copies"][0]["remark"] = "; ".join(COPIES)
    else:
        answer["sentence"] = "; ".join(VERDICTS if "relation" in answer else WHEREABOUTS)
    return answer


class Client:
    """The command line's client, to which the service says all of this."""

    def __init__(self, server: Served) -> None:
        self._server = server

    def get(self, path: str, **query: Any) -> Any:
        asked = {name: each for name, each in query.items() if each is not None}
        return changed(self._server.answer(path, **asked))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("wording")) as server:
        yield server


def test_all_sentences_are_shown_somewhere() -> None:
    assert sum(map(len, ALL)) == len(Sentence)


@pytest.mark.parametrize("of", ["conversation", "compare", "where"])
def test_page_and_command_line_say_each_sentence_as_the_api_does(
    shop: Served, open_page: OpenPage, capsys: pytest.CaptureFixture[str], of: str
) -> None:
    key = {"vhost": SHOP, "correlation_id": f"order-{SOUGHT}"}
    [listed] = shop.answer("/itc_db/conversations", **key)["items"]
    root, client = listed["root"], cast("ServiceClient", Client(shop))
    requirements = Requirements()
    if of == "conversation":
        conversation(client, requirements, root)
        address, sayings = (
            f"conversations?event={root}",
            (OUTCOMES, REASONS, REMAINING, FAILURES, COPIES),
        )
    elif of == "compare":
        compare(client, requirements, root, root + 1)
        address, sayings = f"chain?a={root}&b={root + 1}", (VERDICTS,)
    else:
        with pytest.raises(typer.Exit):
            where(client, TimeRange(), requirements, "nosuch")
        address, sayings = "overview", (WHEREABOUTS,)
    captured = capsys.readouterr()
    page = open_page(shop)
    change_answers(page, re.compile(r"/itc_db/(conversations/\d|compare/|where)"), changed)
    page.goto(f"{shop.url}/#/{address}")
    if of == "where":
        page.get_by_label("What happened to").fill("nosuch")
        page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text(sayings[0][-1][1:])
    if of != "where":  # which has no certainty of its own on the page
        page.get_by_text("Why?").click()
        sayings += (CAVEATS,)
    shown = {"page": page.locator("body").text_content() or "", "line": "".join(captured)}
    missing = {
        where: [each for saying in sayings for each in saying if each[1:] not in text]
        for where, text in shown.items()
    }
    assert missing == {"page": [], "line": []}
