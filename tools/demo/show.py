"""Prints the demo's progress and its chain."""

from __future__ import annotations

import threading
import time
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.demo.client import Event
from tools.demo.judge import Recorded
from tools.demo.stage import Stage

PLAIN_WIDTH = 200  # if there is no terminal to ask
STAMPED_WIDTH = 140  # a stamp is folded into a few lines where there is less room
TERMINAL_SECONDS, LINE_SECONDS = 1.0, 10.0  # how often a step that takes long says that it goes on


class Printer:
    """Writes to standard output; each step is preceded by the seconds since the start.

    While a step goes on it says for how long: written over on a terminal, else in further lines.
    """

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, width=PLAIN_WIDTH)
        self._over = threading.Event()
        self._waiting: threading.Thread | None = None

    def step(self, text: str) -> None:
        """Say what is being done now, and go on saying so until the next is said."""
        self.end_step()
        begin = time.monotonic()
        said = self._timed(text)
        self._console.print(Text(said), end="\r" if self._console.is_terminal else "\n")
        waiting = threading.Thread(target=self._go_on, args=(said, begin), daemon=True)
        waiting.start()
        self._waiting = waiting  # once it is started: Ctrl-C may come before, and joins it

    def stays(self, text: str) -> None:
        """Say what is so from now on: nothing is waited for."""
        self.line(self._timed(text))

    def _timed(self, text: str) -> str:
        return f"[{time.monotonic() - self._begin:5.1f} s] {text}"

    def end_step(self) -> None:
        """Say no more of the last step."""
        if self._waiting is None:
            return
        self._over.set()
        self._waiting.join()
        self._over.clear()
        self._waiting = None
        if self._console.is_terminal:
            self._console.print()

    def _go_on(self, said: str, begin: float) -> None:
        on_terminal = self._console.is_terminal
        while not self._over.wait(TERMINAL_SECONDS if on_terminal else LINE_SECONDS):
            longer = Text(f"{said} ({time.monotonic() - begin:.0f} s)")
            self._console.print(longer, end="\r" if on_terminal else "\n", overflow="ellipsis")

    def line(self, text: str = "") -> None:
        """Print a line as it is: text from the broker must not be taken for markup."""
        self.end_step()
        self._console.print(Text(text), soft_wrap=True)

    def chain(self, exported: list[Event], recorded: Recorded) -> None:
        """Print the events of an export as a table; stamps only where there is room for them."""
        self.end_step()
        has_room = self._console.width >= STAMPED_WIDTH
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("event", justify="right", no_wrap=True)
        for heading in ("participant", "type", "exchange or queue"):
            table.add_column(heading, no_wrap=True, overflow="ellipsis")
        if has_room:
            table.add_column("stamp", overflow="fold")
        exported = [event for event in exported if not event["quiet"]]
        for event in exported:
            cells = _cells(event, recorded)
            table.add_row(*(Text(cell) for cell in (cells if has_room else cells[:-1])))
        self._console.print(table)

    def last_word(self, stage: Stage, summary: dict[str, Any], *, stays: bool) -> None:
        """Say what there is, and in one sentence at the end what was found and where to see it.

        What is about to be stopped is not advertised.
        """
        a, b = summary["from"], summary["to"]
        found = f"Event {a} (A) may have led to event {b} (B)"
        export = stage.exports / "demo.jsonl" if summary.get("location") else None
        if not stays:
            more = f": open {export} for all that lies between" if export else ""
            self.line(f"{found}{more}.")
            return
        user = stage.broker.user
        secret = f"{user}:{stage.broker.password}" if stage.private else user
        if export:
            self.line(f"Export    {export}")
        self.line(f"RabbitMQ  {stage.broker.management_url}/")
        if stage.private:
            self.line(f"AMQP      {stage.broker.amqp_url(stage.vhost)}")
        self.line(f"Log       {stage.service.log}")
        self.line(f"Try       curl -s -u {secret} {stage.client.url}/itc_db/compare/{a}/{b}")
        self.line()
        page = f"{stage.client.url}/#/chain?a={a}&b={b}"
        self.line(f"{found}: open {page} (sign in as {user}) to see how.")


def _cells(event: Event, recorded: Recorded) -> tuple[str, ...]:
    if event["type"] == "published":
        where = (
            f"to {event['exchange'] or '(default exchange)'} [{', '.join(event['routing_keys'])}]"
        )
    else:
        where = f"from {event['queue']}"
        if event["match"] != "routed":
            where += f" ({event['match'].replace('_', '-')})"
    return (
        str(event["id"]),
        recorded.roles.get(event["connection"], event["connection"]),
        event["type"],
        where,
        event["stamp"],
    )
