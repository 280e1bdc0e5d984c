"""Commands of functions: what many of them share is a parameter of one name.

A parameter that is a `ServiceClient`, or a dataclass of options, stands for the options that make
it, and typer sees those. A command's own come first in its help, a client's last.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import typer

from app.cli.client import ServiceClient, segment
from app.cli.options import Name, Vhost
from app.cli.output import printable, say

Command = Callable[..., Any]


def add(app: typer.Typer, panel: str, *commands: Command | typer.Typer) -> None:
    """Add commands, by their functions' names, and families of them to a panel of the help."""
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            name = command.__name__.strip("_").replace("_", "-")
            app.command(name, rich_help_panel=panel)(unfold(command))


def family(name: str, summary: str, **commands: Command) -> typer.Typer:
    """Commands that share their first word, by their second."""
    group = typer.Typer(name=name, help=summary, no_args_is_help=True)
    for word, command in commands.items():
        group.command(word)(unfold(command))
    return group


def remover(path: str, noun: str, summary: str) -> Command:
    """A command that removes something of a virtual host, by its name."""

    def remove(client: ServiceClient, vhost: Vhost, name: Name) -> None:
        client.send("DELETE", f"{path}/{segment(vhost)}/{segment(name)}")
        say(f"{printable(vhost)}: {noun} {printable(name)} removed")

    remove.__doc__ = summary
    return remove


def unfold(function: Command) -> Command:
    """The function with single options for parameters."""
    direct, common, of_client = (list[inspect.Parameter]() for _ in range(3))
    makers: dict[str, tuple[Command, list[str]]] = {}
    for parameter in _parameters(function):
        is_client = parameter.annotation is ServiceClient
        maker = ServiceClient.from_environment if is_client else parameter.annotation
        if is_client or dataclasses.is_dataclass(maker):
            options = _parameters(maker)
            makers[parameter.name] = maker, [option.name for option in options]
            (of_client if is_client else common).extend(options)
        else:
            direct.append(parameter)

    def command(**arguments: Any) -> Any:
        objects = {
            name: maker(**{option: arguments.pop(option) for option in options})
            for name, (maker, options) in makers.items()
        }
        return function(**objects, **arguments)

    parameters = direct + common + of_client
    command.__doc__ = function.__doc__
    command.__annotations__ = {option.name: option.annotation for option in parameters}
    command.__dict__["__signature__"] = inspect.Signature(parameters)
    return command


def _parameters(function: Command) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    return [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(function).parameters.values()
    ]
