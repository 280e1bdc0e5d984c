"""What each program of a pipeline is told, by its environment, and what most of them do.

A request passes five programs, four of them with a queue of their name:
front → orders → billing and shipping → mail, which hears of each request from both.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tests.clients.truth import Diary

# How long handling a message takes before anything is published. The broker traces a delivery just
# after it has sent it: of 6,000 reactions published at once on another channel, 2 were traced
# before the delivery that they reacted to (3.10.8, one node).
WORK_SECONDS = 0.01

TARGETS = {
    "front": ("orders",),
    "orders": ("billing", "shipping"),
    "billing": ("mail",),
    "shipping": ("mail",),
    "mail": (),
}


class Role(NamedTuple):
    """Which program this process is. ``connection_name`` is None if it gives itself no name.

    With ``keyed`` bodies say to which request a message belongs.
    """

    program: str
    url: str
    connection_name: str | None
    folder: Path
    requests: int
    keyed: bool = False

    @classmethod
    def from_environment(cls) -> Role:
        """Read what `environment` says."""
        return cls(
            os.environ["PIPELINE_PROGRAM"],
            os.environ["PIPELINE_URL"],
            os.environ.get("PIPELINE_CONNECTION_NAME"),
            Path(os.environ["PIPELINE_FOLDER"]),
            int(os.environ["PIPELINE_REQUESTS"]),
            "PIPELINE_KEYED" in os.environ,
        )

    def environment(self) -> dict[str, str]:
        """Say it to a process."""
        named = {"PIPELINE_CONNECTION_NAME": self.connection_name} if self.connection_name else {}
        return {
            "PIPELINE_PROGRAM": self.program,
            "PIPELINE_URL": self.url,
            "PIPELINE_FOLDER": str(self.folder),
            "PIPELINE_REQUESTS": str(self.requests),
            **({"PIPELINE_KEYED": "yes"} if self.keyed else {}),
            **named,
        }

    @property
    def diary(self) -> Diary:
        """Where this program writes down what it did."""
        return Diary(self.folder, self.program)

    @property
    def client_properties(self) -> dict[str, str]:
        """What AMQP calls so, with the connection's name if it has one."""
        return {"connection_name": self.connection_name} if self.connection_name else {}

    @property
    def starts(self) -> bool:
        """Whether it makes the requests; the others react to their queue."""
        return self.program == "front"

    def first(self) -> list[tuple[str, str]]:
        """The (queue, message) of each request. A program that runs again makes others."""
        return [
            (target, f"{os.getpid()}.{number}>{target}")
            for number in range(self.requests)
            for target in TARGETS[self.program]
        ]

    def body(self, message: str) -> dict[str, str]:
        """The body of a message, as JSON."""
        return {"order": f"order-{message.partition('>')[0]}"} if self.keyed else {}

    def reactions(self, message: str) -> list[tuple[str, str]]:
        """The (queue, message) of each publish that handling a message leads to."""
        return [(target, f"{message}>{target}") for target in TARGETS[self.program]]
