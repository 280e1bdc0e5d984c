"""Reports: ``failures``, ``expectations``, ``compare-periods``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient
from app.cli.following import report
from app.cli.options import JoinVia, Json, PageLimit, TimeRange, Vhost, say_caveats
from app.cli.output import as_json, columns, period_of, printable, say, show_list, table
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
        bool, typer.Option("--groups", help="Group by queue, reason, type and exception.")
    ] = False,
    put_back: Annotated[
        bool,
        typer.Option("--put-back", help="Print how each is put back into the queue it died in."),
    ] = False,
    limit: PageLimit = 100,
    json: Json = False,
) -> None:
    """List messages that died, came back, reached nobody or went to an error queue."""
    parameters: dict[str, Any] = {
        "vhost": vhost,
        "kind": kind,
        "queue": queue,
        "reason": reason,
        "type": type_,
    }
    parameters |= {"exception": exception, "limit": limit, **asdict(period)}
    page = client.get("/itc_db/failures", **parameters)
    if groups and not json:
        table(GROUPS, page["groups"])
    else:
        show_list(page, json, FAILURES)
    if json:
        return
    for item in page["items"]:
        if put_back and not groups and item["remedy"] is not None:
            say(f"# {item['event']}")
            say(printable(item["remedy"]))
    say_caveats(page)
    if not page["counted_all"]:
        say(f"only the newest {page['counted']} were counted; there may be older ones")


GROUPS = columns("COUNT, KIND, QUEUE, REASON, TYPE, EXCEPTION, BY, LAST: last_at")
FAILURES = columns(
    "EVENT, MESSAGE, KIND, QUEUE, REASON, TYPE, BY: by.name, AT, BACK: put_back",
    MESSAGE=lambda row: row["message"] or f"{row['candidate'] or ''}?",
    REASON=lambda row: row["exception"] or row["reason"],
)
_VARIANTS = 20

Wait = Annotated[
    float | None, typer.Option(help="Look for effects up to this many seconds after the period.")
]


def expectations(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    via: JoinVia = "links",
    wait: Wait = None,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print only what is proposed, as a file of assertions.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what messages normally lead to, and the exceptions; by default in the last hour."""
    parameters = {"vhost": vhost, "via": via, "wait": wait, **asdict(period)}
    answer = report(client, "/itc_db/reports/expectations", **parameters)
    if json:
        as_json(answer)
    elif yaml:
        say("assertions:")
        say("".join(proposal["yaml"] for proposal in answer["proposals"]).rstrip("\n") or "  []")
    else:
        _show_expectations(answer)


def compare_periods(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    before_since: Annotated[
        str | None, typer.Option(help="Compare with what began from this time on.")
    ] = None,
    before_until: Annotated[
        str | None,
        typer.Option(help="Compare with what began before this time; default: --since."),
    ] = None,
    via: JoinVia = "links",
    wait: Wait = None,
    json: Json = False,
) -> None:
    """Show what appeared, vanished or changed since another period; by default the hour before."""
    parameters = {"vhost": vhost, "via": via, "wait": wait, **asdict(period)}
    parameters |= {"before_since": before_since, "before_until": before_until}
    answer = report(client, "/itc_db/reports/comparison", **parameters)
    as_json(answer) if json else _show_comparison(answer)


def _show_expectations(answer: dict[str, Any]) -> None:
    say(f"{period_of(answer)}: {_counts_text(answer)}")
    columns = ("TYPE", "LEADS TO", "CASES", "SHARE", *_TIMES.values(), "TOO YOUNG")
    table(columns, _effects(answer["types"]))
    say(f"{answer['variants_count']} variants")
    table(
        ("VARIANT", "TYPE", "COUNT", "SHARE", "RARE", "EXAMPLE", "STEPS"),
        map(_variant, answer["variants"][:_VARIANTS]),
    )
    say(f"{answer['outliers_count']} out of the ordinary")
    table(_OUTLIERS, answer["groups"])


