"""What failed: ``failures``; what is learnt: ``expectations``, ``compare-periods``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient
from app.cli.following import report
from app.cli.options import Joined, Json, Listed, TimeRange, Vhost
from app.cli.output import as_json, columns, gaps_of, listed, period_of, say, table
from model.words import number_of


def failures(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    kind: Annotated[
        str | None, typer.Option(help="died, error_queue, unroutable, came_back, overdue or gone.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Failed in this queue.")] = None,
    reason: Annotated[str | None, typer.Option(help="Died for this reason.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Messages of this type.")] = None,
    exception: Annotated[str | None, typer.Option(help="With this exception, or type.")] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="By queue, reason, type and exception.")
    ] = False,
    limit: Listed = 100,
    json: Json = False,
) -> None:
    """Messages that died, came back, reached nobody, or were put into an error queue."""
    asked: dict[str, Any] = {
        "vhost": vhost,
        "kind": kind,
        "queue": queue,
        "reason": reason,
        "type": type_,
    }
    asked |= {"exception": exception, "limit": limit, **asdict(period)}
    found = client.get("/itc_db/failures", **asked)
    if groups and not json:
        table(_GROUPS, found["groups"])
    else:
        listed(found, json, _FAILURES)
    if json:
        return
    if not found["complete"]:
        say(gaps_of(found))
    if not found["counted_all"]:
        say(f"{found['counted']} were counted; there may be older ones")


_GROUPS = columns("COUNT, KIND, QUEUE, REASON, TYPE, EXCEPTION, BY, LAST: last_at")
_FAILURES = columns(
    "EVENT, MESSAGE, KIND, QUEUE, REASON, TYPE, BY: by.name, AT",
    MESSAGE=lambda one: one["message"] or f"{one['candidate'] or ''}?",
    REASON=lambda one: one["exception"] or one["reason"],
)
_SHOWN = 20

Wait = Annotated[
    float | None, typer.Option(help="Look for effects up to this many seconds after the period.")
]


def expectations(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    via: Joined = "links",
    wait: Wait = None,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print only what is proposed, as a file of assertions.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what messages normally lead to, and what was otherwise; by default in the last hour."""
    asked = {"vhost": vhost, "via": via, "wait": wait, **asdict(period)}
    found = report(client, "/itc_db/reports/expectations", **asked)
    if json:
        as_json(found)
    elif yaml:
        say("assertions:")
        say("".join(one["yaml"] for one in found["proposals"]).rstrip("\n") or "  []")
    else:
        _show_expectations(found)


def compare_periods(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    before_since: Annotated[
        str | None, typer.Option(help="Compare with what began from this time on.")
    ] = None,
    before_until: Annotated[
        str | None,
        typer.Option(help="Compare with what began before this time; --since if not given."),
    ] = None,
    via: Joined = "links",
    wait: Wait = None,
    json: Json = False,
) -> None:
    """Show what appeared, vanished or changed since another period; by default the hour before."""
    asked = {"vhost": vhost, "via": via, "wait": wait, **asdict(period)}
    asked |= {"before_since": before_since, "before_until": before_until}
    found = report(client, "/itc_db/reports/comparison", **asked)
    as_json(found) if json else _show_comparison(found)


def _show_expectations(found: dict[str, Any]) -> None:
    say(f"{period_of(found)}: {_counted(found)}")
    columns = ("TYPE", "LEADS TO", "CASES", "SHARE", "P50 s", "P99 s", "P99.9 s", "TOO YOUNG")
    table(columns, _effects(found["types"]))
    say(f"{found['variants_count']} variants")
    table(
        ("VARIANT", "TYPE", "COUNT", "SHARE", "RARE", "EXAMPLE", "STEPS"),
        map(_variant, found["variants"][:_SHOWN]),
    )
    say(f"{found['outliers_count']} out of the ordinary")
    table(_OUTLIERS, found["groups"])


def _counted(found: dict[str, Any]) -> str:
    left_out = ", ".join(
        f"{found[name]} {said}"
        for name, said in (("young", "too young"), ("unknown", "unknown"), ("cut", "too large"))
        if found[name]
    )
    said = number_of(found["conversations"], "conversation")
    return f"{said}; left out: {left_out}" if left_out else said


def _effects(types: Iterable[dict[str, Any]]) -> Iterable[tuple[object, ...]]:
    for one in types:
        for effect in one["leads_to"]:
            within = (_brief(effect["within"][name]) for name in ("p50", "p99", "p999"))
            shown = (one["type"], effect["type"], effect["cases"], _percent(effect["share"]))
            yield (*shown, *within, effect["young"] or "")


def _variant(one: dict[str, Any]) -> tuple[object, ...]:
    rare = {True: "rare", False: "", None: "?"}[one["rare"]]
    flow = "" if one["flow"] is None else _line(one["flow"]["steps"])
    share = _percent(one["share"])
    return (one["variant"], one["type"], one["count"], share, rare, one["examples"][0], flow)


def _line(steps: list[dict[str, Any]]) -> str:
    """Steps in a line: ``order > (invoice, 2 mail)``."""
    said = []
    for step in steps:
        many = f"{step['count']} " if step["count"] > 1 else ""
        failed = f" [{', '.join(step['failures'])}]" if step["failures"] else ""
        after = f" > {_line(step['steps'])}" if step["steps"] else ""
        said.append(f"{many}{step['type']}{failed}{after}")
    return said[0] if len(said) == 1 else f"({', '.join(said)})"


def _feature(one: dict[str, Any]) -> str:
    what = " ".join(word for word in (one["kind"], one["type"], one["value"]) if word)
    others = f"{one['others_having']} of {one['of_others']}"
    return f"{what} ({one['having']} of {one['of']}, else {others})"


_OUTLIERS = columns(
    "REASON: kind, TYPE, OTHER, COUNT, EXAMPLES, IN COMMON",
    **{"IN COMMON": lambda one: "; ".join(map(_feature, one["in_common"]))},
)


def _show_comparison(found: dict[str, Any]) -> None:
    before, after = found["before"], found["after"]
    say(f"before: {found['before_since']} to {found['before_until']}, {_counted(before)}")
    say(f"after: {found['since']} to {found['until']}, {_counted(after)}")
    say(f"{found['changes']} changes")
    rows = [row for row in _changes(found) if row[0] not in ("same", "unclear")]
    table(("STATE", "WHAT", "TYPE", "OTHER", "BEFORE", "AFTER"), rows)


def _changes(found: dict[str, Any]) -> Iterable[tuple[object, ...]]:
    for one in found["types"]:
        yield (one["state"], "messages", one["type"], "", *_shares(one))
    for one in found["effects"]:
        share = one["share"]
        yield (share["state"], "leads to", one["type"], one["effect"], *_shares(share))
        for name in ("p50", "p99"):
            times = (_brief(one[name][side]) for side in ("before", "after"))
            yield (one[name]["state"], f"{name} s", one["type"], one["effect"], *times)
    for one in found["variants"]:
        flow = one["variant"] if one["flow"] is None else _line(one["flow"]["steps"])
        yield (one["state"], "variant", one["type"], flow, *_shares(one))


def _shares(one: dict[str, Any]) -> tuple[str, str]:
    before, after = (
        "" if one[side]["share"] is None else _percent(one[side]["share"])
        for side in ("before", "after")
    )
    return before, after


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _brief(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3g}"
