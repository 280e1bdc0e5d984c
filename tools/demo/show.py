"""Prints the demo's progress and its chain."""

from __future__ import annotations

import time
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.demo.client import Event, trace_path
from tools.demo.judge import Recorded
from tools.demo.stage import Stage

PLAIN_WIDTH = 200  # if there is no terminal to ask


class Printer:
    """Writes to standard output; each step is preceded by the seconds since the start."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, width=PLAIN_WIDTH)

    def step(self, text: str) -> None:
        """Say what is being done now."""
        seconds = time.monotonic() - self._begin
        self._console.print(Text(f"[{seconds:5.1f} s] {text}"))

    def line(self, text: str = "") -> None:
        """Print a line as it is: text from the broker must not be taken for markup."""
        self._console.print(Text(text), soft_wrap=True)

    def chain(self, exported: list[Event], recorded: Recorded) -> None:
        """Print the events of an export as a table."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for heading in ("event", "Lamport", "participant", "type", "exchange or queue", "stamp"):
            right = heading in ("event", "Lamport")
            table.add_column(heading, justify="right" if right else "left", overflow="fold")
        exported = [event for event in exported if not event["quiet"]]
        for event in exported:
            table.add_row(*(Text(cell) for cell in _cells(event, recorded)))
        self._console.print(table)
        roles = (
            (recorded.roles.get(e["connection"], "?"), e["participant_name"]) for e in exported
        )
        for role, name in dict.fromkeys(roles):
            self.line(f"  {role:<10} {name}")

    def farewell(self, stage: Stage, summary: dict[str, Any]) -> None:
        """Say where everything is and what to try."""
        location = f"{stage.client.url}{summary['location']}"
        user = stage.broker.user
        secret = f"{user}:{stage.broker.password}" if stage.private else user
        curl = f"curl -s -u {secret} {stage.client.url}"
        self.line(f"Dashboard        {stage.client.url}/   (sign in as {user})")
        self.line(f"Export           {location}")
        self.line(f"                 {stage.exports}")
        self.line(f"RabbitMQ         {stage.broker.management_url}/")
        self.line(f"Service's log    {stage.service.log}")
        self.line()
        self.line("Try:")
        self.line(f"  {curl}{trace_path(stage.vhost)}")
        self.line(f"  {curl}/itc_db/events/{summary['to']}")
        self.line(f"  {curl}/itc_db/compare/{summary['from']}/{summary['to']}")
        self.line(f"  {curl}/itc_db/events/{summary['from']}/deliveries")
        self.line(f"  curl -s -u {secret} {location}")


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
        str(event["lamport"]),
        recorded.roles.get(event["connection"], event["connection"]),
        event["type"],
        where,
        event["stamp"],
    )
