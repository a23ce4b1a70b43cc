"""How the help of commands is written: plain text, which loads nothing and wraps to any width.

Tables with borders, which Typer would draw, cut the names of variables off and are three times slower.
"""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import typer
from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """Commands whose list says of each in full what it does."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list."""
        write_commands(formatter, "Commands", ((name, self.commands[name]) for name in self.list_commands(ctx)))


def group(help: str, *usage: str, cls: type[CommandGroup] = CommandGroup, **settings: Any) -> typer.Typer:
    """Return a group of commands that has no commands yet; *usage* are examples."""
    return typer.Typer(cls=cls, help=help, epilog=examples(*usage), rich_markup_mode=None, **settings)


def write_commands(formatter: Any, heading: str, commands: Iterable[tuple[str, Any]]) -> None:
    """Write a part of a list of commands."""
    with formatter.section(heading):
        formatter.write_dl([(name, _summary(command)) for name, command in commands])


def examples(*commands: str) -> str | None:
    """Return the end of a command's help: how it is used."""
    if not commands:
        return None
    return "\n".join(["\b", "Examples:", *(f"  $ {command}" for command in commands)])


def prose(command: Callable[..., object]) -> str:
    """Return the docstring of *command* with its paragraphs unbroken: the terminal's width breaks them."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(command) or "")


def _summary(command: Any) -> str:
    return (command.help or "").partition("\n\n")[0]
