"""Commands that need no running service: demo, serve, migrate, settings, doctor."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Annotated, Any

import msgspec
import typer

from app.cli.exits import Exit
from app.cli.options import Json
from app.cli.output import complain, printable, say, show_list, table
from app.errors import SettingsError
from app.priority import let_others_go_first
from app.private import keep_private, tighten
from app.settings import Settings, load_settings, unknown_variables

# Loggers that also log below warnings; libraries would log every frame, with its content.
_OWN_LOGGERS = ("app", "uvicorn.access")


def demo() -> None:
    """Trace a small order pipeline on a private broker, and show a chain from it."""
    from tools.demo.__main__ import main

    raise typer.Exit(main())


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (ITC_HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (ITC_PORT).")] = None,
) -> None:
    """Run the service."""
    keep_private()
    let_others_go_first()
    overrides: dict[str, Any] = {"host": host, "port": port}
    configuration = load_settings(**{k: v for k, v in overrides.items() if v is not None})
    _log_to_stderr(configuration)
    for name in unknown_variables(os.environ):
        logging.getLogger("app").warning("%s is not a setting of this service: misspelt?", name)
    from app.main import create_app
    from app.server import bind, run

    _tighten(configuration)
    run(create_app(configuration), configuration, bind(configuration))


def _tighten(configuration: Settings) -> None:
    from app.store.database.engine import parse_url

    data = configuration.data_dir.absolute()
    folders = configuration.exports.absolute(), configuration.archives
    all_folders = (*folders, data / "reports", data / "topologies")
    database = parse_url(configuration.database.reveal())
    file = database.database if database.get_backend_name() == "sqlite" else None
    try:
        for warning in tighten(data, all_folders, file):
            logging.getLogger("app").warning("%s", warning)
    except OSError as error:
        raise SettingsError(
            f"ITC_DATA_DIR: {error.filename or data} cannot be used ({error.strerror})"
        ) from error


def _log_to_stderr(configuration: Settings) -> None:
    level = logging.getLevelNamesMapping()[configuration.log_level.upper()]
    logging.basicConfig(
        stream=sys.stderr,
        level=max(level, logging.WARNING),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(level)


def migrate() -> None:
    """Bring the database's tables up to date."""
    keep_private()
    configuration = load_settings()
    from app.store.database.migrate import migrate as bring_up_to_date

    state = asyncio.run(bring_up_to_date(configuration.database.reveal()))
    if state.is_current:
        say(f"{configuration.database}: up to date ({state.needed})")
    else:
        say(f"{configuration.database}: {state.found or 'empty'} → {state.needed}")


def settings() -> None:
    """Show the settings in force, with passwords hidden."""
    configuration = load_settings()
    table(
        ("VARIABLE", "VALUE"),
        (
            (f"ITC_{name.upper()}", _text_of(getattr(configuration, name)))
            for name in Settings.model_fields
        ),
    )
    unknown = unknown_variables(os.environ)
    for name in unknown:
        complain(f"{name} is not a setting of this service: misspelt?")
    if unknown:
        raise typer.Exit(Exit.failure)


def _text_of(value: object) -> str:
    if value is None or value == ():
        return ""
    return ",".join(value) if isinstance(value, tuple) else str(value)


def doctor(json: Json = False) -> None:
    """Check everything the service depends on, and say how to fix what is wrong.

    Exits with 1 if anything is wrong, otherwise with 0.
    """
    # Libraries' log lines would stand between the findings, which say it better.
    logging.basicConfig(handlers=[logging.NullHandler()])
    well = asyncio.run(_doctor(load_settings(), json))
    if not well:
        raise typer.Exit(Exit.failure)


async def _doctor(configuration: Settings, json: bool) -> bool:
    from app.doctor import Grade, examine

    labels = {Grade.ok: "ok   ", Grade.wrong: "WRONG"}

    diagnoses = []
    async for diagnosis in examine(configuration):
        diagnoses.append(diagnosis)
        if not json:
            say(
                f"{labels.get(diagnosis.grade, diagnosis.grade)} {printable(diagnosis.subject)}: "
                f"{printable(diagnosis.found)}"
            )
            if diagnosis.advice:
                say(f"      → {printable(diagnosis.advice)}")
    if json:
        show_list([msgspec.structs.asdict(diagnosis) for diagnosis in diagnoses], json, {})
    return all(diagnosis.grade is not Grade.wrong for diagnosis in diagnoses)
