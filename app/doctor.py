"""Checks everything that the service depends on, and advises on what is wrong.

The checks are independent: one that fails stops no other, so that one run shows everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from platform import python_version
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

import msgspec

from app.broker.announcements import EVENT_EXCHANGE
from app.broker.connection import log_in
from app.broker.management import TIMEOUT_SECONDS, ManagementApi, Permissions
from app.broker.marks import keys, queue_prefix, takes_default
from app.broker.opening import management_api
from app.broker.outages import VirtualHostError
from app.broker.trace_queue import QueueBounds, announcements_queue, keys_bound_to, state
from app.collector.sender import Sender
from app.errors import (
    BadRequestError,
    ItcError,
    NotAuthenticatedError,
    NotAuthorisedError,
    NotFoundError,
    NotInstalledError,
    OutageError,
    RefusedError,
    SettingsError,
)
from app.extras import check_spark
from app.settings import Settings
from app.store import Store, schema_state
from app.store.database.engine import parse_url
from app.stored.capture import Trace
from app.stored.proposals import RuleProposal
from app.traces.losses.audit import Ledger
from app.traces.status import audit_status
from app.tracker import Tracker, UnreadableCheckpointError
from app.tracker.taken import Selection
from app.version import program_version
from model.sound import Doubt, Evidence

TRACE_EXCHANGE = "amq.rabbitmq.trace"
LEAST_FREE_BYTES = 2**30
MOST_VHOSTS_TRIED = 5


class Grade(StrEnum):
    """The state of a checked thing; ``better`` means that the service works all the same."""

    ok = "ok"
    better = "could be better"
    wrong = "wrong"


class Diagnosis(msgspec.Struct, frozen=True):
    """One thing that was checked. ``advice`` is empty if all is well."""

    subject: str
    grade: Grade
    found: str
    advice: str = ""


async def examine(settings: Settings) -> AsyncIterator[Diagnosis]:
    """Check one thing after the other; an error of several checks is reported once."""
    program = f"rabbitmq-itc {program_version()}, Python {python_version()}"
    yield Diagnosis("program", Grade.ok, program)
    management, seen_failures = management_api(settings), set[str]()
    checks = _checks(settings, management)
    try:
        while checks:
            subject, find, lack, next_checks = checks.pop(0)
            try:
                finding, advice = await find()
                if next_checks is not None and not advice:
                    checks[:0] = await next_checks()
            except Exception as error:  # noqa: BLE001 - one check that fails stops no other
                finding, advice = _failure(subject, error)
                if finding in seen_failures:
                    continue
                seen_failures.add(finding)
            yield Diagnosis(subject, lack if advice else Grade.ok, finding, advice)
    finally:
        await management.close()


CheckResult: TypeAlias = tuple[str, str]
"""The finding, and advice: `WELL` where there is nothing to do."""

WELL = ""


class Check(NamedTuple):
    """A subject, its check, the grade if there is advice, and the checks that follow if there is
    none.
    """

    subject: str
    find: Callable[[], Awaitable[CheckResult]]
    lack: Grade = Grade.wrong
    and_then: Callable[[], Awaitable[list[Check]]] | None = None


def _checks(settings: Settings, management: ManagementApi) -> list[Check]:
    folders = dict.fromkeys((settings.data_dir, settings.exports))
    return [
        Check("broker", partial(_broker, management)),
        Check("account", partial(_account, management)),
        Check("amqp", partial(_amqp, settings, management)),
        Check(
            "store",
            partial(_store, settings),
            and_then=partial(_trace_checks, settings, management),
        ),
        Check("connections", partial(_connections, settings, management), Grade.better),
        *(
            [Check("collector", partial(_collector, settings), Grade.better)]
            if settings.collector
            else []
        ),
        Check("spark", _spark, Grade.better, partial(_java_checks, settings)),
        *(
            Check(f"disk of {folder}", partial(asyncio.to_thread, _room, folder))
            for folder in folders
        ),
    ]


_NOT_AT_ONCE = "programs at one address cannot be told apart during their first seconds"
_OUTAGE_ADVICE = {
    "amqp": "is RabbitMQ running? Is ITC_AMQP_URL right?",
    "store": "is ITC_DATABASE_URL right, and is the database running?",
}
_BROKER_OUTAGE_ADVICE = (
    "is RabbitMQ running, with its plugin (rabbitmq-plugins enable rabbitmq_management)? "
    "Is ITC_MANAGEMENT_URL right?"
)
_REFUSAL_ADVICE = {"amqp": "check the user and password in ITC_AMQP_URL"}
_MANAGEMENT_REFUSAL_ADVICE = (
    "check the user and password in ITC_MANAGEMENT_URL, or else in ITC_AMQP_URL"
)
_JAVA = "install a Java 17 runtime (Debian: openjdk-17-jre-headless), or set JAVA_HOME"
_UNREADABLE = "run doctor as the service's user, or let this user read it"


def _advice(subject: str, error: ItcError) -> str:
    if isinstance(error, VirtualHostError):
        return "is ITC_AMQP_URL right? Its user needs rights in at least one virtual host"
    if isinstance(error, BadRequestError):
        return "name a RabbitMQ broker in ITC_AMQP_URL: no other has a firehose to capture"
    if isinstance(error, RefusedError | NotAuthenticatedError):
        return _REFUSAL_ADVICE.get(subject, _MANAGEMENT_REFUSAL_ADVICE)
    if isinstance(error, NotAuthorisedError):
        return "run rabbitmqctl set_user_tags USER administrator"
    if isinstance(error, NotFoundError):
        return "does rabbitmqctl list_vhosts show the virtual host? If it does not, stop its trace"
    if isinstance(error, SettingsError):
        return "set ITC_DATABASE_URL, or else ITC_DATA_DIR, to the place of the store"
    return _OUTAGE_ADVICE.get(subject, _BROKER_OUTAGE_ADVICE)


def _failure(subject: str, error: Exception) -> CheckResult:
    if isinstance(error, ItcError):
        return str(error), _advice(subject, error)
    if isinstance(error, OSError):
        return (
            f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}",
            _UNREADABLE,
        )
    return f"the check itself failed: {type(error).__name__}", "report this bug in rabbitmq-itc"


# From this version on STOMP has no channels, and a Unix socket's clients have one name.
_SOCKETS_ALIKE = (4, 4)
_NOT_TOLD = (
    "of STOMP no settlements are told there, and clients of a Unix socket are not told apart"
)


async def _collector(settings: Settings) -> CheckResult:
    """Send the collector of spans a request without a span in it."""
    sender = Sender(settings.collector or {})
    try:
        await sender.check()
    except OutageError as outage:
        return str(outage), "is it running? Is ITC_OTLP_EXPORT_URL right, and its headers?"
    finally:
        await sender.close()
    unasked = "" if settings.export_shares else "; spans are sent by `period send` alone"
    return f"it takes spans{unasked}", WELL


async def _broker(management: ManagementApi) -> CheckResult:
    version, nodes = await management.version(), await management.nodes()
    stopped_nodes = sorted(node.name for node in nodes if not node.running)
    finding = f"RabbitMQ {version}, {len(nodes)} node(s)"
    if tuple(map(int, re.findall(r"\d+", version)[:2])) >= _SOCKETS_ALIKE:
        finding += f"; {_NOT_TOLD}"
    if stopped_nodes:
        lack = f"nodes and their queues are down: {', '.join(stopped_nodes)}"
        return f"{finding}; {lack}", "start these nodes"
    if unreachable := sorted({node.name for node in nodes} - (await management.endpoints()).keys()):
        lack = f"no management API to switch tracing on: {', '.join(unreachable)}"
        return f"{finding}; {lack}", "run rabbitmq-plugins enable rabbitmq_management there"
    return finding, WELL


async def _account(management: ManagementApi) -> CheckResult:
    user = await management.own_user()
    if "administrator" in user.tags:
        return f"{user.name} is an administrator", WELL
    command = ("rabbitmqctl", "set_user_tags", user.name, *sorted(user.tags), "administrator")
    tags = ", ".join(sorted(user.tags)) or "none"
    finding = f"{user.name} is no administrator (tags: {tags}), and cannot switch tracing on"
    return finding, f"run {shlex.join(command)}"


async def _amqp(settings: Settings, management: ManagementApi) -> CheckResult:
    """Sign in to a virtual host that lets the account in: a broker need not have ``/``."""
    user, refusal = capture_user(settings), None
    for vhost in await _vhosts_to_try(settings, management):
        try:
            await log_in(settings.amqp_url.reveal(), vhost, TIMEOUT_SECONDS)
        except VirtualHostError as error:
            refusal = refusal or error
        else:
            return f"{user} can sign in to virtual host {vhost}", WELL
    assert refusal is not None  # noqa: S101  there is always one to try
    raise refusal


async def _vhosts_to_try(settings: Settings, management: ManagementApi) -> list[str]:
    """Virtual hosts that should let the account in, the likeliest first; at least one."""
    configured = unquote(settings.amqp_url.parts.path.removeprefix("/"))
    present = await _vhosts_of(capture_user(settings), management)
    likely = sorted(present, key=lambda vhost: (vhost != configured, vhost != "/", vhost))
    return likely[:MOST_VHOSTS_TRIED] or [configured or "/"]


async def _vhosts_of(user: str, management: ManagementApi) -> frozenset[str]:
    """List the virtual hosts where a user has rights; all visible ones if the broker won't say.

    Empty if the management API does not answer at all, which is another check's finding.
    """
    with contextlib.suppress(ItcError):
        if patterns := await management.read_patterns(user):
            return frozenset(vhost for vhost, _ in patterns)
    with contextlib.suppress(ItcError):
        return await management.vhosts()
    return frozenset()


async def _store(settings: Settings) -> CheckResult:
    if (file := _file_to_be(settings)) is not None:
        return _without_tables(settings, f"{file} does not exist yet")
    state = await schema_state(settings.database.reveal())
    if state.is_current:
        return f"{settings.database}, tables up to date", WELL
    if state.fault is not None:
        fault, remedy = state.fault
        return f"{settings.database}: {fault}", remedy
    tables = "no tables yet" if state.found is None else f"tables at {state.found}"
    return _without_tables(settings, f"{settings.database}: {tables}")


def _file_to_be(settings: Settings) -> Path | None:
    """The SQLite file, if it does not exist yet: opening it would create it."""
    database = parse_url(settings.database.reveal())
    if database.get_backend_name() != "sqlite" or not database.database:
        return None
    file = Path(database.database)
    try:
        file.stat()
    except FileNotFoundError:
        return file
    with file.open("rb"):  # SQLite would not say why it cannot
        return None


def _without_tables(settings: Settings, finding: str) -> CheckResult:
    """A store that the service brings up to date when it starts, unless it may not."""
    if settings.database_migrate:
        return f"{finding}; the service takes care of that when it starts", WELL
    return f"{finding}; the service does not start like this", "run rabbitmq-itc migrate"


async def _trace_checks(settings: Settings, management: ManagementApi) -> list[Check]:
    """The checks that need the store; none if it does not exist yet."""
    url = settings.database.reveal()
    if _file_to_be(settings) is not None or not (await schema_state(url)).is_current:
        return []
    store, checks = await Store.open(url), list[Check]()
    try:
        for trace in await store.traces.list():
            if not trace.wanted:
                continue
            doubts = await store.doubts.of_trace(trace.id)
            evidence, suffix = await store.doubts.evidence(trace.id), f"of {trace.vhost}"
            [coverage] = await store.proposals.coverage([trace.id])
            proposals = coverage.open_proposals(await store.link_rules.list_own(trace.id))
            adoptable = [proposal for proposal in proposals if proposal.rules]
            checks += [
                Check(f"trace {suffix}", partial(_trace, trace, settings, management)),
                Check(
                    f"participants {suffix}", partial(_participants, trace, doubts), Grade.better
                ),
                Check(f"links {suffix}", partial(_links, trace, evidence, adoptable), Grade.better),
            ]
            if trace.ledger:  # there is nothing to compare before the first look at the counters
                checks.append(Check(f"audit {suffix}", partial(_audit, trace)))
    finally:
        await store.close()
    return checks


def capture_user(settings: Settings) -> str:
    """The account of ``ITC_AMQP_URL``, which consumes; the management API's may be another."""
    return settings.amqp_url.user or "guest"


