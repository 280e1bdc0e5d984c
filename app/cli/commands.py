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

from app.cli.client import ServiceClient

Command = Callable[..., Any]


def add(app: typer.Typer, panel: str, *commands: Command | typer.Typer) -> None:
    """Add commands, by their functions' names, and families of them to a panel of the help."""
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            name = command.__name__.strip("_").replace("_", "-")
            app.command(name, rich_help_panel=panel)(unfolded(command))


def family(name: str, meaning: str, **commands: Command) -> typer.Typer:
    """Commands that share their first word, by their second."""
    group = typer.Typer(name=name, help=meaning, no_args_is_help=True)
    for word, command in commands.items():
        group.command(word)(unfolded(command))
    return group


def unfolded(function: Command) -> Command:
    """The function with single options for parameters."""
    own, shared, of_client = (list[inspect.Parameter]() for _ in range(3))
    makers: dict[str, tuple[Command, list[str]]] = {}
    for parameter in _parameters(function):
        is_client = parameter.annotation is ServiceClient
        maker = ServiceClient.from_environment if is_client else parameter.annotation
        if is_client or dataclasses.is_dataclass(maker):
            options = _parameters(maker)
            makers[parameter.name] = maker, [each.name for each in options]
            (of_client if is_client else shared).extend(options)
        else:
            own.append(parameter)

    def command(**given: Any) -> Any:
        made = {
            name: maker(**{option: given.pop(option) for option in options})
            for name, (maker, options) in makers.items()
        }
        return function(**made, **given)

    parameters = own + shared + of_client
    command.__doc__ = function.__doc__
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__dict__["__signature__"] = inspect.Signature(parameters)
    return command


def _parameters(function: Command) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    return [
        each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for each in inspect.signature(function).parameters.values()
    ]
