"""What the service says of itself: who is signed in, whether it can work."""

from __future__ import annotations

from typing import Literal

from app.api.schemas.common import Model


class Whoami(Model):
    """The signed-in user."""

    name: str
    tags: list[str]
    vhosts: list[str]
    may_write: bool


Condition = Literal["ok", "unavailable"]


class Health(Model):
    """A probe's answer."""

    status: Condition
    checks: dict[str, Condition]
