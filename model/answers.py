"""Verdicts on whether one event had a part in another, as a word and a sentence."""

from __future__ import annotations

import enum
from typing import Literal, NamedTuple, TypeAlias

from itc import Relation
from model.words import Via, number_of

Answer: TypeAlias = Literal["caused", "may have", "cannot have", "unknown"]


class Verdict(enum.StrEnum):
    """The part of an event, or of any of several, in a later one."""

    caused = "caused"  # messages and links lead to it
    may_have = "may_have"  # it happened after one of them
    cannot_have = "cannot_have"  # it happened after none; certain where all is complete and sound
    unknown = "unknown"  # it happened after none, but after an event of unknown cause


IN_ORDER = frozenset({Relation.before, Relation.after})

_SENTENCES = {
    Relation.before: "event {a} happened before event {b}, and may have influenced it",
    Relation.after: "event {a} happened after event {b}, and may have been influenced by it",
    Relation.equal: "event {a} is event {b}",
    Relation.concurrent: "events {a} and {b} are concurrent: neither can have influenced the other",
}
_CAUSED = {
    Relation.before: "event {a} caused event {b}, {path}",
    Relation.after: "event {a} was caused by event {b}, {path}",
}
_AS_KNOWN = (
    "events {a} and {b} are concurrent as far as is known, but {why},"
    " so there may be a path that was not recorded"
)
_INCOMPLETE = "messages may be missing between them"
_INCOMPLETE_HERE = "messages may be missing"
_DOUBTFUL = "some participants may be parts of one program"
_PUBLISH_UNSEEN = "the publish of a delivery in their past was not seen"

_NOT_EVIDENT = {
    Relation.before: "event {a} may have caused event {b}, but {what} says so",
    Relation.after: "event {a} may have been caused by event {b}, but {what} says so",
}
_EVIDENCE = {
    Via.links: "no link or message",
    Via.conversation: "no link, message or conversation",
}


class Statement(NamedTuple):
    """A word, and the sentence."""

    answer: Answer
    sentence: str


def statement_of(
    a: int,
    b: int,
    relation: Relation,
    path: str | None,
    *,
    complete: bool,
    sound: bool,
    doubtful: str | None = None,
    candidates: int | None = None,
) -> Statement:
    """The answer whether the earlier of two events had a part in the later.

    ``relation`` is that of a to b. ``path`` says which messages and links lead from one to the
    other, None if none do. ``doubtful`` names events of unknown cause between them
    (`model.doubtful`). The later may be a delivery of any of ``candidates`` messages.
    """
    if relation in IN_ORDER and path is not None:
        return Statement("caused", _CAUSED[relation].format(a=a, b=b, path=path))
    whys = [_INCOMPLETE] * (not complete) + [_DOUBTFUL] * (not sound)
    whys += [doubtful] if doubtful else []
    if relation is Relation.concurrent and whys:
        return Statement("unknown", _AS_KNOWN.format(a=a, b=b, why=" and ".join(whys)))
    # Nothing causes itself, either.
    answer: Answer = "may have" if relation in IN_ORDER else "cannot have"
    sentence = _SENTENCES[relation].format(a=a, b=b)
    return Statement(answer, sentence + equals(max(a, b), candidates, answer))


def equals(event: int, candidates: int | None, answer: Answer) -> str:
    """The end of a sentence on an event that may be a delivery of any of several equal messages."""
    if answer != "may have" or not candidates:
        return ""
    return f"; event {event} is a delivery of one of {candidates} equal messages"


def not_evident(a: int, b: int, relation: Relation, via: Via) -> str:
    """The sentence for two ordered events without an evident path between them."""
    return _NOT_EVIDENT[relation].format(a=a, b=b, what=_EVIDENCE[via])


def touched_sentence(
    events: int,
    total: int,
    caused: int,
    may_have: int,
    unknown: int,
    *,
    cut: bool,
    complete: bool,
    sound: bool,
) -> str:
    """The sentence on the ``total`` events since some, by their verdicts.

    ``unknown`` of them are behind doubtful deliveries. ``cut``: more were caused than are counted.
    Only a complete and sound record says "cannot".
    """
    pronoun = "it" if events == 1 else "them"
    verb = "was" if caused == 1 else "were"
    floor, ceiling = ("at least ", "up to ") if cut else ("", "")
    begin = f"of {number_of(total, 'event')} since, {floor}{caused:,} {verb} caused by {pronoun},"
    possible = f"{ceiling}{may_have:,} more may have been"
    rest = total - caused - may_have
    if complete and sound and not unknown:
        return f"{begin} {possible}, {rest:,} cannot have been"
    if complete and sound:
        summary = f"{begin} {possible}, {rest - unknown:,} cannot have been"
        return f"{summary}, and for {unknown:,} it is unknown, because {_PUBLISH_UNSEEN}"
    reason = " and ".join([_INCOMPLETE_HERE] * (not complete) + [_DOUBTFUL] * (not sound))
    return (
        f"as far as is known, {begin} {possible}, and nothing known leads to {rest:,}; but {reason}"
    )
