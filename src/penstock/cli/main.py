"""The command `penstock`."""

from typing import Annotated

import typer

from penstock.cli import failures
from penstock.cli.helping import examples
from penstock.cli.usage import Commands

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


if __name__ == "__main__":
    main()
