"""Requests generated from a service's own OpenAPI document, and what is wrong with the answers."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
from pathlib import Path

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
_START = "from schemathesis.cli import schemathesis; schemathesis()"


async def examine(url: str, credentials: str, folder: Path, few: int, *phases: str) -> int:
    """Send up to ``few`` requests of each kind to every operation; returns how many were sent.

    SCHEMATHESIS_EXAMPLES asks for more, in all phases, and for different ones each time: the seed
    is printed, and SCHEMATHESIS_SEED repeats a run. Without it a run repeats the one before, and
    only goes through these ``phases``. ``credentials`` are ``name:password``, ``folder`` is where
    the examiner leaves its notes. An answer that the
    document does not describe fails, with all that the examiner says of it.
    """
    asked = os.environ.get("SCHEMATHESIS_EXAMPLES")
    examiner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _START, "--config-file", CONFIGURATION, "--no-color"),
        *("run", f"{url}/openapi.json", "--auth", credentials),
        *("--max-examples", asked or str(few)),
        *(_seeded() if asked else ("--generation-deterministic",)),
        *("--suppress-health-check", "all"),  # they measure the machine, not the service
        *(("--phases", ",".join(phases)) if phases and not asked else ()),
        *("--request-timeout", "240"),  # a job of Spark waits for those before it
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await examiner.communicate())[0].decode()
    (folder / "examined.txt").write_text(output)
    assert examiner.returncode == 0, output
    [generated] = re.findall(r"^\s*([0-9]+) generated", output, re.MULTILINE)
    print(f"{generated} requests")
    return int(generated)


def _seeded() -> tuple[str, ...]:
    """A seed of this run's own, or the one that is asked for."""
    seed = os.environ.get("SCHEMATHESIS_SEED") or str(secrets.randbelow(2**32))
    print(f"SCHEMATHESIS_SEED={seed}")
    return "--seed", seed, "--generation-database", "none"
