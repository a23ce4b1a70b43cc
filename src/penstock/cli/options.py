"""The options that several commands share, and the parser of those that are durations."""

from collections.abc import Callable
from typing import Annotated, Final, Literal

import typer

from penstock.cli.database_url import checked_database

Output = Literal["text", "json"]

DATABASE: Final = "sqlite:///penstock.db"
URL: Final = "http://127.0.0.1:8080"


def checked_url(url: str) -> str:
    """Return *url* if it is an address that can be asked.

    Raises:
        BadParameter: it is none that begins with http:// or https://.
    """
    from penstock.errors import BadParameter
    from penstock.wire.http import check_address

    try:
        return check_address(url)
    except BadParameter as error:
        raise typer.BadParameter(f"{error.value!r} is not {error.allowed}") from error


def duration_parser(least: float, most: float | None = None) -> Callable[[object], float]:
    """Return the parser of an option that is a duration, such as `30s` or `15m`.

    It returns the duration's seconds, from *least* to *most*.
    """

    def parse(given: object) -> float:
        from penstock.core.times import EXAMPLES, format_duration, parse_duration

        try:
            seconds = parse_duration(str(given))
        except ValueError:
            raise typer.BadParameter(f"{given!r} is not {EXAMPLES}") from None
        if seconds < least or (most is not None and seconds > most):
            bounds = f"{format_duration(least)} or more" if most is None else f"{least:g} to {format_duration(most)}"
            raise typer.BadParameter(f"{given!r} is not {bounds}")
        return seconds

    return parse


DatabaseOption = Annotated[
    str,
    typer.Option(
        "--database",
        envvar="PENSTOCK_DATABASE",
        help="sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
        callback=checked_database,
    ),
]
UrlOption = Annotated[
    str, typer.Option("--url", envvar="PENSTOCK_URL", help="The hub's address.", callback=checked_url)
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", envvar="PENSTOCK_OUTPUT", help="text is for people, json for programs.")
]
