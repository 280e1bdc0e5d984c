"""What the service says about causes: relations and fates, in a word and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.api.answers import Heavy
from app.errors import BadRequestError
from app.stored.causality import Path, Step
from app.stored.deliveries import Fate
from itc import Relation
from model.answers import said_of
from model.event import Event, Large
from model.gaps import Gap
from model.sound import Soundness

CLOCK_ALONE: Large = frozenset({"clock"})


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
    steps = None if path is None else path.steps
    if steps is not None and relation is Relation.concurrent:
        relation = Relation.before if a.id < b.id else Relation.after
    how = None if steps is None else _through(len(steps) - 1)
    said = said_of(a.id, b.id, relation, how, complete=not gaps, sound=not soundness.doubts)
    return {
        "a": a.id,
        "b": b.id,
        "vhost": a.vhost,
        "relation": relation.value,
        "sentence": said.sentence,
        "answer": said.answer,
        "path": None if steps is None else [step_view(step) for step in steps],
        **certainty(gaps, soundness),
    }


def _through(events: int) -> str:
    if not events:
        return "directly"
    return f"through {events} event{'s' * (events > 1)}"


def step_view(step: Step) -> dict[str, Any]:
    """A message, or a link and its rule."""
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