async def _trace(trace: Trace, settings: Settings, management: ManagementApi) -> CheckResult:
    user, queue = capture_user(settings), settings.trace_queue
    states = await management.tracing(trace.vhost)
    if lack := await _lack_of_rights(trace.vhost, user, management, rights_to(queue)):
        return f"{lack[0]}, so nothing is captured", lack[1]
    marks = _rights_for_marks(queue, trace.taken)
    if lack := await _lack_of_rights(trace.vhost, user, management, marks):
        return f"{lack[0]}, so losses show later than with marks", lack[1]
    if lack := await _wrong_queue(trace, settings, management):
        return lack
    if nodes := sorted(node for node, is_on in states.items() if not is_on):
        advice = "start the service, which switches tracing on by itself"
        return f"tracing is off on {', '.join(nodes)}, so nothing is captured there", advice
    selection = "" if trace.taken.is_all else f"; {trace.taken.sentence}"
    return f"the account has its rights, and tracing is on{selection}", WELL


async def _connections(settings: Settings, management: ManagementApi) -> CheckResult:
    vhost = await management.event_exchange()
    if vhost is None:
        return f"not announced: {_NOT_AT_ONCE}", "rabbitmq-plugins enable rabbitmq_event_exchange"
    user, queue = capture_user(settings), announcements_queue(settings.trace_queue)
    announced = f"announced in the virtual host {vhost}"
    if lack := await _lack_of_rights(vhost, user, management, rights_to(queue, EVENT_EXCHANGE)):
        return f"{announced}, but {lack[0]}: {_NOT_AT_ONCE}", lack[1]
    return announced, WELL


