"""``rabbitmq-itc demo``: stays up until Ctrl-C; with ``DEMO_EXIT=1`` ends by itself.

Ends with 0 only if the chain holds exactly the events that the demo expects of its own actions.
``AMQP_URL`` and ``MANAGEMENT_URL`` name a broker to use instead of a private one, ``DEMO_DIR`` a
folder for its data instead of ``var/demo`` of a checkout or ``~/.local/state/rabbitmq-itc/demo``,
``ITC_PORT`` the service's port.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from app.extras import missing_packages
from spark_jobs.errors import JobError
from spark_jobs.spark.java import check_java
from tools.demo.client import Event, EventFeed
from tools.demo.judge import Recorded, connections, listed
from tools.demo.pipeline import GOOD_ORDERS, Outcome, Pipeline
from tools.demo.show import Printer
from tools.demo.stage import Stage, home, raised
from tools.servers import ServerError, wait_until

TRACE_SECONDS = 60.0
WORKLOAD_SECONDS = 60.0


def main() -> int:
    """Run the demo; return the process's exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    stays = os.environ.get("DEMO_EXIT", "") in ("", "0")
    folder = Path(os.environ.get("DEMO_DIR") or home())
    printer = Printer()
    try:
        with raised(folder.resolve(), os.environ, printer.step) as stage:
            right = _perform(stage, printer, stays=stays)
            if stays:
                _stay(stage, printer)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # what follows is the way out
            printer.step("stopping")
        printer.end_step()
    except ServerError as error:
        printer.end_step()
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if right else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _perform(stage: Stage, printer: Printer, *, stays: bool) -> bool:
    """Trace the workload and find the chain; say whether all of it is correct."""
    printer.step(f"tracing the virtual host {stage.vhost}")
    started = stage.client.start_trace(stage.vhost)
    try:
        _wait_for_trace(stage)
        feed = EventFeed(stage.client, stage.vhost)
        run, orders = stage.run_name, GOOD_ORDERS + 1
        printer.step(f"driving orders {run}-1 to {run}-{orders} through the pipeline over AMQP")
        recorded, outcome = asyncio.run(_drive(stage, feed))
        return _show_chain(stage, printer, recorded, outcome, stays=stays)
    finally:
        if started and not stage.private:  # a broker in use gets its tracing switched off again
            stage.client.stop_trace(stage.vhost)


def _wait_for_trace(stage: Stage) -> None:
    def running() -> bool:
        trace = stage.client.trace(stage.vhost)
        if trace["state"] == "failed":
            raise ServerError(f"the trace failed: {trace['last_error']}")
        return bool(trace["state"] == "running")

    wait_until(running, TRACE_SECONDS, f"the start of the trace of {stage.vhost}")


async def _drive(stage: Stage, feed: EventFeed) -> tuple[Recorded, Outcome]:
    try:
        async with (
            asyncio.timeout(WORKLOAD_SECONDS),
            Pipeline(
                stage.url_of,
                stage.broker.amqp_url(stage.vhost),
                stage.run_name,
                heartbeats=True,
            ) as pipeline,
        ):
            roles = await asyncio.to_thread(connections, stage.broker, pipeline.connections)
            outcome = await pipeline.run()
    except TimeoutError as error:
        raise ServerError(f"the workload did not end within {WORKLOAD_SECONDS:g} s") from error
    recorded = await asyncio.to_thread(Recorded.collect, pipeline.history, roles, feed)
    return recorded, outcome


def _show_chain(
    stage: Stage, printer: Printer, recorded: Recorded, outcome: Outcome, *, stays: bool
) -> bool:
    first, last = (int(recorded.events[action]["id"]) for action in (outcome.first, outcome.last))
    printer.step(f"asking for the chain from event {first} to event {last}")
    summary, exported = _chain(stage, printer, first, last)
    printer.step("the chain:")
    printer.line()
    printer.line(f"  {stage.client.compare(first, last)['sentence']}")
    printer.line(_beside(stage, recorded, first))
    printer.line()
    printer.chain(exported, recorded)
    earliest = min(int(event["id"]) for event in recorded.events.values())
    recorded.take_settlements(stage.client.events_after(stage.vhost, earliest - 1))
    faults = _faults(recorded, outcome, summary, exported)
    printer.line(_verdict(exported, summary, faults))
    printer.line(recorded.settlements)
    printer.line()
    printer.last_word(stage, summary, stays=stays)
    printer.line()
    return not faults


def _chain(
    stage: Stage, printer: Printer, first: int, last: int
) -> tuple[dict[str, Any], list[Event]]:
    """The chain's summary, and its events: of a job's file, or at once where Spark is missing."""
    if lack := _lack_of_spark():
        printer.step(f"without a job, which would write it to a file: {lack}")
        summary = stage.client.chain(first, last)
        return summary, summary["events"]
    printer.step("Spark starts for it, which takes up to a minute and a half")
    summary = stage.client.make_chain(first, last, "demo.jsonl")
    if summary.get("location") is None:
        raise ServerError(f"no chain was found: the events are {summary['relation']}")
    counted = summary | {"count": summary["events"]}
    return counted, stage.client.download(summary["location"])


def _lack_of_spark() -> str:
    if missing_packages():
        return "the extra spark is not installed"
    try:
        check_java()
    except JobError as error:
        return str(error)
    return ""


def _beside(stage: Stage, recorded: Recorded, first: int) -> str:
    """Say how the service relates the role that has nothing to do with the orders."""
    stock = [action for action in recorded.events if action.role == "stock"]
    answer = stage.client.compare(first, int(recorded.events[stock[-1]]["id"]))
    return f"  {answer['sentence']}"


def _faults(
    recorded: Recorded, outcome: Outcome, summary: dict[str, Any], exported: list[dict[str, Any]]
) -> list[str]:
    expected = recorded.history.chain(outcome.first, outcome.last)
    faults = recorded.faults_of(exported, expected)
    if wrong := recorded.wrong_causes():
        faults.append(f"deliveries matched to the wrong publish:{listed(wrong)}")
    if wrong := recorded.wrong_settlements():
        faults.append(f"something else became of deliveries:{listed(wrong)}")
    if summary["relation"] != "before":
        faults.append(f"the relation is {summary['relation']}, not before")
    if summary["count"] != len(exported):
        faults.append(f"the summary speaks of {summary['count']} events")
    if not summary["complete"]:
        faults.append(f"it is not complete: {summary['gaps']}")
    return faults


def _verdict(exported: list[Event], summary: dict[str, Any], faults: list[str]) -> str:
    if faults:
        return "WRONG:" + "".join(f"\n  - {fault}" for fault in faults)
    heartbeats = sum(event["quiet"] for event in exported)
    return (
        f"Right: the chain has exactly the {len(exported) - heartbeats} events of the orders that "
        f"belong to it.\nIt also has {heartbeats} heartbeats, quiet events, which carry no cause."
    )


def _stay(stage: Stage, printer: Printer) -> None:
    try:
        printer.stays("everything stays up until Ctrl-C")
        code = stage.service.wait()
    except KeyboardInterrupt:
        printer.line()
        return
    raise ServerError(f"the service ended with {code}{stage.service.log_tail()}")


if __name__ == "__main__":
    sys.exit(main())
