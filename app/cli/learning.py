"""Reports that are learnt from a period: ``expectations``, ``compare-periods``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.client import ServiceClient
from app.cli.following import report
from app.cli.options import Joined, Json, TimeRange, Vhost
from app.cli.output import as_json, period_of, say, table
from model.words import number_of

_SHOWN = 20

Wait = Annotated[
    float | None, typer.Option(help="Look for effects up to this many seconds after the period.")
]
Cases = Annotated[int | None, typer.Option(help="Claim nothing of fewer cases.")]


def expectations(
    client: ServiceClient,
    period: TimeRange,
    vhost: Vhost,
    via: Joined = "links",
    wait: Wait = None,
    share: Annotated[
        float | None, typer.Option(help="Expect an effect that comes in this share of cases.")
    ] = None,
    cases: Cases = None,
    rare: Annotated[
        float | None, typer.Option(help="Call rare what has a smaller share than this.")
    ] = None,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print only what is proposed, as a file of assertions.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what messages normally lead to, and what was otherwise; by default in the last hour."""
    asked = {"vhost": vhost, "via": via, "wait": wait, "cases": cases, **asdict(period)}
    asked |= {"share": share, "rare": rare}
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
    cases: Cases = None,
    json: Json = False,
) -> None:
    """Show what appeared, vanished or changed since another period; by default the hour before."""
    asked = {"vhost": vhost, "via": via, "wait": wait, "cases": cases, **asdict(period)}
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
    table(
        ("REASON", "TYPE", "OTHER", "COUNT", "EXAMPLES", "IN COMMON"), map(_group, found["groups"])
    )


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
            within = (_seconds(effect["within"][name]) for name in ("p50", "p99", "p999"))
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


def _group(one: dict[str, Any]) -> tuple[object, ...]:
    common = "; ".join(map(_feature, one["in_common"]))
    examples = ", ".join(map(str, one["examples"]))
    return (one["kind"], one["type"], one["other"] or "", one["count"], examples, common)


def _feature(one: dict[str, Any]) -> str:
    what = " ".join(word for word in (one["kind"], one["type"], one["value"]) if word)
    others = f"{one['others_having']} of {one['of_others']}"
    return f"{what} ({one['having']} of {one['of']}, else {others})"


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
            times = (_seconds(one[name][side]) for side in ("before", "after"))
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


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3g}"
