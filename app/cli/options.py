"""Options that several commands share."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.exits import CommandError, Exit
from app.cli.output import printable, say
from app.version import PACKAGE, program_version


def _show_version(is_asked: bool) -> None:
    if is_asked:
        say(f"{PACKAGE} {program_version()} (Python {platform.python_version()})")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", help="Show the program's version.", callback=_show_version, is_eager=True
    ),
]
Vhost = Annotated[str, typer.Argument(metavar="VHOST", help="The virtual host's name, such as /")]
AnyVhost = Annotated[
    str | None, typer.Argument(metavar="VHOST", help="Only this virtual host.", show_default=False)
]
EventId = Annotated[int, typer.Argument(metavar="EVENT", min=1, help="An event's id.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait for the job, or just print its number.")
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Where to save it; - for stdout.")
]
Name = Annotated[str, typer.Argument(help="Its name.")]
FileName = Annotated[str, typer.Argument(metavar="FILE", help="Its name.")]
Input = Annotated[str, typer.Argument(metavar="FILE", help="A file of YAML or JSON; - for stdin.")]
_LINKS = "links (messages, and the causes they name)"
WalkVia = Annotated[
    str, typer.Option(help=f"Follow {_LINKS}, conversation (shared keys too) or any.")
]
JoinVia = Annotated[
    str, typer.Option(help=f"Join messages by {_LINKS}, or conversation (shared keys too).")
]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="How many.")]
PageLimit = Annotated[int, typer.Option("-n", "--limit", min=1, max=1_000, help="How many.")]
FromTime = Annotated[str | None, typer.Option(help="From this time on (ISO 8601).")]
ToTime = Annotated[str | None, typer.Option(help="Before this time (ISO 8601).")]


@dataclass(frozen=True)
class TimeRange:
    """A time from which, and one to which."""

    since: FromTime = None
    until: ToTime = None


@dataclass(frozen=True)
class Filters:
    """Filters of events, walks and conversations."""

    type_: Annotated[
        str | None,
        typer.Option("--type", help="published or received; for conversations, a message type."),
    ] = None
    participant: Annotated[
        str | None,
        typer.Option(help="Of this participant, by name or number (digits alone are a number)."),
    ] = None
    since: FromTime = None
    until: ToTime = None
    q: Annotated[str | None, typer.Option("-q", help="With this text anywhere.")] = None
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="With this header; may be repeated."),
    ] = None

    def parameters(self) -> dict[str, str | None]:
        participant = "participant" if (self.participant or "").isdigit() else "participant_name"
        return {
            "type": self.type_,
            participant: self.participant,
            "since": self.since,
            "until": self.until,
            "q": self.q,
            **self._headers(),
        }

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for header in self.header or ():
            name, equals, value = header.partition("=")
            if not name or not equals:
                raise CommandError(Exit.usage, f"--header {header}: expected NAME=VALUE")
            if f"header.{name}" in headers:
                raise CommandError(Exit.usage, f"--header {name} comes more than once")
            headers[f"header.{name}"] = value
        return headers


@dataclass(frozen=True)
class MessageFilters:
    """Filters by names in messages."""

    message_id: Annotated[str | None, typer.Option(help="With this message id.")] = None
    correlation_id: Annotated[str | None, typer.Option(help="With this correlation id.")] = None
    conversation: Annotated[
        str | None, typer.Option(help="Of this conversation, by its key, such as a trace id.")
    ] = None


@dataclass(frozen=True)
class Requirements:
    """The certainty that an answer has to have."""

    require_complete: Annotated[
        bool, typer.Option("--require-complete", help="Exit with 7 if the answer spans a gap.")
    ] = False
    require_sound: Annotated[
        bool,
        typer.Option(
            "--require-sound", help="Exit with 8 if participants may be parts of one program."
        ),
    ] = False

    def check(self, answer: dict[str, Any]) -> None:
        """End the command if an answer has to be complete, or sound, and is not."""
        if self.require_complete and not answer["complete"]:
            raise CommandError(Exit.incomplete, answer["caveats"][0])
        if self.require_sound and not answer["sound"]:
            raise CommandError(Exit.unsound, answer["doubts"][0])

    def check_relation(self, answer: dict[str, Any]) -> None:
        """The same for an answer about two events, which may be concurrent."""
        self.check(answer)
        if answer["relation"] == "concurrent":
            is_known = answer["answer"] != "unknown"
            raise typer.Exit(Exit.concurrent if is_known else Exit.undecided)


def say_caveats(answer: dict[str, Any], say: Callable[[str], None] = say) -> None:
    """Print what restricts an answer, a line each."""
    for caveat in answer["caveats"]:
        say(printable(caveat))


@dataclass(frozen=True)
class ActingOptions:
    """The rules of who acts, and whose traffic joins no clocks."""

    participant: Annotated[
        str | None,
        typer.Option(
            help="Who counts as a participant: client (default of a new trace), host, user, "
            "connection or channel. Unchanged if left out."
        ),
    ] = None
    quiet: Annotated[
        list[str] | None,
        typer.Option(
            help="Traffic that joins no clocks: exchange:NAME or queue:NAME, with * for any "
            "characters. May be repeated; '' for none. Unchanged if left out."
        ),
    ] = None

    def wish(self) -> dict[str, Any]:
        """The body that asks for these rules; one that is not given is left out."""
        wish: dict[str, Any] = {} if self.participant is None else {"participant": self.participant}
        if self.quiet:  # typer gives an empty list, or None, if the option is not given
            wish["quiet"] = [pattern for pattern in self.quiet if pattern]
        return wish


def content_of(file: str) -> bytes:
    """A file's content, or that of standard input for ``-``."""
    try:
        return typer.get_binary_stream("stdin").read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandError(Exit.usage, f"{file}: {error.strerror}") from error