def _counts_text(facts: dict[str, Any]) -> str:
    omissions = ", ".join(
        f"{facts[name]} {text}"
        for name, text in (("young", "too young"), ("unknown", "unknown"), ("cut", "too large"))
        if facts[name]
    )
    text = number_of(facts["conversations"], "conversation")
    return f"{text}; left out: {omissions}" if omissions else text


_TIMES = {"p50": "MEDIAN s", "p99": "99 OF 100 s", "p999": "999 OF 1,000 s"}


def _effects(types: Iterable[dict[str, Any]]) -> Iterable[tuple[object, ...]]:
    for message_type in types:
        for effect in message_type["leads_to"]:
            times = (_brief(effect["within"][name]) for name in _TIMES)
            cells = (
                message_type["type"],
                effect["type"],
                effect["cases"],
                _percent(effect["share"]),
            )
            yield (*cells, *times, effect["young"] or "")


def _variant(variant: dict[str, Any]) -> tuple[object, ...]:
    rare = {True: "rare", False: "", None: "?"}[variant["rare"]]
    flow = "" if variant["flow"] is None else _line(variant["flow"]["steps"])
    share = _percent(variant["share"])
    return (
        variant["variant"],
        variant["type"],
        variant["count"],
        share,
        rare,
        variant["examples"][0],
        flow,
    )


def _line(steps: list[dict[str, Any]]) -> str:
    """Steps in a line: ``order > (invoice, 2 mail)``."""
    texts = []
    for step in steps:
        number = f"{step['count']} " if step["count"] > 1 else ""
        failures = f" [{', '.join(step['failures'])}]" if step["failures"] else ""
        effects = f" > {_line(step['steps'])}" if step["steps"] else ""
        texts.append(f"{number}{step['type']}{failures}{effects}")
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _feature(feature: dict[str, Any]) -> str:
    words = " ".join(word for word in (feature["kind"], feature["type"], feature["value"]) if word)
    rest = f"{feature['others_having']} of {feature['of_others']}"
    return f"{words} ({feature['having']} of {feature['of']}, else {rest})"


_OUTLIERS = columns(
    "REASON: kind, TYPE, OTHER, COUNT, EXAMPLES, IN COMMON",
    **{"IN COMMON": lambda row: "; ".join(map(_feature, row["in_common"]))},
)


def _show_comparison(comparison: dict[str, Any]) -> None:
    earlier, newer = comparison["before"], comparison["after"]
    since, until = comparison["before_since"], comparison["before_until"]
    say(f"before: {since} to {until}, {_counts_text(earlier)}")
    say(f"after: {comparison['since']} to {comparison['until']}, {_counts_text(newer)}")
    say(f"{comparison['changes']} changes")
    rows = [row for row in _changes(comparison) if row[0] not in ("same", "unclear")]
    table(("STATE", "WHAT", "TYPE", "OTHER", "BEFORE", "AFTER"), rows)


def _changes(comparison: dict[str, Any]) -> Iterable[tuple[object, ...]]:
    for change in comparison["types"]:
        yield (change["state"], "messages", change["type"], "", *_shares(change))
    for change in comparison["effects"]:
        share = change["share"]
        yield (share["state"], "leads to", change["type"], change["effect"], *_shares(share))
        for name in ("p50", "p99"):
            times = (_brief(change[name][side]) for side in ("before", "after"))
            yield (
                change[name]["state"],
                _TIMES[name].lower(),
                change["type"],
                change["effect"],
                *times,
            )
    for change in comparison["variants"]:
        flow = change["variant"] if change["flow"] is None else _line(change["flow"]["steps"])
        yield (change["state"], "variant", change["type"], flow, *_shares(change))


def _shares(change: dict[str, Any]) -> tuple[str, str]:
    earlier, newer = (
        "" if change[side]["share"] is None else _percent(change[side]["share"])
        for side in ("before", "after")
    )
    return earlier, newer


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _brief(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3g}"
