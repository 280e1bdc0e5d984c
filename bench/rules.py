"""The cost to capture of reading links: ``python -m bench.rules [COUNT [ROUNDS]]``.

The same trace messages are played to the service (`bench.player`) with the built-in rules and
without, in turn: such as those of `bench.ingest`, with 8 headers of which no rule speaks, with 8 of
which one names a cause, with 8 of which two name a cause and a conversation, and with 10 that name
two more conversations. What is compared is processor time, because other work on the machine delays
the service, and hardly changes how much it takes.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import sys
import tempfile
from asyncio.subprocess import PIPE
from pathlib import Path

from aio_pika.abc import AbstractIncomingMessage, HeadersType

from app.broker.deliveries import Arrival
from bench.backlog import Headers, fill
from bench.player import playing, recorded
from tools.servers import RabbitNode

COUNT = 40_000
ROUNDS = 9
PARTICIPANTS = 16
RECORDED, PLAYED = "recorded", "played"
PATIENCE_SECONDS = 600
LINKS = ON, OFF = ("on", "off")


def _own(count: int, identity: str) -> HeadersType:
    return {f"x-app-{number}": f"{number} of {identity}" for number in range(count)}


def _no_headers(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    return {}


def _without_rule(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    return _own(8, identity)


def _with_a_cause(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    return _own(7, identity) | {"causation_id": _cause(identity, handled)}


def _cause(identity: str, handled: AbstractIncomingMessage | None) -> str:
    return identity if handled is None else handled.message_id or ""


def _with_rules(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    """A causation header, and a traceparent that goes on for ten messages or so."""
    conversation = hash(identity) if handled is None else int(handled.headers["conversation"])  # type: ignore[arg-type]
    if identity.endswith("0"):
        conversation = hash(identity)
    return _own(5, identity) | {
        "conversation": str(conversation),
        "causation_id": _cause(identity, handled),
        "traceparent": f"00-{conversation % 2**64 + 1:032x}-{abs(hash(identity)) + 1:016x}-01",
    }


def _with_four_rules(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    """The same, and by which names two frameworks call the conversation."""
    said = _with_rules(identity, handled)
    names = ("NServiceBus.ConversationId", "conversation-id")
    return said | dict.fromkeys(names, str(said["conversation"]))


KINDS: dict[str, Headers] = {
    "no headers": _no_headers,
    "8 headers, none of a rule": _without_rule,
    "8 headers, one of rules": _with_a_cause,
    "8 headers, two of rules": _with_rules,
    "10 headers, four of rules": _with_four_rules,
}


async def drained(
    broker: RabbitNode, amqp_url: str, vhost: str, count: int, links: str, folder: Path
) -> float:
    """Drain what is played in a child process; return its processor time, µs a message."""
    database = folder / f"{secrets.token_hex(4)}.db"
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.drain", "service", amqp_url, broker.management_url),
        *(vhost, PLAYED, str(count), f"sqlite:///{database}", links),
        stdout=PIPE,
    )
    out, _ = await asyncio.wait_for(child.communicate(), PATIENCE_SECONDS)
    return float(out.split()[1]) / count * 1e6


async def compared(
    broker: RabbitNode, what: list[Arrival], rounds: int
) -> list[tuple[float, float]]:
    """Processor time with links and without, in every round."""
    seen = []
    with broker.fresh_vhost() as vhost, tempfile.TemporaryDirectory() as folder:
        async with playing(broker, PLAYED, what) as amqp_url:
            for number in range(rounds):
                took = {}
                for links in LINKS if number % 2 else reversed(LINKS):
                    took[links] = await drained(
                        broker, amqp_url, vhost, len(what), links, Path(folder)
                    )
                seen.append((took[ON], took[OFF]))
    return seen


async def _recorded(broker: RabbitNode, headers: Headers, count: int) -> list[Arrival]:
    with broker.fresh_vhost() as vhost:
        await fill(broker, vhost, [RECORDED], PARTICIPANTS, count, headers)
        return await recorded(broker, vhost, RECORDED, count)


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    sys.stdout.write(
        "| messages | µs each without links | with | speed with / without |\n|---|---|---|---|\n"
    )
    with RabbitNode() as broker:
        for kind, headers in KINDS.items():
            what = asyncio.run(_recorded(broker, headers, count))
            seen = asyncio.run(compared(broker, what, rounds))
            on, off = (statistics.median(each) for each in zip(*seen, strict=True))
            share = statistics.median(without / took for took, without in seen)
            sys.stdout.write(f"| {kind} | {off:.1f} | {on:.1f} | {share:.2f} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