async def _audit(trace: Trace) -> CheckResult:
    status = audit_status(Ledger.load(trace.ledger) or Ledger(), trace.taken)
    losses = [f"{status.missing:,} trace messages are missing"] if status.missing else []
    return "; ".join((status.sentence, *losses, *status.remarks())), WELL


async def _participants(trace: Trace, doubts: Sequence[Doubt]) -> CheckResult:
    if not doubts:
        return f"one for each {trace.policy}; no trace message speaks against that", WELL
    remedies = dict.fromkeys(doubt.remedy for doubt in doubts)
    return "; ".join(doubt.statement for doubt in doubts), "; ".join(remedies)


async def _links(
    trace: Trace, evidence: Evidence, proposals: Sequence[RuleProposal]
) -> CheckResult:
    """Count the causes that messages name, and propose a rule by which more would."""
    if not evidence.reactions:
        return ". ".join([evidence.sentence, *_doubtful_causes(trace)]), WELL
    sentences = [evidence.sentence]
    if evidence.fit is not None:
        causes = evidence.known + evidence.missed
        sentences.append(
            f"Of {causes} causes that came by the broker, {evidence.known} were in their"
            f" publisher's past by the policy {trace.policy}"
        )
    if evidence.hidden:
        vhost = shlex.quote(trace.vhost)
        sentences.append(
            f"{evidence.hidden} causes came from outside the broker (rabbitmq-itc hidden {vhost})"
        )
    sentences += _doubtful_causes(trace)
    if not proposals:
        return ". ".join(sentences), WELL
    best, vhost = proposals[0], shlex.quote(trace.vhost)
    sentences.append(f"{best.says}, for {best.joins} of {best.of} publishes ({best.certainty})")
    return ". ".join(sentences), f"rabbitmq-itc proposals adopt {vhost} {best.id} --past"


