"""A round: programs act on a topology, the service traces it, and its answers are judged."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from drills.acts.asking import Sightings, asking, everything, lost_copies
from drills.acts.hearsay import PLACES, Gossip, Rumour
from drills.acts.judge import Judge
from drills.acts.log import Log
from drills.acts.programs import NAMES, LoggedProgram
from drills.acts.topology import Layout, drawn, plain
from drills.acts.verdict import Comparison, RoundResult
from drills.judge import opened
from drills.service import Service
from tools.servers import Broker

ACTIONS, PLAIN_ACTIONS = 300, 600  # of all programs
# Programs that act one at a time rest so often, until what was purged before is known
# to be gone.
RESTS = 0.012
REST_SECONDS = 14.0
DELAY_SECONDS = 0.5  # longer than all delays in a row


class Round:
    """A round drawn from a seed; odd ones let programs act one at a time.

    ``is_plain``: nothing dies, and all act at once, so that the judge is sure of all that is
    possible, and clocks must say no less and no more.
    """

    def __init__(
        self,
        broker: Broker,
        database_url: str,
        folder: Path,
        seed: int,
        *,
        kills: int = 0,
        actions: int = ACTIONS,
        keeps: bool = False,
        is_hurried: bool = False,
        restamps: bool = False,
        is_plain: bool = False,
    ) -> None:
        self._broker = broker
        self._database_url = database_url
        self._seed = seed
        self._draw = random.Random(seed)
        self._is_plain = is_plain
        self._is_alone = seed % 2 == 1 and not is_plain
        self._kills = kills
        self._actions = actions
        self._is_hurried = is_hurried
        self._restamps = restamps
        module = "drills.acts.hurried" if is_hurried else "app.cli"
        self._service = Service(broker, database_url, folder, module=module)
        version = broker.api("GET", "overview")["rabbitmq_version"].split(".")
        is_43 = [int(number) for number in version[:2]] >= [4, 3]
        self.topology: Layout = (
            plain(self._draw) if is_plain else drawn(self._draw, keeps=keeps, is_43=is_43)
        )
        # The more there are, the less of what happens is related by what they did before.
        several = (3, 8, 16, 2 * len(NAMES)) if is_plain else (4, 8, 16, len(NAMES))
        self._programs = self._draw.choice(several)
        self.log = Log()

    async def run(self) -> list[RoundResult]:
        """Do all of it; returns what was found, and if ``restamps``, what was after that."""
        with self._broker.fresh_vhost("acts") as vhost:
            async with self._service.tracing(vhost):
                await self._work(self._broker.amqp_url(vhost))
                await self._service.listening()
                await self._service.stop_trace(vhost)  # empties the trace queue into the store
                found = [await self._judged(vhost)]
                if self._restamps:
                    await self._service.get("restamp", method="PUT", vhost=vhost)
                    found.append(await self._judged(vhost))
                return found

    async def _judged(self, vhost: str) -> RoundResult:
        async with opened(self._database_url) as store:
            events = await everything(store, vhost)
            seen = Sightings(self.log, events)
            lost = await lost_copies(store, vhost)
        truth = Judge(self.topology, self.log)
        async with asking(self._service.port, seen) as asked:
            comparison = Comparison(self.log, truth, seen, asked, is_exact=self._is_plain)
            comparison.judge_lost(lost, events)
            return await comparison.judge(self._draw)

    async def _work(self, url: str) -> None:
        async with AsyncExitStack() as stack:
            programs = self._cast(url)
            for each in programs:
                await stack.enter_async_context(each.running())
            await programs[0].declare()
            for each in programs:
                await each.introduce()
            killing = asyncio.create_task(self._kill())
            if self._is_alone:
                for _ in range(self._actions):
                    await self._draw.choice(programs).act(self._draw)
                    if self._is_hurried and self._draw.random() < RESTS:
                        await self._draw.choice(programs).purge(self._draw)
                        await asyncio.sleep(REST_SECONDS)
            else:
                await asyncio.gather(*map(self._live, programs))
            await self._empty(programs)
            await killing

    def _cast(self, url: str) -> Sequence[LoggedProgram]:
        where = url, self.topology, self.log
        if not self._is_plain:
            names = NAMES[: self._programs]
            return [LoggedProgram(name, *where, is_alone=self._is_alone) for name in names]
        rumours: list[Rumour] = []
        return [Gossip(f"p{n}", *where, PLACES[n % 2], rumours) for n in range(self._programs)]

    async def _live(self, program: LoggedProgram) -> None:
        for _ in range(self._actions // self._programs):
            await program.act(self._draw)

    async def _empty(self, programs: Sequence[LoggedProgram]) -> None:
        """Take away what is left, delayed messages too."""
        is_quiet = False
        while not is_quiet:
            await asyncio.sleep(DELAY_SECONDS)
            is_quiet = not any([await program.empty() for program in programs])

    async def _kill(self) -> None:
        """Kill the service at random moments, and start it again."""
        for _ in range(self._kills):
            await self._service.listening()
            await asyncio.sleep(self._draw.uniform(0.1, 1.0))
            await asyncio.to_thread(self._service.end, signal.SIGKILL)
            self._service.start()
