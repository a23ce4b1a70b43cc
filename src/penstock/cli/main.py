"""The command `penstock`: the list of all commands, and its own words for invalid values of options."""

import itertools
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from penstock.cli import failures
from penstock.cli.contents import CONTENTS, CommandEntry, load_command
from penstock.cli.helping import CommandGroup, examples, write_commands


class Commands(CommandGroup):
    """All commands, as the list has them. A command that is run is loaded whole."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": [_make_entry(name, entry) for name, entry in CONTENTS.items()]})

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the list, part by part."""
        for part, names in itertools.groupby(CONTENTS, key=lambda name: CONTENTS[name].part):
            write_commands(formatter, part, ((name, self.commands[name]) for name in names))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that *args* name, loaded whole, and the rest of *args*."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and load_command(listed.name or ""), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named.

        Raises:
            BadParameter: a value is invalid; says so in our words if the reason is a known one.
        """
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if (detail := _explain(error.__cause__)) is None:
                raise
            raise typer.BadParameter(detail, ctx=error.ctx, param=error.param, param_hint=error.param_hint) from error


app = typer.Typer(
    name="penstock",
    cls=Commands,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("penstock serve", "penstock event-type create order.placed", "penstock tail order.placed"),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from penstock.cli import version

        version.version()
        raise typer.Exit


@app.callback()
def penstock(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Tell the version.")
    ] = False,
) -> None:
    """An event hub that lives in your own database, and a Spark data pipeline that drinks from it."""


def main() -> None:
    """Run the command that the process's arguments name."""
    failures.run(app)


def _make_entry(name: str, entry: CommandEntry) -> TyperCommand:
    return TyperCommand(name, help=entry.summary)


def _explain(cause: BaseException | None) -> str | None:
    """Return in our words why a value is invalid; None if *cause* gives no known reason."""
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


if __name__ == "__main__":
    main()
