"""A clause of a sentence, with the fields that it is made of."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias

ClauseWord: TypeAlias = Literal[
    "led_to",
    "alone",
    "died",
    "rejected",
    "error_queue",
    "unroutable",
    "came_back",
    "gone",
    "waiting",
    "back",
    "left",
    "held",
    "unnamed",
    "silent",
    "pending",
    "halves",
    "recent",
    "gap",
    "went_on",
    "put_back",
]


class Clause(NamedTuple):
    """One thing that a sentence says; the sentence has the number, if any, before the text."""

    about: Annotated[ClauseWord, "What happened, in a word."]
    text: str
    number: Annotated[int | None, "How many messages or copies; `null` of what counts none."] = None
    queues: tuple[str, ...] = ()
    names: Annotated[tuple[str, ...], "Participants in full, or the shovel or link."] = ()
    event: Annotated[
        int | None,
        "Of a failure, the delivery that was rejected or was the last before it; of `put_back`, "
        "the publish.",
    ] = None

    remedy: Annotated[str | None, "What would tell what is not known."] = None

    def __str__(self) -> str:
        text = self.text if self.number is None else f"{self.number:,} {self.text}"
        return f"{text}: {self.remedy}" if self.remedy else text