def _doubtful_causes(trace: Trace) -> Iterator[str]:
    """Ambiguous causes and unread values; nothing if the checkpoint is unreadable."""
    with contextlib.suppress(UnreadableCheckpointError):
        totals = Tracker.stored_totals(trace.checkpoint)
        if ambiguous := sum(counts.ambiguous for counts in totals.links.values()):
            yield f"Ambiguous links, to an id of several messages: {ambiguous}"
        if unread := totals.unread:
            counts = ", ".join(f"{reason} ({count})" for reason, count in sorted(unread.items()))
            yield f"Values that rules could not read: {counts}"


async def _wrong_queue(
    trace: Trace, settings: Settings, management: ManagementApi
) -> CheckResult | None:
    """A fault of the trace queue, and advice; None if it is well or missing."""
    name = settings.trace_queue
    bounds = QueueBounds(settings.trace_queue_max_bytes, settings.trace_queue_max_messages)
    try:
        queue = await management.queue(trace.vhost, name)
    except NotFoundError:
        return None
    bindings = keys_bound_to(await management.bindings(trace.vhost), name)
    condition = state(queue, bounds, wanted=keys(name, trace.taken), bound=bindings)
    if condition.fault:
        finding = f"the queue {name} cannot be used: {condition.fault}"
        return finding, "start the service, which declares the queue anew"
    if condition.harm:
        return condition.harm, f"change the policy's pattern so that it does not match {name}"
    if not condition.is_bound:
        finding = f"the queue {name} is not bound, so nothing is captured"
        return finding, "start the service, which binds the queue by itself"
    return None


