"""``size``."""

from __future__ import annotations

import itertools
import time
from typing import Annotated, Any

import msgspec
import typer
from prometheus_client.parser import text_string_to_metric_families

from app.cli.client import ServiceClient, trace_path
from app.cli.exits import CommandError, Exit
from app.cli.options import Json, Vhost
from app.cli.output import as_json, printable, say

DAY_SECONDS = 86_400
LOOK_SECONDS = 1.0
# A database grows by whole pages: visibly with this many events.
GROWTH_EVENTS = 1_000


class ServiceSample(msgspec.Struct, frozen=True):
    """The service at one moment: ``at`` and ``processor`` in seconds, sizes in bytes.

    ``events`` are those of the trace, ``all_events`` of all traces in the database.
    """

    moment: float
    events: int
    all_events: int
    store: int
    memory: int
    processor: float


def size(
    client: ServiceClient,
    vhost: Vhost,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, max=3_600, help="How long to measure.")
    ] = 60,
    json: Json = False,
) -> None:
    """Estimate a day's storage from one minute of traffic.

    Run it in a busy hour, or for longer: a day has both busy and quiet hours.
    """
    samples = [_look(client, vhost)]
    deadline = samples[0].moment + seconds
    while (remaining := deadline - time.monotonic()) > 0:
        time.sleep(min(remaining, LOOK_SECONDS))
        samples.append(_look(client, vhost))
    estimate_of_day = estimate_day(vhost, samples)
    as_json(estimate_of_day) if json else _show(estimate_of_day)


def estimate_day(vhost: str, samples: list[ServiceSample]) -> dict[str, Any]:
    """The traffic of some seconds, and what a day of the same would come to.

    ``rate`` is in events/s, between ``rate_least`` and ``rate_most`` from look to look;
    ``bytes_an_event`` are those by which the database grew or, where it was not by enough events,
    those of all that is stored (``is_growth`` is false then). ``cores`` is the processor time of
    the service in that time, of all that it did, ``memory`` what it has now (bytes). Raises
    `CommandError` where nothing was stored.
    """
    first, last = samples[0], samples[-1]
    seconds, events = last.moment - first.moment, last.events - first.events
    if events <= 0:
        raise CommandError(
            Exit.failure,
            f"{vhost}: no event was stored in {seconds:.0f} s: try again when there is traffic",
        )
    rates = [
        (newer.events - earlier.events) / (newer.moment - earlier.moment)
        for earlier, newer in itertools.pairwise(samples)
    ]
    growth, new_events = last.store - first.store, last.all_events - first.all_events
    is_growth = new_events >= GROWTH_EVENTS and growth > 0
    bytes_an_event = growth / new_events if is_growth else last.store / last.all_events
    a_day = events / seconds * DAY_SECONDS
    return {
        "vhost": vhost,
        "seconds": round(seconds, 1),
        "events": events,
        "rate": round(events / seconds, 2),
        "rate_least": round(min(rates), 2),
        "rate_most": round(max(rates), 2),
        "bytes_an_event": round(bytes_an_event, 1),
        "is_growth": is_growth,
        "events_a_day": round(a_day),
        "bytes_a_day": round(a_day * bytes_an_event),
        "store": last.store,
        "memory": last.memory,
        "cores": round((last.processor - first.processor) / seconds, 3),
    }


def _look(client: ServiceClient, vhost: str) -> ServiceSample:
    trace: dict[str, Any] = client.get(trace_path(vhost))
    if trace["state"] != "running":
        raise CommandError(Exit.failure, f"{vhost}: the trace is {trace['state']}")
    text = client.send("GET", "/metrics").text
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values[sample.name] = values.get(sample.name, 0.0) + sample.value
    return ServiceSample(
        moment=time.monotonic(),
        events=trace["events"],
        all_events=round(values["itc_events_stored"]),
        store=round(values["itc_store_bytes"]),
        memory=round(values["process_resident_memory_bytes"]),
        processor=values["process_cpu_seconds_total"],
    )


def _show(estimate: dict[str, Any]) -> None:
    basis = "those of this time" if estimate["is_growth"] else "all that is stored, tables included"
    say(
        f"{printable(estimate['vhost'])}: {estimate['events']:,} events in "
        f"{estimate['seconds']:.0f} s, {estimate['rate']:,.1f} a second "
        f"({estimate['rate_least']:,.0f} to {estimate['rate_most']:,.0f})"
    )
    say(
        f"a day of it: {estimate['events_a_day']:,} events, {_bytes(estimate['bytes_a_day'])}, at "
        f"{estimate['bytes_an_event']:,.0f} bytes an event (by {basis})"
    )
    say(f"the database now: {_bytes(estimate['store'])}")
    say(
        f"the service: {estimate['cores']:.2f} of a processor for all that it did, "
        f"{_bytes(estimate['memory'])} of memory"
    )


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1_000
    return f"{count:,.1f} TB"
