"""``rabbitmq-itc``: serve, and everything an operator asks a running service from a shell.

The commands are thin; what they print is in `app.cli.output`, how they end in `app.cli.exits`.
Imports of the service's own parts stay inside the commands that need them: a client starts in a
fraction of the time.
"""

from __future__ import annotations

import sys

import typer

from app.cli import (
    assertions,
    commands,
    conversations,
    events,
    files,
    local,
    mcp,
    redactions,
    reports,
    rules,
    size,
    traces,
    upkeep,
    verify,
    where,
)
from app.cli.exits import CommandError, Exit
from app.cli.options import Version
from app.cli.output import complain
from app.errors import ItcError, OutageError, SettingsError

app = typer.Typer(
    name="rabbitmq-itc",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def program(version: Version = False) -> None:
    """Did this message cause that one, and through which events?"""


PANELS = {
    "Start here": (local.demo, local.serve, local.doctor, traces.trace, size.size),
    "Look": (
        where.where,
        conversations.conversations,
        conversations.conversation,
        reports.failures,
        events.events,
        events.deliveries,
        mcp.mcp,
    ),
    "Prove": (
        events.compare,
        events.causes,
        events.effects,
        files.chain,
        verify.touched,
        verify.verify,
        assertions.assert_,
    ),
    "Learn": (
        reports.expectations,
        reports.compare_periods,
        rules.correlate,
        rules.proposals,
        rules.hidden,
        rules.links,
        assertions.assertions,
        assertions.violations,
    ),
    "Maintain": (
        local.settings,
        local.migrate,
        redactions.redactions,
        upkeep.jobs,
        files.export,
        files.period,
        upkeep.restamp,
        upkeep.archive,
        upkeep.prune,
    ),
}

for panel, functions in PANELS.items():
    commands.add(app, panel, *functions)


# Exit code of an error of the service's own parts; the first that fits.
_EXITS = ((SettingsError, Exit.usage), (OutageError, Exit.unavailable), (ItcError, Exit.failure))


def main() -> None:
    """The console script: any expected error is one line and an exit code."""
    try:
        app()
    except CommandError as error:
        complain(str(error))
        sys.exit(error.code)
    except ItcError as error:
        complain(str(error))
        sys.exit(next(code for kind, code in _EXITS if isinstance(error, kind)))
    except (KeyboardInterrupt, BrokenPipeError):
        sys.stderr.close()  # Ctrl-C and `| head` are not failures to report
        sys.exit(Exit.failure)
