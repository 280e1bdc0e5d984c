"""Stand-ins for the parts behind the routes: small, in memory, with the real ones' errors."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from app.broker.management import BrokerUser, QueueInfo
from app.errors import (
    BadRequestError,
    ConflictError,
    ItcError,
    NotAuthenticatedError,
    NotAuthorisedError,
    NotFoundError,
    NotTracedError,
    OutageError,
)
from app.store import Store
from app.stored.capture import Trace
from app.stored.jobs import Json, Report
from app.traces.life import Standing, TraceState
from app.traces.losses.audit import AuditState, Ledger, Tally
from app.traces.registry import checked_selection
from app.traces.retention import PruneCount, RetentionLimits
from app.traces.runs.feed import Feed
from app.traces.status import CaptureCost, Snapshot, TraceStatus
from app.tracker import Counters, Policy
from app.tracker.links.memory import LinkCount
from app.tracker.taken import ALL
from model.archives import ArchiveFile
from model.exports import manifest_of
from model.jobs import Progress
from model.sound import Certainty, Evidence, Soundness
from model.times import iso_time
from model.wording import Sentence
from spark_jobs.events.archive import Archive
from tests.api import fake_reports

# Ids that the archive job has archived, and when the last of them was recorded.
ARCHIVED = (1, 2)
ARCHIVED_UNTIL = 1_767_323_046_000_000

MADE_AT = 1_767_323_045_678_901  # 2026-01-02T03:04:05.678901Z


def basic(name: str, password: str) -> dict[str, str]:
    """The header that signs somebody in."""
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"authorization": f"Basic {token}"}


def caveats_of(doubts: list[str], quiet: int) -> list[str]:
    """The caveats of a complete answer with doubts that are sentences already."""
    unsound = [Sentence.unsound.format(doubt=doubt) for doubt in doubts]
    return unsound + Certainty([], Soundness((), quiet)).caveats


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Account:
    """A user of the fake broker; ``read`` is its permission in virtual hosts, where it has one."""

    password: str
    tags: frozenset[str]
    vhosts: frozenset[str]
    read: dict[str, str]


@dataclass
class FakeBroker:
    """The broker's users, and how often somebody asked about them."""

    accounts: dict[str, Account] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    down: bool = False
    outage: str = "the broker's management API does not answer"
    questions: int = 0
    queues: dict[tuple[str, str], QueueInfo] = field(default_factory=dict)
    shovels: bool = False  # that move messages within the broker

    admin_script: bool = True

    async def may_move_unseen(self) -> bool:
        return self.shovels

    async def has_admin_script(self) -> bool:
        self._must_be_up()
        return self.admin_script

    def add(
        self, name: str, password: str, tags: str, *vhosts: str, read: dict[str, str] | None = None
    ) -> dict[str, str]:
        """A user, who may read everything unless ``read`` says less, and its header."""
        read = dict.fromkeys(vhosts, ".*") if read is None else read
        self.accounts[name] = Account(password, frozenset(tags.split()), frozenset(vhosts), read)
        return basic(name, password)

    async def whoami(self, authorization: bytes) -> BrokerUser:
        self.questions += 1
        name = self._name(authorization)
        tags = self.accounts[name].tags
        if not tags:
            raise NotAuthorisedError("this user has no tag that lets it use the management API")
        return BrokerUser(name, tags)

    async def visible_vhosts(self, authorization: bytes) -> frozenset[str]:
        return self.accounts[self._name(authorization)].vhosts

    async def read_patterns(self, user: str) -> frozenset[tuple[str, str]]:
        self._must_be_up()
        if user not in self.accounts:
            raise NotFoundError("the broker knows no such virtual host, queue or permission")
        return frozenset(self.accounts[user].read.items())

    async def vhosts(self) -> frozenset[str]:
        self._must_be_up()
        return frozenset().union(*(account.vhosts for account in self.accounts.values()))

    async def queue(self, vhost: str, name: str) -> QueueInfo:
        self._must_be_up()
        if (vhost, name) not in self.queues:
            raise NotFoundError("the broker knows no such queue")
        return self.queues[vhost, name]

    async def lengths(self, vhost: str, queues: Collection[str]) -> dict[str, int]:
        self._must_be_up()
        infos = {name: self.queues.get((vhost, name)) for name in queues}
        return {
            name: info.messages_ready
            for name, info in infos.items()
            if info is not None and info.messages_ready is not None
        }

    def _name(self, authorization: bytes) -> str:
        self._must_be_up()
        scheme, _, rest = authorization.decode().partition(" ")
        if scheme == "Bearer" and rest in self.tokens:
            return self.tokens[rest]
        if scheme == "Basic":
            name, _, password = base64.b64decode(rest).decode().partition(":")
            if name in self.accounts and self.accounts[name].password == password:
                return name
        raise NotAuthenticatedError("the broker refuses these credentials")

    def _must_be_up(self) -> None:
        if self.down:
            raise OutageError(self.outage)


