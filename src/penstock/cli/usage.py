"""The list of all commands, and how wrong values of their options are told."""

import itertools
from typing import Any

import typer
from typer.core import TyperCommand

from penstock.cli.contents import CONTENTS, CommandEntry, loaded
from penstock.cli.helping import CommandGroup, write_commands


class Commands(CommandGroup):
    """All commands, as the list has them: one that is named is loaded whole."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": [_listed(name, entry) for name, entry in CONTENTS.items()]})

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the list, part by part."""
        for part, names in itertools.groupby(CONTENTS, key=lambda name: CONTENTS[name].part):
            write_commands(formatter, part, ((name, self.commands[name]) for name in names))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that *args* name, whole, and the rest of them."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and loaded(listed.name or ""), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named; a value that it refuses is refused in words of ours."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if (plain := _plain(error.__cause__)) is None:
                raise
            raise typer.BadParameter(plain, ctx=error.ctx, param=error.param, param_hint=error.param_hint) from error


def _listed(name: str, entry: CommandEntry) -> TyperCommand:
    return TyperCommand(name, help=entry.summary)


def _plain(cause: BaseException | None) -> str | None:
    """Return what *cause* says of a value, in our words; None where it says nothing that we know."""
    findings = getattr(cause, "errors", None)
    if findings is None:
        return None
    found = findings()[0]
    given, more = found["input"], found.get("ctx", {})
    match found["type"]:
        case "int_parsing" | "int_parsing_size":
            return f"{given!r} is not a whole number"
        case "greater_than_equal":
            return f"{given} is less than {more['ge']}"
        case "less_than_equal":
            return f"{given} is more than {more['le']}"
        case "bool_parsing":
            return f"{given!r} is neither true nor false"
        case "value_error":
            return str(more["error"])
    return None
