"""Verdicts on whether one event had a part in another, as a word and a sentence."""

from __future__ import annotations

import enum
from typing import Literal, NamedTuple, TypeAlias

from itc import Relation
from model.wording import Sentence
from model.words import Via, number_of, verb

Answer: TypeAlias = Literal["caused", "may have", "cannot have", "unknown"]


class Verdict(enum.StrEnum):
    """The part of an event, or of any of several, in a later one."""

    caused = "caused"  # messages and links lead to it
    may_have = "may_have"  # it happened after one of them
    cannot_have = "cannot_have"  # it happened after none; certain where all is complete and sound
    unknown = "unknown"  # it happened after none, but after an event of unknown cause


IN_ORDER = frozenset({Relation.before, Relation.after})

_SENTENCES = {
    Relation.before: Sentence.before,
    Relation.after: Sentence.after,
    Relation.equal: Sentence.equal,
    Relation.concurrent: Sentence.concurrent,
}
_CAUSED = {Relation.before: Sentence.caused, Relation.after: Sentence.was_caused}
_NOT_EVIDENT = {
    Relation.before: Sentence.not_evident,
    Relation.after: Sentence.not_evidently_caused,
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
    reasons = _reasons(Sentence.missing_between, complete=complete, sound=sound)
    reasons += [doubtful] if doubtful else []
    if relation is Relation.concurrent and reasons:
        first = Sentence.perhaps_concurrent.format(a=a, b=b)
        others = [reason[0].upper() + reason[1:] for reason in reasons]
        return Statement("unknown", ". ".join([first, *others]))
    # Nothing causes itself, either.
    answer: Answer = "may have" if relation in IN_ORDER else "cannot have"
    sentence = _SENTENCES[relation].format(a=a, b=b)
    return Statement(answer, sentence + equals(max(a, b), candidates, answer))


def equals(event: int, candidates: int | None, answer: Answer) -> str:
    """The end of a sentence on an event that may be a delivery of any of several equal messages."""
    if answer != "may have" or not candidates:
        return ""
    return f". {Sentence.one_of_equal.format(event=event, candidates=candidates)}"


def not_evident(a: int, b: int, relation: Relation, via: Via) -> str:
    """The sentence for two ordered events without an evident path between them."""
    return _NOT_EVIDENT[relation].format(a=a, b=b, nothing=_EVIDENCE[via])


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
    rest = total - caused - may_have
    floor, ceiling = ("at least ", "up to ") if cut else ("", "")
    begin = Sentence.touched.format(
        events=number_of(total, "event"),
        floor=floor,
        caused=caused,
        were=verb(caused, "was", "were"),
        them=verb(events, "it", "them"),
        ceiling=ceiling,
        may_have=may_have,
    )
    if reasons := _reasons(Sentence.missing, complete=complete, sound=sound):
        end = Sentence.touched_as_known.format(rest=rest, reasons=" and ".join(reasons))
        return f"as far as is known, {begin}, {end}"
    summary = f"{begin}, {Sentence.untouched.format(rest=rest - unknown)}"
    return f"{summary}, {Sentence.touched_unknown.format(unknown=unknown)}" if unknown else summary


def _reasons(incomplete: Sentence, *, complete: bool, sound: bool) -> list[str]:
    return [str(incomplete)] * (not complete) + [str(Sentence.parts_of_one)] * (not sound)