class WatchedFeed(Feed):
    """A feed that shows who waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[int] = []

    async def beyond(self, event_id: int) -> int:
        self.waiting.append(event_id)
        try:
            return await super().beyond(event_id)
        finally:
            self.waiting.remove(event_id)


class FakeRun(NamedTuple):
    """A run of which only its state is known."""

    state: TraceState

    def snapshot(self) -> Snapshot:
        return Snapshot(Standing(self.state))


@dataclass
class FakeTraces:
    """Traces that are only remembered, and pause once ``may_pause`` is set, as it is at first."""

    vhosts: frozenset[str]
    running: dict[str, TraceStatus] = field(default_factory=dict)
    pruned: list[tuple[str, int | None, float | None, bool]] = field(default_factory=list)
    through: list[int | None] = field(default_factory=list)
    pauses: list[str] = field(default_factory=list)
    settled: dict[str, int] = field(default_factory=dict)  # else up to now
    may_pause: asyncio.Event = field(default_factory=asyncio.Event)
    feed: WatchedFeed = field(default_factory=WatchedFeed)
    store: Store = field(init=False)  # while the application is open

    def __post_init__(self) -> None:
        self.may_pause.set()

    async def start(
        self,
        vhost: str,
        policy: str | None,
        quiet: Sequence[str] | None = None,
        *,
        bodies: bool | None = None,
        exchanges: Sequence[str] | None = None,
        queues: Sequence[str] | None = None,
        later: bool = False,
    ) -> bool:
        asked = checked_selection(exchanges, queues)
        if vhost not in self.vhosts:
            raise NotFoundError(f"no such virtual host: the broker has no {vhost!r}")
        present = self.running.get(vhost)
        if present is not None and policy not in (None, present.policy):
            raise ConflictError(f"this trace has participants by {present.policy}")
        if present is not None and present.state is TraceState.running:
            return False
        status = trace_status(vhost, TraceState.running, policy or "channel")
        self.running[vhost] = structs.replace(
            status, bodies=bodies is not False, taken=asked or ALL
        )
        return True

    @property
    def upkeep(self) -> FakeTraces:
        """These do it themselves."""
        return self

    async def reset(self, vhost: str) -> str:
        raise ConflictError(f"the checkpoint of the trace of {vhost!r} can be read")

    async def stop(self, vhost: str) -> None:
        present = await self.status(vhost)
        self.running[vhost] = trace_status(vhost, TraceState.stopped, present.policy)

    async def prune(
        self,
        vhost: str,
        *,
        keep_events: int | None = None,
        keep_seconds: float | None = None,
        through: int | None = None,
        dry_run: bool = False,
    ) -> PruneCount:
        if keep_events is None and keep_seconds is None and through is None:
            raise BadRequestError("say how many events to keep, or for how long")
        await self.status(vhost)
        self.pruned.append((vhost, keep_events, keep_seconds, dry_run))
        self.through.append(through)
        return await self.remove(vhost, RetentionLimits(keep_events, keep_seconds, through=through))

    async def remove(self, vhost: str, retention: RetentionLimits) -> PruneCount:
        """What pruning comes to."""
        return PruneCount(3, 1)

    async def check_here(self, vhost: str) -> None:
        """It runs here, where it runs."""

    @asynccontextmanager
    async def paused(self, vhost: str) -> AsyncIterator[tuple[Trace, int]]:
        self.pauses.append(vhost)
        await self.may_pause.wait()
        trace = await self.store.traces.find(vhost)
        if trace is None:
            raise NotTracedError(vhost)
        yield trace, await self.store.leases.take(trace.id, trace.holder)

    @property
    def here(self) -> FakeTraces:
        """All run here."""
        return self

    def present(self, vhost: str) -> FakeRun | None:
        return FakeRun(self.running[vhost].state) if vhost in self.running else None

    async def settle(self, vhost: str, at: int, seconds: float) -> int:
        return self.settled.get(vhost, at)

    async def status(self, vhost: str) -> TraceStatus:
        if vhost in self.running:
            return self.running[vhost]
        if await self.store.traces.find(vhost) is None:
            raise NotTracedError(vhost)
        return trace_status(vhost, TraceState.stopped)

    async def statuses(self) -> list[TraceStatus]:
        return [self.running[vhost] for vhost in sorted(self.running)]


def trace_status(vhost: str, state: TraceState, policy: str = "channel") -> TraceStatus:
    return TraceStatus(
        vhost=vhost,
        state=state,
        policy=Policy(policy),
        quiet=(),
        wanted=state is TraceState.running,
        created_at=MADE_AT,
        waiting_for=None,
        last_error=None,
        restarts=0,
        counters=Counters(published=3, received=4),
        links={"celery-parent": LinkCount(found=4, known=2, hidden=1, unseen=1)},
        unread={"body not JSON": 2},
        evidence=Evidence(reactions=5, explained=4, known=2, missed=1, hidden=1),
        events=7,
        participants=2,
        pending_copies=0,
        last_event_id=7,
        rate=0.5,
        lag=0,
        gaps=[],
        ledger=Ledger(Tally(3, 4), AuditState(suspected=Tally(5), excess=Tally(0, 3))),
        work=CaptureCost(
            batches=2,
            batch_seconds=0.02,
            stamped=7,
            stamp_seconds=0.001,
            settled={"acknowledged": 3},
        ),
    )


def _written(work: Json, facts: Json, lists: Json) -> Json:
    """A report's file and facts, as the job writes them."""
    path = Path(work["output"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**facts, **lists}))
    path.with_suffix(".facts").write_text(json.dumps(facts))
    return facts


