"""What the service says about causes: relations and fates, in a word and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.api.answers import Heavy
from app.errors import BadRequestError
from app.stored.causality import Path, Step
from app.stored.deliveries import Fate
from itc import Relation
from model.event import Event, Large
from model.gaps import Gap
from model.sound import Soundness

CLOCK_ALONE: Large = frozenset({"clock"})

_SENTENCES = {
    Relation.before: "event {a} happened before event {b}, and may have influenced it",
    Relation.after: "event {a} happened after event {b}, and may have been influenced by it",
    Relation.equal: "event {a} is event {b}",
    Relation.concurrent: "events {a} and {b} are concurrent: neither can have influenced the other",
}
_CAUSED = {
    Relation.before: "event {a} caused event {b}, {through}",
    Relation.after: "event {a} was caused by event {b}, {through}",
}
ORDERED = frozenset(_CAUSED)
_AS_KNOWN = (
    "events {a} and {b} are concurrent as far as is known, but {why},"
    " so there may be a path that was not recorded"
)
_MISSING = "messages may be missing between them"
_DOUBTFUL = "some participants may be parts of one program"


def of_one_trace(a: Event, b: Event) -> int:
    """The trace of two events; raises `BadRequestError` if they are of two."""
    if a.trace_id != b.trace_id:
        raise BadRequestError(
            "these events are of two virtual hosts, whose clocks cannot be compared"
        )
    return a.trace_id


def comparison(
    a: Event,
    b: Event,
    relation: Relation,
    path: Path | None,
    gaps: Sequence[Gap],
    soundness: Soundness,
) -> dict[str, Any]:
    """How two events of one trace are related; ``path`` is from the earlier to the later.

    A path that the clocks do not have is one all the same: then the earlier event was before.
    """
    has_path = path is not None and path.steps is not None
    if has_path and relation is Relation.concurrent:
        relation = Relation.before if a.id < b.id else Relation.after
    whys = [_MISSING] * bool(gaps) + [_DOUBTFUL] * bool(soundness.doubts)
    sentence, through, steps = _SENTENCES[relation], "", None
    answer = "cannot have"  # nothing causes itself, either
    if relation in ORDERED:
        answer = "may have"
        if path is not None and path.steps is not None:
            answer, steps = "caused", path.steps
            sentence, through = _CAUSED[relation], _through(len(steps) - 1)
    elif whys and relation is Relation.concurrent:
        answer, sentence = "unknown", _AS_KNOWN
    return {
        "a": a.id,
        "b": b.id,
        "vhost": a.vhost,
        "relation": relation.value,
        "sentence": sentence.format(a=a.id, b=b.id, why=" and ".join(whys), through=through),
        "answer": answer,
        "path": None if steps is None else [_step_view(step) for step in steps],
        **certainty(gaps, soundness),
    }


def _through(events: int) -> str:
    if not events:
        return "directly"
    return f"through {events} event{'s' * (events > 1)}"


def _step_view(step: Step) -> dict[str, Any]:
    kind = None if step.kind is None else step.kind.name
    return {
        "cause": step.cause,
        "effect": step.effect,
        "how": step.how,
        "rule": step.rule,
        "kind": kind,
    }


def certainty(gaps: Sequence[Gap], soundness: Soundness) -> dict[str, Any]:
    """How far an answer is to be relied on."""
    return {
        "complete": not gaps,
        "gaps": [gap.to_json() for gap in gaps],
        **soundness.to_json(),
    }


def deliveries_view(fate: Fate, heavy: Heavy) -> dict[str, Any]:
    """A publish's fate, queue by queue."""
    return {
        "event": fate.publish.id,
        "routed_queues": fate.routed_queues,
        "handed_over": fate.handed_over,
        "sentence": _fate_sentence(fate),
        "queues": [
            {
                "queue": queue.queue,
                "state": queue.state.value,
                "deliveries": heavy.views(queue.deliveries),
                "dead_letters": heavy.views(queue.dead_letters),
                "dead_lettered_to": queue.dead_lettered_to,
            }
            for queue in fate.queues
        ],
    }


def _fate_sentence(fate: Fate) -> str:
    if not fate.queues:
        return "routed to no queue: nobody was given it"
    noun = "queue" if fate.routed_queues == 1 else "queues"
    return f"handed over for {fate.handed_over} of {fate.routed_queues} {noun}"
