"""The configuration: read once from ``ITC_*`` variables or ``.env``, then frozen.

It has everything that an operator decides, each setting once: from its field come the variable, the
tables of ``docs/settings.md`` and the warning about unknown variables. A bound that only protects
the service is a constant of the module that keeps it.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import to_jsonable_python
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.errors import SettingsError
from app.secret_url import SecretUrl
from model.sampling import SpanShare, span_shares

PREFIX = "ITC_"
# Read by the command line's clients, not by the service.
CLIENT_VARIABLES = frozenset({"ITC_URL", "ITC_USER", "ITC_PASSWORD"})


def _default_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME")
    folder = Path(base) if base else Path.home() / ".local" / "share"
    return folder.absolute() / "rabbitmq-itc"


def _comma_separated(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


_HEARTBEAT_SECONDS = 10
MOST_INDEXED = 100  # headers; as `app.tracker.links.rules` has it
# The path at which a collector takes spans, if its address has none.
_TRACES = "/v1/traces"
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_TEXT = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
# Absolute, as our child processes run in another folder.
File = Annotated[Path, AfterValidator(Path.absolute)]
# Files that an address names: SQLite's, and in a query those of TLS.
_SQLITE_FILE = re.compile(r"(?<=:///)(?!/|:memory:|file:)[^?]+")
_TLS_FILE = re.compile(
    r"(?<=[?&])((?:cafile|capath|certfile|keyfile|sslrootcert|sslcert|sslkey|sslcrl)=)"
    r"(?!/|%2F|system(?:&|$))([^&#]+)",
    re.IGNORECASE,
)
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_separated)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Bytes = Annotated[int, Field(ge=0, le=2**50)]
Seconds = Annotated[float, Field(gt=0, le=10 * 366 * 86_400)]


@dataclass(frozen=True)
class Heading:
    """Marks the setting with which a table of the document begins."""

    text: str


class Settings(BaseSettings):
    """All that an operator sets. Field ``port`` is variable ``ITC_PORT``, and so on."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )

    amqp_url: Annotated[SecretUrl, Heading("The five that matter first")] = SecretUrl(
        "amqp://guest:guest@127.0.0.1:5672"
    )
    """The broker, with the account that captures. The path is ignored: each trace names its virtual
    host. With `amqps`, `?cafile=` or `capath=` says whom to trust, `certfile=` and `keyfile=` who
    we are. `?heartbeat=` is 10 unless given: a broker that falls silent is noticed within twice
    that."""
    management_url: SecretUrl = SecretUrl("http://127.0.0.1:15672")
    """The broker's management API; without a user in it, that of `ITC_AMQP_URL`. With `https`, the
    variable `SSL_CERT_FILE` names an authority of your own."""
    database_url: SecretUrl | None = None
    """`sqlite:///file` or `postgresql://user:password@host/database`; unset: `itc.db` under
    `ITC_DATA_DIR`."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    retention_days: Annotated[float, Field(gt=0)] | None = None
    """Age at which events are removed; unset: never."""

    data_dir: Annotated[File, Heading("Where things are kept")] = Field(
        default_factory=_default_data_dir
    )
    """Folder for everything the service writes."""
    export_dir: File | None = None
    """Folder of the exports; unset: `exports` under `ITC_DATA_DIR`."""
    archive_dir: File | None = None
    """Folder of the archives, which Spark's executors must see under the same path; unset:
    `archives` under `ITC_DATA_DIR`."""
    database_migrate: bool = True
    """Bring the database's tables up to date when the service starts."""
    retention_events: Count | None = None
    """Number of newest events that are kept; unset: all."""
    exports_max_bytes: Bytes = 107_374_182_400
    """Size of all exports together; beyond it, 507."""

    port: Annotated[int, Heading("The service")] = Field(default=15680, ge=0, le=65535)
    """Port to listen on."""
    auth: Literal["broker", "none"] = "broker"
    """Who has access: the broker's users with their rights, or anybody (`none`, on a loopback
    address only)."""
    service_name: str | None = Field(default=None, max_length=200)
    """Name of this service among several on one PostgreSQL; unset: the machine's name and
    `ITC_PORT`."""
    trusted_proxies: Names = ()
    """Addresses of reverse proxies whose `X-Forwarded-For` is believed."""
    cors_origins: Names = ()
    """Other origins whose pages may call this API, comma separated."""
    frame_ancestors: Names = ()
    """Origins whose pages may show the dashboard in a frame, comma separated: that of RabbitMQ's
    management page, for the tab of the broker plugin."""
    oauth_client: str | None = None
    """Name of this page at the identity provider that the broker names (docs/security.md), and
    behind it, parted by spaces, the scopes to ask for; unset: those of the broker's own page, which
    must then have this page's address among those that it may return to."""
    loopback_users: Names = ("guest",)
    """Users that may sign in from this machine only. The broker cannot tell, because it sees this
    service's own address."""
    auth_cache_seconds: Seconds = 15
    """How long the broker's answer about a user is cached."""
    connections: Count | None = None
    """Most connections of clients; unset: 4096, or five eighths of the descriptors that the process
    may open where that is less. One address (IPv6: a network of 64 bits) that is none of
    `ITC_TRUSTED_PROXIES` has at most half of them."""
    metrics_open: bool = False
    """Serve `/metrics` without asking for credentials."""
    audit_log: File | None = None
    """A file that gets a line of JSON for each request that somebody's rights decide
    (docs/security.md); it is opened again once it was moved away."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest severity that is logged."""
    access_log: bool = False
    """Log every request."""
    shutdown_seconds: Seconds = 20
    """How long a graceful stop may take before the rest is cut off."""

    payload_max_bytes: Annotated[Bytes, Heading("Capture")] = 65_536
    """How much of a message's body is stored; 0 stores only its digest."""
    prefetch: Annotated[int, Field(ge=1, le=65_535)] = 32_000
    """Most trace messages read ahead of their commit; at least four batches, or the broker has to
    wait for us. Of the broker plugin's bundles it is an eightieth."""
    shared_places: Names = ()
    """Networks from which several programs connect under one address, as behind a proxy, comma
    separated: there a client's own name tells them apart. Loopback is one."""
    pending_copies: Count = 200_000
    """Most routed copies of a trace that wait for their delivery; beyond that the oldest are
    forgotten and counted."""
    hold_seconds: Annotated[float, Field(ge=5, le=3600)] = 10
    """Among several services, how long one keeps a trace whose broker it cannot reach while another
    can."""
    reorder_seconds: Annotated[float, Field(ge=0, le=60)] = 1
    """On a cluster: how long a delivery waits for a publish that it overtook, and a publish for a
    delivery that it names."""

    trace_queue: Annotated[str, Heading("The trace queue")] = Field(
        default="itc.trace", min_length=1, max_length=200
    )
    """Name of our queue in each traced virtual host; two services that trace the same one need two
    names. Connections are announced to a queue with `.connections` behind this name."""
    trace_queue_max_bytes: Count = 1_073_741_824
    """Size of their bodies at which the broker drops the oldest trace messages of our queue."""
    trace_queue_max_messages: Count = 500_000
    """Number at which it does. Beside its body each takes the broker about 1.7 kB, and its
    headers."""
    trace_queue_policy: bool = False
    """Whether to set a policy of our own for our queue where one for other queues would make it
    drop trace messages. The service's account needs the tag policymaker."""

    mark_seconds: Annotated[float, Field(ge=0, le=60), Heading("Losses")] = 1
    """How often a mark is published in a traced virtual host while there is traffic, so that a loss
    shows; 0 for never."""
    audit_seconds: Annotated[float, Field(ge=0, le=3600)] = 5
    """How often the broker's own counters are compared with what was traced; 0 for never."""
    tracing_check_seconds: Seconds = 15
    """How often to look whether tracing is still switched on."""

    links: Annotated[bool, Heading("Links")] = True
    """Whether a publish comes after what its message names as its cause (docs/links.md)."""
    link_rules: File | None = None
    """A JSON file with a list of own rules beside the built-in ones, for all traces
    (docs/links.md)."""
    proposals: bool = True
    """Whether the service looks by itself, beside capture, for fields that tie messages together
    where few of them name their causes (docs/links.md)."""
    redaction_key: SecretStr | None = Field(default=None, min_length=16)
    """The secret of the digests that take the place of values (docs/redaction.md), of at least 16
    characters. With another the same value has another digest."""
    indexed_headers: Names = ()
    """Headers by which events are found at once, separated by commas, beside those that rules of
    links look at."""

    otlp: Annotated[bool, Heading("OpenTelemetry")] = False
    """Whether spans of OpenTelemetry are taken, at `POST /v1/traces` (docs/links.md)."""
    otlp_users: Names = ()
    """Users of the broker that may send spans besides administrators, comma separated."""
    otlp_export_url: SecretUrl | None = None
    """A collector that spans of a period may be sent to, with OTLP over HTTP: `http://host:4318`,
    with a user and a password in it if it asks for them (docs/interchange.md)."""
    otlp_export_headers: SecretStr | None = None
    """Headers of each request to it: `name=value`, comma separated."""
    otlp_export_rules: str | None = None
    """Which spans are sent there as events come, by the first rule that fits:
    `VHOST/EXCHANGE=SHARE`, or `=off`, comma separated (docs/interchange.md); unset: none."""

    webhook_url: Annotated[SecretUrl | None, Heading("Assertions")] = None
    """Where violations of assertions are sent, `https://host/path`: as CloudEvents, by POST
    (docs/assertions-live.md); unset: nowhere."""
    webhook_secret_file: File | None = None
    """A file with the secret that signs them; unset: they are not signed."""

    spark_master: Annotated[str, Heading("Spark and jobs")] = "local[2]"
    """Spark's master: `local[N]` or `spark://host:port`."""
    spark_remote: SecretUrl | None = None
    """A Spark Connect server, `sc://host:port`, instead of a master."""
    spark_secret: SecretStr | None = None
    """The cluster's `spark.authenticate.secret`: a master `spark://…` needs it, `local[N]` makes
    one for each session."""
    spark_memory: str = Field(default="1g", pattern=r"^[1-9][0-9]*[kmgt]$")
    """Memory of the Spark process, as Java writes it."""
    spark_at_boot: bool = False
    """Start Spark with the service rather than on first use."""
    signing_key_file: File | None = None
    """A file with an Ed25519 private key (PEM), which signs the manifests of what events
    touched."""

    @field_validator("database_url")
    @classmethod
    def _database(cls, value: SecretUrl | None) -> SecretUrl | None:
        if value is None:
            return None
        scheme = value.parts.scheme.partition("+")[0]
        if scheme == "sqlite":
            return SecretUrl(
                _SQLITE_FILE.sub(lambda file: str(Path(file[0]).absolute()), value.reveal(), 1)
            )
        if scheme == "postgresql":
            return _with_absolute_files(value)
        raise ValueError("expected sqlite:///… or postgresql://…")

    @field_validator("amqp_url")
    @classmethod
    def _amqp(cls, value: SecretUrl) -> SecretUrl:
        if value.parts.scheme not in ("amqp", "amqps"):
            raise ValueError("expected amqp://… or amqps://…")
        try:
            (value.parts.hostname or "").encode("idna")
        except UnicodeError:
            raise ValueError("its host has a name that no host can have") from None
        return _with_absolute_files(value)

    @field_validator("management_url", "otlp_export_url", "webhook_url")
    @classmethod
    def _web(cls, value: SecretUrl | None) -> SecretUrl | None:
        if value is None or (value.parts.scheme in ("http", "https") and value.parts.hostname):
            return value
        raise ValueError("expected http://host:port or https://host:port, perhaps with a path")

    @field_validator("amqp_url", "management_url", "database_url")
    @classmethod
    def _password(cls, value: SecretUrl | None) -> SecretUrl | None:
        if value is not None and value.parts.password == "change-me":  # noqa: S105  the manifests'
            raise ValueError("its password is still the placeholder change-me")
        return value

    @field_validator("otlp_export_headers")
    @classmethod
    def _collector_headers(cls, value: SecretStr | None) -> SecretStr | None:
        for name, _, text in _pairs(value):
            if not _HEADER.fullmatch(name) or not _HEADER_TEXT.fullmatch(text):
                raise ValueError("expected name=value, comma separated")
        return value

    @field_validator("otlp_export_rules")
    @classmethod
    def _export_shares(cls, value: str | None) -> str | None:
        span_shares(value or "")
        return value

    @field_validator("shared_places")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ipaddress.ip_network(network)
        return value

    @field_validator("indexed_headers")
    @classmethod
    def _headers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) > MOST_INDEXED or any(len(name.encode()) > 255 for name in value):
            raise ValueError(f"expected at most {MOST_INDEXED} names of at most 255 bytes")
        return value

    @field_validator("cors_origins", "frame_ancestors")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            parts = urlsplit(origin)
            is_plain = not set("*;' \t\n") & set(origin)
            is_web = parts.scheme in ("http", "https")
            if not (is_web and is_plain and parts.netloc) or parts.path:
                raise ValueError("expected origins such as https://ops.example.org, never *")
        return value

    @model_validator(mode="after")
    def _is_guarded(self) -> Settings:
        if self.auth == "none" and not is_loopback(self.host):
            raise ValueError(
                f"ITC_AUTH=none lets anybody in, so ITC_HOST must be a loopback address, "
                f"not {self.host}"
            )
        if self.export_shares and self.otlp_export_url is None:
            raise ValueError("ITC_OTLP_EXPORT_RULES needs ITC_OTLP_EXPORT_URL: where to send spans")
        is_cluster = self.spark_remote is None and self.spark_master.startswith("spark://")
        if is_cluster and not (self.spark_secret and self.spark_secret.get_secret_value()):
            raise ValueError(
                "ITC_SPARK_MASTER names a cluster, so ITC_SPARK_SECRET has to be its "
                "spark.authenticate.secret"
            )
        return self

    @property
    def database(self) -> SecretUrl:
        return self.database_url or SecretUrl(f"sqlite:///{self.data_dir / 'itc.db'}")

    @property
    def exports(self) -> Path:
        return self.export_dir or self.data_dir / "exports"

    @property
    def archives(self) -> Path:
        return self.archive_dir or self.data_dir / "archives"

    @property
    def service(self) -> str:
        return self.service_name or f"{socket.gethostname()}:{self.port}"

    def portable(self) -> dict[str, Any]:
        """All settings as JSON-safe values, passwords too: for a child process, by its stdin."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: _portable(value) for name, value in values.items() if value is not None}

    @property
    def broker(self) -> str:
        """The broker's address, with its password, and with the heartbeat if it names none."""
        parts = urlsplit(self.amqp_url.reveal())
        if "heartbeat" not in parse_qs(parts.query):
            query = f"heartbeat={_HEARTBEAT_SECONDS}"
            parts = parts._replace(query=f"{parts.query}&{query}" if parts.query else query)
        return parts.geturl()

    @property
    def collector(self) -> dict[str, Any] | None:
        """The collector that spans are sent to: all parts but ``shown`` may hold secrets."""
        if self.otlp_export_url is None:
            return None
        parts = self.otlp_export_url.parts
        whole = parts._replace(path=_TRACES if parts.path in ("", "/") else parts.path)
        host = parts.netloc.rpartition("@")[2]
        return {
            "url": whole.geturl(),
            "shown": f"{whole.scheme}://{host}{whole.path}",  # a query may hold a token
            "headers": {name: text for name, _, text in _pairs(self.otlp_export_headers)},
        }

    @property
    def export_shares(self) -> tuple[SpanShare, ...]:
        """The rules by which spans are sent as events come; none where that is off."""
        return span_shares(self.otlp_export_rules or "")

    @property
    def management_credentials(self) -> tuple[str, str]:
        """User and password for the management API: its own, or else the capturing account's."""
        source = self.management_url if self.management_url.user else self.amqp_url
        return source.user or "guest", source.password or "guest"


