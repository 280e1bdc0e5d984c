"""The documents' commands do what the documents say, on a running service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.conftest import (
    CAPTURING,
    Installation,
    documented_permissions,
    installed,
    trace_path,
)
from tests.docs.documents import BEHIND, CHECKOUT, DOCUMENTS, code, name_of, script, shown, unlike
from tools.servers import RabbitNode

# What a document assumes: these are about orders that have gone through the broker.
WITH_ORDERS = {
    "docs/runbooks.md": "1001",
    "docs/how-it-works.md": "1001",
    "docs/operations.md": "1004",
    "docs/assertions-live.md": "1001",
    "docs/interchange.md": "1001",
}
RUN = [document for document in DOCUMENTS if script(document)]


@pytest.mark.parametrize(
    ("shown", "printed", "first"),
    [
        ("up to date (r0007)", "up to date (r0007)", None),
        ("up to date (0002)", "up to date (r0007)", "up to date (0002)"),
        ("a\nb", "a\nmore\nb", "b"),
        ("a\n…\nb", "a\nmore\nb", None),
        ("a", "a\nmore", "more"),
        ("a\n…", "a\nmore", None),
        ("a\nb", "b\na", "a"),
        ("a", "job 3: reading, 10 %\na", None),
        ("3 of event 7, in 2 ms", "3 of event 11, in under 1 ms", None),
        ("3 of event 7, in 2 ms", "4 of event 7, in 2 ms", "3 of event 7, in 2 ms"),
    ],
)
def test_a_line_that_a_document_does_not_show_or_shows_otherwise_is_named(
    shown: str, printed: str, first: str | None
) -> None:
    assert unlike(shown.splitlines(), printed.splitlines()) == first


@pytest.mark.parametrize("document", RUN, ids=name_of)
def test_commands_print_what_the_document_shows(
    document: Path, installation: Installation, traceable: str, tmp_path: Path
) -> None:
    if run_name := WITH_ORDERS.get(name_of(document)):
        installation.with_orders(traceable, run_name)

    _check(document, installation, traceable, tmp_path)


@pytest.mark.long(90)
def test_the_runbooks_work_after_a_second_demo(
    installation: Installation, traceable: str, tmp_path: Path
) -> None:
    installation.with_orders(traceable, "1001")
    with installation.http as http:
        http.delete(trace_path(traceable)).raise_for_status()
    installation.with_orders(traceable, "1002")

    printed = _run(CHECKOUT / "docs" / "runbooks.md", installation, traceable, tmp_path)

    assert "orders 1002-1, 1002-2, 1002-3" in printed
    assert "8 missing: order.approved invoice.sent" in printed
    assert "header coupon=SPRING: 8 of 8, of the others 0" in printed


@pytest.mark.long(60)
def test_the_walk_begins_beside_a_broker_as_debian_ships_it(tmp_path: Path) -> None:
    walk = CHECKOUT / "docs" / "walk.md"
    enabling = re.findall(r"^rabbitmq-plugins (.*)$", walk.read_text(), re.MULTILINE)
    with RabbitNode() as broker:
        broker.ctl("disable", "--all", tool="rabbitmq-plugins")  # none is enabled there
        for words in enabling:
            broker.ctl(*words.split(), tool="rabbitmq-plugins")
        with broker.fresh_vhost("walk") as vhost, installed(broker, tmp_path) as running:
            broker.permit(CAPTURING[0], vhost, **documented_permissions())
            _check(walk, running, vhost, tmp_path)


def _run(document: Path, installation: Installation, traceable: str, folder: Path) -> str:
    """Run a document's script; return what it prints, by the names that documents have."""
    done = installation.run(script(document), folder, traceable)

    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.replace(f"/{traceable}/", "/%2F/").replace(traceable, "/")
    return said.replace(CAPTURING[0], "itc")


def _check(document: Path, installation: Installation, traceable: str, folder: Path) -> None:
    """Run a document's script, and find that it prints what the document shows, and no more."""
    said = _run(document, installation, traceable, folder)
    printed = re.split(rf"^{BEHIND} [0-9]+\n", said, flags=re.MULTILINE)
    wrong = [
        f"{line}\n-- instead of:\n{printed[number]}"
        for number, lines in shown(document).items()
        if (line := unlike(lines, printed[number].splitlines())) is not None
    ]
    assert not wrong, "\n\n".join(wrong)


def test_the_documents_that_have_to_show_commands_do() -> None:
    assert {"README.md", "docs/runbooks.md", "docs/operations.md"} <= {*map(name_of, RUN)}


def test_every_metric_that_is_named_is_served(installation: Installation, traceable: str) -> None:
    installation.traced(traceable)
    with installation.http as http:
        texts = [http.get(path).text for path in ("/metrics", "/metrics/queues")]
        served = set(re.findall(r"\bitc_\w+", "".join(texts)))
    named = {
        name
        for document in DOCUMENTS
        for name in re.findall(r"\bitc_[a-z_]+\b", code(document))
        if not name.startswith("itc_db")
    }
    assert named, f"no document under {CHECKOUT} names a metric"
    assert named <= served