class Right(NamedTuple):
    """A right that is needed, on names like ``example``; ``pattern`` grants it."""

    verb: str
    label: str
    example: str
    pattern: str


_VERBS = Permissions.__struct_fields__


def _right(verb: str, name: str) -> Right:
    return Right(verb, name, name, f"^{re.escape(name)}$")


def rights_to(queue: str, exchange: str = TRACE_EXCHANGE) -> list[Right]:
    return [*(_right(verb, queue) for verb in _VERBS), _right("read", exchange)]


def _rights_for_marks(queue: str, selection: Selection) -> list[Right]:
    """The rights to publish marks: by the default exchange, or by the marks' own."""
    prefix = queue_prefix(queue)
    configure, write, read = (
        Right(verb, f"{prefix}…", f"{prefix}0", f"^{re.escape(prefix)}") for verb in _VERBS
    )
    if takes_default(selection):
        return [configure, _right("write", "amq.default")]
    return [configure, write, read]


def lacking_rights(permissions: Permissions, rights: Sequence[Right]) -> list[Right]:
    return [
        right for right in rights if not _permits(getattr(permissions, right.verb), right.example)
    ]


async def _lack_of_rights(
    vhost: str, user: str, management: ManagementApi, rights: Sequence[Right]
) -> CheckResult | None:
    try:
        permissions, is_in = await management.permissions(vhost, user), True
    except NotFoundError:
        permissions, is_in = Permissions("", "", ""), False
    lack = lacking_rights(permissions, rights)
    if not lack:
        return None
    patterns = msgspec.structs.asdict(permissions)
    for right in lack:
        patterns[right.verb] = "|".join(filter(None, (patterns[right.verb], right.pattern)))
    command = ("rabbitmqctl", "set_permissions", "-p", vhost, user, *patterns.values())
    names = [f"{right.verb} {right.label}" for right in lack] if is_in else ["enter it"]
    return f"no right to {', '.join(names)}", shlex.join(command)


def _permits(pattern: str, name: str) -> bool:
    """Tell whether a pattern permits a name, as the broker reads it; an empty one permits none."""
    try:
        return bool(pattern) and re.search(pattern, name) is not None
    except re.error:
        return True  # valid in Erlang but not in Python: the broker will tell


async def _spark() -> CheckResult:
    try:
        check_spark()
    except NotInstalledError as error:
        return error.lack, error.remedy
    return "its packages are installed", WELL


async def _java_checks(settings: Settings) -> list[Check]:
    return [Check("java", partial(_java, settings))]


async def _java(settings: Settings) -> CheckResult:
    from spark_jobs.errors import JobError
    from spark_jobs.spark.java import check_java

    if settings.spark_remote:
        return "not needed: Spark is remote", WELL
    try:
        await asyncio.to_thread(check_java)
    except JobError as error:
        return str(error), _JAVA
    return "there is one that Spark can use", WELL


def _room(folder: Path) -> CheckResult:
    if folder.exists():
        next(folder.iterdir(), None)  # raises where it may not be read
    present = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(present).free
    finding = f"{free / 2**30:.1f} GiB free"
    if free >= LEAST_FREE_BYTES:
        return finding, WELL
    advice = "free space, or set ITC_RETENTION_DAYS"
    return f"{finding}; capture waits once the disk is full", advice
