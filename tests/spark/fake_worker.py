"""Speaks the Spark worker's language without Spark: each kind of job is a way to behave."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any


def say(word: str, **facts: Any) -> None:
    print(json.dumps({"say": word, **facts}), flush=True)


def fail(job: int | None, problem: str, reason: str) -> None:
    say("error", id=job, problem=problem, reason=reason)


def run(message: dict[str, Any], settings: dict[str, Any]) -> None:
    job, kind, request = message["id"], message["kind"], message["request"]
    if kind == "echo":
        say("progress", id=job, stage="reading", percent=50.0, rows_read=1, rows_written=0)
        facts = {"request": request, "settings": settings, "pid": os.getpid()}
        say("done", id=job, result={**facts, "folder": os.environ["TMPDIR"]})
    elif kind == "fail":
        fail(job, request["problem"], request["reason"])
    elif kind == "die":
        print("java.lang.OutOfMemoryError", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "mumble":
        say("done", id=job, result={"share": float("nan")})  # which is not JSON
    elif kind == "hang":
        say("progress", id=job, stage="reading", percent=1.0, rows_read=0, rows_written=0)
        cancel = json.loads(sys.stdin.readline())
        assert cancel == {"do": "cancel", "id": job}, cancel
        fail(job, "cancelled", "The job was cancelled.")


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    if settings["spark"]["master"] == "spark://dead":
        fail(
            None,
            "outage",
            "No Spark master answers at dead; start it, or correct ITC_SPARK_MASTER.",
        )
        sys.exit(3)
    say("ready")
    for line in sys.stdin:
        run(json.loads(line), settings)


main()