def _pairs(value: SecretStr | None) -> list[tuple[str, str, str]]:
    text = "" if value is None else value.get_secret_value()
    pairs = (part.partition("=") for part in text.split(",") if part.strip())
    return [(name.strip(), sign, text.strip()) for name, sign, text in pairs]


def _with_absolute_files(url: SecretUrl) -> SecretUrl:
    """An address whose query names the same files wherever it is read."""
    address, sign, query = url.reveal().partition("?")

    def absolute(match: re.Match[str]) -> str:
        return match[1] + quote(str(Path(unquote(match[2])).absolute()))

    return SecretUrl(address + _TLS_FILE.sub(absolute, sign + query))


def _portable(value: object) -> Any:
    match value:
        case SecretUrl():
            return value.reveal()
        case SecretStr():
            return value.get_secret_value()
    return to_jsonable_python(value)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a server that listens on ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load_settings(**overrides: Any) -> Settings:
    """Read the environment and ``.env``.

    Raises `SettingsError` with one line that names each invalid variable, never its value, or says
    why ``.env`` is not read.
    """
    try:
        with _own_file(Path(".env")) as file:
            return Settings(**{"_env_file": file, **overrides})
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(fault) for fault in error.errors())) from None


@contextmanager
def _own_file(path: Path) -> Iterator[str | None]:
    """The name of an open file, None if there is none; `SettingsError` if it may be another's.

    The service may be started in another user's folder, whose settings are not ours: a link there
    could point at any file of ours or of root, such as a log, and a pipe never ends.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise SettingsError(f"{path.absolute()} is not read: {reason}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SettingsError(f"{path.absolute()} is not read: it is no file")
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SettingsError(
                f"{path.absolute()} is not read: others may have written it. Have it belong to"
                f" user {os.geteuid()} or root, and writable by nobody else (chmod go-w), or start"
                " in another folder."
            )
        yield f"/dev/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _explain(fault: Mapping[str, Any]) -> str:
    message = str(fault["msg"]).removeprefix("Value error, ")
    if not fault["loc"]:
        return message
    return f"{PREFIX}{str(fault['loc'][0]).upper()}: {message}"


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """``ITC_*`` variables that are no settings: most likely misspelt."""
    variables = {PREFIX + name.upper() for name in Settings.model_fields} | CLIENT_VARIABLES
    return sorted(
        name
        for name in environment
        if name.upper().startswith(PREFIX) and name.upper() not in variables
    )