class FakeSpark:
    """A runner that holds every job until it is let go, and writes the ids for a chain.

    ``fail`` is the reason that the next job fails for; ``finds`` is whether ordered events have a
    chain.
    """

    def __init__(self) -> None:
        self.relation = "before"
        self.sentence = "event 1 happened before event 2, and may have influenced it"
        self.finds = True
        self.doubts: list[str] = []
        self.quiet = 0
        self.go = asyncio.Event()
        self.go.set()
        self.running = asyncio.Event()
        self.fail: ItcError | None = None
        self.runs = 0
        self.works: list[Json] = []  # of periods

    async def start(self) -> None:
        """Nothing to start."""

    async def stop(self) -> None:
        """Nothing to give back."""

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json:
        self.runs += 1
        self.running.set()
        report(Progress("reading", 40.0, rows_read=6))
        await self.go.wait()
        if self.fail is not None:
            raise self.fail
        if kind == "topology":
            return await asyncio.to_thread(self._count, work)
        if kind == "archive":
            return await asyncio.to_thread(self._archive, work)
        if kind == "report":
            return await asyncio.to_thread(self._compare, work)
        if kind == "touched":
            return await asyncio.to_thread(self._touch, work)
        if kind in ("period", "spans"):
            self.works.append(work)
            return await asyncio.to_thread(self._export, work)
        ordered = self.relation != "concurrent"
        summary = {
            "from": work["from"],
            "to": work["to"],
            "vhost": "/",
            "via": work["via"],
            "relation": self.relation,
            "answer": "may have" if ordered else "cannot have",
            "sentence": self.sentence,
            "format": work["format"],
            "plan": {"form": "ranges", "reason": "few participants"},
            "gaps": [],
            "complete": True,
            "sound": not self.doubts,
            "doubts": self.doubts,
            "quiet": self.quiet,
            "caveats": caveats_of(self.doubts, self.quiet),
            "file": None,
            "events": 0,
            "participants": 0,
            "bytes": 0,
            "sha256": None,
            "seconds": {"plan": 0.1, "spark": 0.2},
        }
        if ordered and self.finds:
            summary |= await asyncio.to_thread(self._write, Path(work["output"]))
        return summary

    @staticmethod
    def _archive(work: Json) -> Json:
        """As if the two events of `ARCHIVED` had been archived, and nothing is again."""
        had = Archive.of_vhost(Path(work["archives"]), work["vhost"], 1)
        if had.through:
            return {"vhost": had.vhost, "through": had.through, "events": 0, "files": 0, "bytes": 0}
        name = "day=2026-01-02/1-2.parquet"
        (had.folder / name).parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": ARCHIVED}), had.folder / name)
        size = (had.folder / name).stat().st_size
        part = ArchiveFile(name, ARCHIVED[0], ARCHIVED[-1], len(ARCHIVED), size)
        replace(had, through=ARCHIVED[-1], until=ARCHIVED_UNTIL, parts=(part,)).save()
        return {"vhost": had.vhost, "through": 2, "events": 2, "files": 1, "bytes": size}

    @staticmethod
    def _compare(work: Json) -> Json:
        """As if there were a few orders and an invoice."""
        found, lists = fake_reports.made(work)
        facts = {
            **{name: work[name] for name in ("id", "report", "vhost")},
            "since": iso_time(work["since"]),
            "until": iso_time(work["until"]),
            **work["asked"],
            "made_at": iso_time(MADE_AT),
            **found,
            "complete": True,
            "gaps": [],
            "sound": True,
            "doubts": [],
            "quiet": 0,
            "caveats": [],
        }
        return _written(work, facts, lists)

    @staticmethod
    def _count(work: Json) -> Json:
        """As if one order had been published, and handed over twice."""
        facts = {
            "vhost": work["vhost"],
            "since": iso_time(work["since"]),
            "until": iso_time(work["until"]),
            "complete": True,
            "gaps": [],
        }
        none = {"dead_lettered": 0, "unmatched": 0}
        route = {"exchange": "orders", "queue": "billing", "messages": 1}
        flow = {"publisher": "shop", **route, "receiver": "billing", "redelivered": 0, **none}
        lists = {
            "publishes": [
                {"publisher": "shop", "exchange": "orders", "messages": 1, "unroutable": 0}
            ],
            "routes": [{"publisher": "shop", **route, **none}],
            "deliveries": [
                {**flow, "seconds": {"median": 1.0, "p90": 1.0}},
                {**flow, "publisher": None, "unmatched": 1, "seconds": None},
            ],
            "deaths": [],
            "programs": [],
        }
        path = Path(work["output"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**facts, **lists}))
        return {**facts, "file": path.name, **{name: len(rows) for name, rows in lists.items()}}

    @classmethod
    def _touch(cls, work: Json) -> Json:
        """As if one event had come since, and been caused."""
        written = cls._write(Path(work["output"]))
        counts = {"caused": 1, "may_have": 0, "cannot_have": 0, "unknown": 0}
        place = {"interval": "", "seq": 1, "height": 1, "clock": "AAA="}
        return {
            "event": work["event"],
            "vhost": "/",
            "as_of": work["event"] + 1,
            "events": written["events"],
            **counts,
            "sentence": "of 1 event since, 1 was caused by it, 0 more may have been",
            "starts": [{"id": work["event"], "participant": 1, **place}],
            "complete": True,
            "gaps": [],
            "sound": True,
            "doubts": [],
            "quiet": 0,
            "caveats": [],
            "format": work["format"],
            "file": written["file"],
            "bytes": written["bytes"],
            "sha256": written["sha256"],
            "seconds": {"plan": 0.1, "spark": 0.2, "total": 0.3},
            "versions": {"rabbitmq-itc": "0.1.0"},
        }

    @staticmethod
    def _export(work: Json) -> Json:
        """As if a conversation of three events had begun in the period."""
        facts = {
            "vhost": work["vhost"],
            "since": iso_time(work["since"]),
            "until": iso_time(work["until"]),
            "via": work.get("via", "links"),
            "format": work.get("format", "collector"),
            "events": 3,
            "conversations": 1,
            "cut": 0,
            "complete": True,
            "gaps": [],
            "sound": True,
            "doubts": [],
            "quiet": 0,
            "caveats": [],
            "seconds": {"spark": 0.2, "total": 0.3},
            "versions": {"rabbitmq-itc": "0.1.0"},
        }
        if "format" not in work:
            sent = {"spans": 7, "refused": 0, "refusal": None}
            return {**facts, **sent, "file": None, "bytes": 0, "sha256": None}
        path, content = Path(work["output"]), b"{}\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(content).hexdigest()
        manifest = {**facts, "file": path.name, "bytes": len(content), "sha256": digest}
        manifest_of(path).write_text(json.dumps(manifest))
        path.write_bytes(content)
        return manifest

    @staticmethod
    def _write(path: Path) -> Json:
        content = b'{"id": 1}\n'
        path.parent.mkdir(parents=True, exist_ok=True)
        manifest_of(path).write_text('{"vhost": "/", "events": 1}')
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        size = len(content)
        return {"file": path.name, "events": 1, "participants": 1, "bytes": size, "sha256": digest}
