"""What the demo prints: it fits a window of 80 columns, and ends with what to open."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tools.demo import show
from tools.demo.show import STAMPED_WIDTH, Printer
from tools.servers import wait_until

STAMP = "(((((1, 0), 0), 0), 0), (0, (0, (0, (12, 2, 0), (0, 0, 11)), (0, (0, 11, 0), 0)), 0))"


def event(**more: Any) -> dict[str, Any]:
    usual = {
        "id": 67,
        "type": "received",
        "queue": "itc-demo.orders.dead",
        "match": "dead_lettered",
        "connection": "c",
        "participant_name": "auditor (auditor@127.0.0.1)",
        "stamp": STAMP,
        "quiet": False,
    }
    return usual | more


RECORDED: Any = SimpleNamespace(roles={"c": "auditor"})
STAGE: Any = SimpleNamespace(
    private=True,
    vhost="/",
    broker=SimpleNamespace(
        user="guest",
        password="guest",
        management_url="http://127.0.0.1:48247",
        amqp_url=lambda vhost: "amqp://guest:guest@127.0.0.1:48248/%2F",
    ),
    client=SimpleNamespace(url="http://127.0.0.1:15680"),
    exports=Path("var/demo/service/exports"),
    service=SimpleNamespace(log=Path("var/demo/service.log")),
)
SUMMARY = {"from": 1, "to": 67, "location": "/itc_db/exports/demo.jsonl"}


def printer(width: int) -> Printer:
    made = Printer()
    made._console = Console(width=width, highlight=False, color_system=None)
    return made


def test_a_step_that_takes_long_says_that_it_goes_on_until_the_next(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "LINE_SECONDS", 0.01)
    said = ""

    def goes_on() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return said.count("starting a broker (0 s)") > 1

    made = printer(80)
    made.step("starting a broker")
    wait_until(goes_on, 10, "the step's further lines")
    made.step("stopping")
    made.end_step()
    lines = (said + capsys.readouterr().out).splitlines()
    assert next(line for line in lines if "starting" not in line).endswith("s] stopping")
    assert "starting" not in lines[-1]


def test_a_chain_is_a_line_an_event_on_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    printer(80).chain([event(id=number) for number in range(1, 21)], RECORDED)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]

    assert len(lines) == 2 + 20  # headings and events
    assert max(map(len, lines)) <= 80
    assert "stamp" not in lines[0]
    assert "itc-demo.orders.dead (dead-lettered)" in lines[2]


def test_stamps_are_shown_where_they_fit(capsys: pytest.CaptureFixture[str]) -> None:
    printer(STAMPED_WIDTH + 40).chain([event()], RECORDED)
    assert STAMP in capsys.readouterr().out


def test_the_end_names_a_and_b_and_what_to_open(capsys: pytest.CaptureFixture[str]) -> None:
    printer(80).last_word(STAGE, SUMMARY, stays=True)
    last = capsys.readouterr().out.splitlines()[-1]

    assert last.startswith("Event 1 (A) may have led to event 67 (B): open http://127.0.0.1:15680/")
    assert "#/chain?a=1&b=67 " in last


def test_what_is_about_to_be_stopped_is_not_advertised(capsys: pytest.CaptureFixture[str]) -> None:
    printer(80).last_word(STAGE, SUMMARY, stays=False)
    (only,) = capsys.readouterr().out.splitlines()

    assert "http" not in only
    assert "exports/demo.jsonl" in only


@pytest.mark.parametrize("stays", [True, False])
def test_no_file_is_named_where_no_job_wrote_one(
    capsys: pytest.CaptureFixture[str], stays: bool
) -> None:
    printer(80).last_word(STAGE, SUMMARY | {"location": None}, stays=stays)
    assert "jsonl" not in capsys.readouterr().out
